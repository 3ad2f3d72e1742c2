"""A small chart of the dead fraction over the steps of a run, in characters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.measured import Counts, Floats, Measured

WIDTH, HEIGHT = 64, 5
BLOCKS, PLAIN, NOTHING = " ▁▂▃▄▅▆▇█", " ..::##", "_"
NARROW = 16  # columns that hold first and last step
MARKED_ROWS = 10  # rows, or a tenth of the log, whose mean is compared with the plan


@dataclass(frozen=True, slots=True)
class Ink:
    """Characters of a chart."""

    levels: str
    between: str  # between the bounds of a share that is not known exactly
    band: str
    above: str


UNICODE = Ink(BLOCKS, "░", "·", "▲")
ASCII = Ink(PLAIN, "%", "-", "^")


def strip(series: Measured, planned: Expected | None = None, *, unicode: bool = True, level: float = 0.95) -> list[str]:
    r"""Lines of a chart from 0 to 1, at most 76 characters wide: a column stands for one or more rows.

    Where a share is only bounded, the solid part is its lower bound and the shaded part its range. The plan's limits
    are dotted above the bars and at the right edge. A column is marked below the chart where the mean of the rows up
    to it, ten or a tenth of the log, is surely above them (`surely_above`).

    >>> from grpo_plan.quantities import Stage
    >>> s = Measured(name="dead_fraction", steps=np.arange(1, 17), values=np.linspace(0.0, 1.0, 16),
    ...              groups=np.full(16, 8), groups_known=True, stage=Stage.UNFILTERED, words="logged")
    >>> print(*strip(s, unicode=False), sep="\n")
    1.0 |             .:#
        |          .:####
        |       .:#######
        |    .:##########
    0.0 |_.:#############
         1             16
    """
    ink = UNICODE if unicode else ASCII
    low, high = _columns(series)
    lines = []
    named = False
    for r in range(HEIGHT - 1, -1, -1):
        label = "1.0 |" if r == HEIGHT - 1 else "0.0 |" if r == 0 else "    |"
        edge = f" {ink.band}{'' if named else ' plan'}" if _in_band(r, planned) else ""
        named = named or bool(edge)
        lines.append((label + "".join(_cell(a, b, r, planned, ink) for a, b in zip(low, high, strict=True))).rstrip())
        if edge:
            lines[-1] = f"{lines[-1]:{len(label) + low.size}}{edge}"
    if planned is not None:
        above = np.maximum.reduceat(surely_above(series, planned.high, level), _edges(series))
        marks = "".join(ink.above if a else " " for a in above).rstrip()
        if marks:
            lines.append(f"     {marks}")
    first, last = f"{series.steps[0]}", f"{series.steps[-1]}"
    width = max(low.size, NARROW)
    if first != last:
        lines.append(f"     {first}{last:>{max(width - len(first), len(last) + 1)}}")
    else:
        lines.append(f"     {first}")
    return lines


def surely_above(series: Measured, limit: float, level: float) -> NDArray[np.bool_]:
    """Rows up to which the mean of the last ten, or of a tenth of the log, is above a limit, shape (R,).

    It is where its lower Clopper-Pearson limit is (theory.md, eq. 84). No row of a log has fewer than ten before it
    looked at: a short log is looked at as a whole, at its last row.
    """
    from scipy.special import betaincinv

    size = min(marked_rows(series), series.rows)
    groups = np.r_[0.0, np.cumsum(series.groups, dtype=np.float64)]
    dead = np.r_[0.0, np.cumsum(np.clip(series.lower, 0.0, 1.0) * series.groups)]
    total, count = groups[size:] - groups[:-size], np.floor(dead[size:] - dead[:-size] + 1e-6)
    low = np.where(count > 0.0, betaincinv(np.maximum(count, 1.0), total - count + 1.0, (1.0 - level) / 2.0), 0.0)
    above: NDArray[np.bool_] = np.r_[np.zeros(series.rows - low.size, dtype=np.bool_), low > limit]
    return above


def marked_rows(series: Measured) -> int:
    """Rows whose mean is compared with the plan."""
    return max(MARKED_ROWS, series.rows // 10)


def rows_a_column(series: Measured) -> float:
    """Rows that a column stands for, on average."""
    return series.rows / min(series.rows, WIDTH)


def legend(series: Measured, planned: Expected | None = None, *, unicode: bool = True, level: float = 0.95) -> str:
    """What the marks of the chart mean."""
    ink = UNICODE if unicode else ASCII
    seen = "".join(strip(series, planned, unicode=unicode, level=level))
    each = rows_a_column(series)
    if each == 1.0:
        said = ["each column is 1 row"]
    else:
        said = ["a column is 1 or 2 rows" if each < 2.0 else f"each column is about {each:,.0f} rows"]
    if not series.exact:
        said.append(f"{ink.between} is where it may lie")
    if planned is not None:
        said.append(f"{ink.band} is the plan's {planned.low:.2f} to {planned.high:.2f}")
        rows = min(marked_rows(series), series.rows)
        mean = "the row" if rows == 1 else f"the mean of {rows:,} rows"
        found = f"{ink.above}: {mean} up to there is" if ink.above in seen else f"nowhere is {mean}"
        said.append(f"{found} surely above it")
    return "; ".join(said)


def _columns(series: Measured) -> tuple[Floats, Floats]:
    """Mean lower and upper bounds of each column, weighted by groups."""
    edges = _edges(series)
    weights = np.add.reduceat(series.groups.astype(np.float64), edges)
    low = np.add.reduceat(series.lower * series.groups, edges) / weights
    high = np.add.reduceat(series.upper * series.groups, edges) / weights
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _edges(series: Measured) -> Counts:
    """First row of each column."""
    columns = min(series.rows, WIDTH)
    return np.linspace(0, series.rows, columns + 1).round().astype(np.int64)[:-1]


def _in_band(row: int, planned: Expected | None) -> bool:
    """Whether the plan's limits reach into a line of the chart."""
    return planned is not None and planned.low * HEIGHT < row + 1 and planned.high * HEIGHT > row


def _cell(low: float, high: float, row: int, planned: Expected | None, ink: Ink) -> str:
    filled = min(max(low * HEIGHT - row, 0.0), 1.0)
    level = round(filled * (len(ink.levels) - 1))
    if level == 0 and filled > 0.0 and row == 0:
        level = 1  # a little is not nothing
    if level:
        return ink.levels[level]
    if high * HEIGHT > row + 1e-9 and high > low:
        return ink.between
    if row == 0 and high <= 0.0:
        return NOTHING
    return ink.band if _in_band(row, planned) else " "
