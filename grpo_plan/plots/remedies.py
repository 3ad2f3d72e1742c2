"""Picture of a comparison of remedies: progress over kappa. Matplotlib loads when used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.estimators import Estimator, get_estimator
from grpo_plan.plots.parts import curve_labels, nothing, percent
from grpo_plan.plots.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    VERMILION,
    canvas,
    figure,
    save_figure,
    styled,
    titled,
)
from grpo_plan.remedies.progress import side_by_side
from grpo_plan.remedies.result import AtKappa, EstimatorEffect, RemedyComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 121
LEAST_KAPPA = 0.01
MOST_CURVES = 5  # that are drawn unless names are given
COLOURS = (INK, VERMILION, BLUE, GREEN, PURPLE, ORANGE)
DASHES = ("-", (0, (6, 2)), (0, (2, 1)))  # curves that coincide both show
APART = 1.09  # between the bars of two curves, of kappa
WIDTH, HEIGHT = 7.6, 4.0  # inches
COMPARE = "Take one of compare_remedies(fit, group_size)."


def plot_remedies(
    comparison: RemedyComparison, ax: Axes | None = None, *, estimators: Iterable[str] | None = None
) -> Axes:
    """Progress per rollout of estimators beside the reference, over kappa.

    Args:
        comparison: What `compare_remedies` found.
        ax: Where to draw; a new figure if None.
        estimators: Names to draw, as they were compared; by default those that come closest to the reference in the
            range of kappa, five at most, and sign.

    Returns:
        The axes. Bars are the intervals at the kappas shown in the table; the band is the range of kappa.
    """
    require(comparison, RemedyComparison, "comparison", COMPARE)
    base = (get_estimator(comparison.reference), comparison.group_size)
    curves = [
        (e.name, (get_estimator(e.name), comparison.group_size), e.progress) for e in _chosen(comparison, estimators)
    ]
    with canvas(ax, width=WIDTH, height=HEIGHT) as axes:
        _draw(axes, comparison, base, curves, comparison.reference)
        axes.set_ylabel(f"progress per rollout beside {comparison.reference}")
        titled(axes, f"Estimators at G = {comparison.group_size}", _bars(comparison))
    return axes


def plot_group_sizes(comparison: RemedyComparison, ax: Axes | None = None) -> Axes:
    """Progress per rollout of other group sizes beside that of now, over kappa; as `plot_remedies`."""
    require(comparison, RemedyComparison, "comparison", COMPARE)
    reference = get_estimator(comparison.reference)
    others = [s for s in comparison.sampling if s.progress and s.group_size != comparison.group_size]
    curves = [(s.name, (reference, s.group_size), s.progress or ()) for s in others]
    now = "now, refill" if reference.centred else "now"
    with canvas(ax, width=WIDTH, height=HEIGHT) as axes:
        _draw(axes, comparison, (reference, comparison.group_size), curves, f"{now} (G = {comparison.group_size})")
        axes.set_ylabel(f"progress per rollout beside G = {comparison.group_size}")
        titled(axes, f"Group sizes with {comparison.reference}", _bars(comparison))
    return axes


def _bars(comparison: RemedyComparison) -> str:
    return f"bars: {percent(comparison.level)} intervals; grey: the range of kappa asked for"


def draw_remedies(comparison: RemedyComparison, path: Path, estimators: Iterable[str] | None = None) -> None:
    """Write the picture to a file: estimators, and group sizes below."""
    with styled():
        made = figure(1, width=WIDTH, height=7.4, rows=2)
        above, below = made.axes
        plot_remedies(comparison, above, estimators=estimators)
        plot_group_sizes(comparison, below)
        save_figure(made, path)


def _chosen(comparison: RemedyComparison, names: Iterable[str] | None) -> list[EstimatorEffect]:
    drawn = [e for e in comparison.estimators if e.same_plan_as is None and e.signal and e.name != comparison.reference]
    if names is not None:
        labels = {get_estimator(name).label for name in names}
        return [e for e in drawn if e.name in labels]
    closest = sorted(drawn, key=_best, reverse=True)[:MOST_CURVES]
    return [e for e in drawn if e in closest or e.name == "sign"]


def _best(effect: EstimatorEffect) -> float:
    return max((at.ratio.value or 0.0 for at in effect.progress), default=0.0)


def _draw(
    ax: Axes,
    comparison: RemedyComparison,
    base: tuple[Estimator, int],
    curves: Sequence[tuple[str, tuple[Estimator, int], Sequence[AtKappa]]],
    itself: str,
) -> None:
    """One curve a design with its bars, each named at its right end; the line at 1 is the base."""
    rho, kappas = comparison.coherence, comparison.kappa
    low = max(min(LEAST_KAPPA, kappas.low or LEAST_KAPPA), 1e-6)
    grid = np.geomspace(low, max(10.0 * max(kappas.high, 1.0), 10.0 * low), POINTS)
    ax.axhline(1.0, color=GREY, lw=1.0)
    ax.axvspan(max(kappas.low, low), max(kappas.high, low), color=GREY, alpha=0.15, lw=0.0)
    ends = [(1.0, itself, GREY)]
    if not curves:
        nothing(ax, "Nothing to compare: no group of this pilot is mixed, or every design has the same plan.")
        return
    for i, (name, design, progress) in enumerate(curves):
        if any(at.ratio.value is None for at in progress):
            continue
        one, other = side_by_side(comparison.fit, design, base)
        scale = other.group_size / one.group_size
        values = np.array([scale * one.worth(k, rho) / other.worth(k, rho) for k in grid])
        colour, dashes = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        ax.plot(grid, values, color=colour, ls=dashes, lw=1.6, label=name)
        ends.append((float(values[-1]), name, colour))
        shift = APART ** (i - (len(curves) - 1) / 2)
        for at in progress:
            if at.ratio.high is not None:
                x = max(at.kappa, low) * shift
                ends_of, bar = [at.ratio.low, at.ratio.high], f"_{name}: interval"
                ax.plot([x, x], ends_of, lw=2.4, color=colour, solid_capstyle="butt", label=bar)
    ax.set_xscale("log")
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(0.0, max(ax.get_ylim()[1], 1.1))
    ax.set_xlabel("kappa, score noise over contrast")
    curve_labels(ax, ends)
