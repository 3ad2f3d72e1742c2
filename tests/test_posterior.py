"""Prompts chosen by their counts: posterior, held-out halves, limits; raw rates are biased where these are not."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import sympy as sp
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import binom

from grpo_plan import symbolic as eq
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.fitting.functionals import dead
from grpo_plan.fitting.thresholds import thresholds_for
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import Pilot, PilotHistogram
from grpo_plan.planning.posterior import (
    chance_of,
    conditional_limits,
    held_out_laws,
    laws_of_cells,
    posterior_masses,
    rates_given,
)
from grpo_plan.planning.strata import bucket_names, bucket_of, bucket_strata
from tests.conftest import pilot_of
from tests.helpers import assert_mean

Floats = NDArray[np.float64]
RATES = [sp.Rational(0), sp.Rational(1, 10), sp.Rational(1, 2), sp.Rational(1)]
WEIGHTS = [sp.Rational(1, 5), sp.Rational(2, 5), sp.Rational(3, 10), sp.Rational(1, 10)]
A, B = 0.4, 0.8  # the known F of the simulations


def as_rates() -> DiscretePassRates:
    p = np.array([float(r) for r in RATES])
    return DiscretePassRates(passing=p, failing=1.0 - p, masses=np.array([float(w) for w in WEIGHTS]))


def cells(*outcomes: tuple[int, int, int]) -> PilotHistogram:
    """From (n, k, prompts)."""
    n, k, prompts = np.array(outcomes, dtype=np.int64).T
    return PilotHistogram(rollouts=n, successes=k, prompts=prompts)


@pytest.mark.parametrize(("n", "k"), [(4, 0), (4, 1), (4, 4), (9, 3)])
def test_the_posterior_is_that_of_theory(n: int, k: int) -> None:
    found = posterior_masses(as_rates(), np.array([k]), np.array([n]))[0]
    np.testing.assert_allclose(found, [float(w) for w in eq.posterior(RATES, WEIGHTS, k, n)], atol=1e-14)


def test_a_prompt_that_never_passed_is_not_at_zero() -> None:
    masses = posterior_masses(as_rates(), np.array([0]), np.array([4]))[0]
    assert 0.3 < masses[0] < 0.5
    assert masses[1] > masses[0]


def test_a_bucket_is_the_mean_of_its_cells() -> None:
    bucket, everyone = cells((4, 0, 30), (4, 1, 10)), cells((4, 0, 30), (4, 1, 10), (4, 3, 60))
    given = rates_given(as_rates(), bucket)
    by_hand = 0.75 * posterior_masses(as_rates(), np.array([0]), np.array([4]))[0]
    by_hand += 0.25 * posterior_masses(as_rates(), np.array([1]), np.array([4]))[0]
    np.testing.assert_allclose(given.masses, by_hand, atol=1e-14)
    p = np.array([0.0, 0.2, 0.7, 1.0])
    np.testing.assert_allclose(chance_of(bucket, everyone)(p, 1.0 - p), binom.cdf(1, 4, p), atol=1e-14)


def test_the_chance_of_a_cell_counts_the_numbers_of_rollouts() -> None:
    everyone = cells((2, 0, 30), (4, 1, 10), (4, 4, 60))
    p = np.array([0.1, 0.5])
    found = chance_of(cells((4, 4, 60)), everyone)(p, 1.0 - p)
    np.testing.assert_allclose(found, 0.7 * p**4, rtol=1e-12)
    total = sum(chance_of(cells((n, k, 1)), everyone)(p, 1.0 - p) for n in (2, 4) for k in range(n + 1))
    np.testing.assert_allclose(total, 1.0, atol=1e-12)


def test_laws_of_cells_are_those_of_their_posteriors() -> None:
    few = cells((4, 0, 30), (4, 3, 10), (9, 5, 2))
    found = laws_of_cells(as_rates(), few, 6)
    for i, (n, k) in enumerate([(4, 0), (4, 3), (9, 5)]):
        np.testing.assert_allclose(found[i], rates_given(as_rates(), cells((n, k, 1))).group_pmf(6), atol=1e-14)


def test_pilots_of_many_rollouts_keep_the_fit_when_resampled() -> None:
    """Above 256 rollouts a prompt speaks for itself: the laws of the buckets are the same, the resampling is linear."""
    rng = np.random.default_rng(6)
    fit = fit_pass_rates(Pilot.from_counts(rng.binomial(300, rng.beta(A, B, 120)), 300))
    laws = bucket_strata(fit, 4, (0.2, 0.8), "posterior", 0.95)
    assert not laws.refitted
    np.testing.assert_allclose(laws.judge(list(laws.counts)), laws.laws(), atol=1e-12)
    rates = fit.pilot.successes / 300
    hard = rates[rates < 0.2]
    assert laws.strata[0].dead == pytest.approx(float(np.mean(hard**4 + (1 - hard) ** 4)), abs=0.01)


# Held-out halves


@pytest.mark.parametrize(("n", "k", "g"), [(4, 2, 2), (5, 2, 3), (6, 4, 2)])
def test_held_out_laws_are_means_over_all_orders(n: int, k: int, g: int) -> None:
    """Every order of the rewards of one prompt: the first half chooses, the first G of the second half are the group."""
    edges, first = np.array([0.5]), n // 2
    shares, laws, _ = held_out_laws(cells((n, k, 1)), lambda j, a: bucket_of(j, a, edges), g, 2)
    orders = list(permutations([1] * k + [0] * (n - k)))
    counted = np.zeros((2, g + 1))
    for order in orders:
        bucket = int(sum(order[:first]) / first >= 0.5)
        counted[bucket, sum(order[first : first + g])] += 1.0 / len(orders)
    np.testing.assert_allclose(laws[0], counted, atol=1e-12)
    np.testing.assert_allclose(shares[0], counted.sum(axis=1), atol=1e-12)
    chosen = [[j for j in range(first + 1) if (j / first >= 0.5) == bool(b)] for b in range(2)]
    exact = np.array([[float(x) for x in eq.held_out_law(k, n, first, js, g)] for js in chosen])
    np.testing.assert_allclose(laws[0], exact, atol=1e-14)


@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(1, 2), Fraction(4, 5)])
def test_held_out_laws_are_unbiased_at_every_pass_rate(p: Fraction) -> None:
    """Exact: the mean over k of the law is (chance that the first half chooses) x (law of a fresh group)."""
    n, g, first, chosen = 6, 2, 3, (0, 1)
    mean = [sp.Integer(0)] * (g + 1)
    for k in range(n + 1):
        law = eq.held_out_law(k, n, first, chosen, g)
        mean = [m + eq.binomial_pmf(k, n, eq.exact(p)) * x for m, x in zip(mean, law, strict=True)]
    choose = sum(eq.binomial_pmf(j, first, eq.exact(p)) for j in chosen)
    for i in range(g + 1):
        assert mean[i] == choose * eq.binomial_pmf(i, g, eq.exact(p))


# Known F


def truth(inside: tuple[int, ...], n: int, g: int) -> float:
    """Dead fraction at G of the prompts with k of n inside, for F = Beta(A, B): closed form."""
    log_c = [float(np.log(float(sp.binomial(n, k)))) for k in range(n + 1)]
    seen = sum(np.exp(log_c[k] + betaln(A + k, B + n - k)) for k in inside)
    dying = sum(
        np.exp(log_c[k]) * (np.exp(betaln(A + k + g, B + n - k)) + np.exp(betaln(A + k, B + n - k + g))) for k in inside
    )
    return float(dying / seen)


def raw_dead(pilot: Pilot, inside: tuple[int, ...], g: int) -> float:
    """What k/n promises."""
    rates = (pilot.successes / pilot.rollouts)[np.isin(pilot.successes, inside)]
    return float(np.mean(rates**g + (1.0 - rates) ** g))


BUCKETS = {"hard": (0,), "middle": (1, 2, 3), "easy": (4,)}


@pytest.fixture(scope="module")
def simulated() -> dict[str, list[Floats]]:
    """Dead fractions at G = 4 of three buckets of 2,500 prompts x 4, by posterior and by k/n, over 40 pilots."""
    rng = np.random.default_rng(59)
    found: dict[str, list[Floats]] = {"posterior": [], "raw": []}
    for _ in range(40):
        pilot = Pilot.from_counts(rng.binomial(4, rng.beta(A, B, 2500)), 4)
        rates, h = fit_pass_rates(pilot).likely_rates, pilot.histogram()
        parts = [PilotHistogram(rollouts=h.rollouts[m], successes=h.successes[m], prompts=h.prompts[m])
                 for ks in BUCKETS.values() for m in [np.isin(h.successes, ks)]]  # fmt: skip
        given = [rates_given(rates, part) for part in parts]
        found["posterior"].append(np.array([r.all_pass(4) + r.all_fail(4) for r in given]))
        found["raw"].append(np.array([raw_dead(pilot, ks, 4) for ks in BUCKETS.values()]))
    return found


@pytest.mark.parametrize(("place", "name"), list(enumerate(BUCKETS)))
def test_raw_rates_are_biased_where_the_posterior_is_not(
    simulated: dict[str, list[Floats]], place: int, name: str
) -> None:
    """Five standard errors over 40 pilots: false alarm about 6e-7 a bucket; the raw rate must fail the same check."""
    exact = truth(BUCKETS[name], 4, 4)
    assert_mean([row[place] for row in simulated["posterior"]], exact, catches=0.03)
    raw = [row[place] for row in simulated["raw"]]
    if name == "middle":
        with pytest.raises(AssertionError, match="z ="):
            assert_mean(raw, exact, catches=0.03)
        assert np.mean(raw) < exact
    else:  # at k = 0 and k = n the raw rate says "dead for certain", with no spread at all
        assert set(raw) == {1.0}
        assert exact < 0.9


def test_held_out_halves_are_unbiased_without_a_model() -> None:
    """Buckets of the first 4 of 8 rollouts; F is three atoms, which no smooth fit describes. 60 pilots, 5 s.e."""
    rng = np.random.default_rng(60)
    atoms, weights = np.array([0.0, 0.15, 0.6]), np.array([0.3, 0.4, 0.3])
    hard = binom.pmf(0, 4, atoms) * weights
    exact = float(hard @ (atoms**4 + (1.0 - atoms) ** 4) / hard.sum())
    found = []
    for _ in range(60):
        k = rng.binomial(8, rng.choice(atoms, 1000, p=weights))
        pilot = Pilot.from_counts(k, 8)
        laws = bucket_strata(fit_pass_rates(pilot), 4, (0.2, 0.8), "halves", 0.95)
        found.append(laws.strata[0].dead)
        assert laws.strata[0].dead_low < laws.strata[0].dead < laws.strata[0].dead_high
    assert_mean(found, exact, catches=0.015)


@pytest.mark.slow
def test_limits_of_a_chosen_bucket_cover() -> None:
    """100 pilots of 300 x 4 from Beta(.4, .8): at 95 %, 86 or fewer hits have a chance of 3e-4; none above is asked."""
    rng = np.random.default_rng(61)
    exact, hits, widths = truth((0,), 4, 4), 0, []
    for _ in range(100):
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(4, rng.beta(A, B, 300)), 4))
        h = fit.pilot.histogram()
        zero = cells((4, 0, int(h.prompts[h.successes == 0][0])))
        low, high = conditional_limits(fit, dead(4).phi, chance_of(zero, h), 0.95, degree=8, near=0.8)
        hits += low <= exact <= high
        widths.append(high - low)
    assert hits > 86
    assert np.mean(widths) < 0.35


def test_an_independent_solver_agrees_on_the_limits() -> None:
    """At the upper limit r the largest E[(phi - r) l] over all F within the likelihood threshold is 0: by Clarabel."""
    cp = pytest.importorskip("cvxpy")
    pilot = pilot_of((120, 40, 30, 30, 60))
    fit, h, g = fit_pass_rates(pilot), pilot.histogram(), 4
    zero, phi = cells((4, 0, 120)), dead(4).phi
    low, high = conditional_limits(fit, phi, chance_of(zero, h), 0.95, degree=8, near=0.8)
    grid = np.sin(np.linspace(0.0, np.pi / 2.0, 401)) ** 2
    chances = np.array([binom.pmf(k, 4, grid) for k in range(5)])
    counts = h.prompts / 280.0
    # the threshold is that of the package; the optimisation is not
    from grpo_plan.fitting.functionals import Functional

    shape = Functional(name="x", degree=8, phi=phi, kernel=lambda k, n: k, pushed_up_by="")
    crit = thresholds_for(h, shape, 0.95).upper
    w = cp.Variable(401, nonneg=True)
    fitted = counts @ cp.log(chances @ w)
    top = cp.Problem(cp.Maximize(fitted), [cp.sum(w) == 1])
    top.solve(solver="CLARABEL")
    limits = [cp.sum(w) == 1, fitted >= float(top.value) - crit / (2 * 280)]
    for r, sign in ((high, 1.0), (low, -1.0)):
        weight = sign * (phi(grid, 1.0 - grid) - r) * (1.0 - grid) ** 4
        problem = cp.Problem(cp.Maximize(weight @ w), limits)
        problem.solve(solver="CLARABEL")
        assert float(problem.value) == pytest.approx(0.0, abs=5e-4 * 0.5)
    assert g == 4


def test_buckets_of_any_number_have_names_and_places() -> None:
    assert bucket_names(np.array([0.1, 0.5, 0.9])) == ["0-0.1", "0.1-0.5", "0.5-0.9", "0.9-1"]
    place = bucket_of(np.arange(9), np.full(9, 8), np.array([0.25, 0.75]))
    assert place.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2]
    assert place.tolist() == (2 - place[::-1]).tolist()  # hard and easy are mirror images


def test_slips_are_one_line() -> None:
    fit = fit_pass_rates(pilot_of((20, 5, 5, 5, 20)))
    with pytest.raises(DomainError, match=r"edges must rise strictly inside \(0, 1\), e.g. 0.2,0.8; got 0.8, 0.2."):
        bucket_strata(fit, 4, (0.8, 0.2), "posterior", 0.95)
    with pytest.raises(DomainError, match="correction must be posterior or halves; got 'raw'"):
        bucket_strata(fit, 4, (0.2, 0.8), "raw", 0.95)
    with pytest.raises(PilotError, match=r"needs 4 rollouts in the second half .* at most 2. Take the default"):
        bucket_strata(fit, 4, (0.2, 0.8), "halves", 0.95)
    with pytest.raises(PilotError, match="does not determine groups of 4"):
        bucket_strata(fit_pass_rates(pilot_of((20, 20))), 4, (0.2, 0.8), "posterior", 0.95)
