"""Pictures of a plan: what each group size costs for the same progress, and how many groups of a step are mixed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import require
from grpo_plan.planning.plan import Plan
from grpo_plan.plots import BLUE, GREY, INK, ORANGE, SKY, STYLE, VERMILION, _axes, _figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
MOST = 8.0  # relative cost shown
LEAST_SPAN = 2.0
FEW_SIZES = 8
LABELLED = (2, 4, 8, 16, 32, 64, 128, 256, 512)
LINES = ((BLUE, "-", "o"), (ORANGE, "--", "s"), (VERMILION, "-.", "^"))


def plot_frontier(plan: Plan, ax: Axes | None = None) -> Axes:
    """Cost of the same progress against the group size, at each kappa of the plan; the flat range is shaded.

    The cost is relative to the best group size at that kappa: progress of noise-dominated steps is proportional to the
    budget, so a design that makes half the progress costs twice as much for the same.

    Args:
        plan: What `plan_group_size` returned.
        ax: Where to draw; a new figure if None.
    """
    require(plan, Plan, "plan", "Plan first: plan_group_size(fit, budget=...).")
    axes = _axes(ax)
    sizes = np.array([p.design.group_size for p in plan.frontier])
    highest = LEAST_SPAN
    for (colour, dash, marker), answer in zip(LINES, plan.sensitivity, strict=False):
        shares = np.array([plan.progress_at(p, answer.kappa) for p in plan.frontier])
        cost = np.divide(1.0, shares, out=np.full(sizes.size, np.inf), where=shares > 0.0)
        shown = cost <= MOST
        highest = max(highest, float(cost[shown].max(initial=1.0)))
        axes.plot(
            sizes[shown], cost[shown], color=colour, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.3,
            label=f"kappa = {answer.kappa:.3g}",
        )  # fmt: skip
    low, high = plan.flat_range
    axes.axvspan(low / 1.06, high * 1.06, color=SKY, alpha=0.35, linewidth=0, label=f"about as good: {low} to {high}")
    size = plan.recommended.design.group_size
    axes.axvline(size, color=INK, linewidth=1.0)
    axes.annotate(
        f"G = {size}", (size, highest), xytext=(4, -4), textcoords="offset points", color=INK, fontsize=9, weight="bold"
    )
    _group_size_axis(axes, sizes)
    axes.set_yscale("log", base=2)
    ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 4, 6, 8) if tick <= highest * 1.01]
    axes.set_yticks(ticks, [f"{tick:g} x" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0.95, highest**1.35 * 1.02)
    axes.set_ylabel("cost of the same progress")
    axes.set_title("What each group size costs")
    axes.legend(loc="upper center", ncols=2, frameon=True, framealpha=0.85, edgecolor="none")
    return axes


def plot_effective_batch(plan: Plan, ax: Axes | None = None) -> Axes:
    """Mixed groups of a step against the group size: spread from step to step, and how sure the mean is.

    Args:
        plan: What `plan_group_size` returned.
        ax: Where to draw; a new figure if None.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    require(plan, Plan, "plan", "Plan first: plan_group_size(fit, budget=...).")
    axes = _axes(ax)
    sizes = np.array([p.design.group_size for p in plan.frontier])
    prompts = np.array([p.design.prompts_per_step for p in plan.frontier])
    mixed = [p.batch.mixed_groups for p in plan.frontier]
    mean, p05, p95 = (np.array([getattr(m, name) for m in mixed]) for name in ("mean", "p05", "p95"))
    axes.plot(sizes, prompts, color=GREY, linestyle=":", linewidth=1.2, label="prompts a step")
    axes.fill_between(sizes, p05, p95, color=SKY, alpha=0.6, linewidth=0, label="9 of 10 steps")
    axes.plot(sizes, mean, color=BLUE, marker="o", markersize=3.5, linewidth=1.3, label="mixed groups, mean")
    limits = [(p.design.group_size, i) for p in plan.frontier if (i := p.batch.mixed_groups_mean_interval) is not None]
    if limits:
        at, ends = np.array([size for size, _ in limits]), np.array([i for _, i in limits])
        axes.vlines(
            at, ends[:, 0], ends[:, 1], color=VERMILION, linewidth=1.1, label=f"limits of the mean ({plan.level:.0%})"
        )
    axes.axvline(plan.recommended.design.group_size, color=INK, linewidth=1.0)
    _group_size_axis(axes, sizes)
    axes.set_yscale("log")
    axes.set_ylim(max(0.8, float(mean.min()) * 0.5), float(prompts.max()) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("groups a step")
    axes.set_title("Mixed groups of a step")
    axes.legend(loc="upper right", frameon=True, framealpha=0.85, edgecolor="none")
    return axes


def draw_plan(plan: Plan, path: Path) -> None:
    """Both pictures side by side, written to a file; the suffix decides the kind."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        figure = _figure(2)
        left, right = figure.axes
        plot_frontier(plan, left)
        plot_effective_batch(plan, right)
        save_figure(figure, path)


def _group_size_axis(axes: Axes, sizes: NDArray[Any]) -> None:
    few = sizes.size <= FEW_SIZES
    ticks = [int(g) for g in sizes] if few else [g for g in LABELLED if sizes.min() <= g <= sizes.max()]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(g) for g in ticks])
    axes.minorticks_off()
    axes.set_xlim(sizes.min() / 1.15, sizes.max() * 1.15)
    axes.set_xlabel("group size G")
