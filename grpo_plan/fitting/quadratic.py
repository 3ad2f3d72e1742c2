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
    x, free, rows = start.copy(), np.ones(size, dtype=bool), np.arange(size)
    tolerance = 1e-12 * (1.0 + float(np.abs(linear).max()))
    for _ in range(3 * size + 3):
        while True:
            if rows.size == size:
                trial = np.asarray(np.linalg.solve(hessian, linear), dtype=np.float64)
            else:
                trial = np.zeros(size)
                if rows.size:
                    trial[rows] = np.linalg.solve(hessian.take(rows, 0).take(rows, 1), linear[rows])
            blocked = (free & (trial <= 0.0)).nonzero()[0]
            if not blocked.size:
                break
            now = x[blocked]
            stuck = blocked[now <= 0.0]
            if not stuck.size:
                ratios = now / (now - trial[blocked])
                first = int(ratios.argmin())
                x = np.maximum(x + float(ratios[first]) * (trial - x), 0.0)
                x[blocked[first]] = 0.0
                stuck = blocked[x[blocked] <= 1e-15]
                x[stuck] = 0.0
            free[stuck] = False
            rows = free.nonzero()[0]
        x = trial
        slope = linear - hessian @ x
        slope[rows] = -np.inf
        best = int(slope.argmax())
        if slope[best] <= tolerance:
            break
        free[best] = True
        rows = free.nonzero()[0]
    return x
