"""Section 26 of theory.md: pass@k of a population, two policies, and the tail of the unsolved share.

Each test of a formula names the change that it catches ("Mutant").
"""

from __future__ import annotations

import csv
import math
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.fitting.estimates import METHODS
from grpo_plan.passk.crossing import find_crossing
from grpo_plan.passk.result import CrossingStatus, PassDifference, decide_pass
from grpo_plan.passk.tail import _doubt, halving, local_exponent
from grpo_plan.passk.tail_likelihood import TailLikelihood, atom_threshold
from grpo_plan.passk.turnover import turnover_kernels
from grpo_plan.passk.words import crossing_words
from grpo_plan.pilot import Pilot
from grpo_plan.planning.temperature_compare import Pairs
from tests.helpers import assert_mean, assert_precise

Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=15)
HALF, THIRD, SIXTH = sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)
RATES = st.floats(0.0, 1.0)


def pilot_at(rng: np.random.Generator, rates: Floats, rollouts: int = 8, *, named: bool = True) -> Pilot:
    """A simulated pilot; prompt i is named after its place."""
    names = [f"q{i}" for i in range(rates.size)] if named else None
    return Pilot.from_counts(rng.binomial(rollouts, rates), rollouts, prompt_id=names)


def difference(k: int, value: float, width: float = 0.01, *, counted: bool = True) -> PassDifference:
    return PassDifference(
        k=k,
        value=value,
        low=value - width,
        high=value + width,
        counted=counted,
        prompts=100,
        all_pass=None,
        status=gp.FitStatus.OK,
    )


# --- one policy: eq. 131 --------------------------------------------------------------------------------------------


def test_pass_at_k_of_chen() -> None:
    """papers-31: 1 - C(7, 5) / C(10, 5). Mutant: C(c, k) for C(n - c, k)."""
    assert gp.pass_at_k(3, 10, 5).item() == pytest.approx(0.9166666666666666, abs=1e-12)
    curve = gp.pass_curve(Pilot.from_counts([3] * 40, 10), ks=[5])
    assert curve.at(5).value == pytest.approx(11 / 12, abs=1e-12)
    assert eq.population_pass_at([(3, 10)], [40], 5) == sp.Rational(11, 12)


@quick
@given(st.lists(st.integers(0, 6), min_size=2, max_size=12), st.integers(1, 6))
def test_the_population_is_the_mean_of_its_prompts(counts: list[int], k: int) -> None:
    point = gp.pass_curve(Pilot.from_counts(counts, 6), ks=[k]).at(k)
    exact = eq.population_pass_at([(c, 6) for c in counts], [1] * len(counts), k)
    assert point.value == pytest.approx(float(exact), abs=1e-12)
    assert point.all_pass == pytest.approx(
        float(np.mean([math.comb(c, k) / math.comb(6, k) for c in counts])), abs=1e-12
    )
    assert point.counted
    assert point.value is not None
    assert point.low <= point.value <= point.high
    assert point.method in METHODS


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 4), min_size=3, max_size=30))
def test_curves_rise_with_k_and_pass_hat_falls(counts: list[int]) -> None:
    curve = gp.pass_curve(Pilot.from_counts(counts, 4), ks=[1, 2, 3, 4, 6, 12])
    values = [p.value for p in curve.points if p.value is not None]
    assert len(values) == 6
    assert all(b >= a - 1e-9 for a, b in pairwise(values))
    hats = [p.all_pass for p in curve.points if p.all_pass is not None]
    assert all(b <= a + 1e-9 for a, b in pairwise(hats))
    for p in curve.points:
        assert p.value is not None
        assert p.all_pass is not None
        assert 0.0 <= p.low <= p.value <= p.high <= 1.0
        assert p.all_pass <= p.value + 1e-9
        assert p.all_pass_low <= p.all_pass <= p.all_pass_high


def test_limits_are_those_of_the_parts_of_d() -> None:
    fit = gp.fit_pass_rates(pilot_at(np.random.default_rng(2), np.random.default_rng(1).beta(0.4, 1.0, 200)))
    for point in gp.pass_curve(fit, ks=[1, 8, 64]).points:
        fails = fit.dead(point.k).all_fail_interval
        assert (point.low, point.high) == pytest.approx((1 - fails[1], 1 - fails[0]))
    far = gp.pass_curve(fit, ks=[64]).points[0]
    assert not far.counted
    assert far.status in (gp.FitStatus.EXTRAPOLATED, gp.FitStatus.BEYOND_REACH)
    assert far.identified is not None
    assert far.low <= far.identified[0] <= far.identified[1] <= far.high
    assert gp.pass_curve(fit, ks=[8]).points[0].identified == (gp.pass_curve(fit, ks=[8]).points[0].value,) * 2


