"""Single values as people write them: rewards, prompts, counts, filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

PASS_WORDS = frozenset({"true", "c", "correct", "pass", "passed", "yes", "right", "success"})
FAIL_WORDS = frozenset({"false", "i", "incorrect", "fail", "failed", "no", "wrong", "failure"})
WORDS = PASS_WORDS | FAIL_WORDS
MISSING_WORDS = frozenset({"", "nan", "null", "none", "na", "n/a"})
MISSING_TYPES = frozenset({"NAType", "NaTType"})  # pandas
NUMERIC_TYPES = frozenset({int, float, bool, type(None)})
MAX_WHOLE = 2**53
MAX_DIGITS = 15
RELATIVE_CLOSENESS = 1e-6  # of two numbers compared by --where: float32 columns hold 0.7 as 0.699999988


class NotAReward(ValueError):
    """A value that is no reward; ``value`` is what was found and ``index`` where in the batch."""

    def __init__(self, value: object, index: int) -> None:
        super().__init__(value, index)
        self.value, self.index = value, index


def reward_of(value: object) -> float | None:
    """A reward as a number, None if scoring failed.

    Raises:
        ValueError: The value is no reward (a text that says neither pass nor fail, a list, an object).
        OverflowError: It is a whole number beyond every float.

    >>> [reward_of(v) for v in (True, "C", "0.5", None, float("nan"))]
    [1.0, 1.0, 0.5, None, None]
    """
    if value is None:
        return None
    if isinstance(value, bool | int | float | np.bool_ | np.number | Decimal):
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
    if type(value).__name__ in MISSING_TYPES:
        return None
    raise ValueError(value)


def rewards_of(values: Sequence[object]) -> NDArray[np.float64]:
    """Rewards of a batch, NaN where scoring failed.

    Raises:
        NotAReward: With the first offending value and its index.
    """
    if set(map(type, values)) <= NUMERIC_TYPES:  # the common case, without a Python call per value
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            pass
    out = np.empty(len(values))
    for index, value in enumerate(values):
        try:
            reward = reward_of(value)
        except (ValueError, OverflowError):
            raise NotAReward(value, index) from None
        out[index] = np.nan if reward is None else reward
    return out


def is_missing(value: object) -> bool:
    """Whether a value stands for nothing: None, NaN, an empty text or a word for missing."""
    try:
        return reward_of(value) is None
    except (ValueError, OverflowError):
        return False


def number_of(value: object) -> float | None:
    """A plain number (temperature, tokens, count); None if missing or no number."""
    try:
        number = reward_of(value)
    except (ValueError, OverflowError):
        return None
    return None if number is None or not np.isfinite(number) else number


def numbers_of(values: Sequence[object]) -> NDArray[np.float64]:
    """Plain numbers of a batch, NaN where missing or no number."""
    numbers = None
    if set(map(type, values)) <= NUMERIC_TYPES:
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:  # a whole number beyond every float
            pass
    if numbers is None:
        numbers = np.array([np.nan if (x := number_of(v)) is None else x for v in values], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number that a float holds exactly, as ids and steps are; a truth value is none.

    >>> is_whole(3), is_whole(True), is_whole(3.0), is_whole(10**20)
    (True, False, False, False)
    """
    return type(value) is int and abs(value) <= MAX_WHOLE


