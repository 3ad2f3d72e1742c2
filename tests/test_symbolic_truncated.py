"""Section 16 of theory.md against the code: exact small cases, enumeration, an independent convex solver.

Each test names the change of the formula that it catches ("Mutant"); each was made once and seen to fail.
"""

# mypy: disable-error-code="attr-defined, no-untyped-call"
from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import betaln

from grpo_plan import symbolic as eq
from grpo_plan.fitting import fit_pass_rates, functionals, truncated_limits
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.truncated import Survivors, survivor_chance
from grpo_plan.fitting.truncated_fit import TruncatedFit, contradiction
from grpo_plan.fitting.truncated_limits import SurvivorLimits
from grpo_plan.groups import mixed_probability
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import Pilot
from tests.helpers import assert_precise, enumerated, outcomes

Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=20)
RATES = [sp.Rational(1, 7), sp.Rational(1, 2), sp.Rational(4, 5)]
WEIGHTS = [sp.Rational(1, 4), sp.Rational(5, 12), sp.Rational(1, 3)]
VISIT = (151, 103, 91, 73, 76, 88, 96)  # mixed groups of 8 in the first visit of the example
COUNTS = st.lists(st.integers(0, 40), min_size=2, max_size=9).filter(lambda counts: sum(counts) > 0)


def truncated(counts: tuple[int, ...] | list[int], dropped: int | None = None) -> TruncatedFit:
    n = len(counts) + 1
    pilot = Pilot.from_counts(np.repeat(np.arange(1, n), counts), n)
    fit = fit_pass_rates(pilot, truncated=True, dropped_groups=dropped)
    assert isinstance(fit, TruncatedFit)
    return fit


def limits_of(counts: tuple[int, ...] | list[int]) -> SurvivorLimits:
    found = truncated(counts)._uncertainty
    assert isinstance(found, SurvivorLimits)
    return found


def has_passes(k: int, rewards: tuple[int, ...]) -> bool:
    return sum(rewards) == k


# --- eq. 73 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5])
def test_law_of_a_mixed_group_is_that_of_all_groups_given_mixed(n: int) -> None:
    """Mutants: 1 - p^n - q^n without q^n; the binomial coefficient left out; k = 0 as the limit at p = 0."""
    p = Fraction(1, 5)
    alive = [rewards for rewards in outcomes(n) if 0 < sum(rewards) < n]
    chance = enumerated(lambda rewards: rewards in alive, p, n)
    rates, x = np.array([0.0, float(p), 1.0]), sp.Symbol("x")
    found = survivor_chance(n, np.arange(1, n), rates, 1.0 - rates)
    for k in range(1, n):
        wanted = enumerated(partial(has_passes, k), p, n) / chance
        assert sp.Rational(wanted.numerator, wanted.denominator) == eq.survivor_chance(k, n, sp.Rational(1, 5))
        assert_precise(float(found[k - 1, 1]), wanted, rel=1e-14)
        assert found[k - 1, 0] == float(sp.limit(eq.survivor_chance(k, n, x), x, 0, "+"))
        assert found[k - 1, 2] == float(sp.limit(eq.survivor_chance(k, n, x), x, 1, "-"))
    assert found.sum(axis=0) == pytest.approx(1.0, abs=1e-14)


def test_survivors_mix_by_their_own_distribution_and_atoms_cancel() -> None:
    """Mutants: H without the factor m_n; atoms at 0 and 1 left in it."""
    n = 4
    h = eq.survivor_weights(n, RATES, WEIGHTS)
    with_atoms = [sp.Integer(0), *RATES, sp.Integer(1)]
    weights = [sp.Rational(1, 5), *(w / 2 for w in WEIGHTS), sp.Rational(3, 10)]
    assert eq.survivor_weights(n, with_atoms, weights) == [0, *h, 0]
    for k in range(1, n):
        chance = eq.mixed_group_chance(k, n, RATES, WEIGHTS)
        assert sp.simplify(chance - sum(w * eq.survivor_chance(k, n, p) for p, w in zip(RATES, h, strict=True))) == 0
        assert sp.simplify(chance - eq.mixed_group_chance(k, n, with_atoms, weights)) == 0


