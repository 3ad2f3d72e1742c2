"""Coverage and error study of the default estimates; writes figures/calibration.csv.

Run ``python -m figures.calibration [replications [workers]]``, and with ``few`` in front for figures/few_values.csv:
populations of few pass rates, also at larger n. Measured populations join where the environment variable
GRPO_PLAN_REAL_DATA names the folder of their files.
"""

from __future__ import annotations

import csv
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from figures.truths import FEW_VALUES, SYNTHETIC, Truth, real_truths
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot

TABLE = Path(__file__).with_suffix(".csv")
FEW_TABLE = TABLE.with_name("few_values.csv")
REAL = Path(os.environ.get("GRPO_PLAN_REAL_DATA", "no folder named"))
PROMPTS = (50, 200, 1000, 10_000)
ROLLOUTS = (4, 8, 16)
MULTIPLES = (1, 2, 4, 8)
REPLICATIONS = 400
SEED = 20261130
PARTS_AT = (200, 8)  # prompts and rollouts at which the parts and the simultaneous band are covered too
ESTIMATORS = ("auto", "beta", "nonparametric", "plug-in", "iid")
FIELDS = [
    "truth", "real", "prompts", "rollouts", "group_size", "replications", "dead",
    "coverage", "below", "above", "width", "smooth_coverage", "smooth_width",
    "pass_coverage", "fail_coverage", "simultaneous_coverage", "simultaneous_width",
    *(f"rmse_{name}" for name in ESTIMATORS), *(f"bias_{name}" for name in ESTIMATORS),
]  # fmt: skip


def truths() -> dict[str, Truth]:
    """Every population at hand, by name."""
    return {truth.name: truth for truth in [*SYNTHETIC, *FEW_VALUES, *real_truths(REAL)]}


def measure(truth: Truth, prompts: int, rollouts: int, replications: int) -> list[dict[str, object]]:
    """One row for each group size, from pilots with a seed of their own."""
    generator = np.random.default_rng([SEED, crc32(truth.name.encode()), prompts, rollouts])
    sizes = [rollouts * m for m in MULTIPLES]
    ends, smooth, passes, fails, band = (np.full((replications, len(sizes), 2), np.nan) for _ in range(5))
    values = np.full((replications, len(sizes), len(ESTIMATORS)), np.nan)
    for r in range(replications):
        pilot = Pilot.from_counts(generator.binomial(rollouts, truth.draw(generator, prompts)), rollouts)
        fit = fit_pass_rates(pilot)
        beta, raw = fit.beta.rates, fit.nonparametric
        for i, size in enumerate(sizes):
            dead = fit.dead(size)
            ends[r, i], smooth[r, i] = dead.interval, dead.smooth_interval or (np.nan, np.nan)
            if (prompts, rollouts) == PARTS_AT:
                passes[r, i], fails[r, i] = dead.all_pass_interval, dead.all_fail_interval
                band[r, i] = fit.dead(size, simultaneous=True).interval
            others = float(beta.dead(size)), raw.all_pass(size) + raw.all_fail(size)
            values[r, i] = [dead.value, *others, dead.plug_in, dead.iid]
    exact = np.array([truth.dead(size) for size in sizes])
    together = float(np.mean(np.all((band[..., 0] <= exact + 1e-9) & (exact <= band[..., 1] + 1e-9), axis=1)))
    rows = []
    for i, size in enumerate(sizes):
        row = _row(truth, prompts, rollouts, size, ends[:, i], smooth[:, i], values[:, i])
        if (prompts, rollouts) == PARTS_AT:
            row["pass_coverage"] = _coverage(passes[:, i], truth.all_pass(size))
            row["fail_coverage"] = _coverage(fails[:, i], truth.dead(size) - truth.all_pass(size))
            row["simultaneous_coverage"] = f"{together:.4f}"
            row["simultaneous_width"] = f"{float(np.mean(band[:, i, 1] - band[:, i, 0])):.5f}"
        rows.append(row)
    return rows


def _coverage(ends: NDArray[np.float64], value: float) -> str:
    return f"{float(np.mean((ends[:, 0] <= value + 1e-9) & (value <= ends[:, 1] + 1e-9))):.4f}"


def _row(
    truth: Truth,
    prompts: int,
    rollouts: int,
    size: int,
    ends: NDArray[np.float64],
    smooth: NDArray[np.float64],
    values: NDArray[np.float64],
) -> dict[str, object]:
    dead = truth.dead(size)
    below, above = ends[:, 1] < dead - 1e-9, ends[:, 0] > dead + 1e-9
    known = np.isfinite(smooth[:, 0])
    inside = (smooth[known, 0] <= dead) & (dead <= smooth[known, 1])
    row: dict[str, object] = {
        "truth": truth.name,
        "real": int(truth.real),
        "prompts": prompts,
        "rollouts": rollouts,
        "group_size": size,
        "replications": len(ends),
        "dead": f"{dead:.6f}",
        "coverage": f"{1 - float(np.mean(below | above)):.4f}",
        "below": f"{float(np.mean(below)):.4f}",
        "above": f"{float(np.mean(above)):.4f}",
        "width": f"{float(np.mean(ends[:, 1] - ends[:, 0])):.5f}",
        "smooth_coverage": f"{float(np.mean(inside)):.4f}" if known.any() else "",
        "smooth_width": f"{float(np.mean(smooth[known, 1] - smooth[known, 0])):.5f}" if known.any() else "",
    }
    for i, name in enumerate(ESTIMATORS):
        error = values[:, i] - dead
        row[f"rmse_{name}"] = f"{float(np.sqrt(np.mean(error**2))):.5f}"
        row[f"bias_{name}"] = f"{float(np.mean(error)):.5f}"
    return row


def _job(cell: tuple[str, int, int, int]) -> list[dict[str, object]]:
    name, prompts, rollouts, replications = cell
    return measure(truths()[name], prompts, rollouts, replications)


def main() -> None:
    """Measure every cell, in a fixed order."""
    arguments = sys.argv[1:]
    few = arguments[:1] == ["few"]
    numbers = [int(word) for word in arguments[few:]]
    replications = numbers[0] if numbers else REPLICATIONS
    workers = numbers[1] if len(numbers) > 1 else os.cpu_count() or 1
    names = [t.name for t in (FEW_VALUES if few else (*SYNTHETIC, *real_truths(REAL)))]
    grid = product(names, (200, 1000), (8, 16, 32, 64)) if few else product(names, PROMPTS, ROLLOUTS)
    cells = [(name, m, n, replications) for name, m, n in grid]
    with (
        (FEW_TABLE if few else TABLE).open("w", encoding="utf-8", newline="") as file,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for i, rows in enumerate(pool.map(_job, cells)):
            writer.writerows(rows)
            file.flush()
            print(f"{i + 1} of {len(cells)}: {cells[i][0]}, {cells[i][1]} prompts", file=sys.stderr)


if __name__ == "__main__":
    main()
