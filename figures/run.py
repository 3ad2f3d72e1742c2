"""The example run against the plan of its pilot: what its groups are made of, and its dead fraction.

Run ``python -m figures.run`` to write ``run.csv`` and ``run.svg`` beside this file.
"""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

from figures.plan import planned
from grpo_plan.example import example_run_lines
from grpo_plan.plots import plot_composition, plot_dead_against_plan, save_figure, styled
from grpo_plan.plots.style import figure
from grpo_plan.quantities import Absent
from grpo_plan.readers.run_reader import read_run
from grpo_plan.runs.diagnosis import Diagnosis, diagnose

HERE = Path(__file__).resolve().parent
FIELDS = ("step", "all_fail", "mixed", "all_pass", "dead", "pass_rate", "planned", "planned_low", "planned_high")
LOGGED = ("all_fail_fraction", "mixed_fraction", "all_pass_fraction", "dead_fraction", "pass_rate_mean")
Row = dict[str, float]


@cache
def diagnosed() -> Diagnosis:
    """The example run against the plan of the README."""
    return diagnose(read_run([json.loads(line) for line in example_run_lines()]), planned())


def data() -> list[Row]:
    """One row a row of the log."""
    found = diagnosed()
    expected = found.facts.planned
    if expected is None or expected.dead.value is None:
        raise ValueError("the plan expects nothing at the group size of the run")
    plan = (expected.dead.value, expected.dead.low, expected.dead.high)
    series = [_values(found, name) for name in LOGGED]
    rows = zip(found.run.steps.tolist(), *series, strict=True)
    return [dict(zip(FIELDS, (*map(float, row), *plan), strict=True)) for row in rows]


def _values(found: Diagnosis, name: str) -> list[float]:
    logged = found.run.quantity(name)
    if isinstance(logged, Absent):
        raise ValueError(logged.reason)
    return [float(value) for value in logged.values]


def draw(rows: list[Row], path: Path) -> None:
    """Draw the run that the rows are of."""
    with styled():
        made = figure(2)
        left, right = made.axes
        plot_composition(diagnosed(), left)
        plot_dead_against_plan(diagnosed(), right)
        right.set_ylim(0.38, 0.54)
        save_figure(made, path)


def main() -> None:
    """Write the data and the picture."""
    rows = data()
    with (HERE / "run.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, HERE / "run.svg")


if __name__ == "__main__":
    main()
