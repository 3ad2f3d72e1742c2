"""Two policies by pass@k whose curves cross. Writes figures/passk_picture.csv and figures/passk.svg.

Run ``python -m figures.passk_picture``. Simulated: 1,000 prompts of Beta(0.4, 0.9) pass rates, 16 rollouts each; after
training the odds are four times as large, but for two in five of the prompts below 0.3, which never pass.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np

from grpo_plan.passk import PassComparison, compare_pass
from grpo_plan.pilot import Pilot
from grpo_plan.plots import plot_pass_curve, save_figure

PICTURE = Path(__file__).resolve().with_name("passk.svg")
TABLE = Path(__file__).with_suffix(".csv")
SEED, PROMPTS, ROLLOUTS = 20261203, 1000, 16
FIELDS = ("k", "before", "before_low", "before_high", "after", "after_low", "after_high")
Row = dict[str, float | None]


@cache
def comparison() -> PassComparison:
    """The two simulated policies."""
    rng = np.random.default_rng(SEED)
    before = rng.beta(0.4, 0.9, PROMPTS)
    odds = 4.0 * before / np.maximum(1.0 - before, 1e-12)
    after = np.where((before < 0.3) & (rng.random(PROMPTS) < 0.4), 0.0, odds / (1.0 + odds))
    names = [f"q{i}" for i in range(PROMPTS)]
    first, second = (Pilot.from_counts(rng.binomial(ROLLOUTS, p), ROLLOUTS, prompt_id=names) for p in (before, after))
    return compare_pass(first, second)


def data() -> list[Row]:
    """One row a k."""
    found = comparison()
    rows: list[Row] = []
    for b, a in zip(found.before.points, found.after.points, strict=True):
        rows.append(dict(zip(FIELDS, (b.k, b.value, b.low, b.high, a.value, a.low, a.high), strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw the comparison that the rows are of."""
    save_figure(plot_pass_curve(comparison()).figure, path)  # type: ignore[arg-type]


def main() -> None:
    """Write the data and the picture."""
    rows = data()
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, PICTURE)


if __name__ == "__main__":
    main()
