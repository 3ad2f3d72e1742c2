"""Dead fractions at other group sizes, for every step of a run at once (theory.md, eq. 80, 81 and 83)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_float_array, as_level
from grpo_plan.errors import DomainError
from grpo_plan.groups import dead_probability
from grpo_plan.runs.aggregates import TOLERANCE
from grpo_plan.runs.beta_matching import ALIKE, beta_dead, matched_correlation
from grpo_plan.runs.composition import MAX_GROUP_SIZE
from grpo_plan.runs.dead_range import dead_inflation, dead_range, largest_rarer
from grpo_plan.runs.moment_range import LP_ERROR
from grpo_plan.runs.recovery_status import RecoveryStatus
from grpo_plan.runs.sampling_error import mean_limits

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RecoveredSteps(Shown):
    """What S steps say about D at T other group sizes.

    Attributes:
        group_size: G of the groups that were logged.
        sizes: The other group sizes G', T of them.
        value: D(G') of the Beta of each step, shape (S, T); NaN where a step has none.
        low: Smallest D(G') over all distributions of pass rates that the step allows; NaN where nothing is logged.
        high: Largest one.
        correlation: Correlation of two rollouts of one prompt in the Beta, shape (S,).
        status: What stands behind each step, shape (S,).
        level: Level at which mean and dead fraction of one step have their limits; None where taken as exact.
    """

    group_size: int
    sizes: tuple[int, ...]
    value: Floats
    low: Floats
    high: Floats
    correlation: Floats
    status: tuple[RecoveryStatus, ...]
    level: float | None

    def __repr__(self) -> str:
        """One line."""
        return f"<RecoveredSteps: D({', '.join(map(str, self.sizes))}) at {len(self.status):,} steps>"


def recover_steps(
    mean: ArrayLike,
    dead: ArrayLike,
    group_size: int,
    sizes: Sequence[int],
    *,
    groups: ArrayLike | None = None,
    level: float = 0.95,
) -> RecoveredSteps:
    """`recover` for each step of a run that logs mean reward and dead fraction; no step is left out.

    Args:
        mean: Mean reward of each step, shape (S,), rewards 0 or 1; NaN where it is not logged.
        dead: Dead fraction of each step, shape (S,); NaN where it is not logged.
        group_size: G, from 2 to 100,000.
        sizes: Group sizes G' to answer for.
        groups: Number of groups of a step, one number or shape (S,). Without it the steps are taken as exact.
        level: Level of each step's limits, if ``groups`` is given. It is for one step, not for all at once.

    Raises:
        DomainError: Arrays have other shapes, or some argument is outside its domain.

    >>> found = recover_steps([0.3348, np.nan, 0.4], [0.4392, 0.5, 1.0], 8, [4, 16])
    >>> found.value.round(3).tolist()
    [[0.583, 0.331], [nan, nan], [1.0, 1.0]]
    >>> [status.name for status in found.status]
    ['OK', 'UNKNOWN', 'POINT_MASSES']
    """
    g = as_count(group_size, "group_size", minimum=2, maximum=MAX_GROUP_SIZE)
    targets = tuple(as_count(s, "sizes", minimum=1, maximum=MAX_GROUP_SIZE) for s in sizes)
    m, d = as_float_array(mean, "mean"), as_float_array(dead, "dead")
    if m.ndim != 1 or m.shape != d.shape:
        raise DomainError(f"mean and dead must have one value for each step; got shapes {m.shape} and {d.shape}.")
    level = as_level(level)
    counts = None if groups is None else _counts(groups, m.size)
    value, low, high = (np.full((m.size, len(targets)), np.nan) for _ in range(3))
    correlation = np.full(m.size, np.nan)
    status = np.full(m.size, RecoveryStatus.UNKNOWN, dtype=object)

    alone = ~np.isnan(m) & np.isnan(d)  # the mean only
    at = np.flatnonzero(alone & (m >= 0.0) & (m <= 1.0))
    ends = (m[at], m[at]) if counts is None else mean_limits(m[at], counts[at], level)
    low[at] = dead_probability(largest_rarer(*ends)[:, None], np.array(targets)[None, :])
    high[at] = 1.0
    status[at] = RecoveryStatus.MEAN_ONLY

    both = ~(np.isnan(m) | np.isnan(d))
    at = np.flatnonzero(both & (m >= 0.0) & (m <= 1.0) & (d >= 0.0) & (d <= 1.0))
    mean_low = mean_high = mean_at = m[at]
    dead_low = dead_high = dead_at = d[at]
    if counts is not None:
        mean_low, mean_high = mean_limits(mean_at, counts[at], level, 2)
        dead_low, dead_high = mean_limits(dead_at, counts[at], level, 2)
    e = dead_inflation(mean_low, mean_high, dead_high, g)
    fits = e <= (TOLERANCE if counts is None else LP_ERROR)
    rarer = largest_rarer(mean_low - e, mean_high + e)
    matched = matched_correlation(mean_at, dead_at, g)
    for column, size in enumerate(targets):
        first, last = dead_range(rarer, dead_low - e, dead_high + e, g, size)
        first, last = np.where(fits, first, 2.0 ** (1 - size)), np.where(fits, last, 1.0)
        of_beta = np.clip(beta_dead(mean_at, matched, size), first, last)
        value[at, column] = np.where(fits, of_beta, np.nan)
        low[at, column], high[at, column] = first, last
    correlation[at] = np.where(fits, matched, np.nan)
    status[at] = _statuses(mean_at, dead_at, g, e, fits)

    odd = (both | alone) & (status == RecoveryStatus.UNKNOWN)  # no mean or share of 0/1 rewards at all
    low[odd], high[odd] = 2.0 ** (1.0 - np.array(targets)), 1.0
    status[odd] = RecoveryStatus.INCONSISTENT
    return RecoveredSteps(
        group_size=g,
        sizes=targets,
        value=value,
        low=low,
        high=high,
        correlation=correlation,
        status=tuple(status.tolist()),
        level=None if counts is None else level,
    )


def _counts(groups: ArrayLike, steps: int) -> Floats:
    counts = as_float_array(groups, "groups")
    if counts.shape not in ((), (steps,)):
        raise DomainError(f"groups must be one number or one for each of {steps:,} steps; got shape {counts.shape}.")
    bad = ~((counts >= 1.0) & np.isfinite(counts))
    if bad.any():
        raise DomainError(
            f"groups must be at least 1; got {counts.ravel()[int(np.flatnonzero(bad.ravel())[0])]:g}. Leave out the "
            "steps without groups."
        )
    return np.broadcast_to(counts, (steps,))


def _statuses(mean: Floats, dead: Floats, g: int, inflation: Floats, fits: NDArray[np.bool_]) -> NDArray[np.object_]:
    status = np.full(mean.size, RecoveryStatus.OK, dtype=object)
    status[inflation > 0.0] = RecoveryStatus.PROJECTED
    status[dead <= dead_probability(mean, g) + ALIKE] = RecoveryStatus.IID
    status[dead >= 1.0 - ALIKE] = RecoveryStatus.POINT_MASSES
    status[(mean == 0.0) | (mean == 1.0)] = RecoveryStatus.ONE_OUTCOME
    status[~fits] = RecoveryStatus.INCONSISTENT
    return status