def test_edges_are_answered_or_refused_in_one_line() -> None:
    single = gp.pass_curve(Pilot.from_counts([0, 1] * 50, 1))
    assert single.at(1).value == 0.5
    assert single.at(2).value is None
    assert single.at(2).status is gp.FitStatus.UNKNOWN
    none = gp.pass_curve(Pilot.from_counts([0] * 50, 8))
    assert none.at(8).value == 0.0
    assert 0.0 < none.at(8).high < 0.2
    assert none.at(8).status is gp.FitStatus.NO_SUCCESS
    every = gp.pass_curve(Pilot.from_counts([8] * 50, 8))
    assert every.at(8).value == 1.0
    assert every.at(8).low > 0.8
    assert every.at(8).status is gp.FitStatus.NO_FAILURE
    pilot = Pilot.from_counts([0, 3, 8], 8)
    for ks, message in (
        ([0], "k must be at least 1; got 0"),
        ([1.5], "k must be a whole number"),
        ([], "at least one number of tries"),
        (3, "ks must be whole numbers"),
        ("1,2", "ks must be whole numbers"),
    ):
        with pytest.raises(gp.DomainError, match=message) as error:
            gp.pass_curve(pilot, ks=ks)  # type: ignore[arg-type]
        assert "\n" not in str(error.value)
    with pytest.raises(gp.DomainError, match="k must be one of 1, 2; got 5"):
        gp.pass_curve(pilot, ks=[1, 2]).at(5)
    with pytest.raises(gp.DomainError, match="level"):
        gp.pass_curve(pilot, level=1.0)


def test_uneven_rollouts_use_the_prompts_that_have_them() -> None:
    pilot = Pilot.from_counts([1] * 90 + [0] * 10, [8] * 90 + [2] * 10)
    point = gp.pass_curve(pilot, ks=[8]).at(8)
    assert (point.value, point.prompts_used, point.counted) == (1.0, 90, True)


def test_survivors_are_answered_as_such() -> None:
    fit = gp.fit_pass_rates(Pilot.from_counts(40 * [1] + 30 * [2] + 30 * [3], 4), truncated=True)
    curve = gp.pass_curve(fit, ks=[1, 4])
    assert curve.at(4).status is gp.FitStatus.TRUNCATED
    assert not curve.at(4).counted
    assert curve.at(4).low < 0.05  # prompts that never pass may be any share
    with pytest.raises(gp.PilotError, match="needs all groups"):
        gp.pass_tail(fit)


def test_few_prompts_with_many_rollouts_have_limits() -> None:
    """A start from which cells of likelihood 1e-39 are found. Mutant: the even start alone."""
    rng = np.random.default_rng(4)
    fit = gp.fit_pass_rates(Pilot.from_counts(rng.binomial(10_000, rng.beta(1.0, 0.35, 120)), 10_000))
    assert fit.certificate < 0.01
    point = gp.pass_curve(fit, ks=[4]).at(4)
    assert point.high - point.low < 0.2


# --- two policies: eq. 132 to 135 -----------------------------------------------------------------------------------


def test_a_difference_is_the_mean_of_its_prompts() -> None:
    """Mutant: before minus after."""
    before, after = [0, 1, 4, 2], [1, 1, 4, 0]
    ids = ["a", "b", "c", "d"]
    found = gp.compare_pass(
        Pilot.from_counts(before, 4, prompt_id=ids),
        Pilot.from_counts(after[::-1], 4, prompt_id=ids[::-1]),
        ks=[1, 2, 4],
    )
    assert found.paired
    for d in found.differences:
        shares = [
            eq.pass_at_estimate(a, 4, d.k) - eq.pass_at_estimate(b, 4, d.k) for b, a in zip(before, after, strict=True)
        ]
        assert d.value == pytest.approx(float(sum(shares)) / 4, abs=1e-12)
        assert d.counted
    rates = [(HALF, THIRD), (SIXTH, HALF)]
    truth = sum((1 - p) ** 3 - (1 - q) ** 3 for p, q in rates) / 2
    assert sp.simplify(eq.pass_difference(rates, [HALF, HALF], 3) - truth) == 0


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 10_000))
def test_exchanging_the_policies_turns_the_signs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 1.0, 60)
    here, there = pilot_at(rng, p, 4), pilot_at(rng, p**0.7, 4)
    one, other = gp.compare_pass(here, there, ks=[1, 2, 4]), gp.compare_pass(there, here, ks=[1, 2, 4])
    for a, b in zip(one.differences, other.differences, strict=True):
        assert (a.value, a.low, a.high) == pytest.approx((-(b.value or 0.0), -b.high, -b.low), abs=1e-9)
    assert one.turnover is not None
    assert other.turnover is not None
    assert one.turnover.gained.value == pytest.approx(other.turnover.lost.value)
    delta = one.turnover.gained.value - one.turnover.lost.value
    at_k = next(d.value for d in one.differences if d.k == one.turnover.k)
    assert delta == pytest.approx(at_k, abs=1e-12)


