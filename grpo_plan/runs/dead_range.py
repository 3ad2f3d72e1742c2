"""Smallest and largest D at another group size over all F with a mean and a dead fraction (theory.md, eq. 81)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.groups import dead_probability, mixed_probability

Floats = NDArray[np.float64]
HALVINGS = 60
ALIKE = 1e-12


def dead_range(
    rarer: Floats, dead_low: Floats, dead_high: Floats, group_size: int, target: int
) -> tuple[Floats, Floats]:
    """Ends of D(G') over all F with D(G) between two limits and a mean no farther from 0 or 1 than ``rarer``.

    Args:
        rarer: Largest smaller of mean and 1 - mean, shape (S,), in [0, 1/2].
        dead_low: Smallest D(G), shape (S,).
        dead_high: Largest D(G), shape (S,); NaN comes back where it lies below the i.i.d. value at ``rarer``.
        group_size: G, at least 2.
        target: G', at least 1.

    Returns:
        Both ends, shape (S,) each.

    >>> rarer, dead = np.array([0.4, 0.4]), np.array([0.5, 1.0])
    >>> low, high = dead_range(rarer, dead, dead, 8, 16)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.25, 1.0], [0.4961, 1.0])
    """
    least = dead_probability(rarer, group_size)
    possible = dead_high >= least - ALIKE
    first = np.clip(np.maximum(dead_low, least), 0.0, 1.0)
    last = np.maximum(np.clip(dead_high, 0.0, 1.0), first)
    if target == group_size:
        low, high = first, last
    elif target > group_size:
        low, high = _one_rate(first, group_size, target), _rate_and_ends(rarer, last, group_size, target)
    else:
        low, high = _rate_and_ends(rarer, first, group_size, target), _one_rate(last, group_size, target)
    return np.where(possible, low, np.nan), np.where(possible, np.maximum(high, low), np.nan)


def _one_rate(dead: Floats, group_size: int, target: int) -> Floats:
    """D(G') if every prompt has the pass rate s or 1 - s, the one with this D(G)."""
    low, high = np.zeros(dead.shape), np.full(dead.shape, 0.5)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        above = mixed_probability(middle, group_size) > 1.0 - dead
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return dead_probability((low + high) / 2.0, target)


def _rate_and_ends(rarer: Floats, dead: Floats, group_size: int, target: int) -> Floats:
    """D(G') if some prompts have the pass rate s or 1 - s, as near to 1/2 as the mean allows, and the others 0 or 1."""
    mixed = 1.0 - dead
    low, high = np.zeros(dead.shape), np.full(dead.shape, 0.5)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        near = mixed_probability(middle, group_size) * rarer > mixed * middle  # falls with s after division by s
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    s = (low + high) / 2.0
    chance = mixed_probability(s, group_size)
    share = np.where(chance > 0.0, np.minimum(mixed / np.where(chance > 0.0, chance, 1.0), 1.0), 0.0)
    value: Floats = 1.0 - share * mixed_probability(s, target)
    return value


def largest_rarer(mean_low: Floats, mean_high: Floats) -> Floats:
    """Largest smaller of m and 1 - m for m between limits.

    >>> largest_rarer(np.array([0.1, 0.4, 0.8]), np.array([0.3, 0.7, 0.9])).round(3).tolist()
    [0.3, 0.5, 0.2]
    """
    value: Floats = np.minimum(np.minimum(mean_high, 1.0 - mean_low), 0.5)
    return np.clip(value, 0.0, 0.5)


def dead_inflation(mean_low: Floats, mean_high: Floats, dead_high: Floats, group_size: int) -> Floats:
    """How far limits of the mean and of D(G) must move outwards until some F lies within; 0 where one does.

    Only too few dead groups are out of reach: D(G) is at least its i.i.d. value, and may be 1 (theory.md, eq. 81).

    >>> half = np.array([0.5, 0.5])
    >>> dead_inflation(half, half, np.array([0.2, 0.1]), 4).round(4).tolist()
    [0.0, 0.025]
    """
    low, high = np.zeros(dead_high.shape), np.ones(dead_high.shape)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        rarer = largest_rarer(mean_low - middle, mean_high + middle)
        reached = dead_probability(rarer, group_size) <= dead_high + middle
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    least = dead_probability(largest_rarer(mean_low, mean_high), group_size)
    return np.where(least <= dead_high + ALIKE, 0.0, high)
