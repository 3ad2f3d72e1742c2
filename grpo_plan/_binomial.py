"""Binomial probabilities to full relative precision, by ratios from the mode outwards.

Log-gamma differences lose nine digits at a million trials; products of the exact ratios
``pmf(k+1)/pmf(k)`` lose none, and need only NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TAIL_SDS = 13.0  # beyond 13 standard deviations plus 60 terms nothing reaches 1e-16 of the total
TAIL_TERMS = 60
MAX_CELLS = 4_000_000


def binomial_window(trials: int, probability: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts around the mode and their probabilities.

    Args:
        trials: Number of trials, at least 1.
        probability: Success probability, shape (P,), in [0, 1].

    Returns:
        Counts and probabilities, both of shape (P, W); counts outside 0..trials have probability 0
        and are clipped into the range. Each row of probabilities sums to 1.
    """
    p = probability[:, None]
    q = 1.0 - p
    mode = np.minimum(np.floor((trials + 1) * probability), trials).astype(np.int64)
    spread = float(np.sqrt(trials * np.max(probability * (1.0 - probability), initial=0.0)))
    half = min(trials, int(TAIL_SDS * spread) + TAIL_TERMS)
    steps = np.arange(1, half + 1)
    k_up = mode[:, None] + steps  # pmf(k) = pmf(k-1) * (trials-k+1)/k * p/q
    k_down = mode[:, None] - steps  # pmf(k) = pmf(k+1) * (k+1)/(trials-k) * q/p
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        up = np.where(k_up <= trials, (trials - k_up + 1) * p / (k_up * q), 0.0)
        down = np.where(k_down >= 0, (k_down + 1) * q / ((trials - k_down) * p), 0.0)
    up_product = np.cumprod(np.nan_to_num(up, nan=0.0, posinf=0.0), axis=1)
    down_product = np.cumprod(np.nan_to_num(down, nan=0.0, posinf=0.0), axis=1)
    ones = np.ones((probability.size, 1))
    weights = np.concatenate([down_product[:, ::-1], ones, up_product], axis=1)
    counts = np.concatenate([k_down[:, ::-1], mode[:, None], k_up], axis=1)
    return np.clip(counts, 0, trials), weights / weights.sum(axis=1, keepdims=True)


def choose_ratio(chosen_from: NDArray[np.float64], of: int, size: int) -> NDArray[np.float64]:
    """``C(n, size) / C(of, size)`` for n in 0..of; 0 where n is below ``size``.

    >>> choose_ratio(np.array([1.0, 2.0, 4.0]), 4, 2).round(4).tolist()
    [0.0, 0.1667, 1.0]
    """
    steps = np.arange(of, 0.0, -1.0)
    falling = np.concatenate([[1.0], np.cumprod(np.maximum(1.0 - size / steps, 0.0))])  # at n = of, of - 1, ..., 0
    n = np.asarray(chosen_from, dtype=np.int64)
    ratio: NDArray[np.float64] = np.where(n >= size, falling[np.minimum(of - n, of)], 0.0)
    return ratio