def test_beyond_n_the_ends_are_subtracted() -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(0.4, 1.0, 200)
    here, there = pilot_at(rng, p, 4), pilot_at(rng, p**0.5, 4)
    d = gp.compare_pass(here, there, ks=[32]).differences[-1]
    wide = [gp.pass_curve(x, ks=[32], level=0.975).at(32) for x in (here, there)]
    assert (d.low, d.high) == pytest.approx((wide[1].low - wide[0].high, wide[1].high - wide[0].low), abs=1e-6)
    assert not d.counted
    assert d.all_pass is None


def test_search_compression_and_its_crossing() -> None:
    rng = np.random.default_rng(5)
    p = np.where(np.arange(600) % 3 == 0, 0.15, 0.5)
    found = gp.compare_pass(pilot_at(rng, p), pilot_at(rng, np.where(p < 0.3, 0.0, 0.95)))
    assert found.verdict is gp.PassVerdict.SEARCH_COMPRESSION
    truth = [float(np.mean((1 - p) ** k - (1 - np.where(p < 0.3, 0.0, 0.95)) ** k)) for k in (1, 2, 4, 8)]
    k_star = next(k for k, d in zip((1, 2, 4, 8), truth, strict=True) if d < 0)
    assert found.crossing.status is CrossingStatus.CROSSES
    assert found.crossing.high is not None
    assert found.crossing.low < k_star <= found.crossing.high
    assert found.crossing.value is not None
    assert found.crossing.low <= found.crossing.value <= found.crossing.high
    assert found.turnover is not None
    assert found.turnover.lost.low > 0.0
    assert found.turnover.gained.low <= 0.0
    back = gp.compare_pass(pilot_at(rng, np.where(p < 0.3, 0.0, 0.95)), pilot_at(rng, p))
    assert back.verdict is gp.PassVerdict.BREADTH


def test_capacity_loss_and_no_news() -> None:
    rng = np.random.default_rng(6)
    p = rng.beta(0.4, 1.0, 500)
    better = 1 - (1 - p) ** 3
    up = gp.compare_pass(pilot_at(rng, p), pilot_at(rng, better), ks=[1, 2, 4, 8])
    assert up.verdict is gp.PassVerdict.CAPACITY
    assert up.crossing.status is CrossingStatus.NONE_SEEN
    assert up.crossing.low == 8
    assert gp.compare_pass(pilot_at(rng, better), pilot_at(rng, p), ks=[1, 4, 8]).verdict is gp.PassVerdict.LOSS
    same = gp.compare_pass(pilot_at(rng, p), pilot_at(rng, p), ks=[1, 2, 4, 8])
    assert same.verdict is gp.PassVerdict.CANNOT_TELL
    assert same.turnover is not None
    assert same.turnover.zero_before_pass_after > 5  # though nothing changed
    assert same.turnover.gained.low <= 0.0 <= same.turnover.gained.high
    assert same.turnover.gained_seen.low > 0.01
    only_first = gp.compare_pass(pilot_at(rng, p, 1), pilot_at(rng, better, 1))
    assert only_first.verdict is gp.PassVerdict.CANNOT_TELL
    assert "only pass@1 is counted" in only_first.reason
    assert only_first.turnover is None


def test_a_policy_against_itself_is_seldom_judged() -> None:
    """Monte Carlo: at most 2 x 2.5 % of wrong words a pair (theory.md, eq. 134); more than 8 of 50 has chance 1e-3 at 5 %."""
    rng = np.random.default_rng(7)
    wrong, gains, losses = 0, 0, 0
    for _ in range(50):
        p = rng.beta(0.4, 1.0, 100)
        found = gp.compare_pass(pilot_at(rng, p, 4), pilot_at(rng, p, 4), ks=[1, 2, 4])
        wrong += found.verdict is not gp.PassVerdict.CANNOT_TELL
        assert found.turnover is not None
        gains += found.turnover.gained.low > 0.0
        losses += found.turnover.lost.low > 0.0
    assert wrong <= 8
    assert max(gains, losses) <= 6  # 2.5 % each: chance of more below 1e-3


@pytest.mark.parametrize(
    ("values", "verdict", "status", "between"),
    [
        ([0.1, 0.1, 0.1], "CAPACITY", "NONE_SEEN", (8, None)),
        ([0.1, 0.0, -0.1], "SEARCH_COMPRESSION", "CROSSES", (1, 8)),
        ([0.1, -0.1, -0.1], "SEARCH_COMPRESSION", "CROSSES", (1, 2)),
        ([-0.1, 0.0, 0.1], "BREADTH", "CROSSES", (1, 8)),
        ([-0.1, -0.1, -0.1], "LOSS", "NONE_SEEN", (8, None)),
        ([0.1, 0.05, 0.0], "NO_GAIN_AT_LARGE_K", "CANNOT_TELL", (2, None)),
        ([0.0, 0.1, 0.1], "CANNOT_TELL", "CANNOT_TELL", (0, None)),
        ([0.1, -0.1, 0.1], "CANNOT_TELL", "CANNOT_TELL", (1, None)),
    ],
)
def test_the_rule(values: list[float], verdict: str, status: str, between: tuple[int, int | None]) -> None:
    """Mutant: the sign of any k instead of the first and the last."""
    found = [difference(k, v) for k, v in zip((1, 2, 8), values, strict=True)]
    assert decide_pass(found, 0.02, 0.5)[0].name == verdict
    crossing = find_crossing(found)
    assert (crossing.status.name, crossing.low, crossing.high) == (status, *between)


