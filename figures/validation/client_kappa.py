"""Kappa that a probe estimates, from exact gradients of each prompt (theory.md, eq. 49 and 50). Needs NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIZES = (4, 16)


@dataclass(frozen=True)
class ExactKappa:
    """Kappa and the best group size, with standard errors over prompts."""

    kappa: float
    kappa_error: float
    group_size: float
    group_size_error: float
    formula: float  # E[pq S^2] / (E[pq] h^2)


def squared_norm(g: Mapping[str, Sequence[float]], size: int) -> Floats:
    """``E|ghat|**2`` of one RLOO group of each prompt, (M,): eq. 50 with the expectations of its three overlaps."""
    p, g2, right, wrong = (np.array(g[k]) for k in ("pass_rate", "squared_gradient", "right_score", "wrong_score"))
    q = 1 - p
    across = -g2 / (p * q)  # inner product of the mean scores after a pass, g / p, and after a fail, -g / q
    two = p * q / 2 * (right + wrong - 2 * across)
    one = p * q**2 * (right - 2 * across + g2 / q**2) / 4 + q * p**2 * (wrong - 2 * across + g2 / p**2) / 4
    found: Floats = ((size - 2) * (size - 3) * g2 + 4 * (size - 2) * one + 2 * two) / (size * (size - 1))
    return found


def exact_kappa(g: Mapping[str, Sequence[float]], resamples: int = 2000, seed: int = 0) -> ExactKappa:
    """Kappa of the line through G = 4 and 16, as a probe takes it, with a bootstrap over prompts."""
    p = np.array(g["pass_rate"])
    pq, g2 = p * (1 - p), np.array(g["squared_gradient"])
    noise = p * np.array(g["right_score"]) + (1 - p) * np.array(g["wrong_score"]) - g2 / pq
    table = np.stack([*(squared_norm(g, size) for size in SIZES), pq, pq**2])
    chosen = np.random.default_rng(seed).integers(len(p), size=(resamples, len(p)))
    kappa, best = _of_means(table.mean(1))
    again = _of_means(np.stack([row[chosen].mean(1) for row in table]))
    formula = (pq * noise).mean() / pq.mean() / (g2.mean() / (pq**2).mean())
    return ExactKappa(float(kappa), float(again[0].std()), float(best), float(again[1].std()), float(formula))


def _line(at: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Intercept and slope in 1 / (G - 1) through the values at both sizes."""
    x = [1 / (size - 1) for size in SIZES]
    slope = (at[0] - at[1]) / (x[0] - x[1])
    return at[1] - slope * x[1], slope


def _of_means(means: Floats) -> tuple[Floats, Floats]:
    """Kappa and best group size of mean squared norms at both sizes, E[pq] and E[(pq)^2]: shape (4, ...)."""
    small, large, pq, square = means
    intercept, slope = _line((small, large))
    of_rewards = [square * (m - 2) * (m - 3) / (m * (m - 1)) + pq / m for m in SIZES]
    intercept_t, slope_t = _line(of_rewards)
    return (slope / intercept * intercept_t - slope_t) / pq, 1 + np.sqrt(slope / intercept)
