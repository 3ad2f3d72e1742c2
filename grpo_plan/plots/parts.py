"""What pictures share: axes of sizes and shares, bands, rows of intervals, labels at curves, words for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.plots.style import BAND, BESIDE, BLUE, GREY, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
GROUP_SIZE = "group size G (rollouts per prompt)"
FEW_TICKS = 8
ROW = 0.42  # inches of a row of intervals
OPEN = 0.06  # of the width: the arrow of an interval without an end
LINE = 0.055  # height of a label, of the axes
MOST_NAME = 30  # characters of a name on an axis


def log2_axis(ax: Axes, values: Sequence[int] | NDArray[Any], label: str = GROUP_SIZE, *, room: float = 1.1) -> None:
    """A doubling x axis with the values as ticks; with many, the powers of two among their range."""
    low, high = int(min(values)), int(max(values))
    few = len(set(map(int, values))) <= FEW_TICKS
    ticks = sorted(set(map(int, values))) if few else [2**i for i in range(31) if low <= 2**i <= high]
    kept = [t for i, t in enumerate(ticks) if i == 0 or not few or t >= 1.25 * ticks[i - 1]]
    ax.set_xscale("log", base=2)
    ax.set_xticks([float(t) for t in kept], [f"{t:,}" for t in kept])
    ax.minorticks_off()
    ax.set_xlim(low / room, high * room)
    ax.set_xlabel(label)


def share_axis(ax: Axes, label: str = "share of groups", *, top: float = 1.02) -> None:
    """A y axis of a share, from 0."""
    ax.set_ylim(-0.02 * top, top)
    ax.set_ylabel(label)


def whole_numbers(ax: Axes) -> None:
    """An x axis with ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def plain_log(ax: Axes) -> None:
    """A log x axis with 1, 2, 5, 10, ... written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def band(ax: Axes, x: Any, low: Any, high: Any, *, colour: str = BLUE, label: str = "") -> None:
    """An interval along a curve."""
    ax.fill_between(x, low, high, color=colour, alpha=BAND, linewidth=0, label=label or "_interval")


@dataclass(frozen=True, slots=True)
class Row:
    """One interval of a picture of intervals: a value with its limits; None where there is none."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    colour: str = BLUE
    marker: str = "o"
    filled: bool = True
    note: str = ""


def height_of(rows: int) -> float:
    """Inches of a picture of so many rows."""
    return 1.5 + ROW * max(rows, 1)


