"""Diagnosis of runs that no trainer writes: wild numbers, odd settings, any subset of columns of any tool."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.cli.common import json_text
from grpo_plan.cli.diagnose import Answer
from grpo_plan.cli.diagnose_ahead import Limit, look_ahead, what_if
from grpo_plan.cli.page import page_markdown, page_text
from grpo_plan.cli.run_options import parse_config
from grpo_plan.errors import DomainError
from grpo_plan.quantities.names import NAMES
from grpo_plan.run_log import RunLog
from grpo_plan.runs.clustered import clustered_share
from grpo_plan.runs.detectors.registry import detectors
from grpo_plan.runs.diagnosis import Diagnosis, diagnose
from grpo_plan.runs.forecast import forecast
from grpo_plan.runs.series import as_steps, share_over
from grpo_plan.runs.settings import LARGEST_GROUP, MOST_PROMPTS, DiagnosisSettings
from grpo_plan.runs.shares import group_shares
from grpo_plan.runs.tame import tamed
from grpo_plan.runs.trend import trend
from tests.made_runs import made_groups
from tests.runs import expectation, run_of

DEAD_NAMES = (
    "frac_reward_zero_std", "zvf", "gu", "env/all/by_group/frac_mixed", "solve_none/all", "solve_all/all",
    "batch/solve_none", "batch/solve_all", "group/all_correct_groups_ratio", "group/all_incorrect_groups_ratio",
    "rollout/zero_std/count_0", "reward/num_zero_variance_filtered", "training/filter_groups/evicted_samples",
    "reward_std", "rewards/accuracy/mean", "rewards/accuracy/std", "critic/advantages/max", "critic/advantages/min",
    "advantages/std", "real_batch_size_ratio", "dynamic_filtering_pass_rate", "group_size", "num_gen_batches",
)  # fmt: skip
SETTINGS: dict[str, tuple[object, ...]] = {
    "scale_rewards": ("group", "batch", True, 3, {}), "beta": (0, 0.04, "x", None, math.nan),
    "num_generations": (1, 8, 10**6, 0, -1, "8", 8.5, 10**400, math.inf), "prompts_per_step": (0, 1, 32, 10**12, 1e15),
    "algorithm.filter_groups.enable": (True, "yes"), "algorithm.filter_groups.max_num_gen_batches": (10, 0, math.nan),
    "dynamic_sample": (True,), "generation_batch_size": (256, 7), "max_steps": (0, 100, 10**18),
}  # fmt: skip
NO_NUMBER = re.compile(r"\b(nan|inf)\b")


def column(rng: np.random.Generator, n: int) -> Any:
    """A column of a log: what a trainer writes, or what it never should."""
    kinds = (
        lambda: np.zeros(n), lambda: np.ones(n), lambda: rng.random(n), lambda: rng.integers(0, 65, n) / 64,
        lambda: np.full(n, np.nan), lambda: np.where(rng.random(n) < 0.5, np.nan, rng.random(n)),
        lambda: rng.choice([np.inf, -np.inf, np.nan, 0.5, 1e308, -1e308, 1e-320], n),
        lambda: rng.normal(size=n) * rng.choice([1.0, 1e6, 1e150, 1e300]), lambda: 100.0 * rng.random(n),
        lambda: np.linspace(0.0, 1.0, n), lambda: np.linspace(1.0, 0.0, n), lambda: 1.0 * rng.integers(0, 300, n),
        lambda: rng.choice([0.0, 10.0], n), lambda: rng.choice([-1.0, 1.0], n),
    )  # fmt: skip
    return kinds[rng.integers(len(kinds))]()


def rewards(rng: np.random.Generator, kind: int, size: int) -> Any:
    """Rewards of a group: 0/1, {0, 10}, {-1, 1}, graded, partly missing or constant."""
    drawn = (rng.random(size) < rng.random() ** 2).astype(float)
    odd = (
        drawn,
        10 * drawn,
        2 * drawn - 1,
        rng.random(size),
        np.where(rng.random(size) < 0.3, np.nan, drawn),
        0 * drawn,
    )
    return odd[kind]


def any_run(seed: int) -> tuple[RunLog, Any, DiagnosisSettings]:
    """A run, a plan and settings from a seed alone."""
    rng = np.random.default_rng(seed)
    tools = [*NAMES, None]
    tool = tools[rng.integers(len(tools))]
    n = int(rng.choice([0, 1, 2, 5, 8, 9, 15, 16, 20, 30, 60, 200]))
    own = [x for names in NAMES.get(tool or "", {}).values() for x in names if rng.random() < 0.6]
    other = [str(x) for x in rng.choice(DEAD_NAMES, int(rng.integers(0, 12)))]
    metrics = {name: np.asarray(column(rng, n), dtype=float) for name in sorted({*own, *other})}
    first, gap = ((0, 1), (1, 10), (2**60, 1), (7, 3))[rng.integers(4)]
    steps = first + gap * np.arange(n, dtype=np.int64)
    config = {k: v[rng.integers(len(v))] for k, v in SETTINGS.items() if rng.random() < 0.25}
    groups = None
    if rng.random() < 0.35:
        kind, many = int(rng.integers(6)), int(rng.choice([1, 2, 5, 30, 100]))
        rows = [rewards(rng, kind, int(rng.choice([1, 2, 4, 8])) if rng.random() < 0.3 else 4) for _ in range(many)]
        at = np.sort(rng.choice(steps, many)) if n and rng.random() < 0.8 else np.full(many, -1)
        cut: dict[str, Any] = (
            {"truncated": np.array([int(rng.integers(-1, r.size + 1)) for r in rows])} if rng.random() < 0.5 else {}
        )
        threshold = 1.0 if kind != 3 or rng.random() < 0.5 else None
        groups = made_groups(
            rows, at.tolist(), threshold=threshold, filtered="kept" if rng.random() < 0.1 else None, **cut
        )
        steps = steps if metrics else np.unique(groups.step)
    run = RunLog(
        steps=steps, metrics=metrics, format="made", source="made | `by` <hand>", tool=tool, groups=groups, config=config,
        group_size=int(rng.choice([1, 2, 8, 10**6])) if rng.random() < 0.6 else None,
    )  # fmt: skip
    odd: dict[str, tuple[Any, ...]] = {
        "group_size": (1, 2, 8, LARGEST_GROUP), "prompts_per_step": (1, 16, 32, MOST_PROMPTS), "gpus": (8,),
        "usd_per_gpu_hour": (0.0, 2.0), "kl_coefficient": (0.0, 0.04), "level": (1e-9, 0.5, 1.0 - 1e-11),
        "false_alarm": (1e-12, 0.5, 0.99999), "dead_threshold": (0.0, 1.0), "late_share": (0.0, 1e-9, 1.0),
        "sustain_rows": (1, 10**9), "max_generation_batches": (1, 10),
    }  # fmt: skip
    given = {k: v[rng.integers(len(v))] for k, v in odd.items() if rng.random() < 0.3}
    plan = expectation(group_size=int(rng.choice([1, 4, 8]))) if rng.random() < 0.5 else None
    return run, plan, DiagnosisSettings(**given)


def sound(text: str) -> bool:
    """One line that says something, in finite numbers."""
    return bool(text.strip()) and "\n" not in text and NO_NUMBER.search(text) is None


def check_numbers(found: dict[str, Any], place: str) -> None:
    """Finite or None, shares within [0, 1], limits in order."""
    for name, value in found.items():
        assert value is None or isinstance(value, bool | str | int | float), (place, name)
        if isinstance(value, bool | str) or value is None:
            continue
        assert math.isfinite(value), (place, name, value)
        if name.endswith("fraction") or "_fraction_" in name:
            assert -1e-9 <= value <= 1.0 + 1e-9, (place, name, value)
        low, high = found.get(f"{name}_low"), found.get(f"{name}_high")
        assert low is None or low <= value * (1.0 + 1e-9) + 1e-9, (place, name)
        assert high is None or value <= high * (1.0 + 1e-9) + 1e-9, (place, name)


def check_diagnosis(found: Diagnosis) -> None:
    """What holds of every diagnosis of every run."""
    run, steps = found.run, found.run.steps
    assert found.verdict.strip()
    assert "\n" not in found.verdict
    assert not NO_NUMBER.search(found.verdict)
    ids = [*(f.id for f in found.findings), *(s.id for s in found.skipped), *(c.id for c in found.clear)]
    assert sorted(ids) == sorted(detectors())
    for f in found.findings:
        check_numbers(dict(f.evidence), f.id)
        if f.onset_step is not None:
            known = steps if run.groups is None else np.concatenate([steps, run.groups.step])
            assert known.min() <= f.onset_step <= known.max(), f.id
        for text in (f.says, f.remedy, f.reference, *(t for r in f.remedies for t in (r.action, r.expected, r.price))):
            assert sound(text), (f.id, text)
        for remedy in f.remedies:
            assert all(v is None or math.isfinite(v) for v in remedy.numbers.values()), (f.id, remedy.numbers)
        if (w := f.waste) is not None:
            numbers = {
                "r": w.rollouts,
                "r_low": w.rollouts_low,
                "r_high": w.rollouts_high,
                "h": w.gpu_hours,
                "u": w.usd,
            }
            check_numbers(numbers, f.id)
            assert all(v is None or v >= 0.0 for v in numbers.values())
    for id, said in [(s.id, s.needs) for s in found.skipped] + [(c.id, c.because) for c in found.clear]:
        assert sound(said), (id, said)
    for window in group_shares(found.facts):
        for name in ("dead", "mixed", "all_pass", "all_fail", "other_dead"):
            part = getattr(window, name)
            share = {"fraction": part.value, "fraction_low": part.low, "fraction_high": part.high}
            check_numbers(share if part.known else {}, name)


def whole_answer(seed: int) -> tuple[str, str, str]:
    """Text, Markdown and JSON of the diagnosis of a run."""
    run, plan, settings = any_run(seed)
    found = diagnose(run, plan, settings=settings)
    check_diagnosis(found)
    sizes, facts = [1, 4, LARGEST_GROUP], found.facts
    ahead = look_ahead(facts, [Limit(of="dead", at=0.8), Limit(of="all-pass", at=0.5)], None)
    answer = Answer(diagnosis=found, sizes=sizes, difficulty=what_if(facts, sizes), ahead=ahead)
    text = page_text(answer.page(unicode=bool(seed % 2)))
    assert not NO_NUMBER.search(text), NO_NUMBER.findall(text)
    return text, page_markdown(answer.page(unicode=True), run.source), json_text("diagnose", answer.document())


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_any_run_gets_a_sound_answer(first: int) -> None:
    for seed in range(first, first + 10):
        answer = whole_answer(seed)
        if seed % 10 == 0:
            assert whole_answer(seed) == answer


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_many_more_runs_get_a_sound_answer(first: int) -> None:
    for seed in range(first, first + 50):
        whole_answer(seed)


# Counts of very many groups: rounding hides less than one group, however many there are.


@pytest.mark.parametrize("groups", [32, 10**4, 10**7, 10**9])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.5, 0.41287849430676715])
@pytest.mark.parametrize("level", [1e-9, 0.95, 1.0 - 1e-11])
def test_a_share_lies_within_its_limits(groups: int, value: float, level: float) -> None:
    share = share_over(np.full(10, value), np.full(10, groups), level=level)
    assert share.value is not None
    assert 0.0 <= share.low <= share.value <= share.high <= 1.0
    assert share.low == 0.0 if value == 0.0 else share.low > 0.0
    assert share.high == 1.0 if value == 1.0 else share.high < 1.0


def test_more_groups_never_widen_the_limits() -> None:
    wide = [s.high - s.low for s in (share_over([0.5] * 10, 10**k, level=0.95) for k in range(1, 10))]
    assert wide == sorted(wide, reverse=True)
    assert wide[-1] == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(10**10), rel=1e-3)


def test_clusters_at_any_level_give_limits_around_the_share() -> None:
    for level in (1e-12, 1e-9, 0.5, 1.0 - 1e-12):
        share = clustered_share([1.0, 3.0, 0.0], [8.0] * 3, level=level)
        assert share.value is not None
        assert 0.0 <= share.low <= share.value <= share.high <= 1.0


# Steps beyond what float64 tells apart, values beyond what it squares.


def test_large_steps_are_small_ones_moved() -> None:
    rng = np.random.default_rng(3)
    values = np.clip(np.linspace(0.3, 0.5, 40) + rng.normal(0, 0.02, 40), 0, 1)
    near, far = (np.arange(40, dtype=np.int64) + base for base in (0, 2**60))
    one, other = trend(near, values), trend(far, values)
    assert (one.difference, one.low, one.high) == (other.difference, other.low, other.high)
    first, second = forecast(near, values, 0.6, groups=64), forecast(far, values, 0.6, groups=64)
    assert first.chance == second.chance
    assert np.array_equal(first.mid, second.mid)
    assert first.crossing is not None
    assert second.crossing == pytest.approx(2.0**60 + first.crossing, rel=1e-15)
    ends = np.array([-(2**63), 2**63 - 1])
    assert as_steps(ends)[0].tolist() == [0.0, 2.0**64]
    assert as_steps(ends)[1] == -(2**63)
    assert as_steps([])[0].size == 0
    assert as_steps([1.5, 2.5])[0].tolist() == [1.5, 2.5]


def test_counts_below_zero_are_no_share() -> None:
    evicted = np.where(np.arange(40) % 2 == 0, -32.0, 32.0)
    run = run_of("verl", {"training/filter_groups/evicted_samples": evicted}, config={"data.train_batch_size": 32})
    found = diagnose(run)
    check_diagnosis(found)
    assert found.facts.dead.rows == 20  # type: ignore[union-attr]


def test_wild_values_are_missing_and_said() -> None:
    wild = np.where(np.arange(40) % 4 == 0, 1e308, 0.5)
    run = run_of("trl", {"dead": np.full(40, 0.25), "reward": wild, "step_time": np.full(40, -np.inf)})
    found = diagnose(run)
    check_diagnosis(found)
    assert any("50 values of reward, step_time are infinite or beyond 1e+30" in note for note in found.run.notes)
    reward = found.facts.reward
    assert reward.rows == 30  # type: ignore[union-attr]
    assert tamed(found.run) is found.run
    assert run.notes == ()


def test_sizes_that_no_trainer_has_are_refused_or_not_known() -> None:
    for name, most in (("group_size", LARGEST_GROUP), ("prompts_per_step", MOST_PROMPTS)):
        DiagnosisSettings(**{name: most})
        with pytest.raises(DomainError, match=f"{name} must be at most"):
            DiagnosisSettings(**{name: most + 1})
    columns = {"dead": np.full(30, 0.25), "reward": np.full(30, 0.5)}
    for size, known in ((LARGEST_GROUP, LARGEST_GROUP), (LARGEST_GROUP + 1, None), (0, None)):
        assert diagnose(run_of("trl", columns, group_size=size)).facts.group_size == known
    for prompts, known in ((MOST_PROMPTS, MOST_PROMPTS), (MOST_PROMPTS + 1, None), (10**400, None), (math.nan, None)):
        run = run_of("trl", columns, config={"prompts_per_step": prompts})
        assert diagnose(run).facts.prompts_per_step == known


def test_dead_groups_of_very_large_groups_stay_a_share() -> None:
    fit = gp.fit_pass_rates(gp.Pilot.from_counts(np.array([1, 0]), np.array([2, 2])))
    values = [fit.dead(g) for g in (10**3, 10**4, 3 * 10**4, 10**5, 10**6)]
    for d in values:
        assert d.all_pass is not None
        assert d.all_fail is not None
        assert d.value is not None
        assert 0.0 <= d.all_pass <= 1.0
        assert 0.0 <= d.all_fail <= 1.0
        assert d.low <= d.value <= d.high
        assert d.value == pytest.approx(d.all_pass + d.all_fail) == pytest.approx(values[0].value)
        assert d.all_fail > d.all_pass  # the mean is a quarter


# Sources that are no log, and settings that are no settings.


def test_rollouts_are_no_log_of_metrics(tmp_path: Path) -> None:
    rows = [
        {"step": s, "prompt": "p", "completion": "c", "reward": float(i % 2)} for s in range(1, 9) for i in range(8)
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    groups = gp.read_run(path).groups
    assert groups is not None
    assert (groups.groups, groups.dead_groups) == (8, 0)
    resumed = [{"step": s, "my_metric": 0.5} for s in (*range(1, 9), *range(1, 9))]
    path.write_text("".join(json.dumps(row) + "\n" for row in resumed))
    assert gp.read_run(path).dropped == {"steps_logged_twice": 8}
    once = [{"step": 5, "frac_reward_zero_std": 0.5, "reward": 0.1 * i} for i in range(4)]
    path.write_text("".join(json.dumps(row) + "\n" for row in once))
    assert (
        "Every step is logged again and again (4 rows, steps: 1): the last row of each counts."
        in gp.read_run(path).notes
    )


@pytest.mark.parametrize(
    "text", ["a: &x {b: *x}", "a0: &a0 {x: 1}\n" + "".join(
        f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}\n" for i in range(1, 12))]
)  # fmt: skip
def test_settings_that_never_end_are_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("yaml", exc_type=ImportError)
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(DomainError, match="more than 100,000 settings, or nests them too deeply"):
        parse_config([str(path)])


def test_deep_settings_are_refused_and_many_are_not(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"a":' * 60 + "1" + "}" * 60)
    with pytest.raises(DomainError, match="nests them too deeply"):
        parse_config([str(path)])
    path.write_text(json.dumps({f"k{i}": {"a": {"b": i}} for i in range(5000)}))
    assert len(parse_config([str(path)])) == 5000
