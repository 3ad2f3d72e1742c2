"""What the training runs gained: raw runs, gains by seed, and ratios with limits. Needs no torch.

A *gain* is the mean of the exact pass rate of held-out prompts over the looks of a run (one every 10 steps) less that at the
start. *Early* is the same over the first 50 steps, *final* the last look less the first. All runs of a world start from one
policy, so seeds differ in prompts and rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

RUNS = Path(__file__).parent / "results" / "runs.parquet"
Floats = NDArray[np.float64]
EARLY = 6  # looks of the first 50 steps


@dataclass(frozen=True, slots=True)
class Run:
    """One training run, as `figures.validation.pack` keeps it."""

    key: str
    part: str
    world: str
    rollouts: int
    prompt_cost: int
    group: int
    prompts: int
    rate: float
    seed: int
    estimator: str
    optimizer: str
    updates: int  # optimizer steps
    mixed: int
    drawn: int
    seen: int
    seconds: float
    pass_rate: tuple[float, ...]
    training_pass_rate: tuple[float, ...]
    dead: tuple[float, ...]
    all_pass: tuple[float, ...]

    def gain(self, measure: str = "gain") -> float:
        """Gain over the run; early; final; or of the training set, for a finite one."""
        curve = self.training_pass_rate if measure == "training" else self.pass_rate
        if measure == "final":
            return curve[-1] - curve[0]
        part = curve[:EARLY] if measure == "early" else curve
        return sum(part) / len(part) - curve[0]


@lru_cache(maxsize=1)
def runs() -> tuple[Run, ...]:
    """All runs that are there."""
    frame = pl.read_parquet(RUNS).select(Run.__slots__)
    return tuple(_run(row) for row in frame.iter_rows(named=True))


def _run(row: dict[str, Any]) -> Run:
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    return Run(**fields)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Runs of one condition at several sizes and learning rates: gains by (size, rate), one for each seed."""

    gains: dict[tuple[int, float], Floats]
    seeds: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Group sizes, ascending."""
        return tuple(sorted({size for size, _ in self.gains}))

    def rates(self, size: int) -> tuple[float, ...]:
        """Learning rates of a size, ascending."""
        return tuple(sorted(rate for other, rate in self.gains if other == size))

    def at(self, rate: float) -> dict[int, Floats]:
        """Gains by size at one learning rate, where it was tried."""
        return {size: self.gains[size, rate] for size in self.sizes if (size, rate) in self.gains}

    def best_rate(self, size: int) -> float:
        """Learning rate with the highest mean gain."""
        return max(self.rates(size), key=lambda rate: float(self.gains[size, rate].mean()))

    def best(self) -> dict[int, Floats]:
        """Gains by size, each at its best learning rate in the mean of all seeds: a little too high."""
        return {size: self.gains[size, self.best_rate(size)] for size in self.sizes}

    def held_out(self) -> dict[int, Floats]:
        """Gains by size at the learning rate that is best in the mean of the *other* seeds: free of that selection."""
        return {size: np.array([self._held_out(size, i) for i in range(len(self.seeds))]) for size in self.sizes}

    def _held_out(self, size: int, i: int) -> float:
        def others(rate: float) -> float:
            return float(np.delete(self.gains[size, rate], i).mean())

        return float(self.gains[size, max(self.rates(size), key=others)][i])


def sweep(found: Iterable[Run], measure: str = "gain") -> Sweep:
    """The sweep of some runs. Sizes and rates that lack a seed that others have are left out."""
    held = list(found)
    seeds = tuple(sorted({run.seed for run in held}))
    by: dict[tuple[int, float], dict[int, float]] = {}
    for run in held:
        by.setdefault((run.group, run.rate), {})[run.seed] = run.gain(measure)
    full = {key: np.array([line[seed] for seed in seeds]) for key, line in by.items() if len(line) == len(seeds)}
    return Sweep(full, seeds)


def chosen(part: str, world: str | None = None, where: Callable[[Run], bool] | None = None) -> list[Run]:
    """Runs of a part of the study, of one world, for which ``where`` holds."""
    return [r for r in runs() if r.part == part and world in (None, r.world) and (where is None or where(r))]


def mean_error(values: Floats) -> tuple[float, float]:
    """Mean and standard error over seeds."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two mean gains with 95 % limits; infinite where the lower gain may be 0."""

    value: float
    low: float
    high: float


def ratio(top: Floats, bottom: Floats, level: float = 0.95) -> Ratio:
    """Fieller's limits of mean(top) / mean(bottom), paired by seed, with Student's t.

    >>> found = ratio(np.array([1.0, 1.1, 0.9, 1.0]), np.array([2.0, 2.1, 2.0, 1.9]))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.444, 0.556)
    """
    n = len(top)
    a, b = float(top.mean()), float(bottom.mean())
    value = a / b if b else float("nan")
    if n < 2:
        return Ratio(value, float("nan"), float("nan"))
    if np.array_equal(top, bottom):
        return Ratio(1.0, 1.0, 1.0)
    t = float(stats.t.ppf(0.5 + level / 2, n - 1))
    (saa, sab), (_, sbb) = np.cov(top, bottom) / n
    square, middle, rest = b * b - t * t * sbb, a * b - t * t * sab, a * a - t * t * saa
    root = middle * middle - square * rest
    if square <= 0 or root < 0:
        return Ratio(value, -np.inf, np.inf)
    return Ratio(value, float((middle - root**0.5) / square), float((middle + root**0.5) / square))


def between(gains: dict[int, Floats], size: float) -> Floats:
    """Gains at any size: straight lines in log G between the swept ones, the nearest one beyond them."""
    sizes = sorted(gains)
    x = np.log(np.clip(size, sizes[0], sizes[-1]))
    edges = np.log(sizes)
    i = int(np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(sizes) - 2))
    share = (x - edges[i]) / (edges[i + 1] - edges[i])
    return np.asarray((1 - share) * gains[sizes[i]] + share * gains[sizes[i + 1]])


def dead_at_start(world: str, part: str = "sizes") -> dict[int, float]:
    """Dead fraction of the first 10 steps by size, mean over seeds and rates."""
    found: dict[int, list[float]] = {}
    for run in chosen(part, world):
        found.setdefault(run.group, []).append(run.dead[0])
    return {size: float(np.mean(values)) for size, values in sorted(found.items())}
