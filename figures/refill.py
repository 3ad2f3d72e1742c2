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
from grpo_plan.plots import save_figure, styled
from grpo_plan.plots.parts import band
from grpo_plan.plots.style import BLUE, GREY, INK, SMALL, VERMILION, figure, titled

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
    columns = {f: np.array([r[f] for r in rows]) for f in FIELDS}
    x, drawn, single = columns["gen_batch_size"] / WANTED, columns["prompts"], columns["one_by_one"][0]
    with styled():
        made = figure(1, width=7.4, height=4.2)
        ax = made.axes[0]
        band(ax, x, columns["low"], columns["high"])
        ax.plot(x, drawn, color=INK, lw=1.8)
        ax.axhline(single, color=VERMILION, lw=1.6, ls="--")
        ax.set_xlim(x[0], x[-1])
        ax.set_ylim(1.5, 3.8)
        ax.set_xlabel(f"batch multiplier: generation batch over the {WANTED} wanted")
        ax.set_ylabel("prompts drawn per mixed group used")
        rounds = columns["rounds_p95"]
        edges = [0, *(np.flatnonzero(np.diff(rounds)) + 1), x.size]
        for start, stop in pairwise(edges):
            count = int(rounds[start])
            if start:
                ax.axvline(x[start], color=GREY, lw=0.8, ls=":")
            if count <= 3:
                words = f"{count} round{'' if count == 1 else 's'} in 95 %" if count < 3 else "3 rounds"
                ax.text(0.5 * (x[start] + x[stop - 1]), 1.54, words, color=GREY, fontsize=SMALL, ha="center")
        at = {int(s): float(d) for s, d in zip(columns["gen_batch_size"], drawn, strict=True)}
        line: Any = {"arrowstyle": "->", "color": INK, "lw": 1.0, "shrinkB": 4}
        for words, size, where in (
            (f"a common guess, 1.5: {at[GUESSED]:.1f} drawn for 1 used", GUESSED, (0.62, 3.45)),
            (f"2.0: {at[ONE_ROUND]:.1f} drawn,\nhalf the rounds", ONE_ROUND, (2.14, 2.85)),
        ):
            ax.plot([size / WANTED], [at[size]], "o", ms=7, color=INK)
            ax.annotate(words, (size / WANTED, at[size]), where, color=INK, weight="bold", arrowprops=line)
        ax.text(1.2, single - 0.11, f"one at a time: 1 / (1 - D) = {single:.1f}", color=VERMILION)
        ax.text(1.86, 3.22, "band: D at its\n95 % limits", color=BLUE)
        titled(ax, "Dynamic sampling: a generation batch just too small draws most")
        save_figure(made, path)


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
