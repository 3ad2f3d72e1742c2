"""Signal and noise of one group as linear functions of the law of its passes (theory.md, eq. 24, 25, 100 to 102)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weights = tuple[int, Floats, Floats, Floats]
# Weights on the law of k in groups of 4, unbiased for p(1-p), p^2(1-p)^2, p(1-p)^2 and p^2(1-p).
PAIRS_OF_FOUR = np.array([0.0, 1 / 4, 1 / 3, 1 / 4, 0.0])
TWO_PAIRS_OF_FOUR = np.array([0.0, 0.0, 1 / 6, 0.0, 0.0])
PASS_TWO_FAILS = np.array([0.0, 1 / 4, 1 / 6, 0.0, 0.0])
TWO_PASSES_FAIL = np.array([0.0, 0.0, 1 / 6, 1 / 4, 0.0])
PASSES_OF_FOUR = np.arange(5) / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoments:
    """Means over prompts of one group's estimate, in units of h and S (theory.md, eq. 25).

    Attributes:
        signal: E[t]: along the true gradient.
        signal_square: E[t**2]; contains the chance that the group is dead.
        noise: E[v].
    """

    signal: float
    signal_square: float
    noise: float

    def variance(self, kappa: Floats, coherence: float) -> Floats:
        """Variance of one group's gradient over ``h**2``: ``E[t**2] + kappa E[v] - rho E[t]**2``."""
        value: Floats = self.signal_square + kappa * self.noise - coherence * self.signal**2
        return value


def centred_weights(passed: Floats, failed: Floats) -> Weights:
    """For advantages that sum to 0 in a group: on the law of k in groups of G."""
    g = passed.size - 1
    k = np.arange(g + 1.0)
    t = k * passed / g
    return g, t, t**2, (k * passed**2 + (g - k) * failed**2) / g**2


def flat_weights(passed: float, failed: float, group_size: int) -> Weights:
    """For one advantage of every pass and one of every fail: on the law of k in groups of 4 (theory.md, eq. 101)."""
    contrast = passed - failed
    mean_square = contrast**2 * TWO_PAIRS_OF_FOUR
    square = passed**2 * PASS_TWO_FAILS + failed**2 * TWO_PASSES_FAIL
    noise = passed**2 * PASSES_OF_FOUR + failed**2 * (1.0 - PASSES_OF_FOUR)
    return 4, contrast * PAIRS_OF_FOUR, mean_square + (square - mean_square) / group_size, noise / group_size


def general_weights(passed: Floats, failed: Floats) -> Weights:
    """For any pair: on the law of k in groups of G + 2 (theory.md, eq. 100).

    ``t(k, p) = a q - b p`` with ``a = k A+ / G`` and ``b = (G - k) A- / G``; q**2, p q and p**2 times the law of k in
    groups of G are multiples of the law in groups of G + 2 at k, k + 1 and k + 2.
    """
    g = passed.size - 1
    k = np.arange(g + 1.0)
    a, b = k * passed / g, (g - k) * failed / g
    v = (k * passed**2 + (g - k) * failed**2) / g**2
    n = (g + 2.0) * (g + 1.0)
    fails, one_each, passes = (g + 2 - k) * (g + 1 - k) / n, (k + 1) * (g + 1 - k) / n, (k + 2) * (k + 1) / n
    return (
        g + 2,
        _spread(a * fails, (a - b) * one_each, -b * passes),
        _spread(a**2 * fails, -2.0 * a * b * one_each, b**2 * passes),
        _spread(v * fails, 2.0 * v * one_each, v * passes),
    )


def _spread(at_k: Floats, one_more: Floats, two_more: Floats) -> Floats:
    out = np.zeros(at_k.size + 2)
    out[:-2] += at_k
    out[1:-1] += one_more
    out[2:] += two_more
    return out
