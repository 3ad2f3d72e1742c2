"""Section 7 of theory.md against the code: exact small cases, enumeration, closed forms.

Each test names the change of the formula that it catches ("Mutant"); each was made once and seen to fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import chdtri
from scipy.stats import binom, poisson

import grpo_plan as gp
from grpo_plan import symbolic as eq
from grpo_plan.fitting import functionals, mixing, tilted
from grpo_plan.fitting.average import AveragedFit, fit_average, nonparametric_share, priors
from grpo_plan.fitting.identified import identified_range
from grpo_plan.fitting.inflated import fit_inflated
from grpo_plan.fitting.mixing import Mixing
from grpo_plan.fitting.npmle import Masses, ascend
from grpo_plan.fitting.points import joined
from grpo_plan.fitting.profile import Bound, ProfileLikelihood
from grpo_plan.fitting.thresholds import (
    chi_square_quantile,
    mid_p_threshold,
    simultaneous,
    thresholds_for,
)
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.passrates.inflated import InflatedBetaPassRates
from grpo_plan.pilot import Pilot, PilotHistogram
from grpo_plan.planning.pilot_size import expected_limits
from tests.helpers import assert_precise, enumerated

Cells = list[tuple[int, int, int]]
Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=40)
HALF, THIRD, QUARTER = sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 4)
THREE = [sp.Integer(0), HALF, sp.Integer(1)]
PAIRS: Cells = [(0, 2, 30), (1, 2, 14), (2, 2, 16)]
UNEQUAL: Cells = [(0, 2, 5), (1, 2, 9), (2, 2, 6), (0, 3, 4), (1, 3, 8), (2, 3, 3), (3, 3, 5)]
MASSES = st.lists(st.integers(1, 20), min_size=3, max_size=3)


def pilot_of_cells(cells: Cells) -> Pilot:
    rows = [(k, n) for k, n, count in cells for _ in range(count)]
    return Pilot.from_counts([k for k, _ in rows], [n for _, n in rows])


def mixing_on(cells: Cells, rates: Sequence[Any]) -> Mixing:
    """The likelihood of a pilot on a grid of one's own."""
    h = pilot_of_cells(cells).histogram()
    n, k = h.rollouts.astype(float), h.successes.astype(float)
    p = np.array([float(rate) for rate in rates])
    q = np.array([float(1 - rate) for rate in rates])
    return Mixing(
        passing=p,
        failing=q,
        likelihood=mixing.binomial_likelihood(n, k, p, q),
        weights=h.prompts / h.total_prompts,
        prompts=h.total_prompts,
        rollouts=h.rollouts,
        log_scale=mixing.log_coefficients(n, k) + mixing.log_peak(n, k),
    )


def state_of(on: Mixing, masses: Sequence[Any]) -> Masses:
    points = np.arange(on.passing.size)
    given_masses = np.array([float(mass) for mass in masses])
    fitted = on.likelihood @ given_masses
    return Masses(
        points=points,
        masses=given_masses,
        cells=fitted,
        log_likelihood=float(on.weights @ np.log(fitted)),
        functional=0.0,
        gap=math.inf,
    )


def shares(counts: Sequence[int]) -> list[Any]:
    return [sp.Rational(c, sum(counts)) for c in counts]


def phi_of(functional: functionals.Functional, on: Mixing) -> Floats:
    return functional.phi(on.passing, on.failing)


# Eq. 31


def test_eq_31_grid_is_even_in_arcsine_units_and_holds_the_three_rates_that_matter() -> None:
    """Mutant: an even number of grid points (1/2 is lost, and with it every limit for prompts all alike at 1/2)."""
    p, q = mixing.arcsine_grid()
    assert {0.0, 0.5, 1.0} <= set(p.tolist())
    for j in (0, 1, 57, 200, 399, 400):
        assert float(p[j]) == pytest.approx(float(eq.arcsine_point(j, p.size)), rel=1e-12, abs=1e-300)
    assert np.array_equal(q, p[::-1])
    steps = np.diff(np.arcsin(np.sqrt(p)))
    assert steps == pytest.approx([math.pi / 800] * 400, rel=1e-9)
    rate = sp.Symbol("p", positive=True)
    assert eq.arcsine_variance(rate, 7) == sp.Rational(1, 28)  # the same at every p


@pytest.mark.parametrize("weights", [[QUARTER, HALF, QUARTER], [sp.Rational(1, 10), THIRD, sp.Rational(17, 30)]])
@pytest.mark.parametrize("cells", [PAIRS, UNEQUAL], ids=["pairs", "unequal"])
def test_eq_31_likelihood_of_a_three_point_f(cells: Cells, weights: list[Any]) -> None:
    """Mutant: n - k for n, or a log of 0 at the ends, in the binomial likelihood."""
    on = mixing_on(cells, THREE)
    state = state_of(on, weights)
    fast = on.prompts * state.log_likelihood + on.log_constant
    assert_precise(fast, eq.log_likelihood(cells, THREE, weights))
    chances = state.cells * np.exp(on.log_scale)
    wanted = [eq.cell_chance(k, n, THREE, weights) for k, n, _ in sorted(cells, key=lambda c: (c[1], c[0]))]
    for fast_chance, chance in zip(chances, wanted, strict=True):
        assert_precise(float(fast_chance), chance)


