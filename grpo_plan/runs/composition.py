"""All-pass and all-fail shares from the mean reward and the dead fraction of 0/1 rewards (theory.md, eq. 79)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array, as_group_size
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
ROUNDING = 1e-3  # logs round, and some average in half precision
MAX_GROUP_SIZE = 100_000
STDS = ("population", "sample")


class CompositionBounds(NamedTuple):
    """Bounds of both shares, and where there are none.

    Attributes:
        pass_low: Smallest all-pass share; NaN where an input is NaN or the inputs contradict each other.
        pass_high: Largest all-pass share.
        fail_low: Smallest all-fail share.
        fail_high: Largest all-fail share.
        inconsistent: Whether no groups of 0/1 rewards have these aggregates, rounding allowed for: the rewards are
            not 0/1, or the metrics are of different groups.
    """

    pass_low: Floats
    pass_high: Floats
    fail_low: Floats
    fail_high: Floats
    inconsistent: NDArray[np.bool_]


def composition_bounds(
    mean: ArrayLike,
    dead: ArrayLike,
    group_size: ArrayLike,
    *,
    group_std: ArrayLike | None = None,
    std: str = "population",
    rounding: float = ROUNDING,
) -> CompositionBounds:
    """What mean reward and dead fraction of a set of groups say about its all-pass and all-fail shares.

    Exact for the groups themselves: no distribution is assumed, and nothing is widened for sampling.

    Args:
        mean: Mean reward of all rollouts, shape (S,) or any that broadcasts, rewards 0 or 1.
        dead: Share of dead groups, in [0, 1].
        group_size: G, whole numbers of at least 1.
        group_std: Mean over all groups of the standard deviation of their own rewards, if it is logged.
        std: "population" (divided by G) or "sample" (by G - 1).
        rounding: How far the aggregates may be off, at least 0.

    Returns:
        Bounds in the broadcast shape. `CompositionBounds.inconsistent` marks what cannot be.

    Raises:
        DomainError: Something is no number, or some G is not a whole number of at least 1.

    >>> found = composition_bounds([0.5, 0.5, 0.1], [0.4, 1.0, 0.0], 4)
    >>> found.pass_low.round(3).tolist(), found.pass_high.round(3).tolist(), found.inconsistent.tolist()
    ([0.05, 0.5, nan], [0.35, 0.5, nan], [False, False, True])
    """
    sizes = as_group_size(group_size, maximum=MAX_GROUP_SIZE)
    spread = np.float64(np.nan) if group_std is None else population_std(group_std, sizes, std)
    m, d, g, s = np.broadcast_arrays(as_float_array(mean, "mean"), as_float_array(dead, "dead"), sizes, spread)
    known = ~(np.isnan(m) | np.isnan(d)) & (np.ones(m.shape, dtype=bool) if group_std is None else ~np.isnan(s))
    m, d = np.where(known, m, 0.0), np.where(known, d, 1.0)
    outside = (m < -rounding) | (m > 1.0 + rounding) | (d < -rounding) | (d > 1.0 + rounding)
    m, d = np.clip(m, 0.0, 1.0), np.clip(d, 0.0, 1.0)
    mixed = 1.0 - d
    if group_std is None:
        low, odd = mixed / g, (mixed > rounding) & (g == 1)
    else:
        low, odd = _least_passes(mixed, np.where(known, s, 0.0), g, rounding)
    first, last = m - (mixed - low), m - low  # the other end of the passes among mixed groups is the mirror image
    pass_low, pass_high = np.maximum(first, 0.0), np.minimum(last, d)
    gap = pass_low - pass_high
    inconsistent = known & (outside | odd | (gap > rounding))
    middle = np.clip((pass_low + pass_high) / 2.0, 0.0, d)
    pass_low, pass_high = np.where(gap > 0.0, middle, pass_low), np.where(gap > 0.0, middle, pass_high)
    told = known & ~inconsistent
    pass_low, pass_high = np.where(told, pass_low, np.nan), np.where(told, pass_high, np.nan)
    return CompositionBounds(pass_low, pass_high, d - pass_high, d - pass_low, inconsistent)


def population_std(group_std: ArrayLike, group_size: ArrayLike, std: str) -> Floats:
    """A mean of groups' own standard deviations, all of them divided by G.

    >>> population_std(0.5, 2, "sample").round(4).item()
    0.3536
    """
    if std not in STDS:
        raise DomainError(
            f'std must be "population" or "sample"; got {std!r}. Trainers of the TRL family log "sample".'
        )
    g = np.asarray(group_size, dtype=np.float64)
    factor = np.sqrt((g - 1.0) / g) if std == "sample" else np.ones_like(g)
    value: Floats = as_float_array(group_std, "group_std") * factor
    return value


def _least_passes(
    mixed: Floats, spread: Floats, g: NDArray[np.int64], slack: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Smallest share of passes in mixed groups, in units of all rollouts; and where no mixed groups have this std."""
    low, odd = np.zeros(mixed.shape), np.zeros(mixed.shape, dtype=bool)
    for size in np.unique(g):
        at = g == size
        if size == 1:
            odd[at] = (mixed[at] > slack) | (spread[at] > slack)
            continue
        k = np.arange(1.0, float(size // 2) + 1.0)
        std_of = np.sqrt(k * (float(size) - k)) / float(size)
        share = np.where(mixed[at] > 0.0, mixed[at], 1.0)
        low[at] = mixed[at] * np.interp(spread[at] / share, std_of, k / float(size))
        odd[at] = (spread[at] < std_of[0] * mixed[at] - slack) | (spread[at] > std_of[-1] * mixed[at] + slack)
    return low, odd


def largest_std(group_size: int) -> float:
    """Largest population standard deviation of G 0/1 rewards.

    >>> round(largest_std(3), 4)
    0.4714
    """
    half = group_size // 2
    return math.sqrt(half * (group_size - half)) / group_size
