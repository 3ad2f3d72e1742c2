"""Limits behind the checks (theory.md, section 20): against their symbolic twins, properties, and simulated rates."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from grpo_plan import symbolic as eq
from grpo_plan.errors import DomainError
from grpo_plan.runs.clustered import Clusters, clustered_share, effective_units
from grpo_plan.runs.detectors.truncation import overlap_bounds
from grpo_plan.runs.rounds import dead_from_rounds, overdispersion, unfilled
from tests.made_runs import made_groups

CLUSTERS = st.lists(st.tuples(st.integers(1, 30), st.floats(0.0, 1.0)), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("hits", "totals"), [([0, 3, 1], [4, 4, 4]), ([1, 0, 5, 2], [2, 8, 5, 9]), ([1, 1, 1], [4, 4, 4]), ([0, 8], [8, 8])]
)
def test_effective_units_are_those_of_the_equation(hits: list[int], totals: list[int]) -> None:
    share = sum(hits) / sum(totals)
    made = effective_units(np.array(hits, dtype=float), np.array(totals, dtype=float), share)
    assert made == pytest.approx(float(eq.effective_units(hits, totals)))


def test_the_variance_over_clusters_is_unbiased_for_clusters_of_one_size() -> None:
    """By enumeration: three clusters of two rollouts that agree with correlation 1/3."""
    p, rho = sp.Rational(1, 4), sp.Rational(1, 3)
    law = {0: (1 - p) * (1 - p + rho * p), 1: 2 * p * (1 - p) * (1 - rho), 2: p * (p + rho * (1 - p))}
    assert sum(law.values()) == 1
    mean = sum(
        law[a] * law[b] * law[c] * eq.cluster_variance([a, b, c], [2, 2, 2]) for a, b, c in product(law, repeat=3)
    )
    assert sp.simplify(mean - p * (1 - p) / 6 * eq.design_effect([2], rho)) == 0


@pytest.mark.parametrize(("x", "n", "level"), [(3, 20, 0.95), (1, 40, 0.9), (19, 20, 0.99)])
def test_without_clusters_the_limits_are_those_of_clopper_and_pearson(x: int, n: int, level: float) -> None:
    """Clusters of one unit: as many independent units as there are, but for the few-clusters factor."""
    share = clustered_share([1.0] * x + [0.0] * (n - x), [1.0] * n, level=level)
    tail = (1 - level) / 2
    assert share.value == x / n
    assert binom.sf(x - 1, n, share.low) < tail  # wider than Clopper and Pearson
    assert binom.cdf(x, n, share.high) < tail
    assert binom.sf(x - 1, n, share.low + 0.06) > tail  # but not by much


def test_whole_clusters_count_as_one_unit_each() -> None:
    assert clustered_share([8] * 10, [8] * 10).low == pytest.approx(0.025 ** (1 / 10))
    assert clustered_share([0] * 10, [8] * 10).high == pytest.approx(1 - 0.025 ** (1 / 10))
    one = clustered_share([3], [8])
    assert (one.value, one.rows, one.groups) == (0.375, 1, 8.0)
    assert one.low < 0.02
    assert one.high > 0.9
    none = clustered_share([], [])
    assert (none.value, none.low, none.high, none.rows) == (None, 0.0, 1.0, 0)
    assert clustered_share([0, 0, 1], [0, 0, 4]).rows == 1


@settings(max_examples=60, deadline=None)
@given(clusters=CLUSTERS, level=st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_limits_enclose_the_share_and_turn_with_it(clusters: list[tuple[int, float]], level: float) -> None:
    totals = np.array([t for t, _ in clusters], dtype=float)
    hits = np.array([round(t * q) for t, q in clusters], dtype=float)
    share, turned = clustered_share(hits, totals, level=level), clustered_share(totals - hits, totals, level=level)
    assert share.value is not None
    assert 0.0 <= share.low <= share.value <= share.high <= 1.0
    assert (turned.low, turned.high) == pytest.approx((1 - share.high, 1 - share.low), abs=1e-9)
    if len(clusters) > 1:  # the same clusters once more
        again = clustered_share(np.tile(hits, 2), np.tile(totals, 2), level=level)
        assert again.low >= share.low - 1e-9


@settings(max_examples=60, deadline=None)
@given(hits=st.lists(st.integers(0, 6), min_size=2, max_size=8))
def test_more_rollouts_in_the_same_clusters_tell_no_more(hits: list[int]) -> None:
    h, t = np.array(hits, dtype=float), np.full(len(hits), 6.0)
    share = h.sum() / t.sum()
    many, few = effective_units(50 * h, 50 * t, share), effective_units(h, t, share)
    assert few <= t.sum() + 1e-9
    if few < t.sum() - 1e-6:
        assert many == pytest.approx(few)


@pytest.mark.parametrize(("hits", "totals"), [([1, 2], [1]), ([-1], [4]), ([5], [4])])
def test_impossible_counts_are_refused(hits: list[int], totals: list[int]) -> None:
    with pytest.raises(DomainError, match=r"hits"):
        clustered_share(hits, totals)


@pytest.mark.parametrize(("steps", "p", "rho"), [(20, 0.05, 0.1), (60, 0.05, 0.3), (40, 0.3, 0.2)])
def test_a_share_at_the_threshold_is_rarely_called_beyond_it(steps: int, p: float, rho: float) -> None:
    """False alarms at 2.5 % nominal, 600 logs of 32 rollouts a step: at most 3.5 % (seen: 1.1 to 1.4 % of 3,000)."""
    rng = np.random.default_rng(20_250_101)
    a, b = p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho
    failed = rng.binomial(32, rng.beta(a, b, size=(600, steps)))
    alarms = sum(clustered_share(row, np.full(steps, 32)).low > p for row in failed)
    assert alarms <= 21
    naive = sum(binom.sf(row.sum() - 1, 32 * steps, p) < 0.025 for row in failed)
    assert naive > 2 * max(alarms, 21)  # as if rollouts of a step were independent


def test_clusters_are_steps_and_groups_where_there_is_one_step() -> None:
    groups = made_groups([[0, 1], [np.nan, 1], [1, 1]], [1, 1, 2])
    failed = Clusters.of_groups(groups, groups.failed, groups.rollouts, "rollouts")
    assert (failed.steps.tolist(), failed.hits.tolist(), failed.totals.tolist()) == ([1, 2], [1, 0], [4, 2])
    assert failed.span == "steps 1 to 2"
    assert failed.late(0.2, 1).steps.tolist() == [2]
    one = made_groups([[0, 1], [np.nan, 1]], [-1, -1])
    apart = Clusters.of_groups(one, one.failed, one.rollouts, "rollouts")
    assert (apart.hits.tolist(), apart.span) == ([0, 1], "the log")


# --- batches of a refill -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [None, 3])
def test_chances_of_the_batches_are_those_of_the_equation_and_add_up(cap: int | None) -> None:
    wanted, size, dead = 3, 4, sp.Rational(3, 5)
    chances = [eq.rounds_probability(b, wanted, size, dead, cap) for b in range(1, (cap or 12) + 1)]
    assert float(sum(chances)) == pytest.approx(1.0, abs=1e-4 if cap is None else 1e-12)
    d = np.array([0.6])
    for b, chance in enumerate(chances, start=1):
        after = 0.0 if cap == b else unfilled(d, b * size, wanted)[0]
        assert unfilled(d, (b - 1) * size, wanted)[0] - after == pytest.approx(float(chance))


def test_the_likeliest_dead_fraction_is_that_of_the_equation() -> None:
    rounds, wanted, size = [2, 2, 3], 3, 4
    made = dead_from_rounds(rounds, wanted, size)
    d = sp.Symbol("d")
    likelihood = sp.lambdify(d, sp.prod([eq.rounds_probability(b, wanted, size, d) for b in rounds]))
    grid = np.linspace(0.02, 0.98, 1921)
    logs = np.log(likelihood(grid))
    assert made.value == pytest.approx(grid[int(np.argmax(logs))], abs=0.001)
    inside = grid[logs >= logs.max() - 3.841458820694124 / 2]
    assert (made.low, made.high) == pytest.approx((inside[0], inside[-1]), abs=0.0015)


@settings(max_examples=40, deadline=None)
@given(rounds=st.lists(st.integers(1, 6), min_size=1, max_size=20), wanted=st.integers(1, 64))
def test_limits_of_the_dead_fraction_enclose_it_and_rise_with_the_batches(rounds: list[int], wanted: int) -> None:
    made = dead_from_rounds(rounds, wanted, wanted)
    assert 0.0 <= made.low <= made.value <= made.high <= 1.0
    same = [dead_from_rounds([b] * len(rounds), wanted, wanted) for b in (max(rounds), max(rounds) + 1)]
    assert same[1].value >= same[0].value
    assert same[1].low >= same[0].low
    capped = dead_from_rounds(rounds, wanted, wanted, cap=max(rounds))
    assert capped.high >= made.high - 1e-12


def test_batches_that_vary_more_than_one_dead_fraction_would_widen_the_limits() -> None:
    law = [float(eq.rounds_probability(b, 3, 4, sp.Rational(3, 5))) for b in range(1, 16)]
    mean, square = (sum(b**power * chance for b, chance in enumerate(law, start=1)) for power in (1, 2))
    rounds = np.array([1.0, 1.0, 6.0, 6.0])
    spread = ((rounds - mean) ** 2).sum() / (3 * (square - mean**2))
    assert overdispersion(rounds, 0.6, 3, 4, None) == pytest.approx(spread, rel=1e-3)
    assert overdispersion(rounds, 0.6, 3, 4, 6) > spread  # a cap leaves less room
    assert overdispersion(rounds[:1], 0.6, 3, 4, None) == 1.0
    wide, narrow = dead_from_rounds([2, 2, 6, 6], 32, 32), dead_from_rounds([4, 4, 4, 4], 32, 32)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_first_batches_say_little_and_steps_at_the_cap_have_no_upper_limit() -> None:
    assert dead_from_rounds([1] * 10, 32, 32).low == 0.0
    assert dead_from_rounds([1] * 10, 32, 32).high < 0.01
    capped = dead_from_rounds([5] * 10, 32, 32, cap=5)
    assert capped.high == 1.0
    assert capped.low > 0.75


@pytest.mark.parametrize("rounds", [[], [0.5], [0], [float("nan")], [2.5]])
def test_rows_that_are_no_numbers_of_batches_are_refused(rounds: list[float]) -> None:
    with pytest.raises(DomainError, match="rounds must be whole numbers"):
        dead_from_rounds(rounds, 32, 32)


def test_batches_too_small_for_a_step_are_refused() -> None:
    with pytest.raises(DomainError, match="gen_batch_size"):
        dead_from_rounds([1], 32, 8)


@pytest.mark.parametrize(("wanted", "dead", "steps"), [(32, 0.6, 30), (128, 0.75, 20)])
def test_limits_of_the_dead_fraction_hold(wanted: int, dead: float, steps: int) -> None:
    """200 simulated logs, 5 % nominal for both sides: at most 8 % (seen: 2.7 to 6.3 %)."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(200):
        drawn = wanted + rng.negative_binomial(wanted, 1 - dead, size=steps)
        made = dead_from_rounds(-(-drawn // wanted), wanted, wanted)
        missed += not made.low <= dead <= made.high
    assert missed <= 16


# --- overlap -----------------------------------------------------------------------------------------------------


@given(both=st.tuples(*[st.floats(0.0, 1.0)] * 4).filter(lambda w: sum(w) > 0))
def test_the_overlap_lies_within_its_bounds(both: tuple[float, float, float, float]) -> None:
    x, only_cut, only_fail, _ = (w / sum(both) for w in both)
    low, high = overlap_bounds(x + only_cut, x + only_fail)
    assert float(low) - 1e-12 <= x <= float(high) + 1e-12


@pytest.mark.parametrize(("a", "b"), [(0.9, 0.3), (0.2, 0.3), (1.0, 0.4), (0.0, 0.5)])
def test_the_bounds_are_those_of_the_equation(a: float, b: float) -> None:
    low, high = overlap_bounds(a, b)
    least, most = eq.overlap_limits(a, b)
    assert (float(low), float(high)) == pytest.approx((float(least), float(most)))
