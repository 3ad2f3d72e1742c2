"""Prompts gained and lost beyond what chance alone would show (theory.md, eq. 135)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.intervals import mean_interval
from grpo_plan.fitting.paired import paired_difference
from grpo_plan.fitting.ustatistics import subgroup_all_fail
from grpo_plan.passk.result import Turnover
from grpo_plan.planning.pairing import CommonPrompts

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def find_turnover(common: CommonPrompts, counted: int, level: float) -> Turnover | None:
    """Gains and losses of the common prompts at half of the counted rollouts; None where that is below 1.

    Args:
        common: Counts of the same prompts under both policies.
        counted: Largest k counted under both.
        level: Confidence level of each interval.
    """
    k = counted // 2
    if k < 1:
        return None
    passes, rollouts, passes_after, rollouts_after = (
        common.baseline_successes,
        common.baseline_rollouts,
        common.successes,
        common.rollouts,
    )
    enough = np.minimum(rollouts, rollouts_after) >= 2 * k
    before = (passes[enough], rollouts[enough])
    after = (passes_after[enough], rollouts_after[enough])
    gained, lost, chance = turnover_kernels(before, after, k)
    ones = np.ones(gained.size, dtype=np.int64)
    zero, zero_after = passes == 0, passes_after == 0
    return Turnover(
        k=k,
        gained_seen=mean_interval(gained, ones, level),
        lost_seen=mean_interval(lost, ones, level),
        by_chance=float(chance.mean()),
        gained=paired_difference(gained - chance, level),
        lost=paired_difference(lost - chance, level),
        zero_before=int(zero.sum()),
        zero_before_pass_after=int((zero & ~zero_after).sum()),
        zero_after=int(zero_after.sum()),
        pass_before_zero_after=int((zero_after & ~zero).sum()),
    )


def turnover_kernels(
    before: tuple[Counts, Counts], after: tuple[Counts, Counts], k: int
) -> tuple[Floats, Floats, Floats]:
    """Unbiased shares of each prompt: gained, lost, and what chance alone adds to either (theory.md, eq. 135).

    Args:
        before: Passes and rollouts, shape (M,) each, rollouts at least 2k.
        after: The same of the other policy.
        k: Group size.

    Returns:
        Three arrays of shape (M,) in [0, 1]; ``gained - lost`` is the difference of pass@k.

    >>> gained, lost, chance = turnover_kernels((np.array([0]), np.array([8])), (np.array([1]), np.array([8])), 4)
    >>> gained.item(), lost.item(), chance.item()
    (0.5, 0.0, 0.25)
    """
    first, second = subgroup_all_fail(*before, k), subgroup_all_fail(*after, k)
    twice, twice_after = subgroup_all_fail(*before, 2 * k), subgroup_all_fail(*after, 2 * k)
    chance = 0.5 * (first - twice + second - twice_after)
    return first * (1.0 - second), (1.0 - first) * second, chance
