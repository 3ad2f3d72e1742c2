"""The README's picture: what the i.i.d. formula promises, what a real pilot says, what later training showed.

Run ``python -m figures.dead_fraction`` to write ``dead_fraction.csv`` and ``dead_fraction.svg`` beside this file.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, EXAMPLE_ROLLOUTS
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.fitting.intervals import wilson_interval
from grpo_plan.pilot import Pilot
from grpo_plan.plots import STYLE, save_figure
from grpo_plan.plots.parts import band, log2_axis, percent
from grpo_plan.plots.style import BLUE, GREY, INK, VERMILION, WHITE

HERE = Path(__file__).resolve().parent
SIZES = tuple(range(2, 65))
# Pooled groups of the same prompts at later visits of the same training run (visits 1-2, 1-4 and 1-8), published log.
LATER_VISITS = {16: 0.3284, 32: 0.2366, 64: 0.1770}
LEVEL = 0.95
SHOWN = 8  # the group size that is named
FIELDS = ("group_size", "dead", "low", "high", "iid", "later_visits", "later_low", "later_high")
Row = dict[str, float | None]


def data() -> list[Row]:
    """One row a group size; the limits of later visits are those of so many groups, one a prompt (Wilson)."""
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    fit = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(counts.size), counts), EXAMPLE_ROLLOUTS))
    rows: list[Row] = []
    for g in SIZES:
        d, later = fit.dead(g, LEVEL), LATER_VISITS.get(g)
        limits = (None, None) if later is None else wilson_interval(later, float(counts.sum()), LEVEL)
        rows.append(dict(zip(FIELDS, (g, d.value, d.low, d.high, d.iid, later, *limits), strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw the rows: for a page 700 pixels wide, with names at the curves."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = {f: np.array([np.nan if r[f] is None else r[f] for r in rows], dtype=float) for f in FIELDS}
    g, dead, iid, later = (columns[name] for name in ("group_size", "dead", "iid", "later_visits"))
    counted, checked = g <= EXAMPLE_ROLLOUTS, ~np.isnan(later)
    here = int(np.flatnonzero(g == SHOWN)[0])
    truth, formula = float(dead[here]), float(iid[here])
    bigger = {
        "font.size": 11,
        "axes.labelsize": 11,
        "axes.titlesize": 12.5,
        "xtick.labelsize": 11,
        "ytick.labelsize": 11,
    }
    style: Any = {**STYLE, **bigger, "svg.fonttype": "path"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.0, 4.4), layout="constrained")
        ax = figure.subplots()
        band(ax, g, columns["low"], columns["high"])
        ax.plot(g[~counted | (g == SHOWN)], dead[~counted | (g == SHOWN)], color=BLUE, lw=2.2, ls=(0, (4, 2)))
        ax.plot(g[counted], dead[counted], "o-", color=BLUE, ms=6, lw=2.2)
        ax.plot(g, iid, color=VERMILION, lw=2.2, ls="-.")
        ax.vlines(
            g[checked], columns["later_low"][checked], columns["later_high"][checked], color=INK, lw=1.6, zorder=5
        )
        ax.plot(g[checked], later[checked], "D", ms=8, mfc=WHITE, mec=INK, mew=1.6, zorder=6)
        ax.annotate(
            "", (SHOWN, truth - 0.015), (SHOWN, formula + 0.015),
            arrowprops={"arrowstyle": "<->", "color": INK, "lw": 1.4, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip
        ax.text(SHOWN / 1.06, 0.24, f"{truth / formula:.0f} times", ha="right", va="center", weight="bold")
        _point(ax, f"pilot: {truth:.0%} dead", (SHOWN, truth), (9.6, 0.60), BLUE)
        _point(ax, f"i.i.d. formula: {formula:.0%}", (SHOWN, formula), (9.6, 0.115), VERMILION)
        _point(ax, "seen later,\nin training", (32, LATER_VISITS[32]), (38, 0.47), INK)
        ax.text(3.0, 0.765, "counted by the pilot", color=BLUE, va="center")
        ax.text(17.5, 0.765, f"extrapolated, {percent(LEVEL)} interval", color=BLUE, va="center", ha="left")
        ax.axvline(SHOWN, color=GREY, lw=0.8, ls=":", zorder=0)
        log2_axis(ax, [2, 4, 8, 16, 32, 64], room=1.06)
        ticks = np.arange(0.0, 0.9, 0.2)
        ax.set_yticks(ticks, [f"{t:.0%}" for t in ticks])
        ax.set_ylim(-0.015, 0.82)
        ax.set_ylabel("share of dead groups")
        ax.set_title(f"At G = {SHOWN}, {truth:.0%} of groups are dead; the usual formula says {formula:.0%}")
        save_figure(figure, path)


def _point(ax: Any, words: str, at: tuple[float, float], where: tuple[float, float], colour: str) -> None:
    """Words with an arrow to what they name."""
    ax.annotate(
        words, at, where, color=colour, weight="bold", va="center", linespacing=1.1,
        arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.3, "shrinkB": 5},
    )  # fmt: skip


def main() -> None:
    """Write the data and the picture."""
    rows = data()
    with (HERE / "dead_fraction.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, HERE / "dead_fraction.svg")


if __name__ == "__main__":
    main()