def whole_of(text: str) -> int | None:
    """A text of up to 15 decimal digits as a number, else None.

    >>> whole_of("042"), whole_of("-1"), whole_of("9" * 16), whole_of("\u00b2")
    (42, None, None, None)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def texts_of(values: Sequence[object]) -> list[str | None]:
    """Texts of a batch, None where missing."""
    kinds = set(map(type, values))
    if kinds == {type(None)} or (kinds == {str} and "" not in values):
        return list(values)  # type: ignore[arg-type]
    return [text_of(v) for v in values]


def text_of(value: object) -> str | None:
    """A prompt or a name as text: chat messages and other structures become canonical JSON; None if missing."""
    if value is None or (isinstance(value, float) and np.isnan(value)) or type(value).__name__ in MISSING_TYPES:
        return None
    if isinstance(value, str):
        return value or None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping | Sequence) or not isinstance(value, int | float | bool):
        try:
            return msgspec.json.encode(value, order="sorted").decode()
        except (TypeError, UnicodeError, RecursionError, OverflowError, msgspec.MsgspecError):
            return str(value)
    return str(value)


def from_plain(value: Mapping[str, Any], kind: Any) -> Any:
    """An object of plain values as a struct; raw fields take it through JSON, where NaN and Infinity become null.

    Raises:
        msgspec.ValidationError: A field is of another type.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeError):
        return msgspec.json.decode(msgspec.json.encode(_encodable(value)), type=kind)


def _encodable(value: Any) -> Any:
    """A plain value with what JSON of 64 bits in UTF-8 can hold: no lone surrogates, no larger whole numbers."""
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return str(value) if type(value) is int and not -(2**63) <= value < 2**64 else value


def writable(texts: Sequence[str | None]) -> list[str | None]:
    """Texts that UTF-8 can hold: lone surrogates are written as escapes."""
    return [t if t is None else t.encode("utf-8", "backslashreplace").decode() for t in texts]


def text_series(values: Sequence[object]) -> pl.Series:
    """Texts of a batch as a column of the table engine."""
    import polars as pl

    texts = texts_of(values)
    try:
        return pl.Series(texts, dtype=pl.String)
    except UnicodeEncodeError:
        return pl.Series(writable(texts), dtype=pl.String)


def list_of(value: object) -> list[Any] | None:
    """A list of rewards, also written as JSON text; None if it is no list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = json_text(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(value)
    return None


def json_text(text: str) -> Any:
    """What a text of JSON holds; None if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def matches(value: object, wanted: Sequence[str]) -> bool:
    """Whether a value is one of the wanted ones: as text, as truth value, or as a number (floats up to 1e-6)."""
    if value is None:
        return False
    plain = str(value)
    number = None if isinstance(value, bool) else number_of(value)
    for want in wanted:
        if plain == want or (want.lower() in ("true", "false") and want.lower() == plain.lower()):
            return True
        if number is not None and _same_number(value, number, want):
            return True
    return False


def matches_text(value: object, wanted: Sequence[str]) -> bool:
    """`matches`, also for a number or truth value that a table holds as text."""
    if isinstance(value, str) and (number := number_of(value)) is not None and value.strip().lower() not in WORDS:
        return matches(value, wanted) or matches(int(number) if number.is_integer() else number, wanted)
    return matches(value, wanted)


def _same_number(value: object, number: float, want: str) -> bool:
    try:
        if isinstance(value, int) and want.lstrip("+-").isdigit():
            return value == int(want)
        other = float(want)
    except ValueError:
        return False
    return (
        abs(number - other) <= RELATIVE_CLOSENESS * max(1.0, abs(other))
        if not float(number).is_integer()
        else number == other
    )


def distinct(values: Sequence[object]) -> list[object]:
    """Values without repeats, in order of appearance, compared as text."""
    return list({str(v): v for v in reversed(values)}.values())[::-1]


def one_line(text: str) -> str:
    """Text with line breaks and other characters that do not print as escapes.

    >>> one_line(f"a{chr(10)}b") == "a" + chr(92) + "nb"
    True
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(values: Sequence[object], limit: int = 6) -> str:
    """Values for a message, shortened; floats with the digits they need."""
    texts = []
    for value in list(values)[:limit]:
        if isinstance(value, float):
            text = f"{value:g}" if float(f"{value:g}") == value or value != value else repr(value)
        else:
            text = one_line(str(value)[:100])
        texts.append(text if len(text) <= 40 else text[:37] + "...")
    return ", ".join(texts) + (", ..." if len(values) > limit else "")
