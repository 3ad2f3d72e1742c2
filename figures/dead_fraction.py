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
from grpo_plan.pilot import Pilot
from grpo_plan.plots import BLUE, GREY, INK, STYLE, VERMILION, save_figure

HERE = Path(__file__).resolve().parent
SIZES = tuple(range(2, 65))
# Pooled groups of the same prompts at later visits of the same training run (visits 1-2, 1-4 and 1-8), published log.
LATER_VISITS = {16: 0.3284, 32: 0.2366, 64: 0.1770}
FIELDS = ("group_size", "dead", "low", "high", "iid", "later_visits")
Row = dict[str, float | None]


def data() -> list[Row]:
    """One row a group size."""
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    fit = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(counts.size), counts), EXAMPLE_ROLLOUTS))
    rows: list[Row] = []
    for g in SIZES:
        d = fit.dead(g)
        rows.append(dict(zip(FIELDS, (g, d.value, d.low, d.high, d.iid, LATER_VISITS.get(g)), strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw the rows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = {f: np.array([np.nan if r[f] is None else r[f] for r in rows], dtype=float) for f in FIELDS}
    g, dead = columns["group_size"], columns["dead"]
    measured, later = g <= EXAMPLE_ROLLOUTS, ~np.isnan(columns["later_visits"])
    beyond = g >= EXAMPLE_ROLLOUTS
    style: Any = {**STYLE, "svg.fonttype": "path", "font.size": 10}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.4, 4.2), layout="constrained")
        ax = figure.subplots()
        ax.fill_between(g, columns["low"], columns["high"], color=BLUE, alpha=0.2, lw=0)
        ax.plot(g[measured], dead[measured], "o-", color=BLUE, ms=4, lw=1.6)
        ax.plot(g[beyond], dead[beyond], color=BLUE, lw=1.6, ls=(0, (4, 2)))
        ax.plot(g[later], columns["later_visits"][later], "D", ms=7, mfc="white", mec=INK, mew=1.4, zorder=5)
        ax.plot(g, columns["iid"], color=VERMILION, lw=1.8, ls="-.")
        ax.axvline(EXAMPLE_ROLLOUTS, color=GREY, lw=0.8, ls=":")
        ax.set_xscale("log", base=2)
        ax.set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
        ax.minorticks_off()
        ax.set(
            xlim=(1.9, 72), ylim=(0, 0.85), xlabel="group size G (rollouts per prompt)", ylabel="share of dead groups"
        )
        at = {int(s): i for i, s in enumerate(g)}
        ax.annotate(
            f"measured: {100 * dead[at[8]]:.0f} % at G = 8", (8, dead[at[8]]), (9.6, 0.55), color=BLUE,
            arrowprops={"arrowstyle": "-", "color": BLUE, "lw": 0.8},
        )  # fmt: skip
        ax.annotate(
            f"i.i.d. formula: {100 * columns['iid'][at[8]]:.0f} % at G = 8", (8, columns["iid"][at[8]]), (9.6, 0.12),
            color=VERMILION, arrowprops={"arrowstyle": "-", "color": VERMILION, "lw": 0.8},
        )  # fmt: skip
        ax.annotate(
            "measured later\nin the training run", (32, LATER_VISITS[32]), (36, 0.36), color=INK,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8},
        )  # fmt: skip
        ax.text(70, 0.025, "pilot: 1,209 prompts x 8 rollouts, mean pass rate 0.33", color=GREY, fontsize=8, ha="right")
        ax.text(8.2, 0.80, "beyond the pilot's 8 rollouts per prompt", color=GREY, fontsize=8)
        ax.set_title("A real GRPO run: 44 % of the groups were dead, the usual formula said 4 %")
        save_figure(figure, path)


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
