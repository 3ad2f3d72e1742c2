"""Rollouts for each prompt from a fixed total (theory.md, eq. 63 and 64).

The variance objective counts a silent group as an estimate without noise, so by itself it rewards silence. That is
why every prompt gets at least 3 rollouts, and why the expected number of mixed groups stands beside the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, as_probability
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates.discrete import power
from grpo_plan.planning.allocation_solver import best_counts, every_combination, water_filling
from grpo_plan.planning.posterior import posterior_masses

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ESTIMATORS = ("rloo", "dr_grpo", "knapsack")
LEAST_ROLLOUTS = 3  # (n - 1) / n**2 is convex only from there on
MAX_ROLLOUTS = 10_000
MAX_TABLE = 50_000_000
SILENCE = (
    "The variance objective counts a silent group as free of noise, so by itself it rewards silence: compare "
    "mixed_groups with uniform_mixed_groups before you use it."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Allocation(Shown):
    """Rollouts of each prompt.

    Attributes:
        estimator: ``"rloo"``, ``"dr_grpo"`` (least variance) or ``"knapsack"`` (largest value).
        rollouts: Of each prompt, in the order given, shape (Q,); they sum to the total.
        relaxed: The water-filling answer before rounding, shape (Q,); None for ``"knapsack"``.
        multiplier: Its lambda, the variance that one more rollout removes; None for ``"knapsack"``.
        objective: Total variance (less is better), or total value (more is better).
        uniform_objective: The same with equal rollouts.
        mixed_groups: Expected mixed groups.
        uniform_mixed_groups: The same with equal rollouts.
        warning: What the objective leaves out.
    """

    estimator: str
    rollouts: Counts
    relaxed: Floats | None = field(repr=False)
    multiplier: float | None
    objective: float
    uniform_objective: float
    mixed_groups: float
    uniform_mixed_groups: float
    warning: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Classes:
    """Prompts that are alike: one row a class."""

    of_prompt: NDArray[np.intp]
    sizes: Counts
    passing: Floats
    failing: Floats
    posterior: Floats | None

    def mean(self, values: Floats) -> Floats:
        """Mean of a function of p over what is known of each class, shape (C,)."""
        if self.posterior is None:
            return values
        found: Floats = self.posterior @ values
        return found


def allocate_rollouts(
    pass_rates: ArrayLike | PassRateFit,
    total_rollouts: int,
    *,
    estimator: str = "rloo",
    low: int = 3,
    high: int = 16,
) -> Allocation:
    """Spread a fixed number of rollouts over prompts (theory.md, eq. 63 and 64).

    Args:
        pass_rates: p of each prompt, shape (Q,), taken as exact; or a fitted pilot, whose prompts are then judged by
            the posterior of their pass rates (means over it, never the formula at its mean).
        total_rollouts: C, between Q times ``low`` and Q times ``high``.
        estimator: ``"rloo"``, ``"dr_grpo"``: least total variance of the gradient estimate (VIP), exact over whole
            numbers. ``"knapsack"``: largest total ``mixed(N, p) p (1 - p)**2``, exact over whole numbers.
        low: Fewest rollouts of a prompt: at least 3 for variance; for ``"knapsack"`` at least 2, or 0 to allow none.
        high: Most rollouts of a prompt.

    Returns:
        An `Allocation`; prompts that are alike get the same number, but for one rollout by order.

    Raises:
        DomainError: An argument outside its domain.
        InfeasiblePlanError: The total does not fit between the bounds.

    >>> allocation = allocate_rollouts([0.05, 0.5, 0.2], 24)
    >>> allocation.relaxed.round(3).tolist(), allocation.rollouts.tolist()
    ([5.094, 10.392, 8.514], [5, 10, 9])
    """
    if estimator not in ESTIMATORS:
        raise DomainError(not_one_of("estimator", estimator, ESTIMATORS))
    total = as_count(total_rollouts, "total_rollouts")
    least = as_count(low, "low", minimum=0 if estimator == "knapsack" else LEAST_ROLLOUTS, maximum=MAX_ROLLOUTS)
    if least == 1:
        raise DomainError("low must be 0 or at least 2 for knapsack; got 1. One rollout alone is never mixed.")
    most = as_count(high, "high", minimum=max(least, 2), maximum=MAX_ROLLOUTS)
    classes = _classes(pass_rates)
    prompts = int(classes.of_prompt.size)
    _refuse_total(total, prompts, least, most)
    if classes.sizes.size * (most - least + 1) > MAX_TABLE:
        raise DomainError(
            f"{classes.sizes.size:,} different pass rates times {most - least + 1:,} numbers of rollouts are too many; "
            "lower high, or round the pass rates."
        )
    numbers = np.arange(least, most + 1)
    worth = _worth(classes, numbers, estimator)
    mixed = np.stack([_mixed(classes, int(n)) for n in numbers], axis=1)
    by_class = every_combination(worth, classes.of_prompt, total) if least == 0 else None
    counts = best_counts(worth, classes.sizes, classes.of_prompt, total, least) if by_class is None else by_class
    relaxed = multiplier = None
    if estimator != "knapsack":
        spread = 4.0 * classes.mean(classes.passing * classes.failing)
        per_class, multiplier = water_filling(spread, classes.sizes, total, least, most, estimator)
        relaxed = per_class[classes.of_prompt]
    equal = np.full(prompts, total // prompts)
    equal[: total - int(equal.sum())] += 1
    rows = classes.of_prompt
    sign = 1.0 if estimator == "knapsack" else -1.0
    return Allocation(
        estimator=estimator,
        rollouts=counts,
        relaxed=relaxed,
        multiplier=multiplier,
        objective=sign * float(worth[rows, counts - least].sum()),
        uniform_objective=sign * float(worth[rows, equal - least].sum()),
        mixed_groups=float(mixed[rows, counts - least].sum()),
        uniform_mixed_groups=float(mixed[rows, equal - least].sum()),
        warning=None if estimator == "knapsack" else SILENCE,
    )


def _classes(pass_rates: ArrayLike | PassRateFit) -> _Classes:
    if isinstance(pass_rates, PassRateFit):
        return _classes_of_pilot(pass_rates)
    rates = as_probability(pass_rates, "pass_rates")
    if rates.ndim != 1 or rates.size == 0:
        raise DomainError(f"pass_rates must be one-dimensional and not empty; got shape {rates.shape}.")
    values, of_prompt = np.unique(rates, return_inverse=True)
    sizes = np.bincount(of_prompt).astype(np.int64)
    return _Classes(of_prompt=of_prompt, sizes=sizes, passing=values, failing=1.0 - values, posterior=None)


def _classes_of_pilot(fit: PassRateFit) -> _Classes:
    if FitStatus.SINGLE_ROLLOUT in fit.statuses:
        raise PilotError(
            "One rollout per prompt does not tell prompts apart. Give each prompt two or more, or give pass rates."
        )
    fit.require_all_groups("Allocation")
    if fit.pilot.is_histogram:
        raise PilotError(
            "Rollouts are allocated to prompts, and a histogram has none by itself. Read counts a prompt "
            "(histogram=False), or give pass rates."
        )
    pilot, h, rates = fit.pilot, fit.pilot.histogram(), fit.likely_rates
    width = int(pilot.rollouts.max()) + 1
    of_prompt = np.searchsorted(h.rollouts * width + h.successes, pilot.rollouts * width + pilot.successes)
    return _Classes(
        of_prompt=of_prompt.astype(np.intp),
        sizes=h.prompts,
        passing=rates.passing,
        failing=rates.failing,
        posterior=posterior_masses(rates, h.successes, h.rollouts),
    )


def _refuse_total(total: int, prompts: int, low: int, high: int) -> None:
    if not prompts * low <= total <= prompts * high:
        raise InfeasiblePlanError(
            f"total_rollouts must lie between {prompts * low:,} and {prompts * high:,} for {prompts:,} prompts with "
            f"{low} to {high} rollouts each; got {total:,}. Change the total, low or high, or take fewer prompts."
        )


def _mixed(classes: _Classes, number: int) -> Floats:
    if number == 0:
        return np.zeros(classes.sizes.size)
    p, q = classes.passing, classes.failing
    return classes.mean(np.maximum(0.0, 1.0 - power(p, q, number) - power(q, p, number)))


def _worth(classes: _Classes, numbers: Counts, estimator: str) -> Floats:
    """Worth of N rollouts of each class, shape (C, numbers): minus the variance, or the knapsack value."""
    p, q = classes.passing, classes.failing
    if estimator == "knapsack":
        return np.stack([classes.mean(knapsack_value(p, q, int(n))) for n in numbers], axis=1)
    spread = 4.0 * classes.mean(p * q)
    return -spread[:, None] * VARIANCE[estimator](numbers.astype(np.float64))


VARIANCE: dict[str, Callable[[Floats], Floats]] = {
    "rloo": lambda n: 1.0 / (n - 1.0),
    "dr_grpo": lambda n: (n - 1.0) / n**2,
}


def knapsack_value(passing: Floats, failing: Floats, rollouts: int) -> Floats:
    """``mixed(N, p) p (1 - p)**2``, 0 at N = 0 (theory.md, eq. 64).

    >>> knapsack_value(np.array([0.3]), np.array([0.7]), 16).round(6).tolist()
    [0.146511]
    """
    if rollouts == 0:
        return np.zeros_like(passing)
    mixed = np.maximum(0.0, 1.0 - power(passing, failing, rollouts) - power(failing, passing, rollouts))
    return mixed * passing * failing**2
