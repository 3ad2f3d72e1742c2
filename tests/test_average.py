"""Tilted Betas, their evidence, the average over them, and how it joins the counts at n."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import eval_legendre, expit
from scipy.stats import betabinom, multivariate_normal

from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.average import AveragedFit, fit_average, nonparametric_share, priors
from grpo_plan.fitting.betabinomial import fit_beta_binomial
from grpo_plan.fitting.points import joined
from grpo_plan.fitting.tilted import LogitGrid, TiltedFit, fit_tilted
from grpo_plan.pilot import Pilot, PilotHistogram
from tests.conftest import pilot_of

RNG = np.random.default_rng(3)
ATOMS = Pilot.from_counts(RNG.binomial(8, np.where(RNG.random(1000) < 0.5, 0.0, RNG.random(1000))), 8)
UNEQUAL_N = RNG.integers(2, 12, 400)
UNEQUAL = Pilot.from_counts(RNG.binomial(UNEQUAL_N, RNG.beta(0.5, 1.0, 400)), UNEQUAL_N)
EXAMPLE = pilot_of(EXAMPLE_PROMPTS_BY_SUCCESSES)


def shape_of(fit: TiltedFit) -> tuple[float, float]:
    return float(np.exp(fit.parameters[0])), float(np.exp(fit.parameters[1]))


def start(h: PilotHistogram, degree: int) -> np.ndarray:
    beta = fit_beta_binomial(h).rates
    assert beta.shape is not None
    return np.concatenate([np.log(beta.shape), np.zeros(degree)])


def test_degree_zero_is_the_beta_binomial_fit() -> None:
    for pilot in (EXAMPLE, ATOMS, UNEQUAL):
        h = pilot.histogram()
        beta, plain = fit_beta_binomial(h), fit_tilted(LogitGrid.of(h, 2), np.zeros(0), np.zeros(2))
        assert plain.converged
        assert shape_of(plain) == pytest.approx(beta.rates.shape, rel=2e-3)
        assert plain.log_likelihood == pytest.approx(beta.log_likelihood, abs=1e-3)
        assert beta.standard_errors is not None
        errors = np.sqrt(np.diag(plain.covariance)) * np.array(shape_of(plain))
        assert errors == pytest.approx(beta.standard_errors, rel=0.12)  # expected against observed information


def test_the_likelihood_is_that_of_scipy() -> None:
    h = EXAMPLE.histogram()
    plain = fit_tilted(LogitGrid.of(h, 2), np.zeros(0), start(h, 0))
    law = betabinom(8, *shape_of(plain))
    assert plain.log_likelihood == pytest.approx(float(h.prompts @ law.logpmf(h.successes)), abs=1e-6)


@pytest.mark.parametrize("precision", [6.0, 0.06])
@pytest.mark.parametrize("degree", [2, 6])
def test_moments_agree_with_numerical_integration(precision: float, degree: int) -> None:
    """The grid of logits against adaptive quadrature in t = logit p, tails included."""
    h = ATOMS.histogram()
    grid = LogitGrid.of(h, degree)
    fit = fit_tilted(grid, np.full(degree, precision), start(h, degree))
    a, b = shape_of(fit)
    tilts = fit.parameters[2:]

    def density(logit: float, power: int) -> float:
        tilt = sum(float(c) * float(eval_legendre(d, 2 * expit(logit) - 1)) for d, c in enumerate(tilts, start=1))
        return float(np.exp(-a * np.logaddexp(0, -logit) - (b + power) * np.logaddexp(0, logit) + tilt))

    def integral(power: int) -> float:
        edges = [-60.0, -20.0, -5.0, 0.0, 5.0, 20.0, 60.0]
        middle = sum(
            quad(lambda x: density(x, power), low, high, limit=200, epsrel=1e-10)[0] for low, high in pairwise(edges)
        )
        return (
            float(middle) + density(-60.0, power) / a + density(60.0, power) / (b + power)
        )  # pure exponentials beyond

    whole = integral(0)
    for power in (1, 8, 64):
        assert float(fit.mass @ grid.failing**power) == pytest.approx(integral(power) / whole, rel=1e-6)


def test_the_fit_is_a_stationary_point() -> None:
    """Finite differences of the penalised log-likelihood vanish; the stated derivatives of the masses are right."""
    h = UNEQUAL.histogram()
    grid = LogitGrid.of(h, 2)
    precisions = np.array([0.6, 0.6])
    fit = fit_tilted(grid, precisions, start(h, 2))
    seen = grid.prompts > 0

    def objective(t: np.ndarray) -> float:
        cells = grid.table @ grid.density(t)[0]
        return float(grid.prompts[seen] @ np.log(cells[seen])) - 0.5 * float(precisions @ t[2:] ** 2)

    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-5
        slope = (objective(fit.parameters + step) - objective(fit.parameters - step)) / 2e-5
        assert abs(slope) < 0.02, i  # of 400 prompts; half a prompt's score is 0.5
        numeric = (
            np.log(grid.density(fit.parameters + step)[0]) - np.log(grid.density(fit.parameters - step)[0])
        ) / 2e-5
        difference = numeric - fit.derivatives[i]
        assert np.ptp(difference) < 1e-5 * (1 + np.ptp(fit.derivatives[i]))  # equal up to a constant


def test_evidence_is_the_laplace_approximation() -> None:
    """log N(c; 0, prior) + log-likelihood + 1/2 log det (2 pi V), up to the same constant for every prior."""
    h = EXAMPLE.histogram()
    grid = LogitGrid.of(h, 6)
    shifts = []
    for precisions in [np.zeros(0), *priors()]:
        fit = fit_tilted(grid, precisions, start(h, precisions.size))
        value = fit.log_likelihood + 0.5 * np.linalg.slogdet(2 * np.pi * fit.covariance)[1]
        if precisions.size:
            value += multivariate_normal(np.zeros(precisions.size), np.diag(1 / precisions)).logpdf(fit.parameters[2:])
        shifts.append(value - fit.log_evidence)
    assert shifts == pytest.approx([shifts[0]] * len(shifts), abs=1e-6)


def test_published_average_of_the_example() -> None:
    """Degrees 0, 2 and 4 with next to no prior, weighed by AIC: D(16) .3285, D(32) .2461, D(64) .1864."""
    h = EXAMPLE.histogram()
    grid = LogitGrid.of(h, 4)
    fits = [fit_tilted(grid, np.full(d, 0.002), start(h, d)) for d in (0, 2, 4)]
    aic = np.array([2 * (2 + d) - 2 * fit.log_likelihood for d, fit in zip((0, 2, 4), fits, strict=True)])
    weights = np.exp(-(aic - aic.min()) / 2)
    average = AveragedFit(grid=grid, fits=tuple(fits), weights=weights / weights.sum())
    for g, value in ((16, 0.3285), (32, 0.2461), (64, 0.1864)):
        assert average.mean(grid.passing**g + grid.failing**g)[0] == pytest.approx(value, abs=2e-3)


def test_the_average_is_between_its_fits_and_so_is_its_error() -> None:
    average = fit_average(EXAMPLE.histogram(), fit_beta_binomial(EXAMPLE.histogram()).rates)
    phi = average.grid.passing**32 + average.grid.failing**32
    values = np.array([fit.mean(phi) for fit in average.fits])
    mean, error = average.mean(phi)
    assert values[:, 0].min() < mean < values[:, 0].max()
    spread = average.weights @ (values[:, 0] - mean) ** 2
    assert error**2 == pytest.approx(float(average.weights @ values[:, 1] ** 2 + spread))
    assert average.weights.sum() == pytest.approx(1.0)
    assert average.rates.all_pass(32) + average.rates.all_fail(32) == pytest.approx(mean, rel=1e-12)
    tilted = average.tilted
    assert tilted.weights == pytest.approx(average.weights[1:] / average.weights[1:].sum())
    assert average.plain.mean(phi)[0] == values[0, 0]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), min_size=4, max_size=9).filter(lambda c: sum(c[1:-1]) > 0))
def test_values_fall_with_g_and_join_the_counts_at_n(counts: list[int]) -> None:
    fit = fit_pass_rates(pilot_of(counts))
    n = len(counts) - 1
    values = [fit.dead(g).value or 0.0 for g in (n - 1, n, n + 1, 2 * n, 4 * n, 16 * n)]
    assert all(a >= b - 1e-12 for a, b in pairwise(values))
    d, after = fit.dead(n), fit.dead(n + 1)
    assert (d.method, after.method) == ("u-statistic", "average")
    assert after.all_pass is not None
    assert d.all_pass is not None
    if d.all_pass == 0.0:
        assert after.all_pass == 0.0
    for g in (n + 1, 4 * n):
        pmf = fit.group_pmf(g)
        assert pmf.min() >= 0.0
        assert pmf.sum() == pytest.approx(1.0, abs=1e-9)
        assert pmf[0] + pmf[-1] == pytest.approx(fit.dead(g).value or 0.0, abs=1e-9)


def test_joining() -> None:
    assert joined(0.3, 0.1, 0.2) == pytest.approx(0.15)
    assert joined(0.0, 0.1, 0.2) == 0.0
    assert joined(0.3, 0.0, 0.0) == 0.0


def test_a_smooth_fit_that_the_data_refuse_gives_way(example_fit: PassRateFit) -> None:
    """A third of the prompts at .02, .4 and .95 each: no smooth F of this family fits 5,000 such prompts."""
    rng = np.random.default_rng(1)
    p = rng.choice([0.02, 0.4, 0.95], 5000)
    fit = fit_pass_rates(Pilot.from_counts(rng.binomial(16, p), 16))
    assert fit.nonparametric_share > 0.99
    d = fit.dead(64)
    assert d.smooth_interval is None
    assert d.value == pytest.approx((d.low + d.high) / 2, abs=3e-3)
    truth = np.mean([0.02**64 + 0.98**64, 0.4**64 + 0.6**64, 0.95**64 + 0.05**64])
    assert abs((d.value or 0) - truth) < 0.05
    assert example_fit.nonparametric_share < 0.1


def test_nonparametric_share() -> None:
    assert nonparametric_share(5.0, 8) == pytest.approx((0.5 - 0.1) / 0.9)
    assert nonparametric_share(-5000.0, 8) == 0.0
    assert nonparametric_share(30.0, 8) > nonparametric_share(30.0, 64)


def test_large_n_needs_a_finer_grid() -> None:
    """300 prompts of 4,000 rollouts: moments as from the rates themselves."""
    rng = np.random.default_rng(2)
    p = rng.beta(0.5, 0.8, 300)
    h = Pilot.from_counts(rng.binomial(4000, p), 4000).histogram()
    average = fit_average(h, fit_beta_binomial(h).rates)
    assert average.grid.passing.size > 2000
    direct = float(np.mean((1 - p) ** 16))
    assert average.rates.all_fail(16) == pytest.approx(direct, abs=0.02)
    assert all(fit.converged for fit in average.fits)