def test_a_curve_near_one_is_no_search_compression() -> None:
    found = [difference(1, 0.1), difference(8, 0.0)]
    assert decide_pass(found, 0.02, 0.5)[0] is gp.PassVerdict.NO_GAIN_AT_LARGE_K
    assert decide_pass(found, 0.02, 0.03)[0] is gp.PassVerdict.CANNOT_TELL
    assert decide_pass([difference(1, 0.1), difference(8, 0.0, 0.05)], 0.02, 0.5)[0] is gp.PassVerdict.CANNOT_TELL


def test_a_fitted_end_may_decide_where_its_interval_does() -> None:
    found = [difference(1, 0.1), difference(8, 0.05), difference(32, -0.2, counted=False)]
    assert decide_pass(found, 0.02, 0.5)[0] is gp.PassVerdict.SEARCH_COMPRESSION
    found[-1] = difference(32, -0.2, 0.4, counted=False)
    assert decide_pass(found, 0.02, 0.5)[0] is gp.PassVerdict.CAPACITY


def test_an_open_far_k_does_not_hide_a_crossing() -> None:
    """Mutant: the run of the other sign must reach the last k asked."""
    found = [*(difference(k, v) for k, v in ((1, 0.1), (4, 0.0), (16, -0.1))), difference(64, -0.1, 0.5, counted=False)]
    crossing = find_crossing(found)
    assert (crossing.status, crossing.low, crossing.high) == (CrossingStatus.CROSSES, 1, 16)
    assert crossing_words(crossing, 64).startswith("The curves cross between k = 1 and 16")


def test_where_curves_meet() -> None:
    assert find_crossing([difference(2, 0.1), difference(8, -0.1)]).value == pytest.approx(4.0)
    assert eq.meeting_k(2, 1, 8, -1) == 4
    assert find_crossing([difference(1, 0.1), difference(2, 0.0, 0.05), difference(4, -0.1)]).value == pytest.approx(
        2.0
    )
    assert find_crossing([difference(1, 0.1), difference(2, 0.05)]).value is None


@pytest.mark.parametrize("at_one", [1, 0])
def test_a_false_crossing_has_the_chance_of_three_ends(at_one: int) -> None:
    """The largest chance over all joint laws of the signs, by linear programming. Mutant: two ends."""
    from itertools import product

    from scipy.optimize import linprog

    signs = np.array(list(product((-1, 0, 1), repeat=3)))  # at 1, K_1 and K_2; no difference is below 0
    said = (signs[:, 0] * signs[:, 1] < 0) | (signs[:, 0] * signs[:, 2] < 0)
    wrong = [*(signs[:, i] == -1 for i in range(3)), *([signs[:, 0] == 1] if at_one == 0 else [])]
    found = linprog(
        -said.astype(float),
        A_ub=np.array(wrong, dtype=float),
        b_ub=[0.025] * len(wrong),
        A_eq=np.ones((1, 27)),
        b_eq=[1],
    )
    bound = float(eq.wrong_verdict_bound(sp.Rational(19, 20), 2))
    assert -found.fun == pytest.approx(bound if at_one else 0.05, abs=1e-9)


def test_a_false_crossing_of_normal_estimates() -> None:
    """The largest chance over the place of delta(1), and 400,000 draws of one joint law."""
    from scipy.stats import norm

    z, theta = norm.ppf(0.975), np.linspace(0.0, 4.0, 4001)
    most = norm.cdf(-z - theta) + np.minimum(norm.cdf(theta - z), 0.05)
    assert most.max() == pytest.approx(0.05 + norm.cdf(norm.ppf(0.95) - 2 * z), abs=1e-4)
    assert 0.0614 < most.max() < 0.0615
    rng = np.random.default_rng(20261201)
    first, second = rng.standard_normal((2, 400_000))
    at_one, far = first + z - norm.ppf(0.95), np.array([-first, second])  # one K_j errs against k = 1
    signs = [np.sign(x) * (np.abs(x) > z) for x in (at_one, *far)]
    said = np.mean((signs[0] * signs[1] < 0) | (signs[0] * signs[2] < 0))
    assert 0.02 < said < 0.0615


