"""Pictures of a mix, of dropping prompts, and of rollouts per prompt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan._validate import require
from grpo_plan.planning.allocation import Allocation
from grpo_plan.planning.dropping import Dropping
from grpo_plan.planning.mix_plan import Mix
from grpo_plan.plots.parts import Row, height_of, intervals, short
from grpo_plan.plots.style import BLUE, GREY, INK, ORANGE, SKY, SMALL, VERMILION, canvas, save_figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_WIDTH = 24
ROW = 0.55  # inches a stratum
LEGEND_ROWS = 0.6  # below the last stratum, so that the legend covers no bar
MOST_STRATA = 40  # that are drawn with a name each


def _middle_cut(name: str) -> str:
    """A long name without its middle: names of one source often begin alike."""
    if len(name) <= NAME_WIDTH:
        return name
    kept = NAME_WIDTH - 3
    return f"{name[: kept // 2]}...{name[-(kept - kept // 2) :]}"


def plot_mix(mix: Mix, ax: Axes | None = None) -> Axes:
    """Share of each stratum before and after, with its dead fraction beside the name.

    Args:
        mix: A planned mix.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    require(mix, Mix, "mix", "Plan one: plan_mix(pilot, ...).")
    rows = len(mix.strata)
    with canvas(ax, height=1.7 + ROW * (LEGEND_ROWS + min(rows, MOST_STRATA))) as axes:
        places = np.arange(rows)[::-1].astype(np.float64)
        before, after = np.array([s.before for s in mix.strata]), np.array([s.after for s in mix.strata])
        axes.barh(places + 0.2, before, height=0.36, color=SKY, label="now")
        axes.barh(places - 0.2, after, height=0.36, color=BLUE, label="planned")
        top = float(max(before.max(), after.max()))
        for place, *shares in zip(places, before, after, strict=True):
            for offset, share in zip((0.2, -0.2), shares, strict=True):
                axes.text(share + 0.012 * top, place + offset, f"{share:.0%}", va="center", fontsize=SMALL, color=INK)
        names = [f"{short(_middle_cut(s.law.name), NAME_WIDTH)}\ndead {s.law.dead:.2f}" for s in mix.strata]
        axes.set_yticks(places, names)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        ticks = np.arange(0.0, 1.01, 0.1 if top < 0.6 else 0.2)
        axes.set_xticks(ticks, [f"{t:.0%}" for t in ticks])
        axes.set(xlim=(0.0, 1.14 * top), ylim=(-0.6 - LEGEND_ROWS, rows - 0.4), xlabel="share of a step's prompts")
        gains = [g.gain.value for g in mix.gains]
        span = " to ".join(dict.fromkeys((f"x{min(gains):.2f}", f"x{max(gains):.2f}")))
        said = f"progress {span}, dead {mix.dead_before.value:.2f} to {mix.dead_after.value:.2f}"
        titled(axes, f"Mix at G = {mix.group_size}", said if mix.sure else f"{said}; not sure to be better")
        axes.legend(loc="lower right", ncols=2, labelcolor=GREY)
    return axes


def draw_mix(mix: Mix, path: Path) -> None:
    """Write the picture of a mix."""
    save_figure(plot_mix(mix).figure, path)  # type: ignore[arg-type]


def plot_dropping(dropping: Dropping, ax: Axes | None = None) -> Axes:
    """How often prompts that agreed in the pilot would still be mixed, and what their loss leaves.

    Args:
        dropping: What `effect_of_dropping` returned.
        ax: Where to draw; a new figure if None.
    """
    require(dropping, Dropping, "dropping", "Take one of effect_of_dropping(fit, group_size).")
    rows = []
    for name, kind, colour in (("never passed", dropping.never, VERMILION), ("always passed", dropping.always, BLUE)):
        for when, found in (("next visit", kind.mixed), (f"{dropping.visits} visits", kind.mixed_in_visits)):
            label = f"{kind.prompts:,} {name}, {when}"
            if found is None:
                rows.append(Row(label, None, note="no such prompt"))
            else:
                rows.append(Row(label, found.value, found.low, found.high, colour))
    with canvas(ax, height=height_of(len(rows)) + 0.2) as axes:
        intervals(axes, rows, digits=".2f")
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel(f"chance that a dropped prompt gives a mixed group of {dropping.group_size}")
        rest = dropping.rest_dead
        left = "nothing" if rest is None else f"{dropping.rest:,} of {dropping.prompts:,} prompts"
        dead = "" if rest is None else f", dead {rest.value:.2f} [{rest.low:.2f}, {rest.high:.2f}]"
        lost = "no group is mixed" if dropping.lost is None else f"{dropping.lost:.0%} of the mixed groups go with them"
        titled(axes, "Dropping prompts whose rollouts all agree", f"{lost}; {left} left{dead}")
    return axes


def plot_allocation(allocation: Allocation, ax: Axes | None = None) -> Axes:
    """Rollouts of each prompt, most first, beside equal ones.

    Args:
        allocation: What `allocate_rollouts` returned.
        ax: Where to draw; a new figure if None.
    """
    require(allocation, Allocation, "allocation", "Take one of allocate_rollouts(pass_rates, total).")
    order = np.argsort(-allocation.rollouts, kind="stable")
    rollouts = allocation.rollouts[order]
    x = np.arange(rollouts.size + 1)
    with canvas(ax) as axes:
        axes.stairs(rollouts, x, fill=True, color=SKY, label="rollouts of a prompt")
        axes.stairs(rollouts, x, color=BLUE, lw=1.2)
        if allocation.relaxed is not None:
            relaxed = allocation.relaxed[order]
            axes.plot(x[:-1] + 0.5, relaxed, color=ORANGE, ls="--", lw=1.2, label="before rounding")
        axes.axhline(float(rollouts.mean()), color=INK, ls=":", label=f"equal: {rollouts.mean():.3g} each")
        axes.set_xlim(0, rollouts.size)
        axes.set_ylim(0, 1.15 * float(rollouts.max()))
        axes.set(xlabel="prompts, most rollouts first", ylabel="rollouts")
        axes.legend(loc="upper right")
        titled(
            axes,
            f"{int(rollouts.sum()):,} rollouts over {rollouts.size:,} prompts ({allocation.estimator})",
            f"expected mixed groups {allocation.mixed_groups:.1f}; with equal rollouts "
            f"{allocation.uniform_mixed_groups:.1f}",
        )
    return axes
