"""pass@k and pass^k of a pilot's population, counted up to n and fitted beyond (theory.md, eq. 131)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, as_one_group_size
from grpo_plan.errors import DomainError
from grpo_plan.fitting.estimates import Estimate, Limits
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot

REACH = 4  # default k go up to so many times the rollouts of a prompt


@dataclass(frozen=True, kw_only=True)
class PassPoint:
    """pass@k and pass^k of the population at one k.

    Attributes:
        k: Tries of each prompt.
        value: pass@k, the expected share of prompts with a pass among k fresh rollouts, in [0, 1]; None if unknown.
        low: Lower confidence limit.
        high: Upper confidence limit.
        all_pass: pass^k, the share with k passes of k; None if unknown.
        all_pass_low: Its lower limit.
        all_pass_high: Its upper limit.
        counted: Whether the values are unbiased counts of subgroups; beyond, they rest on a smooth fit.
        prompts_used: Prompts that entered the values.
        method: Where the values come from, a key of `grpo_plan.fitting.estimates.METHODS`.
        status: What the number can and cannot say, as for D(G).
    """

    k: int
    value: float | None
    low: float
    high: float
    all_pass: float | None
    all_pass_low: float
    all_pass_high: float
    counted: bool
    prompts_used: int
    method: str
    status: FitStatus
    _estimate: Estimate = field(repr=False, compare=False)

    @cached_property
    def identified(self) -> Limits | None:
        """pass@k that no number of prompts could rule out at this n, if F is as fitted; equal ends where counted."""
        if self.counted and self.value is not None:
            return self.value, self.value
        return self._estimate.identified


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PassCurve(Shown):
    """pass@k against k.

    Attributes:
        points: One for each k, in rising order.
        level: Confidence level of each interval by itself.
        counted_k: Largest k that is counted: four fifths of the prompts have so many rollouts.
        fit: The fit behind it.
    """

    points: tuple[PassPoint, ...]
    level: float
    counted_k: int
    fit: PassRateFit = field(repr=False)

    @property
    def statuses(self) -> tuple[FitStatus, ...]:
        """What limits the fit, gravest first."""
        return self.fit.statuses

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of the points."""
        return tuple(point.k for point in self.points)

    def at(self, k: int) -> PassPoint:
        """The point of one k.

        Raises:
            DomainError: It is not among ``ks``.
        """
        for point in self.points:
            if point.k == k:
                return point
        raise DomainError(f"k must be one of {', '.join(map(str, self.ks))}; got {k}. Ask for it with ks=.")


def pass_curve(source: Pilot | PassRateFit, *, ks: Iterable[int] | None = None, level: float = 0.95) -> PassCurve:
    """pass@k and pass^k of the prompts' population, with limits over all distributions of pass rates.

    Args:
        source: Counts of one policy, or a fit of them. A pilot without its dead groups must come as a fit.
        ks: Tries, whole numbers of at least 1. Default: powers of 2 up to four times the rollouts of a prompt.
        level: Confidence level of each interval, in (0, 1). Prompts are the sampling unit.

    Raises:
        DomainError: A k or the level is outside its domain.
        PilotError: As `fit_pass_rates`.

    >>> curve = pass_curve(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4), ks=[1, 4, 8])
    >>> [(p.k, round(p.value, 3), p.counted) for p in curve.points]
    [(1, 0.5, True), (4, 0.6, True), (8, 0.621, False)]
    """
    if not isinstance(source, Pilot | PassRateFit):
        raise DomainError(
            f"source must be a Pilot or a PassRateFit; got {type(source).__name__}. Read a pilot with read_pilot(...)."
        )
    fit = source if isinstance(source, PassRateFit) else fit_pass_rates(source)
    sure = as_level(level)
    counted = max(fit.max_counted_group_size, 1) if fit.family == "auto" else 1
    wanted = default_ks(fit) if ks is None else as_ks(ks)
    return PassCurve(
        points=tuple(_point(fit, k, sure, k <= counted) for k in wanted), level=sure, counted_k=counted, fit=fit
    )


def _point(fit: PassRateFit, k: int, level: float, counted: bool) -> PassPoint:
    estimate, dead = fit.pass_at(k, level), fit.dead(k, level)
    low, high = estimate.interval
    passes = dead.all_pass_interval
    return PassPoint(
        k=k,
        value=estimate.value,
        low=low,
        high=high,
        all_pass=dead.all_pass,
        all_pass_low=passes[0],
        all_pass_high=passes[1],
        counted=counted and estimate.value is not None,
        prompts_used=dead.prompts_used,
        method="u-statistic" if dead.method == "exact" and not fit.unknown_dead else dead.method,
        status=fit.status if k == 1 else fit.status_at(k, estimate.value, (low, high)),
        _estimate=estimate,
    )


def as_ks(ks: Iterable[int]) -> tuple[int, ...]:
    """Distinct k in rising order.

    >>> as_ks([4, 1, 4])
    (1, 4)
    """
    if isinstance(ks, (str, bytes)) or not isinstance(ks, Iterable):
        raise DomainError(f"ks must be whole numbers of at least 1; got {ks!r}. Give a list, e.g. [1, 2, 4].")
    found = tuple(sorted({as_one_group_size(k, "k") for k in ks}))
    if not found:
        raise DomainError("ks must hold at least one number of tries; got none. Give e.g. [1, 2, 4].")
    return found


def default_ks(fit: PassRateFit) -> tuple[int, ...]:
    """Powers of 2 up to `REACH` times n, and n itself."""
    n = max(fit.max_counted_group_size, fit.max_measured_group_size)
    powers = {2**i for i in range((REACH * n).bit_length()) if 2**i <= REACH * n}
    return tuple(sorted(powers | {n}))