@pytest.mark.parametrize(("p", "after"), [(0, HALF), (THIRD, THIRD), (SIXTH, sp.Rational(2, 3)), (1, 0)])
def test_turnover_is_unbiased(p: sp.Rational, after: sp.Rational) -> None:
    """Enumeration over all passes of 4 and 4, k = 2. Mutant: chance from A(k)**2 instead of A(2k)."""
    n, k = 4, 2
    means = [sp.Integer(0)] * 3
    for c in range(n + 1):
        for d in range(n + 1):
            chance = eq.binomial_pmf(c, n, p) * eq.binomial_pmf(d, n, after)
            exact = eq.turnover_kernel((c, n), (d, n), k)
            means = [m + chance * v for m, v in zip(means, exact, strict=True)]
            code = turnover_kernels((np.array([c]), np.array([n])), (np.array([d]), np.array([n])), k)
            assert [v.item() for v in code] == pytest.approx([float(v) for v in exact])
    assert [sp.simplify(m - t) for m, t in zip(means, eq.turnover((p, after), k), strict=True)] == [0, 0, 0]


@quick
@given(RATES, RATES, st.integers(1, 8))
def test_the_true_gain_lies_between(p: float, after: float, k: int) -> None:
    """Mutant: chance left out of the lower end, or taken twice."""
    gained, lost, chance = (float(v) for v in eq.turnover((p, after), k))
    x, y = (1 - p) ** k, (1 - after) ** k
    assert gained - chance <= max(x - y, 0.0) + 1e-12
    assert max(x - y, 0.0) <= gained + 1e-12
    assert gained - lost == pytest.approx(x - y, abs=1e-12)
    if p == after:
        assert gained - chance == pytest.approx(0.0, abs=1e-12)


def test_pairing_by_name_and_apart() -> None:
    rng = np.random.default_rng(8)
    p = rng.beta(0.5, 1.0, 100)
    here, there = pilot_at(rng, p), pilot_at(rng, np.sqrt(p))
    paired = gp.compare_pass(here, there, ks=[1, 8])
    apart = gp.compare_pass(here.as_histogram(), there, ks=[1, 8])
    assert paired.paired
    assert not apart.paired
    assert apart.turnover is None
    assert any("histogram" in note for note in apart.notes)
    for a, b in zip(paired.differences, apart.differences, strict=True):
        assert a.value == pytest.approx(b.value)
        assert a.high - a.low < b.high - b.low
    other = Pilot.from_counts(there.successes, 8, prompt_id=[f"r{i}" for i in range(100)])
    strangers = gp.compare_pass(here, other, ks=[1, 8])
    assert not strangers.paired
    assert any("share 0 named prompts" in note for note in strangers.notes)
    unnamed = gp.compare_pass(pilot_at(rng, p, named=False), pilot_at(rng, p, named=False), ks=[1])
    assert not unnamed.paired


def test_prompts_of_one_side_and_repeated_prompts_are_said() -> None:
    names = ["a", "b", "c", "c"]
    before = Pilot.from_counts([1, 2, 3, 4], 4, prompt_id=names)
    after = Pilot.from_counts([2, 3, 4], 4, prompt_id=["b", "c", "d"])
    found = gp.compare_pass(before, after, ks=[1])
    assert (found.paired, found.prompts, found.only_before, found.only_after) == (True, 2, 1, 1)
    assert found.differences[0].value == pytest.approx((2 / 4 + 3 / 4 - 2 / 4 - 7 / 8) / 2)
    assert any("1 row of prompts seen before" in note for note in found.notes)
    assert any("2 common prompts; 1 only before and 1 only after" in note for note in found.notes)


