"""Small quadratic programs with non-negative variables, by an active set."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nonnegative_minimum(hessian: Floats, linear: Floats, start: Floats) -> Floats:
    """Minimise ``x H x / 2 - c x`` over ``x >= 0`` (Lawson and Hanson 1974, on the normal equations).

    Args:
        hessian: H, positive definite, shape (s, s).
        linear: c, shape (s,).
        start: A feasible point, shape (s,); the search starts with every variable free.

    Returns:
        The minimiser, shape (s,); after 3 s exchanges the best point so far.

    >>> nonnegative_minimum(np.eye(2), np.array([1.0, -1.0]), np.array([0.5, 0.5])).tolist()
    [1.0, 0.0]
    """
    size = linear.size
    x, free = start.copy(), np.ones(size, dtype=bool)
    tolerance = 1e-12 * (1.0 + float(np.abs(linear).max()))
    for _ in range(3 * size + 3):
        while True:
            rows = np.flatnonzero(free)
            trial = np.zeros(size)
            if rows.size:
                trial[rows] = np.linalg.solve(hessian[rows[:, None], rows], linear[rows])
            blocked = free & (trial <= 0.0)
            if not blocked.any():
                break
            stuck = blocked & (x <= 0.0)
            if not stuck.any():
                ratios = x[blocked] / (x[blocked] - trial[blocked])
                x = np.maximum(x + float(ratios.min()) * (trial - x), 0.0)
                stuck = blocked & (x <= 1e-15)
                stuck[np.flatnonzero(blocked)[int(np.argmin(ratios))]] = True
                x[stuck] = 0.0
            free &= ~stuck
        x = trial
        slope = linear - hessian @ x
        slope[free] = -np.inf
        best = int(np.argmax(slope))
        if slope[best] <= tolerance:
            break
        free[best] = True
    return x
