"""Effective batch: against SciPy, enumeration and simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from grpo_plan._binomial import binomial_window
from grpo_plan.batches import effective_batch, effective_batch_of_list, poisson_binomial_pmf
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.groups import mixed_probability
from tests.conftest import pilot_of
from tests.helpers import assert_mean, assert_rate


@pytest.mark.parametrize("n", [1, 7, 128, 5000])
@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 0.5, 0.999, 1.0])
def test_binomial_law_matches_scipy(n: int, p: float) -> None:
    counts, weights = binomial_window(n, np.array([p]))
    pmf = np.zeros(n + 1)
    np.add.at(pmf, counts[0], weights[0])
    assert pmf == pytest.approx(binom.pmf(np.arange(n + 1), n, p), rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("g", [4, 8])
def test_random_prompts_give_a_binomial(example_fit: PassRateFit, g: int) -> None:
    for n in (1, 7, 128, 10_007):
        wide = effective_batch(example_fit, prompts_per_step=n, group_size=g)
        mixed = 1.0 - wide.dead_fraction
        assert wide.mixed_groups.mean == pytest.approx(n * mixed, rel=1e-12)
        assert wide.mixed_groups.sd == pytest.approx((n * mixed * (1 - mixed)) ** 0.5, rel=1e-9)
        for q, got in ((0.05, wide.mixed_groups.p05), (0.5, wide.mixed_groups.p50), (0.95, wide.mixed_groups.p95)):
            assert got == binom.ppf(q, n, mixed)
    batch = effective_batch(example_fit, prompts_per_step=128, group_size=g)
    mixed = 1.0 - batch.dead_fraction
    assert batch.live_rollouts.mean == pytest.approx(g * batch.mixed_groups.mean)
    assert batch.dead_batch_probability == pytest.approx(batch.dead_fraction**128, rel=1e-12)
    assert batch.probability_fewer_than(60) == pytest.approx(binom.cdf(59, 128, mixed), rel=1e-9)


def test_published_effective_batch(example_fit: PassRateFit) -> None:
    """One-Shot-RLVR, first visit: of 128 groups of 8 a mean of 71.8 are mixed, standard deviation 5.6."""
    batch = effective_batch(example_fit, prompts_per_step=128, group_size=8)
    assert batch.mixed_groups.mean == pytest.approx(71.8, abs=0.05)
    assert batch.mixed_groups.sd == pytest.approx(5.6, abs=0.05)


def test_the_mean_carries_the_interval_of_the_dead_fraction(example_fit: PassRateFit) -> None:
    for size in (8, 16, 64):
        d = example_fit.dead(size)
        batch = effective_batch(example_fit, prompts_per_step=100, group_size=size)
        assert batch.mixed_groups_mean_interval == pytest.approx((100 * (1 - d.high), 100 * (1 - d.low)))
    assert effective_batch_of_list([0.2, 0.5], group_size=4).mixed_groups_mean_interval is None


def test_simulated_steps(example_fit: PassRateFit) -> None:
    """20,000 steps of 32 prompts drawn at random from the pilot, with groups of 8 as they were rolled out."""
    rng = np.random.default_rng(2)
    k = example_fit.pilot.successes
    drawn = k[rng.integers(0, k.size, (20_000, 32))]
    mixed = ((drawn > 0) & (drawn < 8)).sum(axis=1)
    batch = effective_batch(example_fit, prompts_per_step=32, group_size=8)
    assert_mean(mixed, batch.mixed_groups.mean, catches=0.2)
    few = batch.probability_fewer_than(16)
    assert_rate(int((mixed < 16).sum()), mixed.size, few, catches=0.03)
    with pytest.raises(AssertionError, match="p ="):  # the i.i.d. formula expects almost no dead group
        assert_rate(int((mixed < 31).sum()), mixed.size, binom.cdf(30, 32, 1 - 0.0385), catches=0.03)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_fixed_list_against_enumeration(size: int) -> None:
    rng = np.random.default_rng(size)
    chances = rng.random(size)
    law = np.zeros(size + 1)
    for outcome in product((0, 1), repeat=size):
        law[sum(outcome)] += float(np.prod([c if o else 1 - c for c, o in zip(chances, outcome, strict=True)]))
    assert poisson_binomial_pmf(chances) == pytest.approx(law, rel=1e-12)


@given(rates=st.lists(st.floats(0, 1), min_size=1, max_size=80), g=st.integers(2, 40))
def test_a_fixed_list_has_the_mean_of_random_prompts_and_less_spread(rates: list[float], g: int) -> None:
    mixed = mixed_probability(rates, g)
    batch = effective_batch_of_list(rates, group_size=g)
    assert batch.mixed_groups.mean == pytest.approx(mixed.sum(), abs=1e-9)
    assert batch.mixed_groups.sd**2 == pytest.approx((mixed * (1 - mixed)).sum(), abs=1e-6)
    assert batch.mixed_groups.sd**2 <= len(rates) * mixed.mean() * (1 - mixed.mean()) + 1e-6


def test_bad_requests_are_refused(example_fit: PassRateFit) -> None:
    with pytest.raises(DomainError, match="prompts_per_step must be at least 1; got 0"):
        effective_batch(example_fit, prompts_per_step=0, group_size=8)
    with pytest.raises(DomainError, match="group_size must be at least 2; got 1"):
        effective_batch(example_fit, prompts_per_step=8, group_size=1)
    with pytest.raises(PilotError, match="dead fraction of groups of 8 is unknown"):
        effective_batch(fit_pass_rates(pilot_of((3, 4))), prompts_per_step=8, group_size=8)
    with pytest.raises(DomainError, match="list of at least one pass rate"):
        effective_batch_of_list([], group_size=8)
