"""Beta-distributed pass rates: exact rationals, SciPy, quadrature, properties and simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as scipy_beta
from scipy.stats import betabinom, binom, hypergeom

from grpo_plan import groups, symbolic
from grpo_plan.errors import DomainError
from grpo_plan.passrates import BetaPassRates
from tests.helpers import assert_mean, assert_precise, assert_rate, is_non_increasing

quick = settings(deadline=None)
unit = st.floats(0.0, 1.0, allow_subnormal=False)
models = st.builds(BetaPassRates, mean=unit, correlation=unit)
MEANS = (0.01, 0.3, 0.5, 0.9)
CORRELATIONS = (0.0, 0.001, 0.1, 0.5, 0.9, 1.0)
SHAPES = ((0.193, 0.4966), (0.5, 0.5), (1.0, 1.0), (0.3, 12.0), (2.0, 5.0), (30.0, 20.0))


# Exact arithmetic


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("mean", MEANS)
def test_moments_and_law_in_exact_rationals(mean: float, correlation: float) -> None:
    rates = BetaPassRates(mean=mean, correlation=correlation)
    failing = 1 - sp.Rational(mean)
    for group_size in (1, 2, 3, 8, 24):
        passed = symbolic.beta_power_mean_correlation(mean, correlation, group_size)
        failed = symbolic.beta_power_mean_correlation(failing, correlation, group_size)
        assert_precise(float(rates.all_pass(group_size)), passed)
        assert_precise(float(rates.all_fail(group_size)), failed)
        assert_precise(float(rates.dead(group_size)), passed + failed)
        for k, weight in enumerate(rates.group_pmf(group_size)):
            truth = symbolic.beta_binomial_pmf_correlation(k, group_size, mean, correlation)
            assert_precise(float(weight), truth, rel=1e-11)


@pytest.mark.parametrize("correlation", [1e-12, 1e-6, 1 - 1e-6, 1 - 1e-12])
@pytest.mark.parametrize("mean", [1e-12, 1e-6, 0.3, 1 - 1e-6, 1 - 1e-12])
def test_next_to_the_edges_of_the_square_the_absolute_error_stays_at_rounding(mean: float, correlation: float) -> None:
    rates = BetaPassRates(mean=mean, correlation=correlation)
    for group_size in (2, 8, 16):
        truth = [
            float(symbolic.beta_binomial_pmf_correlation(k, group_size, mean, correlation))
            for k in range(group_size + 1)
        ]
        np.testing.assert_allclose(rates.group_pmf(group_size), truth, rtol=0, atol=1e-14)


def test_relative_error_of_a_small_all_pass_fraction() -> None:
    rates = BetaPassRates(mean=1e-6, correlation=1e-6)
    assert_precise(float(rates.all_pass(2)), symbolic.beta_power_mean_correlation(1e-6, 1e-6, 2))


def test_relative_error_of_a_small_mixed_share() -> None:
    correlation = 1 - 1e-9
    law = BetaPassRates(mean=0.3, correlation=correlation).group_pmf(8)
    assert_precise(float(law[4]), symbolic.beta_binomial_pmf_correlation(4, 8, 0.3, correlation))


@pytest.mark.parametrize("group_size", [1000, 100_000, 1_000_000])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_large_groups_against_gamma_functions_at_eighty_digits(a: float, b: float, group_size: int) -> None:
    rates = BetaPassRates.from_shape(a, b)
    mu, rho = mpmath.mpf(rates.mean), mpmath.mpf(rates.correlation)
    exact_a, exact_b = mu * (1 - rho) / rho, (1 - mu) * (1 - rho) / rho
    values = (rates.all_pass(group_size), exact_a, exact_b), (rates.all_fail(group_size), exact_b, exact_a)
    for got, x, y in values:
        assert_precise(float(got), mpmath.beta(x + group_size, y) / mpmath.beta(x, y), rel=1e-10)


def test_shape_and_mean_correlation_are_two_ways_to_write_one_law() -> None:
    for a, b in SHAPES:
        rates = BetaPassRates.from_shape(a, b)
        mean, correlation = symbolic.beta_mean_correlation(a, b)
        assert rates.mean == pytest.approx(float(mean), rel=1e-15)
        assert rates.correlation == pytest.approx(float(correlation), rel=1e-15)
        assert rates.shape == pytest.approx((a, b), rel=1e-13)


# Second route


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_law_agrees_with_scipy(a: float, b: float) -> None:
    rates = BetaPassRates.from_shape(a, b)
    for group_size in (1, 2, 8, 64, 300):
        expected = betabinom.pmf(np.arange(group_size + 1), group_size, a, b)
        np.testing.assert_allclose(rates.group_pmf(group_size), expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_dead_fraction_is_the_mean_of_the_chance_for_one_prompt(a: float, b: float) -> None:
    weight = mpmath.beta(a, b)
    for group_size in (2, 5, 16):
        value = mpmath.beta(a + group_size, b) / weight + mpmath.beta(a, b + group_size) / weight
        assert float(BetaPassRates.from_shape(a, b).dead(group_size)) == pytest.approx(float(value), rel=1e-12)
    if min(a, b) >= 1.0:  # Gauss-Legendre: the density has no poles here
        nodes, gauss = np.polynomial.legendre.leggauss(400)
        p = (nodes + 1.0) / 2.0
        density = BetaPassRates.from_shape(a, b).density(p)
        assert density is not None
        quadrature = 0.5 * gauss @ (density * groups.dead_probability(p, 8))
        assert float(BetaPassRates.from_shape(a, b).dead(8)) == pytest.approx(quadrature, rel=1e-7)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_density_agrees_with_scipy(a: float, b: float) -> None:
    p = np.array([1e-6, 0.01, 0.3, 0.5, 0.99])
    density = BetaPassRates.from_shape(a, b).density(p)
    assert density is not None
    np.testing.assert_allclose(density, scipy_beta.pdf(p, a, b), rtol=1e-11)


@pytest.mark.parametrize("group_size", [1, 2, 7, 40])
def test_at_correlation_zero_all_prompts_are_one_prompt(group_size: int) -> None:
    rates = BetaPassRates(mean=0.3, correlation=0.0)
    expected = binom.pmf(np.arange(group_size + 1), group_size, 0.3)
    np.testing.assert_allclose(rates.group_pmf(group_size), expected, rtol=1e-11)
    np.testing.assert_allclose(rates.dead(group_size), groups.dead_probability(0.3, group_size), rtol=1e-12)
    assert rates.shape is None
    assert rates.density(0.3) is None


def test_at_correlation_one_prompts_always_pass_or_always_fail() -> None:
    rates = BetaPassRates(mean=0.25, correlation=1.0)
    assert rates.group_pmf(4).tolist() == [0.75, 0.0, 0.0, 0.0, 0.25]
    np.testing.assert_allclose(rates.dead([1, 2, 64, 10**6]), 1.0, rtol=1e-15)
    assert rates.density(0.5) is None


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
def test_a_mean_of_zero_or_one_leaves_only_dead_groups(mean: float, correlation: float) -> None:
    rates = BetaPassRates(mean=mean, correlation=correlation)
    pmf = rates.group_pmf(5)
    assert pmf[5 if mean else 0] == 1.0
    assert pmf.sum() == 1.0
    assert rates.dead([1, 2, 100]).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("small", [1, 2, 5, 11])
def test_the_law_of_a_subgroup_is_the_law_of_a_smaller_group(small: int) -> None:
    rates, large = BetaPassRates.from_shape(0.4, 0.9), 12
    j, k = np.arange(small + 1)[:, None], np.arange(large + 1)
    down = hypergeom.pmf(j, large, k, small)
    np.testing.assert_allclose(down @ rates.group_pmf(large), rates.group_pmf(small), rtol=1e-11)


# Properties


@quick
@given(rates=models, g=st.integers(1, 200))
def test_law_is_a_law_with_the_stated_mean_and_ends(rates: BetaPassRates, g: int) -> None:
    pmf = rates.group_pmf(g)
    assert pmf.shape == (g + 1,)
    assert np.all((pmf >= 0.0) & (pmf <= 1.0 + 1e-12))
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    assert pmf @ np.arange(g + 1) == pytest.approx(g * rates.mean, rel=1e-10, abs=1e-10)
    assert pmf[0] == pytest.approx(float(rates.all_fail(g)), rel=1e-12, abs=1e-300)
    assert pmf[-1] == pytest.approx(float(rates.all_pass(g)), rel=1e-12, abs=1e-300)


@quick
@given(rates=models, g=st.integers(2, 60))
def test_two_rollouts_of_a_prompt_have_the_stated_correlation(rates: BetaPassRates, g: int) -> None:
    k, pmf = np.arange(g + 1), rates.group_pmf(g)
    both = pmf @ (k * (k - 1)) / (g * (g - 1))
    expected = rates.mean**2 + rates.mean * (1 - rates.mean) * rates.correlation
    assert both == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("_id", [None], ids=["papers-34-beta"])
@quick
@given(rates=models)
def test_dead_fraction_is_one_at_one_falls_and_is_at_least_the_iid_value(_id: None, rates: BetaPassRates) -> None:
    sizes = np.arange(1, 120)
    dead = rates.dead(sizes)
    assert dead[0] == pytest.approx(1.0, abs=1e-15)
    assert np.all((dead >= 0.0) & (dead <= 1.0))
    assert is_non_increasing(dead)
    assert np.all(dead >= groups.dead_probability(rates.mean, sizes) - 1e-12)
    assert 1.0 - dead[2] == pytest.approx(1.5 * (1.0 - dead[1]), abs=1e-12)


@quick
@given(m=st.integers(0, 2**20), rho=unit, g=st.integers(1, 100))
def test_passes_and_fails_are_symmetric(m: int, rho: float, g: int) -> None:
    mean = m / 2**20  # 1 - mean is exact
    one, other = (BetaPassRates(mean=x, correlation=rho) for x in (mean, 1 - mean))
    assert float(one.all_pass(g)) == pytest.approx(float(other.all_fail(g)), rel=1e-12, abs=1e-300)
    np.testing.assert_allclose(one.group_pmf(g), other.group_pmf(g)[::-1], rtol=1e-11, atol=1e-15)


@quick
@given(mean=unit, g=st.integers(2, 100))
def test_dead_fraction_rises_with_the_correlation(mean: float, g: int) -> None:
    dead = [float(BetaPassRates(mean=mean, correlation=rho).dead(g)) for rho in (0.0, 0.1, 0.3, 0.7, 0.95, 1.0)]
    assert all(before <= after + 1e-12 for before, after in pairwise(dead))


def test_shapes_follow_the_group_size() -> None:
    rates = BetaPassRates.from_shape(0.4, 0.9)
    assert rates.dead(8).shape == ()
    assert rates.dead([2, 4, 8]).shape == (3,)
    assert rates.all_pass(np.array([[2], [4]])).shape == (2, 1)
    assert rates.all_fail([]).shape == (0,)
    np.testing.assert_allclose(rates.dead([8, 2, 4, 2]), [float(rates.dead(g)) for g in (8, 2, 4, 2)])


def test_records_are_frozen_keyword_only_and_equal_by_value() -> None:
    rates = BetaPassRates(mean=0.25, correlation=0.5)
    assert rates == BetaPassRates(mean=0.25, correlation=0.5)
    with pytest.raises(FrozenInstanceError):
        rates.mean = 0.5  # type: ignore[misc]
    with pytest.raises(TypeError):
        BetaPassRates(0.25, 0.5)  # type: ignore[call-arg]


# Simulation

PROMPTS = 400_000


def simulated_passes(a: float, b: float, group_size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    rng = np.random.default_rng(11)
    return np.asarray(rng.binomial(group_size, rng.beta(a, b, PROMPTS)), dtype=np.int64)


def test_simulated_prompts_are_dead_and_pass_at_the_stated_rates() -> None:
    passes, rates = simulated_passes(0.35, 0.7, 8), BetaPassRates.from_shape(0.35, 0.7)
    assert_rate(int((passes == 8).sum()), PROMPTS, float(rates.all_pass(8)), catches=0.01)
    assert_rate(int((passes == 0).sum()), PROMPTS, float(rates.all_fail(8)), catches=0.01)
    for k, chance in enumerate(rates.group_pmf(8)):
        assert_rate(int((passes == k).sum()), PROMPTS, float(chance), catches=0.01)
    assert_mean(passes, 8 * rates.mean, catches=0.05)


def test_the_simulation_check_rejects_the_iid_value() -> None:
    passes, rates = simulated_passes(0.35, 0.7, 8), BetaPassRates.from_shape(0.35, 0.7)
    dead = int(((passes == 0) | (passes == 8)).sum())
    with pytest.raises(AssertionError, match="p ="):
        assert_rate(dead, PROMPTS, float(groups.dead_probability(rates.mean, 8)), catches=0.01)


# Published numbers


@pytest.mark.parametrize(
    ("group_size", "expected"),
    [
        pytest.param(2, 0.75, id="papers-5-G2"),
        pytest.param(4, 0.546875, id="papers-5-G4"),
        pytest.param(8, 0.392761, id="papers-5-G8"),
        pytest.param(16, 0.279900, id="papers-5-G16"),
        pytest.param(32, 0.198694, id="papers-5-G32"),
    ],
)
def test_published_dead_fraction_of_the_arcsine_law(group_size: int, expected: float) -> None:
    assert float(BetaPassRates.from_shape(0.5, 0.5).dead(group_size)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("group_size", [1, 2, 9, 1000], ids=lambda g: f"papers-6-G{g}")
def test_published_dead_fraction_of_the_uniform_law(group_size: int) -> None:
    uniform = BetaPassRates.from_shape(1.0, 1.0)
    assert float(uniform.dead(group_size)) == pytest.approx(2 / (group_size + 1), rel=1e-12)


@pytest.mark.parametrize("expected", [36.3], ids=["papers-33"])
def test_published_factor_that_halves_the_dead_fraction(expected: float) -> None:
    factor = float(symbolic.halving_factor(0.193, 0.4966))
    assert factor == pytest.approx(expected, abs=0.2)
    rates, start = BetaPassRates.from_shape(0.193, 5.0), 20_000  # all-pass is negligible: a pure power law
    halved = float(rates.dead(round(start * factor)) / rates.dead(start))
    assert halved == pytest.approx(0.5, abs=2e-4)


# Errors


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: BetaPassRates(mean=1.2, correlation=0.1), r"mean must lie in \[0, 1\]; got 1\.2\."),
        (lambda: BetaPassRates(mean=math.nan, correlation=0.1), r"mean must lie in \[0, 1\]; got nan"),
        (lambda: BetaPassRates(mean=0.2, correlation=-1), r"correlation must lie in \[0, 1\]; got -1"),
        (lambda: BetaPassRates(mean=0.2, correlation=30), r"correlation .*Percentages\? Divide by 100\."),
        (lambda: BetaPassRates.from_shape(0.0, 1.0), r"a must be finite and above 0; got 0\."),
        (lambda: BetaPassRates.from_shape(1.0, math.inf), r"b must be finite and above 0; got inf\."),
        (lambda: BetaPassRates.from_shape(1.0, 1.0).dead(0), r"group_size must be a whole number .*; got 0"),
        (lambda: BetaPassRates.from_shape(1.0, 1.0).group_pmf(2.5), r"group_size must be a whole number"),  # type: ignore[arg-type]
        (lambda: BetaPassRates.from_shape(1.0, 1.0).group_pmf(0), r"group_size must be at least 1; got 0"),
        (lambda: BetaPassRates.from_shape(1.0, 1.0).density(1.5), r"pass_rate must lie in \[0, 1\]"),
    ],
)
def test_arguments_out_of_domain_are_named_with_their_value(call: Callable[[], object], text: str) -> None:
    with pytest.raises(DomainError, match=text):
        call()
