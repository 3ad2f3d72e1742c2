"""Raw lengths, masks and advantages to checked arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import MAX_COUNT, plain
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]


def numbers_of(values: ArrayLike, name: str) -> Floats:
    """Real numbers as float64, any shape; text, objects and ragged lists are refused."""
    try:
        array = np.asarray(plain(values))
    except ValueError:
        raise DomainError(f"{name} must be numbers in one shape; got lists of different lengths. Pad them.") from None
    if array.dtype.kind not in "biuf":
        held = "complex numbers" if array.dtype.kind == "c" else "text or objects"
        raise DomainError(f"{name} must be numbers; got {held}, e.g. {str(array.ravel()[:1].tolist())[:40]}.")
    return array.astype(np.float64)


def as_lengths(values: ArrayLike, name: str = "lengths") -> Floats:
    """Loss tokens of each response, shape (N,): whole numbers of at least 0.

    Raises:
        DomainError: No response, or a length that is no such number.

    >>> as_lengths([2, 0, 8]).tolist()
    [2.0, 0.0, 8.0]
    """
    array = numbers_of(values, name)
    if array.ndim != 1 or not array.size:
        raise DomainError(f"{name} must be a list with one number a response; got shape {array.shape}.")
    with np.errstate(invalid="ignore"):
        bad = ~((array >= 0.0) & (array <= MAX_COUNT) & (array == np.floor(array)))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DomainError(
            f"{name} must be whole numbers of tokens from 0 to 1e12; got {array[i]:g} at index {i} "
            f"({int(bad.sum()):,} of {array.size:,}). A response of unknown length has to be left out."
        )
    return array


def as_mask(values: ArrayLike, name: str = "mask") -> NDArray[np.bool_]:
    """Which tokens count in the loss, shape (N, T): 0 or 1.

    Raises:
        DomainError: Another shape or value.
    """
    array = numbers_of(values, name)
    if array.ndim != 2 or not array.size:
        raise DomainError(f"{name} must have shape (responses, tokens); got {array.shape}. One response: [[1, 1, 0]].")
    bad = (array != 0.0) & (array != 1.0)
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise DomainError(f"{name} must hold 0 and 1 alone; got {array[i, j]:g} at response {i}, token {j}.")
    return array.astype(bool)


def as_advantages(values: ArrayLike, size: int, name: str = "advantages") -> Floats:
    """One finite advantage a response, shape (N,).

    Raises:
        DomainError: Another shape, or one that is not finite.
    """
    array = numbers_of(values, name)
    if array.shape != (size,):
        raise DomainError(f"{name} must be one number a response, {size:,} in all; got shape {array.shape}.")
    bad = ~np.isfinite(array)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DomainError(
            f"{name} must be finite; got {array[i]:g} at index {i} ({int(bad.sum()):,} of {size:,}). A rollout whose "
            "scoring failed has advantage 0 in most trainers: say so with 0."
        )
    return array


def as_codes(values: object, size: int, name: str) -> NDArray[np.int64]:
    """Names as whole numbers from 0, shape (N,), in order of first appearance."""
    items = list(values) if isinstance(values, list | tuple | np.ndarray) else []
    if len(items) != size:
        raise DomainError(f"{name} must hold one name a response, {size:,} in all; got {len(items):,}.")
    numbers: dict[object, int] = {}
    try:
        return np.array([numbers.setdefault(item, len(numbers)) for item in items], dtype=np.int64)
    except TypeError:
        raise DomainError(f"{name} must hold names or numbers; got {type(items[0]).__name__}.") from None
