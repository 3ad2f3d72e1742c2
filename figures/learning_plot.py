"""Pictures of docs/simulation.md: sign against mean-centred advantages over kappa, and group sizes against the plan.

Run ``python -m figures.learning_plot`` to draw ``learning.svg`` and ``learning_sizes.svg`` from the tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from figures.learning import GROUP_SIZES, KAPPAS, SETS, Row, rows_of
from figures.learning_plan import PATH as PLAN_PATH
from figures.learning_tables import NAMES, NONE, WALK, duels, sizes_of
from grpo_plan.plots import save_figure, styled
from grpo_plan.plots.parts import log2_axis
from grpo_plan.plots.style import BLUE, GREY, INK, ORANGE, SKY, SMALL, VERMILION, figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
LINES = {"hard": (VERMILION, "^"), "mixed": (BLUE, "o"), "example": (ORANGE, "s"), "middling": (INK, "D")}
ZERO = 0.005  # where kappa = 0 is drawn


def draw_map(rows: list[Row], path: Path) -> None:
    """Lead of sign as a share of the larger gain, where anything but noise is learned."""
    with styled():
        made = figure(0, width=9.8, height=4.0)
        panels = made.subplots(1, 2, sharey=True)
        for ax, (rate_is, noise, title) in zip(panels, PANELS, strict=True):
            for i, rates in enumerate(SETS):
                _lead(ax, rows, rates, rate_is, noise, shift=1.07 ** (i - 1.5))
            ax.axhline(0.0, color=INK, linewidth=0.8)
            ax.set_xscale("log")
            ax.set_xlim(ZERO / 1.5, KAPPAS[-1] * 1.5)
            ax.set_xticks([ZERO, *KAPPAS[1:]], ["0", *(f"{kappa:g}" for kappa in KAPPAS[1:])])
            ax.minorticks_off()
            ax.set_xlabel("kappa, score noise over contrast")
            titled(ax, title)
            ax.text(0.02, 0.3, "marks: threshold of each set", fontsize=SMALL, color=GREY)
        panels[0].set_ylabel("lead of sign, share of the larger gain")
        panels[0].legend(loc="lower left")
        save_figure(made, path)


PANELS = (
    ("common 0.125", "spreads", "Noise spreads, one small learning rate for both"),
    ("best", "costs", "Noise costs, each at its best learning rate"),
)


def _lead(ax: Axes, rows: list[Row], rates: str, rate_is: str, noise: str, *, shift: float) -> None:
    colour, marker = LINES[rates]
    found = [
        duel
        for duel in duels(
            rows, study="map", rates=rates, rate_is=rate_is, noise=noise, coherence="low", optimizer="adam-norm",
            prompts=128,
        )
        if duel.verdict not in (NONE, WALK)
    ]  # fmt: skip
    x = np.array([max(float(d.sign["kappa"]), ZERO) for d in found]) * shift
    top = np.array([max(abs(float(d.sign["gain"])), abs(float(d.mean["gain"]))) for d in found])
    lead, low, high = (np.array([float(d.sign[name]) for d in found]) / top for name in ("difference", "low", "high"))
    ax.plot(x, lead, color=colour, marker=marker, markersize=4, linewidth=1.2, label=NAMES[rates])
    ax.vlines(x, low, high, color=colour, linewidth=1.0)
    edge = float(found[0].sign["threshold"])
    if np.isfinite(edge):
        ax.plot([edge, edge], [0.2, 0.28], color=colour, linewidth=2.0)


def draw_sizes(rows: list[Row], plans: list[Row], path: Path) -> None:
    """Gain of each group size relative to the best, with the planner's progress and flat range."""
    with styled():
        made = figure(0, width=9.8, height=5.8)
        panels = made.subplots(2, 2, sharex=True, sharey=True)
        for ax, plan in zip(panels.flat, plans, strict=True):
            low, high = float(plan["flat_low"]), float(plan["flat_high"])
            ax.axvspan(low / 1.06, high * 1.06, color=SKY, alpha=0.35, linewidth=0, label="flat range of the plan")
            planned = [float(plan[f"progress_{g}"]) for g in GROUP_SIZES]
            ax.plot(GROUP_SIZES, planned, color=GREY, linestyle=":", linewidth=1.4, label="planned, 1 / (1 + NSR)")
            for noise, rate_is, colour, dash, marker, words in CURVES:
                found = sizes_of(rows, plan["kappa"], noise, rate_is)
                share = [found.share(g) for g in GROUP_SIZES]
                ax.plot(
                    GROUP_SIZES, share, color=colour, linestyle=dash, marker=marker, markersize=3.5, linewidth=1.2,
                    label=words,
                )  # fmt: skip
            log2_axis(ax, GROUP_SIZES, "", room=1.1)
            ax.set_ylim(0.0, 1.05)
            titled(ax, f"kappa = {plan['kappa']}")
        for ax in panels[1]:
            ax.set_xlabel("group size G")
        for ax in panels[:, 0]:
            ax.set_ylabel("gain relative to the best G")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower center", ncols=3)
        save_figure(made, path)


CURVES = (
    ("costs", "common 0.125", BLUE, "-", "o", "noise costs, one small rate"),
    ("spreads", "common 0.125", ORANGE, "-", "s", "noise spreads, one small rate"),
    ("costs", "best", VERMILION, "--", "^", "noise costs, best rate of each"),
)


def main() -> None:
    """Draw both pictures."""
    rows = rows_of()
    draw_map(rows, HERE / "learning.svg")
    draw_sizes(rows, rows_of(PLAN_PATH), HERE / "learning_sizes.svg")


if __name__ == "__main__":
    main()