def test_likelihood_is_that_of_the_kernel() -> None:
    """Mutants: rows that are not scaled back; weights that are not shares of the mixed groups."""
    counts = (4, 0, 3, 2)
    survivors = Survivors(group_size=5, counts=np.array(counts))
    mixing = survivors.mixing
    at = [int(np.argmin(np.abs(mixing.passing - float(p)))) for p in RATES]
    rates = [sp.Float(mixing.passing[j], 30) for j in at]
    masses = np.array([0.2, 0.5, 0.3])
    mine = mixing.prompts * float(mixing.weights @ np.log(mixing.likelihood[:, at] @ masses)) + mixing.log_constant
    wanted = sum(
        count * sp.log(sum(w * eq.survivor_chance(k, 5, p) for p, w in zip(rates, masses, strict=True)))
        for k, count in enumerate(counts, 1)
    )
    assert mine == pytest.approx(float(wanted), rel=1e-12)
    assert survivors.total == 9


@pytest.mark.parametrize("counts", [VISIT, (9, 3, 1), (1,), (0, 5, 0), (40, 0, 0, 0, 0, 0, 0)])
def test_maximum_is_certified(counts: tuple[int, ...]) -> None:
    profile = Survivors(group_size=len(counts) + 1, counts=np.array(counts)).profile
    assert profile.certificate < 1e-3


# --- eq. 74 ------------------------------------------------------------------------------------------------------


def test_a_mean_over_all_prompts_is_a_ratio_over_survivors() -> None:
    """Mutants: the weights 1 / m_n left out above or below the line; m_n for another n."""
    n, g = 4, 6
    h = eq.survivor_weights(n, RATES, WEIGHTS)
    dead = eq.mean_from_survivors(lambda p: eq.dead(p, g), n, RATES, h)
    assert sp.simplify(dead - eq.dead_fraction(RATES, WEIGHTS, g)) == 0
    inverse = sum(w / eq.mixed(p, n) for p, w in zip(RATES, h, strict=True))
    assert sp.simplify(1 - 1 / inverse - eq.dead_fraction(RATES, WEIGHTS, n)) == 0


def smallest_ratio(survivors: Survivors, phi: Floats, threshold: float) -> float:
    """The low limit by bisection on r, each linear question put to another convex solver."""
    mixing, n = survivors.mixing, survivors.group_size
    inner = slice(1, -1)
    mixed = np.asarray(mixed_probability(np.minimum(mixing.passing, mixing.failing)[inner], n))
    table, phi = mixing.likelihood[:, inner], phi[inner]
    floor = survivors.profile.best.log_likelihood - threshold / (2.0 * survivors.groups)
    keep = mixed > 2e-3  # the minimiser has no mass further out
    masses = cp.Variable(int(keep.sum()), nonneg=True)
    likely = [cp.sum(masses) == 1, mixing.weights @ cp.log(table[:, keep] @ masses) >= floor]
    low, high = 0.0, 1.0
    for _ in range(22):
        r = 0.5 * (low + high)
        problem = cp.Problem(cp.Minimize(((phi[keep] - r) / mixed[keep]) @ masses), likely)
        problem.solve(solver=cp.CLARABEL)
        low, high = (r, high) if problem.value > 0.0 else (low, r)
    return low


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "g"), [(VISIT, 8), (VISIT, 16), ((30, 12, 9), 4), ((1, 2, 0, 4, 9), 3)])
def test_low_limit_agrees_with_another_solver(counts: tuple[int, ...], g: int) -> None:
    """Mutants: the ratio of the first step; weights other than 1 / m_n."""
    limits = limits_of(counts)
    mixing = limits.profile.mixing
    phi = functionals.dead(g).phi(mixing.passing, mixing.failing)
    mine = limits.lowest_mean(phi, 5.99)
    theirs = smallest_ratio(limits.survivors, phi, 5.99)
    assert theirs - 1e-4 < mine < theirs + 2e-5


