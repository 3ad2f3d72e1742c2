"""Whether the rewards of a run are 0 and 1, by its rollouts or by what the aggregates can only be then."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from grpo_plan.quantities import Quantity, RunView, Stage, quantity_of
from grpo_plan.run_log import RunLog

Floats = NDArray[np.float64]
CLOSE = 2e-6  # relative: metrics are averages of float32
MOST_ROLLOUTS = 1 << 16  # of a row; a mean of more is as good as any number
ROWS_TO_TELL = 5


class RewardKind(StrEnum):
    """What a reward can be."""

    BINARY = "0 or 1"
    TWO_LEVELS = "one of two levels"
    GRADED = "graded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewards:
    """The kind of the rewards of a run, and what says so.

    Attributes:
        kind: What they can be.
        because: What says so, a clause.
    """

    kind: RewardKind
    because: str

    @property
    def binary(self) -> bool:
        """Whether a mean reward is a pass rate."""
        return self.kind is RewardKind.BINARY


def rewards_of(run: RunLog, view: RunView, rollouts: int | None = None) -> Rewards:
    """The kind of the rewards: from the rollouts, else from mean, spread, ends and grain of the logged means.

    Args:
        run: The log.
        view: Its metrics and settings.
        rollouts: Rollouts behind each row of the log, where that is known.
    """
    found = _of_rollouts(run)
    if found is not None:
        return found
    mean = quantity_of("reward_mean", view)
    if not isinstance(mean, Quantity):
        return Rewards(kind=RewardKind.UNKNOWN, because="neither rollouts nor a mean reward are logged")
    values = mean.values[np.isfinite(mean.values)]
    if values.size and (values.min() < -CLOSE or values.max() > 1.0 + CLOSE):
        return Rewards(kind=RewardKind.GRADED, because=f"mean rewards go from {values.min():.3g} to {values.max():.3g}")
    return (
        _of_equal(view, mean)
        or _of_ends(view)
        or _of_pass_rate(view, mean)
        or _of_spread(view, mean)
        or _of_grain(values, rollouts)
    )


def _of_rollouts(run: RunLog) -> Rewards | None:
    if run.groups is None or not run.groups.groups:
        return None
    ends = np.concatenate([run.groups.reward_min, run.groups.reward_max])
    levels = np.unique(ends[np.isfinite(ends)])
    inside = np.isfinite(run.groups.reward_mean) & (run.groups.reward_min == run.groups.reward_max)
    if not levels.size:
        return None
    if np.isin(levels, (0.0, 1.0)).all():
        mixed = run.groups.reward_mean[np.isfinite(run.groups.reward_mean) & ~inside]
        scored = run.groups.scored[np.isfinite(run.groups.reward_mean) & ~inside]
        whole = np.abs(mixed * scored - np.round(mixed * scored)) < 1e-6 * np.maximum(scored, 1)
        if whole.all():
            return Rewards(kind=RewardKind.BINARY, because="the rollouts have the rewards 0 and 1 only")
        return Rewards(kind=RewardKind.GRADED, because="rollouts have rewards between 0 and 1")
    if levels.size == 2:
        shown = f"{levels[0]:g} and {levels[1]:g}"
        return Rewards(kind=RewardKind.TWO_LEVELS, because=f"the rollouts have the rewards {shown} only")
    return Rewards(kind=RewardKind.GRADED, because=f"the rollouts have rewards of {levels.size:,} levels or more")


def _of_equal(view: RunView, mean: Quantity) -> Rewards | None:
    """Rewards that are equal at every row and are 0, or 1: all fail, or all pass.

    Where the spread of the batch is 0, its rewards are the mean. Where it is only that of each group, groups could
    still cancel, at every row to the last digit: that is left out of account from `ROWS_TO_TELL` rows on. Which end 0
    and 1 are is taken for granted: no reward is below 0 or above 1.
    """
    known = np.isfinite(mean.values)
    values = np.unique(mean.values[known])
    if values.size != 1 or values[0] not in (0.0, 1.0):
        return None
    batch, groups = np.zeros(known.size, dtype=bool), np.zeros(known.size, dtype=bool)
    for name, equal in (("reward_std", 0.0), ("group_reward_std", 0.0), ("dead_fraction", 1.0)):
        found = quantity_of(name, view)
        if isinstance(found, Quantity) and found.stage is not Stage.AFTER:
            (batch if name == "reward_std" else groups)[found.values == equal] = True
    for name, equal in (("reward_std", 0.0), ("frac_reward_zero_std", 1.0)):  # whichever of their meanings they have
        logged = view.get(name)
        if logged is not None:
            groups |= logged == equal
    sure = bool(batch[known].all())
    if not sure and (not bool((batch | groups)[known].all()) or int(known.sum()) < ROWS_TO_TELL):
        return None
    end = "0, so that none is paid" if values[0] == 0.0 else "1, so that each is paid in full"
    because = f"the rewards of every row are equal and {end} (taken to lie between 0 and 1)"
    return Rewards(kind=RewardKind.BINARY, because=because)


def _of_ends(view: RunView) -> Rewards | None:
    """Largest and smallest reward of a batch, where they leave [0, 1]."""
    for prefix in ("critic/score", "critic/rewards"):
        high, low = view.get(f"{prefix}/max"), view.get(f"{prefix}/min")
        above = high is not None and bool(np.any(high[np.isfinite(high)] > 1.0 + CLOSE))
        below = low is not None and bool(np.any(low[np.isfinite(low)] < -CLOSE))
        if above or below:
            return Rewards(kind=RewardKind.GRADED, because=f"{prefix} leaves [0, 1]")
    return None


def _of_pass_rate(view: RunView, mean: Quantity) -> Rewards | None:
    """A mean reward that is the share of rollouts that pass."""
    rate = quantity_of("pass_rate_mean", view)
    if not isinstance(rate, Quantity):
        return None
    known = np.isfinite(rate.values) & np.isfinite(mean.values)
    apart = np.abs(rate.values[known] - mean.values[known])
    if apart.size < ROWS_TO_TELL or not bool(np.all(apart <= CLOSE)):
        return None
    return Rewards(kind=RewardKind.BINARY, because="the mean reward is the share of rollouts that pass")


def _of_spread(view: RunView, mean: Quantity) -> Rewards | None:
    """One reward function with its own spread: that of 0 and 1 with this mean is sqrt(m (1 - m))."""
    functions = view.matching(r"rewards/.+/std")
    if len(functions) != 1:
        return None
    beside, std = view.get(functions[0].removesuffix("std") + "mean"), view.get(functions[0])
    if beside is None or std is None:
        return None
    known = np.isfinite(beside) & np.isfinite(std) & np.isfinite(mean.values)
    m, s, total = beside[known], std[known], mean.values[known]
    if m.size < ROWS_TO_TELL or bool(np.any(np.abs(m - total) > CLOSE)):
        return None
    largest = m * (1.0 - m)
    if bool(np.any(m < -CLOSE)) or bool(np.any(m > 1.0 + CLOSE)) or bool(np.all(largest < 1e-3)):
        return None
    told = largest >= 1e-3
    ratio = s[told] ** 2 / largest[told]  # 1 with N in the denominator of the variance, N / (N - 1) with N - 1
    if bool(np.all((ratio > 0.98) & (ratio < 1.15))):
        return Rewards(kind=RewardKind.BINARY, because=f"{functions[0]} is that of rewards 0 and 1 with this mean")
    if float(np.median(ratio)) < 0.9:
        return Rewards(kind=RewardKind.GRADED, because=f"{functions[0]} is smaller than rewards 0 and 1 would have")
    return None


def _of_grain(values: Floats, rollouts: int | None) -> Rewards:
    """Means of 0 and 1 over K rollouts are multiples of 1/K; K where it is known, else 2 and 3 to small powers."""
    if values.size < ROWS_TO_TELL or np.unique(values).size < ROWS_TO_TELL:
        return Rewards(kind=RewardKind.UNKNOWN, because="too few mean rewards are logged to tell")
    if rollouts is not None and rollouts <= MOST_ROLLOUTS:
        if _multiples(values, rollouts):
            because = f"mean rewards are multiples of 1/{rollouts:,}, the rollouts of a row, as those of 0 and 1"
            return Rewards(kind=RewardKind.BINARY, because=because)
        because = f"mean rewards are no multiples of 1/{rollouts:,}, the rollouts of a row"
        return Rewards(kind=RewardKind.UNKNOWN, because=because)
    exponents = range(1, MOST_ROLLOUTS.bit_length())
    for step in (1, 3):
        for e in exponents:
            k = step << e
            if k > MOST_ROLLOUTS:
                break
            if _multiples(values, k):
                return Rewards(
                    kind=RewardKind.BINARY, because=f"mean rewards are multiples of 1/{k:,}, as those of 0 and 1"
                )
    return Rewards(kind=RewardKind.UNKNOWN, because="mean rewards are no multiples of a small fraction")


def _multiples(values: Floats, k: int) -> bool:
    scaled = values * k
    return bool(np.all(np.abs(scaled - np.round(scaled)) <= min(CLOSE * k, 0.02)))
