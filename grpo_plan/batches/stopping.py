"""Adaptive sampling: stop the rollouts of a prompt once they tell enough (theory.md, eq. 55)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_level, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

Floats = NDArray[np.float64]
MAX_ADAPTIVE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """A number with its limits; ``high`` is None where it has none."""

    value: float
    low: float
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AdaptiveSampling(Shown):
    """Sampling of one prompt that stops once its rollouts hold enough passes and fails.

    Attributes:
        max_group_size: Rollouts after which a prompt is given up.
        round_size: Rollouts drawn at a time.
        passes: Passes wanted, a.
        fails: Fails wanted, b; 0 for a rule that asks for passes only.
        level: Confidence level.
        rollouts_per_prompt: Mean number of rollouts of a prompt.
        unmet_fraction: Share of prompts given up; D(G) at ``max_group_size`` for one pass and one fail.
        rollouts_per_kept_prompt: The first over the share that is kept; its limits join those of both parts. ``high``
            is None where the pilot does not rule out that none is kept.
        status: What the pilot can say of ``unmet_fraction``.
    """

    max_group_size: int
    round_size: int
    passes: int
    fails: int
    level: float
    rollouts_per_prompt: Bounded
    unmet_fraction: Bounded
    rollouts_per_kept_prompt: Bounded | None
    status: FitStatus


def adaptive_sampling(
    fit: PassRateFit,
    *,
    max_group_size: int,
    round_size: int = 1,
    passes: int = 1,
    fails: int = 1,
    level: float = 0.95,
) -> AdaptiveSampling:
    """Mean rollouts of a prompt under a stopping rule, and the share it gives up (theory.md, eq. 55).

    Args:
        fit: Fitted pass rates.
        max_group_size: Most rollouts of a prompt, a multiple of ``round_size``.
        round_size: Rollouts drawn at a time; 1 stops at once.
        passes: Passes wanted.
        fails: Fails wanted; 0 stops at the passes alone.
        level: Confidence level of the limits.

    Raises:
        DomainError: A number outside its domain.
        PilotError: The pilot does not determine groups of these sizes.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> rule = adaptive_sampling(fit, max_group_size=4)
    >>> round(rule.rollouts_per_prompt.value, 3), round(rule.unmet_fraction.value, 3)
    (3.667, 0.8)
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    most = as_count(max_group_size, "max_group_size", maximum=MAX_ADAPTIVE)
    size = as_count(round_size, "round_size", maximum=most)
    a, b = as_count(passes, "passes", minimum=0), as_count(fails, "fails", minimum=0)
    level = as_level(level)
    if most % size:
        raise DomainError(f"max_group_size must be a multiple of round_size; got {most} and {size}. Change one.")
    if not 1 <= a + b <= most:
        raise DomainError(f"passes + fails must lie between 1 and max_group_size, {most}; got {a + b}.")
    times = range(size, most, size)
    cost = size * (1.0 + sum(_unmet(fit, t, a, b) for t in times))
    unmet = _unmet(fit, most, a, b)
    cost_limits = fit.limits_of(cost_functional(size, most, a, b), level)
    if (a, b, size) == (1, 1, 1):
        cost_limits = fit.stopping_cost(most, level).interval
    one = fit.dead(most, level)
    known = {(1, 1): one.interval, (1, 0): one.all_fail_interval, (0, 1): one.all_pass_interval}
    unmet_limits = known.get((a, b)) or fit.limits_of(unmet_functional(most, a, b), level)
    spent = _holding(cost, *cost_limits, least=float(size), most=float(most))
    missed = _holding(unmet, *unmet_limits, least=0.0, most=1.0)
    return AdaptiveSampling(
        max_group_size=most,
        round_size=size,
        passes=a,
        fails=b,
        level=level,
        rollouts_per_prompt=spent,
        unmet_fraction=missed,
        rollouts_per_kept_prompt=_ratio(spent, missed),
        status=one.status,
    )


