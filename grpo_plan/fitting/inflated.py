"""Zero-one-inflated Beta by maximum likelihood: for comparison, not a default (theory.md, eq. 41)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import FitError
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.inflated import InflatedBetaPassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
LOGIT_LIMIT = 12.0
STARTS = (0.05, 0.5, 0.9)  # share of the observed dead prompts that starts in the atoms


def fit_inflated(histogram: PilotHistogram, beta: BetaPassRates) -> InflatedBetaPassRates:
    """Fit shares at 0 and 1 and a Beta, from three starts.

    Args:
        histogram: Cells of the pilot.
        beta: The plain Beta fit, from which the search starts.
    """
    from scipy.optimize import minimize

    n, k, prompts = histogram.rollouts, histogram.successes, histogram.prompts.astype(np.float64)
    sizes = np.unique(n)
    fails = float(prompts[k == 0].sum()) / histogram.total_prompts
    passes = float(prompts[k == n].sum()) / histogram.total_prompts

    def unpack(x: Floats) -> InflatedBetaPassRates:
        parts = np.exp(np.array([x[0], x[1], 0.0]) - max(x[0], x[1], 0.0))
        parts /= float(parts.sum())
        rest = BetaPassRates(mean=1.0 / (1.0 + math.exp(-x[2])), correlation=1.0 / (1.0 + math.exp(-x[3])))
        return InflatedBetaPassRates(never=float(parts[0]), always=float(parts[1]), rest=rest)

    def loss(x: Floats) -> float:
        rates = unpack(x)
        total = 0.0
        for size in sizes:
            here = n == size
            chances = rates.group_pmf(int(size))[k[here]]
            total -= float(prompts[here] @ np.log(np.maximum(chances, 1e-300)))
        return total / histogram.total_prompts

    mean = min(max(beta.mean, 1e-4), 1.0 - 1e-4)
    correlation = min(max(beta.correlation, 1e-3), 0.98)
    best, least = None, math.inf
    for share in STARTS:
        inside = max(1.0 - share * (fails + passes), 1e-3)
        spread = correlation if share < 0.3 else min(correlation, 0.35)
        start = np.log(
            [
                (share * fails + 1e-4) / inside,
                (share * passes + 1e-4) / inside,
                mean / (1.0 - mean),
                spread / (1.0 - spread),
            ]
        )
        start = np.clip(start, -LOGIT_LIMIT, LOGIT_LIMIT)
        found = minimize(loss, start, method="L-BFGS-B", bounds=[(-LOGIT_LIMIT, LOGIT_LIMIT)] * 4)
        if math.isfinite(found.fun) and found.fun < least:
            best, least = found.x, float(found.fun)
    if best is None:
        raise FitError("The zero-one-inflated Beta fit did not converge. Take family='auto'.")
    return unpack(best)
