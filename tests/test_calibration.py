"""Coverage of the default limits on simulated pilots, and what the same check says of broken methods.

The full grid is `python -m figures.calibration`; its table is in docs/calibration.md and is checked against the text here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betaln
from scipy.stats import binom

from grpo_plan.fitting import fit_pass_rates, mixing, npmle, profile, thresholds
from grpo_plan.pilot import Pilot

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def half(_: np.random.Generator, prompts: int) -> NDArray[np.float64]:
    return np.full(prompts, 0.5)


def hopeless(rng: np.random.Generator, prompts: int) -> NDArray[np.float64]:
    return rng.beta(0.08, 3.0, prompts)


def both_ends(rng: np.random.Generator, prompts: int) -> NDArray[np.float64]:
    return rng.beta(0.3, 0.3, prompts)


def atoms(rng: np.random.Generator, prompts: int) -> NDArray[np.float64]:
    kind = rng.random(prompts)
    return np.where(kind < 0.3, 0.0, np.where(kind < 0.5, 1.0, rng.random(prompts)))


def beta_dead(a: float, b: float, size: int) -> float:
    """D of a Beta: B(a + G, b) / B(a, b) + B(a, b + G) / B(a, b)."""
    return float(np.exp(betaln(a + size, b) - betaln(a, b)) + np.exp(betaln(a, b + size) - betaln(a, b)))


TRUTH: dict[Draw, Callable[[int], float]] = {
    half: lambda size: 2.0 * 0.5**size,
    hopeless: lambda size: beta_dead(0.08, 3.0, size),
    both_ends: lambda size: beta_dead(0.3, 0.3, size),
    atoms: lambda size: 0.5 + 0.5 * 2.0 / (size + 1),
}
CELLS: dict[str, tuple[Draw, int, int, int]] = {
    "both ends, 200 x 4, D(4)": (both_ends, 200, 4, 4),
    "both ends, 200 x 4, D(8)": (both_ends, 200, 4, 8),
    "both ends, 50 x 8, D(16)": (both_ends, 50, 8, 16),
    "atoms, 1,000 x 8, D(32)": (atoms, 1000, 8, 32),
    "hopeless, 50 x 4, D(4)": (hopeless, 50, 4, 4),
    "hopeless, 200 x 8, D(16)": (hopeless, 200, 8, 16),
    "one half, 200 x 8, D(8)": (half, 200, 8, 8),
}


@pytest.mark.parametrize("draw", TRUTH)
def test_the_truth_is_that_of_the_draws(draw: Draw) -> None:
    """Five standard errors of 1,000,000 draws: false alarm below 1e-6."""
    rates = draw(np.random.default_rng(1), 1_000_000)
    for size in (4, 8, 16, 32):
        dead = rates**size + (1 - rates) ** size
        assert dead.mean() == pytest.approx(TRUTH[draw](size), abs=5 * dead.std() / rates.size**0.5 + 1e-12)


def hits(name: str, replications: int, *, likelihood_only: bool = False) -> int:
    """Pilots of a cell whose 95 % limits hold the truth."""
    draw, prompts, rollouts, size = CELLS[name]
    rng, truth, count = np.random.default_rng([7, sorted(CELLS).index(name)]), TRUTH[draw](size), 0
    for _ in range(replications):
        fit = fit_pass_rates(Pilot.from_counts(rng.binomial(rollouts, draw(rng, prompts)), rollouts))
        if likelihood_only:
            low, high = fit.limits_of(fit.dead_functional(size), 0.95)
        else:
            low, high = fit.dead(size).interval
        count += low <= truth <= high
    return count


def assert_covers(count: int, replications: int) -> None:
    """A true coverage of .95 fails once in 2,000; one of .85 passes once in 100 at 250 replications."""
    least = int(binom.ppf(5e-4, replications, 0.95))
    assert count >= least, f"{count} of {replications} hold the truth; at 95 % at least {least} should"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CELLS))
def test_limits_hold_the_truth(name: str) -> None:
    assert_covers(hits(name, 250), 250)


@pytest.mark.slow
def test_a_threshold_of_two_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square 2.0 instead of 3.84 is an 84 % interval."""
    monkeypatch.setattr(thresholds, "chi_square_quantile", lambda level, degrees=1: 2.0)
    thresholds.mid_p_threshold.cache_clear()
    monkeypatch.setattr(thresholds, "mid_p_threshold", lambda events, prompts, level: 2.0)
    with pytest.raises(AssertionError, match="hold the truth"):
        assert_covers(hits("both ends, 200 x 4, D(4)", 250, likelihood_only=True), 250)


@pytest.mark.slow
def test_plain_chi_square_is_caught_where_hardly_a_prompt_is_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "hopeless, 50 x 4, D(4)"
    with_mid_p = hits(name, 250, likelihood_only=True)
    plain = thresholds.chi_square_quantile(0.95)
    monkeypatch.setattr(thresholds, "mid_p_threshold", lambda events, prompts, level: plain)
    assert hits(name, 250, likelihood_only=True) < with_mid_p


@pytest.mark.slow
def test_a_grid_without_one_half_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts all at 1/2: with an even number of points every F on the grid has a larger D."""
    real = mixing.arcsine_grid
    monkeypatch.setattr(mixing, "arcsine_grid", lambda points=401: real(points - 1))
    with pytest.raises(AssertionError, match="hold the truth"):
        assert_covers(hits("one half, 200 x 8, D(8)", 100, likelihood_only=True), 100)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_a_wrong_tilt_is_caught(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """A maximiser of another tilt than the bound's formula has: the bound is no longer that of the exact one."""
    example = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(9), [40, 9, 8, 7, 6, 7, 8, 9, 20]), 8))
    exact = example.dead(16).interval
    real = npmle.ascend
    monkeypatch.setattr(profile, "ascend", lambda m, phi, tilt, start, tol: real(m, phi, tilt * factor, start, tol))
    wrong = fit_pass_rates(example.pilot).dead(16).interval
    assert max(abs(wrong[0] - exact[0]), abs(wrong[1] - exact[1])) > 1e-3