def test_what_cannot_be_compared_is_refused() -> None:
    ids = [f"q{i}" for i in range(20)]
    pilot = Pilot.from_counts([1, 2] * 10, 4, prompt_id=ids)
    removed = Pilot.from_counts([1, 2] * 10, 4, provenance=type(pilot.provenance)(removed="all-pass"))
    filtered = Pilot.from_counts([1, 2] * 10, 4, provenance=type(pilot.provenance)(filtered="dead groups dropped"))
    hot = Pilot.from_counts([1, 2] * 10, 4, temperature=[0.5, 1.0] * 10)
    for bad, message in (
        (removed, "removed from the source"),
        (filtered, "only mixed ones"),
        (hot, "compared at one temperature"),
    ):
        for pair in ((pilot, bad), (bad, pilot)):
            with pytest.raises(gp.PilotError, match=message) as error:
                gp.compare_pass(*pair)
            assert "\n" not in str(error.value)
    with pytest.raises(gp.DomainError, match="margin must be at most"):
        gp.compare_pass(pilot, pilot, margin=0.6)
    with pytest.raises(gp.DomainError, match="after must be a Pilot"):
        gp.compare_pass(pilot, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(gp.DomainError, match="k must be"):
        gp.compare_pass(pilot, pilot, ks=[0])
    cool, warm = (Pilot.from_counts([1, 2] * 10, 4, prompt_id=ids, temperature=t) for t in (0.6, 1.0))
    assert any("T = 0.6 before and 1 after" in note for note in gp.compare_pass(cool, warm).notes)


@pytest.mark.parametrize(("k", "n"), [(0, 8), (8, 8), (0, 1)])
def test_all_alike_on_both_sides(k: int, n: int) -> None:
    ids = [f"q{i}" for i in range(40)]
    found = gp.compare_pass(*(Pilot.from_counts([k] * 40, n, prompt_id=ids) for _ in range(2)))
    assert found.verdict is gp.PassVerdict.CANNOT_TELL
    assert all(d.low <= (d.value or 0.0) <= d.high for d in found.differences)
    assert found.crossing.status is CrossingStatus.CANNOT_TELL


def test_paired_values_are_those_of_the_temperature_comparison() -> None:
    rng = np.random.default_rng(9)
    here, there = pilot_at(rng, rng.random(50)), pilot_at(rng, rng.random(50))
    from grpo_plan.passk.compare import policies_of

    counts = Pairs(policies_of(here, there).common).counts(4)
    d = gp.compare_pass(here, there, ks=[4]).differences[-1]
    assert d.value == pytest.approx(float(np.mean(counts.baseline[1] - counts.other[1])))


# --- the tail: eq. 136 to 138 ---------------------------------------------------------------------------------------


def test_the_unsolved_share_of_a_beta_is_a_power_law() -> None:
    """Mutant: b' for a."""
    a, b = sp.Rational(2, 5), sp.Rational(6, 5)
    k = sp.Symbol("k", positive=True)
    unsolved = sp.lambdify(k, eq.beta_unsolved(a, b, k), "mpmath")
    assert float(eq.local_exponent(sp.Float(unsolved(10**6)), sp.Float(unsolved(2 * 10**6)))) == pytest.approx(
        0.4, abs=1e-5
    )
    limit = math.gamma(1.6) / math.gamma(1.2)
    assert float(unsolved(10**6)) * 1e6**0.4 == pytest.approx(limit, rel=1e-5)
    assert eq.beta_unsolved(1, 1, 4) == sp.Rational(1, 5)
    assert eq.beta_unsolved(1, 1, 4, HALF) == sp.Rational(3, 5)
    assert eq.tail_factor(HALF) == 4 == halving(0.5)
    assert_precise(halving(0.193) or 0.0, eq.tail_factor(sp.Rational(0.193)))
    assert halving(0.193) == pytest.approx(36.3, abs=0.1)  # papers-33


def test_the_law_with_an_atom() -> None:
    """Mutant: the atom at k = n."""
    a, b, never = HALF, sp.Rational(3, 2), sp.Rational(1, 5)
    law = [sp.N(eq.atom_pmf(k, 5, a, b, never), 30) for k in range(6)]
    assert float(sum(law)) == pytest.approx(1.0)
    assert float(law[0]) == pytest.approx(float(sp.N(eq.beta_unsolved(a, b, 5, never), 20)))
    prompts = np.array([7, 1, 2, 3, 1, 2])
    histogram = Pilot.from_counts(np.repeat(np.arange(6), prompts), 5).histogram()
    got = TailLikelihood.of(histogram).at(math.log(0.5), math.log(1.5), 0.2)
    coefficients = sum(int(m) * math.log(math.comb(5, k)) for k, m in enumerate(prompts))
    assert got + coefficients == pytest.approx(
        float(sum(int(m) * sp.log(p) for m, p in zip(prompts, law, strict=True)))
    )


def test_the_plain_fit_is_that_of_the_library() -> None:
    rng = np.random.default_rng(10)
    pilot = pilot_at(rng, rng.beta(0.4, 1.2, 400))
    fit = gp.fit_pass_rates(pilot)
    tail = gp.pass_tail(fit, octaves=())
    assert tail.status is gp.TailStatus.POWER_LAW
    assert tail.exponent == pytest.approx(fit.parameters["a"], rel=1e-3)
    assert tail.exponent is not None
    assert tail.low is not None
    assert tail.high is not None
    assert tail.low < 0.4 < tail.high
    likelihood = TailLikelihood.of(pilot.histogram())
    for end in (tail.low, tail.high):  # half the chi-square quantile below the top, at the best b
        best = max(likelihood.at(math.log(end), y) for y in np.linspace(-3.0, 3.0, 1201))
        assert 2 * (likelihood.plain[1] - best) == pytest.approx(3.8415, abs=0.01)
    factor = tail.halving_factor
    assert factor is not None
    assert factor == pytest.approx((2 ** (1 / tail.exponent), 2 ** (1 / tail.high), 2 ** (1 / tail.low)))


def test_an_atom_is_said_to_level_off() -> None:
    rng = np.random.default_rng(11)
    p = np.where(rng.random(800) < 0.3, 0.0, rng.beta(1.0, 1.5, 800))
    tail = gp.pass_tail(gp.fit_pass_rates(pilot_at(rng, p)), octaves=())
    assert tail.status is gp.TailStatus.LEVELS_OFF
    assert tail.exponent is None
    assert tail.halving_factor is None
    assert tail.floor_low is not None
    assert tail.floor_high is not None
    assert tail.floor_low < 0.3 < tail.floor_high
    assert tail.never_high > 0.3


def test_a_floor_that_may_be_0_is_not_told() -> None:
    """30 % at 0 and the others Beta(0.3, 6): the floor's limits would hold 0. Mutant: `_doubt` never doubts."""
    counts = np.repeat(np.arange(9), [427, 40, 21, 9, 2, 1, 0, 0, 0])
    tail = gp.pass_tail(gp.fit_pass_rates(Pilot.from_counts(counts, 8)), octaves=())
    assert tail.likelihood_ratio is not None
    assert tail.likelihood_ratio > atom_threshold(0.95)
    assert tail.status is gp.TailStatus.UNKNOWN
    assert tail.floor is None
    assert tail.reason.endswith("that share may as well be 0.")


def test_a_floor_above_the_fitted_curve_is_not_told() -> None:
    rng = np.random.default_rng(11)
    p = np.where(rng.random(800) < 0.3, 0.0, rng.beta(1.0, 1.5, 800))
    fit = gp.fit_pass_rates(pilot_at(rng, p))
    tail = gp.pass_tail(fit, octaves=())
    assert tail.floor is not None
    assert _doubt(fit, [1, 8], tail.floor, 0.1) == ""
    assert "above 1 - pass@8" in _doubt(fit, [1, 8], 1.0 - (fit.pass_at(8).value or 0.0) + 0.01, 0.1)
    assert "may as well be 0" in _doubt(fit, [1, 8], tail.floor, 0.0)


def test_few_prompts_have_no_exponent() -> None:
    tail = gp.pass_tail(gp.fit_pass_rates(Pilot.from_counts([0, 2, 3, 5, 8], 8)), octaves=())
    assert tail.status is gp.TailStatus.UNKNOWN
    assert tail.reason.startswith("TOO_FEW_PROMPTS: ")
    assert tail.halving_factor is None


def test_another_shape_has_no_exponent() -> None:
    rng = np.random.default_rng(12)
    p = np.where(rng.random(1000) < 0.5, rng.beta(0.5, 2.0, 1000), rng.beta(8.0, 2.0, 1000))
    tail = gp.pass_tail(gp.fit_pass_rates(pilot_at(rng, p)), octaves=())
    assert tail.status is gp.TailStatus.NO_POWER_LAW
    assert tail.exponent is None
    assert tail.floor is None


@pytest.mark.parametrize(("counts", "n"), [([0] * 40, 8), ([8] * 40, 8), ([0, 8] * 20, 8), ([0, 1] * 20, 1)])
def test_tails_that_no_count_tells(counts: list[int], n: int) -> None:
    tail = gp.pass_tail(gp.fit_pass_rates(Pilot.from_counts(counts, n)))
    assert tail.status is gp.TailStatus.UNKNOWN
    assert tail.exponent is None
    assert 0.0 < tail.never_high <= 1.0
    for e in tail.local:
        assert e.high is None or e.low <= e.high


def test_prompts_alike_have_no_finite_exponent() -> None:
    tail = gp.pass_tail(gp.fit_pass_rates(pilot_at(np.random.default_rng(13), np.full(300, 0.4))), octaves=())
    assert tail.exponent is None or tail.high is None


def test_local_exponents_hold_for_any_law() -> None:
    """Mutant: the ratio turned over. Three point masses: exponents from the exact means."""
    rng = np.random.default_rng(14)
    values = np.array([0.02, 0.3, 0.9])
    fit = gp.fit_pass_rates(pilot_at(rng, rng.choice(values, 1500)))
    for k in (2, 4):
        found = local_exponent(fit, k)
        truth = math.log2(np.mean((1 - values) ** k) / np.mean((1 - values) ** (2 * k)))
        assert found.counted
        assert found.high is not None
        assert found.low < truth < found.high
        assert found.low < (found.value or 0.0) < found.high
    assert not local_exponent(fit, 8).counted
    with pytest.raises(gp.DomainError, match="octaves"):
        gp.pass_tail(fit, octaves=[0])


def test_a_local_limit_is_a_root() -> None:
    """No F within the threshold has a larger ratio: the limit of the linear mean there is 0."""
    from grpo_plan.fitting.functionals import Functional
    from grpo_plan.passrates.discrete import power

    rng = np.random.default_rng(15)
    fit = gp.fit_pass_rates(pilot_at(rng, rng.beta(0.5, 1.0, 300)))
    ratio = 2 ** -local_exponent(fit, 4).low
    mean = Functional(
        name="x", degree=8, phi=lambda p, q: power(q, p, 8) - ratio * power(q, p, 4), kernel=lambda s, n: s,
        pushed_up_by="all-fail",
    )  # fmt: skip
    assert fit.upper_limit_of(mean, 0.95) == pytest.approx(0.0, abs=2e-5)


def test_unbiased_on_average() -> None:
    """Monte Carlo of eq. 131 and 135: five standard errors."""
    rng = np.random.default_rng(16)
    size = 40_000
    p = rng.beta(0.4, 1.0, size)
    after = np.sqrt(p)
    n = np.full(size, 8)
    gained, _, chance = turnover_kernels((rng.binomial(8, p), n), (rng.binomial(8, after), n), 4)
    x, y = (1 - p) ** 4, (1 - after) ** 4
    assert_mean(gained - chance - 0.5 * ((x - y) ** 2 + x - y), 0.0, catches=0.02)
    assert_mean(gp.pass_at_k(rng.binomial(8, p), n, 4) - (1 - x), 0.0, catches=0.02)


@pytest.mark.slow
def test_the_exponent_is_held_as_often_as_said() -> None:
    """Beta truth, 60 pilots: fewer than 50 held has chance below 1e-3 at 95 %."""
    rng = np.random.default_rng(17)
    held = given_ = 0
    for _ in range(60):
        tail = gp.pass_tail(gp.fit_pass_rates(pilot_at(rng, rng.beta(0.5, 1.5, 400))), octaves=())
        if tail.low is not None:
            given_ += 1
            held += tail.low <= 0.5 and (tail.high is None or tail.high >= 0.5)
    assert given_ >= 45
    assert held >= given_ - 10


# --- pictures and published counts ----------------------------------------------------------------------------------


def test_the_picture_shows_the_points() -> None:
    rng = np.random.default_rng(18)
    p = np.where(np.arange(300) % 3 == 0, 0.15, 0.5)
    here, there = pilot_at(rng, p), pilot_at(rng, np.where(p < 0.3, 0.0, 0.95))
    _, ax = plt.subplots()
    curve = gp.pass_curve(here, ks=[1, 8, 16])
    assert gp.plot_pass_curve(curve, ax) is ax
    drawn = [np.asarray(line.get_ydata(), dtype=float).tolist() for line in ax.get_lines()]
    assert [point.value for point in curve.points] in drawn
    assert [point.value for point in curve.points if not point.counted] in drawn
    plt.close("all")
    found = gp.compare_pass(here, there)
    ax = gp.plot_pass_curve(found)
    assert ax.get_title(loc="left") == "Search compression"
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "the curves cross here",
        "before",
        "after",
        "counted",
        "fitted",
    ]


