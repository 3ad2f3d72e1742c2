"""Picture of a mix: shares before and after, and how often groups of each stratum are dead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from grpo_plan.planning.mix_plan import Mix
from grpo_plan.plots import BLUE, GREY, INK, SKY, STYLE, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_WIDTH = 24
ROW = 0.55  # inches a stratum


def plot_mix(mix: Mix, ax: Axes | None = None) -> Axes:
    """Share of each stratum before and after, with its dead fraction beside the name.

    Args:
        mix: A planned mix.
        ax: Where to draw; a new figure if None.

    Returns:
        The axes.
    """
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.8, 1.5 + ROW * len(mix.strata)), layout="constrained")
        ax = figure.subplots()
    places = np.arange(len(mix.strata))[::-1].astype(np.float64)
    before, after = np.array([s.before for s in mix.strata]), np.array([s.after for s in mix.strata])
    ax.barh(places + 0.2, before, height=0.36, color=SKY, label="now")
    ax.barh(places - 0.2, after, height=0.36, color=BLUE, label="planned")
    top = float(max(before.max(), after.max()))
    for place, *shares in zip(places, before, after, strict=True):
        for offset, share in zip((0.2, -0.2), shares, strict=True):
            ax.text(share + 0.012 * top, place + offset, f"{share:.0%}", va="center", fontsize=8, color=INK)
    ax.set_yticks(places, [f"{_short(s.law.name)}\ndead {s.law.dead:.2f}" for s in mix.strata])
    for label in ax.get_yticklabels():
        label.set_color(INK)
    ax.set_axisbelow(True)
    ax.grid(False, axis="y")
    ax.tick_params(axis="y", length=0)
    ticks = np.arange(0.0, 1.01, 0.1 if top < 0.6 else 0.2)
    ax.set_xticks(ticks, [f"{t:.0%}" for t in ticks])
    ax.set(xlim=(0.0, 1.14 * top), ylim=(-0.7, len(mix.strata) - 0.3), xlabel="share of a step's prompts")
    gains = [g.gain.value for g in mix.gains]
    span = " to ".join(dict.fromkeys((f"x{min(gains):.2f}", f"x{max(gains):.2f}")))
    ax.set_title(
        f"Mix at G = {mix.group_size}: progress {span}, dead {mix.dead_before.value:.2f} to {mix.dead_after.value:.2f}"
    )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.02), ncols=2, frameon=False, fontsize=8, labelcolor=GREY)
    return ax


def draw_mix(mix: Mix, path: Path) -> None:
    """Write the picture of a mix."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        ax = plot_mix(mix)
        figure = ax.get_figure(root=True)
        if figure is not None:
            save_figure(figure, path)


def _short(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."
