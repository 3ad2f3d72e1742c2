"""Picture of docs/validation.md: gains of group sizes in training against the plan.

Run ``python -m figures.validation_plot`` to draw ``validation_outcome.svg`` from the committed results.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from figures.validation.outcome_plan import Plan, plans
from figures.validation.outcome_tables import NAMES, best_of, shares, sizes_of, worlds
from figures.validation.upper_end import predicted
from grpo_plan.plots import save_figure, styled
from grpo_plan.plots.parts import log2_axis
from grpo_plan.plots.style import BLUE, GREEN, GREY, INK, ORANGE, SKY, VERMILION, figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PATH = Path(__file__).resolve().parent / "validation_outcome.svg"
SHOWN = (2, 4, 8, 16, 32, 64)
LOW, HIGH = -0.25, 1.35


def panel(ax: Axes, world: str, plan: Plan | None) -> None:
    """One world: measured shares with limits, the planner's curve, its flat range and its pick."""
    gains = sizes_of(world).held_out()
    measured = shares(gains)
    sizes = np.array(list(measured))
    ax.axhline(0.0, color=INK, linewidth=0.6)
    if plan:
        low, high = plan.flat
        ax.axvspan(low / 1.07, high * 1.07, color=SKY, alpha=0.35, linewidth=0, label="flat range of the plan")
        ax.axvline(plan.pick, color=VERMILION, linewidth=1.0, linestyle="--", label="pick of the plan, measured kappa")
        swept = [size for size in sizes if size in plan.progress]
        top = max(plan.progress[size] for size in swept)
        ax.plot(swept, [plan.progress[s] / top for s in swept], color=ORANGE, linestyle=":", label="planned, e(G)")
        noise = plan.relative()
        if noise:
            ax.plot(
                swept,
                [noise[s] for s in swept],
                color=GREY,
                linestyle="-.",
                linewidth=1.1,
                label="1 / (1 + NSR), exact gradients, noise by length",
            )
    moved = predicted(world, "signal", tuple(int(size) for size in sizes))
    ax.plot(
        sizes,
        [moved[int(size)] for size in sizes],
        color=GREEN,
        linestyle="--",
        linewidth=1.1,
        label="the same, noise by how far it moves pass rates",
    )
    values = np.array([measured[size].value for size in sizes])
    ends = np.array([[measured[size].low, measured[size].high] for size in sizes])
    ends = np.clip(np.nan_to_num(ends, nan=0.0, posinf=HIGH, neginf=LOW), LOW, HIGH)
    ax.vlines(sizes, ends[:, 0], ends[:, 1], color=BLUE, linewidth=1.2)
    ax.plot(sizes, values, color=BLUE, marker="o", label="measured in training, 95 %")
    log2_axis(ax, [size for size in SHOWN if size <= sizes[-1]], "", room=1.15)
    ax.set_ylim(LOW, HIGH)
    ax.set_yticks([0.0, 0.5, 1.0])
    ax.grid(visible=False)
    ax.tick_params(bottom=False, left=False)
    titled(ax, NAMES[world], f"best measured: G = {best_of(gains)}" + (f"; pick {plan.pick}" if plan else ""))


def draw(path: Path = PATH) -> None:
    """All worlds."""
    try:
        found = plans()
    except FileNotFoundError:
        found = {}
    held = worlds()
    with styled():
        made = figure(0, width=9.8, height=2.75 * -(-len(held) // 3) + 0.9)
        panels = np.atleast_1d(made.subplots(-(-len(held) // 3), 3, sharey=True)).reshape(-1, 3)
        for ax, world in zip(panels.flat, held, strict=False):
            panel(ax, world, found.get(world))
        for ax in list(panels.flat)[len(held) :]:
            ax.set_visible(False)
        for ax in panels[-1]:
            ax.set_xlabel("group size G")
        for ax in panels[:, 0]:
            ax.set_ylabel("gain, share of the best G")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower center", ncols=2)
        save_figure(made, path)


if __name__ == "__main__":
    draw()
