"""Picture of a comparison of remedies: progress of each estimator over kappa. Matplotlib loads when used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan.estimators import get_estimator
from grpo_plan.plots import BLUE, GREY, INK, STYLE, VERMILION, save_figure
from grpo_plan.remedies.progress import Judged
from grpo_plan.remedies.result import RemedyComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 121
LEAST_KAPPA = 0.01
DASHES = ("-", "--", ":", "-.")


def plot_remedies(comparison: RemedyComparison, ax: Axes | None = None) -> Axes:
    """Progress per rollout of each estimator beside the reference, over kappa.

    Args:
        comparison: What `compare_remedies` found.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Bars are the intervals at the kappas shown in the table; the band is the range of kappa.
    """
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(7.6, 4.0), layout="constrained").subplots()
    fit, size, rho = comparison.fit, comparison.group_size, comparison.coherence
    kappas = comparison.kappa
    low = max(min(LEAST_KAPPA, kappas.low or LEAST_KAPPA), 1e-6)
    grid = np.geomspace(low, max(10.0 * max(kappas.high, 1.0), 10.0 * low), POINTS)
    ax.axhline(1.0, color=GREY, lw=1.0)
    ax.axvspan(max(kappas.low, low), max(kappas.high, low), color=GREY, alpha=0.15, lw=0.0)
    shown = [e for e in comparison.estimators if e.same_plan_as is None and e.signal and e.name != comparison.reference]
    if shown:
        base = Judged.of(fit, get_estimator(comparison.reference), size)
        below = np.array([base.worth(k, rho) for k in grid])
    colours = (INK, VERMILION, BLUE)
    for i, effect in enumerate(shown):
        judged = Judged.of(fit, get_estimator(effect.name), size)
        colour, dashes = colours[i % len(colours)], DASHES[i // len(colours) % len(DASHES)]
        ax.plot(grid, [judged.worth(k, rho) for k in grid] / below, color=colour, ls=dashes, lw=1.6, label=effect.name)
        for at in effect.progress:
            if at.ratio.high is not None:
                ax.plot([max(at.kappa, low)] * 2, [at.ratio.low, at.ratio.high], lw=2.4, color=colour)
    ax.set_xscale("log")
    ax.set_xlabel("kappa, score noise over contrast (grey: the range asked for)")
    ax.set_ylabel(f"progress per rollout beside {comparison.reference}")
    ax.set_title(f"Estimators at G = {size}")
    if shown:
        ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def draw_remedies(comparison: RemedyComparison, path: Path) -> None:
    """Write the picture to a file."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = plot_remedies(comparison).figure
        save_figure(figure, path)  # type: ignore[arg-type]
