"""What a picture draws, as a table: the data beside a picture of the gallery are read off its own curves and bars."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIELDS = ("series", "x", "y", "low", "high")
Row = tuple[str, float, float | None, float | None, float | None]


def rows_of(ax: Axes) -> list[Row]:
    """Points of lines, ends of bands and intervals, heights of bars; what is fixed to the axes alone is left out."""
    from matplotlib.collections import LineCollection, PathCollection
    from matplotlib.collections import PolyCollection as Area
    from matplotlib.patches import Rectangle, StepPatch

    rows: list[Row] = []
    for i, line in enumerate(ax.get_lines()):
        if not line.get_transform().contains_branch(ax.transData) or not np.size(line.get_xdata()):
            continue
        name = _name(line, f"line {i + 1}")
        rows += [(name, float(x), float(y), None, None) for x, y in np.asarray(line.get_xydata(), dtype=float)]
    for i, drawn in enumerate(ax.collections):
        name = _name(drawn, f"area {i + 1}")
        if isinstance(drawn, LineCollection):
            for segment in drawn.get_segments():
                ends = np.asarray(segment)
                rows.append((name, float(ends[0, 0]), None, float(ends[:, 1].min()), float(ends[:, 1].max())))
        elif isinstance(drawn, Area) and not isinstance(drawn, PathCollection):
            rows += [(name, x, None, low, high) for x, low, high in _edges(drawn)]
    for patch in ax.patches:
        if isinstance(patch, StepPatch):
            values, edges, _ = patch.get_data()
            if patch.get_fill():
                name = _name(patch, "steps")
                rows += [(name, float(x), float(y), None, None) for x, y in zip(edges, values, strict=False)]
        elif isinstance(patch, Rectangle):
            rows += list(_spans(ax, patch))
    for container in ax.containers:
        name = _name(container, "bars")
        for bar in container.patches if hasattr(container, "patches") else ():
            (x, y), width, height = bar.get_xy(), bar.get_width(), bar.get_height()
            lying = getattr(container, "orientation", "vertical") == "horizontal"
            rows.append(
                (name, y + height / 2, width, None, None) if lying else (name, x + width / 2, y + height, None, None)
            )
    return rows


def table_of(ax: Axes) -> str:
    """The rows as CSV with six digits."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    for name, *numbers in rows_of(ax):
        writer.writerow([name, *("" if v is None or not np.isfinite(v) else f"{v + 0.0:.6g}" for v in numbers)])
    return text.getvalue()


def _name(artist: Any, otherwise: str) -> str:
    label = str(artist.get_label() or "")
    return otherwise if not label or label.startswith(("_child", "_container", "_nolegend")) else label.lstrip("_")


def _edges(area: Any) -> Iterator[tuple[float, float, float]]:
    """Lower and upper edge of an area at each x."""
    for path in area.get_paths():
        points = np.asarray(path.vertices)
        for x in np.unique(points[:, 0]):
            here = points[points[:, 0] == x, 1]
            yield float(x), float(here.min()), float(here.max())


def _spans(ax: Axes, patch: Any) -> Iterator[Row]:
    """A shaded span: its ends on the axis that it lies across."""
    if str(patch.get_label()).startswith("_nolegend") or patch in [
        b for c in ax.containers for b in getattr(c, "patches", ())
    ]:
        return
    (x, y), width, height = patch.get_xy(), patch.get_width(), patch.get_height()
    name = _name(patch, "span")
    if (y, height) == (0.0, 1.0):
        yield (f"{name}, along x", float(x), None, float(x), float(x + width))
    else:
        yield (f"{name}, along y", float(y), None, float(y), float(y + height))
