"""Coverage of the limits of paired differences (theory.md, eq. 57). Writes figures/temperature.csv.

Run ``python -m figures.temperature``; a few minutes. Populations of pairs of pass rates, chosen to be hard: few
prompts that move, all one way or by small and large steps; no difference at all; and ordinary temperature changes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.paired import score_limits
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.groups import dead_probability

TABLE = Path(__file__).with_suffix(".csv")
SEED = 20261201
ROLLOUTS = (4, 8)
SIZES = (2, 4, 8)
LEVELS = (0.95, 0.99)
REPLICATIONS = {20: 4000, 50: 4000, 200: 4000, 1000: 1500}
TRUTH_DRAWS = 2_000_000
BLOCK = 500
FIELDS = ["population", "prompts", "rollouts", "group_size", "replications", "difference", "coverage95", "coverage99"]
Floats = NDArray[np.float64]
Population = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


def moved(share: float, start: float, end: float, rest: float | None = None) -> Population:
    """A share of the prompts moves; the others always pass or always fail, or all pass at the rate ``rest``."""

    def draw(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        moves = rng.random(size) < share
        still = np.where(rng.random(size) < 0.5, 0.0, 1.0) if rest is None else np.full(size, rest)
        return np.where(moves, start, still), np.where(moves, end, still)

    return draw


def rescaled(a: float, b: float, factor: float) -> Population:
    """Beta pass rates whose log-odds are multiplied, as by a temperature; 1 for no change."""

    def draw(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
        p = np.clip(rng.beta(a, b, size), 1e-12, 1.0 - 1e-12)
        odds = (p / (1.0 - p)) ** factor
        return p, odds / (1.0 + odds)

    return draw


POPULATIONS: dict[str, Population] = {
    "same Beta(.3, .3)": rescaled(0.3, 0.3, 1.0),
    "same Beta(.05, .05)": rescaled(0.05, 0.05, 1.0),
    "all at .5": moved(1.0, 0.5, 0.5),
    "all at .03": moved(1.0, 0.03, 0.03),
    "all .03 to 0": moved(1.0, 0.03, 0.0),
    "Beta(.3, .3) sharper 1.5": rescaled(0.3, 0.3, 1.5),
    "Beta(1, 1) sharper 2": rescaled(1.0, 1.0, 2.0),
    "Beta(.05, .05) softer .6": rescaled(0.05, 0.05, 0.6),
    **{f"{share:g} at 1 to .5": moved(share, 1.0, 0.5) for share in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)},
    **{f"{share:g} at .3 to 0": moved(share, 0.3, 0.0) for share in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)},
    **{f"{share:g} at .5": moved(share, 0.5, 0.5) for share in (0.002, 0.01, 0.05, 0.2)},
    **{
        f"{share:g} at 0 to .5, rest {rest:g}": moved(share, 0.0, 0.5, rest)
        for share in (0.01, 0.1)
        for rest in (0.5, 0.97, 0.2)
    },
}


def truth(population: Population, group_size: int, draws: int = TRUTH_DRAWS) -> float:
    """The difference of dead fractions, from many prompts."""
    here, there = population(np.random.default_rng(SEED), draws)
    return float(np.mean(dead_probability(there, group_size) - dead_probability(here, group_size)))


def coverage(
    population: Population, prompts: int, rollouts: int, targets: dict[int, float], replications: int, seed: int
) -> dict[int, tuple[float, float]]:
    """Share of the limits at both levels that hold the difference ``targets``, for each group size."""
    rng = np.random.default_rng(seed)
    k = np.arange(rollouts + 1)
    sizes = [g for g in targets if g <= rollouts]
    kernels = {g: subgroup_all_pass(k, rollouts, g) + subgroup_all_fail(k, rollouts, g) for g in sizes}
    held = {g: np.zeros(len(LEVELS)) for g in sizes}
    for start in range(0, replications, BLOCK):
        shape = min(BLOCK, replications - start), prompts
        here, there = population(rng, shape[0] * shape[1])
        first, second = rng.binomial(rollouts, here), rng.binomial(rollouts, there)
        for g in sizes:
            d = (kernels[g][second] - kernels[g][first]).reshape(shape)
            sums = np.maximum(d, 0.0).sum(axis=1), np.maximum(-d, 0.0).sum(axis=1), (d * d).sum(axis=1)
            for i, level in enumerate(LEVELS):
                low, high = score_limits(*sums, prompts, level)
                held[g][i] += np.count_nonzero((low <= targets[g] + 1e-12) & (high >= targets[g] - 1e-12))
    return {g: (float(count[0]) / replications, float(count[1]) / replications) for g, count in held.items()}


def main() -> None:
    """Measure every population and write the table."""
    rows = []
    for i, (name, population) in enumerate(POPULATIONS.items()):
        targets = {g: truth(population, g) for g in SIZES}
        for prompts, replications in REPLICATIONS.items():
            for rollouts in ROLLOUTS:
                found = coverage(population, prompts, rollouts, targets, replications, SEED + i)
                rows += [
                    [name, prompts, rollouts, g, replications, f"{targets[g]:.5f}", *held] for g, held in found.items()
                ]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
