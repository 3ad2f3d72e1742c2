"""Estimation under attack: extreme sizes, levels and functions give one-line errors or finite, ordered numbers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.errors import DomainError
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot
from tests.conftest import pilot_of

ONE_MIXED = Pilot.from_counts([0] * 500 + [8] * 499 + [4], 8)
SMALL = pilot_of((20, 6, 5, 4, 15))


@pytest.mark.parametrize("population", ["sample", "census", 2000])
def test_one_mixed_prompt_of_a_thousand_has_finite_simultaneous_limits(population: str | int) -> None:
    """Its chance must not vanish while the tilt is searched."""
    fit = fit_pass_rates(ONE_MIXED, population=population)
    for g in (9, 19, 20, 22, 25, 32):
        d = fit.dead(g, simultaneous=True)
        assert 0.9 < d.low <= (d.value or 0) <= d.high <= 1.0


@pytest.mark.parametrize("level", [1e-12, 1e-9, 1e-3, 0.5, 0.999999, 1 - 1e-12])
def test_levels_near_0_and_1_are_nested(level: float) -> None:
    fit, plain = fit_pass_rates(SMALL), fit_pass_rates(SMALL).dead(16, 0.95)
    d = fit.dead(16, level)
    if level < 0.95:
        assert plain.low <= d.low <= d.high <= plain.high
        assert d.high - d.low < 0.75 * (plain.high - plain.low)
    else:
        assert d.low <= plain.low <= plain.high <= d.high


def test_limits_of_a_census_fall_with_g_but_for_a_trifle() -> None:
    """Its thresholds differ from G to G."""
    counts = [0] * 9 + [6] * 4 + [7] * 5 + [8] * 6 + [9] * 2 + [10] * 4
    for pilot in (Pilot.from_counts(counts, 16), SMALL, ONE_MIXED):
        fit = fit_pass_rates(pilot, population="census")
        for simultaneous in (False, True):
            limits = [fit.dead(g, simultaneous=simultaneous).interval for g in (5, 9, 17, 18, 19, 20, 32, 33)]
            assert np.all(np.diff(np.array(limits), axis=0) < 2e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda p: p.__iadd__(1),
        lambda p: np.clip(p, 0.4, 0.6, out=p),
    ],
)
def test_a_function_that_works_in_place_does_no_harm(function: Any) -> None:
    fit = fit_pass_rates(SMALL)
    before = fit.dead(17).value
    assert fit.mean_of(function).low >= 0.0
    fresh = fit_pass_rates(SMALL)
    assert fresh.mean_of(function).interval
    assert fit.dead(17).value == fresh.dead(17).value == before


@pytest.mark.parametrize(
    "function",
    [lambda p: np.ones(3), lambda p: "x", None, lambda p: 1 if p > 0.5 else 0, lambda p: np.log(p), lambda p: 1 / p],
)
def test_functions_that_are_none_are_refused_in_one_line(function: Any) -> None:
    with pytest.raises(DomainError, match=r"mean(:| must)") as error:
        fit_pass_rates(SMALL).mean_of(function)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fit_pass_rates(SMALL, population=np.array([300, 400])),  # type: ignore[arg-type]
        lambda: gp.identified_range("x", 8),
        lambda: gp.identified_range([0.5, 0, 0.5], None),  # type: ignore[arg-type]
        lambda: gp.compare_estimates(None, [8]),  # type: ignore[arg-type]
        lambda: gp.plan_pilot((0.3, 0.3), target_group_size=8, rollouts_per_prompt=0),
        lambda: fit_pass_rates(SMALL).dead(10**8),
        lambda: fit_pass_rates(SMALL).dead(4, level=95),
    ],
)
def test_wrong_arguments_are_named(call: Any) -> None:
    with pytest.raises(DomainError) as error:
        call()
    assert "\n" not in str(error.value)
    assert "got" in str(error.value)


def test_single_values_do_where_lists_are_usual() -> None:
    assert gp.compare_estimates(fit_pass_rates(SMALL), 8)[0].group_size == 8
    plan = gp.plan_pilot((0.3, 0.3), target_group_size=8, half_width=0.1, rollouts_per_prompt=8)
    assert [o.rollouts_per_prompt for o in plan.options] == [8]


@pytest.mark.parametrize("pilot", [pilot_of((100, 0, 0)), pilot_of((0, 0, 100)), Pilot.from_counts([1], 1), SMALL])
def test_means_at_group_size_one(pilot: Pilot) -> None:
    fit = fit_pass_rates(pilot)
    gap = fit.jensen_gap(1)
    assert (gap.value, *gap.interval) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    assert fit.pass_at(1).low <= fit.mean_pass_rate <= fit.pass_at(1).high
    for part in ("all_pass_interval", "all_fail_interval"):
        assert getattr(fit.dead(1), part)[1] >= getattr(fit.dead(2), part)[1] - 1e-9


def test_stopping_cost_of_very_many_rollouts() -> None:
    """One sum over subgroup counts, not one fit a group size; p = 1/2 stops after 3 rollouts on average."""
    cost = fit_pass_rates(Pilot.from_counts([50_000] * 20, 100_000)).stopping_cost(100_000)
    assert cost.value == pytest.approx(3.0, abs=1e-3)


def test_every_answer_can_be_copied_and_pickled() -> None:
    fit = fit_pass_rates(SMALL)
    for estimate in (
        fit.pass_at(8),
        fit.mean_of(lambda p: p < 0.1),
        fit.stopping_cost(8),
        fit.jensen_gap(8),
        fit.dead(8),
    ):
        again = pickle.loads(pickle.dumps(estimate))
        assert (again.value, again.interval, again.identified) == (
            estimate.value,
            estimate.interval,
            estimate.identified,
        )
        assert copy.deepcopy(estimate).interval == estimate.interval


def test_correlations_stay_correlations() -> None:
    for rewards in ([[1, 0, 1, 0]] * 30, [[0, 1] * 4] * 50, [[1, 1, 0, 0]] * 40):
        check = gp.check_sequences(rewards)
        assert check.low is not None
        assert check.high is not None
        assert check.neighbour_correlation is not None
        assert -1 <= check.low <= check.neighbour_correlation <= check.high <= 1
        assert check.design_effect is not None
        assert check.design_effect >= 0


def test_lists_beside_the_rewards_must_fit() -> None:
    import polars as pl

    rows = pl.DataFrame({"prompt": ["a", "b"], "rewards": [[1, 0, 1], [0, 1, 1]], "seed": [[0, 1, 1], [0, 1]]})
    with pytest.raises(gp.PilotFormatError, match="the list of sessions has 2 items for 3 rewards"):
        gp.read_independence(rows, session="seed", reward="rewards")