def test_a_search_that_stops_early_gives_a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants: slack added instead of taken away, or left out."""
    for counts in (VISIT, (900, 30, 5, 1, 0, 0, 0)):
        limits = limits_of(counts)
        mixing = limits.profile.mixing
        phi = functionals.dead(8).phi(mixing.passing, mixing.failing)
        exact = limits.lowest_mean(phi, 5.99)
        for sharper in (100.0, 1000.0):
            monkeypatch.setattr(truncated_limits, "SHARPER", sharper)
            assert limits.lowest_mean(phi, 5.99) <= exact + 1e-5
        monkeypatch.undo()


def test_weights_are_cut_where_it_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: 1 / m_n cut at half its mean. Some groups next to dead, most far from it, so that it matters most."""
    limits = limits_of((3200, 1100, 2200, 2750, 2200, 1100, 300))
    mixing = limits.profile.mixing
    phi = functionals.dead(8).phi(mixing.passing, mixing.failing)
    found = limits.lowest_mean(phi, 5.99)
    monkeypatch.setattr(truncated_limits, "LARGEST_WEIGHT", 2000.0)
    monkeypatch.setattr(truncated_limits, "SHARPER", 1e-4)
    assert found == pytest.approx(limits.lowest_mean(phi, 5.99), abs=1e-4)


def test_thresholds_are_those_of_two_degrees() -> None:
    """Mutants: one degree; n - 1 degrees for all G at once. Two degrees: -2 log(1 - level)."""
    limits = limits_of(VISIT)
    found = limits.thresholds(functionals.dead(8), 0.95)
    assert (found.lower, found.upper) == pytest.approx((-2 * math.log(0.05),) * 2)
    assert float(eq.chi_square_tail(found.lower, 2)) == pytest.approx(0.05)
    everywhere = limits.thresholds(functionals.dead(8), 0.95, everywhere=True)
    assert float(eq.chi_square_tail(everywhere.lower, 6)) == pytest.approx(0.05)


def test_ends_bound_the_limits() -> None:
    """Mutants: phi(0) or phi(1) left out of the minimum."""
    limits = limits_of(VISIT)
    assert limits.limits(functionals.all_pass(8), 0.95) == (0.0, 1.0)
    assert limits.limits(functionals.all_fail(8), 0.95) == (0.0, 1.0)
    low, high = limits.limits(functionals.custom(lambda p: 4.0 * p * (1.0 - p), "spread"), 0.95)
    assert low == 0.0
    assert 0.4 < high < 0.8
    low, high = limits.limits(functionals.stopping_cost(16), 0.95)
    assert 2.0 < low < 10.0
    assert high == 16.0
    assert limits.limits(functionals.custom(lambda p: np.full(p.shape, 0.3), "constant"), 0.95) == pytest.approx(
        (0.3, 0.3)
    )


@given(COUNTS)
@quick
def test_only_1_of_2_shows_nothing_and_every_low_limit_is_possible(counts: list[int]) -> None:
    """Mutant: a low limit under that of all F, 2**(1-G)."""
    fit = truncated(counts)
    for g in (2, len(counts) + 1):
        low, high = fit.group_limits("dead", g, 0.95, False)
        assert high == 1.0
        assert low >= 2.0 ** (1 - g) - 1e-9
    if len(counts) == 1:
        assert fit.dead(2).value is None


@pytest.mark.parametrize("seen", ["mixed", "merged"])
def test_identified_range_against_what_is_fixed(seen: str) -> None:
    """Mutants: the unknown factor fixed at 1; the merged cell left out; sums that need not be 1."""
    rates = DiscretePassRates(
        passing=np.array([0.1, 0.5, 0.8]), failing=np.array([0.9, 0.5, 0.2]), masses=np.array([0.5, 0.2, 0.3])
    )
    true = rates.all_pass(4) + rates.all_fail(4)
    low, high = range_at(rates, 4, functionals.dead(4), seen=seen)
    if seen == "merged":  # the share of the merged cell itself
        assert (low, high) == pytest.approx((true, true), abs=2e-4)
    else:
        assert high == pytest.approx(1.0)
        assert 0.125 < low < true
    everything = range_at(rates, 4, functionals.dead(9))
    less = range_at(rates, 4, functionals.dead(9), seen=seen)
    assert less[0] <= everything[0] + 1e-6
    assert less[1] >= everything[1] - 1e-6


