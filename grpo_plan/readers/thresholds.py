"""Rewards that are neither 0 nor 1: which levels they have, and the error that proposes a pass threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.values import shown

FEW_LEVELS = 6
LEVEL_ROWS = 1_000_000  # rollouts to read on for the levels of rewards, once one is neither 0 nor 1


@dataclass(slots=True, kw_only=True)
class OddRewards:
    """The first reward that is neither 0 nor 1 where no threshold was given, and all levels of rewards."""

    place: str
    column: str
    value: float
    levels: set[float]
    rows: int = 0

    def error(self, others: Sequence[str]) -> PilotFormatError:
        """The error, with every level seen."""
        return needs_threshold(self.place, self.column, self.value, sorted(self.levels), others)

    def take(self, rewards: NDArray[np.float64], others: Sequence[str]) -> None:
        """Take in a batch.

        Raises:
            PilotFormatError: There are many levels, or enough rollouts were read to know them.
        """
        self.add(np.unique(rewards[np.isfinite(rewards)]).tolist(), rewards.size, others)

    def add(self, levels: Iterable[float], rows: int, others: Sequence[str]) -> None:
        """Take in the levels of so many rewards.

        Raises:
            PilotFormatError: There are many levels, or enough rollouts were read to know them.
        """
        self.levels.update(levels)
        self.rows += rows
        if len(self.levels) > FEW_LEVELS or self.rows > LEVEL_ROWS:
            raise self.error(others)


def odd_rewards(
    rewards: NDArray[np.float64], place: Callable[[int], str], column: str, *, passes: bool, fails: bool
) -> OddRewards | None:
    """The first odd reward of a batch, None without one; whether there were passes and fails before this batch."""
    found = np.flatnonzero(np.isfinite(rewards) & (rewards != 0.0) & (rewards != 1.0))
    if not found.size:
        return None
    levels = {level for level, there in ((0.0, fails), (1.0, passes)) if there}
    first = int(found[0])
    return OddRewards(place=place(first), column=column, value=float(rewards[first]), levels=levels)


def needs_threshold(
    place: str, column: str, value: float, seen: Sequence[float], others: Sequence[str] = ()
) -> PilotFormatError:
    """The error for rewards that are not 0 or 1; a threshold is proposed where the rewards have few levels."""
    proposed = proposed_threshold(seen)
    example = " X" if proposed is None else f", e.g. {shown([proposed])}"
    define = "" if proposed is not None else " Graded rewards do not say what a pass is: that is yours to define."
    equal = " grpo-plan advantages counts groups of equal rewards without one." if len(seen) > 2 else ""
    instead = f" Or judge by {' or '.join(others[:3])} with --reward-column." if others else ""
    return PilotFormatError(
        f"{place}: {column} is {shown([value])}, neither 0 nor 1, and no pass threshold was given (values seen: "
        f"{shown(list(seen))}). Pass --pass-threshold{example} (pass_threshold=): a rollout passes at or above it."
        f"{define}{instead}{equal}"
    )


def out_of_reach(
    threshold: float | None, rewards: tuple[float, float] | None, passes: int, rollouts: int
) -> tuple[str, ...]:
    """A note on a threshold that no reward, or every one, reaches.

    >>> out_of_reach(2.0, (0.0, 1.5), 0, 80)
    ('No rollout passes: pass_threshold 2 is above the largest reward seen, 1.5.',)
    """
    if threshold is None or rewards is None or 0 < passes < rollouts:
        return ()
    if passes == 0:
        return (f"No rollout passes: pass_threshold {threshold:g} is above the largest reward seen, {rewards[1]:g}.",)
    return (f"Every rollout passes: pass_threshold {threshold:g} is not above the smallest reward, {rewards[0]:g}.",)


def proposed_threshold(levels: Sequence[float]) -> float | None:
    """The smallest reward above the widest gap between levels, the uppermost of equal gaps; None if one or many.

    >>> [proposed_threshold(levels) for levels in ([-1, 1], [0, 10], [-0.1, 0, 0.9, 1], [0, 0.1, 1, 1.1], [10])]
    [1, 10, 0.9, 1, None]
    """
    rising = sorted(set(levels))
    if not 2 <= len(rising) <= FEW_LEVELS:
        return None
    gaps = [(high - low, high) for low, high in pairwise(rising)]
    widest = max(gap for gap, _ in gaps)
    return max(high for gap, high in gaps if gap >= widest * (1 - 1e-9))
