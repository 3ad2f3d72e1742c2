"""Pictures of a plan: what each group size costs for the same progress, its mixed groups, and what kappa decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import require
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.pilot_size import PilotPlan
from grpo_plan.planning.plan import Plan
from grpo_plan.plots.parts import curve_labels, log2_axis, percent
from grpo_plan.plots.style import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SILVER,
    SKY,
    SMALL,
    VERMILION,
    canvas,
    figure,
    save_figure,
    styled,
    titled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
MOST = 8.0  # relative cost shown
LEAST_SPAN = 2.0
LINES = ((BLUE, "-", "o"), (ORANGE, "--", "s"), (VERMILION, "-.", "^"))
FAR = (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH)
PLAN_FIRST = "Plan first: plan_group_size(fit, budget=...)."


def plot_frontier(plan: Plan, ax: Axes | None = None) -> Axes:
    """Cost of the same progress against the group size, at each kappa of the plan; the flat range is shaded.

    The cost is relative to the best group size at that kappa: progress of noise-dominated steps is proportional to the
    budget, so a design that makes half the progress costs twice as much for the same.

    Args:
        plan: What `plan_group_size` returned.
        ax: Where to draw; a new figure if None.
    """
    require(plan, Plan, "plan", PLAN_FIRST)
    sizes = np.array([p.design.group_size for p in plan.frontier])
    with canvas(ax) as axes:
        highest, ends = LEAST_SPAN, []
        for (colour, dash, marker), answer in zip(LINES, plan.sensitivity, strict=False):
            shares = np.array([plan.progress_at(p, answer.kappa) for p in plan.frontier])
            cost = np.divide(1.0, shares, out=np.full(sizes.size, np.inf), where=shares > 0.0)
            shown = cost <= MOST
            highest = max(highest, float(cost[shown].max(initial=1.0)))
            axes.plot(
                sizes[shown], cost[shown], color=colour, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.3,
                label=f"kappa = {answer.kappa:.3g}",
            )  # fmt: skip
            if shown.any():
                ends.append((float(sizes[shown][-1]), float(cost[shown][-1]), f"kappa = {answer.kappa:.3g}", colour))
        low, high = plan.flat_range
        axes.axvspan(low / 1.06, high * 1.06, color=SKY, alpha=0.35, linewidth=0, label=f"{low} to {high}")
        log2_axis(axes, sizes, "group size G", room=1.15)
        axes.set_yscale("log", base=2)
        ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 4, 6, 8) if tick <= highest * 1.01]
        axes.set_yticks(ticks, [f"{tick:g} x" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0.93, highest**1.12 * 1.05)
        axes.set_ylabel("cost of the same progress")
        size = plan.recommended.design.group_size
        axes.axvline(size, color=INK, linewidth=1.0)
        good = "no other about as good" if low == high else f"{low} to {high} about as good"
        axes.annotate(
            f"G = {size}\n{good}", (high * 1.06, 1.0), (4, -2), xycoords=("data", "axes fraction"), color=INK,
            textcoords="offset points", va="top", fontsize=SMALL,
        )  # fmt: skip
        _name_curves(axes, ends, float(sizes.max()))
        titled(
            axes,
            "What the same progress costs at each group size",
            "relative to the best G at that kappa: lower is better",
        )
    return axes


def plot_effective_batch(plan: Plan, ax: Axes | None = None) -> Axes:
    """Mixed groups of a step against the group size: spread from step to step, and how sure the mean is.

    Args:
        plan: What `plan_group_size` returned.
        ax: Where to draw; a new figure if None.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    require(plan, Plan, "plan", PLAN_FIRST)
    sizes = np.array([p.design.group_size for p in plan.frontier])
    prompts = np.array([p.design.prompts_per_step for p in plan.frontier])
    mixed = [p.batch.mixed_groups for p in plan.frontier]
    mean, p05, p95 = (np.array([getattr(m, name) for m in mixed]) for name in ("mean", "p05", "p95"))
    with canvas(ax) as axes:
        axes.plot(sizes, prompts, color=GREY, linestyle=":", linewidth=1.2, label="prompts a step")
        axes.fill_between(sizes, p05, p95, color=SKY, alpha=0.6, linewidth=0, label="9 of 10 steps")
        axes.plot(sizes, mean, color=BLUE, marker="o", markersize=3.5, linewidth=1.3, label="mixed groups, mean")
        limits = [
            (p.design.group_size, i) for p in plan.frontier if (i := p.batch.mixed_groups_mean_interval) is not None
        ]
        if limits:
            at, ends = np.array([size for size, _ in limits]), np.array([i for _, i in limits])
            label = f"limits of the mean ({percent(plan.level)})"
            axes.vlines(at, ends[:, 0], ends[:, 1], color=VERMILION, linewidth=1.1, label=label)
        log2_axis(axes, sizes, "group size G", room=1.15)
        axes.set_yscale("log")
        axes.set_ylim(max(0.8, float(mean.min()) * 0.5), float(prompts.max()) * 1.3)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("groups a step")
        _recommended(axes, plan)
        titled(axes, "Mixed groups of a step")
        axes.legend(loc="upper right")
    return axes


