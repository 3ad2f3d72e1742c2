"""Effective-n Wilson interval: closed cases, properties, and coverage with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from grpo_plan.errors import DomainError
from grpo_plan.fitting import intervals
from grpo_plan.fitting.intervals import mean_interval, wilson_interval
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.groups import dead_probability
from grpo_plan.pilot import Pilot

VALUES = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 500)), min_size=1, max_size=12)


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (7, 50), (25, 50), (50, 50), (3, 8)])
def test_wilson_matches_scipy(hits: int, trials: int) -> None:
    expected = binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / trials, trials, 0.95) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_proportion_of_many_prompts_is_the_plain_wilson_interval() -> None:
    """At G = n the values are 0 or 1; two pseudo-prompts then change the width by under 0.2 % at 1,000 prompts."""
    got = mean_interval(np.array([0.0, 1.0]), np.array([600, 400]), 0.95)
    assert (got.low, got.high) == pytest.approx(wilson_interval(0.4, 1000, 0.95), abs=1e-4)


@given(rows=VALUES, level=st.floats(0.5, 0.999))
def test_interval_holds_the_mean_and_lies_in_the_unit_interval(rows: list[tuple[float, int]], level: float) -> None:
    values, weights = np.array([v for v, _ in rows]), np.array([w for _, w in rows])
    got = mean_interval(values, weights, level)
    assert 0.0 <= got.low <= got.value <= got.high <= 1.0
    assert got.high > got.low


@given(rows=VALUES)
def test_interval_widens_with_the_level_and_narrows_with_copies(rows: list[tuple[float, int]]) -> None:
    values, weights = np.array([v for v, _ in rows]), np.array([w for _, w in rows])
    narrow, wide = mean_interval(values, weights, 0.8), mean_interval(values, weights, 0.99)
    assert wide.low <= narrow.low
    assert wide.high >= narrow.high
    copies = mean_interval(values, 4 * weights, 0.8)
    assert copies.high - copies.low <= (narrow.high - narrow.low) * (1 + 1e-9)


def test_prompts_that_agree_by_chance_do_not_make_certainty() -> None:
    got = mean_interval(np.array([0.5]), np.array([3]), 0.95)
    assert got.high - got.low > 0.4


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan"), True])
def test_levels_outside_the_unit_interval_are_refused(level: float) -> None:
    with pytest.raises(DomainError, match="level must lie strictly between 0 and 1"):
        wilson_interval(0.5, 10, level)


Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
POPULATIONS: dict[str, Draw] = {
    "beta .3 .3": lambda rng, m: rng.beta(0.3, 0.3, m),
    "hard": lambda rng, m: rng.beta(0.2, 2.0, m),
    "easy": lambda rng, m: rng.beta(20.0, 1.0, m),
    "one pass rate": lambda rng, m: np.full(m, 0.5),
    "atoms": lambda rng, m: rng.choice([0.0, 1.0, 0.35, 0.8], size=m, p=[0.3, 0.2, 0.25, 0.25]),
}
REPLICATIONS = 2000


def coverage(population: str, prompts: int, rollouts: int, group_size: int, level: float = 0.95) -> int:
    """Replications whose interval holds the true D(G)."""
    draw = POPULATIONS[population]
    rng = np.random.default_rng([prompts, rollouts, group_size, len(population)])
    truth = float(dead_probability(draw(rng, 1_000_000), group_size).mean())
    hits = 0
    for _ in range(REPLICATIONS):
        h = Pilot.from_counts(rng.binomial(rollouts, draw(rng, prompts)), rollouts).histogram()
        passes = subgroup_all_pass(h.successes, h.rollouts, group_size)
        fails = subgroup_all_fail(h.successes, h.rollouts, group_size)
        got = intervals.mean_interval(np.minimum(passes + fails, 1.0), h.prompts, level)
        hits += got.low <= truth <= got.high
    return hits


def assert_coverage_at_least(hits: int, trials: int, nominal: float) -> None:
    """False alarm below 1e-6 if the true coverage is ``nominal``; 2,000 trials tell .93 from .90."""
    pvalue = binomtest(hits, trials, nominal, alternative="less").pvalue
    assert pvalue > 1e-6, f"covered {hits}/{trials}, wanted {nominal}: p = {pvalue:.1e}"


@pytest.mark.slow
@pytest.mark.parametrize("population", sorted(POPULATIONS))
@pytest.mark.parametrize(("prompts", "rollouts", "group_size"), [(20, 8, 4), (50, 8, 8), (200, 8, 4), (1000, 16, 4)])
def test_95_percent_intervals_cover(population: str, prompts: int, rollouts: int, group_size: int) -> None:
    assert_coverage_at_least(coverage(population, prompts, rollouts, group_size), REPLICATIONS, 0.93)


@pytest.mark.slow
def test_the_coverage_check_has_teeth(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval that takes every rollout subset for a prompt of its own is far too narrow, and is caught."""
    honest = intervals.wilson_interval
    monkeypatch.setattr(intervals, "wilson_interval", lambda v, n, level: honest(v, 4 * n, level))
    with pytest.raises(AssertionError, match="covered"):
        assert_coverage_at_least(coverage("beta .3 .3", 200, 8, 4), REPLICATIONS, 0.93)
