"""Tails of binomial and hypergeometric laws to full relative precision, however far out and however many trials.

One probability by Loader's saddle-point form, in which nothing large cancels; then the exact ratios of
neighbouring probabilities outwards, away from the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NEGLIGIBLE = 1e-18
BLOCK = 1024


def binomial_split(trials: int, wanted: int, success: float, failure: float) -> tuple[float, float]:
    """Chances of fewer than ``wanted`` successes, and of at least as many.

    Args:
        trials: Number of trials, at least 0.
        wanted: Successes wanted.
        success: Chance of a success.
        failure: ``1 - success``, given apart since the smaller one has digits that the difference loses.

    >>> below, reached = binomial_split(3, 2, 0.5, 0.5)
    >>> round(below, 12), round(reached, 12)
    (0.5, 0.5)
    """
    if wanted <= 0:
        return 0.0, 1.0
    if wanted > trials or success == 0.0:
        return 1.0, 0.0
    if failure == 0.0:
        return 0.0, 1.0
    n = float(trials)
    if wanted - 1 < n * success:
        k = float(wanted - 1)
        tail = binomial_pmf(n, k, success, failure) * _series(
            lambda i: np.maximum(k - i, 0.0) * failure / ((n - k + i + 1.0) * success)
        )
        return min(tail, 1.0), max(1.0 - tail, 0.0)
    k = float(wanted)
    tail = binomial_pmf(n, k, success, failure) * _series(
        lambda i: np.maximum(n - k - i, 0.0) * success / ((k + i + 1.0) * failure)
    )
    return max(1.0 - tail, 0.0), min(tail, 1.0)


def hypergeometric_split(prompts: int, mixed: int, drawn: int, wanted: int) -> tuple[float, float]:
    """Chances of fewer than ``wanted`` mixed among ``drawn`` without replacement, and of at least as many.

    >>> below, reached = hypergeometric_split(4, 2, 2, 2)
    >>> round(below, 12), round(reached, 12)
    (0.833333333333, 0.166666666667)
    """
    if wanted <= max(0, drawn - (prompts - mixed)):
        return 0.0, 1.0
    if wanted > min(drawn, mixed):
        return 1.0, 0.0
    size, good, n = float(prompts), float(mixed), float(drawn)
    bad = float(prompts - mixed)
    taken, left = drawn / prompts, (prompts - drawn) / prompts
    whole = binomial_pmf(size, n, taken, left)

    def pmf(k: float) -> float:
        return binomial_pmf(good, k, taken, left) * binomial_pmf(bad, n - k, taken, left) / whole

    if wanted - 1 < n * good / size:
        k = float(wanted - 1)
        steps = _series(
            lambda i: (
                np.maximum(k - i, 0.0) * np.maximum(bad - n + k - i, 0.0) / ((good - k + i + 1.0) * (n - k + i + 1.0))
            )
        )
        tail = pmf(k) * steps
        return min(tail, 1.0), max(1.0 - tail, 0.0)
    k = float(wanted)
    steps = _series(
        lambda i: np.maximum(good - k - i, 0.0) * np.maximum(n - k - i, 0.0) / ((k + i + 1.0) * (bad - n + k + i + 1.0))
    )
    tail = pmf(k) * steps
    return max(1.0 - tail, 0.0), min(tail, 1.0)


def binomial_pmf(trials: float, successes: float, success: float, failure: float) -> float:
    """Chance of exactly this many successes (Loader, 2000).

    >>> round(binomial_pmf(4, 2, 0.5, 0.5), 12)
    0.375
    """
    n, k = trials, successes
    if k == 0.0:
        return math.exp(n * (math.log(failure) if failure < 0.5 else math.log1p(-success)))
    if k == n:
        return math.exp(n * (math.log(success) if success < 0.5 else math.log1p(-failure)))
    exponent = (
        _stirling_rest(n)
        - _stirling_rest(k)
        - _stirling_rest(n - k)
        - _deviance(k, n * success)
        - _deviance(n - k, n * failure)
    )
    return math.exp(exponent - 0.5 * (math.log(2.0 * math.pi * k) + math.log1p(-k / n)))


def _series(ratio: Callable[[Floats], Floats]) -> float:
    """``1 + r(0) + r(0) r(1) + ...`` until nothing is added, in blocks."""
    total, last, start, block = 1.0, 1.0, 0, BLOCK
    while last > NEGLIGIBLE * total:
        products = last * np.cumprod(ratio(np.arange(start, start + block, dtype=np.float64)))
        total += float(products.sum())
        last = float(products[-1])
        start, block = start + block, min(2 * block, 1 << 18)
    return total


def _stirling_rest(n: float) -> float:
    """``log n! - log(sqrt(2 pi n) (n/e)**n)``."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(x: float, mean: float) -> float:
    """``x log(x / mean) + mean - x`` without cancellation near ``x = mean``."""
    gap = x - mean
    if abs(gap) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    share = gap / (x + mean)
    total, term, step = gap * share, 2.0 * x * share, 1
    while True:
        term *= share * share
        following = total + term / (2 * step + 1)
        if following == total:
            return total
        total, step = following, step + 1
