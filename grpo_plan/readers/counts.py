"""Counts of a prompt as tables hold them: whole numbers, or rates of a known number of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.pilot import MAX_ROLLOUTS_PER_PROMPT
from grpo_plan.readers.rates import NotARate, RateReading
from grpo_plan.readers.values import number_of, numbers_of, shown


def plain_counts(n: Sequence[Any], k: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Both counts at once where every one is a valid whole number; None if any needs a closer look."""
    if not set(map(type, n)) | set(map(type, k)) <= {int}:
        return None
    total, passes = numbers_of(n), numbers_of(k)
    if np.all((passes >= 0) & (passes <= total) & (total <= MAX_ROLLOUTS_PER_PROMPT)):
        return total.astype(np.int64), passes.astype(np.int64)
    return None


def whole(value: object, place: Callable[[], str], name: str) -> int:
    """A count from 0 to the largest that a prompt may have."""
    number = None if isinstance(value, bool) else number_of(value)
    if number is None or number < 0 or number != int(number):
        raise PilotFormatError(f"{place()}: {name} must be a whole number of at least 0; got {shown([value])}.")
    if number > MAX_ROLLOUTS_PER_PROMPT:
        raise PilotFormatError(f"{place()}: {name} must be at most {MAX_ROLLOUTS_PER_PROMPT:,}; got {number:g}.")
    return int(number)


def successes(value: object, total: int, place: Callable[[], str], name: str, reading: RateReading) -> int:
    """Passes behind a rate: the k whose k/n rounds to it."""
    try:
        return reading.passes(value, total)
    except NotARate as error:
        why, rate = str(error), number_of(value)
    shown_rate = shown([value]) if rate is None else f"{rate:g}"
    if why == "range":
        hint = " Percentages? Divide by 100." if rate is not None and 1.0 < rate <= 100.0 else ""
        span = "[0, 100]" if reading.percent else "[0, 1]"
        raise PilotFormatError(f"{place()}: {name} must lie in {span}; got {shown([value])}.{hint}")
    if why == "several":
        raise PilotFormatError(
            f"{place()}: {name} = {shown_rate} has too few digits to tell how many of n = {total:,} rollouts passed. "
            "Give counts, or rates with more digits."
        )
    count = (rate or 0.0) / (100.0 if reading.percent else 1.0) * total
    raise PilotFormatError(
        f"{place()}: {name} = {shown_rate} of n = {total:,} is {count:.3g} {'fails' if reading.fails else 'passes'}, "
        "not a whole number. Is n right? Give it with --n-column (n=) or --rollouts-per-prompt (rollouts_per_prompt=)."
    )