def test_identified_low_end_with_three_rollouts_in_closed_form() -> None:
    """n = 3: K_1 = q and K_2 = p, so that E_H[p] is all that is known, and E_H[1/(3pq)] is least at one rate."""
    p = np.array([0.2, 0.6])
    rates = DiscretePassRates(passing=p, failing=1.0 - p, masses=np.array([0.5, 0.5]))
    h = 0.5 * 3 * p * (1 - p)
    mean = float(h @ p / h.sum())
    low, _ = range_at(rates, 3, functionals.dead(3), seen="mixed")
    assert low == pytest.approx(1 - 3 * mean * (1 - mean), abs=1e-4)


# --- eq. 75 ------------------------------------------------------------------------------------------------------


def test_likelihood_with_counted_dead_groups() -> None:
    """Mutants: the dead cell p^n alone; a share of all groups that leaves the dead out."""
    counts, dropped = (4, 1, 3), 5
    survivors = Survivors(group_size=4, counts=np.array(counts), dropped=dropped)
    mixing = survivors.mixing
    at = [0, 120, 200, 400]
    rates = [sp.Float(mixing.passing[j], 30) for j in at]
    masses = [0.1, 0.4, 0.3, 0.2]
    inside = mixing.likelihood[:, at] @ np.array(masses)
    mine = mixing.prompts * float(mixing.weights @ np.log(inside)) + mixing.log_constant
    assert mine == pytest.approx(float(eq.counted_log_likelihood(counts, dropped, rates, masses)), rel=1e-12)
    assert survivors.total == 13


@given(COUNTS, st.integers(1, 200))  # 0: an ordinary fit
@quick
def test_counted_dead_groups_give_the_count(counts: list[int], dropped: int) -> None:
    """Mutants: a kernel other than 1 for dead groups; a split that loses groups."""
    fit = truncated(counts, dropped)
    n, total = len(counts) + 1, sum(counts) + dropped
    d = fit.dead(n)
    assert d.value == pytest.approx(dropped / total)
    assert d.low <= dropped / total + 1e-12
    assert d.high >= dropped / total - 1e-12
    pairs = fit.dead(2)
    k = np.arange(1, n)
    kernel = (k * (k - 1) + (n - k) * (n - k - 1)) / (n * (n - 1))
    assert pairs.value == pytest.approx((dropped + float(kernel @ np.array(counts))) / total)
    assert fit.fitted_prompts == total
    assert fit.group_pmf(n)[1:-1] == pytest.approx(np.array(counts) / total)


def test_contradiction_is_a_likelihood_ratio() -> None:
    """Mutants: the share of mixed groups left out; a sign. Counted at the rate of the fit nothing is contradicted."""
    counts = (60, 25, 10)
    some = [contradiction(Survivors(group_size=4, counts=np.array(counts), dropped=d)) for d in (0, 20, 60, 200, 2000)]
    assert some[0] > 30.0
    assert some[0] > some[1] > some[2]
    assert some[3:] == pytest.approx([0.0, 0.0], abs=1e-3)
    half = Survivors(group_size=4, counts=np.array((2, 3, 2)), dropped=1)
    assert contradiction(half) == pytest.approx(0.0, abs=1e-3)  # p = 1/2: 1 dead of 8, 4 : 6 : 4


# --- eq. 76 ------------------------------------------------------------------------------------------------------


