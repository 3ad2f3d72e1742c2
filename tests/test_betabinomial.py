"""Beta-binomial maximum likelihood: published fits, SciPy as second route, and pilots at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import betabinom

from grpo_plan.fitting.betabinomial import BetaBinomialFit, fit_beta_binomial
from grpo_plan.pilot import Pilot, PilotHistogram
from tests.conftest import pilot_of

PUBLISHED = [
    pytest.param((439, 151, 103, 91, 73, 76, 88, 96, 92), (0.34886, 0.70681), 2377.946, 1e-4, id="papers-28"),
    pytest.param((1792, 417, 282, 255, 454), (0.19300, 0.49660), 4106.966, 1e-4, id="papers-10"),
    pytest.param((0, 3, 13, 18, 48, 47, 67, 54, 51, 19), (6.9182, 3.7395), 640.8713, 1e-3, id="papers-30"),
]


def scipy_log_likelihood(h: PilotHistogram, a: float, b: float) -> float:
    return float(h.prompts @ betabinom.logpmf(h.successes, h.rollouts, a, b))


def shape_of(fit: BetaBinomialFit) -> tuple[float, float]:
    assert fit.rates.shape is not None
    return fit.rates.shape


@pytest.mark.parametrize(("counts", "shape", "nll", "tolerance"), PUBLISHED)
def test_published_fits(counts: tuple[int, ...], shape: tuple[float, float], nll: float, tolerance: float) -> None:
    fit = fit_beta_binomial(pilot_of(counts).histogram())
    assert shape_of(fit) == pytest.approx(shape, abs=tolerance)
    assert -fit.log_likelihood == pytest.approx(nll, abs=0.002)
    assert fit.log_likelihood == pytest.approx(scipy_log_likelihood(pilot_of(counts).histogram(), *shape_of(fit)))


def test_extrapolation_of_published_fits() -> None:
    """papers-11 and papers-29: D beyond the pilot from the fitted Beta."""
    starvation = fit_beta_binomial(pilot_of((1792, 417, 282, 255, 454)).histogram()).rates
    assert starvation.dead([8, 16, 64]) == pytest.approx([0.5907, 0.5007, 0.3651], abs=1e-4)
    one_shot = fit_beta_binomial(pilot_of((439, 151, 103, 91, 73, 76, 88, 96, 92)).histogram()).rates
    assert one_shot.dead([8, 16, 32, 64]) == pytest.approx([0.4449, 0.3373, 0.2568, 0.1964], abs=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_scipy_finds_nothing_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = np.exp(rng.uniform(-3, 3, 2))
    n = rng.integers(1, 20, 300)
    h = Pilot.from_counts(rng.binomial(n, rng.beta(a, b, 300)), n).histogram()
    fit = fit_beta_binomial(h)
    start = np.log(shape_of(fit)) if fit.rates.shape else np.zeros(2)
    best = minimize(
        lambda t: -scipy_log_likelihood(h, *np.exp(np.clip(t, -30, 30))), start, method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 4000},
    )  # fmt: skip
    assert fit.log_likelihood >= -best.fun - 1e-6


@settings(max_examples=150)
@given(
    rows=st.lists(
        st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=40
    )
)
def test_every_pilot_has_a_fit(rows: list[tuple[int, int]]) -> None:
    k, n = np.array(rows).T
    fit = fit_beta_binomial(Pilot.from_counts(k, n).histogram())
    assert 0.0 <= fit.rates.mean <= 1.0
    assert 0.0 <= fit.rates.correlation <= 1.0
    assert np.isfinite(fit.log_likelihood)
    dead = fit.rates.dead(np.arange(1, 40))
    assert np.all(np.isfinite(dead))
    assert np.all(np.diff(dead) <= 1e-12)


@given(factor=st.integers(2, 50))
def test_copies_of_a_pilot_have_the_same_fit_and_smaller_errors(factor: int) -> None:
    once = fit_beta_binomial(pilot_of((30, 12, 9, 20)).histogram())
    many = fit_beta_binomial(pilot_of(tuple(factor * c for c in (30, 12, 9, 20))).histogram())
    assert shape_of(many) == pytest.approx(shape_of(once), rel=1e-6)
    assert once.standard_errors is not None
    assert many.standard_errors is not None
    assert many.standard_errors == pytest.approx(np.array(once.standard_errors) / factor**0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("counts", "mean", "correlation", "identified"),
    [
        ((10, 0, 0, 0), 0.0, 0.0, False),  # nothing passes
        ((0, 0, 0, 10), 1.0, 0.0, False),  # nothing fails
        ((6, 0, 0, 4), 0.4, 1.0, True),  # every prompt agrees with itself
        ((0, 0, 50, 0, 0), 0.5, 0.0, True),  # no spread at all
        ((1, 4, 6, 4, 1), 0.5, 0.0, True),  # exactly binomial
        ((3, 97), 0.97, 0.0, False),  # one rollout each
    ],
)
def test_edges_of_the_family(counts: tuple[int, ...], mean: float, correlation: float, identified: bool) -> None:
    fit = fit_beta_binomial(pilot_of(counts).histogram())
    assert fit.rates.mean == pytest.approx(mean)
    assert fit.rates.correlation == correlation
    assert fit.identified is identified
    assert fit.standard_errors is None


def test_standard_errors_match_the_spread_of_refits() -> None:
    """300 simulated pilots; the sampling error of a standard deviation from 300 is 4 %, allowed are five times that."""
    rng = np.random.default_rng(7)
    fits = []
    for _ in range(300):
        fits.append(fit_beta_binomial(Pilot.from_counts(rng.binomial(8, rng.beta(0.6, 0.9, 800)), 8).histogram()))
    shapes = np.array([shape_of(f) for f in fits])
    claimed = np.array([f.standard_errors for f in fits]).mean(axis=0)
    assert shapes.std(axis=0) == pytest.approx(claimed, rel=0.2)


def test_the_check_has_teeth() -> None:
    """A shape 10 % off is told apart from the published fit."""
    h = pilot_of((439, 151, 103, 91, 73, 76, 88, 96, 92)).histogram()
    assert scipy_log_likelihood(h, 0.34886 * 1.1, 0.70681) < fit_beta_binomial(h).log_likelihood - 0.5
