"""Effective-n Wilson interval of a mean over prompts of values in [0, 1] (theory.md, eq. 19)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level

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
    z2 = NormalDist().inv_cdf(0.5 + as_level(level) / 2.0) ** 2
    centre = (value + z2 / (2.0 * trials)) / (1.0 + z2 / trials)
    half = (z2 * (value * (1.0 - value) / trials + z2 / (4.0 * trials**2))) ** 0.5 / (1.0 + z2 / trials)
    low = 0.0 if value <= 0.0 else max(0.0, min(centre - half, value))
    high = 1.0 if value >= 1.0 else min(1.0, max(centre + half, value))
    return low, high


def mean_interval(values: NDArray[np.float64], weights: NDArray[np.int64], level: float) -> Interval:
    """Mean over prompts and its effective-n Wilson limits.

    The variance of the values is shrunk towards ``D (1 - D)``, the largest that values in [0, 1] can have,
    by two pseudo-prompts: few prompts, or prompts that happen to agree, never give an interval of width 0.

    Args:
        values: One value in [0, 1] for each (n, k) cell, shape (C,).
        weights: Prompts in each cell, shape (C,).
        level: Confidence level, in (0, 1).
    """
    prompts = float(weights.sum())
    mean = min(1.0, max(0.0, float(values @ weights) / prompts))
    largest = mean * (1.0 - mean)
    spread = float(weights @ (values - mean) ** 2)
    variance = (spread + PSEUDO_PROMPTS * largest) / (prompts - 1.0 + PSEUDO_PROMPTS)
    trials = prompts * largest / variance if largest > 0.0 and variance > 0.0 else prompts
    low, high = wilson_interval(mean, max(trials, 1.0), level)
    return Interval(value=mean, low=low, high=high)
