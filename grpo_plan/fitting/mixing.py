"""Pass rates on a grid: the likelihood of every (n, k) cell at every grid point (theory.md, eq. 31)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.ustatistics import subgroup_pmf
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
GRID_POINTS = {32: 401, 256: 801, 10**9: 1601}  # by the largest n; odd, so that 1/2 is one of them
LARGEST_N_OF_GRID = 2_500  # above, the likelihood of one prompt is narrower than three grid steps
NEAR_PEAK = {200: 4.0, 600: 2.0, 10**9: 0.0}  # cells up to which the grid reaches this many deviations around k/n
NEAR_ENDS = np.geomspace(0.01, 40.0, 40)  # failures or passes expected among n at the extra points next to 0 and 1
MAX_CELLS = 1_500
BLOCK_ENTRIES = 4_000_000
SMALLEST_PART = 1e-12
LARGEST_CONDENSED = 700  # rollouts; halved again and again this needs about 1,400 cells


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
        condensed: Whether rollouts were left out to have fewer cells.
    """

    passing: Floats
    failing: Floats
    likelihood: Floats
    weights: Floats
    prompts: int
    rollouts: NDArray[np.int64]
    log_scale: Floats
    condensed: bool = False

    @property
    def log_constant(self) -> float:
        """What the scaled log-likelihood of all prompts lacks."""
        return self.prompts * float(self.weights @ self.log_scale)


def arcsine_grid(points: int = GRID_POINTS[32]) -> tuple[Floats, Floats]:
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
    """The cells on the standard grid; where some n is large, on a grid that is fine enough for it."""
    h = condensed(histogram)
    n, k = h.rollouts.astype(np.float64), h.successes.astype(np.float64)
    p, q = _grid_for(n, k)
    return Mixing(
        passing=p,
        failing=q,
        likelihood=binomial_likelihood(n, k, p, q),
        weights=h.prompts / h.total_prompts,
        prompts=round(h.total_prompts),
        rollouts=h.rollouts,
        log_scale=log_coefficients(n, k) + log_peak(n, k),
        condensed=h.condensed,
    )


def _grid_for(n: Floats, k: Floats) -> tuple[Floats, Floats]:
    """The arcsine grid, with the neighbourhood of each observed k/n above `LARGEST_N_OF_GRID`, and of 0 and 1."""
    p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if n.max() <= size))
    large = n > LARGEST_N_OF_GRID
    if not large.any():
        return p, q
    reach = next(value for cells, value in NEAR_PEAK.items() if large.sum() <= cells)
    steps = np.arange(-reach, reach + 0.25, 0.5) if reach else np.zeros(1)
    n, k = n[large][:, None], k[large][:, None]
    spread = np.sqrt(np.maximum(k * (n - k) / n, 0.25)) * steps
    passes = np.clip(k + spread, 0.0, n)
    ends = NEAR_ENDS / float(n.max())
    all_p = np.concatenate([p, (passes / n).ravel(), ends, 1.0 - ends])
    all_q = np.concatenate([q, ((n - passes) / n).ravel(), 1.0 - ends, ends])
    order = np.lexsort((-all_q, all_p))  # p alone cannot tell points next to 1
    all_p, all_q = all_p[order], all_q[order]
    new = np.concatenate([[True], (np.diff(all_p) != 0.0) | (np.diff(all_q) != 0.0)])
    return all_p[new], all_q[new]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Cells whose numbers of prompts need not be whole.

    Attributes:
        rollouts: n, shape (C,).
        successes: k, shape (C,).
        prompts: Prompts, shape (C,).
        condensed: Whether rollouts were left out to have fewer cells.
    """

    rollouts: NDArray[np.int64]
    successes: NDArray[np.int64]
    prompts: Floats
    condensed: bool

    @property
    def total_prompts(self) -> float:
        """Number of prompts M."""
        return float(self.prompts.sum())

    @property
    def max_rollouts(self) -> int:
        """Largest n."""
        return int(self.rollouts.max())


def condensed(histogram: PilotHistogram) -> Cells:
    """The cells, at most about `MAX_CELLS` of them.

    Where there are more, each n goes down to a rung of a ladder (700, 350, 175, ...), and the prompts of a cell are
    spread over k' by the chance of k' passes among n' of its n rollouts, drawn without replacement (eq. 16). Each
    prompt counts as its average subsample: nothing is biased, and an average varies less than one subsample does, so
    likelihood limits err to the wide side (theory.md, eq. 31).
    """
    h = histogram
    if h.prompts.size <= MAX_CELLS:
        prompts = h.prompts.astype(np.float64)
        return Cells(rollouts=h.rollouts, successes=h.successes, prompts=prompts, condensed=False)
    rungs = [LARGEST_CONDENSED]
    while rungs[-1] > 1:
        rungs.append(rungs[-1] // 2)
    ladder = np.array(rungs[::-1])
    target = ladder[np.searchsorted(ladder, h.rollouts, side="right") - 1]
    parts = []
    for size in np.unique(target):
        rows = np.flatnonzero(target == size)
        total = np.zeros(int(size) + 1)
        for block in np.array_split(rows, max(1, rows.size * (int(size) + 1) // BLOCK_ENTRIES)):
            total += h.prompts[block] @ subgroup_pmf(h.successes[block], h.rollouts[block], int(size))
        seen = np.flatnonzero(total > SMALLEST_PART * h.total_prompts)
        parts.append((np.full(seen.size, size, dtype=np.int64), seen.astype(np.int64), total[seen]))
    rollouts, successes, prompts = (np.concatenate(column) for column in zip(*parts, strict=True))
    prompts *= h.total_prompts / float(prompts.sum())
    return Cells(rollouts=rollouts, successes=successes, prompts=prompts, condensed=True)