def test_eq_31_cell_chance_is_the_share_of_reward_tuples() -> None:
    weights = [sp.Rational(1, 6), HALF, THIRD]
    rates = [Fraction(0), Fraction(1, 4), Fraction(9, 10)]
    for n, k in product((2, 3), (0, 1, 2)):
        hits = partial(_passes_exactly, k)
        chances = [eq.exact(enumerated(hits, rate, n)) for rate in rates]
        total = sum(weight * chance for chance, weight in zip(chances, weights, strict=True))
        assert eq.cell_chance(k, n, rates, weights) == total


def _passes_exactly(k: int, rewards: tuple[int, ...]) -> int:
    return int(sum(rewards) == k)


def test_eq_31_condensing_changes_no_unbiased_estimate() -> None:
    """Every subgroup count of up to n' rollouts is as before. Mutant: k rounded to the nearest k n'/n."""
    rng = np.random.default_rng(3)
    n = rng.integers(40, 900, 6_000)
    h = Pilot.from_counts(rng.binomial(n, rng.beta(0.2, 0.4, n.size)), n).histogram()
    small = mixing.condensed(h)
    assert h.prompts.size > mixing.MAX_CELLS >= small.prompts.size
    assert small.condensed
    assert small.prompts.sum() == pytest.approx(h.total_prompts, rel=1e-12)
    assert int(small.rollouts.min()) == 21  # the rung below 40
    for g in (1, 2, 7, 21):
        for kernel in (subgroup_all_pass, subgroup_all_fail):
            before = float(h.prompts @ kernel(h.successes, h.rollouts, g)) / h.total_prompts
            after = float(small.prompts @ kernel(small.successes, small.rollouts, g)) / h.total_prompts
            assert after == pytest.approx(before, rel=1e-8)


# Eq. 32


@given(masses=MASSES, more=MASSES)
@quick
def test_eq_32_certificate_is_the_code_s_gap_and_no_distribution_beats_it(masses: list[int], more: list[int]) -> None:
    """Mutant: the gap without its level (slopes not reduced by 1), or half of it."""
    on, weights = mixing_on(UNEQUAL, THREE), shares(masses)
    found = ascend(on, np.zeros(3), 0.0, state_of(on, weights), tolerance=math.inf)  # only measures where it starts
    bound = eq.certificate(UNEQUAL, THREE, weights, THREE)
    assert on.prompts * max(found.gap, 0.0) == pytest.approx(float(bound), rel=1e-9, abs=1e-9)
    rise = eq.log_likelihood(UNEQUAL, THREE, shares(more)) - eq.log_likelihood(UNEQUAL, THREE, weights)
    assert float(rise) <= float(bound) + 1e-9


def test_eq_32_directional_derivative_is_a_derivative() -> None:
    t, weights = sp.Symbol("t"), [sp.Rational(1, 5), HALF, sp.Rational(3, 10)]
    prompts = sum(count for _, _, count in PAIRS)
    for j, rate in enumerate(THREE):
        moved = [(1 - t) * w + (t if i == j else 0) for i, w in enumerate(weights)]
        slope = sp.diff(eq.log_likelihood(PAIRS, THREE, moved), t).subs(t, 0) / prompts
        assert sp.simplify(slope - eq.directional_derivative(PAIRS, THREE, weights, rate)) == 0


def test_eq_32_maximum_of_pairs_is_the_observed_law_where_a_mixture_gives_it() -> None:
    """n = 2, atoms 0, 1/2, 1: f1 = g1/2, so the best g1 is twice the mixed share. Mutant: slopes half as steep."""
    on = mixing_on(PAIRS, THREE)
    best = ProfileLikelihood.of(on).best
    weights = [sp.Rational(23, 60), sp.Rational(28, 60), sp.Rational(9, 60)]
    assert best.masses == pytest.approx([float(w) for w in weights], abs=1e-6)
    assert eq.certificate(PAIRS, THREE, weights, THREE) == 0
    full = gp.fit_pass_rates(pilot_of_cells(PAIRS))
    assert full.certificate < 1e-3
    at_best = full._points.profile.log_likelihood
    assert at_best == pytest.approx(float(eq.saturated_log_likelihood(PAIRS)), abs=1e-3)


