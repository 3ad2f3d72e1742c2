"""Closed forms in p and G: against exact arithmetic, enumeration, properties and simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grpo_plan import groups, symbolic
from grpo_plan.errors import DomainError, InfeasiblePlanError
from tests.helpers import (
    GROUP_SIZES,
    RATES,
    assert_mean,
    assert_precise,
    assert_rate,
    binomial_mean_mp,
    enumerated,
    is_non_increasing,
)

quick = settings(deadline=None)
rates = st.floats(0.0, 1.0, allow_subnormal=False)
sizes = st.integers(1, 300)
P, TAU, G = sp.symbols("p tau G")

CLOSED_FORMS: dict[str, tuple[Callable[..., NDArray[np.float64]], Callable[..., Any]]] = {
    "mixed": (groups.mixed_probability, symbolic.mixed),
    "dead": (groups.dead_probability, symbolic.dead),
    "all_pass": (groups.all_pass_probability, symbolic.all_pass),
    "all_fail": (groups.all_fail_probability, symbolic.all_fail),
    "pass_at": (groups.pass_at, symbolic.pass_at),
    "variance": (groups.expected_group_variance, symbolic.expected_group_variance),
}
STD_FORMS = {"std": groups.expected_group_std, "fidelity": groups.group_std_fidelity}
EVERY_FORM = {name: fast for name, (fast, _) in CLOSED_FORMS.items()} | STD_FORMS


# Exact arithmetic


@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_form_has_relative_error_below_1e_12(name: str, group_size: int) -> None:
    fast, equation = CLOSED_FORMS[name]
    precise = sp.lambdify((P, G), equation(P, G), "mpmath")
    for rate in RATES:
        assert_precise(float(fast(rate, group_size)), precise(mpmath.mpf(rate), mpmath.mpf(group_size)))


@pytest.mark.parametrize("group_size", [2, 3, 7, 16])
def test_mixed_probability_is_the_binomial_sum_in_exact_rationals(group_size: int) -> None:
    for rate in RATES:
        truth = symbolic.mixed_sum(rate, group_size)
        assert isinstance(truth, sp.Rational)
        assert_precise(float(groups.mixed_probability(rate, group_size)), truth)


@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.1, 0.5, 1 - 1e-9, 1.0])
def test_rare_mode_miss_has_relative_error_below_1e_12(share: float, group_size: int) -> None:
    precise = sp.lambdify((P, TAU, G), symbolic.rare_mode_miss(P, TAU, G), "mpmath")
    for rate in RATES:
        mode = rate * share
        got = float(groups.rare_mode_miss_probability(rate, mode, group_size))
        assert_precise(got, precise(mpmath.mpf(rate), mpmath.mpf(mode), mpmath.mpf(group_size)))


@pytest.mark.parametrize("group_size", [1, 2, 8, 64, 1000])
@pytest.mark.parametrize("levels", [[0.5, 0.25, 0.25], [1e-9, 1 - 1e-9], [0.125] * 8, [1.0, 0.0]])
def test_graded_dead_probability_in_exact_rationals(levels: list[float], group_size: int) -> None:
    got = float(groups.graded_dead_probability(levels, group_size))
    assert_precise(got, symbolic.graded_dead(levels, group_size))


@pytest.mark.parametrize("group_size", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("rate", RATES)
def test_expected_std_and_fidelity_are_the_symbolic_sum(rate: float, group_size: int) -> None:
    assert_precise(float(groups.expected_group_std(rate, group_size)), symbolic.expected_group_std(rate, group_size))
    assert_precise(float(groups.group_std_fidelity(rate, group_size)), symbolic.fidelity(rate, group_size))


@pytest.mark.parametrize("group_size", [64, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("rate", RATES)
def test_expected_std_of_large_groups(rate: float, group_size: int) -> None:
    truth = binomial_mean_mp(lambda k: mpmath.sqrt(mpmath.mpf(k) * (group_size - k)) / group_size, rate, group_size)
    assert_precise(float(groups.expected_group_std(rate, group_size)), truth)


def test_rows_of_very_different_pass_rates_do_not_disturb_each_other() -> None:
    together = groups.expected_group_std(np.array([*RATES, 0.0, 1.0]), 1000)
    alone = [float(groups.expected_group_std(rate, 1000)) for rate in (*RATES, 0.0, 1.0)]
    assert together.tolist() == pytest.approx(alone, rel=1e-12)


def test_many_pass_rates_are_taken_in_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = np.linspace(0.0, 1.0, 101)
    whole = groups.expected_group_std(grid, 32)
    monkeypatch.setattr(groups, "MAX_CELLS", 500)
    assert groups.expected_group_std(grid, 32).tolist() == pytest.approx(whole.tolist(), rel=1e-14)


# Enumeration

ENUMERATED: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "mixed": lambda r: int(0 < sum(r) < len(r)),
    "dead": lambda r: int(len(set(r)) == 1),
    "all_pass": lambda r: int(all(r)),
    "all_fail": lambda r: int(not any(r)),
    "pass_at": lambda r: int(any(r)),
    "variance": lambda r: Fraction(sum(r), len(r)) - Fraction(sum(r), len(r)) ** 2,
    "std": lambda r: float(np.std(r)),
}


@pytest.mark.parametrize("group_size", range(1, 8))
@pytest.mark.parametrize("name", ENUMERATED)
def test_closed_form_is_the_mean_over_all_reward_tuples(name: str, group_size: int) -> None:
    for rate in (Fraction(0), Fraction(1, 64), Fraction(3, 8), Fraction(7, 8), Fraction(1)):
        truth = enumerated(ENUMERATED[name], rate, group_size)
        assert float(EVERY_FORM[name](float(rate), group_size)) == pytest.approx(float(truth), rel=1e-12)


@pytest.mark.parametrize("group_size", range(1, 7))
def test_graded_and_rare_mode_forms_are_the_mean_over_all_outcome_tuples(group_size: int) -> None:
    chance = {"rare": Fraction(1, 16), "common": Fraction(5, 16), "fail": Fraction(5, 8)}
    same = missed = Fraction(0)
    for group in product(chance, repeat=group_size):
        weight = math.prod(chance[outcome] for outcome in group)
        same += weight * (len(set(group)) == 1)
        missed += weight * ("fail" in group and "common" in group and "rare" not in group)
    levels = [float(x) for x in chance.values()]
    assert float(groups.graded_dead_probability(levels, group_size)) == pytest.approx(float(same), rel=1e-12)
    got = float(groups.rare_mode_miss_probability(3 / 8, 1 / 16, group_size))
    assert got == pytest.approx(float(missed), rel=1e-12)


# Properties


@quick
@given(p=rates, g=sizes)
def test_values_are_finite_and_in_range(p: float, g: int) -> None:
    for name, fast in EVERY_FORM.items():
        value = float(fast(p, g))
        assert 0.0 <= value <= 1.0 + 1e-12, name


@quick
@given(k=st.integers(0, 2**30), g=sizes)
def test_passes_and_fails_are_symmetric(k: int, g: int) -> None:
    p = k / 2**30  # 1 - p is exact, so the two sides are the same real number
    for name in ("mixed", "dead", "variance", "std", "fidelity"):
        left, right = float(EVERY_FORM[name](p, g)), float(EVERY_FORM[name](1 - p, g))
        assert left == pytest.approx(right, rel=1e-12, abs=1e-300), name
    left, right = float(groups.all_pass_probability(p, g)), float(groups.all_fail_probability(1 - p, g))
    assert left == pytest.approx(right, rel=1e-12, abs=1e-300)


@quick
@given(p=rates, g=sizes)
def test_the_parts_add_up(p: float, g: int) -> None:
    dead, mixed = float(groups.dead_probability(p, g)), float(groups.mixed_probability(p, g))
    passed, failed = float(groups.all_pass_probability(p, g)), float(groups.all_fail_probability(p, g))
    assert dead + mixed == pytest.approx(1.0, abs=1e-12)
    assert passed + failed == pytest.approx(dead if g > 1 else 1.0, rel=1e-12)
    assert float(groups.pass_at(p, g)) == pytest.approx(1.0 - failed, abs=1e-12)
    assert float(groups.rare_mode_miss_probability(p, 0.0, g)) == pytest.approx(mixed, rel=1e-12, abs=1e-300)
    if p < 1.0:
        assert float(groups.rare_mode_miss_probability(p, p, g)) == pytest.approx(0.0, abs=1e-15)
    assert float(groups.graded_dead_probability([p, 1 - p], g)) == pytest.approx(dead, rel=1e-9)


def test_a_mode_that_is_every_rollout_is_never_missed() -> None:
    assert groups.rare_mode_miss_probability(1.0, [0.5, 1.0], 4).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("tiny", [5e-324, 1e-310])
def test_subnormal_pass_rates_do_not_warn(tiny: float) -> None:
    assert 0.0 <= float(groups.expected_group_std(tiny, 8)) <= 8 * tiny


@quick
@given(p=rates, g=st.integers(2, 300))
def test_group_std_is_at_most_the_root_of_the_variance(p: float, g: int) -> None:
    std, variance = float(groups.expected_group_std(p, g)), float(groups.expected_group_variance(p, g))
    assert std <= math.sqrt(variance) * (1 + 1e-12)
    assert std >= 2 * variance * (1 - 1e-12)  # a std is at most 1/2, so std >= 2 * variance


@pytest.mark.parametrize("name", ["dead", "all_pass", "all_fail"])
@quick
@given(p=rates)
def test_dead_falls_with_the_group_size(name: str, p: float) -> None:
    assert is_non_increasing(EVERY_FORM[name](p, np.arange(1, 200)))


@pytest.mark.parametrize("name", ["mixed", "pass_at", "variance", "std", "fidelity"])
@quick
@given(p=rates)
def test_mixed_std_and_fidelity_rise_with_the_group_size(name: str, p: float) -> None:
    assert is_non_increasing(-EVERY_FORM[name](p, np.arange(1, 100)))


@pytest.mark.parametrize("property_", ["one", "edges"], ids=["papers-34-D(1)", "papers-34-edges"])
def test_a_single_rollout_and_a_sure_prompt_are_dead(property_: str) -> None:
    grid = np.linspace(0.0, 1.0, 1001)
    sizes_to_try = np.array([1, 2, 3, 16, 10**6, 10**9])
    where = (grid, 1) if property_ == "one" else (np.array([[0.0], [1.0]]), sizes_to_try)
    assert np.all(groups.dead_probability(*where) == 1.0)
    assert np.all(groups.mixed_probability(*where) == 0.0)


@pytest.mark.parametrize("ratio", [1.5], ids=["papers-34-m3"])
def test_three_rollouts_give_half_as_many_mixed_groups_again_as_two(ratio: float) -> None:
    grid = np.concatenate([RATES, np.linspace(0.01, 0.99, 99)])
    two, three = groups.mixed_probability(grid, 2), groups.mixed_probability(grid, 3)
    np.testing.assert_allclose(three, ratio * two, rtol=1e-12)


@quick
@given(p=rates)
def test_mixed_groups_per_rollout_are_never_more_than_at_two(p: float) -> None:
    g = np.arange(2, 200)
    assert is_non_increasing(groups.mixed_probability(p, g) / g)


@pytest.mark.parametrize("_id", [None], ids=["papers-34-jensen"])
@quick
@given(
    prompts=st.lists(st.tuples(rates, st.floats(0.01, 1.0)), min_size=1, max_size=8),
    g=sizes,
)
def test_a_mixture_is_dead_at_least_as_often_as_its_mean(_id: None, prompts: list[tuple[float, float]], g: int) -> None:
    p, w = np.array(prompts).T
    w = w / w.sum()
    mean_rate = min(float(w @ p), 1.0)
    assert w @ groups.dead_probability(p, g) >= float(groups.dead_probability(mean_rate, g)) - 1e-12


@pytest.mark.parametrize("name", EVERY_FORM)
def test_shapes_broadcast(name: str) -> None:
    fast = EVERY_FORM[name]
    assert fast(0.5, 4).shape == ()
    assert fast([0.1, 0.5], 4).shape == (2,)
    assert fast(0.5, [2, 4, 8]).shape == (3,)
    table = fast(np.array([[0.1], [0.5]]), np.array([2, 4, 8]))
    assert table.shape == (2, 3)
    assert table.dtype == np.float64
    expected = [[float(fast(p, g)) for g in (2, 4, 8)] for p in (0.1, 0.5)]
    np.testing.assert_allclose(table, expected, rtol=1e-14)
    assert fast([], 4).shape == (0,)


def test_shapes_of_the_forms_with_a_third_argument() -> None:
    assert groups.graded_dead_probability([[0.5, 0.5], [0.1, 0.9]], 2).shape == (2,)
    assert groups.graded_dead_probability([0.5, 0.5], [2, 3, 4]).shape == (3,)
    assert groups.rare_mode_miss_probability(np.full((2, 1), 0.5), 0.1, [2, 3, 4]).shape == (2, 3)


def test_arguments_are_left_as_they_were() -> None:
    p, g = np.array([0.1, 0.5]), np.array([2, 3])
    for fast in EVERY_FORM.values():
        fast(p, g)
    assert p.tolist() == [0.1, 0.5]
    assert g.tolist() == [2, 3]


# Simulation

TRIALS = 400_000


def simulated_rewards(p: float, group_size: int, seed: int) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((TRIALS, group_size)) < p


@pytest.mark.parametrize(("p", "g"), [(0.6, 8), (0.05, 4), (0.93, 6)])
def test_simulated_groups_are_mixed_dead_and_passing_at_the_stated_rates(p: float, g: int) -> None:
    passes = simulated_rewards(p, g, seed=1).sum(axis=1)
    events = {
        "mixed": (0 < passes) & (passes < g),
        "all_pass": passes == g,
        "all_fail": passes == 0,
        "pass_at": passes > 0,
    }
    for name, event in events.items():
        assert_rate(int(event.sum()), TRIALS, float(EVERY_FORM[name](p, g)), catches=0.01)


def test_simulated_group_std_and_variance() -> None:
    rewards = simulated_rewards(0.2, 8, seed=2)
    assert_mean(rewards.std(axis=1), float(groups.expected_group_std(0.2, 8)), catches=0.003)
    assert_mean(rewards.var(axis=1), float(groups.expected_group_variance(0.2, 8)), catches=0.001)


def test_simulated_rare_mode() -> None:
    draws = np.random.default_rng(3).random((TRIALS, 5))
    rare, passed = draws < 0.05, draws < 0.5
    missed = passed.any(axis=1) & ~passed.all(axis=1) & ~rare.any(axis=1)
    assert_rate(int(missed.sum()), TRIALS, float(groups.rare_mode_miss_probability(0.5, 0.05, 5)), catches=0.01)


def test_the_simulation_check_rejects_a_formula_that_forgets_the_all_pass_groups() -> None:
    passes = simulated_rewards(0.6, 8, seed=1).sum(axis=1)
    hits = int(((0 < passes) & (passes < 8)).sum())
    with pytest.raises(AssertionError, match="p ="):
        assert_rate(hits, TRIALS, 1 - (1 - 0.6) ** 8, catches=0.01)


def test_the_simulation_check_rejects_a_sample_std_and_a_hopeless_design() -> None:
    values = simulated_rewards(0.2, 8, seed=2).std(axis=1)
    with pytest.raises(AssertionError, match="z ="):
        assert_mean(values, float(groups.expected_group_std(0.2, 8)) * math.sqrt(8 / 7), catches=0.003)
    with pytest.raises(AssertionError, match="only reveal"):
        assert_rate(5, 10, 0.5, catches=0.01)


# Published numbers


@pytest.mark.parametrize(
    ("p", "g", "expected"),
    [
        pytest.param(0.2, 4, 0.5888, id="papers-1-G4"),
        pytest.param(0.2, 8, 0.83222528, id="papers-1-G8"),
        pytest.param(0.5, 4, 0.875, id="papers-2-p.5-G4"),
        pytest.param(0.5, 8, 0.992188, id="papers-2-p.5-G8"),
        pytest.param(0.1, 8, 0.569533, id="papers-2-p.1"),
        pytest.param(0.05, 8, 0.336580, id="papers-2-p.05"),
        pytest.param(0.01, 8, 0.077255, id="papers-2-p.01"),
        pytest.param(0.3, 8, 0.942286, id="papers-3-p.3"),
        pytest.param(0.01, 4, 0.039404, id="papers-3-p.01"),
        pytest.param(0.2, 16, 0.971853, id="papers-3-p.2"),
        pytest.param(0.05, 16, 0.559873, id="papers-3-p.05"),
    ],
)
def test_published_mixed_probability(p: float, g: int, expected: float) -> None:
    assert float(groups.mixed_probability(p, g)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("expected", [0.3203125], ids=["papers-7"])
def test_published_iid_dead_probability(expected: float) -> None:
    assert float(groups.dead_probability(0.25, 4)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("p", "expected"),
    [pytest.param(0.5, 0.9278, id="papers-16-p.5"), pytest.param(0.05, 0.5390, id="papers-16-p.05")],
)
def test_published_fidelity_at_eight(p: float, expected: float) -> None:
    assert float(groups.group_std_fidelity(p, 8)) == pytest.approx(expected, abs=1e-4)


FIDELITY_TABLE = {0.5: (7, 11, 51), 0.3: (9, 14, 61), 0.1: (22, 36, 144), 0.05: (42, 69, 273)}


@pytest.mark.parametrize("p", FIDELITY_TABLE, ids=[f"papers-17-p{p:g}" for p in FIDELITY_TABLE])
def test_published_group_size_for_fidelity(p: float) -> None:
    for rate in (p, 1 - p):
        found = tuple(groups.group_size_for_fidelity(rate, target) for target in (0.90, 0.95, 0.99))
        assert found == FIDELITY_TABLE[p]


@pytest.mark.parametrize(
    ("g", "expected"),
    [
        pytest.param(4, 0.7110, id="papers-19-G4"),
        pytest.param(5, 0.7241, id="papers-19-G5"),
        pytest.param(8, 0.6578, id="papers-19-G8"),
        pytest.param(16, 0.4401, id="papers-19-G16"),
    ],
)
def test_published_rare_mode_miss(g: int, expected: float) -> None:
    assert float(groups.rare_mode_miss_probability(0.5, 0.05, g)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("worst", [5], ids=["papers-19-argmax"])
def test_published_worst_group_size_for_a_rare_mode(worst: int) -> None:
    miss = groups.rare_mode_miss_probability(0.5, 0.05, np.arange(200) + 1)
    assert int(np.argmax(miss)) + 1 == worst


@pytest.mark.parametrize("expected", [0.14], ids=["papers-32"])
def test_published_expected_group_variance(expected: float) -> None:
    assert float(groups.expected_group_variance(0.2, 8)) == pytest.approx(expected, rel=1e-12)


# Search and errors


@quick
@given(p=st.floats(0.02, 0.98), target=st.floats(0.0, 0.97))
def test_the_group_size_found_is_the_smallest_that_reaches_the_fidelity(p: float, target: float) -> None:
    found = groups.group_size_for_fidelity(p, target)
    assert found >= 2
    assert float(groups.group_std_fidelity(p, found)) >= target
    if found > 2:
        assert float(groups.group_std_fidelity(p, found - 1)) < target


def test_a_limit_that_is_exactly_enough_is_accepted() -> None:
    assert groups.group_size_for_fidelity(0.1, 0.95, max_group_size=36) == 36


def test_a_fidelity_out_of_reach_says_what_is_reached() -> None:
    with pytest.raises(InfeasiblePlanError, match=r"No group of at most 20 rollouts .* 20 reach 0\.8"):
        groups.group_size_for_fidelity(0.1, 0.95, max_group_size=20)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: groups.mixed_probability(-0.1, 4), r"pass_rate must lie in \[0, 1\]; got -0\.1\."),
        (
            lambda: groups.mixed_probability([0.5, 35], 4),
            r"got 35 at index 1 \(1 of 2 values\)\. Percentages\? Divide by 100\.",
        ),
        (lambda: groups.dead_probability(math.nan, 4), r"pass_rate must lie in \[0, 1\]; got nan"),
        (lambda: groups.pass_at("many", 4), r"pass_rate must be numbers; got text: 'many'\."),
        (lambda: groups.all_pass_probability(0.5, 0), r"group_size must be a whole number .*; got 0\."),
        (lambda: groups.all_fail_probability(0.5, 2.5), r"group_size must be a whole number .*; got 2\.5\."),
        (lambda: groups.expected_group_std(0.5, math.inf), r"group_size must be a whole number .*; got inf"),
        (lambda: groups.expected_group_variance(0.5, [4, -1]), r"group_size .*; got -1\."),
        (
            lambda: groups.graded_dead_probability([0.5, 0.6], 4),
            r"level_probabilities must sum to 1 over the last axis; got 1\.1\.",
        ),
        (lambda: groups.graded_dead_probability(1.0, 4), r"must have a last axis of reward levels"),
        (lambda: groups.graded_dead_probability([], 4), r"must have a last axis of reward levels"),
        (
            lambda: groups.rare_mode_miss_probability(0.5, 0.6, 4),
            r"mode_mass must not exceed pass_rate; got 0\.1 more",
        ),
        (lambda: groups.rare_mode_miss_probability(0.5, 2.0, 4), r"mode_mass must lie in \[0, 1\]; got 2\."),
        (lambda: groups.group_size_for_fidelity(0.0, 0.9), r"strictly between 0 and 1; got 0"),
        (lambda: groups.group_size_for_fidelity(1.0, 0.9), r"strictly between 0 and 1; got 1"),
        (lambda: groups.group_size_for_fidelity(0.5, 1.0), r"fidelity must be below 1"),
        (
            lambda: groups.group_size_for_fidelity(0.5, 95),
            r"fidelity must lie in \[0, 1\]; got 95\..*Divide by",
        ),
        (
            lambda: groups.group_size_for_fidelity(0.5, 0.9, max_group_size=1),
            r"max_group_size must be at least 2; got 1\.",
        ),
    ],
)
def test_arguments_out_of_domain_are_named_with_their_value(call: Callable[[], object], text: str) -> None:
    with pytest.raises(DomainError, match=text):
        call()
