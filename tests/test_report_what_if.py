"""The page's arithmetic: what the what-if tables give is what the library gives, to 1e-9."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo_plan.batches import refill
from grpo_plan.batches.effective import effective_batch
from grpo_plan.batches.waiting import EndlessPrompts, fewest_prompts
from grpo_plan.costs import Budget, CostModel
from grpo_plan.documents.plan import plan_document
from grpo_plan.documents.refill import refill_document
from grpo_plan.errors import InfeasiblePlanError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning.group_size import plan_group_size
from grpo_plan.planning.signal import KappaRange
from grpo_plan.report.laws import Waiting, binomial_quantiles, chance_of_fewer
from grpo_plan.report.recompute import recompute
from grpo_plan.report.refilling import multiplier_for
from grpo_plan.report.what_if import Preset, preset_tables
from grpo_plan.report.words import quoted
from grpo_plan.trainers.planned import PlannedRecipe

KAPPAS = KappaRange(low=1.0, high=300.0)
SIZES = [2, 3, 4, 8, 16, 64]
LEVEL = 0.95
MODELS = {
    "rollouts": CostModel(),
    "tokens": CostModel(pass_tokens=300.0, fail_tokens=800.0, prompt_tokens=90.0, prompt_rollouts=1.5),
    "time": CostModel(
        pass_tokens=300.0, fail_tokens=800.0, prompt_tokens=90.0, decode_tokens_per_s=1e4, train_tokens_per_s=3e4,
        prefill_tokens_per_s=1e5, reward_s=0.2, reward_parallel=16, step_overhead_s=7.0, gpus=8, usd_per_gpu_hour=2.5,
    ),
    "job": CostModel(
        pass_tokens=300.0, fail_tokens=800.0, prompt_tokens=90.0, job_tokens_per_s=2e4, gpus=4, trained="mixed",
    ),
}  # fmt: skip
PILOTS = {
    "ordinary": [0] * 40 + [1, 2, 3, 4, 5, 6, 7] * 5 + [8] * 30,
    "nearly all dead": [0] * 400 + [1] + [8] * 300,
    "hardly dead": [3, 4, 5] * 60,
}  # fmt: skip


@pytest.fixture(scope="module")
def fits() -> dict[str, PassRateFit]:
    return {name: fit_pass_rates(Pilot.from_counts(k, 8)) for name, k in PILOTS.items()}


@pytest.fixture(scope="module")
def tables(fits: dict[str, PassRateFit]) -> dict[str, Any]:
    """One table with a preset of each pilot and cost model."""
    presets = []
    for name, fit in fits.items():
        preset = Preset(label=name, threshold=None, fit=fit, cost=CostModel(), arguments=("a b.jsonl",))
        table = preset_tables(
            preset, SIZES, estimator="grpo", kappas=KAPPAS, measurement=None, coherence=0.01, level=LEVEL
        )
        presets += [{**table, "label": f"{name}, {model}", "cost": _cost(MODELS[model])} for model in MODELS]
    return {
        "version": 1, "level": LEVEL, "estimator": "grpo", "coherence": 0.01,
        "kappa": {"low": 1.0, "high": 300.0, "value": None, "measured": False, "shown": KAPPAS.shown().tolist()},
        "kappa_argument": "1:300", "arguments": [], "cost_arguments": [], "refill_arguments": [], "presets": presets,
    }  # fmt: skip


def _cost(model: CostModel) -> dict[str, Any]:
    from grpo_plan.report.what_if import cost_table

    return cost_table(model)


def assert_close(got: Any, wanted: Any, path: str = "", scale: float = 0.0) -> None:
    """The numbers of ``wanted`` that ``got`` has too; means of counts near 0 are differences of numbers of ``scale``."""
    if isinstance(wanted, Mapping):
        for key in wanted:
            if key in got:
                assert_close(got[key], wanted[key], f"{path}.{key}", scale)
    elif isinstance(wanted, float | int) and not isinstance(wanted, bool):
        assert got is not None, (path, wanted)
        assert math.isclose(got, wanted, rel_tol=1e-9, abs_tol=4e-15 * scale), (path, got, wanted)
    else:
        assert got == wanted or (isinstance(got, list) and np.allclose(got, wanted, rtol=1e-9)), (path, got, wanted)


def plan_of(fit: PassRateFit, model: CostModel, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The frontier that the command of a choice prints, by group size."""
    budget = Budget(
        rollouts=choice["budget_rollouts"], prompts_per_step=choice["prompts_per_step"], steps=choice["steps"]
    )
    kappa = KAPPAS if choice["kappa"] is None else choice["kappa"]
    model = replace(model, refill=choice["refill"], trained="mixed" if choice["refill"] else model.trained)
    plan = plan_group_size(
        fit, budget=budget, kappa=kappa, group_sizes=SIZES, cost=model, coherence=0.01, level=LEVEL
    )  # fmt: skip
    body = plan_document(plan, None, PlannedRecipe())
    best = {answer["kappa"]: answer for answer in body["sensitivity"]}
    return {"rows": {row["group_size"]: row for row in body["frontier"]}, "best": best}


