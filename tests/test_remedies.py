"""Costs of dead groups and remedies: exact sums, simulated logs of a known F, corners, hostile input."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import symbolic as eq
from grpo_plan.errors import DomainError
from grpo_plan.group_log import GroupLog
from grpo_plan.groups import dead_probability
from grpo_plan.run_log import RunLog
from grpo_plan.runs.advice import BY_COMPOSITION, KINDS, advise, kind_of_finding, with_advice
from grpo_plan.runs.composition_now import Composition, DeadKind, composition_of, kind_of
from grpo_plan.runs.difficulty import Difficulty, Undetermined, difficulty_of
from grpo_plan.runs.expectation import Expectation, Expected, ExpectedGroups
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Severity
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.remedies import ORDER, remedies_for, remedy_line
from grpo_plan.runs.remedy_numbers import (
    agreeing_levels,
    agreeing_split,
    dead_if_told_apart,
    dead_without,
    drawn_per_mixed,
    mixed_at_equal_rollouts,
    swapped_dead,
)
from grpo_plan.runs.remedy_rewards import told_apart
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.runs.waste import steps_behind, waste_of

G, N, STEPS = 8, 32, 50
HARD = (np.array([0.0, 0.02, 0.3, 0.7]), np.array([0.3, 0.4, 0.2, 0.1]))
EASY = (np.array([1.0, 0.98, 0.7, 0.3]), np.array([0.3, 0.4, 0.2, 0.1]))
ENDS = (np.array([0.0, 1.0, 0.5]), np.array([0.4, 0.4, 0.2]))
shares = st.floats(0.0, 1.0, allow_nan=False)
quick = settings(max_examples=60, deadline=None)


def passes_of(law: tuple[Any, Any], seed: int, steps: int = STEPS, n: int = N, g: int = G) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.binomial(g, rng.choice(law[0], p=law[1], size=(steps, n)))


def dead_at(law: tuple[Any, Any], g: int) -> float:
    return float(dead_probability(law[0], g) @ law[1])


def run_of(
    passes: np.ndarray, *, rollouts: bool = False, every: int = 1, seconds: float | None = 60.0, **more: Any
) -> RunLog:
    """A TRL log of such counts; its rows are means over ``every`` steps."""
    steps = passes.shape[0] // every
    blocks = passes.reshape(steps, -1)
    metrics = {
        "reward": blocks.mean(1) / G,
        "frac_reward_zero_std": np.isin(blocks, (0, G)).mean(1),
    }
    if seconds is not None:
        metrics["step_time"] = np.full(steps, seconds)
    groups = None
    if rollouts:
        flat, size = passes.ravel(), passes.size
        groups = GroupLog(
            step=np.repeat(np.arange(1, passes.shape[0] + 1), passes.shape[1]),
            prompt_id=np.array([f"q{i}" for i in range(size)], dtype=object),
            rollouts=np.full(size, G),
            scored=np.full(size, G),
            reward_min=(flat == G).astype(float),
            reward_max=(flat > 0).astype(float),
            reward_mean=flat / G,
            passes=flat.astype(np.int64),
            pass_threshold=1.0,
        )
    return RunLog(
        steps=every * np.arange(1, steps + 1), metrics={**metrics, **more}, format="test", source="test", tool="trl",
        group_size=G, groups=groups,
    )  # fmt: skip


def facts_of(
    passes: np.ndarray, *, known: dict[str, Any] | None = None, plan: Expectation | None = None, **how: Any
) -> Facts:
    chosen: dict[str, Any] = {"prompts_per_step": N, "gpus": 8, "usd_per_gpu_hour": 2.5} if known is None else known
    return Facts(run_of(passes, **how), DiagnosisSettings(**chosen), plan)


def finding_of(id: str, onset: int | None = None) -> Finding:
    return Finding(id=id, severity=Severity.WARNING, says="x", onset_step=onset, evidence={}, remedy="x", reference="x")


def series_of(low: list[float], high: list[float] | None = None, *, groups: int = N, known: bool = True) -> Measured:
    values = np.array(low) if high is None else 0.5 * (np.array(low) + np.array(high))
    from grpo_plan.quantities import Stage

    return Measured(
        name="dead_fraction", steps=np.arange(1, len(low) + 1), values=values,
        groups=np.full(len(low), groups, dtype=np.int64), groups_known=known, stage=Stage.UNFILTERED, words="test",
        low=None if high is None else np.array(low), high=None if high is None else np.array(high),
    )  # fmt: skip


def dead_of(facts: Facts) -> Measured:
    found = facts.dead
    assert isinstance(found, Measured)
    return found


def made(facts: Facts, kind: DeadKind) -> dict[str, Any]:
    return {r.action: r for r in remedies_for(facts, difficulty_of(facts), kind)}


def about(facts: Facts, kind: DeadKind, word: str) -> Any:
    return next(r for action, r in made(facts, kind).items() if word in action)


# --- theory ------------------------------------------------------------------------------------------------------


def test_eq_97_by_counting_every_rollout() -> None:
    passes = passes_of(HARD, 1)
    facts = facts_of(passes)
    waste = waste_of(facts, dead_of(facts))
    truth = G * int(np.isin(passes, (0, G)).sum())
    assert waste.rollouts == pytest.approx(truth) == waste.rollouts_low == waste.rollouts_high
    shares_of = [sp.Rational(int(np.isin(row, (0, G)).sum()), N) for row in passes]
    assert int(eq.dead_rollouts(shares_of, [N] * STEPS, G)) == truth
    hours = float(eq.dead_gpu_hours(shares_of, [1] * STEPS, [60] * STEPS, 8))
    assert waste.gpu_hours == pytest.approx(hours)
    assert waste.usd == pytest.approx(2.5 * hours)
    assert (waste.steps, waste.missing) == (STEPS, {})
    beyond = waste_of(facts, dead_of(facts), beyond=0.5)
    assert beyond.rollouts == pytest.approx(float(eq.dead_rollouts(shares_of, [N] * STEPS, G, sp.Rational(1, 2))))
    assert beyond.gpu_hours == pytest.approx(
        float(eq.dead_gpu_hours(shares_of, [1] * STEPS, [60] * STEPS, 8, sp.Rational(1, 2)))
    )


def test_eq_98_swap_by_enumerating_a_mixture() -> None:
    w, q = sp.Rational(1, 4), sp.Rational(1, 3)
    rates, weights = (
        [sp.Integer(0), sp.Rational(1, 5), sp.Integer(1)],
        [sp.Rational(1, 2), sp.Rational(1, 4), sp.Rational(1, 4)],
    )
    for g in (2, 3, 8):
        whole = [(1 - w) * x for x in weights] + [w]
        mixed = sum(x * eq.dead(r, g) for x, r in zip(whole, [*rates, q], strict=True))
        d = sum(x * eq.dead(r, g) for x, r in zip(weights, rates, strict=True))
        assert sp.simplify(eq.swapped_dead(d, w, g, q) - mixed) == 0
        assert float(swapped_dead(float(d), 0.25, g, 1 / 3)) == pytest.approx(float(mixed), abs=1e-12)
        assert float(swapped_dead(float(d), 0.25, g)) == pytest.approx(float(eq.swapped_dead(d, w, g)))
        assert eq.swapped_dead(d, w, g) < mixed
        left = [(x, r) for x, r in zip(weights, rates, strict=True) if r != 1]
        rest = sum(x * eq.dead(r, g) for x, r in left) / sum(x for x, _ in left)
        a = sp.Rational(1, 4)
        assert sp.simplify(eq.dead_without(d, a) - rest) == 0
        assert float(dead_without(float(d), 0.25)) == pytest.approx(float(rest))
        everything = d - sum(x * (1 - r) ** g for x, r in zip(weights, rates, strict=True))
        assert eq.dead_without(d, everything) <= rest <= d  # A counts lucky groups too


def test_eq_98_mixed_groups_at_equal_rollouts() -> None:
    found = mixed_at_equal_rollouts(1024, [8, 16], [0.5, 0.25])
    assert found.tolist() == [float(eq.mixed_at_equal_rollouts(1024, g, d)) for g, d in ((8, 0.5), (16, 0.25))]


@pytest.mark.parametrize(("g", "levels"), [(2, 2), (3, 4), (5, 3), (4, 1)])
def test_eq_99_by_enumerating_all_rewards_of_a_group(g: int, levels: int) -> None:
    rows = list(itertools.product(range(levels), repeat=g))
    agree = sp.Rational(sum(len(set(row)) == 1 for row in rows), len(rows))
    assert eq.agreeing_levels(levels, g) == agree
    assert float(agreeing_levels(levels, g)) == pytest.approx(float(agree))
    q = sp.Rational(1, 7)
    chance = sum(
        q ** sum(row) * (1 - q) ** (g - sum(row)) for row in itertools.product((0, 1), repeat=g) if len(set(row)) == 1
    )
    assert float(agreeing_split(1 / 7, g)) == pytest.approx(float(chance))
    d, b = sp.Rational(7, 10), sp.Rational(1, 2)
    then = (d - b) + b * chance
    assert sp.simplify(eq.dead_if_told_apart(d, b, chance) - then) == 0
    assert float(dead_if_told_apart(0.7, 0.5, float(chance))) == pytest.approx(float(then))


def test_eq_99_uneven_chances_leave_more_dead_groups() -> None:
    even, uneven = float(agreeing_split(0.3, 8)), float(np.mean(agreeing_split([0.0, 0.6], 8)))
    assert uneven > even


@pytest.mark.parametrize("g", [2, 8])
def test_eq_99_by_simulation(g: int) -> None:
    """5 standard errors: false alarms below 1e-6."""
    rng = np.random.default_rng(3)
    p = rng.choice(HARD[0], p=HARD[1], size=40_000)
    k = rng.binomial(g, p)
    second = rng.binomial(g, 0.2, size=p.size)
    dead, fail = np.isin(k, (0, g)), k == 0
    then = (dead & ~fail) | (fail & np.isin(second, (0, g)))
    found = float(dead_if_told_apart(dead.mean(), fail.mean(), agreeing_split(0.2, g)))
    assert abs(then.mean() - found) < 5 * math.sqrt(0.25 / p.size)


# --- properties --------------------------------------------------------------------------------------------------


@quick
@given(d=shares, part=shares, c=shares, w=shares, g=st.integers(2, 40))
def test_numbers_stay_in_order(d: float, part: float, c: float, w: float, g: int) -> None:
    part = min(part, d)
    assert -1e-12 <= float(dead_if_told_apart(d, part, c)) <= d + 1e-12
    if part < 1.0:
        assert -1e-12 <= float(dead_without(d, part)) <= d + 1e-12
        assert float(dead_without(d, 0.5 * part)) >= float(dead_without(d, part)) - 1e-9
    low, high = float(swapped_dead(d, w, g)), float(swapped_dead(d, w, g, 0.25))
    assert low <= high + 1e-12
    assert float(drawn_per_mixed(d)) >= 1.0


@quick
@given(values=st.lists(st.tuples(shares, shares), min_size=1, max_size=8), expected=shares, at=shares)
def test_waste_limits_hold_the_value_and_rise_with_the_share(
    values: list[tuple[float, float]], expected: float, at: float
) -> None:
    facts = facts_of(passes_of(HARD, 2, steps=8))
    low, high = [min(v) for v in values], [max(v) for v in values]
    bounded = waste_of(facts, series_of(low, high), beyond=expected)
    inner = [a + at * (b - a) for a, b in zip(low, high, strict=True)]
    exact = waste_of(facts, series_of(inner), beyond=expected)
    assert bounded.rollouts is None
    assert "rollouts" in bounded.missing
    assert bounded.rollouts_low is not None
    assert bounded.rollouts_high is not None
    assert exact.rollouts is not None
    assert bounded.rollouts_low - 1e-6 <= exact.rollouts <= bounded.rollouts_high + 1e-6
    more = waste_of(facts, series_of([min(v + 0.1, 1.0) for v in inner]), beyond=expected)
    assert more.rollouts is not None
    assert more.rollouts >= exact.rollouts - 1e-6


@quick
@given(d=st.tuples(shares, shares, shares), b=st.tuples(shares, shares, shares), c=shares)
def test_told_apart_limits_hold_every_pair_inside(d: tuple[float, ...], b: tuple[float, ...], c: float) -> None:
    d, b = tuple(sorted(d)), tuple(sorted(b))
    found = told_apart(
        Expected(value=d[1], low=d[0], high=d[2], level=0.95), Expected(value=b[1], low=b[0], high=b[2], level=0.95), c
    )
    for x in d:
        for y in b:
            if y <= x:
                assert found.low - 1e-12 <= float(dead_if_told_apart(x, y, c)) <= found.high + 1e-12


# --- waste -------------------------------------------------------------------------------------------------------


def test_rows_of_trl_are_means_over_steps_and_gaps_stay_gaps() -> None:
    passes = passes_of(HARD, 4)
    truth = G * int(np.isin(passes, (0, G)).sum())
    facts = facts_of(passes, every=10)
    waste = waste_of(facts, dead_of(facts))
    assert waste.rollouts == pytest.approx(truth)
    assert waste.steps == STEPS
    rows = np.array([0, 1, 3, 4])
    whole = run_of(passes, every=10)
    cut = RunLog(
        steps=whole.steps[rows], metrics={k: v[rows] for k, v in whole.metrics.items()}, format="test", source="test",
        tool="trl", group_size=G,
    )  # fmt: skip
    facts = Facts(cut, DiagnosisSettings(prompts_per_step=N))
    assert steps_behind(facts, dead_of(facts)).tolist() == [10, 10, 10, 10]
    assert waste_of(facts, dead_of(facts)).steps == 40
    late = dead_of(facts).take(slice(2, None))
    assert steps_behind(facts, late).tolist() == [10, 10]


def test_first_row_after_one_step_stands_for_one_step() -> None:
    run = RunLog(
        steps=np.array([1, 10, 20, 30]), metrics={"reward": np.full(4, 0.1), "frac_reward_zero_std": np.full(4, 0.5)},
        format="test", source="test", tool="trl", group_size=G,
    )  # fmt: skip
    facts = Facts(run, DiagnosisSettings(prompts_per_step=N))
    assert steps_behind(facts, dead_of(facts)).tolist() == [1, 9, 10, 10]


def test_verl_rows_are_single_steps() -> None:
    run = RunLog(
        steps=np.array([10, 20, 30]), metrics={"critic/score/mean": np.full(3, 0.2)}, format="test", source="test",
        tool="verl", group_size=G,
    )  # fmt: skip
    facts = Facts(run, DiagnosisSettings(prompts_per_step=N))
    assert waste_of(facts, series_of([0.5, 0.5, 0.5])).rollouts == pytest.approx(0.5 * 3 * N * G)


def test_rollouts_beside_the_metrics_are_counted_themselves() -> None:
    passes = passes_of(EASY, 5)
    run = run_of(passes, rollouts=True)
    bare = RunLog(
        steps=run.steps,
        metrics={"step_time": run.metrics["step_time"]},
        format="test",
        source="test",
        tool="trl",
        groups=run.groups,
    )
    facts = Facts(bare, DiagnosisSettings())
    waste = waste_of(facts, dead_of(facts))
    assert waste.rollouts == G * int(np.isin(passes, (0, G)).sum())
    assert isinstance(facts.all_pass, Measured)
    assert waste_of(facts, facts.all_pass).rollouts == G * int((passes == G).sum())


def test_rollouts_of_steps_between_rows_count_and_missing_ones_do_not() -> None:
    passes = passes_of(EASY, 5)
    run = run_of(passes, rollouts=True)
    assert run.groups is not None
    rows = np.arange(9, STEPS, 10)
    bare = RunLog(
        steps=run.steps[rows],
        metrics={"step_time": np.full(5, 60.0)},
        format="t",
        source="t",
        tool="trl",
        groups=run.groups,
    )
    facts = Facts(bare, DiagnosisSettings())
    waste = waste_of(facts, dead_of(facts))
    assert waste.rollouts == G * int(np.isin(passes, (0, G)).sum())
    assert waste.steps == STEPS
    few = RunLog(
        steps=run.steps[rows], metrics={}, format="t", source="t", tool="trl", groups=run.groups.window(31, 43)
    )
    facts = Facts(few, DiagnosisSettings())
    waste = waste_of(facts, dead_of(facts))
    assert waste.rollouts == G * int(np.isin(passes[30:40], (0, G)).sum())
    assert waste.steps == 10


def test_unknown_amounts_say_what_they_need() -> None:
    passes = passes_of(HARD, 6)
    facts = facts_of(passes, known={})
    waste = waste_of(facts, dead_of(facts))
    assert (waste.gpu_hours, waste.usd, waste.rollouts, waste.rollouts_high) == (None, None, None, None)
    assert waste.rollouts_low is not None
    assert 0.0 < waste.rollouts_low <= G * int(np.isin(passes, (0, G)).sum()) + 1e-6
    assert "--prompts-per-step" in waste.missing["rollouts"]
    assert "--gpus" in waste.missing["gpu_hours"]
    assert waste.missing["usd"] == "GPU-hours"
    facts = facts_of(passes, known={"prompts_per_step": N, "gpus": 4})
    waste = waste_of(facts, dead_of(facts))
    assert waste.gpu_hours is not None
    assert waste.usd is None
    assert "--usd-per-gpu-hour" in waste.missing["usd"]
    facts = facts_of(passes, known={"gpus": 4}, seconds=None)
    assert "step_time" in waste_of(facts, dead_of(facts)).missing["gpu_hours"]


def test_missing_times_are_left_out_and_said() -> None:
    passes = passes_of(HARD, 7)
    times = np.where(np.arange(STEPS) < 10, np.nan, 60.0)
    facts = facts_of(passes, step_time=times)
    waste, dead = waste_of(facts, dead_of(facts)), dead_of(facts)
    assert waste.gpu_hours == pytest.approx(float(dead.values[10:].sum()) * 60.0 * 8 / 3600)
    assert "10 of 50 rows" in waste.missing["gpu_hours"]


def test_a_refill_draws_more_groups_than_it_trains_on() -> None:
    from grpo_plan.quantities import Stage

    steps, batches = np.arange(1, 5), np.array([1.0, 2.0, 5.0, 3.0])
    run = RunLog(
        steps=steps, metrics={"num_gen_batches": batches, "reward": np.full(4, 0.5), "frac_reward_zero_std": np.zeros(4)}, format="t", source="t",
        tool="trl", group_size=G,
    )  # fmt: skip
    facts = Facts(run, DiagnosisSettings(prompts_per_step=N))
    dead = dead_of(facts)
    assert dead.stage is Stage.BEFORE
    waste = waste_of(facts, dead)
    assert waste.rollouts is None
    assert waste.rollouts_low == pytest.approx(G * N * np.maximum(batches - 2.0, 0.0).sum())
    assert waste.rollouts_high == pytest.approx(G * N * (batches - 1.0).sum())
    bare = Facts(
        RunLog(
            steps=steps,
            metrics={"critic/score/mean": np.full(4, 0.5)},
            format="t",
            source="t",
            tool="verl",
            group_size=G,
        ),
        DiagnosisSettings(prompts_per_step=N),
    )
    from dataclasses import replace

    exact = replace(series_of([0.5] * 4), stage=Stage.BEFORE)
    found = waste_of(bare, exact)
    assert found.rollouts is None
    assert found.rollouts_high is None
    assert found.rollouts_low == pytest.approx(0.5 * 4 * N * G)
    assert "batches" in found.missing["rollouts"]
    evicted = np.array([0.0, 32.0, 96.0, 8.0])
    told = Facts(
        RunLog(
            steps=steps,
            metrics={"training/filter_groups/evicted_samples": evicted},
            config={"data.train_batch_size": N},
            format="t",
            source="t",
            tool="verl",
            group_size=G,
        ),
        DiagnosisSettings(prompts_per_step=N),
    )
    assert dead_of(told).stage is Stage.BEFORE
    assert waste_of(told, dead_of(told)).rollouts == pytest.approx(G * evicted.sum())


def test_beyond_is_over_all_rows_together_and_never_negative() -> None:
    facts = facts_of(passes_of(HARD, 8))
    assert waste_of(facts, series_of([0.2, 0.8]), beyond=0.5).rollouts == pytest.approx(0.0)
    assert waste_of(facts, series_of([0.2, 0.2]), beyond=0.5).rollouts == 0.0
    with pytest.raises(DomainError, match="beyond"):
        waste_of(facts, series_of([0.2]), beyond=1.5)


# --- composition and pass rates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("law", "kind"), [(HARD, DeadKind.ALL_FAIL), (EASY, DeadKind.ALL_PASS), (ENDS, DeadKind.BOTH)])
@pytest.mark.parametrize("rollouts", [True, False])
def test_kind_of_dead_groups(law: tuple[Any, Any], kind: DeadKind, rollouts: bool) -> None:
    facts = facts_of(passes_of(law, 9), rollouts=rollouts)
    now = composition_of(facts)
    assert kind_of(now) is kind
    assert now.steps == (41, 50)
    assert now.dead is not None
    assert now.dead.low <= dead_at(law, G) <= now.dead.high


def test_kind_is_unknown_where_limits_say_nothing() -> None:
    facts = facts_of(passes_of(HARD, 9), known={}, reward=np.full(STEPS, np.nan))
    assert kind_of(composition_of(facts)) is DeadKind.UNKNOWN
    wide = Expected(value=None, low=0.0, high=0.9, level=0.95)
    assert kind_of(Composition(dead=wide, all_pass=wide, all_fail=wide, group_size=8, steps=None)) is DeadKind.UNKNOWN
    none, full = Expected(value=0.0, low=0.0, high=0.01, level=0.95), Expected(value=0.6, low=0.5, high=0.7, level=0.95)
    flat = Composition(dead=full, all_pass=none, all_fail=none, group_size=8, steps=None)
    assert kind_of(flat) is DeadKind.FLAT


@pytest.mark.parametrize("law", [HARD, EASY, ENDS], ids=["hard", "easy", "ends"])
@pytest.mark.parametrize("rollouts", [True, False], ids=["rollouts", "aggregates"])
def test_dead_fraction_at_other_group_sizes(law: tuple[Any, Any], rollouts: bool) -> None:
    found = difficulty_of(facts_of(passes_of(law, 11), rollouts=rollouts))
    assert isinstance(found, Difficulty)
    assert found.source == ("rollouts" if rollouts else "aggregates")
    assert "41 to 50" in found.rests_on
    for g in (2, 4, 8, 16, 32):
        at = found.at(g)
        assert at.dead.low <= dead_at(law, g) <= at.dead.high
        assert at.all_pass.low <= float(law[0] ** g @ law[1]) <= at.all_pass.high
        assert at.all_fail.low <= float((1.0 - law[0]) ** g @ law[1]) <= at.all_fail.high
        assert at.dead.value is not None
        assert at.dead.low <= at.dead.value <= at.dead.high
    assert found.at(16) is found.at(16)


@pytest.mark.slow
@pytest.mark.parametrize("rollouts", [True, False], ids=["rollouts", "aggregates"])
def test_limits_hold_as_often_as_they_say(rollouts: bool) -> None:
    """40 logs: at 95 %, more than 7 misses have chance below 0.2 %."""
    misses = 0
    for seed in range(40):
        found = difficulty_of(facts_of(passes_of(HARD, 100 + seed, steps=12), rollouts=rollouts))
        assert isinstance(found, Difficulty)
        at = found.at(16).dead
        misses += not at.low <= dead_at(HARD, 16) <= at.high
    assert misses <= 7


def test_a_doubtful_recovery_says_so() -> None:
    found = difficulty_of(facts_of(passes_of((np.array([0.0, 1.0]), np.array([0.5, 0.5])), 30)))
    assert isinstance(found, Difficulty)
    assert "Every group is dead" in found.at(16).says


def test_prompts_that_come_again_count_once() -> None:
    passes = passes_of(HARD, 12)
    run = run_of(passes, rollouts=True)
    assert run.groups is not None
    run.groups.prompt_id[:] = [f"q{i % 40}" for i in range(passes.size)]
    found = difficulty_of(Facts(run, DiagnosisSettings()))
    assert isinstance(found, Difficulty)
    assert found.fit is not None
    assert found.fit.pilot.prompts == 40
    last = {f"q{i % 40}": k for i, k in enumerate(passes.ravel())}
    assert found.fit.mean_pass_rate == pytest.approx(np.mean(list(last.values())) / G)
    assert "last visit" in found.rests_on
    run.groups.prompt_id[:] = "one"
    single = difficulty_of(Facts(run, DiagnosisSettings()))
    assert isinstance(single, Difficulty)
    assert single.fit is not None
    assert single.fit.pilot.prompts == 10 * N
    assert "come again" in single.rests_on


def test_what_does_not_tell_the_pass_rates_is_said() -> None:
    passes = passes_of(HARD, 13)
    graded = facts_of(passes, reward=np.linspace(0.1, 3.0, STEPS))
    assert "pass rate" in undetermined(graded)
    no_size = run_of(passes)
    bare = RunLog(steps=no_size.steps, metrics=no_size.metrics, format="t", source="t", tool="trl")
    assert "--group-size" in undetermined(Facts(bare, DiagnosisSettings()))
    nothing = RunLog(
        steps=no_size.steps,
        metrics={"reward": no_size.metrics["reward"]},
        format="t",
        source="t",
        tool="trl",
        group_size=G,
    )
    assert "dead fraction" in undetermined(Facts(nothing, DiagnosisSettings()))
    odd = facts_of(passes, frac_reward_zero_std=np.full(STEPS, 1 / 32), reward=np.arange(STEPS) / 256)
    assert "No distribution" in undetermined(odd)


def undetermined(facts: Facts) -> str:
    found = difficulty_of(facts)
    assert isinstance(found, Undetermined)
    assert not found
    return found.reason


# --- remedies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(DeadKind))
@pytest.mark.parametrize("how", ["rollouts", "aggregates", "bare", "empty"])
def test_every_remedy_has_limits_or_says_unknown(kind: DeadKind, how: str) -> None:
    passes = passes_of(ENDS, 14)
    facts = facts_of(passes, rollouts=how == "rollouts")
    if how == "bare":
        facts = Facts(RunLog(steps=np.arange(STEPS), metrics={"loss": np.zeros(STEPS)}, format="t", source="t"))
    if how == "empty":
        facts = Facts(RunLog(steps=np.arange(0), metrics={}, format="t", source="t"))
    found = remedies_for(facts, difficulty_of(facts), kind)
    assert found
    assert remedy_line(kind, composition_of(facts)).endswith(".")
    for remedy in found:
        assert remedy.action.endswith(".")
        assert remedy.expected
        assert remedy.price
        assert "nan" not in f"{remedy.expected}{remedy.price}".lower()
        for name, value in remedy.numbers.items():
            assert value is None or math.isfinite(value), name
        if how in ("bare", "empty"):
            said = remedy.expected.lower()
            assert any(
                w in said for w in ("unknown", "cannot tell", "no change", "no cap", "instead of", "fewer steps")
            ), said
        for name, value in remedy.numbers.items():  # value between its limits
            low, high = (remedy.numbers.get(x) for x in limit_names(name))
            if value is not None and low is not None and high is not None:
                assert low - 1e-9 <= value <= high + 1e-9, name


def limit_names(name: str) -> tuple[str, str]:
    head = next(
        (
            h
            for h in ("dead", "mixed_groups", "mixed", "share", "drawn_per_mixed", "gen_batch_size")
            if name.startswith(h)
        ),
        name,
    )
    tail = name.removeprefix(head)
    return f"{head}_low{tail}", f"{head}_high{tail}"


def test_larger_groups_have_fewer_dead_ones_but_also_fewer_mixed_ones() -> None:
    facts = facts_of(passes_of(ENDS, 15), rollouts=True)
    remedy = about(facts, DeadKind.BOTH, "group size")
    numbers = remedy.numbers
    for g in (8, 16, 32):
        assert numbers[f"dead_low_at_{g}"] <= dead_at(ENDS, g) <= numbers[f"dead_high_at_{g}"]
        mixed = float(N * G / g * (1.0 - dead_at(ENDS, g)))
        assert numbers[f"mixed_groups_low_at_{g}"] <= mixed <= numbers[f"mixed_groups_high_at_{g}"]
    assert numbers["dead_at_32"] <= numbers["dead_at_8"]
    assert numbers["mixed_groups_at_32"] < numbers["mixed_groups_at_8"]
    assert "not the goal" in remedy.price
    assert remedy.action == "Raise the group size from 8 to 16."


def test_swap_is_linear_and_a_bound() -> None:
    facts = facts_of(passes_of(HARD, 16))
    numbers = about(facts, DeadKind.ALL_FAIL, "easier prompts").numbers
    for w in (0.25, 0.5):
        best = (1.0 - w) * dead_at(HARD, G) + w * 2.0 ** (1 - G)
        worst = (1.0 - w) * dead_at(HARD, G) + w * float(dead_probability(0.25, G))
        assert numbers[f"dead_low_swapped_{w:g}"] <= best <= worst <= numbers[f"dead_high_swapped_{w:g}"]
        assert numbers[f"dead_low_swapped_{w:g}"] == pytest.approx((1 - w) * numbers["dead_low"] + w / 128)


def test_dropping_solved_prompts() -> None:
    facts = facts_of(passes_of(EASY, 17), rollouts=True)
    remedy = about(facts, DeadKind.ALL_PASS, "solved every time")
    law, weights = EASY
    truth = float(dead_probability(law[1:], G) @ weights[1:] / weights[1:].sum())
    numbers = remedy.numbers
    assert numbers["dead_low_without"] <= truth <= numbers["dead_high_without"]
    kept = weights * (1.0 - dead_probability(law, G))
    rest = float(dead_probability(law, G) @ kept / kept.sum())
    assert numbers["dead_low_rest"] <= rest <= numbers["dead_high_rest"]
    again = weights * law**G
    assert (
        numbers["mixed_low_again"]
        <= float((1 - dead_probability(law, G)) @ again / again.sum())
        <= numbers["mixed_high_again"]
    )


def test_refill_numbers_and_the_run_that_never_fills() -> None:
    from grpo_plan.batches.waiting import EndlessPrompts

    facts = facts_of(passes_of(HARD, 18))
    remedy = about(facts, DeadKind.ALL_FAIL, "dynamic sampling")
    numbers = remedy.numbers
    assert numbers["drawn_per_mixed_low"] <= 1.0 / (1.0 - dead_at(HARD, G)) <= numbers["drawn_per_mixed_high"]
    dead = composition_of(facts).dead
    assert dead is not None
    assert dead.value is not None
    law, size = EndlessPrompts(wanted=N, dead=dead.value), int(numbers["gen_batch_size"])
    assert law.beyond(size) <= 0.05 < law.beyond(size - 1)
    never = about(facts_of(np.zeros((STEPS, N), dtype=int)), DeadKind.ALL_FAIL, "before any refill")
    assert never.numbers["drawn_per_mixed"] is None
    assert "never fill" in never.expected
    refilling = facts_of(passes_of(HARD, 18), num_gen_batches=np.full(STEPS, 3.0))
    assert not any("dynamic sampling" in action for action in made(refilling, DeadKind.ALL_FAIL))


def test_second_reward_within_limits_of_the_truth() -> None:
    facts = facts_of(passes_of(HARD, 19), rollouts=True)
    numbers = about(facts, DeadKind.ALL_FAIL, "second one").numbers
    fail = float((1.0 - HARD[0]) ** G @ HARD[1])
    for q in (0.1, 0.5):
        truth = dead_at(HARD, G) - fail * (1.0 - q**G - (1.0 - q) ** G)
        assert numbers[f"dead_low_split_{q:g}"] <= truth <= numbers[f"dead_high_split_{q:g}"]
    assert numbers["dead_low_levels_3"] <= dead_at(HARD, G) - fail * (1.0 - 3.0**-7) <= numbers["dead_high_levels_3"]


def test_temperature_and_sign_promise_nothing() -> None:
    facts = facts_of(passes_of(HARD, 20))
    heat = about(facts, DeadKind.ALL_FAIL, "temperature")
    assert "grpo-plan temperature" in heat.expected
    assert heat.numbers["dead"] is None
    sign = about(facts, DeadKind.ALL_FAIL, "A = 2r - 1")
    assert sign.numbers["rollouts_with_advantage"] == 1.0
    assert "161" in sign.price
    assert "15 of centred" in sign.price
    assert not any("A = 2r - 1" in action for action in made(facts, DeadKind.ALL_PASS))


def test_first_remedy_fits_the_kind() -> None:
    facts = facts_of(passes_of(HARD, 21))
    first = {k: remedies_for(facts, difficulty_of(facts), k)[0].action for k in ORDER}
    assert "easier" in first[DeadKind.ALL_FAIL]
    assert "harder" in first[DeadKind.ALL_PASS]
    assert "scoring" in first[DeadKind.FAILED_SCORING]
    assert "longer responses" in first[DeadKind.TRUNCATED]
    assert "temperature above 0" in first[DeadKind.DUPLICATES]
    line = remedy_line(DeadKind.ALL_FAIL, composition_of(facts))
    assert "easier" in line
    assert "all-fail between" in line
    assert "harder" in remedy_line(DeadKind.ALL_PASS)


# --- advice ------------------------------------------------------------------------------------------------------


def test_findings_get_costs_and_remedies_once() -> None:
    facts = facts_of(passes_of(HARD, 22), rollouts=True)
    ids = [*KINDS, *sorted(BY_COMPOSITION), "SOMETHING_ELSE"]
    found = {f.id: f for f in advise(facts, [finding_of(id) for id in ids])}
    assert list(found) == ids
    assert found["SOMETHING_ELSE"] == finding_of("SOMETHING_ELSE")
    assert all(found[id].remedies for id in ids[:-1])
    whole = waste_of(facts, dead_of(facts))
    assert found["DEGENERATE_GROUPS"].waste == whole
    assert isinstance(facts.all_fail, Measured)
    assert found["STARVED"].waste == waste_of(facts, facts.all_fail)
    assert found["FAILED_SCORING"].waste is None
    assert found["DEAD_ABOVE_PLAN"].waste is None  # no plan
    again = with_advice(facts, found["DEGENERATE_GROUPS"])
    assert again == found["DEGENERATE_GROUPS"]
    assert with_advice(facts, finding_of("STARVED")).waste == found["STARVED"].waste


def test_above_the_plan_only_the_excess_since_the_onset_is_counted() -> None:
    dead = Expected(value=0.5, low=0.45, high=0.55, level=0.95)
    plan = Expectation(
        group_size=G, by_group_size={G: ExpectedGroups(group_size=G, dead=dead, all_pass=None, all_fail=None)},
        mean_pass_rate=None, source="test",
    )  # fmt: skip
    facts = facts_of(passes_of(HARD, 23), plan=plan)
    found = with_advice(facts, finding_of("DEAD_ABOVE_PLAN", 31))
    since = dead_of(facts).take(dead_of(facts).steps >= 31)
    assert found.waste is not None
    assert found.waste.rollouts == pytest.approx(float((since.values - 0.5).sum()) * N * G)
    assert found.waste.steps == 20
    assert kind_of_finding(found, composition_of(facts)) is DeadKind.ALL_FAIL


def test_a_run_without_rows_is_advised_without_a_crash() -> None:
    facts = Facts(RunLog(steps=np.arange(0), metrics={}, format="t", source="t"))
    for id in (*KINDS, *BY_COMPOSITION):
        assert with_advice(facts, finding_of(id)).waste is None


# --- hostile input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dead_without(0.2, 0.3), "must not exceed dead"),
        (lambda: dead_without(1.0, 1.0), "below 1"),
        (lambda: dead_if_told_apart(0.2, 0.3, 0.5), "must not exceed dead"),
        (lambda: swapped_dead(1.2, 0.3, 8), "dead"),
        (lambda: mixed_at_equal_rollouts(0, 8, 0.5), "rollouts"),
        (lambda: agreeing_levels(0, 8), "levels"),
        (lambda: drawn_per_mixed(float("nan")), "dead"),
    ],
)
def test_numbers_outside_their_domain_are_refused(call: Any, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        call()
