"""Single values as people write them: rewards, prompts, counts, filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

PASS_WORDS = frozenset({"true", "c", "correct", "pass", "passed", "yes", "right", "success"})
FAIL_WORDS = frozenset({"false", "i", "incorrect", "fail", "failed", "no", "wrong", "failure"})
MISSING_WORDS = frozenset({"", "nan", "null", "none", "na", "n/a"})
NUMERIC_TYPES = frozenset({int, float, bool, type(None)})
RATE_TOLERANCE = 0.05  # k = n * rate may miss a whole number by this much: rates are often rounded


class NotAReward(ValueError):
    """A value that is no reward; ``value`` is what was found and ``index`` where in the batch."""

    def __init__(self, value: object, index: int) -> None:
        super().__init__(value, index)
        self.value, self.index = value, index


def reward_of(value: object) -> float | None:
    """A reward as a number, None if scoring failed.

    Raises:
        ValueError: The value is no reward (a text that says neither pass nor fail, a list, an object).

    >>> [reward_of(v) for v in (True, "C", "0.5", None, float("nan"))]
    [1.0, 1.0, 0.5, None, None]
    """
    if value is None:
        return None
    if isinstance(value, bool | int | float | np.bool_ | np.number):
        number = float(value)
        return None if np.isnan(number) else number
    if isinstance(value, str):
        word = value.strip().lower()
        if word in PASS_WORDS:
            return 1.0
        if word in FAIL_WORDS:
            return 0.0
        if word in MISSING_WORDS:
            return None
        return float(word)
    raise ValueError(value)


def rewards_of(values: Sequence[object]) -> NDArray[np.float64]:
    """Rewards of a batch, NaN where scoring failed.

    Raises:
        NotAReward: With the first offending value and its index.
    """
    if set(map(type, values)) <= NUMERIC_TYPES:  # the common case, without a Python call per value
        return np.array(values, dtype=np.float64)
    out = np.empty(len(values))
    for index, value in enumerate(values):
        try:
            reward = reward_of(value)
        except (ValueError, OverflowError):
            raise NotAReward(value, index) from None
        out[index] = np.nan if reward is None else reward
    return out


def number_of(value: object) -> float | None:
    """A plain number (temperature, tokens, count); None if missing or no number."""
    try:
        number = reward_of(value)
    except (ValueError, OverflowError):
        return None
    return None if number is None or not np.isfinite(number) else number


def numbers_of(values: Sequence[object]) -> NDArray[np.float64]:
    """Plain numbers of a batch, NaN where missing or no number."""
    if set(map(type, values)) <= NUMERIC_TYPES:
        numbers = np.array(values, dtype=np.float64)
    else:
        numbers = np.array([np.nan if (x := number_of(v)) is None else x for v in values], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def texts_of(values: Sequence[object]) -> list[str | None]:
    """Texts of a batch, None where missing."""
    if set(map(type, values)) == {str} and "" not in values:
        return list(values)  # type: ignore[arg-type]
    return [text_of(v) for v in values]


def text_of(value: object) -> str | None:
    """A prompt or a name as text: chat messages and other structures become canonical JSON; None if missing."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, str):
        return value or None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping | Sequence) or not isinstance(value, int | float | bool):
        try:
            return msgspec.json.encode(value, order="sorted").decode()
        except (TypeError, msgspec.MsgspecError):
            return str(value)
    return str(value)


def list_of(value: object) -> list[Any] | None:
    """A list of rewards, also written as JSON text; None if it is no list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = msgspec.json.decode(value)
        except msgspec.MsgspecError:
            return None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    return None


def matches(value: object, wanted: Sequence[str]) -> bool:
    """Whether a value is one of the wanted ones, compared as text, as number or as truth value."""
    if value is None:
        return False
    shown = str(value)
    for want in wanted:
        if shown == want or (isinstance(value, bool) and want.lower() == shown.lower()):
            return True
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                if float(want) == float(value):
                    return True
            except ValueError:
                continue
    return False


def distinct(values: Sequence[object]) -> list[object]:
    """Values without repeats, in order of appearance, compared as text."""
    return list({str(v): v for v in reversed(values)}.values())[::-1]


def shown(values: Sequence[object], limit: int = 6) -> str:
    """Values for a message, shortened."""
    texts = []
    for value in list(values)[:limit]:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        texts.append(text if len(text) <= 40 else text[:37] + "...")
    return ", ".join(texts) + (", ..." if len(values) > limit else "")
