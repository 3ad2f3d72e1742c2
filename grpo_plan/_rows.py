"""Columns of a pilot, checked: counts, labels, numbers, lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array
from grpo_plan.errors import DomainError, PilotError

MAX_ROLLOUTS_PER_PROMPT = 10_000_000


def passes_and_rollouts(successes: ArrayLike, rollouts: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Passes and rollouts as arrays of one length, k at most n."""
    k, n = np.atleast_1d(counts_of(successes, "successes")), counts_of(rollouts, "rollouts")
    n = np.broadcast_to(n, k.shape) if n.ndim == 0 else n
    if n.shape != k.shape:
        raise PilotError(f"successes and rollouts must have one length; got {k.size} and {n.size}.")
    over = np.flatnonzero(k > n)
    if over.size:
        i = int(over[0])
        raise PilotError(
            f"successes must not exceed rollouts; got k = {k[i]} of n = {n[i]} at index {i} "
            f"({over.size} of {k.size} prompts). Swapped columns?"
        )
    if n.size and int(n.max()) > MAX_ROLLOUTS_PER_PROMPT:
        raise PilotError(
            f"rollouts must be at most {MAX_ROLLOUTS_PER_PROMPT:,} a prompt; got {int(n.max()):,} at index "
            f"{int(n.argmax())}."
        )
    return k, n


def counts_of(values: ArrayLike, name: str) -> NDArray[np.int64]:
    """Whole numbers of at least 0."""
    array: NDArray[Any] = np.asarray(values) if isinstance(values, np.ndarray) else _as_numbers(values, name)
    if array.ndim > 1:
        raise PilotError(f"{name} must be one-dimensional, one value a prompt; got shape {array.shape}.")
    if array.dtype.kind != "i":
        array = _as_numbers(array, name)
    if array.dtype.kind == "i":
        bad = np.atleast_1d(array < 0)
    else:
        with np.errstate(invalid="ignore"):
            bad = np.atleast_1d(~((array >= 0) & (array <= 2**53) & (array == np.floor(array))))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise PilotError(
            f"{name} must be whole numbers of at least 0; got {float(np.atleast_1d(array)[first]):g} at index {first} "
            f"({int(bad.sum())} of {array.size})."
        )
    return array.astype(np.int64)


def _as_numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return as_float_array(values, name)
    except DomainError as error:
        raise PilotError(str(error)) from None


def labels_of(values: ArrayLike | None, name: str, size: int) -> NDArray[np.object_] | None:
    """One label a row."""
    if values is None:
        return None
    array = np.empty(size, dtype=object)
    items = values if isinstance(values, list) else [values] if isinstance(values, str | int | float) else list(values)  # type: ignore[arg-type]
    if len(items) != size:
        raise PilotError(f"{name} must have one value a prompt ({size}); got {len(items)}.")
    array[:] = items
    return array


def numbers_of(values: ArrayLike | None, name: str, size: int) -> NDArray[np.float64] | None:
    """One number a row, or one for all."""
    if values is None:
        return None
    array = as_float_array(values, name)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise PilotError(f"{name} must have one value a prompt ({size}); got shape {array.shape}.")
    return array


def lengths_of(values: ArrayLike | None, name: str, size: int) -> NDArray[np.float64] | None:
    """Lengths in tokens: at least 0, NaN where unknown."""
    array = numbers_of(values, name, size)
    if array is None:
        return None
    array = np.where(np.isfinite(array), array, np.nan)
    low = np.flatnonzero(array < 0.0)
    if low.size:
        raise PilotError(f"{name} must be at least 0; got {array[low[0]]:g} at index {int(low[0])}.")
    return array
