"""Pass rates on a grid: the likelihood of every (n, k) cell at every grid point (theory.md, eq. 31)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
GRID_POINTS = 401  # odd, so that 1/2 is one of them
LARGEST_N_OF_GRID = 2_500  # above, the likelihood of one prompt is narrower than three grid steps
MAX_LIKELIHOOD_ROLLOUTS = 20_000
MAX_CELLS = 1_500
LADDER = (1.02, 1.05, 1.1, 1.2, 1.4, 2.0, 4.0, 16.0, 1e9)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mixing:
    """Cells of a pilot and their binomial likelihood on a grid of pass rates.

    Attributes:
        passing: Grid p in rising order, shape (m,); it holds 0, 1/2 and 1.
        failing: 1 - p without cancellation, shape (m,).
        likelihood: P(k of n | p) of each cell, divided by its largest value over p, shape (C, m).
        weights: Share of the prompts in each cell, shape (C,).
        prompts: Number of prompts M.
        rollouts: n of each cell, shape (C,).
        log_scale: Log of ``C(n, k)`` times the largest value, shape (C,).
    """

    passing: Floats
    failing: Floats
    likelihood: Floats
    weights: Floats
    prompts: int
    rollouts: NDArray[np.int64]
    log_scale: Floats

    @property
    def log_constant(self) -> float:
        """What the scaled log-likelihood of all prompts lacks."""
        return self.prompts * float(self.weights @ self.log_scale)


def arcsine_grid(points: int = GRID_POINTS) -> tuple[Floats, Floats]:
    """``p = sin(pi t / 2)**2`` for t evenly spaced on [0, 1], and ``1 - p``: dense at both ends.

    In arcsine units the spread of k/n is the same at every p, hence one spacing serves all.

    >>> p, q = arcsine_grid(5)
    >>> p.round(3).tolist(), q.round(3).tolist()
    ([0.0, 0.146, 0.5, 0.854, 1.0], [1.0, 0.854, 0.5, 0.146, 0.0])
    """
    angle = np.linspace(0.0, math.pi / 2.0, points)
    p = np.sin(angle) ** 2
    p[-1] = 1.0
    if points % 2:
        p[points // 2] = 0.5
    return p, p[::-1].copy()


def log_power(base: Floats, exponent: Floats) -> Floats:
    """``exponent * log(base)`` with 0 log 0 = 0, broadcast; -inf where base is 0 and exponent positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value: Floats = np.where(exponent > 0.0, exponent * np.log(base), 0.0)
    return value


def binomial_likelihood(rollouts: Floats, successes: Floats, passing: Floats, failing: Floats) -> Floats:
    """P(k of n | p) divided by its maximum over p, shape (C, m)."""
    n, k = rollouts[:, None], successes[:, None]
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(passing), np.log(failing)
    peak = log_peak(rollouts, successes)[:, None]
    with np.errstate(invalid="ignore"):
        value: Floats = np.exp(np.where(k > 0.0, k * log_p, 0.0) + np.where(n > k, (n - k) * log_q, 0.0) - peak)
    return value


def log_peak(rollouts: Floats, successes: Floats) -> Floats:
    """``max over p of k log p + (n - k) log(1 - p)``, at p = k/n, shape (C,)."""
    n, k = rollouts, successes
    return log_power(k / n, k) + log_power((n - k) / n, n - k)


def log_coefficients(rollouts: Floats, successes: Floats) -> Floats:
    """``log C(n, k)``, shape (C,)."""
    return np.array(
        [
            math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)
            for n, k in zip(rollouts, successes, strict=True)
        ]
    )


def build_mixing(histogram: PilotHistogram) -> Mixing:
    """The cells on the standard grid.

    Where some n exceeds `LARGEST_N_OF_GRID`, the observed rates k/n join the grid, so that every cell finds its peak.
    """
    h = condensed(histogram)
    n, k = h.rollouts.astype(np.float64), h.successes.astype(np.float64)
    p, q = arcsine_grid()
    large = n > LARGEST_N_OF_GRID
    if large.any():
        extra_p, extra_q = k[large] / n[large], (n[large] - k[large]) / n[large]
        p, first = np.unique(np.concatenate([p, extra_p]), return_index=True)
        q = np.concatenate([q, extra_q])[first]
    return Mixing(
        passing=p,
        failing=q,
        likelihood=binomial_likelihood(n, k, p, q),
        weights=h.prompts / h.total_prompts,
        prompts=h.total_prompts,
        rollouts=h.rollouts,
        log_scale=log_coefficients(n, k) + log_peak(n, k),
    )


def expected_mixing(rates: DiscretePassRates, prompts: int, rollouts: int) -> Mixing:
    """The cells that a pilot of this size has on average, were the pass rates so distributed."""
    n, k = np.full(rollouts + 1, float(rollouts)), np.arange(rollouts + 1.0)
    p, q = arcsine_grid()
    weights = rates.group_pmf(rollouts)
    seen = weights > 1e-15
    return Mixing(
        passing=p,
        failing=q,
        likelihood=binomial_likelihood(n[seen], k[seen], p, q),
        weights=weights[seen] / float(weights[seen].sum()),
        prompts=prompts,
        rollouts=n[seen].astype(np.int64),
        log_scale=log_coefficients(n[seen], k[seen]) + log_peak(n[seen], k[seen]),
    )


def condensed(histogram: PilotHistogram) -> PilotHistogram:
    """The histogram with at most `MAX_CELLS` cells and `MAX_LIKELIHOOD_ROLLOUTS` rollouts a prompt.

    Too many different n are rounded down to a ladder, k in proportion, and a mixed prompt stays mixed. Rounded
    counts vary less than the binomial law of the smaller n, so likelihood intervals from them err to the wide side.
    """
    h = histogram
    if h.max_rollouts <= MAX_LIKELIHOOD_ROLLOUTS and h.prompts.size <= MAX_CELLS:
        return h
    for ratio in (1.0, *LADDER):
        smaller = _rounded(h, ratio)
        if smaller.prompts.size <= MAX_CELLS:
            break
    return smaller


def _rounded(h: PilotHistogram, ratio: float) -> PilotHistogram:
    target = np.minimum(h.rollouts, MAX_LIKELIHOOD_ROLLOUTS).astype(np.float64)
    if ratio > 1.0:
        target = np.maximum(np.floor(ratio ** np.floor(np.log(target) / math.log(ratio) + 1e-9)), 1.0)
        target = np.minimum(target, h.rollouts)
    n = target.astype(np.int64)
    k = np.rint(h.successes * (target / h.rollouts)).astype(np.int64)
    mixed = (h.successes > 0) & (h.successes < h.rollouts) & (n >= 2)
    k = np.where(mixed, np.clip(k, 1, np.maximum(n - 1, 1)), np.where(h.successes == h.rollouts, n, np.minimum(k, n)))
    width = int(n.max()) + 1
    cells, index = np.unique(n * width + k, return_inverse=True)
    prompts = np.bincount(index, weights=h.prompts).astype(np.int64)
    return PilotHistogram(rollouts=cells // width, successes=cells % width, prompts=prompts)
