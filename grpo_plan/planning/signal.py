"""The `signal` objective: progress per unit cost when steps are noise-dominated (theory.md, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_positive, as_probability
from grpo_plan.advantages import Estimator
from grpo_plan.errors import DomainError
from grpo_plan.fitting.result import PassRateFit

Floats = NDArray[np.float64]
DEFAULT_KAPPA = (1.0, 300.0)
FLAT_SHARE = 0.9
MAX_KAPPA = 1e12
KAPPA_POINTS = 41


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaRange:
    """Score noise over contrast, known up to a range; ``low == high`` for a measured value.

    Kappa cannot be read off rewards: it is the squared norm of the part of a rollout's score that carries no
    reward information, over the squared slope of the gradient norm in p (1 - p). It grows with response length.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the range."""
        low, high = (
            as_positive(self.low, "kappa", allow_zero=True),
            as_positive(self.high, "kappa", allow_zero=True),
        )
        if high > MAX_KAPPA:
            raise DomainError(f"kappa must be at most {MAX_KAPPA:g}; got {high:g}.")
        if low > high:
            raise DomainError(f"kappa must be LO:HI with LO <= HI; got {low:g}:{high:g}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def measured(self) -> bool:
        """Whether one value was given."""
        return self.low == self.high

    @property
    def middle(self) -> float:
        """Geometric middle."""
        grid = self.grid()
        return float(grid[grid.size // 2])

    def grid(self) -> Floats:
        """Values to plan for, geometrically spaced."""
        if self.measured:
            return np.array([self.low])
        start = max(self.low, self.high * 1e-6)
        grid = np.geomspace(start, self.high, KAPPA_POINTS)
        grid[0] = self.low
        return grid


def as_kappa_range(kappa: KappaRange | tuple[float, float] | float) -> KappaRange:
    """A range, its ends, or one value as a range."""
    if isinstance(kappa, KappaRange):
        return kappa
    low, high = kappa if isinstance(kappa, tuple) else (kappa, kappa)
    return KappaRange(low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoments:
    """Means over prompts of one group's estimate, in units of h and S (theory.md, eq. 25).

    Attributes:
        signal: E[t], in [0, 1].
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


def group_moments(fit: PassRateFit, group_size: int, estimator: Estimator) -> GroupMoments:
    """Moments of the estimate of one group, from the law of its passes alone."""
    pmf = fit.group_pmf(group_size)
    signal = estimator.signal(group_size)
    return GroupMoments(
        signal=float(pmf @ signal),
        signal_square=float(pmf @ signal**2),
        noise=float(pmf @ estimator.noise(group_size)),
    )


def as_coherence(coherence: float) -> float:
    """Mean cosine between the gradients of two prompts, in [0, 1)."""
    rho = float(as_probability(coherence, "coherence"))
    if rho == 1.0:
        raise DomainError(
            "coherence must be below 1; at 1 all prompts pull the same way and one prompt a step is enough."
        )
    return rho


def progress(moments: list[GroupMoments], groups: Floats, kappa: Floats, coherence: float = 0.0) -> Floats:
    """Progress of each design relative to the best, for each kappa (theory.md, eq. 26).

    Args:
        moments: One per design, D of them.
        groups: Groups of the whole run (or of a step, if steps are not known), shape (D,).
        kappa: Shape (K,).
        coherence: rho, mean cosine between the gradients of two prompts, in [0, 1).

    Returns:
        Shape (D, K), in [0, 1]; the best design of each column is 1. All 0 if no group carries signal.
    """
    rho = as_coherence(coherence)
    rows = []
    for moment, count in zip(moments, groups, strict=True):
        variance = moment.variance(kappa, rho)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows.append(np.where(moment.signal > 0.0, count * moment.signal**2 / variance, 0.0))
    table = np.array(rows)
    best = table.max(axis=0)
    relative: Floats = np.divide(table, best, out=np.zeros_like(table), where=best > 0.0)
    return relative


def two_stage_group_size(
    fit: PassRateFit, kappa: float, *, prompt_rollouts: float = 0.0, coherence: float = 0.0
) -> float | None:
    """Closed-form G* for mean-centred advantages (theory.md, eq. 27); None if the pilot has under 4 rollouts a prompt.

    ``1 + sqrt(kappa (1 + c0) E[pq] / (E[p**2 q**2] - rho E[pq]**2))``; E[pq] and E[p**2 q**2] come from the law of
    passes in groups of 4, of which they are exact linear functions.
    """
    if fit.family == "auto" and fit.max_measured_group_size < 4:
        return None
    pmf = fit.group_pmf(4)
    pq = float(pmf @ np.array([0.0, 1 / 4, 1 / 3, 1 / 4, 0.0]))  # k (4 - k) / (4 * 3)
    ppqq = float(pmf[2]) / 6.0  # C(4, 2) p**2 q**2
    spread = ppqq - coherence * pq**2
    if spread <= 0.0 or pq <= 0.0:
        return None
    return float(1.0 + np.sqrt(kappa * (1.0 + prompt_rollouts) * pq / spread))
