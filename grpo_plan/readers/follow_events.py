"""What a look at a growing log brings: what happened to its files, and the run so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import one_line
from grpo_plan.run_log import RunLog


class Happened(StrEnum):
    """What happened to a log that is followed."""

    WAITING = "waiting"  # nothing is there yet, or no whole row
    STARTED = "started"  # found: from now on it is read
    ROTATED = "rotated"  # renamed, and another file has its name now
    TRUNCATED = "truncated"  # emptied or cut
    REPLACED = "replaced"  # starts over: what was read before does not count any more
    COPIED = "copied"  # another file with the same beginning
    GONE = "gone"  # not there any more
    BACK = "back"  # there again
    DAMAGED = "damaged"  # holds lines that are no rows
    UNREADABLE = "unreadable"  # cannot be read now
    LOST = "lost"  # rows may be missing
    WENT_BACK = "went back"  # steps are logged again


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowEvent:
    """One thing that happened.

    Attributes:
        kind: What it was.
        message: The same in words, with the place; one line.
    """

    kind: Happened
    message: str

    @classmethod
    def of(cls, kind: Happened, message: str) -> FollowEvent:
        """An event whose words are one line, whatever a file's name holds."""
        return cls(kind=kind, message=one_line(message))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Update:
    """What one look at a log brought.

    Attributes:
        log: The run so far, as `read_run` reads it; None as long as there is none. The same object as in the update
            before where nothing is new.
        new_steps: Training steps with a new or another value, in rising order, shape (K,).
        new_rows: Rows taken, those of evaluations too; of a source that is read anew as a whole, the new steps.
        events: What happened, in order.
        behind: Whether more is there already: look again without a pause.
        changed: Whether ``log`` is another than in the update before.
    """

    log: RunLog | None
    new_steps: NDArray[np.int64]
    new_rows: int
    events: tuple[FollowEvent, ...]
    behind: bool
    changed: bool


def differing_steps(before: RunLog | None, after: RunLog) -> NDArray[np.int64]:
    """Steps of a run that it did not have before, or not with these values; in rising order, shape (K,)."""
    if before is None or not before.steps.size:
        return after.steps
    at = np.minimum(np.searchsorted(before.steps, after.steps), before.steps.size - 1)
    known = before.steps[at] == after.steps
    new = ~known
    nothing = np.full(before.steps.size, np.nan)
    for name, values in after.metrics.items():
        earlier = before.metrics.get(name, nothing)[at]
        new |= known & ~((values == earlier) | (np.isnan(values) & np.isnan(earlier)))
    found: NDArray[np.int64] = after.steps[new]
    return found