counts_of = st.one_of(st.integers(1, 300), st.integers(300, 100_000))


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    fixed = draw(st.sampled_from(["steps", "budget", "neither", "no prompts"]))
    return {
        "preset": draw(st.integers(0, len(PILOTS) * len(MODELS) - 1)),
        "group_size": draw(st.sampled_from(SIZES)),
        "prompts_per_step": None if fixed == "no prompts" else draw(counts_of),
        "steps": draw(st.integers(1, 5000)) if fixed in ("steps", "no prompts") else None,
        "budget_rollouts": draw(st.integers(20_000, 10**9)) if fixed in ("budget", "no prompts") else None,
        "refill": draw(st.booleans()),
        "batch_multiplier": draw(st.sampled_from([None, 1.0, 1.37, 3.0])),
        "gen_batch_size": None,
        "max_rounds": draw(st.sampled_from([None, 1, 4])),
        "kappa": draw(st.sampled_from([None, 0.0, 12.5, 1000.0])),
    }


SMALL = {
    "preset": 0, "group_size": 4, "prompts_per_step": 3000, "steps": None, "budget_rollouts": 25_000, "refill": False,
    "batch_multiplier": None, "gen_batch_size": None, "max_rounds": None, "kappa": 12.5,
}  # fmt: skip


@given(choice=choices())
@example(choice=SMALL)  # sizes above 8 are not feasible: moments are those of the counts
@settings(max_examples=25)
def test_any_choice_is_what_its_command_plans(
    fits: dict[str, PassRateFit], tables: dict[str, Any], choice: dict[str, Any]
) -> None:
    name, model = tables["presets"][choice["preset"]]["label"].split(", ")
    found = recompute(tables, choice)
    try:
        planned = plan_of(fits[name], MODELS[model], choice)
    except InfeasiblePlanError:
        planned = {"rows": {}, "best": {}}
    row = planned["rows"].get(choice["group_size"])
    assert found["feasible"] == (row is not None)
    if row is None:
        assert found["reason"]
        return
    prompts = row["prompts_per_step"]
    assert found["design"] == {key: row[key] for key in found["design"]}
    assert_close(found["dead"], row["dead"])
    capped = choice["refill"] and choice["max_rounds"] is not None
    if not capped:  # a plan knows no cap
        assert_close(found["effective_batch"], row["effective_batch"], scale=64.0 * prompts)
    assert_close(found["cost"], {k: v for k, v in row["cost"].items() if k not in ("missing", "binding")})
    signal = row["signal"]
    for at, end in ((found["progress"][0], "low"), (found["progress"][-1], "high")):
        assert_close(at["ratio"], signal[f"progress_at_kappa_{end}"])
        assert at["best_group_size"] == planned["best"][at["kappa"]]["group_size"]
        assert at["flat_range"] == planned["best"][at["kappa"]]["flat_range"]
        if at["low"] is not None:
            assert_close([at["low"], at["high"]], signal[f"progress_at_kappa_{end}_limits"])
    if not capped:
        assert_close(found["noise_to_signal"], signal["noise_to_signal"])


