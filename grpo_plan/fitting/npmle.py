"""Nonparametric maximum likelihood of the distribution of pass rates, by constrained Newton (theory.md, eq. 32)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.mixing import Mixing
from grpo_plan.fitting.quadratic import nonnegative_minimum

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
MAX_ITERATIONS = 300
STARTS = 21
SUM_WEIGHT = 10.0  # of the penalty that keeps the masses of the quadratic model near a sum of 1
SMALLEST_MASS = 1e-300
LEAST_START = 1e-15  # likelihood of a cell at the start
LEAST_GAIN = 1e-19  # of the mean log-likelihood: less than its rounding, so that no step is made in earnest
LEAST_KEPT = 1e-9  # share of its probability that a cell keeps in one step: none may vanish


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Masses:
    """Masses on grid points, and what they say of the cells.

    Attributes:
        points: Indices of the grid points with mass, in rising order, shape (s,).
        masses: Their masses, sum 1, shape (s,).
        cells: Fitted probability of each cell (up to its constant), shape (C,).
        log_likelihood: Mean over prompts of the log of ``cells``.
        functional: Mean of the tilting functional.
        gap: Largest directional derivative: the objective is within ``gap`` of its maximum on the grid.
    """

    points: Indices
    masses: Floats
    cells: Floats
    log_likelihood: float
    functional: float
    gap: float


def even_start(mixing: Mixing) -> Masses:
    """Equal masses on points spread over the grid; where these leave a cell next to impossible, on its best point too.

    With many rollouts of few prompts a cell's likelihood is narrow, and Newton steps from 1e-39 lead nowhere.
    """
    m = mixing.passing.size
    points = np.unique(np.linspace(0, m - 1, STARTS).astype(np.intp))
    if float(mixing.likelihood[:, points].sum(axis=1).min()) < LEAST_START:
        points = np.union1d(points, mixing.likelihood.argmax(axis=1))
    return _state(mixing, np.zeros(m), points, np.full(points.size, 1.0 / points.size), math.inf)


def _state(mixing: Mixing, phi: Floats, points: Indices, masses: Floats, gap: float) -> Masses:
    cells = mixing.likelihood[:, points] @ masses
    return Masses(
        points=points,
        masses=masses,
        cells=cells,
        log_likelihood=float(mixing.weights @ np.log(cells)),
        functional=float(phi[points] @ masses),
        gap=gap,
    )


def ascend(mixing: Mixing, phi: Floats, tilt: float, start: Masses, tolerance: float) -> Masses:
    """Maximise ``mean log-likelihood + tilt * E phi`` over all distributions on the grid.

    Args:
        mixing: The cells.
        phi: Functional at each grid point, shape (m,).
        tilt: Its multiplier, at least 0; 0 gives the maximum-likelihood fit.
        start: Where to begin.
        tolerance: Wanted ``gap``.

    Returns:
        Masses whose ``gap`` certifies them: for concave objectives the distance to the maximum is at most the
        largest directional derivative towards a single grid point.
    """
    likelihood, weights = mixing.likelihood, mixing.weights
    root = np.sqrt(weights)
    points, masses = start.points, start.masses
    cells = likelihood[:, points] @ masses
    penalty = SUM_WEIGHT * (1.0 + tilt)
    gap, full, tilted = math.inf, np.zeros(phi.size), tilt * phi
    for _ in range(MAX_ITERATIONS):
        level = 1.0
        slopes = (weights / cells).dot(likelihood)
        if tilt:
            level += tilt * float(phi.take(points).dot(masses))
            slopes += tilted
        slopes -= level
        gap = float(slopes[slopes.argmax()])
        if gap <= tolerance:
            break
        rising = _rising_peaks(slopes)
        full[points] = masses
        full[rising] += SMALLEST_MASS
        wider = full.nonzero()[0]
        full[rising] -= SMALLEST_MASS
        now = full.take(wider)
        full[wider] = 0.0
        block = likelihood[:, wider]
        scaled = block * (root / cells)[:, None]
        hessian = scaled.T.dot(scaled)
        hessian += penalty
        diagonal = hessian.reshape(-1)[:: wider.size + 1]
        diagonal += 1e-11 * float(hessian.trace()) / wider.size
        linear = 2.0 * root.dot(scaled) + (tilted.take(wider) - level) + penalty
        goal = nonnegative_minimum(hessian, linear, now)
        total = float(goal.sum())
        direction = goal / total - now if total > 0.0 else -now
        ahead = slopes.take(wider)
        slope = float(ahead.dot(direction))
        if total <= 0.0 or slope <= 0.0:  # towards the single best point instead
            direction = -now
            direction[int(ahead.argmax())] += 1.0
            slope = float(ahead.dot(direction))
        gain = float(tilted.take(wider).dot(direction)) if tilt else 0.0
        step = _line_search(weights, cells, block.dot(direction), gain, slope)
        if step * slope <= LEAST_GAIN:
            break
        moved = now + step * direction
        keep = moved > SMALLEST_MASS
        if keep.all():
            points, masses = wider, moved
        else:
            kept = keep.nonzero()[0]
            points, masses, block = wider.take(kept), moved.take(kept), block[:, kept]
        masses = masses / float(masses.sum())
        cells = block.dot(masses)
    else:  # the certificate of the last step, not of the one before
        slopes = (weights / cells) @ likelihood + tilt * phi
        gap = float(slopes.max()) - 1.0 - tilt * float(phi[points] @ masses)
    return _state(mixing, phi, points, masses, gap)


def _rising_peaks(slopes: Floats) -> Indices:
    """Local maxima above 0, ends included."""
    peaks = slopes > 0.0
    if not peaks.any():
        return peaks.nonzero()[0]
    rising = slopes[1:] > slopes[:-1]
    peaks[1:] &= rising
    peaks[:-1] &= ~rising
    return peaks.nonzero()[0]


def _line_search(weights: Floats, cells: Floats, change: Floats, gain: float, slope: float) -> float:
    """Largest of 1, 1/2, 1/4, ... that raises the objective by a third of what its slope promises; 0 if none."""
    ratio, step = change / cells, 1.0
    for _ in range(50):
        shifted = step * ratio
        if float(shifted[shifted.argmin()]) > LEAST_KEPT - 1.0:
            rise = float(weights.dot(np.log1p(shifted))) + step * gain
            if rise >= step * slope / 3.0:
                return step
        step /= 2.0
    return 0.0
