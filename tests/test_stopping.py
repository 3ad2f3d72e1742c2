"""Adaptive stopping: against enumeration, the sequential cost of the fit, published values and simulation."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from grpo_plan import symbolic as eq
from grpo_plan.batches import AdaptiveSampling, adaptive_sampling, compare_sampling, refill
from grpo_plan.batches.stopping import cost_functional, unmet_functional, unmet_probability
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.fitting.functionals import stopping_cost
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates import BetaPassRates
from grpo_plan.pilot import Pilot
from tests.conftest import pilot_of
from tests.helpers import assert_mean, assert_rate


def drawn(rewards: tuple[int, ...], size: int, passes: int, fails: int) -> tuple[int, bool]:
    """Rollouts used of a list of rewards, in rounds, and whether the rule was met by the end."""
    for t in range(size, len(rewards) + 1, size):
        k = sum(rewards[:t])
        if k >= passes and t - k >= fails:
            return t, True
    return len(rewards), False


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize(
    ("size", "most", "passes", "fails"),
    [(1, 6, 1, 1), (2, 6, 1, 1), (3, 6, 2, 1), (2, 8, 2, 2), (1, 5, 1, 0), (4, 8, 0, 3)],
)
def test_eq_55_is_the_mean_over_all_reward_lists(p: Fraction, size: int, most: int, passes: int, fails: int) -> None:
    cost, unmet = Fraction(0), Fraction(0)
    for rewards in product((0, 1), repeat=most):
        chance = p ** sum(rewards) * (1 - p) ** (most - sum(rewards))
        used, met = drawn(rewards, size, passes, fails)
        cost += chance * used
        unmet += chance * (not met)
    rate = sp.Rational(p.numerator, p.denominator)
    assert eq.adaptive_cost(rate, size, most, passes, fails) == sp.Rational(cost.numerator, cost.denominator)
    assert eq.rule_unmet(rate, most, passes, fails) == sp.Rational(unmet.numerator, unmet.denominator)
    at, rest = np.array([float(p)]), np.array([float(1 - p)])
    assert cost_functional(size, most, passes, fails).phi(at, rest) == pytest.approx(float(cost), rel=1e-12)
    assert unmet_functional(most, passes, fails).phi(at, rest) == pytest.approx(float(unmet), rel=1e-12, abs=1e-15)
    if unmet < 1:
        kept = eq.rollouts_per_kept(
            sp.Rational(cost.numerator, cost.denominator), eq.rule_unmet(rate, most, passes, fails)
        )
        assert float(kept) == pytest.approx(float(cost / (1 - unmet)))


@given(p=st.floats(0, 1), most=st.integers(2, 200))
def test_one_at_a_time_is_the_sequential_cost(p: float, most: int) -> None:
    at, rest = np.array([p]), np.array([1 - p])
    assert cost_functional(1, most, 1, 1).phi(at, rest) == pytest.approx(stopping_cost(most).phi(at, rest), rel=1e-9)


@given(p=st.floats(0, 1), most=st.integers(4, 60), passes=st.integers(0, 2), fails=st.integers(0, 2))
def test_more_is_rarer_and_later(p: float, most: int, passes: int, fails: int) -> None:
    at, rest = np.array([p]), np.array([1 - p])
    unmet = [float(unmet_probability(at, rest, t, passes, fails)[0]) for t in range(1, most + 1)]
    assert all(0.0 <= u <= 1.0 for u in unmet)
    assert np.all(np.diff(unmet) <= 1e-12)  # more rollouts meet a rule more often
    assert unmet[-1] <= unmet_probability(at, rest, most, passes + 1, fails)[0] + 1e-12
    mirrored = unmet_probability(rest, at, most, fails, passes)[0]
    assert mirrored == pytest.approx(unmet[-1], rel=1e-9, abs=1e-12)


@pytest.fixture(scope="module")
def beta_fit() -> PassRateFit:
    """A pilot of 200,000 prompts x 32 whose counts are those expected of Beta(.3, .3)."""
    law = BetaPassRates.from_shape(0.3, 0.3).group_pmf(32)
    counts = np.round(200_000 * law).astype(int)
    return fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(33), counts), 32))


@pytest.mark.parametrize(
    ("size", "passes", "fails", "expected"),
    [
        (1, 1, 1, 16.04),  # one at a time, until a pass and a fail
        (8, 1, 1, 18.82),  # four rounds of 8
        (4, 2, 2, 21.26),  # eight rounds of 4, until two of each
        (4, 1, 0, 10.51),  # eight rounds of 4, until a pass
    ],
)
def test_reference_costs_of_beta(beta_fit: PassRateFit, size: int, passes: int, fails: int, expected: float) -> None:
    """Beta(.3, .3), at most 32 rollouts a prompt."""
    rule = adaptive_sampling(beta_fit, max_group_size=32, round_size=size, passes=passes, fails=fails)
    assert rule.rollouts_per_prompt.value == pytest.approx(expected, abs=0.006)
    assert rule.rollouts_per_prompt.low < expected < (rule.rollouts_per_prompt.high or 0.0)


def test_values_are_sums_of_dead_fractions(example_fit: PassRateFit) -> None:
    def dead(t: int) -> float:
        value = example_fit.dead(t).value
        assert value is not None
        return value

    rule = adaptive_sampling(example_fit, max_group_size=24, round_size=4)
    assert rule.rollouts_per_prompt.value == pytest.approx(4 * (1 + sum(dead(t) for t in (4, 8, 12, 16, 20))))
    assert rule.unmet_fraction.value == pytest.approx(dead(24))
    assert (rule.unmet_fraction.low, rule.unmet_fraction.high) == pytest.approx(example_fit.dead(24).interval)
    assert rule.status is FitStatus.EXTRAPOLATED
    one = adaptive_sampling(example_fit, max_group_size=16)
    cost = example_fit.stopping_cost(16)
    assert one.rollouts_per_prompt.value == pytest.approx(cost.value, abs=1e-9)
    assert (one.rollouts_per_prompt.low, one.rollouts_per_prompt.high) == pytest.approx(cost.interval)
    kept = one.rollouts_per_kept_prompt
    assert kept is not None
    assert kept.value == pytest.approx(one.rollouts_per_prompt.value / (1 - dead(16)))


def test_published_counts_stop_as_simulated(example_fit: PassRateFit) -> None:
    """Groups of 8 of the example pilot in random order, drawn two at a time until a pass and a fail."""
    rng = np.random.default_rng(3)
    successes = example_fit.pilot.successes[rng.integers(0, 1209, 100_000)]
    rewards = np.argsort(rng.random((100_000, 8)), axis=1) < successes[:, None]
    passed = rewards.cumsum(axis=1)
    mixed = (passed > 0) & (passed < np.arange(1, 9))
    used = np.where(mixed[:, 1], 2, np.where(mixed[:, 3], 4, np.where(mixed[:, 5], 6, 8)))
    rule = adaptive_sampling(example_fit, max_group_size=8, round_size=2)
    assert_mean(used, rule.rollouts_per_prompt.value, catches=0.08)
    assert_rate(int((~mixed[:, 7]).sum()), used.size, rule.unmet_fraction.value, catches=0.02)
    with pytest.raises(AssertionError, match="z ="):  # one at a time would be cheaper
        assert_mean(used, example_fit.stopping_cost(8).value or 0.0, catches=0.08)


def all_limits(rule: AdaptiveSampling) -> list[tuple[float, float, float]]:
    numbers = [rule.rollouts_per_prompt, rule.unmet_fraction]
    return [(n.low, n.value, n.high if n.high is not None else float("inf")) for n in numbers]


@pytest.mark.parametrize(
    ("passes", "fails", "size"), [(1, 1, 1), (1, 1, 4), (1, 0, 4), (0, 1, 2), (2, 2, 4), (3, 0, 2), (2, 1, 1)]
)
def test_limits_hold_the_value(example_fit: PassRateFit, passes: int, fails: int, size: int) -> None:
    rule = adaptive_sampling(example_fit, max_group_size=16, round_size=size, passes=passes, fails=fails)
    for low, value, high in all_limits(rule):
        assert low < value < high
    wide = adaptive_sampling(example_fit, max_group_size=16, round_size=size, passes=passes, fails=fails, level=0.999)
    for (low, _, high), (lower, _, higher) in zip(all_limits(rule), all_limits(wide), strict=True):
        assert lower <= low
        assert high <= higher


def test_all_dead_pilots_keep_nothing_for_sure() -> None:
    rule = adaptive_sampling(fit_pass_rates(pilot_of((30, 0, 0, 0, 20))), max_group_size=4)
    assert rule.unmet_fraction.value == 1.0
    assert rule.rollouts_per_prompt.value == pytest.approx(4.0)
    assert rule.rollouts_per_kept_prompt is None
    first = adaptive_sampling(fit_pass_rates(pilot_of((30, 0, 0, 0, 20))), max_group_size=4, fails=0)
    assert first.unmet_fraction.value == pytest.approx(0.6)


def test_ways_to_sample_side_by_side(example_fit: PassRateFit) -> None:
    plan = refill(example_fit, prompts_per_step=128, group_size=8, batch_multiplier=1.5)
    fixed, refilled, adaptive, until_pass = compare_sampling(example_fit, plan, round_size=2)
    d = example_fit.dead(8)
    assert d.value is not None
    assert fixed.rollouts_per_group is not None
    assert fixed.rollouts_per_group.value == pytest.approx(8 / (1 - d.value))
    assert fixed.rollouts_per_group.high == pytest.approx(8 / (1 - d.high))
    assert refilled.rollouts_per_group is not None
    assert refilled.rollouts_per_group.value == pytest.approx(plan.at_value.rollouts.mean / 128)
    assert refilled.rollouts_per_group.value >= fixed.rollouts_per_group.value  # refill adds the surplus, no signal
    assert (adaptive.group_size, adaptive.round_size) == (16, 2)
    assert until_pass.dropped_fraction.value == pytest.approx(example_fit.dead(16).all_fail)
    same = refill(example_fit, prompts_per_step=128, group_size=8, gen_batch_size=1)
    row = compare_sampling(example_fit, same)[1].rollouts_per_group
    assert row is not None
    assert row.value == pytest.approx(fixed.rollouts_per_group.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_group_size": 0}, "max_group_size must be at least 1; got 0"),
        ({"max_group_size": 10**6}, "max_group_size must be at most 4,096"),
        ({"max_group_size": 8, "round_size": 3}, "max_group_size must be a multiple of round_size; got 8 and 3"),
        ({"max_group_size": 8, "round_size": 9}, "round_size must be at most 8; got 9"),
        ({"max_group_size": 8, "passes": 0, "fails": 0}, "between 1 and max_group_size, 8; got 0"),
        ({"max_group_size": 8, "passes": 5, "fails": 4}, "between 1 and max_group_size, 8; got 9"),
        ({"max_group_size": 8, "passes": -1}, "passes must be at least 0; got -1"),
        ({"max_group_size": 8, "level": 1.0}, "level must lie strictly between 0 and 1"),
    ],
)
def test_bad_rules_are_refused(example_fit: PassRateFit, options: dict[str, int], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        adaptive_sampling(example_fit, **options)


def test_one_rollout_each_does_not_tell() -> None:
    fit = fit_pass_rates(pilot_of((30, 40)))
    for passes, fails in ((1, 1), (2, 2), (1, 0)):
        with pytest.raises(PilotError, match="does not determine groups of"):
            adaptive_sampling(fit, max_group_size=8, passes=passes, fails=fails)
