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
    tolerance = 1e-12 * (1.0 + float(np.abs(linear).max()))
    rows, inside = np.arange(size), start
    part = np.asarray(np.linalg.solve(hessian, linear), dtype=np.float64)
    for _ in range(3 * size + 3):
        while rows.size and part[part.argmin()] <= 0.0:  # ``inside`` walks towards ``part``, the free variables' best
            low = (part <= 0.0).nonzero()[0]
            now = inside.take(low)
            kept = np.ones(rows.size, dtype=bool)
            if now[now.argmin()] <= 0.0:
                kept[low[now <= 0.0]] = False
            else:
                ratios = now / (now - part.take(low))
                first = int(ratios.argmin())
                inside = np.maximum(inside + ratios[first] * (part - inside), 0.0)
                inside[low[first]] = 0.0
                kept[low[inside.take(low) <= 1e-15]] = False
            rows, inside = rows[kept], inside[kept]
            part = _best_of(hessian, linear, rows)
        if rows.size == size:
            return part
        x = np.zeros(size)
        x[rows] = part
        slope = linear - hessian.dot(x)
        slope[rows] = -np.inf
        best = int(slope.argmax())
        if slope[best] <= tolerance:
            break
        rows = np.sort(np.append(rows, best))
        inside = x.take(rows)
        part = _best_of(hessian, linear, rows)
    return x


def _best_of(hessian: Floats, linear: Floats, rows: NDArray[np.intp]) -> Floats:
    """Unconstrained minimiser over some of the variables, the others 0."""
    return np.asarray(np.linalg.solve(hessian.take(rows, 0).take(rows, 1), linear.take(rows)), dtype=np.float64)
