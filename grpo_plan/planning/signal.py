"""The `signal` objective: progress per unit cost when steps are noise-dominated (theory.md, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_one_probability, as_positive
from grpo_plan.errors import DomainError
from grpo_plan.estimators import PAIRS_OF_FOUR, TWO_PAIRS_OF_FOUR, Estimator, GroupMoments
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit

Floats = NDArray[np.float64]
DEFAULT_KAPPA = (1.0, 300.0)
FLAT_SHARE = 0.9
MAX_KAPPA = 1e12
KAPPA_POINTS = 41


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaRange:
    """Score noise over contrast: a range that it is taken to lie in, or a measured value with its interval.

    Kappa cannot be read off rewards: it is the squared norm of the part of a rollout's score that carries no
    reward information, over the squared slope of the gradient norm in p (1 - p). It grows with response length.

    Attributes:
        low: Low end of the range, or of the interval of ``value``.
        high: High end.
        value: The value planned for, measured or given; None if only a range is known. Where low equals high it is
            that value, and given.
    """

    low: float
    high: float
    value: float | None = None

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
        value = low if self.value is None and low == high else self.value
        if value is not None:
            value = as_positive(value, "kappa", allow_zero=True)
            if not low <= value <= high:
                raise DomainError(f"kappa must lie in its interval {low:g}:{high:g}; got {value:g}.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "value", value)

    @property
    def known(self) -> bool:
        """Whether one value is planned for: measured, or given as such."""
        return self.value is not None

    @property
    def measured(self) -> bool:
        """Whether that value was measured, which gives it an interval; one number given alone is taken as it is."""
        return self.known and self.low < self.high

    @property
    def middle(self) -> float:
        """Geometric middle."""
        grid = self.grid()
        return float(grid[grid.size // 2])

    def grid(self) -> Floats:
        """Values to plan for, rising: the measured one alone, or the range in geometric steps."""
        return self._spaced() if self.value is None else np.array([self.value])

    def shown(self) -> Floats:
        """Values whose answer is reported: low end, middle (or measured value), high end; no value twice."""
        grid = self._spaced()
        middle = grid[grid.size // 2] if self.value is None else self.value
        return np.unique([self.low, middle, self.high])

    def _spaced(self) -> Floats:
        if self.low == self.high:
            return np.array([self.low])
        grid = np.geomspace(max(self.low, self.high * 1e-6), self.high, KAPPA_POINTS)
        grid[0] = self.low
        return grid


def as_kappa_range(kappa: KappaRange | tuple[float, float] | float) -> KappaRange:
    """A range, its ends, or one value as a range."""
    if isinstance(kappa, KappaRange):
        return kappa
    pair = kappa if isinstance(kappa, tuple) else (kappa, kappa)
    if len(pair) != 2 or not all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in pair):
        raise DomainError(
            f"kappa must be a number, a pair (low, high), a KappaRange or a KappaMeasurement; got {kappa!r}."
        )
    return KappaRange(low=float(pair[0]), high=float(pair[1]))


def group_moments(fit: PassRateFit, group_sizes: Sequence[int], estimator: Estimator) -> list[GroupMoments]:
    """Moments of the estimate of one group at each size, all of one law of the pass rates (theory.md, eq. 28).

    They are for ratios: where counts answer at every size they are those of the counts; with one size beyond, all are
    of the likely law.

    Raises:
        PilotError: The pilot does not determine the law of passes.
    """
    laws = laws_of_one(fit, {estimator.law_size(size) for size in group_sizes})
    return [estimator.moments(laws.__getitem__, size) for size in group_sizes]


def as_coherence(coherence: float) -> float:
    """Mean cosine between the gradients of two prompts, in [0, 1)."""
    rho = as_one_probability(coherence, "coherence")
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
    pq, ppqq = float(pmf @ PAIRS_OF_FOUR), float(pmf @ TWO_PAIRS_OF_FOUR)
    spread = ppqq - coherence * pq**2
    if spread <= 0.0 or pq <= 0.0:
        return None
    return float(1.0 + np.sqrt(kappa * (1.0 + prompt_rollouts) * pq / spread))