def plot_kappa_sensitivity(plan: Plan, ax: Axes | None = None) -> Axes:
    """Best group size at each kappa of the plan, with every group size within 10 % of it.

    Args:
        plan: What `plan_group_size` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. The line is the recommended group size: where it crosses a bar, it is within 10 % of the best.
    """
    require(plan, Plan, "plan", PLAN_FIRST)
    size = plan.recommended.design.group_size
    with canvas(ax) as axes:
        kappa = np.array([a.kappa for a in plan.sensitivity])
        low, high = (np.array([getattr(a, n) for a in plan.sensitivity]) for n in ("flat_low", "flat_high"))
        best = np.array([a.group_size for a in plan.sensitivity])
        x = np.arange(kappa.size)
        axes.vlines(x, low, high, color=SKY, linewidth=9, label="within 10 % of the best")
        axes.plot(x, best, "o", color=BLUE, ms=7, label="best G")
        axes.axhline(size, color=INK, lw=1.2, label=f"recommended: G = {size}")
        axes.set_yscale("log", base=2)
        every = np.array([*low, *high, size])
        ticks = [2**i for i in range(1, 17) if 2**i <= 2.0 * every.max() and 2 ** (i + 1) > every.min()]
        axes.set_yticks([float(t) for t in ticks], [str(t) for t in ticks])
        axes.minorticks_off()
        axes.set_ylim(every.min() / 1.5, every.max() * 3.2)
        axes.set_xticks(x, [f"{k:.3g}" for k in kappa])
        axes.set_xlim(-0.6, kappa.size - 0.4)
        far = {p.design.group_size for p in plan.frontier if p.dead.status in FAR}
        for place, answer in zip(x, plan.sensitivity, strict=True):
            text = f"{answer.flat_low} to {answer.flat_high}{'*' if answer.flat_high in far else ''}"
            axes.annotate(
                text, (place, answer.flat_high), (0, 4), textcoords="offset points", ha="center", fontsize=SMALL
            )
        axes.set_xlabel("kappa, score noise over contrast")
        axes.set_ylabel("group size G")
        known = "measured" if plan.kappa.measured else "as given" if plan.kappa.known else "not known"
        titled(
            axes,
            "What kappa decides",
            f"kappa is {known}; numbers: G within 10 % of the best" + ("; * beyond the pilot" if far else ""),
        )
        axes.legend(loc="upper left", ncols=3, columnspacing=1.2)
    return axes


def _name_curves(ax: Axes, ends: list[tuple[float, float, str, str]], edge: float) -> None:
    """Each curve named at its last point: beside the axes where it reaches the edge, else at the point."""
    curve_labels(ax, [(y, name, colour) for x, y, name, colour in ends if x == edge])
    for x, y, name, colour in ends:
        if x != edge:
            ax.annotate(name, (x, y), (7, 0), textcoords="offset points", va="center", color=colour, fontsize=SMALL)


def _recommended(ax: Axes, plan: Plan) -> None:
    """A line at the recommended group size, named at its top."""
    size = plan.recommended.design.group_size
    ax.axvline(size, color=INK, linewidth=1.0)
    ax.annotate(
        f"G = {size}", (size, 0.0), (3, 3), xycoords=("data", "axes fraction"), textcoords="offset points", color=INK,
        fontsize=9, weight="bold", va="bottom",
    )  # fmt: skip


def draw_plan(plan: Plan, path: Path) -> None:
    """Cost and mixed groups side by side, written to a file; the suffix decides the kind."""
    with styled():
        made = figure(2)
        left, right = made.axes
        plot_frontier(plan, left)
        plot_effective_batch(plan, right)
        save_figure(made, path)


def plot_pilot_size(plan: PilotPlan, ax: Axes | None = None) -> Axes:
    """Rollouts that a pilot takes at each number of rollouts per prompt.

    Args:
        plan: What `plan_pilot` returned.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes. Designs that do not settle the question stand at the top, with what they leave open.
    """
    require(plan, PilotPlan, "plan", "Plan one: plan_pilot(prior, target_group_size=16).")
    with canvas(ax) as axes:
        best = plan.recommended
        settled = [(o.rollouts_per_prompt, o.rollouts, o.prompts) for o in plan.options if o.rollouts is not None]
        x, y, prompts = (np.array(column, dtype=np.float64) for column in zip(*settled, strict=True))
        axes.plot(x, y, "o-", color=BLUE, label="_rollouts of the pilot")
        for at, height, count in zip(x, y, prompts, strict=True):
            down = at == best.rollouts_per_prompt
            axes.annotate(
                f"{count:,.0f} prompts", (at, height), (0, -18 if down else 7), textcoords="offset points", ha="center",
                fontsize=SMALL, color=INK if down else GREY, bbox={"fc": "white", "ec": "none", "pad": 0.5},
            )  # fmt: skip
        axes.plot(
            [best.rollouts_per_prompt],
            [best.rollouts or np.nan],
            "o",
            ms=11,
            mfc="none",
            mew=1.8,
            color=INK,
            label="_fewest",
        )
        log2_axis(axes, [o.rollouts_per_prompt for o in plan.options], "rollouts per prompt n", room=1.45)
        axes.set_ylim(0.0, 1.3 * float(y.max()))
        open_ = [o for o in plan.options if o.rollouts is None]
        for option in open_:
            words = "open\nfor ever" if not option.settles else "too few\nallowed"
            text = f"{words}\n{option.low:.2f} to\n{option.high:.2f}"
            axes.annotate(
                text, (option.rollouts_per_prompt, 0.5), xycoords=("data", "axes fraction"), ha="center", va="center",
                fontsize=SMALL, color=VERMILION, bbox={"fc": "white", "ec": SILVER, "lw": 0.6},
            )  # fmt: skip
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel("rollouts of the pilot")
        titled(
            axes,
            f"A pilot for D({plan.group_size}) to +-{plan.half_width:g} ({percent(plan.level)})",
            f"fewest: {best.prompts or 0:,} prompts x {best.rollouts_per_prompt} = {best.rollouts or 0:,} rollouts",
        )
    return axes
