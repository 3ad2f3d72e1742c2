"""Picture of pass@k against k, of one policy or of two. Matplotlib loads when used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan.passk import PassComparison, PassCurve
from grpo_plan.plots import BLUE, GREY, STYLE, VERMILION, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_pass_curve(source: PassCurve | PassComparison, ax: Axes | None = None) -> Axes:
    """pass@k against k with its intervals; of two policies both curves, and where they may cross.

    Args:
        source: A curve of `pass_curve`, or a comparison of `compare_pass`.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Filled marks are counted, hollow ones are fitted. Of a comparison that crosses, the k between which
        the curves cross are shaded.
    """
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(6.0, 3.8), layout="constrained").subplots()
    if isinstance(source, PassComparison):
        crossing = source.crossing
        if crossing.low > 0 and crossing.high is not None:
            ax.axvspan(crossing.low, crossing.high, color=GREY, alpha=0.2, lw=0, label="the curves cross here")
        _draw(ax, source.before, VERMILION, "before")
        _draw(ax, source.after, BLUE, "after")
        title = source.verdict.name.replace("_", " ").lower()
    else:
        _draw(ax, source, BLUE, "pass@k")
        title = "pass@k"
    curve = source.before if isinstance(source, PassComparison) else source
    _key(ax, [source.before, source.after] if isinstance(source, PassComparison) else [source])
    ax.set_xscale("log", base=2)
    ax.set_xticks([float(k) for k in curve.ks], [str(k) for k in curve.ks])
    ax.minorticks_off()
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("tries k")
    ax.set_ylabel(f"pass@k ({100 * curve.level:.6g}% intervals)")
    ax.set_title(title)
    ax.legend(loc="lower right", fontsize=8, frameon=False)
    return ax


def _draw(ax: Axes, curve: PassCurve, colour: str, label: str) -> None:
    k = np.array(curve.ks, dtype=np.float64)
    ax.fill_between(k, [p.low for p in curve.points], [p.high for p in curve.points], color=colour, alpha=0.15, lw=0)
    known = [(p.k, p.value, p.counted) for p in curve.points if p.value is not None]
    ax.plot([p[0] for p in known], [p[1] for p in known], color=colour, lw=1.5, label=label)
    for counted, face in ((True, colour), (False, "white")):
        some = [p for p in known if p[2] is counted]
        ax.plot([p[0] for p in some], [p[1] for p in some], "o", color=colour, mfc=face, ms=5, label="_marks")


def _key(ax: Axes, curves: list[PassCurve]) -> None:
    """What filled and hollow marks are, of those that are drawn."""
    drawn = {p.counted for curve in curves for p in curve.points if p.value is not None}
    for counted, face, label in ((True, GREY, "counted"), (False, "white", "fitted")):
        if counted in drawn:
            ax.plot([], [], "o", color=GREY, mfc=face, ms=5, label=label)


def draw_pass_curve(source: PassCurve | PassComparison, path: Path) -> None:
    """Write the picture to a file."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = plot_pass_curve(source).figure
        save_figure(figure, path)  # type: ignore[arg-type]
