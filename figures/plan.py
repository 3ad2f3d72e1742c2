"""The plan of the example: what each group size costs for the same progress, and the mixed groups of a step.

Run ``python -m figures.plan`` to write ``plan.csv`` and ``plan.svg`` beside this file.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from grpo_plan.costs import Budget
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, EXAMPLE_ROLLOUTS
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot
from grpo_plan.planning import Plan, plan_group_size
from grpo_plan.plots import draw_plan

HERE = Path(__file__).resolve().parent
BUDGET = Budget(rollouts=2_000_000, steps=500)
FIELDS = ("group_size", "prompts_per_step", "progress_low", "progress_middle", "progress_high", "mixed", "p05", "p95")
Row = dict[str, float]


def planned() -> Plan:
    """The plan of the README."""
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    fit = fit_pass_rates(Pilot.from_counts(np.repeat(np.arange(counts.size), counts), EXAMPLE_ROLLOUTS))
    return plan_group_size(fit, budget=BUDGET)


def data() -> list[Row]:
    """One row a design."""
    plan = planned()
    kappas = [answer.kappa for answer in plan.sensitivity]
    rows = []
    for p in plan.frontier:
        mixed = p.batch.mixed_groups
        shares = [plan.progress_at(p, kappa) for kappa in kappas]
        numbers: Any = (p.design.group_size, p.design.prompts_per_step, *shares, mixed.mean, mixed.p05, mixed.p95)
        rows.append(dict(zip(FIELDS, map(float, numbers), strict=True)))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw the plan that the rows are of."""
    draw_plan(planned(), path)


def main() -> None:
    """Write the data and the picture."""
    rows = data()
    with (HERE / "plan.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, HERE / "plan.svg")


if __name__ == "__main__":
    main()