def test_published_counts(real_data: Path) -> None:
    """papers-24 and papers-25: D(G) = 1 - pass@G + pass^G on GSM8K and MATH-500."""
    gsm8k = gp.read_pilot(
        real_data / "monkeys_llama3_gsm8k_math_n10000.csv", where={"model": "Llama-3-8B-Instruct", "benchmark": "GSM8K"}
    )
    math500 = gp.read_pilot(real_data / "math500_llama32_1b_n1280.csv")
    for pilot, dead in (
        (gsm8k, (0.6579, 0.5248, 0.4125, 0.2513)),
        (math500, (0.6045, 0.4628, 0.3500, 0.1902)),
    ):
        curve = gp.pass_curve(pilot, ks=[4, 8, 16, 64])
        got = [1.0 - (p.value or 0.0) + (p.all_pass or 0.0) for p in curve.points]
        assert got == pytest.approx(dead, abs=1e-4)
        assert all(p.high - p.low < 0.2 for p in curve.points)


def test_a_real_run_before_and_after(real_data: Path) -> None:
    """One-Shot-RLVR, visits 0 and 40 of the prompts trained on: up at every counted k, no crossing up to 8."""
    visits: dict[int, dict[str, int]] = {0: {}, 40: {}}
    with (real_data / "oneshot_rlvr_dsr1209_grpo_visits_G8.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if int(row["visit"]) in visits:
                visits[int(row["visit"])][row["prompt_id"]] = int(row["k"])
    before, after = (Pilot.from_counts(list(v.values()), 8, prompt_id=list(v)) for v in visits.values())
    found = gp.compare_pass(before, after, ks=[1, 2, 4, 8])
    assert found.verdict is gp.PassVerdict.CAPACITY
    assert (found.crossing.status.name, found.crossing.low) == ("NONE_SEEN", 8)
    assert [d.value for d in found.differences] == pytest.approx([0.12614, 0.11335, 0.09567, 0.07692], abs=1e-4)
    assert found.turnover is not None
    assert found.turnover.gained.low > 0.04
    assert found.turnover.lost.low < 0.0