@pytest.mark.parametrize("n", [3, 4, 7, 8])
def test_eq_32_a_boundary_fit_has_few_atoms(n: int) -> None:
    """Shares no F gives (every prompt at half, almost): at most n // 2 + 1 atoms, a grid splits each in two."""
    counts = [1, *[0] * (n - 1), 1]
    counts[n // 2] = 60
    cells = [(k, n, c) for k, c in enumerate(counts) if c]
    best = ProfileLikelihood.of(mixing.build_mixing(pilot_of_cells(cells).histogram())).best
    solid = best.points[best.masses > 1e-4]
    clusters = 1 + int(np.sum(np.diff(solid) > 1))
    assert clusters <= n // 2 + 1


# Eq. 33


def exact_upper_of_pairs(threshold: float, events: int, prompts: int) -> Any:
    """Upper limit of D(3) for pairs on 0, 1/2, 1: D(3) = 1 - 3 g1/4, and only the share g1/2 of mixed counts."""
    x = sp.Symbol("x")
    equation = eq.share_likelihood_ratio(events, prompts, x) - eq.exact(threshold)
    low = sp.nsolve(equation, x, (1e-6, events / prompts), solver="bisect", verify=False)
    return 1 - sp.Rational(3, 2) * low


@pytest.mark.parametrize("threshold", [1.0, 3.841, 7.0])
def test_eq_33_limits_are_the_closed_form_of_a_three_point_f(threshold: float) -> None:
    """Mutant: threshold / M for threshold / (2 M)."""
    on = mixing_on(PAIRS, THREE)
    profile = ProfileLikelihood.of(on)
    phi = phi_of(functionals.dead(3), on)
    truth = float(exact_upper_of_pairs(threshold, 14, 60))
    found = profile.upper(phi, threshold)
    assert truth - 1e-9 <= found.value <= truth + 1e-5
    x = sp.Symbol("x")
    equation = eq.share_likelihood_ratio(14, 60, x) - eq.exact(threshold)
    high = sp.nsolve(equation, x, (14 / 60, 0.499), solver="bisect", verify=False)
    low_truth = float(1 - sp.Rational(3, 2) * high)
    assert low_truth - 1e-5 <= profile.lower(phi, threshold).value <= low_truth + 1e-9


@given(masses=MASSES, tilt=st.fractions(Fraction(1, 50), 5, max_denominator=100))
@quick
def test_eq_33_weak_duality_holds_at_every_tilt_and_every_distribution(masses: list[int], tilt: Fraction) -> None:
    """Mutant of the equation: no gap, or the gap not divided by the tilt."""
    weights, prompts, threshold = shares(masses), 60, 3.841
    phi = [eq.dead(p, 3) for p in THREE]
    mean = eq.dead_fraction(THREE, weights, 3)
    lam = eq.exact(tilt)
    slopes = [
        eq.directional_derivative(PAIRS, THREE, weights, p) + lam * (value - mean)
        for p, value in zip(THREE, phi, strict=True)
    ]
    top = eq.saturated_log_likelihood(PAIRS) / prompts
    floor = top - sp.Rational(threshold) / (2 * prompts)
    here = eq.log_likelihood(PAIRS, THREE, weights) / prompts
    bound = eq.weak_duality_bound(here, mean, sp.Max(*slopes), floor, lam)
    assert float(bound) >= float(exact_upper_of_pairs(threshold, 14, 60)) - 1e-9


def test_eq_33_the_reported_bound_is_that_of_its_tilt() -> None:
    """Mutant: the bound without its gap and functional."""
    on = mixing_on(UNEQUAL, [0, QUARTER, HALF, 1])
    profile, phi = ProfileLikelihood.of(on), np.array([1.0, 0.3, 0.0, 1.0])
    found = profile.upper(phi, 3.84)
    floor = profile.best.log_likelihood - 3.84 / (2 * on.prompts)
    state = found.state
    mean = float(phi[state.points] @ state.masses)
    bound = eq.weak_duality_bound(state.log_likelihood, mean, max(state.gap, 0.0), floor, found.tilt)
    assert found.value == pytest.approx(float(bound), abs=4e-6)


# Eq. 34


@pytest.mark.parametrize("g", [1, 2, 3, 6])
def test_eq_34_stopping_cost_is_the_mean_over_all_reward_tuples(g: int) -> None:
    """Mutant: without the first rollout, or one more term of the sum."""
    rate = Fraction(2, 7)

    def cost(rewards: tuple[int, ...]) -> int:
        return next((t for t in range(2, g + 1) if len(set(rewards[:t])) == 2), g)

    truth = eq.exact(enumerated(cost, rate, g))
    assert eq.stopping_cost_sum(rate, g) == truth
    assert sp.simplify(eq.stopping_cost(rate, g) - truth) == 0
    p = np.array([float(rate), 0.0, 1.0])
    fast = functionals.stopping_cost(g).phi(p, 1 - p)
    assert fast == pytest.approx([float(truth), g, g], rel=1e-12)
    if 2 <= g <= 4:  # the kernel is unbiased from n = 4 rollouts
        kernel = functionals.stopping_cost(g).kernel(np.arange(5.0), np.full(5, 4.0))
        assert float(kernel @ binom.pmf(np.arange(5), 4, float(rate))) == pytest.approx(float(truth), rel=1e-12)


@pytest.mark.parametrize("tiny", [1e-7, 1e-9, 1e-12, 1e-15])
def test_eq_34_geometric_sum_near_one(tiny: float) -> None:
    q = sp.Rational(tiny)
    truth = sp.Add(*((1 - q) ** t for t in range(1, 40)))
    assert_precise(float(functionals.power_sum(np.array([1 - tiny]), np.array([tiny]), 40)[0]), truth, rel=1e-9)


@pytest.mark.parametrize("g", [2, 3, 8])
def test_eq_34_linearised_jensen_gap_errs_upwards_by_second_order(g: int) -> None:
    """Mutant: the slope without its factor G."""
    rates, weights = [sp.Rational(1, 10), HALF, sp.Rational(4, 5)], [HALF, THIRD, sp.Rational(1, 6)]
    mean, errors = eq.mixture_mean(lambda p: p, rates, weights), []
    discrete = DiscretePassRates(
        passing=np.array([0.1, 0.5, 0.8]), failing=np.array([0.9, 0.5, 0.2]), masses=np.array([1 / 2, 1 / 3, 1 / 6])
    )
    for step in (sp.Rational(1, 100), sp.Rational(1, 200)):
        linear = eq.linearised_jensen_gap(rates, weights, g, mean + step)
        fast = functionals.jensen_gap(g, float(mean + step)).phi(discrete.passing, discrete.failing)
        assert float(discrete.masses @ fast) == pytest.approx(float(linear), abs=1e-13)
        errors.append(float(linear - eq.jensen_gap(rates, weights, g)))
    assert errors[0] > errors[1] > 0
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)


