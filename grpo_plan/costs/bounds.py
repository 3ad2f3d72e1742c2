"""Range of the numbers that costs are made of: wide enough for every run, and no product of them overflows."""

from __future__ import annotations

from grpo_plan._validate import as_positive
from grpo_plan.errors import DomainError

SMALLEST, LARGEST = 1e-9, 1e15


def as_amount(value: object, name: str, *, allow_zero: bool = False) -> float:
    """One finite number from 1e-9 to 1e15, or 0 where that is allowed.

    Raises:
        DomainError: It is none, or out of range.
    """
    number = as_positive(value, name, allow_zero=allow_zero)
    if number != 0.0 and not SMALLEST <= number <= LARGEST:
        bound = f"at least {SMALLEST:g}" if number < SMALLEST else f"at most {LARGEST:g}"
        raise DomainError(f"{name} must be {bound}; got {number:g}.")
    return number
