"""Why large groups do worse than predicted: learning rates, drift, and the metric of the noise. Needs no torch.

Reads runs.parquet, ``directions.json`` (squared lengths of single-group gradients in four metrics), ``one_step.json`` (gain
and curvature of single steps) and ``sampled_metric.json``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.validation.outcome import Floats, Sweep
from figures.validation.outcome_plan import ROLLOUTS, scaled
from figures.validation.outcome_tables import shares, sizes_of

RESULTS = Path(__file__).parent / "results"
METRICS = {
    "plain": "length",
    "adam": "length after Adam's scaling",
    "signal": "how far pass rates move",
    "adam_signal": "how far Adam's step moves them",
}
RESAMPLES = 400


@cache
def read(name: str) -> dict[str, Any]:
    """A file of results."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def pair_shares(size: int) -> Floats:
    """Weights of the pair products in a mean squared length (theory.md, eq. 50)."""
    return np.array([(size - 2) * (size - 3), 4 * (size - 2), 2]) / (size * (size - 1))


def squares(world: str, metric: str, sizes: tuple[int, ...]) -> Floats:
    """Mean squared length of one group's gradient, by size."""
    products = np.array(read("directions")[world]["products"][metric]).mean(0)
    return np.array([pair_shares(size) @ products for size in sizes])


def predicted(world: str, metric: str, sizes: tuple[int, ...], rollouts: int = ROLLOUTS) -> dict[int, float]:
    """1 / (1 + NSR) of each size against the best one, with lengths in a metric."""
    own = float(read("directions")[world]["mean"][metric])
    noise = [(s / own - 1) / round(rollouts / g) for s, g in zip(squares(world, metric, sizes), sizes, strict=True)]
    return scaled({g: 1 / (1 + n) for g, n in zip(sizes, noise, strict=True)})


def best_size(world: str, metric: str) -> float | None:
    """``1 + sqrt(slope / intercept)`` of the line through G = 4 and 16 (theory.md, eq. 49); None if only noise is seen."""
    four, sixteen = squares(world, metric, (4, 16))
    slope = (four - sixteen) / (1 / 3 - 1 / 15)
    intercept = sixteen - slope / 15
    return float(1 + np.sqrt(slope / intercept)) if intercept > 0 else None


def miss(forecast: dict[int, float], world: str, measure: str = "gain") -> float:
    """Root mean square difference to measured shares."""
    measured = shares(sizes_of(world, measure).held_out())
    return float(np.sqrt(np.mean([(forecast[g] - measured[g].value) ** 2 for g in measured if g in forecast])))


@dataclass(frozen=True, slots=True)
class Slope:
    """How the best learning rate goes with the prompts of a step: log-log slope, its bootstrap s.e., the sizes used."""

    value: float
    error: float
    sizes: tuple[int, ...]


def peak(rates: tuple[float, ...], gains: Floats) -> float | None:
    """log2 of the best rate, by a parabola through the best and its neighbours; None at an end of the sweep."""
    i = int(np.argmax(gains))
    if i in (0, len(rates) - 1):
        return None
    x, y = np.log2(rates[i - 1 : i + 2]), gains[i - 1 : i + 2]
    a, b, _ = np.polyfit(x, y, 2)
    return float(-b / (2 * a))


def peaks(held: Sweep, seeds: NDArray[np.int64] | None = None) -> dict[int, float]:
    """log2 of the best rate of each size whose best rate is not an end."""
    found = {}
    for size in held.sizes:
        rates = held.rates(size)
        table = np.array([held.gains[size, rate] for rate in rates])
        at = peak(rates, (table if seeds is None else table[:, seeds]).mean(1))
        if at is not None:
            found[size] = at
    return found


def rate_slope(world: str, least: int = 4) -> Slope | None:
    """Slope over sizes of ``least`` and more, at equal rollouts: prompts are as 1 / G."""
    held = sizes_of(world)

    def fitted(at: dict[int, float]) -> float | None:
        sizes = [size for size in at if size >= least]
        if len(sizes) < 3:
            return None
        x = [-np.log2(size) for size in sizes]
        return float(np.polyfit(x, [at[size] for size in sizes], 1)[0])

    found = peaks(held)
    value = fitted(found)
    if value is None:
        return None
    rng = np.random.default_rng(0)
    count = len(held.seeds)
    again = [fitted(peaks(held, rng.integers(0, count, count))) for _ in range(RESAMPLES)]
    error = float(np.std([x for x in again if x is not None], ddof=1))
    return Slope(value, error, tuple(size for size in found if size >= least))


def kept_at(world: str, rate: float) -> dict[int, float]:
    """Gain at one rate as a share of the gain at the size's own best rate."""
    held = sizes_of(world)
    own = held.best()
    return {size: float(values.mean() / own[size].mean()) for size, values in held.at(rate).items()}


def one_step(world: str, optimizer: str) -> dict[int, tuple[float, float]]:
    """Best gain of one step, ``(E linear)^2 / E curvature``, against the best size's, with a standard error."""
    found = {}
    for size, row in read("one_step").get(world, {}).items():
        linear, bent = (np.array(row[optimizer][name]) for name in ("linear", "bent"))
        n = len(linear)
        value = linear.mean() ** 2 / bent.mean()
        error = value * np.sqrt(4 * linear.var() / linear.mean() ** 2 / n + bent.var() / bent.mean() ** 2 / n)
        found[int(size)] = (float(value), float(error))
    if not found:
        return {}
    top = max(value for value, _ in found.values())
    return {size: (value / top, error / top) for size, (value, error) in sorted(found.items())}