def _unmet(fit: PassRateFit, rollouts: int, passes: int, fails: int) -> float:
    """Share of prompts whose first rollouts do not meet the rule."""
    if rollouts < passes + fails:
        return 1.0
    if passes <= 1 and fails <= 1:
        parts = fit.dead(rollouts)
        chosen = [parts.all_fail] * passes + [parts.all_pass] * fails
        known = [x for x in chosen if x is not None]
        if len(known) < len(chosen):
            raise PilotError(f"The pilot does not determine groups of {rollouts}. {fit.status.sentence}")
        return min(1.0, sum(known))
    pmf = fit.group_pmf(rollouts)
    k = np.arange(rollouts + 1)
    return float(min(1.0, pmf[(k < passes) | (rollouts - k < fails)].sum()))


def _holding(value: float, low: float, high: float, *, least: float, most: float) -> Bounded:
    return Bounded(value=value, low=max(least, min(low, value)), high=min(most, max(high, value)))


def _ratio(cost: Bounded, unmet: Bounded) -> Bounded | None:
    if unmet.value >= 1.0:
        return None
    high = None
    if cost.high is not None and unmet.high is not None and unmet.high < 1.0:
        high = cost.high / (1.0 - unmet.high)
    return Bounded(value=cost.value / (1.0 - unmet.value), low=cost.low / (1.0 - unmet.low), high=high)


def unmet_functional(rollouts: int, passes: int, fails: int) -> Functional:
    """Chance that a prompt's rollouts hold fewer than ``passes`` passes or ``fails`` fails."""
    return Functional(
        name=f"unmet({rollouts})",
        degree=rollouts,
        phi=lambda p, q: unmet_probability(p, q, rollouts, passes, fails),
        kernel=_no_kernel,
        pushed_up_by=_pushed_up_by(passes, fails),
    )


def cost_functional(round_size: int, max_group_size: int, passes: int, fails: int) -> Functional:
    """Mean rollouts of a prompt: ``s (1 + sum of the chances that r rounds do not meet the rule)``."""

    def phi(p: Floats, q: Floats) -> Floats:
        total = np.ones_like(p)
        for t in range(round_size, max_group_size, round_size):
            total = total + unmet_probability(p, q, t, passes, fails)
        return round_size * total

    # degree 1, as for the sequential cost: most of the sum is near
    return Functional(
        name=f"adaptive cost({max_group_size})",
        degree=1,
        phi=phi,
        kernel=_no_kernel,
        pushed_up_by=_pushed_up_by(passes, fails),
    )


def unmet_probability(p: Floats, q: Floats, rollouts: int, passes: int, fails: int) -> Floats:
    """``P(k < a or t - k < b)`` for k ~ Binomial(t, p), from p and ``q = 1 - p``.

    >>> unmet_probability(np.array([0.5]), np.array([0.5]), 2, 1, 1).tolist()
    [0.5]
    """
    if rollouts < passes + fails:
        return np.ones_like(p)
    total = np.zeros_like(p)
    for count, up, down in ((passes, p, q), (fails, q, p)):
        for k in range(count):
            total = total + np.exp(_log_choose(rollouts, k) + _log_power(up, k) + _log_power(down, rollouts - k))
    return np.minimum(total, 1.0)


def _log_power(base: Floats, exponent: int) -> Floats:
    if exponent == 0:
        return np.zeros_like(base)
    with np.errstate(divide="ignore"):
        logs: Floats = exponent * np.where(base < 0.5, np.log(base), np.log1p(base - 1.0))
    return logs


@lru_cache(maxsize=1 << 14)
def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


def _pushed_up_by(passes: int, fails: int) -> str:
    return {(1, 1): "dead", (1, 0): "all-fail", (0, 1): "all-pass"}.get((passes, fails), "")


def _no_kernel(k: Floats, n: Floats) -> Floats:
    raise NotImplementedError
