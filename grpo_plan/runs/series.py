"""A logged share of groups, row by row: how many groups stand behind it, and its value over a window."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array, as_level
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
ROUNDING = 1e-6  # how far beyond 0 or 1 a float32 mean of shares can lie
LEAST_COUNTED = 0.4  # of a group: what rounding can hide of one, however many there are
LATE_SHARE, LATE_ROWS = 5, 10  # the last fifth, but at least ten rows
SINGLE_PRECISION = 3e-7  # error of a mean taken in float32
LONG_DECIMALS = 8  # from so many decimals on, a number was not rounded for the log
MOST_GROUPS = 4096
LEAST_SHARES = 3  # rows that must say something before a number of groups is believed
LEAST_NEEDING = 0.1  # share of the rows that must need it
MOST_DISTINCT = 2000
EXACT_STEPS = 2.0**50  # steps up to here, and their differences, are exact in float64


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share over a window of rows, with its limits.

    Attributes:
        value: Share of the groups behind the rows; None without rows.
        low: Lower confidence limit, 0 without rows.
        high: Upper confidence limit, 1 without rows.
        rows: Rows with a value.
        groups: Groups behind them, or a lower bound.
        level: Confidence level.
    """

    value: float | None
    low: float
    high: float
    rows: int
    groups: float
    level: float


def as_row(values: ArrayLike, name: str = "values") -> Floats:
    """One row of numbers, NaN where a step has none; infinite ones are refused."""
    array = as_float_array(values, name)
    if array.ndim != 1:
        raise DomainError(f"{name} must be one row of numbers; got shape {array.shape}.")
    if np.isinf(array).any():
        where = int(np.argmax(np.isinf(array)))
        raise DomainError(f"{name} must be finite, NaN where a row has none; got {array[where]:g} at index {where}.")
    return array


def as_steps(steps: ArrayLike) -> tuple[Floats, int]:
    """Steps counted from a whole one, and that one: float64 has no place for the digits of very large steps.

    >>> as_steps([2**60, 2**60 + 1])
    (array([0., 1.]), 1152921504606846976)
    """
    given = np.asarray(steps)
    if given.ndim != 1 or given.dtype.kind != "i" or not given.size:
        return as_row(steps, "steps"), 0
    base = int(given.min()) if float(np.abs(given).max(initial=0)) > EXACT_STEPS else 0
    whole = given.astype(np.int64).astype(np.uint64) - np.uint64(base % 2**64)  # no overflow from end to end
    return (whole.astype(np.float64) if base else given.astype(np.float64)), base


def as_shares(values: ArrayLike) -> Floats:
    """Shares in [0, 1], shape (S,), NaN where a row has none; what rounding put beyond the ends is put back."""
    array = as_row(values)
    bad = (array < -ROUNDING) | (array > 1.0 + ROUNDING)
    if bad.any():
        where = int(np.argmax(bad))
        hint = " Percentages? Divide by 100." if 1.0 < array[where] <= 100.0 else ""
        raise DomainError(f"values must be shares in [0, 1]; got {array[where]:g} at index {where}.{hint}")
    return np.clip(array, 0.0, 1.0)


def as_groups(groups: ArrayLike | None, rows: int) -> Floats:
    """Groups behind each row, shape (S,), 1 where they are not known."""
    if groups is None:
        return np.ones(rows)
    array = as_float_array(groups, "groups")
    if array.ndim > 1 or array.size not in (1, rows):
        raise DomainError(f"groups must be one number or one per row ({rows:,}); got shape {array.shape}.")
    if np.isinf(array).any() or (array < 0).any():
        raise DomainError(
            "groups must be finite numbers of at least 1, NaN where unknown. Check the log's batch sizes."
        )
    return np.broadcast_to(np.where(array >= 1.0, np.floor(array), 1.0), (rows,)).astype(np.float64)


