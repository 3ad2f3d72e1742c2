"""What a table shows of a result: a field is one column for the reader, and one or more columns of the dataframe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from operator import attrgetter
from typing import Any, Literal

from grpo_plan._words import few, rate, short_count, with_interval

Kind = Literal["int", "float", "text", "flag"]
Get = str | Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a dataframe.

    Attributes:
        name: Its name.
        kind: Type of its values.
        unit: Unit, "share" for fractions in [0, 1]; empty for names and flags.
        meaning: What it says.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table.

    Attributes:
        title: Its head; empty if only the dataframe has it.
        columns: Columns of the dataframe behind it.
        get: From a row (or from the result, where all rows come at once) to the value of each column.
        cell: From these values of one row to what is shown.
    """

    title: str
    columns: tuple[Column, ...]
    get: Callable[[Any], Sequence[Any]]
    cell: Callable[..., str]

    @property
    def right(self) -> bool:
        """Whether its cells are numbers."""
        return self.columns[0].kind in ("int", "float")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is shown of a type.

    Attributes:
        headline: The answer in one or two sentences, with limits and status.
        row: What one row is, in words.
        rows: The rows; None where each field gives the values of all rows at once.
        fields: The fields, or how to find them where they differ from result to result.
        pick: Which rows a page shows, where it cannot show all; None: the first ones.
        marked: Whether a row stands out on a page.
        titles: Heads that differ from result to result, by the title of the field.
        page: Another result whose table a page shows instead.
        more: How to get all rows of what a page shows.
        notes: Sentences below the table.
    """

    headline: Callable[[Any], str]
    row: str
    fields: tuple[Field, ...] | Callable[[Any], tuple[Field, ...]]
    rows: Callable[[Any], Iterable[Any]] | None = None
    pick: Callable[[Any], Sequence[int]] | None = None
    marked: Callable[[Any], bool] | None = None
    titles: Callable[[Any], dict[str, str]] | None = None
    page: Callable[[Any], Any] | None = None
    more: str = ".to_frame()"
    notes: Callable[[Any], Iterable[str]] | None = None

    def fields_of(self, result: Any) -> tuple[Field, ...]:
        """The fields of one result."""
        return self.fields(result) if callable(self.fields) else self.fields


def one(result: Any) -> tuple[Any, ...]:
    """The rows of a result that is one row itself."""
    return (result,)


def spread(count: int, shown: int) -> list[int]:
    """Row numbers at equal distances, the first and the last among them.

    >>> spread(44, 4), spread(2, 4)
    ([0, 14, 29, 43], [0, 1])
    """
    if count <= shown:
        return list(range(count))
    return [round(i * (count - 1) / (shown - 1)) for i in range(shown)]


def _getter(name: str, get: Get) -> Callable[[Any], Any]:
    if callable(get):
        return get
    path = (get or name).split(".")

    def follow(row: Any) -> Any:
        for part in path:
            if row is None:
                return None
            row = attrgetter(part)(row)
        return row

    return follow


def plain(value: Any) -> Any:
    """A value as a dataframe holds it: enumerations by name, what is no number as None.

    >>> plain(float("nan")), plain(("a", "b")), plain(3)
    (None, 'a, b', 3)
    """
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple | list):
        return ", ".join(str(plain(v)) for v in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _title(name: str, title: str | None) -> str:
    return name.replace("_", " ") if title is None else title


def _single(
    kind: Kind, name: str, unit: str, meaning: str, get: Get, title: str | None, cell: Any, none: str = "unknown"
) -> Field:
    found = _getter(name, get)
    return Field(
        _title(name, title), (Column(name, kind, unit, meaning),), lambda row: (found(row),), known(cell, none)
    )


def known(show: Callable[[Any], str], none: str = "unknown") -> Callable[[Any], str]:
    """How to show a value that may be unknown."""
    return lambda value: none if value is None else show(value)


def figures(value: float) -> str:
    """Four digits of any number, in full up to ten million.

    >>> figures(0.00012346), figures(31.25), figures(1998000.0), figures(7.81e9)
    ('0.0001235', '31.25', '1,998,000', '7.81e9')
    """
    return f"{value:,.4g}" if abs(value) < 9999.5 else short_count(value)


def whole(
    name: str, meaning: str, get: Get = None, *, unit: str = "", title: str | None = None, none: str = "unknown"
) -> Field:
    """A whole number; ``none`` is shown in the place of one that there is not."""
    return _single("int", name, unit, meaning, get, title, short_count, none)


def plain_number(name: str, meaning: str, get: Get = None, *, title: str | None = None) -> Field:
    """A whole number that is a name: a step, a row; without separators."""
    return _single("int", name, "", meaning, get, title, str)


def number(
    name: str,
    meaning: str,
    get: Get = None,
    *,
    unit: str = "",
    title: str | None = None,
    show: Callable[[Any], str] = figures,
) -> Field:
    """A number without limits."""
    return _single("float", name, unit, meaning, get, title, show)


def share(
    name: str,
    meaning: str,
    get: Get = None,
    *,
    title: str | None = None,
    show: Callable[[Any], str] = rate,
) -> Field:
    """A share or a chance without limits."""
    return _single("float", name, "share", meaning, get, title, show)


def text(name: str, meaning: str, get: Get = None, *, title: str | None = None) -> Field:
    """A name, a status or a sentence."""
    return _single("text", name, "", meaning, get, title, str)


def flag(name: str, meaning: str, get: Get = None, *, title: str | None = None) -> Field:
    """Yes or no."""
    return _single("flag", name, "", meaning, get, title, lambda value: "yes" if value else "no")


def with_limits(
    name: str,
    meaning: str,
    get: Get = None,
    *,
    unit: str = "share",
    title: str | None = None,
    show: Callable[[Any], str] = rate,
) -> Field:
    """A number with its limits: three columns, ``NAME``, ``NAME_low`` and ``NAME_high``.

    ``get`` gives something with ``value``, ``low`` and ``high``, or these three, or None.
    """
    found = _getter(name, get)
    columns = (
        Column(name, "float", unit, meaning),
        Column(f"{name}_low", "float", unit, "lower confidence limit"),
        Column(f"{name}_high", "float", unit, "upper confidence limit"),
    )

    def three(row: Any) -> Sequence[Any]:
        value = found(row)
        if value is None:
            return None, None, None
        return value if isinstance(value, tuple) else (value.value, value.low, value.high)

    return Field(_title(name, title), columns, three, lambda *ends: ranged(*ends, show=show))


def ranged(value: float | None, low: float | None, high: float | None, *, show: Callable[[Any], str] = rate) -> str:
    """A number with its limits.

    >>> ranged(0.4392, 0.4113, 0.4674), ranged(None, 0.2, 1.0), ranged(12.0, 9.5, None, show=figures)
    ('0.439 [0.411, 0.467]', 'unknown [0.200, 1.000]', '12 [9.5, no limit]')
    >>> ranged(0.5, None, None)
    '0.500'
    """
    shown = "unknown" if value is None else show(value)
    if low is None and high is None:
        return shown
    if show is rate and low is not None and high is not None:
        return with_interval(value, low, high)
    ends = ("no limit" if end is None else show(end) for end in (low, high))
    return f"{shown} [{', '.join(ends)}]"


def varying(name: str, meaning: str, get: Get = None, *, unit: str, title: str | None = None) -> Field:
    """A count that varies from step to step: mean, standard deviation, 5, 50 and 95 % quantiles."""
    found = _getter(name, get)
    parts = (
        ("mean", "mean over steps"),
        ("sd", "standard deviation over steps"),
        ("p05", "5 % of steps have at most this"),
        ("p50", "half of the steps have at most this"),
        ("p95", "95 % of steps have at most this"),
    )
    columns = tuple(
        Column(f"{name}_{part}", "float", unit, f"{meaning}: {words}" if part == "mean" else words)
        for part, words in parts
    )

    def five(row: Any) -> Sequence[Any]:
        summary = found(row)
        return [None] * 5 if summary is None else [getattr(summary, part) for part, _ in parts]

    return Field(_title(name, title), columns, five, _spread_cell)


def _spread_cell(mean: float | None, _sd: Any, p05: float | None, _p50: Any, p95: float | None) -> str:
    if mean is None:
        return "unknown"
    return few(mean) if p05 is None or p95 is None else f"{few(mean)} ({short_count(p05)} to {short_count(p95)})"


def columns_of(fields: Iterable[Field]) -> Iterator[Column]:
    """The columns of a dataframe, in order."""
    for field in fields:
        yield from field.columns
