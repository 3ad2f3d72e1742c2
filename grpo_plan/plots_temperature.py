"""Picture of a temperature plan: the differences to the baseline with their intervals. Matplotlib loads when used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan.fitting.paired import Difference
from grpo_plan.planning.temperature_result import TemperaturePlan
from grpo_plan.plots import BLUE, GREY, INK, STYLE, VERMILION, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP = 0.24  # between the measures of one temperature, in rows
INCHES_A_ROW = 0.62


def plot_temperature(plan: TemperaturePlan, ax: Axes | None = None) -> Axes:
    """Differences of each temperature to the baseline: dead groups, pass@1 and signal, with their intervals.

    Args:
        plan: A plan of `plan_temperature`.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Hollow marks rest on fits and decide nothing.
    """
    if ax is None:
        from matplotlib.figure import Figure

        height = 1.9 + INCHES_A_ROW * len(plan.differences)
        ax = Figure(figsize=(6.4, height), layout="constrained").subplots()
    measures = (
        ("dead", f"dead groups at G = {plan.group_size}", INK, "o"),
        ("pass_rate", "pass@1", VERMILION, "s"),
        ("reward_variance", "signal E[p(1-p)]", BLUE, "D"),
    )
    rows = np.arange(len(plan.differences), dtype=np.float64)[::-1]
    ax.axvline(0.0, color=GREY, lw=1.0)
    for i, (name, label, colour, marker) in enumerate(measures):
        shown = label
        for row, d in zip(rows, plan.differences, strict=True):
            difference: Difference | None = getattr(d, name)
            if difference is None:
                continue
            counted = name != "dead" or d.counted
            y = row + STEP * (1 - i)
            ax.plot([difference.low, difference.high], [y, y], color=colour, lw=1.8, ls="-" if counted else ":")
            face = colour if counted else "white"
            ax.plot([difference.value], [y], marker, color=colour, mfc=face, ms=5, label=shown)
            shown = "_again"
    decided = plan.recommended
    ax.set_yticks(rows, [f"{'> ' if d.temperature == decided else ''}T = {d.temperature:g}" for d in plan.differences])
    ax.set_ylim(-0.6, rows[0] + 0.6)
    ax.margins(x=0.08)
    several = ", all temperatures at once" if len(plan.differences) > 1 else ""
    ax.set_xlabel(f"difference to T = {plan.baseline:g} ({100 * plan.level:.6g}% intervals{several})")
    answer = {"CHANGE": f"take T = {decided or 0:g}", "KEEP": f"keep T = {plan.baseline:g}"}
    ax.set_title(f"Temperature: {answer.get(plan.verdict.name, 'cannot tell')}", pad=24)
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=3, fontsize=8, frameon=False, handletextpad=0.3)
    return ax


def draw_temperature(plan: TemperaturePlan, path: Path) -> None:
    """Write the picture to a file."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = plot_temperature(plan).figure
        save_figure(figure, path)  # type: ignore[arg-type]