def test_truncated_beta_fit_is_the_maximum_of_its_likelihood() -> None:
    """Mutants: no weight m_n; F's masses left those of H; priors of another width, or none. The maximum is penalised."""
    survivors = Survivors(group_size=8, counts=np.array(VISIT))

    def loss(x: Floats) -> float:
        a, b = np.exp(x)
        k = np.arange(0, 9)
        law = np.exp([betaln(a + i, b + 8 - i) - betaln(a, b) for i in k]) * [math.comb(8, i) for i in k]
        return -float(np.array(VISIT) @ np.log(law[1:-1] / law[1:-1].sum()))

    def penalised(x: Floats) -> float:
        return loss(x) + 0.5 * float(x @ x) / 2.0**2

    best = minimize(penalised, np.log([0.3, 0.5]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10})
    a, b = np.exp(best.x)
    parameters = truncated(VISIT).parameters
    assert (parameters["a"], parameters["b"]) == pytest.approx((a, b), rel=2e-4)
    assert parameters["log_likelihood"] == pytest.approx(-loss(best.x), abs=1e-3)
    plain = survivors.average.fits[0]
    grid = survivors.average.grid
    dead = functionals.dead(8).phi(grid.passing, grid.failing)
    wanted = math.exp(betaln(a + 8, b) - betaln(a, b)) + math.exp(betaln(a, b + 8) - betaln(a, b))
    assert plain.mean(dead)[0] == pytest.approx(wanted, abs=2e-4)


def test_beta_fit_with_counted_dead_groups_is_the_maximum_of_its_likelihood() -> None:
    """Mutant: the dead cell with another n."""

    def loss(x: Floats) -> float:
        a, b = np.exp(x)
        law = np.exp([betaln(a + i, b + 8 - i) - betaln(a, b) for i in range(9)]) * [math.comb(8, i) for i in range(9)]
        return -float(np.array(VISIT) @ np.log(law[1:-1])) - 531 * math.log(law[0] + law[8])

    best = minimize(loss, np.log([0.3, 0.5]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10})
    parameters = truncated(VISIT, 531).parameters
    assert (parameters["a"], parameters["b"]) == pytest.approx(np.exp(best.x), rel=2e-4)
    assert parameters["log_likelihood"] == pytest.approx(-best.fun, abs=1e-5)


def test_beta_law_of_mixed_groups() -> None:
    """Mutant: k = 0 or k = n among the cells."""
    law = [eq.survivor_beta_pmf(k, 4, 1, 1) for k in (1, 2, 3)]
    assert law == [sp.Rational(1, 3)] * 3  # a uniform F: k is uniform on 0 .. 4
    a, b = sp.Rational(1, 3), sp.Rational(3, 2)
    density = lambda p: p ** (float(a) - 1) * (1 - p) ** (float(b) - 1)  # noqa: E731
    mixed = quad(lambda p: density(p) * (1 - p**3 - (1 - p) ** 3), 0, 1)[0]
    one = quad(lambda p: density(p) * 3 * p * (1 - p) ** 2, 0, 1)[0]
    assert float(eq.survivor_beta_pmf(1, 3, a, b)) == pytest.approx(one / mixed, rel=1e-6)


def test_standard_error_is_the_delta_method_of_the_full_density() -> None:
    """Mutant: derivatives of h in place of those of f."""
    survivors = Survivors(group_size=8, counts=np.array(VISIT))
    fit, grid = survivors.average.fits[0], survivors.average.grid
    dead = functionals.dead(8).phi(grid.passing, grid.failing)
    slopes = []
    for i in range(2):
        ends = []
        for step in (1e-4, -1e-4):
            moved = fit.parameters.copy()
            moved[i] += step
            ends.append(float(grid.density(moved)[0] @ dead))
        slopes.append((ends[0] - ends[1]) / 2e-4)
    slope = np.array(slopes)
    assert fit.mean(dead)[1] == pytest.approx(math.sqrt(slope @ fit.covariance @ slope), rel=1e-4)


def test_evidence_holds_the_prior_of_the_shapes() -> None:
    """Mutant: the density of the prior at the fit left out of the evidence."""
    survivors = Survivors(group_size=8, counts=np.array(VISIT))
    fit = survivors.average.fits[0]
    _, log_determinant = np.linalg.slogdet(fit.covariance)
    prior = -0.5 * 0.25 * float(fit.parameters @ fit.parameters)
    constant = float(survivors.average.grid.prompts @ survivors.average.grid.log_scale)
    wanted = fit.log_likelihood - constant + prior + 0.5 * float(log_determinant)
    assert fit.log_evidence == pytest.approx(wanted, rel=1e-12)
