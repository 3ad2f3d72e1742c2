"""The best mix: against a grid, against a convex solver, against its own certificate; convexity and its traps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from grpo_plan import symbolic as eq
from grpo_plan.planning.mix_solver import (
    MixBounds,
    _upper_bound,
    best_progress,
    clipped_exponential,
    divergence,
    greedy_mix,
    linear_mix,
    nearest_mix,
)

Floats = NDArray[np.float64]
quick = settings(deadline=None, max_examples=40)


def random_problem(seed: int, strata: int | None = None) -> tuple[Floats, Floats, MixBounds]:
    """Signals, second moments and bounds that the base mix satisfies."""
    rng = np.random.default_rng(seed)
    count = strata or int(rng.integers(2, 7))
    base = rng.dirichlet(np.full(count, 3.0)) + 1e-3
    base /= base.sum()
    signal = 0.4 * rng.random(count)
    second = signal**2 + 0.2 * rng.random(count) * float(rng.choice([1.0, 0.01]))
    low = np.minimum(base, 0.1 * rng.random(count)) * float(rng.integers(0, 2))
    high = np.minimum(1.0, np.maximum(base, 0.2 + rng.random(count)))
    bounds = MixBounds(base=base, low=low, high=high, max_kl=float(rng.choice([0.01, 0.1, 0.3, np.inf])))
    return signal, second, bounds


def allowed(mixes: Floats, bounds: MixBounds) -> NDArray[np.bool_]:
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(mixes > 0.0, mixes * np.log(mixes / bounds.base), 0.0).sum(axis=1)
    inside: NDArray[np.bool_] = ((mixes >= bounds.low) & (mixes <= bounds.high)).all(axis=1) & (kl <= bounds.max_kl)
    return inside


def progress_of(mixes: Floats, signal: Floats, second: Floats) -> Floats:
    value: Floats = (mixes @ signal) ** 2 / (mixes @ second)
    return value


@given(seed=st.integers(0, 10**6))
@quick
def test_the_mix_is_allowed_and_its_certificate_closes(seed: int) -> None:
    signal, second, bounds = random_problem(seed)
    best = best_progress(signal, second, bounds)
    w = best.shares
    assert w.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(w >= bounds.low - 1e-9)
    assert np.all(w <= bounds.high + 1e-9)
    assert divergence(w, bounds.base) <= bounds.max_kl * (1.0 + 1e-9)
    assert best.value == pytest.approx(float(progress_of(w[None], signal, second)[0]))
    assert best.value <= best.bound <= best.value * (1.0 + 2e-6)
    assert best.value >= float(progress_of(bounds.base[None], signal, second)[0]) * (1.0 - 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_no_mix_of_a_fine_grid_is_better(seed: int) -> None:
    signal, second, bounds = random_problem(seed, strata=3)
    step = np.arange(0, 401)
    grid = np.array([(i, j, 400 - i - j) for i in step for j in step[: 401 - i]]) / 400.0
    grid = grid[allowed(grid, bounds)]
    values = progress_of(grid, signal, second)
    best = best_progress(signal, second, bounds)
    assert values.max() <= best.value * (1.0 + 1e-6)
    assert best.value <= values.max() * 1.05  # the grid comes near, so the value is no fantasy


@pytest.mark.parametrize("seed", range(8))
def test_a_convex_solver_agrees_on_the_inner_problem(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    signal, second, bounds = random_problem(seed)
    direction = 2.0 * signal - second
    w = cp.Variable(signal.size)
    limits = [w >= bounds.low, w <= bounds.high, cp.sum(w) == 1]
    if np.isfinite(bounds.max_kl):
        limits.append(cp.sum(cp.kl_div(w, bounds.base)) <= bounds.max_kl)
    problem = cp.Problem(cp.Maximize(direction @ w), limits)
    problem.solve(solver="CLARABEL")
    assert float(direction @ linear_mix(direction, bounds)) == pytest.approx(float(problem.value), abs=1e-7)


def test_a_convex_solver_agrees_on_the_whole_problem() -> None:
    """The best over a grid of tau of convex problems: from below, and close."""
    cp = pytest.importorskip("cvxpy")
    signal, second, bounds = random_problem(4, strata=4)
    bounds = MixBounds(base=bounds.base, low=bounds.low, high=bounds.high, max_kl=0.1)
    ratios = signal / second
    w, direction = cp.Variable(4), cp.Parameter(4)
    limits = [w >= bounds.low, w <= bounds.high, cp.sum(w) == 1, cp.sum(cp.kl_div(w, bounds.base)) <= 0.1]
    problem = cp.Problem(cp.Maximize(direction @ w), limits)
    found = 0.0
    for tau in np.linspace(ratios.min(), ratios.max(), 40):
        direction.value = 2.0 * signal - tau * second
        problem.solve(solver="CLARABEL")
        found = max(found, float(progress_of(np.asarray(w.value)[None], signal, second)[0]))
    best = best_progress(signal, second, bounds)
    assert found <= best.value * (1.0 + 1e-6)
    assert found == pytest.approx(best.value, rel=2e-3)


def test_climbing_stops_at_a_wrong_mix_where_the_search_does_not() -> None:
    """Progress is convex: from this base a climb to ever better mixes ends at one stratum, and the other is better."""
    signal, second = np.array([0.10, 0.40]), np.array([0.02, 0.25])
    base = np.array([0.95, 0.05])
    bounds = MixBounds(base=base, low=np.zeros(2), high=np.ones(2), max_kl=np.inf)
    w = base
    for _ in range(50):
        w = linear_mix(2.0 * signal - float(signal @ w) / float(second @ w) * second, bounds)
    assert float(progress_of(w[None], signal, second)[0]) == pytest.approx(0.5)
    best = best_progress(signal, second, bounds)
    assert best.shares.tolist() == [0.0, 1.0]
    assert best.value == pytest.approx(0.64)


def test_progress_is_convex_in_the_shares() -> None:
    """Hessian of x**2 / y along w: a square, by SymPy; and coherence leaves the order of mixes alone."""
    x, y, u, v, h = sp.symbols("x y u v h", positive=True)
    along = eq.mix_progress([1], [1], [1])
    assert along == 1
    second = sp.diff((x + h * u) ** 2 / (y + h * v), h, 2).subs(h, 0)
    assert sp.simplify(second - 2 * (u * y - x * v) ** 2 / y**3) == 0
    q, rho = sp.symbols("q rho", positive=True)
    with_rho = (q / (1 - rho * q)).subs(q, x**2 / y)
    assert sp.simplify(eq.mix_progress([x], [y], [1], rho) - with_rho) == 0
    assert sp.simplify(sp.diff(q / (1 - rho * q), q) - 1 / (1 - rho * q) ** 2) == 0


@given(seed=st.integers(0, 10**6))
@quick
def test_without_a_bound_the_answer_is_one_stratum(seed: int) -> None:
    signal, second, bounds = random_problem(seed)
    free = MixBounds(base=bounds.base, low=0.0 * bounds.base, high=np.ones(bounds.base.size), max_kl=np.inf)
    best = best_progress(signal, second, free)
    assert best.value == pytest.approx(float((signal**2 / second).max()), rel=1e-9)
    assert best.shares.max() == 1.0


@given(seed=st.integers(0, 10**6))
@quick
def test_a_wider_bound_is_never_worse(seed: int) -> None:
    signal, second, bounds = random_problem(seed)
    values = [
        best_progress(signal, second, MixBounds(base=bounds.base, low=bounds.low, high=bounds.high, max_kl=kl)).value
        for kl in (0.0, 0.01, 0.1, 1.0, np.inf)
    ]
    assert all(b >= a * (1.0 - 2e-6) for a, b in pairwise(values))
    at_zero = best_progress(
        signal, second, MixBounds(base=bounds.base, low=bounds.low, high=bounds.high, max_kl=0.0)
    ).shares
    np.testing.assert_allclose(at_zero, bounds.base, atol=1e-12)


def test_the_inner_answer_is_the_tilted_mix_of_theory() -> None:
    base, direction = [sp.Rational(1, 2), sp.Rational(1, 3), sp.Rational(1, 6)], [1, 3, 2]
    exact = eq.tilted_mix(base, direction, 2)
    kl = float(eq.mix_divergence(exact, base))
    bounds = MixBounds(base=np.array([float(b) for b in base]), low=np.zeros(3), high=np.ones(3), max_kl=kl)
    found = linear_mix(np.array(direction, dtype=float), bounds)
    np.testing.assert_allclose(found, [float(w) for w in exact], atol=1e-9)
    assert divergence(found, bounds.base) == pytest.approx(kl, rel=1e-8)
    moved = 0.5 * float(np.abs(found - bounds.base).sum())
    assert float(np.abs(found - bounds.base).max()) <= moved + 1e-12
    assert moved <= float(eq.most_moved(kl))


@given(seed=st.integers(0, 10**6))
@quick
def test_no_mix_within_a_kl_moves_more_than_pinsker_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    w, base = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)) + 1e-6
    base /= base.sum()
    assert 0.5 * np.abs(w - base).sum() <= float(eq.most_moved(divergence(w, base))) + 1e-12


@given(seed=st.integers(0, 10**6))
@quick
def test_clipped_exponentials_fill_a_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 8))
    low = rng.random(count) / count * rng.integers(0, 2)
    high = np.minimum(1.0, low + rng.random(count) + 1.0 / count)
    logits = rng.normal(size=count) * float(rng.choice([1.0, 50.0, 1e4]))
    shares = clipped_exponential(logits, low, high)
    assert shares.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(shares >= low - 1e-12)
    assert np.all(shares <= high + 1e-12)
    bounds = MixBounds(base=np.full(count, 1.0 / count), low=low, high=high, max_kl=np.inf)
    assert float(logits @ greedy_mix(logits, bounds)) >= float(logits @ shares) - 1e-6


def test_the_nearest_mix_is_the_base_where_that_is_allowed() -> None:
    base = np.array([0.5, 0.3, 0.2])
    bounds = MixBounds(base=base, low=np.array([0.0, 0.4, 0.0]), high=np.ones(3), max_kl=1.0)
    np.testing.assert_allclose(nearest_mix(bounds), [0.3 / 0.7, 0.4, 0.6 * 0.2 / 0.7], atol=1e-12)
    free = MixBounds(base=base, low=np.zeros(3), high=np.ones(3), max_kl=1.0)
    np.testing.assert_allclose(nearest_mix(free), base, atol=1e-12)


@given(t1=st.floats(0.1, 2.0), width=st.floats(0.01, 3.0), h1=st.floats(0.1, 5.0), fall=st.floats(0.0, 6.0))
@quick
def test_the_bound_of_an_interval_is_the_top_of_its_chord(t1: float, width: float, h1: float, fall: float) -> None:
    h2 = h1 - fall
    t = np.linspace(t1, t1 + width, 20_001)
    chord = t * (h1 + (h2 - h1) * (t - t1) / width)
    assert _upper_bound(t1, h1, t1 + width, h2) == pytest.approx(float(chord.max()), rel=1e-6, abs=1e-6)
