"""Pictures of pass@k against k, of one policy or of two, and of the tail of its shortfall."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.errors import DomainError
from grpo_plan.passk import PassComparison, PassCurve
from grpo_plan.passk.tail import PassTail, TailStatus
from grpo_plan.plots.parts import band, curve_labels, log2_axis, nothing, percent, share_axis
from grpo_plan.plots.style import BLUE, GREY, INK, VERMILION, canvas, save_figure, titled

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
    if not isinstance(source, PassCurve | PassComparison):
        raise DomainError("source must be what pass_curve(...) or compare_pass(...) returned.")
    with canvas(ax) as axes:
        if isinstance(source, PassComparison):
            crossing = source.crossing
            if crossing.low > 0 and crossing.high is not None:
                axes.axvspan(crossing.low, crossing.high, color=GREY, alpha=0.2, lw=0, label="the curves cross here")
            _draw(axes, source.before, VERMILION, "--", "before")
            _draw(axes, source.after, BLUE, "-", "after")
            title, curves = source.verdict.name.replace("_", " ").lower(), [source.before, source.after]
            titled(axes, title[0].upper() + title[1:], source.verdict.sentence)
        else:
            _draw(axes, source, BLUE, "-", "pass@k")
            curves = [source]
            unknown = source.statuses[0]
            said = "" if any(p.value is not None for p in source.points) else f"{unknown.name}: {unknown.sentence}"
            titled(axes, "Share of prompts solved within k tries", said)
        _key(axes, curves)
        log2_axis(axes, curves[0].ks, "tries k")
        share_axis(axes, f"pass@k ({percent(curves[0].level)} intervals)")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower right")
    return axes


def _draw(ax: Axes, curve: PassCurve, colour: str, dash: str, label: str) -> None:
    k = np.array(curve.ks, dtype=np.float64)
    band(
        ax, k, [p.low for p in curve.points], [p.high for p in curve.points], colour=colour, label=f"_{label}: interval"
    )
    known = [(p.k, p.value, p.counted) for p in curve.points if p.value is not None]
    if known:
        ax.plot([p[0] for p in known], [p[1] for p in known], dash, color=colour, label=label)
    for counted, face in ((True, colour), (False, "white")):
        some = [p for p in known if p[2] is counted]
        name = f"_{label}, {'counted' if counted else 'fitted'}"
        ax.plot([p[0] for p in some], [p[1] for p in some], "o", color=colour, mfc=face, ms=5, label=name)


def _key(ax: Axes, curves: list[PassCurve]) -> None:
    """What filled and hollow marks are, of those that are drawn."""
    drawn = {p.counted for curve in curves for p in curve.points if p.value is not None}
    for counted, face, label in ((True, GREY, "counted"), (False, "white", "fitted")):
        if counted in drawn:
            ax.plot([], [], "o", color=GREY, mfc=face, ms=5, label=label)


def plot_pass_tail(tail: PassTail, ax: Axes | None = None) -> Axes:
    """Local exponents of the unsolved share between k and 2k tries, and the exponent of the power law if there is one.

    Args:
        tail: What `pass_tail` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Filled marks are counted, hollow ones fitted; an arrow is an interval without an upper end.
    """
    require(tail, PassTail, "tail", "Take one of pass_tail(fit).")
    with canvas(ax) as axes:
        said = f"{tail.status.name}: {tail.reason or tail.status.sentence}"
        local = sorted(tail.local, key=lambda found: found.k)
        titled(axes, "How fast the unsolved share falls", f"bars: {percent(tail.level)} intervals. {said}")
        if not local:
            return nothing(axes, tail.reason or "No octave of k was asked for.")
        ends = [x for f in local for x in (f.value, f.low, f.high) if x is not None]
        ends += [x for x in (tail.exponent, tail.high) if x is not None]
        top = 1.25 * max([*ends, 0.1])
        for found in local:
            x = found.k * 2.0**0.5
            high = top if found.high is None else found.high
            axes.plot([x, x], [found.low, high], color=BLUE, lw=1.8, label=f"_k = {found.k}: interval")
            if found.high is None:
                axes.plot([x], [0.985 * top], "^", color=BLUE)
            if found.value is not None:
                axes.plot(
                    [x],
                    [found.value],
                    "o",
                    color=BLUE,
                    mfc=BLUE if found.counted else "white",
                    ms=6,
                    label=f"_k = {found.k}",
                )
        log2_axis(axes, [k for f in local for k in (f.k, 2 * f.k)], "tries k, and twice as many", room=1.25)
        axes.set_ylim(0.0, top)
        if tail.exponent is not None and tail.low is not None and tail.status is TailStatus.POWER_LAW:
            axes.axhspan(tail.low, top if tail.high is None else tail.high, color=VERMILION, alpha=0.15, lw=0)
            axes.axhline(tail.exponent, color=VERMILION, ls="--", label="_power law")
            curve_labels(axes, [(tail.exponent, f"power law\nb = {tail.exponent:.3g}", VERMILION)])
        if tail.floor is not None:
            floor = f"levels off near {tail.floor:.3f}"
            axes.text(0.98, 0.95, floor, transform=axes.transAxes, ha="right", va="top", color=INK)
        axes.set_ylabel("exponent b of k^-b")
    return axes


def draw_pass_curve(source: PassCurve | PassComparison, path: Path) -> None:
    """Write the picture to a file."""
    save_figure(plot_pass_curve(source).figure, path)  # type: ignore[arg-type]
