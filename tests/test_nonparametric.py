"""Nonparametric fit and profile bounds against an independent convex solver, and their certificates."""

# mypy: disable-error-code="attr-defined, no-untyped-call"
from __future__ import annotations

from contextlib import suppress
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog, nnls

from grpo_plan.fitting import fit_pass_rates
from grpo_plan.fitting.betabinomial import fit_beta_binomial
from grpo_plan.fitting.functionals import all_fail, dead, stopping_cost
from grpo_plan.fitting.mixing import (
    MAX_CELLS,
    Mixing,
    arcsine_grid,
    build_mixing,
    condensed,
)
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.quadratic import nonnegative_minimum
from grpo_plan.pilot import Pilot, PilotHistogram

Floats = NDArray[np.float64]
CHI = 3.841458820694124


def histogram(counts: list[int] | tuple[int, ...]) -> PilotHistogram:
    """Prompts with k = 0..n passes."""
    array = np.asarray(counts)
    return Pilot.from_counts(np.repeat(np.arange(array.size), array), array.size - 1).histogram()


def simulated(prompts: int, rollouts: int | tuple[int, int], a: float, b: float, seed: int) -> PilotHistogram:
    rng = np.random.default_rng(seed)
    n = (
        rng.integers(rollouts[0], rollouts[1] + 1, prompts)
        if isinstance(rollouts, tuple)
        else np.full(prompts, rollouts)
    )
    return Pilot.from_counts(rng.binomial(n, rng.beta(a, b, prompts)), n).histogram()


def with_atoms(prompts: int, rollouts: int, seed: int) -> PilotHistogram:
    rng = np.random.default_rng(seed)
    kind = rng.random(prompts)
    p = np.where(kind < 0.3, 0.0, np.where(kind < 0.5, 1.0, rng.random(prompts)))
    return Pilot.from_counts(rng.binomial(rollouts, p), rollouts).histogram()


HALF = Pilot.from_counts(np.random.default_rng(8).binomial(8, 0.5, 1000), 8).histogram()
CASES: dict[str, PilotHistogram] = {
    "all fail": histogram([200, 0, 0, 0, 0]),
    "all pass": histogram([0, 0, 0, 0, 50]),
    "all dead": histogram([60, 0, 0, 0, 0, 0, 0, 0, 40]),
    "one half everywhere": HALF,
    "one mixed prompt": histogram([40, 1, 0, 0, 9]),
    "starved": histogram([1792, 417, 282, 255, 454]),
    "50 x 4": simulated(50, 4, 0.3, 0.3, 1),
    "50 x 16": simulated(50, 16, 0.3, 0.3, 12),
    "200 x 8": simulated(200, 8, 2.0, 2.0, 3),
    "1,000 x 8": simulated(1000, 8, 0.2, 2.0, 4),
    "10,000 x 8": simulated(10_000, 8, 0.3, 0.3, 5),
    "10,000 x 16": simulated(10_000, 16, 0.5, 1.0, 6),
    "atoms": with_atoms(1000, 8, 7),
    "easy": simulated(500, 8, 20.0, 1.0, 9),
    "mixed n": simulated(300, (2, 12), 0.3, 0.3, 10),
}
FUNCTIONALS = {"D(2n)": 2, "D(8n)": 8, "all-fail(4n)": 4}


def phi_of(name: str, mixing: Mixing) -> Floats:
    size = FUNCTIONALS[name] * int(mixing.rollouts.max())
    return (all_fail if name.startswith("all-fail") else dead)(size).phi(mixing.passing, mixing.failing)


def solve(mixing: Mixing, objective: Any, masses: Any, constraints: list[Any]) -> float:
    problem = cp.Problem(objective, [masses >= 0, cp.sum(masses) == 1, *constraints])
    for tolerance in (1e-9, 1e-8, 1e-7):
        tight = {"tol_gap_abs": tolerance, "tol_gap_rel": tolerance, "tol_feas": tolerance}
        with suppress(cp.error.SolverError):
            value = problem.solve(solver=cp.CLARABEL, **tight)
            if problem.status == "optimal":
                return float(value)
    raise AssertionError("Clarabel failed")


def reference(mixing: Mixing, phi: Floats, threshold: float) -> tuple[float, float, float]:
    """Largest mean log-likelihood, and both ends, by conic programming; with one cell linear programming will do."""
    if mixing.weights.size == 1:
        ends = [
            linprog(
                sign * phi, -mixing.likelihood, [-np.exp(-threshold / (2 * mixing.prompts))], np.ones((1, phi.size)), 1
            )
            for sign in (1, -1)
        ]
        return 0.0, ends[0].fun, -ends[1].fun
    g = cp.Variable(mixing.passing.size)
    phi = np.where(phi < 1e-10, 0.0, phi)  # the solver fails on powers far below its tolerance
    log_likelihood = mixing.weights @ cp.log(mixing.likelihood @ g)
    best = solve(mixing, cp.Maximize(log_likelihood), g, [])
    floor = best - threshold / (2 * mixing.prompts)
    low = solve(mixing, cp.Minimize(phi @ g), g, [log_likelihood >= floor])
    return best, low, solve(mixing, cp.Maximize(phi @ g), g, [log_likelihood >= floor])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("name", sorted(CASES))