@given(
    where=st.sampled_from(list(PILOTS)), size=st.sampled_from(SIZES), prompts=st.one_of(st.integers(1, 400), counts_of),
    multiplier=st.sampled_from([None, 1.0, 1.5, 4.0]), batch=st.sampled_from([None, 1, 0.3]),
    rounds=st.sampled_from([None, 1, 5]), steps=st.sampled_from([None, 1, 500]),
)  # fmt: skip
@settings(max_examples=20)
def test_a_refill_is_that_of_the_command(
    fits: dict[str, PassRateFit], tables: dict[str, Any], where: str, size: int, prompts: int,
    multiplier: float | None, batch: float | None, rounds: int | None, steps: int | None,
) -> None:  # fmt: skip
    preset = next(i for i, p in enumerate(tables["presets"]) if p["label"] == f"{where}, rollouts")
    gen = None if batch is None else max(1, round(batch * prompts))
    multiplier = None if gen is not None else multiplier
    choice = {
        "preset": preset, "group_size": size, "prompts_per_step": prompts, "steps": steps, "budget_rollouts": None,
        "refill": True, "batch_multiplier": multiplier, "gen_batch_size": gen, "max_rounds": rounds, "kappa": 5.0,
    }  # fmt: skip
    found = recompute(tables, choice)
    made = refill(
        fits[where], prompts_per_step=prompts, group_size=size, batch_multiplier=multiplier, gen_batch_size=gen,
        max_rounds=rounds, steps=steps, level=LEVEL,
    )  # fmt: skip
    wanted = refill_document(fits[where], made, [made], (), LEVEL)
    spread = {
        key: wanted.pop(key)["sd"]
        for key in ("rounds", "prompts", "rollouts")
        if wanted[key]["sd"] < 1e-4 * wanted[key]["mean"]
    }
    assert_close(found["refill"], wanted, scale=1e6)
    for key, sd in spread.items():  # a variance that is a small difference of large numbers
        assert math.isclose(found["refill"][key]["sd"], sd, rel_tol=1e-5, abs_tol=1e-7)
    assert found["refill"].keys() <= wanted.keys() | spread.keys()


@given(trials=st.integers(1, 100_000), logit=st.floats(-30.0, 12.0))
@settings(max_examples=40)
def test_quantiles_and_tails_near_the_ends(trials: int, logit: float) -> None:
    dead = 1.0 / (1.0 + math.exp(-logit))
    if not 0.0 < dead < 1.0:
        return
    law, waiting = EndlessPrompts(wanted=trials, dead=dead), Waiting(trials, dead)
    for tail in (0.95, 0.05):
        assert waiting.fewest(tail) == fewest_prompts(law, tail)
    prompts = max(trials, int(1.1 * law.mean))
    assert math.isclose(waiting.beyond(prompts), law.beyond(prompts), rel_tol=1e-10, abs_tol=1e-300)
    mean, sd = trials * (1.0 - dead), math.sqrt(trials * dead * (1.0 - dead))
    low, middle, high = binomial_quantiles(trials, dead, (0.05, 0.5, 0.95))
    assert low <= middle <= high
    assert abs(middle - mean) <= 1.0
    assert chance_of_fewer(trials, int(low), 1.0 - dead, dead) < 0.05 or low == 0.0 or sd == 0.0


