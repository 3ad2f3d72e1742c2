"""A small chart of the dead fraction over the steps of a run, in characters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.measured import Floats, Measured

WIDTH, HEIGHT = 64, 5
BLOCKS, PLAIN, NOTHING = " ▁▂▃▄▅▆▇█", " ..::##", "_"
NARROW = 16  # columns that hold first and last step


@dataclass(frozen=True, slots=True)
class Ink:
    """Characters of a chart."""

    levels: str
    between: str  # between the bounds of a share that is not known exactly
    band: str
    above: str


UNICODE = Ink(BLOCKS, "░", "·", "▲")
ASCII = Ink(PLAIN, "%", "-", "^")


def strip(series: Measured, planned: Expected | None = None, *, unicode: bool = True) -> list[str]:
    r"""Lines of a chart from 0 to 1, at most 72 characters wide: a column stands for one or more rows.

    Where a share is only bounded, the solid part is its lower bound and the shaded part its range. The plan's limits
    are dotted, and columns above them are marked below the chart.

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
    for r in range(HEIGHT - 1, -1, -1):
        label = "1.0 |" if r == HEIGHT - 1 else "0.0 |" if r == 0 else "    |"
        lines.append((label + "".join(_cell(a, b, r, planned, ink) for a, b in zip(low, high, strict=True))).rstrip())
    if planned is not None:
        marks = "".join(ink.above if a > planned.high else " " for a in low).rstrip()
        if marks:
            lines.append(f"     {marks}")
    first, last = f"{series.steps[0]}", f"{series.steps[-1]}"
    width = max(low.size, NARROW)
    if first != last:
        lines.append(f"     {first}{last:>{max(width - len(first), len(last) + 1)}}")
    else:
        lines.append(f"     {first}")
    return lines


def rows_a_column(series: Measured) -> float:
    """Rows that a column stands for, on average."""
    return series.rows / min(series.rows, WIDTH)


def legend(series: Measured, planned: Expected | None = None, *, unicode: bool = True) -> str:
    """What the marks of the chart mean."""
    ink = UNICODE if unicode else ASCII
    seen = "".join(strip(series, planned, unicode=unicode))
    each = rows_a_column(series)
    if each == 1.0:
        said = ["each column is 1 row"]
    else:
        said = ["a column is 1 or 2 rows" if each < 2.0 else f"each column is about {each:,.0f} rows"]
    if not series.exact:
        said.append(f"{ink.between} is where it may lie")
    if planned is not None:
        band = f"the plan's {planned.low:.2f} to {planned.high:.2f}"
        marks = [f"{ink.band} is {band}"] if ink.band in seen else []
        if ink.above in seen:
            marks.append(f"{ink.above} is above {'it' if marks else band}")
        said.append(", ".join(marks) or f"nothing is above {band}")
    return "; ".join(said)


def _columns(series: Measured) -> tuple[Floats, Floats]:
    """Mean lower and upper bounds of each column, weighted by groups."""
    columns = min(series.rows, WIDTH)
    edges = np.linspace(0, series.rows, columns + 1).round().astype(np.int64)[:-1]
    weights = np.add.reduceat(series.groups.astype(np.float64), edges)
    low = np.add.reduceat(series.lower * series.groups, edges) / weights
    high = np.add.reduceat(series.upper * series.groups, edges) / weights
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


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
    if planned is not None and planned.low * HEIGHT < row + 1 and planned.high * HEIGHT > row:
        return ink.band
    return " "