def late_window(rows: int) -> slice:
    """The last fifth of the rows, at least ten of them; all rows of a shorter log.

    >>> late_window(200), late_window(30), late_window(6)
    (slice(160, 200, None), slice(20, 30, None), slice(0, 6, None))
    """
    count = as_count(rows, "rows", minimum=0)
    return slice(max(0, count - max(LATE_ROWS, count // LATE_SHARE)), count)


def share_over(values: ArrayLike, groups: ArrayLike | None = None, *, level: float = 0.95) -> Share:
    """The share over all rows given, each row weighted by its groups, with Clopper-Pearson limits (theory.md, eq. 84).

    They hold while the share drifts from row to row: they are then limits of its mean over the groups.

    Args:
        values: Shares of groups, shape (S,), NaN where a row has none.
        groups: Groups behind each row (one number, or shape (S,)), or a lower bound; unknown ones count as 1.
        level: Confidence level.

    Raises:
        DomainError: A value is not a share, or groups do not fit the rows.

    >>> share = share_over([0.5, 0.25, float("nan"), 0.75], groups=8)
    >>> share.value, round(share.low, 3), round(share.high, 3), share.rows, share.groups
    (0.5, 0.291, 0.709, 3, 24.0)
    """
    from scipy.special import betaincinv

    tail = (1.0 - as_level(level)) / 2.0
    x = as_shares(values)
    n = as_groups(groups, x.size)
    known = np.isfinite(x)
    total = float(n[known].sum())
    if total == 0.0:
        return Share(value=None, low=0.0, high=1.0, rows=0, groups=0.0, level=level)
    count = float(n[known] @ x[known])
    slack = min(ROUNDING * total, LEAST_COUNTED)
    below, beyond = np.floor(count + slack), np.ceil(count - slack)
    low = float(betaincinv(below, total - below + 1.0, tail)) if below > 0 else 0.0
    high = float(betaincinv(beyond + 1.0, total - beyond, 1.0 - tail)) if beyond < total else 1.0
    value = min(count / total, 1.0)
    return Share(
        value=value, low=min(low, value), high=max(high, value), rows=int(known.sum()), groups=total, level=level
    )


def groups_at_least(values: ArrayLike) -> int:
    """Smallest number of groups a row that explains every share as a multiple of 1/N (theory.md, eq. 85).

    It is a lower bound of N if N is the same for all rows. Shares that were rounded or cut for the log say less, which
    lowers it. It is 1 where there is doubt: fewer than three shares inside (0, 1), no N up to 4,096, or no N that
    single rows need as much as all rows together do (N then changes from row to row, or was rounded away).

    >>> groups_at_least([0.25, 0.625, 0.5, 1.0, 0.375])
    8
    >>> groups_at_least([0.593, 0.12, 0.407, 0.88])  # rounded: neither 1,000 nor 25
    1
    """
    x = as_shares(values)
    inside = x[np.isfinite(x) & (x > 0.0) & (x < 1.0)]
    if inside.size < LEAST_SHARES:
        return 1
    shares, repeats = np.unique(inside, return_counts=True)
    shares, repeats = shares[:: 1 + shares.size // MOST_DISTINCT], repeats[:: 1 + shares.size // MOST_DISTINCT]
    decimals = max(_decimals(float(s)) for s in shares)
    slack = SINGLE_PRECISION if decimals >= LONG_DECIMALS else max(SINGLE_PRECISION, 10.0**-decimals)
    least = np.zeros(shares.size, dtype=np.int64)  # of each share alone
    for n in range(1, MOST_GROUPS + 1):
        fits = np.abs(shares * n - np.round(shares * n)) <= slack * n
        least[fits & (least == 0)] = n
        if fits.all():
            return n if repeats[least == n].sum() >= LEAST_NEEDING * repeats.sum() else 1
    return 1


def _decimals(share: float) -> int:
    """Decimals of the shortest number that reads as this one, in float32 if it is one."""
    single = np.float32(share)
    text = str(single) if float(single) == share else repr(share)
    return max(0, -int(Decimal(text).as_tuple().exponent))