def test_eq_34_reward_variance_and_pass_at_follow_from_the_dead_fraction() -> None:
    p = sp.Symbol("p")
    assert sp.expand(p * (1 - p) - (1 - eq.dead(p, 2)) / 2) == 0
    fit = gp.fit_pass_rates(pilot_of_cells([(0, 4, 30), (1, 4, 10), (3, 4, 12), (4, 4, 20)]))
    pairs, variance = fit.dead(2), fit.reward_variance()
    assert pairs.value is not None
    assert variance.value == pytest.approx((1 - pairs.value) / 2)


# Eq. 35


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("degrees", [1, 2, 8])
def test_eq_35_threshold_is_the_chi_square_quantile(level: float, degrees: int) -> None:
    """Mutant: the one-sided normal quantile."""
    tail = eq.chi_square_tail(chi_square_quantile(level, degrees), degrees)
    assert float(sp.N(tail)) == pytest.approx(1 - level, rel=1e-9)


def test_eq_35_tails_are_halved_beyond_four_n_and_not_before() -> None:
    """Mutant: FAR = 5, a comparison >= for >, or a quarter of the tail."""
    h = pilot_of_cells([(0, 4, 300), (1, 4, 300), (3, 4, 300), (4, 4, 300)]).histogram()
    near, far = (thresholds_for(h, functionals.dead(g), 0.95) for g in (16, 17))
    limit = float(chdtri(1, float(eq.far_tail(sp.Rational(19, 20)))))
    assert limit == pytest.approx(5.0239, abs=1e-4)
    assert near.upper / float(chdtri(1, 0.05)) == pytest.approx(1, abs=0.02)  # mid-P of 600 events adds a little
    assert far.upper / limit == pytest.approx(1, abs=0.02)


def test_eq_35_joined_limits_are_running_extremes_of_both_kinds() -> None:
    """Prompts with 6 rollouts are dead more often here. Mutant: Wilson limits of G alone, or of the wrong side."""
    cells = [(0, 2, 1), (1, 2, 19), (0, 6, 40), (1, 6, 3), (6, 6, 40)]
    fit = gp.fit_pass_rates(pilot_of_cells(cells))
    z, sizes = sp.sqrt(2) * sp.erfinv(sp.Rational(19, 20)), range(2, 7)
    wilson, alone = [], []
    for g in sizes:
        kernel = [eq.u_statistic(k, n, g) for k, n, count in cells if n >= g for _ in range(count)]
        limits = eq.wilson_interval(sp.Add(*kernel) / len(kernel), eq.effective_prompts(kernel), z)
        wilson.append([float(sp.N(end)) for end in limits])
        alone.append(fit._uncertainty.limits(functionals.dead(g), 0.95))
    raised = False
    for i, g in enumerate(sizes):
        low = min(alone[i][0], *(w[0] for w in wilson[: i + 1]))
        high = max(alone[i][1], *(w[1] for w in wilson[i:]))
        assert fit._uncertainty.group_limits("dead", g, 0.95) == pytest.approx((low, high), abs=1e-9)
        raised |= high > max(alone[i][1], wilson[i][1]) + 0.01
    assert raised


# Eq. 36


@pytest.mark.parametrize(("events", "prompts"), [(0, 20), (0, 50), (1, 50), (2, 50), (3, 30), (7, 400)])
@pytest.mark.parametrize("level", [sp.Rational(9, 10), sp.Rational(19, 20)])
def test_eq_36_threshold_solves_the_mid_p_equation(events: int, prompts: int, level: Any) -> None:
    """Mutant: the whole of P(X = x) for half of it (Clopper-Pearson)."""
    plain = 2 * float(sp.N(sp.erfinv(level))) ** 2
    wanted = max(plain, float(eq.mid_p_threshold(events, prompts, level)))
    assert mid_p_threshold(events, prompts, float(level)) == pytest.approx(wanted, rel=1e-6)
    if events == 0:
        assert wanted == pytest.approx(-2 * math.log(1 - float(level)), rel=1e-6)  # whatever M is


@given(events=st.integers(0, 400), others=st.integers(1, 4_000), level=st.sampled_from([0.8, 0.95, 0.99]))
@example(events=45, others=5, level=0.95)
@quick
def test_eq_36_threshold_is_never_below_chi_square_and_falls(events: int, others: int, level: float) -> None:
    """Mutant: no maximum with chi-square."""
    prompts = events + others
    here, plain = mid_p_threshold(events, prompts, level), chi_square_quantile(level)
    assert here >= plain
    assert mid_p_threshold(0, prompts, level) + 1e-9 >= here
    if events > 100:
        few = mid_p_threshold(100, 10**9, level) - plain
        assert here - plain == pytest.approx(few * math.sqrt(100 / events), rel=1e-9)


def test_eq_36_continues_as_one_over_the_root_of_the_events() -> None:
    """Mutant: 1 / x. The exact excess at 400 events of many, against the continuation from 100."""
    plain, share = chi_square_quantile(0.95), 400.0
    low, high = 400.0, 600.0
    for _ in range(60):
        share = 0.5 * (low + high)
        low, high = (share, high) if poisson.cdf(399, share) + 0.5 * poisson.pmf(400, share) > 0.025 else (low, share)
    exact_excess = 2 * (400 * math.log(400 / share) + share - 400) - plain
    assert mid_p_threshold(400, 10**9, 0.95) - plain == pytest.approx(exact_excess, rel=0.05)