def test_a_cap_is_in_all_that_a_choice_says(tables: dict[str, Any]) -> None:
    """One round of 100 prompts is 800 rollouts a step, in every number that tells what a run draws or holds."""
    choice = {
        **SMALL, "group_size": 8, "prompts_per_step": 100, "steps": 50, "budget_rollouts": None, "refill": True,
        "max_rounds": 1,
    }  # fmt: skip
    found, free = recompute(tables, choice), recompute(tables, {**choice, "max_rounds": None})
    dead = found["dead"]["value"]
    held = found["effective_batch"]["mixed_groups"]
    assert held["mean"] == found["refill"]["mixed_groups"]["value"] == pytest.approx(100 * (1 - dead))
    assert [held["p05"], held["p50"], held["p95"]] == binomial_quantiles(100, dead, (0.05, 0.5, 0.95))
    assert held["mean_low"] == pytest.approx(100 * (1 - found["dead"]["high"]))
    assert found["refill"]["rollouts"]["mean"] == 800.0
    assert found["cost_in_batches"]["rollouts"] == pytest.approx(800 * 50)
    assert found["cost_in_batches"]["trained_groups"] == pytest.approx(50 * held["mean"])
    assert found["cost_in_batches"]["at_dead_high"]["rollouts"] == pytest.approx(800 * 50)
    assert free["effective_batch"]["mixed_groups"]["mean"] == 100.0
    assert free["cost_in_batches"]["rollouts"] == pytest.approx(50 * free["refill"]["rollouts"]["mean"])
    assert free["cost_in_batches"]["rollouts"] > free["cost"]["rollouts"]  # whole batches, against one prompt at a time
    one_by_one = recompute(tables, {**choice, "max_rounds": None, "gen_batch_size": 1})
    for name in ("rollouts", "trained_groups", "rollout_equivalents"):
        assert one_by_one["cost_in_batches"][name] == pytest.approx(one_by_one["cost"][name], rel=1e-9)


def test_quantiles_are_those_of_the_effective_batch(fits: dict[str, PassRateFit]) -> None:
    for fit in fits.values():
        for prompts in (1, 7, 128, 4096, 99_999):
            mixed = effective_batch(fit, prompts_per_step=prompts, group_size=8).mixed_groups
            value = fit.dead(8).value
            assert value is not None
            assert binomial_quantiles(prompts, value, (0.05, 0.5, 0.95)) == [mixed.p05, mixed.p50, mixed.p95]


def test_a_wrong_table_is_noticed(fits: dict[str, PassRateFit], tables: dict[str, Any]) -> None:
    """The comparison can fail: a dead fraction that is off by 1e-8 is seen."""
    preset = tables["presets"][0]
    wrong = {**tables, "presets": [{**preset, "dead": [d * (1.0 + 1e-8) for d in preset["dead"]]}]}
    row = plan_of(fits["ordinary"], MODELS["rollouts"], SMALL)["rows"][4]
    assert_close(recompute(tables, SMALL)["effective_batch"], row["effective_batch"], scale=1.0)
    with pytest.raises(AssertionError):
        assert_close(recompute(wrong, SMALL)["effective_batch"], row["effective_batch"], scale=1.0)


def test_words_of_a_choice_are_a_command_line(tables: dict[str, Any]) -> None:
    choice = {**SMALL, "budget_rollouts": 50_000, "refill": True, "batch_multiplier": 1.5, "max_rounds": 4}
    commands = recompute(tables, choice)["commands"]
    assert shlex.split(commands["plan"])[:3] == ["grpo-plan", "plan", "a b.jsonl"]
    assert shlex.split(commands["refill"])[-8:] == [
        "--group-size", "4", "--batch-multiplier", "1.5", "--max-rounds", "4", "--steps", "1",
    ]  # fmt: skip
    assert [quoted(word) for word in ("", "a'b", "x\ny", "$HOME", "ok=1")] == [
        "''", "'a'\\''b'", "'x\ny'", "'$HOME'", "ok=1",
    ]  # fmt: skip
    assert multiplier_for(115, 100) == 1.16
