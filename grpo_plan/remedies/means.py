"""Means over F with limits, from weights on the law of the passes in groups of one size."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan.errors import PilotError
from grpo_plan.fitting.functionals import Functional, custom
from grpo_plan.fitting.points import thinned
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.remedies.result import Ranged

Floats = NDArray[np.float64]


def at_rates(weights: Floats, pass_rates: Floats) -> Floats:
    """Mean of weights on k = 0..n at each pass rate: ``sum_k w_k P(k | n, p)``, shape of ``pass_rates``.

    >>> at_rates(np.array([0.0, 1.0, 0.0]), np.array([0.5])).tolist()
    [0.5]
    """
    counts, chances = binomial_window(weights.size - 1, pass_rates)
    value: Floats = (chances * weights[counts]).sum(axis=1)
    return value


def law_of(fit: PassRateFit, group_size: int) -> Floats | None:
    """Law of the passes in groups of that size; None where the pilot does not determine it."""
    try:
        return fit.group_pmf(group_size)
    except PilotError:
        return None


def laws_of_one(fit: PassRateFit, sizes: Iterable[int]) -> dict[int, Floats]:
    """Laws of the passes in groups of several sizes, all of one law of the pass rates (theory.md, eq. 119).

    `PassRateFit.group_pmf` answers from counts where it can and from fits elsewhere: right for one mean, not for a
    ratio of two. Here all sizes are thinned from the counts of the largest, or all are of the likely law.

    Raises:
        PilotError: The pilot does not determine the law of passes.
    """
    wanted = sorted(set(sizes), reverse=True)
    largest = fit.group_pmf(wanted[0])
    if fit.family != "auto":
        return {n: fit.group_pmf(n) for n in wanted}
    if wanted[0] > fit.max_counted_group_size:
        return {n: fit.likely_rates.group_pmf(n) for n in wanted}
    laws = {}
    for n in wanted:
        while largest.size - 1 > n:
            largest = thinned(largest)
        laws[n] = largest
    return laws


def mean_of_weights(fit: PassRateFit, weights: Floats, level: float, name: str) -> Ranged:
    """A mean over F that is linear in one law, with its limits."""
    law = law_of(fit, weights.size - 1)
    value = None if law is None else float(law @ weights)
    low, high = fit.limits_of(custom(lambda p: at_rates(weights, p), name), level)
    return clipped(value, low, high, float(weights.min()), float(weights.max()))


def clipped(value: float | None, low: float, high: float, least: float = 0.0, most: float = 1.0) -> Ranged:
    """Limits that hold the value and stay within a range."""
    if value is not None:
        value = min(max(value, least), most)
        low, high = min(low, value), max(high, value)
    return Ranged(value=value, low=max(low, least), high=min(high, most))


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