def test_eq_36_ends_of_pairs_are_mid_p_limits() -> None:
    """D(2) at n = 2 rests on the dead share alone. Mutant: prompts of the other kind for an end."""
    cells = [(0, 2, 30), (1, 2, 2), (2, 2, 28)]
    fit = gp.fit_pass_rates(pilot_of_cells(cells))
    low, _ = fit._uncertainty.limits(functionals.dead(2), 0.95)
    x = sp.Symbol("x")
    limit = sp.nsolve(eq.mid_p(2, 60, x) - sp.Rational(1, 40), x, (0.04, 0.5), solver="bisect", verify=False)
    assert low == pytest.approx(1 - float(limit), abs=1e-5)


# Eq. 37


@given(counts=st.lists(st.integers(1, 30), min_size=4, max_size=4), masses=MASSES)
@quick
def test_eq_37_no_mixture_beats_the_saturated_law(counts: list[int], masses: list[int]) -> None:
    cells = [(k, 3, c) for k, c in enumerate(counts)]
    rates = [sp.Rational(1, 9), HALF, sp.Rational(7, 8)]
    assert float(eq.log_likelihood(cells, rates, shares(masses))) <= float(eq.saturated_log_likelihood(cells)) + 1e-9


@pytest.mark.parametrize("n", [2, 3, 8])
def test_eq_37_threshold_has_as_many_degrees_as_rollouts(n: int) -> None:
    """Mutant: n + 1 or n - 1 degrees."""
    both = simultaneous(0.95, n)
    assert both.lower == both.upper
    assert float(sp.N(eq.chi_square_tail(both.upper, n))) == pytest.approx(0.05, rel=1e-9)


def test_eq_37_ratio_of_pairs_covers_all_means_at_once() -> None:
    """n = 2, F on 0, 1/2, 1, M = 40: the chance that the ratio stays within the threshold, by enumeration."""
    weights, prompts = [sp.Rational(3, 10), sp.Rational(2, 5), sp.Rational(3, 10)], 40
    chances = [float(eq.cell_chance(k, 2, THREE, weights)) for k in range(3)]
    threshold, covered = simultaneous(0.95, 2).upper, 0.0
    for i in range(prompts + 1):
        for j in range(prompts + 1 - i):
            counts = (i, j, prompts - i - j)
            ratio = 2 * sum(c * math.log(c / (prompts * f)) for c, f in zip(counts, chances, strict=True) if c)
            if ratio <= threshold:
                ways = math.comb(prompts, i) * math.comb(prompts - i, j)
                covered += ways * math.prod(f**c for f, c in zip(chances, counts, strict=True))
    assert 0.93 <= covered <= 0.97


# Eq. 38


@pytest.mark.parametrize("g", [3, 5])
def test_eq_38_range_from_pairs_in_closed_form_and_by_all_vertices(g: int) -> None:
    """Mutant: one rollout fewer in the constraints, or the ends exchanged."""
    rates, weights = [sp.Rational(1, 5), HALF, sp.Rational(9, 10)], [THIRD, THIRD, THIRD]
    m1, m2 = eq.mixture_mean(lambda p: p, rates, weights), eq.mixture_mean(lambda p: p**2, rates, weights)
    low, high = eq.all_pass_range_from_pairs(m1, m2, g)
    inner = (m1 - m2) / (1 - m1)
    grid = [sp.Integer(0), inner, QUARTER, m2 / m1, sp.Rational(4, 5), sp.Integer(1)]
    law = [eq.cell_chance(k, 2, rates, weights) for k in range(3)]
    assert eq.identified_range(law, grid, [p**g for p in grid]) == (low, high)
    found = identified_range([float(f) for f in law], functionals.all_pass(g))
    assert found == pytest.approx((float(low), float(high)), abs=2e-5)
    assert found[1] - found[0] > 0.005


@pytest.mark.parametrize("g", [2, 3])
def test_eq_38_ends_are_equal_up_to_n(g: int) -> None:
    rates, weights = [sp.Rational(1, 5), HALF, sp.Rational(9, 10)], [HALF, THIRD, sp.Rational(1, 6)]
    law = [eq.cell_chance(k, 3, rates, weights) for k in range(4)]
    truth = eq.dead_fraction(rates, weights, g)
    assert sp.Add(*(f * eq.u_statistic(k, 3, g) for k, f in enumerate(law))) == truth
    assert identified_range([float(f) for f in law], functionals.dead(g)) == pytest.approx([float(truth)] * 2, abs=1e-7)


# Eq. 39


@pytest.mark.parametrize("tilts", [[], [0.7, -1.3], [0.5, 2.0, -0.8]], ids=["plain", "degree 2", "degree 3"])
def test_eq_39_grid_masses_are_the_density(tilts: list[float]) -> None:
    """Mutant: Legendre recurrence without d P_(d-1), or a - 1 for a on the logit scale."""
    a, b = 0.75, 1.5
    grid = tilted.LogitGrid.of(pilot_of_cells(PAIRS).histogram(), len(tilts))
    mass, _ = grid.density(np.array([math.log(a), math.log(b), *tilts]))
    p = sp.Symbol("p", positive=True)
    density = sp.lambdify(p, eq.tilted_density(p, a, b, tilts), "mpmath")
    with mpmath.workdps(20):
        total = mpmath.quad(density, [0, 0.5, 1])
        for g in (1, 2, 8):
            truth = mpmath.quad(lambda x, g=g: density(x) * (x**g + (1 - x) ** g), [0, 0.5, 1]) / total
            fast = float(mass @ functionals.dead(g).phi(grid.passing, grid.failing))
            assert fast == pytest.approx(float(truth), abs=1e-9)


