"""Pictures of temperatures: the differences to the baseline with their intervals, and counts of dead groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.fitting.paired import Difference
from grpo_plan.planning.dead_counts import DeadCountComparison
from grpo_plan.planning.temperature_result import TemperaturePlan
from grpo_plan.plots.parts import Row, height_of, intervals, percent
from grpo_plan.plots.style import BLUE, GREY, INK, SMALL, VERMILION, canvas, save_figure, titled

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
    require(plan, TemperaturePlan, "plan", "Plan one: plan_temperature(pilot).")
    measures = (
        ("dead", f"dead groups at G = {plan.group_size}", INK, "o"),
        ("pass_rate", "pass@1", VERMILION, "s"),
        ("reward_variance", "signal E[p(1-p)]", BLUE, "D"),
    )
    rows = np.arange(len(plan.differences), dtype=np.float64)[::-1]
    with canvas(ax, height=2.1 + INCHES_A_ROW * len(plan.differences)) as axes:
        axes.axvline(0.0, color=GREY, lw=1.0)
        for i, (name, label, colour, marker) in enumerate(measures):
            shown = label
            for row, d in zip(rows, plan.differences, strict=True):
                difference: Difference | None = getattr(d, name)
                if difference is None:
                    continue
                counted = name != "dead" or d.counted
                y = row + STEP * (1 - i)
                limits = f"_{label}, T = {d.temperature:g}: interval"
                dash = "-" if counted else ":"
                axes.plot([difference.low, difference.high], [y, y], color=colour, lw=1.8, ls=dash, label=limits)
                face = colour if counted else "white"
                axes.plot([difference.value], [y], marker, color=colour, mfc=face, ms=5, label=shown)
                shown = f"_{label}"
        decided = plan.recommended
        names = [f"{'> ' if d.temperature == decided else ''}T = {d.temperature:g}" for d in plan.differences]
        axes.set_yticks(rows, names)
        axes.set_ylim(-0.6, rows[0] + 0.6)
        axes.margins(x=0.08)
        several = ", all temperatures at once" if len(plan.differences) > 1 else ""
        axes.set_xlabel(f"difference to T = {plan.baseline:g} ({percent(plan.level)} intervals{several})")
        axes.grid(axis="y", visible=False)
        titled(axes, f"Temperature: {_answer(plan.verdict.name, decided, plan.baseline)}", pad=24.0)
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=3, fontsize=SMALL, frameon=False, handletextpad=0.3,
            columnspacing=1.2,
        )  # fmt: skip
    return axes


def _answer(verdict: str, recommended: float | None, baseline: float) -> str:
    if verdict == "CHANGE":
        return f"take T = {recommended or 0:g}"
    return f"keep T = {baseline:g}" if verdict == "KEEP" else "cannot tell"


def plot_dead_counts(comparison: DeadCountComparison, ax: Axes | None = None) -> Axes:
    """Share of dead groups of each temperature, from counts alone.

    Args:
        comparison: What `compare_dead_counts` returned.
        ax: Where to draw; a new figure if None.
    """
    require(comparison, DeadCountComparison, "comparison", "Take one of compare_dead_counts({T: (dead, groups)}).")
    rows = [
        Row(
            f"T = {c.temperature:g}{' (baseline)' if c.temperature == comparison.baseline else ''}",
            c.share.value, c.share.low, c.share.high, INK if c.temperature == comparison.baseline else BLUE,
            note=f"{c.share.value:.3f} of {c.groups:,}",
        )
        for c in comparison.counts
    ]  # fmt: skip
    with canvas(ax, height=height_of(len(rows))) as axes:
        intervals(axes, rows)
        axes.set_xlabel("share of dead groups, each temperature by itself")
        answer = _answer(comparison.verdict.name, comparison.recommended, comparison.baseline)
        titled(axes, f"Dead groups by temperature: {answer}")
    return axes


def draw_temperature(plan: TemperaturePlan, path: Path) -> None:
    """Write the picture to a file."""
    save_figure(plot_temperature(plan).figure, path)  # type: ignore[arg-type]
