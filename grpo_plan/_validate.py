"""Raw arguments to checked arrays and integers: the only range checks of the closed forms."""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan.errors import DomainError

MAX_GROUP_SIZE = 10**9
MAX_SUMMED_GROUP_SIZE = 10**7  # where the cost grows with the group size
MAX_COUNT = 10**12
NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
KINDS_OF_ARRAYS = {"M": "dates", "m": "time spans", "U": "text", "S": "bytes", "V": "records"}
SMALLEST_LEVEL, LARGEST_LEVEL = 1e-12, 1.0 - 1e-12


def as_float_array(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Numbers as float64, or a one-line error that names the argument; text and dates are no numbers.

    None and masked entries become NaN; tensors are read without their graph, whatever their precision and device.
    """
    refusal = f"{name} must be numbers; got"
    try:
        array = np.asarray(plain(values))
        if array.dtype.kind in "MmUSV":
            raise DomainError(f"{refusal} {KINDS_OF_ARRAYS[array.dtype.kind]}: {_short(values)}. Convert them first.")
        if array.dtype.kind == "O" and any(issubclass(t, str | bytes) for t in set(map(type, array.ravel()))):
            raise DomainError(f"{refusal} text among them: {_short(values)}. Convert it with float() first.")
        if array.dtype.kind == "c":
            raise DomainError(f"{refusal} complex numbers: {_short(values)}. Pass the real part.")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError(f"{refusal} {_short(values)}.") from None


def plain(values: Any) -> Any:
    """Values without masks and tensors: NaN at masked entries, arrays for tensors; lists that hold neither stay.

    >>> plain(np.ma.array([1.0, 2.0], mask=[False, True])).tolist()
    [1.0, nan]
    """
    if isinstance(values, np.ma.MaskedArray):
        held = values.data.astype(np.float64) if values.dtype.kind in "biuf" else values.data
        hidden = np.ma.getmaskarray(values)
        return np.where(hidden, np.nan, held) if hidden.any() else values.data
    if hasattr(values, "detach") and hasattr(values, "cpu"):  # a tensor of torch
        held = values.detach().cpu()
        return (held.double() if held.is_floating_point() else held).numpy()
    if isinstance(values, list | tuple) and any(map(_holds, set(map(type, values)))):
        return [plain(item) for item in values]
    return values


def _holds(kind: type) -> bool:
    """Whether items of a list may be, or hold, masks or tensors."""
    return issubclass(kind, list | tuple | np.ma.MaskedArray) or hasattr(kind, "detach")


def plain_number(text: str) -> float:
    """A number as it is typed: ASCII digits, a point, an exponent, or nan and inf.

    Raises:
        ValueError: Anything else, digits of other scripts and underscores too.

    >>> plain_number(" 1e-4 ")
    0.0001
    """
    if not NUMBER.fullmatch(text.strip()):
        raise ValueError(text)
    return float(text)


def as_probability(values: ArrayLike, name: str = "pass_rate") -> NDArray[np.float64]:
    """Values in [0, 1] as float64, any shape."""
    array = as_float_array(values, name)
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        index = int(np.flatnonzero(bad.ravel())[0])
        value = array.ravel()[index]
        hint = " Percentages? Divide by 100." if 1.0 < value <= 100.0 else ""
        place = "" if array.ndim == 0 else f" at index {index} ({int(bad.sum())} of {array.size} values)"
        raise DomainError(f"{name} must lie in [0, 1]; got {value:g}{place}.{hint}")
    return array


def as_group_size(values: ArrayLike, name: str = "group_size", *, maximum: int = MAX_GROUP_SIZE) -> NDArray[np.int64]:
    """Whole numbers from 1 to ``maximum`` as int64, any shape."""
    if np.asarray(plain(values)).dtype.kind == "b":
        raise DomainError(f"{name} must be a whole number of at least 1; got {_short(values)}. Pass 1 for one.")
    array = as_float_array(values, name)
    bad = ~((array >= 1) & (array <= maximum) & (array == np.floor(array)))
    if bad.any():
        value = array.ravel()[int(np.flatnonzero(bad.ravel())[0])]
        rule = f"at most {maximum:,}" if maximum < value < np.inf else "a whole number of at least 1"
        raise DomainError(f"{name} must be {rule}; got {value:,g}.")
    return array.astype(np.int64)


def as_one_group_size(value: object, name: str = "group_size") -> int:
    """One whole number of at least 1."""
    return as_count(value, name, minimum=1, maximum=MAX_SUMMED_GROUP_SIZE)


def as_count(value: object, name: str, *, minimum: int = 1, maximum: int = MAX_COUNT) -> int:
    """One whole number in [minimum, maximum]; 8.0 is accepted, True and 8.5 are not."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool | np.bool_) or not whole:
        raise DomainError(f"{name} must be a whole number; got {_short(value)}.")
    number = int(value)  # type: ignore[call-overload]
    if not minimum <= number <= maximum:
        bound = f"at least {minimum}" if number < minimum else f"at most {maximum:,}"
        shown = f"{number:,}" if abs(number) < 10**24 else f"about 1e{len(str(abs(number))) - 1}"
        raise DomainError(f"{name} must be {bound}; got {shown}.")
    return int(number)


def as_positive(value: object, name: str, *, allow_zero: bool = False) -> float:
    """One finite number above 0 (or at least 0)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise DomainError(f"{name} must be a number; got {_short(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0 or (number == 0 and not allow_zero):
        rule = "at least 0" if allow_zero else "above 0"
        raise DomainError(f"{name} must be finite and {rule}; got {number:g}.")
    return number


def as_one_probability(value: object, name: str) -> float:
    """One number in [0, 1]."""
    array = as_probability(value, name)  # type: ignore[arg-type]
    if array.ndim:
        raise DomainError(f"{name} must be one number; got shape {array.shape}.")
    return float(array)


def as_level(level: object, name: str = "level") -> float:
    """A confidence level, or another chance, strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, Real) or not SMALLEST_LEVEL <= float(level) <= LARGEST_LEVEL:
        hint = " Percentages? Divide by 100." if isinstance(level, Real) and 1 < float(level) <= 100 else ""
        raise DomainError(f"{name} must lie strictly between 0 and 1 (at most 1 - 1e-12); got {_short(level)}.{hint}")
    return float(level)


def require(value: object, kind: type, name: str, hint: str) -> None:
    """One line where an object of another type was passed."""
    if not isinstance(value, kind):
        raise DomainError(f"{name} must be a {kind.__name__}; got {type(value).__name__}. {hint}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