def test_interval_ends_agree_with_an_independent_solver(name: str) -> None:
    """45 intervals, 90 ends: within 1e-5 of Clarabel's, and never inside them by more than its own tolerance."""
    profile = ProfileLikelihood.of(build_mixing(CASES[name]))
    mixing = profile.mixing
    for functional in FUNCTIONALS:
        phi = phi_of(functional, mixing)
        best, low, high = reference(mixing, phi, CHI)
        assert profile.best.log_likelihood == pytest.approx(best, abs=1e-7)
        got = profile.lower(phi, CHI).value, profile.upper(phi, CHI).value
        assert got == pytest.approx((low, high), abs=1e-5), functional
        assert got[0] <= low + 3e-6, functional
        assert got[1] >= high - 3e-6, functional


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_fit_is_certified(name: str) -> None:
    """No other F gains 0.001 in log-likelihood; the Beta, for one, gains nothing."""
    profile = ProfileLikelihood.of(build_mixing(CASES[name]))
    mixing, best = profile.mixing, profile.best
    slopes = (mixing.weights / best.cells) @ mixing.likelihood - 1.0
    assert profile.certificate == pytest.approx(mixing.prompts * max(slopes.max(), 0.0), abs=1e-6)
    assert profile.certificate < 1e-3
    assert best.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert best.masses.min() > 0.0
    beta = fit_beta_binomial(CASES[name])
    if beta.rates.correlation > 0:  # a Beta without spread sits between two grid points
        assert profile.log_likelihood >= beta.log_likelihood - 0.05


def test_the_log_likelihood_counts_binomial_coefficients() -> None:
    profile = ProfileLikelihood.of(build_mixing(histogram([3, 0, 4])))
    # half the mass at 0 and 1 fits the shares 3/7 and 4/7 exactly
    assert profile.log_likelihood == pytest.approx(3 * np.log(3 / 7) + 4 * np.log(4 / 7), abs=1e-4)


def test_the_grid_holds_both_ends_and_the_middle() -> None:
    p, q = arcsine_grid()
    assert p.size % 2 == 1
    assert {0.0, 0.5, 1.0} <= set(p.tolist())
    assert np.array_equal(q, p[::-1])
    assert np.all(np.diff(p) > 0)


def test_large_n_brings_its_own_rates_onto_the_grid() -> None:
    h = Pilot.from_counts([0, 3, 5000, 9_999], 10_000).histogram()
    mixing = build_mixing(h)
    assert {0.0003, 0.5, 0.9999} <= set(mixing.passing.tolist())
    assert np.allclose(mixing.likelihood.max(axis=1), 1.0)
    assert np.allclose(mixing.passing + mixing.failing, 1.0)


def test_too_many_cells_are_condensed_to_the_wide_side() -> None:
    """Half the prompts at p = 1/300, where rounding k would be biased; 20 pilots, D(500) beyond every rung's n."""
    rng = np.random.default_rng(0)
    truth = 0.5 * (299 / 300) ** 500 + 0.5 / 501
    hits = 0
    for _ in range(20):
        n = rng.integers(100, 1_000, 3_000)
        p = np.where(rng.random(n.size) < 0.5, 1 / 300, rng.random(n.size))
        h = Pilot.from_counts(rng.binomial(n, p), n).histogram()
        assert condensed(h).prompts.size <= MAX_CELLS < h.prompts.size
        profile = ProfileLikelihood.of(build_mixing(h))
        phi = all_fail(500).phi(profile.mixing.passing, profile.mixing.failing)
        hits += profile.lower(phi, CHI).value <= truth <= profile.upper(phi, CHI).value
    assert hits >= 16  # of 20: false alarm 0.3 % at 95 % coverage


def test_huge_n_is_no_special_case() -> None:
    """400,000 rollouts: a prompt without a pass has p of at most a few in 100,000, not exactly 0."""
    many = 4 * 10**5
    fit = fit_pass_rates(Pilot.from_counts([0] * 60 + [many // 2] * 40, many))
    assert fit.dead(100).value == pytest.approx(0.6)
    d = fit.dead(2 * many)
    assert d.low < 0.59
    assert d.high == pytest.approx(fit.dead(many).high, abs=0.01)


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_quadratic_programs_agree_with_scipy(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(size + 3, size)), rng.normal(size=size + 3)
    got = nonnegative_minimum(matrix.T @ matrix, matrix.T @ target, np.full(size, 1.0 / size))
    expected, _ = nnls(matrix, target)
    assert got == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("tilt", [0.003, 0.05, 0.2, 1.0])
def test_weak_duality_holds_at_every_tilt(tilt: float) -> None:
    """Any tilt gives a valid bound; a formula without the certificate, or with half of it, does not."""
    from grpo_plan.fitting.npmle import ascend

    profile = ProfileLikelihood.of(build_mixing(CASES["1,000 x 8"]))
    mixing = profile.mixing
    phi = phi_of("D(2n)", mixing)
    floor = profile.best.log_likelihood - CHI / (2 * mixing.prompts)
    exact = profile.upper(phi, CHI).value
    for tolerance in (1e-2, 1e-4, 1e-10):
        state = ascend(mixing, phi, tilt, profile.best, tolerance)
        assert state.gap <= max(tolerance, 1e-8)
        bound = (state.log_likelihood + tilt * state.functional + max(state.gap, 0.0) - floor) / tilt
        assert bound >= exact - 4e-6


def test_stopping_cost_of_a_prompt_of_one_half() -> None:
    """E[T] = 1 + 1 + 1/2 + 1/4 + ... at p = 1/2; and G for prompts that never mix."""
    functional = stopping_cost(6)
    p = np.array([0.0, 0.5, 1.0, 1e-12, 0.3])
    expected = [6.0, 1 + sum(2 * 0.5**t for t in range(1, 6)), 6.0, 6.0, 1 + sum(0.3**t + 0.7**t for t in range(1, 6))]
    assert functional.phi(p, 1 - p) == pytest.approx(expected, rel=1e-9)
