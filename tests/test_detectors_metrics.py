"""Metrics that are not what they look like, the penalty that moves dead groups, and refills that may not fill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan.batches import refill
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.runs.detectors.penalty import KEYS, penalty_of
from grpo_plan.runs.detectors.refill_caps import CAPS
from grpo_plan.runs.detectors.registry import detectors
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Severity
from grpo_plan.runs.settings import DiagnosisSettings
from tests.made_runs import clear, found, made_groups, made_run, outcome, skipped

DATA = Path(__file__).parent / "data"
FILTERED, FLAG, KL, CAP = "FILTERED_METRIC", "BATCH_SCALED_METRIC", "KL_ONLY_GRADIENT", "REFILL_CAP_RISK"
NAN = float("nan")
Floats = NDArray[np.float64]


def dapo(batches: Floats, tmp_path: Path, **more: float) -> gp.RunLog:
    """A log of TRL's names whose dead groups are filtered before the metric."""
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "step": i + 1,
            "reward": 0.45,
            "reward_std": 0.4,
            "frac_reward_zero_std": 0.0,
            "train/num_gen_batches": int(b),
            **more,
        }
        for i, b in enumerate(batches)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return gp.read_run(path)


# --- survivors only ----------------------------------------------------------------------------------------------


def test_a_metric_after_the_filter_is_told_with_what_was_thrown_away(tmp_path: Path) -> None:
    said = found(FILTERED, dapo(np.full(60, 5.0), tmp_path))
    assert said.severity is Severity.WARNING
    assert "between 60 and 80 %" in said.says.lower()
    assert "It reads 0 %" in said.says
    assert said.evidence["dead_fraction_least"] == pytest.approx(0.6)
    assert said.evidence["dead_fraction_most"] == pytest.approx(0.8)
    assert said.evidence["metric_late_mean"] == 0.0
    assert said.evidence["generation_batches_mean"] == 5.0


def test_a_refill_by_two_batches_is_worth_knowing_only(tmp_path: Path) -> None:
    said = found(FILTERED, dapo(np.full(60, 2.0), tmp_path))
    assert said.severity is Severity.INFO
    assert said.evidence["known_otherwise"] is True


def test_where_nothing_else_tells_a_filtered_metric_is_a_warning() -> None:
    said = found(
        FILTERED,
        made_run(
            {"frac_reward_zero_std": [0.0] * 40, "reward": [0.5] * 40},
            config={"dynamic_sample": True, "scale_rewards": "group"},
        ),
    )
    assert said.severity is Severity.WARNING
    assert said.evidence["known_otherwise"] is False
    assert said.evidence["dead_fraction_least"] is None


def test_shares_after_query_filtering_are_told() -> None:
    names = ("group/all_correct_groups_ratio", "group/all_incorrect_groups_ratio", "scheduler/query_filter_count")
    said = found(FILTERED, made_run({n: [0.1] * 20 for n in names}, tool="roll"))
    assert said.severity is Severity.WARNING
    clear(FILTERED, made_run({n: [0.1] * 20 for n in names[:2]}, tool="roll"))


def test_a_share_of_all_groups_beside_it_makes_it_harmless() -> None:
    metrics = {"frac_reward_zero_std": [0.0] * 40, "dapo/kept_prompts_ratio": [0.4] * 40}
    assert found(FILTERED, made_run(metrics)).severity is Severity.INFO
    clear(FILTERED, made_run({"dapo/kept_prompts_ratio": [0.4] * 40}))


def test_dumps_of_survivors_are_told() -> None:
    said = found(FILTERED, gp.read_run(DATA / "open_instruct"))
    assert "the dump of rollouts holds only groups that were kept" in said.says


@pytest.mark.parametrize("name", ["trl/binary", "trl/none2", "trl/gap", "tinker/run", "prime_rl/v0.8", "slime"])
def test_unfiltered_runs_have_no_misleading_metric(name: str) -> None:
    if name == "slime":
        pytest.importorskip("torch", exc_type=ImportError)
    run = gp.read_run(DATA / name)
    clear(FILTERED, run)
    clear(FLAG, run)


# --- flags of the whole batch ------------------------------------------------------------------------------------


def test_the_flag_of_a_batch_scaled_run_of_trl_is_caught() -> None:
    """TRL 1.16's own log: 0.0 at every step, while 2 of 4 groups are dead at steps 2, 3, 7 and 9."""
    said = found(FLAG, gp.read_run(DATA / "trl" / "batchstd"))
    assert said.severity is Severity.WARNING
    assert said.onset_step == 2
    assert said.evidence["metric_mean"] == 0.0
    assert said.evidence["dead_fraction"] == pytest.approx(10 / 36)
    assert "scale_rewards is 'batch'" in str(said.evidence["because"])


