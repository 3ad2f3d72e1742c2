"""Limits of aggregates of finitely many groups, all at once (theory.md, eq. 83)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mean_limits(value: Floats, groups: Floats, level: float, together: int = 1) -> tuple[Floats, Floats]:
    """Limits of the mean over prompts of a quantity in [0, 1], from its mean over N groups.

    Each group counts as one 0/1 trial (Clopper-Pearson), the largest variance that a mean in [0, 1] can have.

    Args:
        value: Mean over the groups, shape (S,), in [0, 1].
        groups: N, shape (S,), at least 1.
        level: Level at which ``together`` such pairs of limits hold all at once (Bonferroni).
        together: Number of quantities.

    >>> low, high = mean_limits(np.array([0.0, 0.5]), np.array([20.0, 20.0]), 0.95)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.272], [0.1684, 0.728])
    """
    from scipy.special import betaincinv

    tail = (1.0 - level) / (2.0 * together)
    hits = np.clip(value, 0.0, 1.0) * groups
    misses = np.maximum(groups - hits, 0.0)
    low = betaincinv(np.where(hits > 0.0, hits, 1.0), misses + 1.0, tail)
    high = betaincinv(hits + 1.0, np.where(misses > 0.0, misses, 1.0), 1.0 - tail)
    return np.where(hits > 0.0, low, 0.0), np.where(misses > 0.0, high, 1.0)
