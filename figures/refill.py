"""What a refilled step draws, against the size of the generation batch: a sawtooth that guesses of 1.5 fall into.

Run ``python -m figures.refill`` to write ``refill.csv`` and ``refill.svg`` beside this file.
"""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from grpo_plan.batches import refill
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, EXAMPLE_ROLLOUTS
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.plots import BLUE, GREY, INK, STYLE, VERMILION, save_figure

HERE = Path(__file__).resolve().parent
WANTED, GROUP_SIZE = 128, 8
SIZES = tuple(range(56, 353, 2))
FIELDS = ("gen_batch_size", "prompts", "low", "high", "one_by_one", "rounds_p95")
GUESSED, ONE_ROUND = 192, 256
Row = dict[str, float]


def data() -> list[Row]:
    """One row a generation batch; prompts per mixed group used."""
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    fit = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(counts.size), counts), EXAMPLE_ROLLOUTS))
    rows = []
    for size in SIZES:
        plan = refill(fit, prompts_per_step=WANTED, group_size=GROUP_SIZE, gen_batch_size=size)
        low, high = plan.limits(lambda at: at.prompts.mean / WANTED)
        at = plan.at_value
        numbers = (size, at.prompts.mean / WANTED, low, high or np.nan, at.one_by_one.mean / WANTED, at.rounds.p95)
        rows.append(dict(zip(FIELDS, map(float, numbers), strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw the rows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = {f: np.array([r[f] for r in rows]) for f in FIELDS}
    x, drawn = columns["gen_batch_size"] / WANTED, columns["prompts"]
    style: Any = {**STYLE, "svg.fonttype": "path", "font.size": 10}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.4, 4.2), layout="constrained")
        ax = figure.subplots()
        ax.fill_between(x, columns["low"], columns["high"], color=BLUE, alpha=0.2, lw=0)
        ax.plot(x, drawn, color=INK, lw=1.8)
        ax.axhline(columns["one_by_one"][0], color=VERMILION, lw=1.6, ls="--")
        ax.set(
            xlim=(x[0], x[-1]), ylim=(1.5, 3.8), xlabel=f"batch multiplier: generation batch over the {WANTED} wanted",
            ylabel="prompts drawn per mixed group used",
        )  # fmt: skip
        rounds = columns["rounds_p95"]
        edges = [0, *(np.flatnonzero(np.diff(rounds)) + 1), x.size]
        for start, stop in pairwise(edges):
            count = int(rounds[start])
            if start:
                ax.axvline(x[start], color=GREY, lw=0.8, ls=":")
            if count <= 3:
                words = f"{count} round{'' if count == 1 else 's'} in 95 %" if count < 3 else "3 rounds"
                ax.text(0.5 * (x[start] + x[stop - 1]), 1.54, words, color=GREY, fontsize=8, ha="center")
        at = {int(s): float(d) for s, d in zip(columns["gen_batch_size"], drawn, strict=True)}
        ax.annotate(
            f"a common guess, 1.5: {at[GUESSED]:.1f} drawn for 1 used", (1.5, at[GUESSED]), (0.66, 3.3), color=INK,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8},
        )  # fmt: skip
        ax.annotate(
            f"2.0: {at[ONE_ROUND]:.1f} drawn,\nhalf the rounds", (2.0, at[ONE_ROUND]), (2.12, 2.62), color=INK,
            arrowprops={"arrowstyle": "-", "color": INK, "lw": 0.8},
        )  # fmt: skip
        ax.text(1.2, 1.65, "one at a time: 1 / (1 - D) = 1.8", color=VERMILION, fontsize=9)
        ax.text(1.78, 3.34, "band: D at its\n95 % limits", color=BLUE, fontsize=9)
        ax.set_title("Dynamic sampling: a generation batch just too small draws most")
        save_figure(figure, path)


def main() -> None:
    """Write the data and the picture."""
    rows = data()
    with (HERE / "refill.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, HERE / "refill.svg")


if __name__ == "__main__":
    main()
