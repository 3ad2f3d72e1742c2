"""Where two curves of pass@k change places (theory.md, eq. 133)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, log

from grpo_plan.passk.result import Crossing, CrossingStatus, PassDifference, deciding


def find_crossing(differences: Sequence[PassDifference]) -> Crossing:
    """The crossing of two curves from the differences at each k, in rising order.

    It lies between the run of k of one sign that starts at the first k, and the run of the other sign that ends at a k
    that decides: at a crossing the difference is 0, and the interval there fails to hold 0 no more often than any.
    """
    first, last = differences[0], differences[-1]
    low = 0
    for d in differences:
        if first.sign == 0 or d.sign != first.sign:
            break
        low = d.k
    end = next((d for d in deciding(differences) if first.sign * d.sign < 0), None)
    high = None
    for d in reversed(differences):
        if end is None or d.k > end.k:
            continue
        if d.sign != end.sign:
            break
        high = d.k
    if end is not None:
        status = CrossingStatus.CROSSES
    elif low == last.k:
        status = CrossingStatus.NONE_SEEN
    else:
        status = CrossingStatus.CANNOT_TELL
    return Crossing(status=status, value=_meeting(differences), low=low, high=high)


def _meeting(differences: Sequence[PassDifference]) -> float | None:
    """First k at which the estimates change sign, interpolated in log k; None if they do not."""
    known = [(d.k, d.value) for d in differences if d.value]
    for (k, value), (next_k, next_value) in pairwise(known):
        if value * next_value < 0.0:
            return meeting_k(k, value, next_k, next_value)
    return None


def meeting_k(k: int, value: float, next_k: int, next_value: float) -> float:
    """Find k at which the straight line in log k between two differences of opposite sign is 0 (theory.md, eq. 133).

    >>> round(meeting_k(2, 0.1, 8, -0.1), 6)
    4.0
    """
    share = value / (value - next_value)
    return exp(log(k) + share * (log(next_k) - log(k)))