def test_eq_39_logit_form_is_the_density_times_its_slope() -> None:
    x, p = sp.Symbol("x", real=True), sp.Symbol("p", positive=True)
    rate = 1 / (1 + sp.exp(-x))
    wanted = eq.tilted_density(rate, 2, 3, [THIRD, HALF]) * sp.diff(rate, x)
    got = eq.tilted_logit_density(x, 2, 3, [THIRD, HALF])
    for point in (-2, THIRD, 4):
        assert sp.N((wanted - got).subs(x, point), 30, chop=1e-25) == 0
    assert sp.simplify(eq.tilted_density(p, 2, 3, []) - p * (1 - p) ** 2) == 0


def test_eq_39_small_shapes_keep_the_mass_beyond_the_grid() -> None:
    """Mutant: no tails. With a = b = 0.05 a sixth of the mass is beyond the grid; it is kept to 1e-4."""
    grid = tilted.LogitGrid.of(pilot_of_cells(PAIRS).histogram(), 0)
    mass, _ = grid.density(np.log([0.05, 0.05]))
    fast = float(mass @ functionals.dead(8).phi(grid.passing, grid.failing))
    assert fast == pytest.approx(float(eq.beta_dead_fraction(sp.Rational(1, 20), sp.Rational(1, 20), 8)), abs=1e-4)


def test_eq_39_derivatives_are_those_of_the_log_density() -> None:
    """Mutant: derivatives by a instead of log a."""
    grid = tilted.LogitGrid.of(pilot_of_cells(PAIRS).histogram(), 2)
    t, step = np.array([-0.3, 0.4, 0.7, -1.1]), 1e-5
    mass, derivatives = grid.density(t)
    for i in range(t.size):
        up, down = (grid.density(t + sign * step * np.eye(4)[i])[0] for sign in (1, -1))
        slope = (np.log(up) - np.log(down)) / (2 * step)
        centred = derivatives[i] - float(mass @ derivatives[i])
        inside = mass > 1e-200
        assert slope[inside] == pytest.approx(centred[inside], rel=1e-4, abs=1e-4)


# Eq. 40


@pytest.fixture(scope="module")
def example_average() -> tuple[AveragedFit, PilotHistogram]:
    rng = np.random.default_rng(8)
    h = Pilot.from_counts(rng.binomial(6, rng.beta(0.4, 0.8, 150)), 6).histogram()
    return fit_average(h, BetaPassRates.from_shape(0.4, 0.8)), h


def test_eq_40_evidence_and_weights(example_average: tuple[AveragedFit, PilotHistogram]) -> None:
    """Mutant: minus for plus before half the log determinant, or priors whose precision does not grow with d."""
    average, _ = example_average
    of_models = [np.zeros(0), *priors()]
    wanted = [[6.0] * 2, [0.6] * 2, [0.06] * 2, *([t * d * d for d in range(1, 7)] for t in (0.6, 0.06))]
    for tau, prior in zip(of_models[1:], wanted, strict=True):
        assert tau == pytest.approx(prior)
    evidence = [
        eq.laplace_evidence(fit.log_likelihood, fit.covariance.tolist(), tau.tolist(), fit.parameters[2:].tolist())
        for fit, tau in zip(average.fits, of_models, strict=True)
    ]
    logs = np.array([float(sp.N(value)) for value in evidence])
    weights = np.exp(logs - logs.max())
    assert average.weights == pytest.approx(weights / weights.sum(), rel=1e-6)


def test_eq_40_laplace_is_close_to_the_integral() -> None:
    """Degree 2 at one fixed Beta shape: log evidence against the integral over both tilts, to the same constant."""
    rng = np.random.default_rng(5)
    h = Pilot.from_counts(rng.binomial(4, rng.beta(0.5, 0.9, 400)), 4).histogram()
    grid = tilted.LogitGrid.of(h, 2)
    seen = grid.prompts > 0
    shape, tau = np.log([0.5, 0.9]), 0.6

    def height(c: Floats) -> float:
        mass, _ = grid.density(np.concatenate([shape, c]))
        return float(grid.prompts[seen] @ np.log((grid.table @ mass)[seen])) - 0.5 * tau * float(c @ c)

    steps = np.linspace(-2.5, 2.5, 41)
    values = np.array([[height(np.array([x, y])) for x in steps] for y in steps])
    area = (steps[1] - steps[0]) ** 2
    integral = values.max() + math.log(float(np.exp(values - values.max()).sum()) * area * tau / (2 * math.pi))
    y, x = (int(i) for i in np.unravel_index(int(values.argmax()), values.shape))
    best = np.array([steps[x], steps[y]])
    mass, derivatives = grid.density(np.concatenate([shape, best]))
    cells = grid.table @ mass
    scores = (grid.table @ (derivatives * mass).T) / cells[:, None] - derivatives @ mass
    assert grid.of_size is not None
    counts = grid.of_size * cells * np.exp(grid.log_scale)
    information = (scores.T * counts @ scores)[2:, 2:] + tau * np.eye(2)
    plain = height(best) + 0.5 * tau * float(best @ best)
    laplace = eq.laplace_evidence(plain, np.linalg.inv(information).tolist(), [tau, tau], best.tolist())
    assert float(sp.N(laplace)) == pytest.approx(integral, abs=0.1)


def test_eq_40_error_within_and_between(example_average: tuple[AveragedFit, PilotHistogram]) -> None:
    """Mutant: no spread between the models."""
    average, _ = example_average
    phi = functionals.dead(24).phi(average.grid.passing, average.grid.failing)
    found = [fit.mean(phi) for fit in average.fits]
    mean, variance = eq.averaged(average.weights.tolist(), [m for m, _ in found], [s * s for _, s in found])
    assert average.mean(phi) == pytest.approx((float(mean), math.sqrt(float(variance))), rel=1e-12)
    assert float(variance) > float(np.array([s * s for _, s in found]) @ average.weights)


