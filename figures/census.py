"""Coverage of census intervals: the same prompts, other rollouts. Writes figures/census.csv.

Run ``python -m figures.census [replications]``. Two kinds of population: fixed lists of pass rates drawn once from the
synthetic truths (pilots are binomial), and measured counts of many rollouts (pilots draw 8 of them without replacement;
the target is the unbiased D(G) of all rollouts). Measured counts join where their files are at hand.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from figures.calibration import REAL
from figures.truths import SYNTHETIC
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.pilot import Pilot

TABLE = Path(__file__).with_suffix(".csv")
REPLICATIONS = 200
ROLLOUTS = 8
SIZES = (8, 16, 32, 64)
LISTED_PROMPTS = 500
SEED = 20261201
FIELDS = [
    "population", "real", "prompts", "group_size", "replications", "dead", "coverage", "width",
    "sample_coverage", "sample_width", "rmse_auto", "rmse_beta",
]  # fmt: skip
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def measured_counts(folder: Path) -> dict[str, tuple[Counts, Counts]]:
    """Passes and rollouts of every prompt of each measured set."""
    import polars as pl

    found = {}
    monkeys = folder / "monkeys_llama3_gsm8k_math_n10000.csv"
    if monkeys.is_file():
        for (model, benchmark), part in pl.read_csv(monkeys).group_by("model", "benchmark", maintain_order=True):
            size = "70B" if "70B" in str(model) else "8B"
            found[f"{str(benchmark).lower()} {size}"] = part["k"].to_numpy(), part["n"].to_numpy()
    small = folder / "math500_llama32_1b_n1280.csv"
    if small.is_file():
        table = pl.read_csv(small)
        found["math500 1B"] = table["k"].to_numpy(), table["n"].to_numpy()
    return found


def measure(name: str, real: bool, truth: list[float], pilots: list[Counts]) -> list[dict[str, object]]:
    """One row for each group size."""
    ends = np.zeros((len(pilots), len(SIZES), 4))
    values = np.zeros((len(pilots), len(SIZES), 2))
    for r, counts in enumerate(pilots):
        pilot = Pilot.from_counts(counts, ROLLOUTS)
        census, sample = fit_pass_rates(pilot, population="census"), fit_pass_rates(pilot)
        for i, size in enumerate(SIZES):
            dead = census.dead(size)
            ends[r, i] = [*dead.interval, *sample.dead(size).interval]
            values[r, i] = [dead.value, float(census.beta.rates.dead(size))]
    rows = []
    for i, size in enumerate(SIZES):
        low, high, wide_low, wide_high = ends[:, i].T
        inside, wide = (low <= truth[i]) & (truth[i] <= high), (wide_low <= truth[i]) & (truth[i] <= wide_high)
        errors = np.sqrt(np.mean((values[:, i] - truth[i]) ** 2, axis=0))
        rows.append(
            {
                "population": name,
                "real": int(real),
                "prompts": pilots[0].size,
                "group_size": size,
                "replications": len(pilots),
                "dead": f"{truth[i]:.6f}",
                "coverage": f"{float(np.mean(inside)):.4f}",
                "width": f"{float(np.mean(high - low)):.5f}",
                "sample_coverage": f"{float(np.mean(wide)):.4f}",
                "sample_width": f"{float(np.mean(wide_high - wide_low)):.5f}",
                "rmse_auto": f"{errors[0]:.5f}",
                "rmse_beta": f"{errors[1]:.5f}",
            }
        )
    return rows


def main() -> None:
    """Measure every population."""
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    generator = np.random.default_rng(SEED)
    rows = []
    for truth in SYNTHETIC:
        rates = truth.draw(generator, LISTED_PROMPTS)
        exact = [float(np.mean(rates**g + (1 - rates) ** g)) for g in SIZES]
        pilots = [generator.binomial(ROLLOUTS, rates) for _ in range(replications)]
        rows += measure(truth.name, False, exact, pilots)
        print(truth.name, file=sys.stderr)
    for name, (passes, rollouts) in measured_counts(REAL).items():
        full = fit_pass_rates(Pilot.from_counts(passes, rollouts))
        exact = [full.dead(g).value or 0.0 for g in SIZES]
        pilots = [generator.hypergeometric(passes, rollouts - passes, ROLLOUTS) for _ in range(replications)]
        rows += measure(name, True, exact, pilots)
        print(name, file=sys.stderr)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
