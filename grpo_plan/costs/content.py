"""What a group holds on average: passes, fails, and how much of it is in mixed groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan._validate import as_level, as_one_group_size, as_probability, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.result import PassRateFit

SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContent:
    """Means of a group of a random prompt that costs need (theory.md, eq. 66).

    Attributes:
        group_size: Rollouts per prompt, G.
        passes: Mean passes of a group, ``E[k]``.
        mixed_fraction: Share of the groups that are mixed, ``1 - D(G)``.
        mixed_passes: ``E[k; mixed]``: passes that are in mixed groups, per group generated.
        mixed_low: Lower limit of ``mixed_fraction``; None without an interval.
        mixed_high: Upper limit.
    """

    group_size: int
    passes: float
    mixed_fraction: float
    mixed_passes: float
    mixed_low: float | None = None
    mixed_high: float | None = None

    @classmethod
    def from_pmf(cls, group_pmf: ArrayLike, dead_limits: tuple[float, float] | None = None) -> GroupContent:
        """From the law of passes, shape (G + 1,), and if known the limits of the dead fraction.

        Raises:
            DomainError: The law is no law.

        >>> GroupContent.from_pmf([0.25, 0.5, 0.25])
        GroupContent(group_size=2, passes=1.0, mixed_fraction=0.5, mixed_passes=0.5, mixed_low=None, mixed_high=None)
        """
        pmf = as_probability(group_pmf, "group_pmf")
        if pmf.ndim != 1 or pmf.size < 2 or abs(float(pmf.sum()) - 1.0) > SUM_TOLERANCE:
            raise DomainError(
                f"group_pmf must be the chances of 0 to G passes, which add up to 1; got shape {pmf.shape} with sum "
                f"{float(pmf.sum()):g}. Use fit.group_pmf(group_size)."
            )
        k = np.arange(pmf.size)
        low, high = (None, None) if dead_limits is None else (1.0 - dead_limits[1], 1.0 - dead_limits[0])
        return cls(
            group_size=pmf.size - 1,
            passes=float(pmf @ k),
            mixed_fraction=float(pmf[1:-1].sum()),
            mixed_passes=float(pmf[1:-1] @ k[1:-1]),
            mixed_low=low,
            mixed_high=high,
        )

    @classmethod
    def of(cls, fit: PassRateFit, group_size: int, level: float = 0.95) -> GroupContent:
        """From a fit, with the limits of its dead fraction.

        Raises:
            PilotError: The pilot does not determine groups of this size.
        """
        require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
        size, share = as_one_group_size(group_size), as_level(level)
        pmf = fit.group_pmf(size)
        if pmf.size != size + 1:
            raise PilotError(f"The law of passes of groups of {size} is unknown. {fit.status.sentence}")
        dead = fit.dead(size, share)
        return cls.from_pmf(np.clip(pmf, 0.0, 1.0), (dead.low, dead.high))
