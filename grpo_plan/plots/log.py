"""Pictures of raw logs: one quantity of a run, and groups step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.group_log import GroupLog
from grpo_plan.plots.parts import legend_below, nothing, share_axis
from grpo_plan.plots.style import BLUE, GREEN, ORANGE, SILVER, SKY, VERMILION, canvas, titled
from grpo_plan.quantities import Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_quantity(quantity: Quantity, ax: Axes | None = None) -> Axes:
    """Values of one quantity of a run, row by row, with its unit and meaning.

    Args:
        quantity: What `RunLog.quantity` returned.
        ax: Where to draw; a new figure if None.
    """
    require(quantity, Quantity, "quantity", "Take one of read_run(...).quantity(name).")
    values = quantity.values
    with canvas(ax) as axes:
        titled(
            axes,
            quantity.name.replace("_", " ").capitalize(),
            f"{quantity.definition.meaning.rstrip('.')}. Logged as {', '.join(quantity.metrics)}.",
        )
        if not np.isfinite(values).any():
            return nothing(axes, "No row of the log has a value.")
        axes.plot(
            np.arange(values.size), values, "." if values.size <= 400 else ",", color=BLUE, label=f"_{quantity.name}"
        )
        axes.set(xlabel="row of the log", ylabel=quantity.unit)
    return axes


def plot_groups(log: GroupLog, ax: Axes | None = None) -> Axes:
    """What the groups of each step are made of, counted from the groups themselves.

    Args:
        log: What `read_groups` returned.
        ax: Where to draw; a new figure if None.
    """
    require(log, GroupLog, "log", "Read one first: read_groups(...).")
    with canvas(ax) as axes:
        titled(axes, "Groups of each step", f"{log.groups:,} groups, {log.dead_groups:,} dead")
        if not log.groups:
            return nothing(axes, "The log holds no groups.")
        passes, fails = log.all_pass, log.all_fail
        if passes is None or fails is None:
            layers = [("dead, kind not known", SILVER, log.dead)]
        else:
            rest = log.dead & ~passes & ~fails
            layers = [("all-fail", VERMILION, fails), ("dead otherwise", ORANGE, rest)]
        layers.append(("mixed", SKY, ~log.dead))
        if passes is not None:
            layers.append(("all-pass", GREEN, passes))
        steps, groups, _ = log.dead_by_step()
        base = np.zeros(steps.size)
        x = np.arange(steps.size)
        for name, colour, flags in layers:
            share = log.count_by_step(flags)[2] / groups
            if share.any():
                axes.bar(x, share, bottom=base, width=1.0, color=colour, label=name)
            base = base + share
        every = max(1, steps.size // 8)
        axes.set_xticks(x[::every], [f"{s:,}" if s >= 0 else "all" for s in steps[::every]])
        axes.set_xlim(-0.5, steps.size - 0.5)
        share_axis(axes, top=1.0)
        axes.set_ylim(0.0, 1.0)
        axes.set_xlabel("training step")
        legend_below(axes, columns=3)
    return axes
