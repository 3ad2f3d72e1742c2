"""Counts of a prompt as tables hold them: whole numbers, or pass rates of a known number of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.pilot import MAX_ROLLOUTS_PER_PROMPT
from grpo_plan.readers.values import number_of, numbers_of, shown


def plain_counts(n: Sequence[Any], k: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Both counts at once where every one is a valid whole number; None if any needs a closer look."""
    if not set(map(type, n)) | set(map(type, k)) <= {int}:
        return None
    total, passes = numbers_of(n), numbers_of(k)
    if np.all((passes >= 0) & (passes <= total) & (total <= MAX_ROLLOUTS_PER_PROMPT)):
        return total.astype(np.int64), passes.astype(np.int64)
    return None


def plain_rates(n: Sequence[Any], rates: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Counts behind pass rates where every one is a whole number of passes; None if any needs a closer look."""
    if not (set(map(type, n)) <= {int} and set(map(type, rates)) <= {float}):
        return None
    total, rate = numbers_of(n), numbers_of(rates)
    passes = np.rint(total * rate)
    with np.errstate(invalid="ignore"):
        fine = (rate >= 0.0) & (rate <= 1.0) & (abs(total * rate - passes) <= 1e-6)
    if np.all(fine & (total >= 0) & (total <= MAX_ROLLOUTS_PER_PROMPT)):
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


def successes(value: object, total: int, place: Callable[[], str], name: str) -> int:
    """Passes behind a pass rate: n times the rate, a whole number up to the rounding of the rate's digits."""
    rate = number_of(value)
    if rate is None or not 0.0 <= rate <= 1.0:
        hint = " Percentages? Divide by 100." if rate is not None and 1.0 < rate <= 100.0 else ""
        raise PilotFormatError(f"{place()}: {name} must lie in [0, 1]; got {shown([value])}.{hint}")
    digits = len(f"{rate:.12f}".rstrip("0").partition(".")[2])
    slack = 0.5 * 10.0**-digits * total * (1.0 + 1e-9) + 1e-9 * total
    passes = round(rate * total)
    if slack >= 0.5 and abs(rate * total - passes) > 1e-6:
        raise PilotFormatError(
            f"{place()}: {name} = {rate:g} has too few digits to tell how many of n = {total:,} rollouts passed. "
            "Give counts, or rates with more digits."
        )
    if abs(rate * total - passes) > max(slack, 1e-6):
        raise PilotFormatError(
            f"{place()}: {name} = {rate:g} of n = {total:,} is {rate * total:.3g} passes, not a whole number. "
            "Is n right? Give it with --n-column or --rollouts-per-prompt."
        )
    return passes
