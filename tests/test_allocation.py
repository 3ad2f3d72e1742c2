"""Rollouts per prompt: published examples, brute force over every allocation, properties, and slips."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betaln

from grpo_plan import symbolic as eq
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting import PassRateFit, fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning.allocation import ESTIMATORS, allocate_rollouts, knapsack_value
from grpo_plan.planning.allocation_solver import water_filling
from grpo_plan.planning.first_pass import hit_probability, rollouts_to_first_pass
from grpo_plan.planning.posterior import posterior_masses
from tests.conftest import pilot_of
from tests.test_cli import Run, run

__all__ = ["run"]  # a fixture

Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=60)
WORTH: dict[str, Callable[[float, int], float]] = {
    "rloo": lambda p, n: -4 * p * (1 - p) / (n - 1),
    "dr_grpo": lambda p, n: -4 * p * (1 - p) * (n - 1) / n**2,
    "knapsack": lambda p, n: (1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2 if n else 0.0,
}


def total(rates: list[float], counts: tuple[int, ...] | list[int], estimator: str) -> float:
    return sum(WORTH[estimator](p, n) for p, n in zip(rates, counts, strict=True))


def best_by_force(rates: list[float], rollouts: int, estimator: str, options: list[int]) -> float:
    every = itertools.product(options, repeat=len(rates))
    return max(total(rates, counts, estimator) for counts in every if sum(counts) == rollouts)


# published examples


def test_the_published_water_filling() -> None:
    found = allocate_rollouts([0.05, 0.5, 0.2], 24, estimator="rloo")
    assert found.relaxed is not None
    assert found.relaxed == pytest.approx([5.094, 10.392, 8.514], abs=1e-3)
    assert found.multiplier == pytest.approx(0.011336, abs=1e-6)
    assert found.rollouts.sum() == 24


def test_the_published_knapsack_value() -> None:
    assert knapsack_value(np.array([0.3]), np.array([0.7]), 16)[0] == pytest.approx(0.146511, abs=1e-5)
    assert float(eq.knapsack_value(sp.Rational(3, 10), 16)) == pytest.approx(0.146511, abs=1e-5)
    weights = np.linspace(0.0, 1.0, 301)
    peak = weights[int(np.argmax(knapsack_value(weights, 1.0 - weights, 10_000)))]
    assert peak == pytest.approx(1 / 3, abs=0.01)


def test_the_published_first_passes() -> None:
    assert rollouts_to_first_pass(0.01).item() == pytest.approx(229.1, abs=0.1)
    assert float(eq.first_pass_rollouts(sp.Rational(1, 100), sp.Rational(9, 10))) == pytest.approx(229.1, abs=0.1)
    assert hit_probability(0, 8, 8).item() == pytest.approx(0.470588, abs=1e-6)
    assert eq.hit_probability(0, 8, 8) == sp.Rational(8, 17)


# exact over whole numbers


@pytest.mark.parametrize("seed", range(60))
def test_no_allocation_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    estimator = str(rng.choice(ESTIMATORS))
    low = int(rng.choice([0, 2, 3])) if estimator == "knapsack" else 3
    high = low + int(rng.integers(2, 7))
    rates = (rng.random(int(rng.integers(1, 5))) ** 3).tolist()
    rollouts = int(rng.integers(len(rates) * max(low, 2), len(rates) * high + 1))
    options = [n for n in range(low, high + 1) if n != 1]
    if not any(sum(c) == rollouts for c in itertools.product(options, repeat=len(rates))):
        return
    found = allocate_rollouts(rates, rollouts, estimator=estimator, low=low, high=high)
    assert found.rollouts.sum() == rollouts
    assert set(found.rollouts.tolist()) <= set(options)
    got = total(rates, found.rollouts.tolist(), estimator)
    assert got == pytest.approx(best_by_force(rates, rollouts, estimator, options), abs=1e-12)
    assert abs(found.objective) == pytest.approx(abs(got), abs=1e-12)


def test_greedy_would_be_wrong_where_a_prompt_may_get_none() -> None:
    """From 0 the first rollout gains nothing: one at a time goes nowhere, and the exact answer is found all the same."""
    assert WORTH["knapsack"](0.3, 1) == 0.0
    found = allocate_rollouts([0.3, 0.9], 3, estimator="knapsack", low=0, high=8)
    assert found.rollouts.tolist() == [3, 0]
    odd = allocate_rollouts([0.33, 0.32, 0.31], 7, estimator="knapsack", low=0, high=3)
    assert sorted(odd.rollouts.tolist()) == [2, 2, 3]


@pytest.mark.parametrize("estimator", ["rloo", "dr_grpo"])
def test_the_relaxed_answer_has_one_multiplier_and_bounds_the_whole_one(estimator: str) -> None:
    rng = np.random.default_rng(2)
    rates = rng.random(40)
    found = allocate_rollouts(rates, 400, estimator=estimator, low=3, high=30)
    assert found.relaxed is not None
    assert found.multiplier is not None
    assert found.relaxed.sum() == pytest.approx(400.0)
    spread = 4.0 * rates * (1.0 - rates)
    level = [float(eq.water_level(estimator, float(a), float(n))) for a, n in zip(spread, found.relaxed, strict=True)]
    inside = (found.relaxed > 3.0 + 1e-9) & (found.relaxed < 30.0 - 1e-9)
    assert inside.sum() > 20
    np.testing.assert_allclose(np.array(level)[inside], found.multiplier, rtol=1e-6)
    relaxed = sum(
        float(eq.estimate_variance(estimator, float(a), float(n))) for a, n in zip(spread, found.relaxed, strict=True)
    )
    assert relaxed <= found.objective <= relaxed * 1.02
    assert found.objective < found.uniform_objective
    np.testing.assert_array_less(np.abs(found.rollouts - found.relaxed), 1.5)


def test_water_filling_equations_agree() -> None:
    a, level = sp.Rational(3, 4), sp.Rational(1, 100)
    for estimator in ("rloo", "dr_grpo"):
        n = eq.water_filling(estimator, a, level)
        assert float(eq.water_level(estimator, a, n) - level) == pytest.approx(0.0, abs=1e-15)
        rollouts = sp.symbols("n", positive=True)
        slope = sp.diff(eq.estimate_variance(estimator, a, rollouts), rollouts)
        assert sp.simplify(slope + eq.water_level(estimator, a, rollouts)) == 0
        got, multiplier = water_filling(
            np.array([0.75]), np.array([1]), 10, 3, 64, estimator
        )  # fmt: skip
        assert got[0] == pytest.approx(10.0)
        assert multiplier == pytest.approx(float(eq.water_level(estimator, a, 10)), rel=1e-9)


def test_where_the_variances_are_convex() -> None:
    """Second differences: rloo from 2 on, dr_grpo from 3 on and not before; hence at least 3 rollouts."""
    n = sp.symbols("n", positive=True)
    second = sp.factor(sp.diff(eq.estimate_variance("dr_grpo", 1, n), n, 2))
    assert second.subs(n, 3) == 0
    assert second.subs(n, sp.Rational(5, 2)) < 0
    assert all(second.subs(n, m) > 0 for m in range(4, 50))
    assert eq.estimate_variance("dr_grpo", 1, 2) > eq.estimate_variance("dr_grpo", 1, 1)


@pytest.mark.parametrize("n", range(1, 8))
def test_increments_of_the_knapsack_value_fall_from_one_on(n: int) -> None:
    p = sp.symbols("p")
    step = eq.knapsack_increment(p, n)
    assert sp.expand(step - (eq.knapsack_value(p, n + 1) - eq.knapsack_value(p, n))) == 0
    fall = sp.factor(step - eq.knapsack_increment(p, n + 1))
    assert all(fall.subs(p, sp.Rational(i, 20)) >= 0 for i in range(21))


# properties


@given(
    rates=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=12, unique=True),
    extra=st.integers(0, 60),
    estimator=st.sampled_from(ESTIMATORS),
)
@quick
def test_totals_bounds_order_and_names(rates: list[float], extra: int, estimator: str) -> None:
    rollouts = min(3 * len(rates) + extra, 12 * len(rates))
    found = allocate_rollouts(rates, rollouts, estimator=estimator, low=3, high=12)
    assert found.rollouts.sum() == rollouts
    assert found.rollouts.min() >= 3
    assert found.rollouts.max() <= 12
    assert found.objective >= found.uniform_objective - 1e-12 if estimator == "knapsack" else (
        found.objective <= found.uniform_objective + 1e-12
    )  # fmt: skip
    order = np.random.default_rng(len(rates)).permutation(len(rates))
    again = allocate_rollouts(np.array(rates)[order], rollouts, estimator=estimator, low=3, high=12)
    assert again.objective == pytest.approx(found.objective, abs=1e-12)
    spread = np.array([p * (1 - p) for p in rates])
    if np.diff(np.sort(spread)).min(initial=1.0) > 1e-9:  # no ties, so the order of prompts cannot matter
        assert again.rollouts.tolist() == found.rollouts[order].tolist()
    if estimator != "knapsack":  # more variance, at least as many rollouts
        by_spread = np.argsort(spread)
        assert np.all(np.diff(found.rollouts[by_spread]) >= -1)
        clear = np.diff(spread[by_spread]) > 1e-9
        assert np.all(np.diff(found.rollouts[by_spread])[clear] >= 0)


def test_prompts_that_are_alike_get_the_same_but_for_one() -> None:
    found = allocate_rollouts([0.5] * 7, 7 * 5 + 3)
    assert found.rollouts.tolist() == [6, 6, 6, 5, 5, 5, 5]
    assert found.relaxed is not None
    assert found.relaxed == pytest.approx([38 / 7] * 7)


def test_silent_prompts_get_the_least_unless_nothing_else_can_be_bought() -> None:
    assert allocate_rollouts([0.0, 0.5, 1.0], 20).rollouts.tolist() == [3, 14, 3]
    full = allocate_rollouts([0.0, 0.5, 1.0], 30)
    assert full.rollouts[1] == 16
    assert full.rollouts.sum() == 30
    assert full.multiplier == 0.0
    assert allocate_rollouts([0.0, 1.0], 8).rollouts.sum() == 8


def test_the_variance_objective_rewards_silence_and_says_so() -> None:
    """Hard prompts get fewer rollouts than even shares, so fewer groups are mixed; the warning names that."""
    found = allocate_rollouts([0.02] * 10 + [0.5] * 10, 160)
    assert found.rollouts[:10].max() < 8
    assert found.mixed_groups < found.uniform_mixed_groups
    assert found.warning is not None
    assert "rewards silence" in found.warning
    assert allocate_rollouts([0.1, 0.5], 16, estimator="knapsack").warning is None


# pilots


def test_a_pilot_is_judged_by_means_over_the_posterior(example_fit: PassRateFit) -> None:
    """E[4 p q | k, n] by hand from the fitted masses; the count does not depend on the order of prompts."""
    rates, pilot = example_fit.likely_rates, example_fit.pilot
    found = allocate_rollouts(example_fit, 9672, estimator="rloo")
    assert found.relaxed is not None
    masses = posterior_masses(rates, np.arange(9), np.full(9, 8))
    spread = masses @ (4.0 * rates.passing * rates.failing)
    for k in range(9):
        rows = pilot.successes == k
        assert np.ptp(found.relaxed[rows]) == 0.0
        if 3.0 < found.relaxed[rows][0] < 16.0:
            assert found.relaxed[rows][0] == pytest.approx(1.0 + np.sqrt(spread[k] / found.multiplier), rel=1e-6)
    assert found.rollouts.sum() == 9672
    never = found.relaxed[pilot.successes == 0][0]
    assert never > 3.0  # 0 of 8 is not p = 0
    plug_in = allocate_rollouts(pilot.successes / pilot.rollouts, 9672, estimator="rloo")
    assert plug_in.rollouts[pilot.successes == 0].max() == 3


def test_the_knapsack_value_of_a_pilot_is_a_posterior_mean(example_fit: PassRateFit) -> None:
    rates, pilot = example_fit.likely_rates, example_fit.pilot
    found = allocate_rollouts(example_fit, 9672, estimator="knapsack")
    masses = posterior_masses(rates, np.arange(9), np.full(9, 8))
    by_hand = 0.0
    for k, n in zip(pilot.successes, found.rollouts, strict=True):
        by_hand += float(masses[k] @ knapsack_value(rates.passing, rates.failing, int(n)))
    assert found.objective == pytest.approx(by_hand, rel=1e-10)
    unequal = fit_pass_rates(Pilot.from_counts([0, 2, 1, 4] * 20, [4, 4, 2, 8] * 20))
    assert allocate_rollouts(unequal, 8 * 80).rollouts.sum() == 640


# a first pass


@pytest.mark.parametrize(("k", "n", "m", "a", "b"), [(0, 8, 8, 1, 1), (2, 5, 3, 1, 1), (0, 4, 64, 0.35, 0.7)])
def test_hits_by_beta_functions(k: int, n: int, m: int, a: float, b: float) -> None:
    expected = 1.0 - np.exp(betaln(a + k, b + n - k + m) - betaln(a + k, b + n - k))
    assert hit_probability(k, n, m, prior=(a, b)).item() == pytest.approx(float(expected), rel=1e-9)
    assert float(eq.hit_probability(k, n, m, (a, b))) == pytest.approx(float(expected), rel=1e-9)


@given(n=st.integers(0, 50), m=st.integers(1, 100))
@quick
def test_hits_after_nothing_but_fails(n: int, m: int) -> None:
    assert hit_probability(0, n, m).item() == pytest.approx(m / (n + 1 + m), rel=1e-12)
    if n:
        assert hit_probability(1, n, m).item() > hit_probability(0, n, m).item()


@given(p=st.floats(1e-9, 0.5), c=st.floats(0.01, 0.99))
@quick
def test_first_passes_come_in_time(p: float, c: float) -> None:
    n = rollouts_to_first_pass(p, c).item()
    assert n >= 1.0
    if n > 1.0:
        assert -np.expm1(n * np.log1p(-p)) == pytest.approx(c, rel=1e-9)


# slips


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"estimator": "ucb"}, "estimator must be one of rloo, dr_grpo, knapsack; got 'ucb'"),
        ({"low": 2}, "low must be at least 3; got 2"),
        ({"low": 1, "estimator": "knapsack"}, "One rollout alone is never mixed"),
        ({"high": 2}, "high must be at least 3; got 2"),
        ({"pass_rates": [0.5, 1.5]}, "must lie in"),
        ({"pass_rates": []}, "not empty"),
    ],
)
def test_arguments_outside_their_domain(options: dict[str, Any], text: str) -> None:
    arguments: dict[str, Any] = {"pass_rates": [0.2, 0.5], "total_rollouts": 16, **options}
    with pytest.raises(DomainError, match=text):
        allocate_rollouts(**arguments)


def test_totals_that_do_not_fit() -> None:
    for rollouts in (5, 33):
        with pytest.raises(InfeasiblePlanError, match=r"between 6 and 32 for 2 prompts with 3 to 16 rollouts each"):
            allocate_rollouts([0.2, 0.5], rollouts)
    with pytest.raises(InfeasiblePlanError, match="cannot be spread in lots of 2 to 2"):
        allocate_rollouts([0.2, 0.5], 3, estimator="knapsack", low=0, high=2)
    with pytest.raises(DomainError, match="Take low = 2"):
        allocate_rollouts(np.full(10_000, 0.5), 80_000, estimator="knapsack", low=0)
    with pytest.raises(PilotError, match="does not tell prompts apart"):
        allocate_rollouts(fit_pass_rates(pilot_of((10, 10))), 160)
    with pytest.raises(DomainError, match="pass_rate must be above 0"):
        rollouts_to_first_pass([0.1, 0.0])
    with pytest.raises(DomainError, match="got k = 3, n = 2"):
        hit_probability(3, 2, 1)


# the command


def test_the_command_writes_counts(run: Run, example_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "counts.jsonl"
    words = ["allocate", str(example_file), "--rollouts", "9672"]
    done = run(*words, "-o", out)
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 1209
    assert sum(row["rollouts"] for row in rows) == 9672
    assert set(rows[0]) == {"prompt_id", "k", "n", "rollouts"}
    assert done.out.startswith("Plan    9,672 rollouts on 1,209 prompts")
    assert max(map(len, done.out.splitlines())) <= 80
    refused = run(*words, "-o", "counts.txt")
    assert refused.code == 2
    assert "--output must end in .jsonl or .csv" in refused.err
    short = run(*words[:-1], "100")
    assert short.code == 3
    assert "total_rollouts must lie between 3,627 and 19,344" in short.err