def test_eq_40_error_of_one_fit_is_the_delta_method(example_average: tuple[AveragedFit, PilotHistogram]) -> None:
    average, _ = example_average
    fit, grid = average.fits[1], average.grid
    phi = functionals.dead(12).phi(grid.passing, grid.failing)
    slope = []
    for i in range(fit.parameters.size):
        up, down = (grid.density(fit.parameters + s * 1e-5 * np.eye(fit.parameters.size)[i])[0] for s in (1, -1))
        slope.append(float((up - down) @ phi) / 2e-5)
    gradient = np.array(slope)
    assert fit.mean(phi)[1] == pytest.approx(math.sqrt(float(gradient @ fit.covariance @ gradient)), rel=1e-5)


def test_eq_40_values_meet_the_unbiased_count_at_n_and_fall() -> None:
    """Mutant: the ratio the other way round."""
    counts = [round(200 * float(eq.beta_binomial_pmf(k, 8, 0.4, 0.8))) for k in range(9)]
    fit = gp.fit_pass_rates(pilot_of_cells([(k, 8, count) for k, count in enumerate(counts)]))
    last, rates = fit.dead(8), fit.smooth_rates
    assert fit.nonparametric_share == 0.0
    assert last.all_pass is not None
    before = last.value
    for g in (9, 16, 60):
        d = fit.dead(g)
        wanted = eq.joined(last.all_pass, rates.all_pass(g), rates.all_pass(8))
        assert d.all_pass == pytest.approx(float(wanted), rel=1e-12)
        assert d.value is not None
        assert before is not None
        assert d.value <= before
        before = d.value
    assert joined(0.4, 0.2, 0.4) == pytest.approx(float(eq.joined(0.4, 0.2, 0.4)))


@given(gap=st.integers(-50, 200), n=st.integers(1, 128))
@quick
def test_eq_40_nonparametric_share(gap: int, n: int) -> None:
    """Mutant: n for n / 2."""
    wanted = float(sp.N(eq.nonparametric_share(gap, n)))
    assert nonparametric_share(float(gap), n) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_eq_40_where_no_smooth_f_fits_the_value_is_the_middle_of_the_likelihood_limits() -> None:
    """Mutant: the two weights exchanged. Prompts at 1/4 and 3/4 only, many of them."""
    n, m = 16, 6_000
    law = 0.5 * (binom.pmf(np.arange(n + 1), n, 0.25) + binom.pmf(np.arange(n + 1), n, 0.75))
    cells = [(k, n, round(m * float(w))) for k, w in enumerate(law) if round(m * float(w))]
    fit = gp.fit_pass_rates(pilot_of_cells(cells))
    average = fit._points.average
    gap = fit._points.profile.log_likelihood - average.log_likelihood
    share = float(sp.N(eq.nonparametric_share(gap, n)))
    assert fit.nonparametric_share == pytest.approx(share, abs=1e-3)
    low, high = fit._uncertainty.limits(functionals.dead(40), 0.95)
    measured, rates = fit.dead(n), fit.smooth_rates
    smooth = sum(
        float(eq.joined(part, at(40), at(n)))
        for part, at in ((measured.all_pass, rates.all_pass), (measured.all_fail, rates.all_fail))
    )
    wanted = (1 - fit.nonparametric_share) * smooth + fit.nonparametric_share * (low + high) / 2
    assert fit.dead(40).value == pytest.approx(wanted, rel=1e-9)


# Eq. 41


@pytest.mark.parametrize("g", [1, 2, 3, 6])
def test_eq_41_inflated_law(g: int) -> None:
    """Mutant: the atoms exchanged, or the rest with weight 1."""
    never, always, a, b = sp.Rational(1, 5), sp.Rational(3, 10), sp.Rational(1, 2), sp.Integer(2)
    rates = InflatedBetaPassRates(never=0.2, always=0.3, rest=BetaPassRates.from_shape(0.5, 2.0))
    law = [eq.inflated_pmf(k, g, never, always, a, b) for k in range(g + 1)]
    assert sp.Add(*law) == 1
    assert law[g] == eq.inflated_power_mean(never, always, a, b, g)
    assert law[0] == eq.inflated_power_mean(always, never, b, a, g)
    assert float(rates.all_pass(g)) == pytest.approx(float(law[g]), rel=1e-12)
    assert float(rates.all_fail(g)) == pytest.approx(float(law[0]), rel=1e-12)
    assert rates.group_pmf(g) == pytest.approx([float(f) for f in law], rel=1e-12)


def test_eq_41_fit_finds_atoms_in_expected_counts() -> None:
    """Mutant: the Beta alone is fitted (one atom dropped)."""
    law = [eq.inflated_pmf(k, 12, sp.Rational(1, 4), sp.Rational(1, 8), 2, 3) for k in range(13)]
    cells = [(k, 12, round(100_000 * f)) for k, f in enumerate(law)]
    h = PilotHistogram(
        rollouts=np.full(13, 12),
        successes=np.arange(13),
        prompts=np.array([int(c) for _, _, c in cells]),
    )
    found = fit_inflated(h, BetaPassRates.from_shape(0.4, 0.6))
    assert (found.never, found.always) == pytest.approx((0.25, 0.125), abs=0.01)


# Eq. 42


