"""Means over F with limits, from weights on the law of the passes in groups of one size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.functionals import Functional, custom
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.live import Ranged, at_rates

Floats = NDArray[np.float64]


def share_of(fit: PassRateFit, part: Floats, whole: float, total: tuple[Floats, ...], level: float) -> Ranged:
    """A part over a whole, both means over F, with limits by the tangent (theory.md, eq. 118).

    Args:
        fit: Fitted pass rates.
        part: Weights of the part on the law of some group size.
        whole: Value of the whole, not 0.
        total: Weights of the whole, on laws that may be of other sizes; their means add up to ``whole``.
        level: Confidence level.
    """
    law = laws_of_one(fit, [part.size - 1])[part.size - 1]
    share = float(law @ part) / whole

    def tangent(p: Floats) -> Floats:
        all_of_it = np.zeros_like(p)
        for weights in total:
            all_of_it = all_of_it + at_rates(weights, p)
        return (at_rates(part, p) - share * all_of_it) / whole

    low, high = fit.limits_of(custom(tangent, "share"), level)
    return Ranged(value=share, low=share + min(low, 0.0), high=share + max(high, 0.0))


def functional_value(fit: PassRateFit, functional: Functional) -> float | None:
    """Value of a mean by the likely law behind the pilot; None where the pilot shows one rollout a prompt."""
    if fit.group_value("dead", 2) is None:
        return None
    rates = fit.likely_rates
    return float(rates.masses @ functional.phi(rates.passing, rates.failing))
