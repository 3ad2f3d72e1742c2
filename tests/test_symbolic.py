"""The equations of theory.md against each other, against enumeration, and against simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sympy.stats import Binomial, density

from grpo_plan import symbolic as eq
from grpo_plan.estimators import ESTIMATORS
from grpo_plan.fitting.intervals import mean_interval
from grpo_plan.groups import dead_probability, expected_group_std
from tests.helpers import RATES, as_mpf, assert_mean, assert_rate, enumerated, outcomes

quick = settings(deadline=None, max_examples=50)
p, q, tau = sp.symbols("p q tau", positive=True)
a, b, mu, rho, x = sp.symbols("a b mu rho x", positive=True)
HALF, THIRD = sp.Rational(1, 2), sp.Rational(1, 3)
SOME_RATES = (sp.Rational(1, 50), THIRD, HALF, sp.Rational(9, 10))
MIX = ([sp.Rational(1, 50), THIRD, sp.Rational(9, 10)], [HALF, THIRD, sp.Rational(1, 6)])
fractions = st.fractions(0, 1, max_denominator=1000)


def same(left: Any, right: Any) -> bool:
    return bool(sp.simplify(sp.expand(left - right)) == 0)


def test_floats_stand_for_their_exact_rational() -> None:
    assert eq.exact(0.1) == sp.Rational(3602879701896397, 36028797018963968)
    assert eq.exact(Fraction(1, 3)) == THIRD
    assert eq.exact(p) == p


# Section 1: one group


@pytest.mark.parametrize("g", range(1, 9))
def test_eq_1_to_3_mixed_dead_and_passing_are_parts_of_one_law(g: int) -> None:
    assert same(eq.mixed(p, g), eq.mixed_sum(p, g))
    assert same(eq.all_pass(p, g), eq.binomial_pmf(g, g, p))
    assert same(eq.all_fail(p, g), eq.binomial_pmf(0, g, p))
    assert same(eq.pass_at(p, g), sum(eq.binomial_pmf(k, g, p) for k in range(1, g + 1)))
    assert same(eq.dead(p, g), eq.all_pass(p, g) + eq.all_fail(p, g))
    if g > 1:
        assert same(eq.dead(p, g), 1 - eq.mixed(p, g))


@pytest.mark.parametrize("g", range(1, 8))
def test_eq_1_to_7_are_means_over_all_reward_tuples(g: int) -> None:
    rate = Fraction(3, 8)
    cases: list[tuple[Any, Any]] = [
        (eq.all_pass(rate, g), lambda r: int(all(r))),
        (eq.all_fail(rate, g), lambda r: int(not any(r))),
        (eq.pass_at(rate, g), lambda r: int(any(r))),
        (eq.mixed(rate, g), lambda r: int(len(set(r)) == 2)),
        (eq.expected_group_variance(rate, g), lambda r: Fraction(sum(r) * (g - sum(r)), g * g)),
    ]
    for equation, value_of in cases:
        assert equation == eq.exact(enumerated(value_of, rate, g))
    std = enumerated(lambda r: float(np.std(r)), rate, g)
    assert float(eq.expected_group_std(rate, g)) == pytest.approx(float(std), rel=1e-12)


def test_binomial_law_is_sympy_s_own() -> None:
    law = density(Binomial("k", 5, THIRD)).dict
    assert all(eq.binomial_pmf(k, 5, THIRD) == law[k] for k in range(6))


@pytest.mark.parametrize("g", range(1, 6))
def test_eq_4_and_5_are_polynomials_summed_over_all_outcome_tuples(g: int) -> None:
    chance = {"rare": tau, "common": p - tau, "fail": 1 - p}
    same_level = missed = sp.Integer(0)
    for group in product(chance, repeat=g):
        weight = sp.Mul(*(chance[outcome] for outcome in group))
        same_level += weight if len(set(group)) == 1 else 0
        missed += weight if "fail" in group and "common" in group and "rare" not in group else 0
    assert same(eq.graded_dead(list(chance.values()), g), same_level)
    if g > 1:
        assert same(eq.rare_mode_miss(p, tau, g), missed)
    assert same(eq.graded_dead([p, 1 - p], g), eq.dead(p, g))


@pytest.mark.parametrize("g", range(1, 10))
def test_eq_6_closed_form_is_the_binomial_sum(g: int) -> None:
    assert same(eq.expected_group_variance(p, g), eq.expected_group_variance_sum(p, g))


@pytest.mark.parametrize("expected", [sp.Rational(7, 50)], ids=["papers-32"])
def test_published_expected_group_variance_is_exact(expected: Any) -> None:
    assert eq.expected_group_variance_sum(sp.Rational(1, 5), 8) == expected


@pytest.mark.parametrize("expected", [0.484123], ids=["papers-15"])
def test_published_group_std_at_three_of_eight(expected: float) -> None:
    assert float(sp.sqrt(eq.group_variance(3, 8))) == pytest.approx(expected, abs=1e-6)
    assert float(eq.signal("grpo", 3, 8)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("rate", [0.5, 0.3, 0.1])
def test_eq_8_the_expansion_is_right_to_first_order(rate: float) -> None:
    scaled = []
    for g in (2_000, 8_000, 32_000):
        exact_fidelity = float(expected_group_std(rate, g)) / math.sqrt(rate * (1 - rate))
        scaled.append((exact_fidelity - float(eq.fidelity_expansion(rate, g))) * g**2)
    assert scaled[0] < 0  # the expansion is too optimistic
    assert scaled == pytest.approx([scaled[-1]] * 3, rel=0.05)  # so the remainder is of order 1 / G**2


def test_eq_8_budget_solves_the_expansion_and_falls_short_of_the_exact_table() -> None:
    eps = sp.symbols("eps", positive=True)
    assert same(eq.fidelity_expansion(p, eq.fidelity_budget(p, eps)), 1 - eps)
    table = {0.5: (5, 10, 50), 0.3: (6, 12, 60), 0.1: (14, 28, 139), 0.05: (26, 53, 263)}
    for rate, row in table.items():
        assert tuple(round(float(eq.fidelity_budget(rate, e)) + 1e-9) for e in (0.1, 0.05, 0.01)) == row
    assert eq.fidelity(HALF, 6) < sp.Rational(9, 10) <= eq.fidelity(HALF, 7)


# Section 2: prompts differ


@quick
@given(prompts=st.lists(st.tuples(fractions, st.integers(1, 9)), min_size=1, max_size=6), g=st.integers(1, 12))
def test_eq_9_and_10_no_mixture_beats_its_mean(prompts: list[tuple[Fraction, int]], g: int) -> None:
    total = sum(weight for _, weight in prompts)
    rates, weights = [rate for rate, _ in prompts], [Fraction(weight, total) for _, weight in prompts]
    gap = eq.jensen_gap(rates, weights, g)
    assert gap >= 0
    assert (gap == 0) == (g == 1 or len(set(rates)) == 1)
    assert eq.dead_fraction(rates, weights, g + 1) <= eq.dead_fraction(rates, weights, g)
    if g > 1:
        fast = sum(float(w) * float(dead_probability(float(r), g)) for r, w in zip(rates, weights, strict=True))
        assert float(eq.dead_fraction(rates, weights, g)) == pytest.approx(fast, rel=1e-11)


@pytest.mark.parametrize("g", range(2, 10))
def test_eq_10_curvature_is_the_second_derivative(g: int) -> None:
    assert same(eq.dead_curvature(p, g), sp.diff(eq.dead(p, g), p, 2))


@pytest.mark.parametrize("g", [sp.Rational(5, 2), sp.Rational(101, 7), 500])
def test_eq_10_curvature_for_large_and_broken_group_sizes(g: Any) -> None:
    second = sp.diff(eq.dead(p, x), p, 2).subs({p: THIRD, x: g})
    assert abs(sp.N(eq.dead_curvature(THIRD, g) / second, 40) - 1) < 1e-35


@pytest.mark.parametrize("_id", [None], ids=["papers-34-symbolic"])
def test_eq_11_three_against_two(_id: None) -> None:
    assert same(eq.mixed(p, 3), sp.Rational(3, 2) * eq.mixed(p, 2))
    assert same(eq.mixed(p, 2), 2 * p * (1 - p))
    assert same(eq.mixed_per_rollout(p, 2), eq.mixed_per_rollout(p, 3))
    assert eq.dead(p, 1) == 1
    assert eq.dead(0, 7) == eq.dead(1, 7) == 1


@pytest.mark.parametrize("g", range(2, 12))
def test_eq_11_increments_add_up_to_the_mixed_probability(g: int) -> None:
    assert same(eq.mixed(p, g), sum(eq.mixed_increment(p, j) for j in range(2, g + 1)))


@pytest.mark.parametrize("rate", SOME_RATES)
def test_eq_11_mixed_groups_per_rollout_fall_strictly_beyond_three(rate: Any) -> None:
    values = [eq.mixed_per_rollout(rate, g) for g in range(2, 40)]
    assert values[0] == values[1]
    assert all(later < before for before, later in pairwise(values[1:]))


@pytest.mark.parametrize("g", range(1, 7))
def test_eq_12_three_ways_to_write_a_beta_moment(g: int) -> None:
    product_form = eq.beta_power_mean_product(a, b, g)
    assert sp.simplify(sp.gammasimp(eq.beta_power_mean(a, b, g)) - product_form) == 0
    mean, correlation = eq.beta_mean_correlation(a, b)
    assert sp.simplify(eq.beta_power_mean_correlation(mean, correlation, g) - product_form) == 0


def test_eq_12_is_the_integral_over_the_density() -> None:
    shape = sp.Rational(2), sp.Rational(3)
    beta_density = 12 * x * (1 - x) ** 2
    for g in (1, 2, 5):
        assert sp.integrate(beta_density * x**g, (x, 0, 1)) == eq.beta_power_mean_product(*shape, g)
        assert sp.integrate(beta_density * eq.dead(x, g), (x, 0, 1)) == eq.beta_dead_fraction(*shape, g)


def test_eq_12_uniform_and_arcsine_laws() -> None:
    assert all(eq.beta_dead_fraction(1, 1, g) == sp.Rational(2, g + 1) for g in range(1, 30))
    assert eq.beta_dead_fraction(HALF, HALF, 2) == sp.Rational(3, 4)
    assert eq.beta_dead_fraction(HALF, HALF, 4) == sp.Rational(35, 64)


@pytest.mark.parametrize("g", [1, 2, 3, 5])
def test_eq_13_both_forms_are_one_law(g: int) -> None:
    mean, correlation = eq.beta_mean_correlation(a, b)
    law = [eq.beta_binomial_pmf(k, g, a, b) for k in range(g + 1)]
    for k, chance in enumerate(law):
        other = eq.beta_binomial_pmf_correlation(k, g, mean, correlation)
        assert sp.simplify(sp.expand_func(chance) - other) == 0
    assert sp.simplify(sp.expand_func(sum(law)) - 1) == 0
    assert sp.simplify(sp.expand_func(law[0] + law[-1]) - eq.beta_dead_fraction(a, b, g)) == 0 or g == 1


def test_eq_13_is_the_binomial_law_mixed_over_the_density() -> None:
    beta_density = 12 * x * (1 - x) ** 2
    for k in range(5):
        mixture = sp.integrate(beta_density * eq.binomial_pmf(k, 4, x), (x, 0, 1))
        assert mixture == eq.beta_binomial_pmf(k, 4, 2, 3)


@pytest.mark.parametrize("g", [1, 2, 6])
def test_eq_13_limits_of_the_correlation(g: int) -> None:
    for k in range(g + 1):
        assert same(eq.beta_binomial_pmf_correlation(k, g, mu, 0), eq.binomial_pmf(k, g, mu))
        ends = {0: 1 - mu, g: mu}
        assert same(eq.beta_binomial_pmf_correlation(k, g, mu, 1), ends.get(k, 0))


@pytest.mark.parametrize(("first", "second"), [(0.193, 0.4966), (0.3, 12.0), (1.0, 1.0), (0.5, 0.5)])
def test_eq_14_tail_law_and_halving_factor(first: float, second: float) -> None:
    def exact_dead(g: int) -> Any:
        s, t = mpmath.mpf(first), mpmath.mpf(second)
        return (mpmath.beta(s + g, t) + mpmath.beta(s, t + g)) / mpmath.beta(s, t)

    errors = [abs(float(exact_dead(g) / as_mpf(eq.beta_dead_tail(first, second, g)) - 1)) for g in (10**4, 10**6)]
    assert errors[1] < 0.02 * errors[0] + 1e-12 < 0.02
    slow = min(first, second)
    far = 10 ** round(12 / slow)  # far out, where the slower power is alone
    halved = exact_dead(far * round(float(eq.halving_factor(first, second)) * 10**6) // 10**6) / exact_dead(far)
    assert float(halved) == pytest.approx(0.5, abs=1e-3)


# Section 3: estimation


@pytest.mark.parametrize("n", [1, 3, 6])
def test_eq_15_to_17_are_unbiased_for_every_pass_rate(n: int) -> None:
    def mean(estimate: Callable[[int], Any]) -> Any:
        return eq.group_mean(estimate, p, n)

    for g in range(1, n + 1):
        assert same(mean(partial(eq.u_statistic, rollouts=n, group_size=g)), eq.dead(p, g))
        assert same(mean(partial(eq.pass_at_estimate, rollouts=n, group_size=g)), eq.pass_at(p, g))
        for j in range(g + 1):
            law = partial(eq.subgroup_pmf, j, rollouts=n, group_size=g)
            assert same(mean(law), eq.binomial_pmf(j, g, p))


def test_eq_15_is_the_share_of_dead_subsets() -> None:
    n = 6
    for rewards in outcomes(n):
        for g in (1, 2, 4, 6):
            subsets = [[rewards[i] for i in range(n) if mask >> i & 1] for mask in range(2**n)]
            chosen = [s for s in subsets if len(s) == g]
            share = sp.Rational(sum(len(set(s)) == 1 for s in chosen), len(chosen))
            if g > 1:
                assert eq.u_statistic(sum(rewards), n, g) == share


@pytest.mark.parametrize(
    ("k", "n", "g"), [pytest.param(1, 8, 4, id="papers-14-n8"), pytest.param(1, 4, 2, id="papers-14-n4")]
)
def test_published_u_statistic(k: int, n: int, g: int) -> None:
    assert eq.u_statistic(k, n, g) == HALF


@pytest.mark.parametrize("expected", [0.916667], ids=["papers-31"])
def test_published_pass_at_k(expected: float) -> None:
    assert float(eq.pass_at_estimate(3, 10, 5)) == pytest.approx(expected, abs=1e-6)
    assert eq.pass_at_estimate(3, 10, 5) == 1 - sp.binomial(7, 5) / sp.binomial(10, 5)


def test_eq_16_is_a_law_whose_ends_are_the_u_statistic() -> None:
    for k in range(9):
        law = [eq.subgroup_pmf(j, k, 8, 5) for j in range(6)]
        assert sum(law) == 1
        assert law[0] + law[-1] == eq.u_statistic(k, 8, 5)
        assert 1 - law[0] == eq.pass_at_estimate(k, 8, 5)
        assert sum(j * weight for j, weight in enumerate(law)) == sp.Rational(5 * k, 8)


def test_eq_18_plug_in_is_above_the_unbiased_value_prompt_by_prompt() -> None:
    for n in (4, 9):
        for k in range(n + 1):
            for g in range(2, n + 1):
                gap = eq.plug_in(k, n, g) - eq.u_statistic(k, n, g)
                assert gap > 0 if 0 < k < n else gap == 0


@pytest.mark.parametrize("rate", SOME_RATES)
def test_eq_18_plug_in_is_biased_up_and_the_bias_has_the_stated_size(rate: Any) -> None:
    assert all(eq.plug_in_bias(rate, n, g) > 0 for n in (2, 8) for g in (2, 5, 20))
    leading = eq.dead_curvature(rate, 4) * rate * (1 - rate) / 2
    assert float(200 * eq.plug_in_bias(rate, 200, 4) / leading) == pytest.approx(1.0, abs=0.05)


def test_eq_18_iid_value_is_never_above_the_plug_in() -> None:
    for counts in product(range(5), repeat=3):
        pooled = eq.dead(sp.Rational(sum(counts), 12), 6)
        assert pooled <= sum(eq.plug_in(k, 4, 6) for k in counts) / 3


kernel_lists = st.lists(fractions, min_size=1, max_size=8)


@quick
@given(values=kernel_lists)
def test_eq_19_effective_prompts_stay_between_their_bounds(values: list[Fraction]) -> None:
    count = len(values)
    effective = eq.effective_prompts(values)
    assert sp.Rational(count * (count + 1), count + 2) <= effective <= sp.Rational(count * (count + 1), 2)


def test_eq_19_bounds_are_reached_by_zero_one_and_by_identical_values() -> None:
    assert eq.effective_prompts([0, 1, 1, 0, 1]) == sp.Rational(30, 7)
    assert eq.effective_prompts([0, 0, 0, 0, 0]) == 5
    assert eq.effective_prompts([1, 1, 1, 1, 1]) == 5
    assert eq.effective_prompts([HALF]) == 1
    assert eq.effective_prompts([THIRD] * 5) == 15
    values = [sp.Rational(k, 10) for k in range(11)]
    mean = HALF
    spread = sum((h - mean) ** 2 for h in values) + 2 * mean * (1 - mean)
    assert eq.effective_prompts(values) == 11 * mean * (1 - mean) * 12 / spread


@pytest.mark.parametrize(("share", "trials"), [(0, 20), (1, 20), (THIRD, 7), (sp.Rational(2, 5), 1000)])
def test_eq_19_wilson_ends_solve_the_score_equation(share: Any, trials: int) -> None:
    z = sp.Rational(49, 25)
    low, high = eq.wilson_interval(share, trials, z)
    for end in (low, high):
        assert sp.simplify(trials * (eq.exact(share) - end) ** 2 - z**2 * end * (1 - end)) == 0
    assert 0 <= low <= eq.exact(share) <= high <= 1
    assert low < high


def test_eq_19_interval_of_identical_or_few_prompts_has_width() -> None:
    for values in ([THIRD], [THIRD] * 4, [0], [1, 1]):
        share = sp.Rational(sum(values), len(values))
        low, high = eq.wilson_interval(share, eq.effective_prompts(values), sp.Rational(49, 25))
        assert high - low > sp.Rational(1, 20)


@pytest.mark.parametrize("values", [[0.5], [0.0] * 9, [1.0] * 3, [0.25] * 6, [0.0, 0.125, 1.0, 0.5]])
def test_eq_19_the_library_s_interval(values: list[float]) -> None:
    fast = mean_interval(np.array(values), np.ones(len(values), dtype=np.int64), 0.95)
    share = sp.Rational(sum(values)) / len(values)
    low, high = eq.wilson_interval(share, eq.effective_prompts(values), float(norm.ppf(0.975)))
    assert (fast.low, fast.high) == pytest.approx((float(low), float(high)), rel=1e-11, abs=1e-15)


def test_eq_19_interval_covers_at_its_level() -> None:
    rng, trials, prompts, n, g = np.random.default_rng(5), 20_000, 60, 8, 4
    kernel = np.array([float(eq.u_statistic(k, n, g)) for k in range(n + 1)])
    h = kernel[rng.binomial(n, rng.beta(0.5, 0.8, (trials, prompts)))]
    mean = h.mean(axis=1)
    spread = (((h - mean[:, None]) ** 2).sum(axis=1) + 2 * mean * (1 - mean)) / (prompts + 1)
    effective = prompts * mean * (1 - mean) / spread
    assert effective[0] == pytest.approx(float(eq.effective_prompts(h[0].tolist())), rel=1e-12)
    z = float(norm.ppf(0.975))
    ends = sp.lambdify((x, a, b), eq.wilson_interval(x, a, b), "numpy")
    low, high = ends(mean, effective, z)
    truth = float(eq.beta_dead_fraction(0.5, 0.8, g))
    assert_rate(int(((low <= truth) & (truth <= high)).sum()), trials, 0.95, catches=0.02)


PILOT = [(0, 4), (4, 4), (1, 4), (2, 2), (3, 7), (0, 1), (5, 6), (1, 1)]


def test_eq_20_tail_counts_give_the_sum_of_the_log_laws() -> None:
    for mean, correlation in ((THIRD, sp.Rational(1, 5)), (sp.Rational(3, 4), sp.Rational(19, 20))):
        shape = (1 - correlation) / correlation
        direct = sum(
            sp.log(eq.beta_binomial_pmf(k, n, mean * shape, (1 - mean) * shape) / sp.binomial(n, k)) for k, n in PILOT
        )
        got = eq.beta_binomial_log_likelihood(PILOT, mean, correlation)
        assert abs(sp.N(got - direct, 40)) < 1e-35


def test_eq_20_on_the_edges_of_the_square() -> None:
    binomial = eq.beta_binomial_log_likelihood(PILOT, mu, 0)
    passed, total = sum(k for k, _ in PILOT), sum(n for _, n in PILOT)
    assert sp.simplify(binomial - passed * sp.log(mu) - (total - passed) * sp.log(1 - mu)) == 0
    dead_only = eq.beta_binomial_log_likelihood([(0, 4), (4, 4), (0, 2)], mu, 1)
    assert sp.simplify(dead_only - sp.log(mu) - 2 * sp.log(1 - mu)) == 0
    singles = eq.beta_binomial_log_likelihood([(0, 1), (1, 1)], mu, rho)
    assert rho not in singles.free_symbols
    assert eq.beta_binomial_log_likelihood(PILOT, THIRD, 1) in (sp.zoo, -sp.oo)


def test_eq_20_counts_are_tail_counts() -> None:
    passed, failed, total = eq.tail_counts([(3, 4), (0, 2)])
    assert (passed, failed, total) == ([1, 1, 1, 0], [2, 1, 0, 0], [2, 2, 1, 1])


# Section 4: a step


def test_eq_21_to_23_are_sums_over_all_steps() -> None:
    dead, prompts = sp.Rational(2, 7), 5
    chance: dict[int, Any] = dict.fromkeys(range(prompts + 1), sp.Integer(0))
    for step in outcomes(prompts):
        chance[sum(step)] += sp.Mul(*((1 - dead) if mixed else dead for mixed in step))
    assert all(eq.mixed_groups_pmf(j, prompts, dead) == chance[j] for j in chance)
    assert eq.dead_batch(dead, prompts) == chance[0] == eq.fewer_mixed_than(1, prompts, dead)
    assert eq.fewer_mixed_than(3, prompts, dead) == chance[0] + chance[1] + chance[2]
    assert eq.fewer_mixed_than(prompts + 1, prompts, dead) == 1


def test_eq_21_heterogeneity_is_already_inside_the_dead_fraction() -> None:
    rng, prompts, g = np.random.default_rng(6), 16, 4
    passes = rng.binomial(g, rng.beta(0.35, 0.7, (200_000, prompts)))
    mixed = ((passes > 0) & (passes < g)).sum(axis=1)
    dead = eq.beta_dead_fraction(0.35, 0.7, g)
    for j in (3, 6, 8):
        chance = float(eq.mixed_groups_pmf(j, prompts, dead))
        assert_rate(int((mixed == j).sum()), mixed.size, chance, catches=0.01)


@quick
@given(chances=st.lists(fractions, min_size=1, max_size=6))
def test_eq_22_law_and_variance_of_a_fixed_list(chances: list[Fraction]) -> None:
    law = eq.poisson_binomial_pmf(chances)
    assert sum(law) == 1
    mean = sum(j * weight for j, weight in enumerate(law))
    variance = sum((j - mean) ** 2 * weight for j, weight in enumerate(law))
    assert mean == eq.exact(sum(chances))
    assert variance == eq.poisson_binomial_variance(chances)
    assert variance == eq.exact(sum(m * (1 - m) for m in chances))
    count = len(chances)
    assert variance <= mean * (1 - mean / count)  # never wider than the random draw of eq. 21


# Section 5: planning

NAMES = ("grpo", "dr_grpo", "rloo")


def advantages_of(name: str, rewards: tuple[int, ...]) -> list[Any]:
    """Straight from the definition of the estimator."""
    g, total = len(rewards), sum(rewards)
    mean = sp.Rational(total, g)
    if total in (0, g):
        return [sp.Integer(0)] * g
    if name == "rloo":
        return [r - sp.Rational(total - r, g - 1) for r in rewards]
    scale = sp.sqrt(mean * (1 - mean)) if name == "grpo" else 1
    return [(r - mean) / scale for r in rewards]


@pytest.mark.parametrize("g", [2, 3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_eq_24_signal_and_noise_follow_from_the_rewards(name: str, g: int) -> None:
    for rewards in outcomes(g):
        k, values = sum(rewards), advantages_of(name, rewards)
        assert sp.simplify(sum(values)) == 0
        direct_signal = sum(value * r for value, r in zip(values, rewards, strict=True)) / g
        direct_noise = sum(value**2 for value in values) / g**2
        assert sp.simplify(eq.signal(name, k, g) - direct_signal) == 0
        assert sp.simplify(eq.noise(name, k, g) - direct_noise) == 0
        if 0 < k < g:
            up, down = eq.pass_advantage(name, k, g), eq.fail_advantage(name, k, g)
            pairs = zip(values, rewards, strict=True)
            assert all(sp.simplify(value - (up if r else down)) == 0 for value, r in pairs)


@pytest.mark.parametrize("g", [2, 3, 8, 17, 128])
@pytest.mark.parametrize("name", NAMES)
def test_eq_24_the_library_s_signal_and_noise(name: str, g: int) -> None:
    estimator = ESTIMATORS[name]
    for fast, equation in ((estimator.signal(g), eq.signal), (estimator.noise(g), eq.noise)):
        truth = [float(equation(name, k, g)) for k in range(g + 1)]
        np.testing.assert_allclose(fast, truth, rtol=1e-12)


@pytest.mark.parametrize("g", range(2, 9))
def test_eq_24_means_of_signal_and_noise_in_the_table(g: int) -> None:
    pq = p * (1 - p)
    table = {
        "dr_grpo": (pq * sp.Rational(g - 1, g), pq * sp.Rational(g - 1, g**2)),
        "rloo": (pq, pq / (g - 1)),
        "grpo": (eq.expected_group_std(p, g), eq.mixed(p, g) / g),
    }
    for name, (signal, noise) in table.items():
        assert same(eq.group_mean(partial(eq.signal, name, group_size=g), p, g), signal)
        assert same(eq.group_mean(partial(eq.noise, name, group_size=g), p, g), noise)


@pytest.mark.parametrize("g", range(2, 10))
def test_eq_25_rloo_second_moment_in_closed_form(g: int) -> None:
    exact_mean = eq.group_mean(lambda k: eq.signal("rloo", k, g) ** 2, p, g)
    assert same(exact_mean, eq.rloo_signal_second_moment(p, g))
    assert same(eq.group_mean(lambda k: eq.noise("rloo", k, g), p, g), eq.rloo_noise_mean(p, g))


def _of_passes(values: list[Fraction], rewards: tuple[int, ...]) -> Fraction:
    return values[sum(rewards)]


@pytest.mark.parametrize("rate", RATES)
def test_eq_25_closed_form_in_exact_rationals(rate: float) -> None:
    for g in (2, 5, 10):
        by_passes = [Fraction(k * (g - k), g * (g - 1)) ** 2 for k in range(g + 1)]
        direct = enumerated(partial(_of_passes, by_passes), Fraction(rate), g)
        assert eq.rloo_signal_second_moment(rate, g) == eq.exact(direct)


def test_eq_25_needs_the_law_of_k_alone() -> None:
    law = eq.mixture_law(*MIX, 6)
    assert sum(law) == 1
    by_law = eq.second_moment("rloo", law, 7)
    by_prompt = eq.mixture_mean(
        lambda rate: eq.rloo_signal_second_moment(rate, 6) + 7 * eq.rloo_noise_mean(rate, 6), *MIX
    )
    assert by_law == by_prompt
    assert eq.second_moment("grpo", [HALF, 0, 0, HALF], 7) == 0


def simulated_steps(
    name: str, g: int, coherence: float, contrast: float, spread: float, prompts: int, steps: int
) -> Any:
    """Average gradient estimate of each step under the score model, in 4 dimensions."""
    rng, count, dimensions = np.random.default_rng(7), prompts * steps, 4
    rates = rng.choice([float(r) for r in MIX[0]], size=count, p=[float(w) for w in MIX[1]])
    rewards = (rng.random((count, g)) < rates[:, None]).astype(float)
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    if name == "rloo":
        weights = centred * g / (g - 1)
    else:
        std = rewards.std(axis=1, keepdims=True)
        weights = np.divide(centred, std, out=np.zeros_like(centred), where=std > 0)
    own = rng.normal(size=(count, dimensions - 1))
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    direction = np.concatenate([np.full((count, 1), math.sqrt(coherence)), math.sqrt(1 - coherence) * own], axis=1)
    pq = (rates * (1 - rates))[:, None]
    along = contrast * pq * (rewards - rates[:, None]) / pq
    noise = spread / math.sqrt(dimensions) * rng.normal(size=(count, g, dimensions))
    scores = along[:, :, None] * direction[:, None, :] + noise
    groups = (weights[:, :, None] * scores).mean(axis=1)
    return groups.reshape(steps, prompts, dimensions).mean(axis=1)


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_eq_25_and_26_simulated_gradients_have_the_stated_size(name: str) -> None:
    g, contrast, spread, coherence, prompts = 5, 2.0, 3.0, 0.3, 4
    law, kappa = eq.mixture_law(*MIX, g), sp.Rational(9, 4)
    single = simulated_steps(name, g, coherence, contrast, spread, prompts=1, steps=200_000)
    squared = float(eq.second_moment(name, law, kappa)) * contrast**2
    assert_mean((single**2).sum(axis=1), squared, catches=0.05)
    batch = simulated_steps(name, g, coherence, contrast, spread, prompts=prompts, steps=50_000)
    mean = float(eq.law_mean(lambda k: eq.signal(name, k, g), law))
    shared = coherence * (contrast * mean) ** 2
    ratio = float(eq.noise_to_signal(name, law, kappa, sp.Rational(3, 10), prompts))
    assert_mean((batch**2).sum(axis=1), shared * (1 + ratio), catches=0.05)
    with pytest.raises(AssertionError, match="z ="):
        assert_mean((single**2).sum(axis=1), squared - contrast**2 * mean**2, catches=0.05)


@pytest.mark.parametrize("g", [2, 5, 9])
def test_eq_26_a_factor_per_group_size_cancels(g: int) -> None:
    law, kappa, cost = eq.mixture_law(*MIX, g), sp.Rational(5), sp.Rational(3, 2)
    assert eq.efficiency("rloo", law, kappa, THIRD, cost) == eq.efficiency("dr_grpo", law, kappa, THIRD, cost)


def test_eq_26_efficiency_is_the_inverse_noise_ratio_at_equal_cost() -> None:
    law, kappa, cost, coherence, g = eq.mixture_law(*MIX, 6), sp.Rational(5), 2, sp.Rational(1, 9), 6
    prompts = sp.Rational(100, cost + g)
    ratio = eq.noise_to_signal("grpo", law, kappa, coherence, prompts)
    assert same(1 / ratio, 100 * coherence * eq.efficiency("grpo", law, kappa, coherence, cost))


def test_eq_27_is_where_the_two_stage_cost_is_least() -> None:
    g, first, second, kappa, cost, coherence = sp.symbols("G e1 e2 kappa c0 rho", positive=True)
    best = eq.two_stage_group_size(first, second, kappa, coherence, cost)
    slope = sp.diff(eq.two_stage_cost(g, first, second, kappa, coherence, cost), g)
    assert sp.simplify(slope.subs(g, best)) == 0
    numbers = {first: sp.Rational(1, 8), second: sp.Rational(1, 32), kappa: 10, cost: 1, coherence: 0}
    here = best.subs(numbers)
    assert here == 1 + sp.sqrt(80)
    values = [
        eq.two_stage_cost(here + d, *(numbers[s] for s in (first, second, kappa, coherence, cost))) for d in (-1, 0, 1)
    ]
    assert float(values[1]) < float(values[0])
    assert float(values[1]) < float(values[2])


def test_eq_27_spread_of_the_signal_that_it_leaves_out() -> None:
    g, pq = sp.symbols("G", positive=True), p * (1 - p)
    spread = pq * (1 - 4 * pq) / g + 2 * pq**2 / (g * (g - 1))
    assert sp.simplify(eq.rloo_signal_second_moment(p, g) - pq**2 - spread) == 0


@pytest.mark.parametrize(("kappa", "cost", "coherence"), [(30, 0, 0), (100, 0, 0), (100, 4, 0), (60, 1, THIRD)])
def test_eq_27_is_near_the_best_of_eq_26_when_kappa_is_large(kappa: int, cost: int, coherence: Any) -> None:
    first = eq.mixture_mean(lambda r: r * (1 - r), *MIX)
    second = eq.mixture_mean(lambda r: (r * (1 - r)) ** 2, *MIX)
    closed = float(eq.two_stage_group_size(first, second, kappa, coherence, cost))

    def efficiency(g: int) -> float:
        moment = eq.mixture_mean(lambda r: eq.rloo_signal_second_moment(r, g) + kappa * eq.rloo_noise_mean(r, g), *MIX)
        return float(first**2 / ((cost + g) * (moment - coherence * first**2)))

    assert efficiency(6) == pytest.approx(
        float(eq.efficiency("rloo", eq.mixture_law(*MIX, 6), kappa, coherence, cost)), rel=1e-12
    )
    best = max(range(2, 200), key=efficiency)
    assert abs(best - closed) <= 1.0


def test_eq_28_regret_by_hand() -> None:
    table = [[4, 3, 1, 2], [1, 3, 4, 2], [2, 4, 2, 2]]
    assert eq.regrets(table[0]) == [0, sp.Rational(1, 4), sp.Rational(3, 4), HALF]
    assert eq.minimax_regret(table) == (1, sp.Rational(1, 4))
    assert eq.flat_range([100, 90, 89, 95]) == [0, 1, 3]
    assert eq.flat_range([100, 90, 89, 95], HALF) == [0, 1, 2, 3]


@quick
@given(rows=st.lists(st.lists(st.fractions(1, 9), min_size=4, max_size=4), min_size=1, max_size=4))
def test_eq_28_no_other_group_size_has_a_smaller_worst_regret(rows: list[list[Fraction]]) -> None:
    index, worst = eq.minimax_regret(rows)
    columns = list(zip(*map(eq.regrets, rows), strict=True))
    assert worst == max(columns[index])
    assert all(worst <= max(column) for column in columns)
    assert all(0 <= regret < 1 for column in columns for regret in column)