def test_eq_42_variance_of_the_dual_weights_splits_into_between_and_within() -> None:
    weights = [sp.Rational(2, 5), sp.Rational(2, 5), sp.Rational(1, 5)]
    total, between = eq.dual_variance(PAIRS, THREE, weights)
    scores = eq.dual_weights(PAIRS, THREE, weights)
    within = sp.Integer(0)
    for rate, weight in zip(THREE, weights, strict=True):
        law = [eq.binomial_pmf(k, 2, rate) for k in range(3)]
        mean = sp.Add(*(f * s for f, s in zip(law, scores, strict=True)))
        within += weight * sp.Add(*(f * (s - mean) ** 2 for f, s in zip(law, scores, strict=True)))
    assert sp.simplify(total - between - within) == 0


@pytest.mark.parametrize("sampled", [1.0, 0.4])
def test_eq_42_factor_of_a_bound_is_that_of_its_dual_weights(sampled: float) -> None:
    """By eq. 33's closed form for pairs on 0, 1/2, 1. Mutant: the tilt for its square, or no minus 1 in Var(s)."""
    fit = gp.fit_pass_rates(pilot_of_cells(PAIRS), population=round(60 / sampled))
    on = mixing_on(PAIRS, THREE)
    profile = ProfileLikelihood.of(on)
    phi = phi_of(functionals.dead(3), on)
    bound = profile.upper(phi, 3.0)
    uncertainty = fit._uncertainty
    uncertainty.points.__dict__["profile"] = profile  # the cached likelihood, on the small grid
    weights = [0.0] * 3
    for point, mass in zip(bound.state.points, bound.state.masses, strict=True):
        weights[int(point)] = float(mass)
    total, between = eq.dual_variance(PAIRS, THREE, weights)
    factor = eq.census_factor(sampled, between, total)
    assert uncertainty.sampled == pytest.approx(sampled)
    assert uncertainty.variance_factor(bound, phi) == pytest.approx(float(factor), rel=2e-3)
    none = Bound(value=1.0, state=bound.state, tilt=0.0)
    assert uncertainty.variance_factor(none, phi) == 1.0


def test_eq_42_slopes_are_zero_at_the_atoms_of_a_bound() -> None:
    """u(p) = 1 + lambda phi'g - lambda phi(p). Mutant: a bound that returns the state before the last step."""
    on = mixing_on(PAIRS, THREE)
    profile, phi = ProfileLikelihood.of(on), phi_of(functionals.dead(3), on)
    bound = profile.upper(phi, 3.0)
    unit = (phi - phi.min()) / (phi.max() - phi.min())
    state = bound.state
    mean = float(unit[state.points] @ state.masses)
    u = (on.weights / state.cells) @ on.likelihood[:, state.points]
    assert u == pytest.approx(1 + bound.tilt * (mean - unit[state.points]), abs=1e-4)


def test_eq_42_wilson_limits_of_a_census_take_out_the_variance_between_prompts() -> None:
    """Mutant: effective trials multiplied, not divided, by the factor."""
    cells = [(0, 4, 30), (1, 4, 14), (2, 4, 9), (3, 4, 12), (4, 4, 20)]
    pool, census = (gp.fit_pass_rates(pilot_of_cells(cells), population=p) for p in ("sample", "census"))
    rates = census.smooth_rates
    sizes, means, trials = pool._uncertainty._measured["dead"]
    _, same, more = census._uncertainty._measured["dead"]
    for i, g in enumerate(sizes):
        phi = functionals.dead(int(g)).phi(rates.passing, rates.failing)
        between = float(rates.masses @ (phi - float(rates.masses @ phi)) ** 2)
        total = float(means[i] * (1 - means[i]) / trials[i] * 85)
        assert more[i] * max(float(eq.census_factor(1, between, total)), 0.02) == pytest.approx(trials[i], rel=1e-9)
        assert same[i] == means[i]


# Eq. 43


@pytest.mark.parametrize("prompts", [1_000, 20_000])
def test_eq_43_half_width_at_n(prompts: int) -> None:
    """Mutant: a factor 2 in the number of prompts of the expected counts."""
    rates = DiscretePassRates(
        passing=np.array([0.0, 0.2, 0.6, 1.0]),
        failing=np.array([1.0, 0.8, 0.4, 0.0]),
        masses=np.array([0.2, 0.4, 0.3, 0.1]),
    )
    dead = rates.all_pass(8) + rates.all_fail(8)
    low, high = expected_limits(rates, prompts, 8, 8, 0.95)
    z = 1.959964
    assert (high - low) / 2 == pytest.approx(float(eq.expected_half_width(dead, prompts, z)), rel=0.03)
    assert float(eq.prompts_for(dead, eq.expected_half_width(dead, prompts, z), z)) == pytest.approx(prompts)


@pytest.mark.parametrize("g", [2, 4])
def test_eq_43_more_rollouts_never_bring_the_kernel_below_the_variance_between_prompts(g: int) -> None:
    rates, weights = [sp.Rational(1, 5), HALF, sp.Rational(9, 10)], [HALF, THIRD, sp.Rational(1, 6)]
    mean = eq.dead_fraction(rates, weights, g)
    between = eq.mixture_mean(lambda p: (eq.dead(p, g) - mean) ** 2, rates, weights)
    variances = []
    for n in (g, g + 1, 2 * g):
        law = [eq.cell_chance(k, n, rates, weights) for k in range(n + 1)]
        variances.append(sp.Add(*(f * (eq.u_statistic(k, n, g) - mean) ** 2 for k, f in enumerate(law))))
    assert variances[0] == mean * (1 - mean)  # at n = G a share of prompts
    assert variances[0] > variances[1] > variances[2] > between
