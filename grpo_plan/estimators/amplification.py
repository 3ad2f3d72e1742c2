"""How much standardised advantages blow up small reward gaps, and which groups owe their gap to rounding.

A group's spread is divided out: (1, 0, 0, 0) and (.51, .50, .50, .50) have the same advantages. Only what is added to
the standard deviation holds it back (theory.md, eq. 107).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.estimators.arithmetic import divided, row_std
from grpo_plan.estimators.computing import advantages
from grpo_plan.estimators.conventions import Scaling
from grpo_plan.estimators.result import Advantages
from grpo_plan.estimators.rewards import Flags, Floats, as_tolerance, spreads

ALMOST_ONE = 0.99  # weight that counts as one where only a limit reaches it
EMPTY_FACTOR = 100.0  # factor between neighbouring spreads that separates two kinds
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of double precision, relative to the largest reward
SINGLE_ROUNDING = 16 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Amplification(Shown):
    """What division by the group's standard deviation does to small gaps.

    Attributes:
        advantages: The advantages that this is about.
        amplifies: Whether the group's own standard deviation is divided out.
        spreads: Largest minus smallest reward of each group, shape (N,); NaN in unscored groups.
        weights: Spread that is left after the division, shape (N,): 1 is a full-size advantage however small the gap,
            0.5 half of that; None if `amplifies` is False.
        half_gap: Gap of one rollout to equal others at which the weight is 1/2; 0 if any gap has weight one.
        full_gap: Gap at which the weight is 0.99 (1 where that is reached); 0 if any gap has weight one.
        smallest_gap: Smallest spread that is not 0 in these rewards, None if there is none.
        tolerance: Spread at or below which a group is dead.
        rounding: Spread at or below which rounding alone explains it: 16 units in the last place of double precision
            at the largest reward.
        proposed: Proposed tolerance, or None where the spreads do not suggest one.
        reason: Why, in words.
    """

    advantages: Advantages
    amplifies: bool
    spreads: Floats
    weights: Floats | None
    half_gap: float | None
    full_gap: float | None
    smallest_gap: float | None
    tolerance: float
    rounding: float
    proposed: float | None
    reason: str

    @property
    def noise(self) -> Flags:
        """Groups with unequal rewards whose spread is within the tolerance or the rounding, shape (N,)."""
        with np.errstate(invalid="ignore"):
            found: Flags = (self.spreads > 0) & (self.spreads <= max(self.tolerance, self.rounding))
        return found

    @property
    def noise_groups(self) -> int:
        """Number of groups that only rounding (or less than the tolerance) makes unequal."""
        return int(self.noise.sum())

    @property
    def small(self) -> Flags:
        """Groups with unequal rewards and a spread of at most the proposed tolerance, else the tolerance; (N,)."""
        with np.errstate(invalid="ignore"):
            found: Flags = (self.spreads > 0) & (self.spreads <= (self.proposed or max(self.tolerance, self.rounding)))
        return found

    @property
    def small_share(self) -> float | None:
        """Share of the sum of all sizes of advantages that groups of small spread hold; None where the sum is 0."""
        sizes = np.abs(np.nan_to_num(self.advantages.values)).sum(axis=1)
        return float(sizes[self.small].sum() / sizes.sum()) if sizes.sum() > 0 else None


def amplification(
    rewards: Any, estimator: str | None = None, *, tolerance: float = 1e-8, **choices: Any
) -> Amplification:
    """Which reward gaps get a full-size advantage, and which groups' gap may be rounding (theory.md, eq. 107).

    The advantages are those of the rewards as they are: nothing is taken as equal first. A tolerance is proposed where
    the positive spreads of the groups fall apart in two kinds: the widest empty stretch between neighbours, on a log
    scale, of at least a factor of 100; its geometric middle is proposed.

    Args:
        rewards: As in `advantages`.
        estimator: As in `advantages`.
        tolerance: Spread at or below which a group counts as dead.
        **choices: As in `advantages`: ``std``, ``eps``, ``trainer``, ``version``, ``weights``, settings.

    Raises:
        DomainError: As in `advantages`.

    >>> found = amplification([[1, 0, 0, 0], [0.51, 0.5, 0.5, 0.5]], trainer="trl")
    >>> found.weights.round(3).tolist(), round(found.half_gap, 6)
    ([1.0, 0.98], 0.0002)
    """
    limit = as_tolerance(tolerance)
    result = advantages(rewards, estimator, tolerance=0.0, **choices)
    convention = result.convention
    size = spreads(result.rewards)
    scored = (~np.isnan(result.rewards)).sum(axis=1)
    size = np.where(scored >= 2, size, np.nan)
    largest = float(np.nanmax(np.abs(result.rewards), initial=0.0))
    scaling = convention.scaling if convention.scale == "group" else None
    weights = half = full = None
    if scaling is not None:
        std = row_std(result.rewards, scaling.ddof)
        weights = np.where(np.isnan(size), np.nan, np.where(std > 0, divided(std, std, scaling), 0.0))
        group = int(scored.max(initial=2))
        half, full = (gap_of_weight(weight, max(group, 2), scaling) for weight in (0.5, ALMOST_ONE))
    positive = np.sort(size[size > 0])
    proposed, reason = proposed_tolerance(positive, largest)
    return Amplification(
        advantages=result, amplifies=scaling is not None, spreads=size, weights=weights, half_gap=half, full_gap=full,
        smallest_gap=float(positive[0]) if positive.size else None, tolerance=limit, rounding=ROUNDING * largest,
        proposed=proposed, reason=reason,
    )  # fmt: skip


def gap_of_weight(weight: float, group_size: int, scaling: Scaling) -> float:
    """Gap of one rollout to ``group_size - 1`` equal ones at which the standard deviation keeps this weight.

    Args:
        weight: In (0, 1).
        group_size: G, at least 2.
        scaling: The division.

    >>> round(gap_of_weight(0.5, 4, Scaling(ddof=1, eps=1e-4)), 6)
    0.0002
    """
    eps = scaling.eps
    std = {
        "std": eps * weight / (1.0 - weight),
        "variance": math.sqrt(eps) * weight / math.sqrt(1.0 - weight**2),
        "floor_std": eps * weight,
        "floor_variance": math.sqrt(eps) * weight,
        "none": 0.0,
    }[scaling.eps_place]
    per_gap = math.sqrt((group_size - 1) / group_size / (group_size - scaling.ddof))
    return std / per_gap


def proposed_tolerance(positive: NDArray[np.float64], largest: float) -> tuple[float | None, str]:
    """A tolerance from the sorted positive spreads of groups, and why; None where they are of one kind.

    >>> proposed_tolerance(np.array([1e-16, 2e-16, 0.5, 1.0]), 1.0)[0] < 1e-7
    True
    """
    if not positive.size:
        return None, "No group has unequal rewards."
    single = SINGLE_ROUNDING * largest
    if positive[-1] <= single:
        return None, f"All spreads are at most {positive[-1]:.2g}, what rounding in single precision explains."
    if positive.size == 1:
        return None, f"One group has unequal rewards, {positive[0]:.2g} apart: nothing to tell two kinds by."
    ratios = positive[1:] / positive[:-1]
    if ratios.max() < EMPTY_FACTOR:
        return None, (
            f"The {positive.size} spreads that are not 0 run from {positive[0]:.2g} to {positive[-1]:.2g} without an "
            f"empty stretch of a factor of {EMPTY_FACTOR:g}."
        )
    i = int(ratios.argmax())
    low, high = float(positive[i]), float(positive[i + 1])
    middle = math.exp(0.5 * (math.log(low) + math.log(high)))
    why = (
        "rounding explains the small ones"
        if low <= single
        else "look at the small ones first: nothing says that they are rounding"
    )
    return middle, (
        f"{i + 1} of {positive.size} spreads that are not 0 are at most {low:.2g}, the others at least {high:.2g}: "
        f"{why}."
    )
