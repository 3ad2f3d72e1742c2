"""From the counts of a pilot to its forecasts, and what came of many of them. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan.fitting.intervals import wilson_interval

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

RESULTS = Path(__file__).parent / "results"
PILOTS, DEAD, PARTS, TRUTH = (
    RESULTS / name
    for name in ("forecast_pilots.parquet", "forecast.parquet", "forecast_parts.parquet", "forecast.json")
)
MORE = RESULTS / "forecast_more.parquet"
SIZES = (2, 4, 8, 16, 32, 64)
ROLLOUTS = (4, 8, 16)
PROMPTS = 500
LEVEL = 0.95
UNIT = 10_000  # shares are kept as whole ten-thousandths
KINDS = ("dead", "all_pass", "all_fail")


def pilot_of(counts: Counts) -> gp.Pilot:
    """A pilot from the number of prompts with k = 0..n passes, shape (n + 1,)."""
    k = np.flatnonzero(counts)
    return gp.Pilot.from_histogram(np.full(k.size, counts.size - 1), k, counts[k])


def forecast_pilot(counts: Counts) -> list[dict[str, int | str | None]]:
    """Dead, all-pass and all-fail shares at every G of one pilot, in ten-thousandths, with limits and status."""
    fit = gp.fit_pass_rates(pilot_of(counts))
    rows: list[dict[str, int | str | None]] = []
    for g in SIZES:
        dead = fit.dead(g, LEVEL)
        row: dict[str, int | str | None] = {"n": counts.size - 1, "group": g, "status": dead.status.name}
        found = {
            "dead": (dead.value, *dead.interval),
            "all_pass": (dead.all_pass, *dead.all_pass_interval),
            "all_fail": (dead.all_fail, *dead.all_fail_interval),
            "beta": (gp.compare_estimates(fit, g)[0].beta,),
        }
        for kind, numbers in found.items():
            for name, number in zip(("", "_low", "_high"), numbers, strict=False):
                row[kind + name] = None if number is None else round(UNIT * number)
        rows.append(row)
    return rows


def shares(p: Floats, group: int) -> dict[str, float]:
    """The three shares of groups at known pass rates."""
    all_pass, all_fail = float((p**group).mean()), float(((1 - p) ** group).mean())
    return {"dead": all_pass + all_fail, "all_pass": all_pass, "all_fail": all_fail}


def plug_in(counts: Counts, group: int) -> Floats:
    """Mean of the formula at each k/n: of many pilots (P, n + 1), one each."""
    p = np.arange(counts.shape[1]) / (counts.shape[1] - 1)
    found: Floats = counts @ (p**group + (1 - p) ** group) / counts.sum(1)
    return found


def pooled(counts: Counts, group: int) -> Floats:
    """The formula at the mean pass rate: of many pilots (P, n + 1), one each."""
    p = counts @ np.arange(counts.shape[1]) / (counts.shape[1] - 1) / counts.sum(1)
    found: Floats = p**group + (1 - p) ** group
    return found


@dataclass(frozen=True)
class Score:
    """What came of many predictions of one thing.

    Attributes:
        count: Predictions.
        bias: Mean of estimate less truth.
        bias_error: Its Monte-Carlo standard error.
        rmse: Root of the mean square error.
        inside: Predictions whose limits hold the truth.
        width: Mean width of the limits.
    """

    count: int
    bias: float
    bias_error: float
    rmse: float
    inside: int
    width: float

    @property
    def covered(self) -> float:
        """Share whose limits hold the truth."""
        return self.inside / self.count

    @property
    def covered_limits(self) -> tuple[float, float]:
        """Wilson limits of that share, 95 %."""
        low, high = wilson_interval(self.covered, float(self.count), LEVEL)
        return float(low), float(high)


def score(value: Floats, low: Floats, high: Floats, truth: Floats | float) -> Score:
    """Hold predictions against the truth; where there is no value, NaN, only the limits count."""
    error = value - truth
    known = error[np.isfinite(error)]
    return Score(
        count=int(low.size),
        bias=float(known.mean()),
        bias_error=float(known.std(ddof=1) / np.sqrt(known.size)),
        rmse=float(np.sqrt((known**2).mean())),
        inside=int(((low <= truth) & (truth <= high)).sum()),
        width=float((high - low).mean()),
    )


def joined(scores: Iterable[Score]) -> tuple[int, int]:
    """Predictions inside their limits, and all of them."""
    all_of = list(scores)
    return sum(s.inside for s in all_of), sum(s.count for s in all_of)
