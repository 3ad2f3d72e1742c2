"""Rows and rewards of a run as they come, kept so that a RunLog of all so far costs little."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError
from grpo_plan.group_log import EQUAL_REWARDS, GroupLog
from grpo_plan.provenance import Provenance
from grpo_plan.runs.measured import Counts, Floats

FIRST = 256


class Columns:
    """Columns of numbers that grow at their end, a row at a time or many; amortised O(1) a value."""

    def __init__(self, fill: float = np.nan, dtype: type = np.float64) -> None:
        self._fill, self._dtype = fill, dtype
        self._held: dict[str, NDArray[Any]] = {}
        self.size = 0

    def extend(self, count: int) -> None:
        """So many rows more, filled."""
        self.size += count
        for name, column in self._held.items():
            if column.size < self.size:
                self._held[name] = np.concatenate([column, self._blank(max(self.size - column.size, column.size))])

    def put(self, name: str, at: int | slice, values: Any) -> None:
        """Values of a column that may be new."""
        if name not in self._held:
            self._held[name] = self._blank(max(self.size, FIRST))
        self._held[name][at] = values

    def keep(self, size: int) -> None:
        """Only the first so many rows."""
        for column in self._held.values():
            column[size : self.size] = self._fill
        self.size = size

    def taken(self) -> dict[str, NDArray[Any]]:
        """Copies of the columns that hold a value."""
        out = {name: column[: self.size].copy() for name, column in self._held.items()}
        return {name: c for name, c in out.items() if self._dtype is not np.float64 or not np.isnan(c).all()}

    def _blank(self, count: int) -> NDArray[Any]:
        return np.full(count, self._fill, dtype=self._dtype)


class CollectedGroups:
    """Groups of rollouts of each step, as their rewards come."""

    def __init__(self, pass_threshold: float | None = None) -> None:
        self._threshold = pass_threshold
        self._counts = Columns(fill=0, dtype=np.int64)
        self._rewards = Columns()
        self._levels: set[float] = set()

    @property
    def size(self) -> int:
        """Number of groups."""
        return self._counts.size

    def add(self, step: int, rewards: Floats) -> None:
        """Rewards of the groups of a step, shape (N, G), NaN where scoring failed."""
        start, count = self.size, rewards.shape[0]
        self._counts.extend(count)
        self._rewards.extend(count)
        here = slice(start, start + count)
        known = np.isfinite(rewards)
        scored = known.sum(axis=1)
        some = scored > 0
        low = np.where(some, np.where(known, rewards, np.inf).min(axis=1), np.nan)
        high = np.where(some, np.where(known, rewards, -np.inf).max(axis=1), np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(some, np.where(known, rewards, 0.0).sum(axis=1) / np.maximum(scored, 1), np.nan)
            away = np.where(known, rewards - mean[:, None], 0.0)
            var = np.where(some, (away**2).sum(axis=1) / np.maximum(scored, 1), np.nan)
            top = known & (high[:, None] - rewards <= EQUAL_REWARDS)
            passes = top.sum(axis=1) if self._threshold is None else (known & (rewards >= self._threshold)).sum(axis=1)
            rising = np.sort(np.where(known, rewards, np.inf), axis=1)
            apart = (np.diff(rising, axis=1) > EQUAL_REWARDS) & np.isfinite(rising[:, 1:])
        for name, values in (
            ("step", step), ("rollouts", rewards.shape[1]), ("scored", scored), ("passes", passes),
            ("distinct_rewards", np.where(some, 1 + apart.sum(axis=1), 0)),
        ):  # fmt: skip
            self._counts.put(name, here, values)
        var = np.where(np.isfinite(var), var, np.nan)
        for name, column in (("low", low), ("high", high), ("mean", mean), ("var", var)):
            self._rewards.put(name, here, column)
        if len(self._levels) <= 2:
            self._levels.update(np.unique(rewards[known])[:3].tolist())

    def keep_before(self, step: int) -> None:
        """Only the groups of steps before this one."""
        if self.size:
            steps = self._counts.taken()["step"]
            size = int(np.searchsorted(steps, step))
            self._counts.keep(size)
            self._rewards.keep(size)

    def group_log(self) -> GroupLog | None:
        """All of them; None without any."""
        if not self.size:
            return None
        counts, rewards, blank = self._counts.taken(), self._rewards.taken(), np.full(self.size, np.nan)
        threshold, passes = self._passes(counts["passes"], counts["scored"], rewards.get("low", blank))
        sizes = counts["rollouts"]
        return GroupLog(
            step=counts["step"],
            prompt_id=np.arange(self.size).astype(str).astype(object),
            rollouts=sizes,
            scored=counts["scored"],
            reward_min=rewards.get("low", blank),
            reward_max=rewards.get("high", blank),
            reward_mean=rewards.get("mean", blank),
            reward_var=rewards.get("var", blank),
            distinct_rewards=counts["distinct_rewards"],
            passes=passes,
            pass_threshold=threshold,
            provenance=Provenance(
                format="trl", rows=int(sizes.sum()), groups=self.size, group_size=(int(sizes.min()), int(sizes.max()))
            ),
        )

    def _passes(self, counted: Counts, scored: Counts, low: Floats) -> tuple[float | None, Counts | None]:
        """Reward from which a rollout passes, and passes of each group: as told, else from two levels."""
        if self._threshold is not None:
            return self._threshold, counted
        if self._levels <= {0.0, 1.0}:
            threshold = 1.0
        elif len(self._levels) == 2:
            threshold = max(self._levels)
        else:
            return None, None
        with np.errstate(invalid="ignore"):  # counted are those at the largest reward of their own group
            none = ~(low >= threshold) & (counted == scored)
        return threshold, np.where(none, 0, counted)


class Collected:
    """Metrics of the steps of a run in rising order; what is logged again replaces what was there."""

    def __init__(self, pass_threshold: float | None = None) -> None:
        self._steps: list[int] = []
        self._metrics = Columns()
        self.groups = CollectedGroups(pass_threshold)
        self.taken_back = 0

    @property
    def rows(self) -> int:
        """Number of steps."""
        return len(self._steps)

    def add(self, step: int, metrics: Mapping[str, float], rewards: Floats | None) -> None:
        """A row of a step, its rewards, or both.

        The last step once more takes what is new; an earlier one is that of a run taken up there, and everything from
        that step on is dropped.
        """
        if self._steps and step < self._steps[-1]:
            size = int(np.searchsorted(self._steps, step))
            self.taken_back += len(self._steps) - size
            del self._steps[size:]
            self._metrics.keep(size)
            self.groups.keep_before(step)
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)
            self._metrics.extend(1)
        elif rewards is not None:
            self.groups.keep_before(step)
        for name, value in metrics.items():
            self._metrics.put(name, len(self._steps) - 1, value)
        if rewards is not None:
            self.groups.add(step, rewards)

    def steps(self) -> Counts:
        """Steps, shape (S,)."""
        return np.array(self._steps, dtype=np.int64)

    def metrics(self) -> dict[str, Floats]:
        """Columns, each of shape (S,)."""
        return self._metrics.taken()


def checked_rewards(rewards: object) -> Floats:
    """Rewards of the groups of a step as numbers, shape (N, G).

    Raises:
        DomainError: They are no table of numbers, or not finite other than NaN.

    >>> checked_rewards([[1, 0], [None, 1]]).tolist()
    [[1.0, 0.0], [nan, 1.0]]
    """
    rule = "rewards must be numbers of shape (groups, rollouts of a group), NaN where scoring failed"
    try:
        table = np.array(rewards, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(f"{rule}; got {str(rewards)[:60]!r}.") from None
    if table.ndim != 2 or not table.size:
        raise DomainError(f"{rule}; got shape {table.shape}. Give one row for each prompt.")
    if np.isinf(table).any():
        raise DomainError(f"{rule}; got infinite ones ({int(np.isinf(table).sum()):,}). Give NaN where scoring failed.")
    return table