def intervals(ax: Axes, rows: Sequence[Row], *, zero: float | None = None, digits: str = ".3g") -> None:
    """Rows from the top, each a mark with its interval and its number; an end that is open is an arrow.

    Args:
        ax: Where to draw.
        rows: At least one.
        zero: Where a line of no difference is drawn; None for none.
        digits: Format of the numbers at the right.
    """
    places = np.arange(len(rows), dtype=np.float64)[::-1]
    ends = [x for r in rows for x in (r.value, r.low, r.high) if x is not None and np.isfinite(x)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if zero is not None:
        low, high = min(low, zero), max(high, zero)
        ax.axvline(zero, color=GREY, linewidth=1.0)
    span = (high - low) or abs(high) or 1.0
    for y, row in zip(places, rows, strict=True):
        _interval(ax, y, row, low - OPEN * span, high + OPEN * span)
    ax.set_yticks(places, ["\n".join(short(line) for line in row.name.split("\n")) for row in rows])
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_xlim(low - 2.2 * OPEN * span, high + 2.2 * OPEN * span)
    ax.locator_params(axis="x", nbins=6)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    for y, row in zip(places, rows, strict=True):
        text = row.note or _numbers(row, digits)
        ax.annotate(
            text, (1.0, y), (4, 0), xycoords=BESIDE, textcoords="offset points", va="center",
            color=GREY, fontsize=SMALL, annotation_clip=False,
        )  # fmt: skip


def _numbers(row: Row, digits: str) -> str:
    """The value and its limits.

    >>> _numbers(Row("a", 0.25, 0.1, None), ".2f"), _numbers(Row("a", None, 0.0, 1.0), ".2f")
    ('0.25 [0.10, no limit]', 'unknown [0.00, 1.00]')
    """
    value = "unknown" if row.value is None else format(row.value, digits)
    if row.low is None and row.high is None:
        return value
    low, high = ("no limit" if end is None else format(end, digits) for end in (row.low, row.high))
    return f"{value} [{low}, {high}]"


def _interval(ax: Axes, y: float, row: Row, least: float, most: float) -> None:
    if row.low is not None or row.high is not None:
        low, high = (least if row.low is None else row.low), (most if row.high is None else row.high)
        name = f"_{' '.join(row.name.split())}: interval"
        ax.plot([low, high], [y, y], color=row.colour, linewidth=1.8, solid_capstyle="butt", label=name)
        for end, marker, known in ((low, "<", row.low is not None), (high, ">", row.high is not None)):
            if not known:
                ax.plot([end], [y], marker, color=row.colour, markersize=6)
    if row.value is not None and np.isfinite(row.value):
        face, name = row.colour if row.filled else "white", f"_{' '.join(row.name.split())}: value"
        ax.plot([row.value], [y], row.marker, color=row.colour, mfc=face, ms=5.5, label=name)


def curve_labels(ax: Axes, ends: Sequence[tuple[float, str, str]], *, x: float = 1.02, line: float = LINE) -> None:
    """Names at the right ends of curves, moved apart where they would cover each other.

    Args:
        ax: Where to draw, its limits set.
        ends: Height, name and colour of each curve at the right edge.
        x: Where the names start, as a share of the width of the axes.
        line: Height of a line of text, as a share of the height of the axes.
    """
    to_axes = ax.transData + ax.transAxes.inverted()
    edge = ax.get_xlim()[1]
    heights = np.array([to_axes.transform((edge, value))[1] for value, _, _ in ends])
    for (value, name, colour), y in zip(ends, spread(heights, line), strict=True):
        ax.annotate(
            name, (edge, value), xytext=(x, y), textcoords="axes fraction", color=colour, fontsize=SMALL, va="center",
            annotation_clip=False, arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour},
        )  # fmt: skip


def spread(heights: Floats, gap: float) -> Floats:
    """Heights moved apart to at least a gap, in their order, about where they were.

    >>> spread(np.array([1.0, 1.0, 0.2]), 0.1).round(2).tolist()
    [0.95, 1.05, 0.2]
    """
    order = np.argsort(heights, kind="stable")
    blocks: list[list[int]] = []
    for i in order:
        blocks.append([int(i)])
        while len(blocks) > 1:
            low, high = (float(heights[b].mean()) for b in blocks[-2:])
            if high - low >= gap * (len(blocks[-2]) + len(blocks[-1])) / 2:
                break
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    moved = heights.copy()
    for block in blocks:
        moved[block] = heights[block].mean() + gap * (np.arange(len(block)) - (len(block) - 1) / 2)
    return moved


def nothing(ax: Axes, reason: str) -> Axes:
    """Says on the axes why there is nothing to draw."""
    import textwrap

    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.text(
        0.5, 0.5, "\n".join(textwrap.wrap(reason, 44)), ha="center", va="center", fontsize=SMALL, color=GREY,
        transform=ax.transAxes,
    )  # fmt: skip
    return ax


def percent(level: float) -> str:
    """A level in words.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * level:.6g}%"


def short(name: str, most: int = MOST_NAME) -> str:
    """A name that fits an axis; signs that matplotlib reads as mathematics are kept as they are.

    >>> short("a" * 40, 10)
    'aaaaaaa...'
    """
    kept = name if len(name) <= most else name[: most - 3] + "..."
    return kept.replace("$", r"\$")


def legend_below(ax: Axes, *, columns: int = 2, handles: Iterable[Any] | None = None, names: Any = None) -> None:
    """A legend under the axes, for pictures that fill them."""
    given: dict[str, Any] = {} if handles is None else {"handles": list(handles), "labels": list(names)}
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, frameon=False, **given)