def flagged(values: list[float], config: Mapping[str, object], groups: Any = None) -> gp.RunLog:
    return made_run({"frac_reward_zero_std": values, "reward": [0.5] * len(values)}, config=config, groups=groups)


def test_a_sure_flag_without_rollouts_is_a_warning_and_a_likely_one_is_not() -> None:
    batch = {"scale_rewards": "batch"}
    assert found(FLAG, flagged([0.0] * 40, batch)).severity is Severity.WARNING
    assert "log_completions" in found(FLAG, flagged([0.0] * 40, batch)).remedy
    assert (
        found(FLAG, flagged([0.0] * 40, {"multi_objective_aggregation": "normalize_then_sum"})).severity
        is Severity.WARNING
    )
    assert found(FLAG, flagged([0.0] * 40, {})).severity is Severity.INFO
    clear(FLAG, flagged([0.0] * 40, {"scale_rewards": "group"}))
    clear(FLAG, flagged([0.25, 0.5] * 20, {}))


def test_rollouts_settle_what_the_metric_is() -> None:
    mixed = made_groups([[0, 1, 0, 1]] * 80, [i // 4 + 1 for i in range(80)])
    half = made_groups([[0, 1, 0, 1], [1] * 4] * 40, [i // 4 + 1 for i in range(80)])
    values = [0.0] * 20
    agree = found(FLAG, flagged(values, {"scale_rewards": "batch"}, mixed))
    assert agree.severity is Severity.INFO
    assert "as it reads" in agree.says
    clear(FLAG, flagged(values, {}, mixed))
    apart = found(FLAG, flagged(values, {}, half))
    assert apart.severity is Severity.WARNING
    assert apart.onset_step == 1


def test_logs_without_the_metric_have_no_flag() -> None:
    clear(FLAG, made_run({"reward": [0.5] * 20}))
    clear(FLAG, made_run(rows=0))
    clear(FLAG, made_run({"frac_reward_zero_std": [NAN] * 5}, config={"scale_rewards": "group"}))
    nothing = found(FLAG, made_run({"frac_reward_zero_std": [NAN] * 5}, config={"scale_rewards": "batch"}))
    assert nothing.evidence["metric_mean"] is None


# --- the penalty -------------------------------------------------------------------------------------------------


def penal(dead: float, rewards: Floats, config: dict[str, object] | None = None, **more: Any) -> gp.RunLog:
    n = rewards.size
    values = np.round(64 * dead + np.resize([-1, 0, 1], n)) / 64
    metrics = {
        "frac_reward_zero_std": values,
        "reward": rewards,
        "rewards/correct/std": np.sqrt(rewards * (1 - rewards)),
    }
    metrics |= {"rewards/correct/mean": rewards}
    return made_run(metrics, config={"scale_rewards": "group", "beta": 0.04, **(config or {})}, **more)


STILL = np.round(64 * (0.3 + 0.02 * np.sin(np.arange(200)))) / 64


def test_dead_groups_under_a_penalty_are_worth_knowing_and_a_warning_where_nothing_is_learnt() -> None:
    said = found(KL, penal(0.8, STILL), prompts_per_step=64)
    assert said.severity is Severity.WARNING
    assert said.evidence["kl_coefficient"] == 0.04
    assert said.evidence["penalty_in"] == "loss"
    assert found(KL, penal(0.5, STILL), prompts_per_step=64).severity is Severity.INFO
    rising = np.linspace(0.2, 0.6, 200)
    assert found(KL, penal(0.8, rising), prompts_per_step=64).severity is Severity.INFO
    assert found(KL, penal(0.8, STILL[:20]), prompts_per_step=64).severity is Severity.INFO  # 20 rows are too few
    clear(KL, penal(0.05, STILL), prompts_per_step=64)


def test_a_share_that_may_lie_below_the_mark_is_no_warning() -> None:
    """Ten groups a step: 72 % of them are dead late in the run, and it may as well be 65 %."""
    said = found(KL, penal(0.72, STILL[:40]), prompts_per_step=10)
    low, high = said.evidence["late_dead_fraction_low"], said.evidence["late_dead_fraction_high"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 0.70 < high
    assert said.severity is Severity.INFO
    assert found(KL, penal(0.72, STILL), prompts_per_step=10_000).severity is Severity.WARNING


def test_no_penalty_no_pull() -> None:
    assert "beta: 0 or off" in clear(KL, penal(0.8, STILL, {"beta": 0.0})).because
    assert "as given" in clear(KL, penal(0.8, STILL), kl_coefficient=0.0).because
    assert found(KL, penal(0.8, STILL, {"beta": 0.0}), kl_coefficient=0.1).evidence["kl_coefficient"] == 0.1


def test_an_unknown_weight_is_asked_for_and_kl_that_is_logged_says_it_is_there() -> None:
    bare = made_run({"frac_reward_zero_std": [0.5, 0.25] * 20, "reward": [0.5] * 40})
    assert "(beta), or kl_coefficient of DiagnosisSettings" in skipped(KL, bare).needs
    logged = made_run({"frac_reward_zero_std": [0.5, 0.25] * 20, "reward": [0.5] * 40, "kl": [0.01] * 40})
    said = found(KL, logged, prompts_per_step=64)
    assert said.evidence["kl_coefficient"] is None
    assert said.evidence["late_kl_mean"] == pytest.approx(0.01)


def test_groups_that_are_dropped_are_not_pulled() -> None:
    run = made_run({"dapo/kept_prompts_ratio": [0.3] * 40}, config={"beta": 0.04})
    assert "dropped before training" in clear(KL, run).because
    skipped(KL, made_run({"reward": [0.5] * 20}, config={"beta": 0.04}))  # the dead fraction


@pytest.mark.parametrize(
    ("tool", "config", "weight", "place"),
    [
        (
            "verl",
            {"actor_rollout_ref.actor.use_kl_loss": True, "actor_rollout_ref.actor.kl_loss_coef": 0.001},
            0.001,
            "loss",
        ),
        ("verl", {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.01}, 0.01, "reward"),
        ("verl", {"actor_rollout_ref.actor.use_kl_loss": False, "algorithm.use_kl_in_reward": False}, 0.0, "loss"),
        ("easyr1", {"algorithm.kl_coef": 0.01, "algorithm.disable_kl": True}, 0.0, "loss"),
        ("easyr1", {"algorithm.kl_coef": "1.0e-2", "algorithm.disable_kl": False}, 0.01, "loss"),
        ("openrlhf", {"algo.kl.init_coef": 1e-3, "algo.kl.use_loss": True}, 1e-3, "loss"),
        ("openrlhf", {"init_kl_coef": 1e-3}, 1e-3, "reward"),
        ("nemo-rl", {"loss_fn.reference_policy_kl_penalty": 0}, 0.0, "loss"),
        ("skyrl", {"trainer.algorithm.use_kl_loss": True, "trainer.algorithm.kl_loss_coef": 0.002}, 0.002, "loss"),
        ("slime", {"use_kl_loss": True, "kl_loss_coef": 0.003}, 0.003, "loss"),
        ("tinker", {"kl_penalty_coef": 0.5}, 0.5, "reward"),
        ("trl", {"beta": True}, None, ""),
        ("trl", {"beta": NAN}, None, ""),
        ("verl", {"actor_rollout_ref.actor.kl_loss_coef": 0.001}, None, ""),
    ],
)
def test_the_weight_is_read_from_the_settings_of_each_tool(
    tool: str, config: dict[str, object], weight: float | None, place: str
) -> None:
    told = penalty_of(Facts(made_run({"reward": [0.5]}, tool=tool, config=config)))
    if weight is None:
        assert told is None
    else:
        assert told is not None
        assert (told.weight, told.place) == (weight, place)
    assert tool in KEYS


def test_a_penalty_in_the_reward_is_scaled_up_in_dead_groups() -> None:
    names = ("batch/solve_none", "batch/solve_all")
    metrics = {names[0]: [0.5, 0.4] * 20, names[1]: [0.3, 0.2] * 20, "critic/score/mean": [0.3] * 40}
    config = {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.01}
    said = found(KL, made_run(metrics, tool="verl", config=config), prompts_per_step=64)
    assert said.evidence["before_scaling"] is True
    assert "scaled up to a full advantage" in said.says
    assert "into the loss" in said.remedy


# --- refills -----------------------------------------------------------------------------------------------------


def nemo(batches: Floats, **config: object) -> gp.RunLog:
    settings = {"grpo.use_dynamic_sampling": True, "grpo.num_prompts_per_step": 32, **config}
    metrics = {"dynamic_sampling_num_gen_batches": batches, "reward": np.full(batches.size, 0.4)}
    return made_run(metrics, tool="nemo-rl", config=settings)


def drawn(dead: float, rows: int = 100, wanted: int = 32, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    prompts = wanted + rng.negative_binomial(wanted, 1 - dead, rows)
    return np.ceil(prompts / wanted)


def test_a_refill_near_its_cap_is_a_warning_with_its_chance() -> None:
    said = found(CAP, nemo(drawn(0.85), **{"grpo.max_num_steps": 500}))
    assert said.severity is Severity.WARNING
    assert said.evidence["cap_batches"] == 10
    assert said.evidence["steps_left"] == 400
    assert said.evidence["steps_left_known"] is True
    assert float(said.evidence["dead_fraction_low"] or 1) < 0.85 < float(said.evidence["dead_fraction_high"] or 0)
    assert "NeMo-RL stops the run with an error there" in said.says


def test_the_chance_is_that_of_a_refill_of_that_dead_fraction() -> None:
    said = found(CAP, nemo(drawn(0.85)))
    dead = said.evidence["dead_fraction"]
    assert isinstance(dead, float)
    fit = fit_pass_rates(Pilot.from_counts([0] * 850 + [4] * 150, 8))
    twin = refill(fit, prompts_per_step=32, group_size=8, max_rounds=10)
    assert twin.at_value.cap_probability is not None
    at = [float(said.evidence[k] or 0) for k in ("chance_per_step_low", "chance_per_step", "chance_per_step_high")]
    assert at == sorted(at)
    if abs(twin.at_value.dead_fraction - dead) < 0.02:
        assert at[0] <= twin.at_value.cap_probability <= at[2]


def test_the_onset_is_the_first_step_at_the_cap() -> None:
    batches = np.full(60, 2.0)
    batches[[25, 40]] = 10.0
    said = found(CAP, nemo(batches))
    assert said.onset_step == 26
    assert said.evidence["steps_at_cap"] == 2
    risky = found(CAP, nemo(np.minimum(drawn(0.85), 9.0)))  # a chance alone has no onset
    assert risky.onset_step is None


def test_a_refill_far_from_its_cap_is_clear() -> None:
    assert "the largest took" in clear(CAP, nemo(drawn(0.4))).because
    clear(CAP, nemo(np.ones(50)))


def test_a_lower_cap_of_the_settings_counts() -> None:
    run = nemo(drawn(0.7), **{"grpo.dynamic_sampling_max_gen_batches": 5})
    assert found(CAP, run).evidence["cap_batches"] == 5
    clear(CAP, nemo(drawn(0.7)))
    assert found(CAP, nemo(drawn(0.7)), max_generation_batches=5).evidence["cap_batches"] == 5


def test_larger_generation_batches_are_counted() -> None:
    rng = np.random.default_rng(0)
    prompts = 32 + rng.negative_binomial(32, 0.15, 100)
    config: dict[str, object] = {"grpo.batch_multiplier": 2.0, "grpo.dynamic_sampling_max_gen_batches": 5}
    said = found(CAP, nemo(np.ceil(prompts / 64), **config))
    assert float(said.evidence["dead_fraction_low"] or 1) < 0.85 < float(said.evidence["dead_fraction_high"] or 0)


def test_ms_swift_goes_on_at_its_cap_with_what_it_has(tmp_path: Path) -> None:
    metrics = {"frac_reward_zero_std": np.zeros(40), "reward": np.full(40, 0.4), "num_gen_batches": np.full(40, 3.0)}
    said = found(CAP, made_run(metrics, tool="ms-swift", config={"dynamic_sample": True}))
    assert said.severity is Severity.WARNING
    assert said.evidence["steps_at_cap"] == 40
    assert said.onset_step == 1
    assert "dead groups included" in said.says
    assert said.evidence["stops_the_run"] is False


def test_a_cap_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    run = dapo(np.full(60, 5.0), tmp_path)
    assert "max_generation_batches" in skipped(CAP, run).needs
    said = found(CAP, run, max_generation_batches=6, prompts_per_step=32)
    assert said.severity is Severity.WARNING
    assert said.evidence["steps_left_known"] is False
    assert found(CAP, run, max_generation_batches=5).evidence["steps_at_cap"] == 60


def test_newer_verl_has_no_cap_and_easyr1_can_turn_it_off() -> None:
    verl = {"algorithm.filter_groups.enable": True, "data.train_batch_size": 64}
    metrics = {"training/filter_groups/evicted_samples": [60.0] * 40, "critic/score/mean": [0.4] * 40}
    assert "without a limit" in clear(CAP, made_run(metrics, tool="verl", config=verl)).because
    easy = {"algorithm.online_filtering": True, "trainer.max_try_make_batch": -1}
    assert "no limit" in clear(CAP, made_run({"critic/score/mean": [0.4] * 40}, tool="easyr1", config=easy)).because
    del easy["trainer.max_try_make_batch"]
    assert (
        "generation batches of each step"
        in skipped(CAP, made_run({"critic/score/mean": [0.4] * 40}, tool="easyr1", config=easy)).needs
    )


def test_the_recipe_of_verl_stops_at_its_cap() -> None:
    config = {
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.max_num_gen_batches": 4,
        "data.train_batch_size": 32,
    }
    metrics = {"train/num_gen_batches": drawn(0.72), "critic/score/mean": np.full(100, 0.4)}
    said = found(CAP, made_run(metrics, tool="verl", config=config))
    assert said.severity is Severity.WARNING
    assert said.evidence["stops_the_run"] is True


def test_where_there_is_no_refilling_there_is_no_risk() -> None:
    assert "no refilling" in clear(CAP, made_run({"reward": [0.5] * 20})).because
    clear(CAP, made_run(rows=0))
    clear(CAP, made_run({"num_gen_batches": [1.0] * 20, "reward": [0.5] * 20}))


def test_batches_that_cannot_be_of_the_size_in_the_settings_tell_no_dead_fraction() -> None:
    config = {"algorithm.filter_groups.enable": True, "algorithm.filter_groups.max_num_gen_batches": 40}
    config |= {"data.train_batch_size": 32, "data.gen_batch_size": 1}
    metrics = {"train/num_gen_batches": drawn(0.65), "critic/score/mean": np.full(100, 0.4)}
    said = outcome(CAP, made_run(metrics, tool="verl", config=config))
    assert not hasattr(said, "evidence")


def test_rows_that_are_means_of_steps_do_not_tell_the_dead_fraction() -> None:
    run = nemo(np.full(40, 2.5))
    said = outcome(CAP, run)
    assert said.id == CAP
    assert not hasattr(said, "evidence")


def test_caps_name_a_default_only_where_the_tool_has_one() -> None:
    assert {tool: cap.default for tool, cap in CAPS.items()} == {
        "verl": None, "nemo-rl": 10, "ms-swift": 3, "easyr1": 20, "skyrl": 30,
    }  # fmt: skip
    assert {tool for tool, cap in CAPS.items() if not cap.stops} == {"ms-swift"}


# --- all of them -------------------------------------------------------------------------------------------------

MINE = list(detectors())[-8:]


@pytest.mark.parametrize("id", MINE)
@pytest.mark.parametrize("size", [0, 1, 2, 15])
@pytest.mark.parametrize("value", [NAN, 0.0, 0.5, 1.0, 1e300])
def test_no_log_is_too_odd_for_a_check(id: str, size: int, value: float) -> None:
    names = (
        "frac_reward_zero_std", "reward", "reward_std", "completions/clipped_ratio", "kl", "num_gen_batches",
        "completions/mean_length",
    )  # fmt: skip
    share = value if not value > 1.0 else 1.0
    metrics = {
        name: np.full(size, share if name in ("frac_reward_zero_std", "completions/clipped_ratio") else value)
        for name in names
    }
    for config in ({}, {"scale_rewards": "batch"}, {"scale_rewards": "group", "beta": 0.1, "dynamic_sample": True}):
        said = outcome(id, made_run(metrics, config=config, rows=size), max_generation_batches=3, prompts_per_step=8)
        assert said.id == id


@pytest.mark.parametrize("id", MINE)
def test_healthy_runs_raise_no_warning(id: str) -> None:
    """30 runs of 100 steps at p from Beta(2, 2) and G = 8, 0.5 % failed, 3 % cut off, learning: no warning in any."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rewards, steps, cut, distinct = [], [], [], []
        for step in range(1, 101):
            for _ in range(8):
                p = rng.beta(2 + step / 50, 2)
                row = (rng.random(8) < p).astype(float)
                row[rng.random(8) < 0.005] = NAN
                rewards.append(row)
                steps.append(step)
                cut.append(rng.binomial(8, 0.03))
                distinct.append(max(int(np.isfinite(row).sum()) - rng.binomial(2, 0.02), 1))
        tokens: dict[str, Any] = {"response_tokens": np.full(800, 150.0), "measured": np.full(800, 8)}
        groups = made_groups(rewards, steps, truncated=cut, distinct=distinct, **tokens)
        run = made_run(groups=groups, config={"beta": 0.001, "scale_rewards": "group"})
        said = detectors()[id](Facts(run, DiagnosisSettings()))
        assert getattr(said, "severity", Severity.INFO) is Severity.INFO, said
