"""What the planner says of the group sizes that `figures.learning` simulates.

Run ``python -m figures.learning_plan`` to write ``learning_plan.csv`` beside this file; no random numbers are used.
"""

from __future__ import annotations

from pathlib import Path

import grpo_plan as gp
from figures.learning import GROUP_SIZES, ROLLOUTS, SIZE_KAPPAS, Row, short, write_rows
from figures.learning_cells import COHERENCE, STEPS, example_fit

PATH = Path(__file__).resolve().parent / "learning_plan.csv"
FIELDS = ("kappa", "pick", "best", "flat_low", "flat_high", "few_dead", *(f"progress_{g}" for g in GROUP_SIZES))
MOST_DEAD = 0.4


def rows() -> list[Row]:
    """One row a kappa: the planner's pick, its best group size and flat range, the first G with few dead groups."""
    shared, direction = COHERENCE["low"]
    found = []
    for kappa in SIZE_KAPPAS:
        plan = gp.plan_group_size(
            example_fit(), budget=gp.Budget(rollouts=ROLLOUTS * STEPS, steps=STEPS), estimator="rloo", kappa=kappa,
            coherence=shared * direction, group_sizes=GROUP_SIZES,
        )  # fmt: skip
        few = next(p.design.group_size for p in plan.frontier if (p.dead.value or 0.0) <= MOST_DEAD)
        row = {
            "kappa": short(kappa), "pick": str(plan.recommended.design.group_size),
            "best": str(plan.sensitivity[0].group_size), "flat_low": str(plan.flat_range[0]),
            "flat_high": str(plan.flat_range[1]), "few_dead": str(few),
        }  # fmt: skip
        row |= {f"progress_{p.design.group_size}": f"{plan.progress_at(p, kappa):.4f}" for p in plan.frontier}
        found.append(row)
    return found


if __name__ == "__main__":
    write_rows(rows(), FIELDS, PATH)
