"""The counts of a pilot and the fitted distribution of pass rates, as numbers for pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import GrpoPlanError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

MOST_SIZES, LONGEST = 12, 64
RATE_BINS, FIT_BINS = 20, 50
EDGE = 1e-9  # of pass rates that are drawn as the atoms at 0 and 1
LEAST_MASS = 1e-6

Floats = NDArray[np.float64]


def difficulty_document(fit: PassRateFit) -> dict[str, Any]:
    """Histogram of k of n, shares of k/n, and the fitted distribution; the latter null where nothing tells it."""
    h = fit.pilot.histogram()
    total = float(h.prompts.sum())
    sizes = np.unique(h.rollouts)
    histogram = None
    if sizes.size <= MOST_SIZES and int(sizes.max()) <= LONGEST:
        histogram = [
            {
                "rollouts": int(n),
                "prompts": np.bincount(
                    h.successes[h.rollouts == n], weights=h.prompts[h.rollouts == n], minlength=int(n) + 1
                ).astype(int).tolist(),
            }
            for n in sizes
        ]  # fmt: skip
    shares = _binned(h.successes / h.rollouts, h.prompts / total, RATE_BINS)
    smooth = atoms = None
    ends: tuple[float | None, float | None] = (None, None)
    if FitStatus.SINGLE_ROLLOUT not in fit.statuses:
        try:
            rates = fit.likely_rates
            atom = [rates.passing <= EDGE, rates.failing <= EDGE]
            ends = (float(rates.masses[atom[0]].sum()), float(rates.masses[atom[1]].sum()))
            inside = ~(atom[0] | atom[1])
            smooth = _spread(rates.passing[inside], rates.masses[inside], FIT_BINS)
            raw = fit.nonparametric
            atoms = [
                {"pass_rate": float(p), "mass": float(m)}
                for p, m in zip(raw.passing, raw.masses, strict=True)
                if m >= LEAST_MASS
            ]
        except GrpoPlanError:
            smooth = atoms = None
    return {
        "histogram": histogram,
        "rates": [{"low": low, "high": high, "share": share} for low, high, share in shares],
        "smooth": None if smooth is None else [{"low": a, "high": b, "mass": m} for a, b, m in smooth],
        "at_zero": ends[0],
        "at_one": ends[1],
        "nonparametric": atoms,
        "mean": fit.mean_pass_rate,
    }


def _spread(values: Floats, masses: Floats, bins: int) -> list[tuple[float, float, float]]:
    """Mass in each of equal bins of [0, 1], each point's mass spread evenly to the middles of the gaps beside it."""
    if not values.size:
        return [(i / bins, (i + 1) / bins, 0.0) for i in range(bins)]
    order = np.argsort(values, kind="stable")
    points, weights = values[order], masses[order]
    middles = 0.5 * (points[:-1] + points[1:])
    edges = np.concatenate([[0.0], middles, [1.0]])
    reached = np.concatenate([[0.0], np.cumsum(weights)])
    held = np.diff(np.interp(np.arange(bins + 1) / bins, edges, reached))
    return [(i / bins, (i + 1) / bins, float(held[i])) for i in range(bins)]


def _binned(values: Floats, weights: Floats, bins: int) -> list[tuple[float, float, float]]:
    """Weight in each of equal bins of [0, 1], the last one closed."""
    place = np.minimum((np.asarray(values) * bins + 1e-12).astype(np.int64), bins - 1)
    held = np.bincount(place, weights=weights, minlength=bins)
    return [(i / bins, (i + 1) / bins, float(held[i])) for i in range(bins)]
