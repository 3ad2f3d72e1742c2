"""Groups of a table whose rows hold lists of rewards: each row was sampled together, and how many are dead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import EQUAL_REWARDS
from grpo_plan.provenance import DeadGroups


@dataclass(slots=True, kw_only=True)
class ListGroups:
    """Counts of rows, each a group: they add up, whatever process counted them.

    Attributes:
        groups: Rows with a list.
        rollouts: Scored rollouts of them.
        all_fail: Rows whose scored rollouts all fail.
        all_pass: Rows whose scored rollouts all pass.
        unscored: Rows without a scored rollout.
        alike: Rows whose rewards are all equal, or that have fewer than two scored rollouts.
    """

    groups: int = 0
    rollouts: int = 0
    all_fail: int = 0
    all_pass: int = 0
    unscored: int = 0
    alike: int = 0

    def take(self, rewards: NDArray[np.float64], row_of: Sequence[int], threshold: float) -> None:
        """Count the rows of a batch: ``rewards`` (R,) and the row of each, rising, shape (R,).

        >>> counted = ListGroups()
        >>> counted.take(np.array([0.2, 0.6, 0.3, 0.3]), [0, 0, 1, 1], threshold=0.5)
        >>> counted.groups, counted.all_fail, counted.alike
        (2, 1, 1)
        """
        starts = np.flatnonzero(np.diff(np.asarray(row_of), prepend=-1))
        scored = np.isfinite(rewards)
        n = np.add.reduceat(scored.astype(np.int64), starts)
        low = np.minimum.reduceat(np.where(scored, rewards, np.inf), starts)
        high = np.maximum.reduceat(np.where(scored, rewards, -np.inf), starts)
        known = n > 0
        self.groups += starts.size
        self.rollouts += int(n.sum())
        self.unscored += int((~known).sum())
        self.all_pass += int((known & (low >= threshold)).sum())
        self.all_fail += int((known & (high < threshold)).sum())
        self.alike += int((n < 2).sum() + (high[n > 1] - low[n > 1] <= EQUAL_REWARDS).sum())

    def add(self, other: ListGroups) -> None:
        """Take in what another process counted."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def dead(self, rollouts: int) -> DeadGroups | None:
        """How many are dead; None if these are not all ``rollouts`` of the pilot."""
        if not self.groups or self.rollouts != rollouts:
            return None
        return DeadGroups(
            groups=self.groups,
            all_fail=self.all_fail,
            all_pass=self.all_pass,
            unscored=self.unscored,
            by_reward=self.alike,
        )
