"""Effective-n Wilson intervals of means over prompts of values in [0, 1] (theory.md, eq. 19)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level

Floats = NDArray[np.float64]
LEAST_WITHIN = 0.02  # share of the variance that a census always leaves
PSEUDO_PROMPTS = 2.0  # prompts of the largest possible variance added to the sample variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with its confidence limits, all in [0, 1]."""

    value: float
    low: float
    high: float


def wilson_interval(value: float, trials: float, level: float) -> tuple[float, float]:
    """Wilson score limits of a proportion from ``trials`` trials (not necessarily whole).

    >>> [round(x, 4) for x in wilson_interval(0.0, 50, 0.95)]
    [0.0, 0.0713]
    """
    low, high = wilson_limits(np.array([value]), np.array([trials]), level)
    return float(low[0]), float(high[0])


def wilson_limits(value: Floats, trials: Floats, level: float) -> tuple[Floats, Floats]:
    """The same for arrays of one shape."""
    z2 = NormalDist().inv_cdf(0.5 + as_level(level) / 2.0) ** 2
    centre = (value + z2 / (2.0 * trials)) / (1.0 + z2 / trials)
    half = np.sqrt(z2 * (value * (1.0 - value) / trials + z2 / (4.0 * trials**2))) / (1.0 + z2 / trials)
    low = np.where(value <= 0.0, 0.0, np.maximum(0.0, np.minimum(centre - half, value)))
    high = np.where(value >= 1.0, 1.0, np.minimum(1.0, np.maximum(centre + half, value)))
    return low, high


def effective_trials(mean: Floats, spread: Floats, prompts: Floats) -> Floats:
    """Number of 0/1 prompts that would be as informative (theory.md, eq. 19).

    The variance of the values is shrunk towards ``D (1 - D)``, the largest that values in [0, 1] can have,
    by two pseudo-prompts: few prompts, or prompts that happen to agree, never give an interval of width 0.

    Args:
        mean: Mean over prompts.
        spread: Sum over prompts of squared deviations from it.
        prompts: Number of prompts.
    """
    largest = mean * (1.0 - mean)
    variance = (spread + PSEUDO_PROMPTS * largest) / (prompts - 1.0 + PSEUDO_PROMPTS)
    known = (largest > 0.0) & (variance > 0.0)
    trials: Floats = np.where(known, prompts * largest / np.where(known, variance, 1.0), prompts)
    return np.maximum(trials, 1.0)


def mean_interval(values: Floats, weights: NDArray[np.int64], level: float, *, between: float = 0.0) -> Interval:
    """Mean over prompts and its effective-n Wilson limits.

    Args:
        values: One value in [0, 1] for each (n, k) cell, shape (C,).
        weights: Prompts in each cell, shape (C,).
        level: Confidence level, in (0, 1).
        between: Variance to leave out, that between prompts in a census.
    """
    prompts = float(weights.sum())
    mean = min(1.0, max(0.0, float(values @ weights) / prompts))
    spread = float(weights @ (values - mean) ** 2)
    trials = effective_trials(np.array([mean]), np.array([spread]), np.array([prompts]))
    largest = mean * (1.0 - mean)
    if between > 0.0 and largest > 0.0:
        variance = largest / float(trials[0]) * prompts
        trials = trials / max(1.0 - between / variance, LEAST_WITHIN)
    low, high = wilson_interval(mean, float(trials[0]), level)
    return Interval(value=mean, low=low, high=high)
