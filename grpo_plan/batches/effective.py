"""One step: how many of its groups are mixed, as a distribution (theory.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_one_group_size, as_probability, require
from grpo_plan.batches.counts import MAX_PROMPTS_PER_STEP, CountSummary
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.groups import dead_probability, mixed_probability

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class EffectiveBatch(Shown):
    """Mixed groups of one optimiser step.

    Attributes:
        prompts_per_step: Groups in the step, N.
        group_size: Rollouts per group, G.
        dead_fraction: Expected dead share of the groups.
        mixed_groups: Mixed groups per step at ``dead_fraction``: what luck of the draw alone does.
        live_rollouts: Rollouts in mixed groups, G times ``mixed_groups``.
        dead_batch_probability: Chance that every group of a step is dead.
        dead: The estimate behind ``dead_fraction``; None when pass rates were given as known.
    """

    prompts_per_step: int
    group_size: int
    dead_fraction: float
    mixed_groups: CountSummary
    live_rollouts: CountSummary
    dead_batch_probability: float
    dead: DeadFraction | None
    _counts: NDArray[np.int64] = field(repr=False)
    _weights: Floats = field(repr=False)

    @property
    def mixed_groups_mean_interval(self) -> tuple[float, float] | None:
        """Limits of the mean, from the confidence limits of the dead fraction; None for a list of known prompts."""
        if self.dead is None:
            return None
        n = self.prompts_per_step
        return n * (1.0 - self.dead.high), n * (1.0 - self.dead.low)

    def probability_fewer_than(self, mixed_groups: int) -> float:
        """Chance that a step has fewer than ``mixed_groups`` mixed groups (theory.md, eq. 23)."""
        wanted = as_count(mixed_groups, "mixed_groups", minimum=0)
        return float(min(1.0, self._weights[self._counts < wanted].sum()))


def effective_batch(fit: PassRateFit, *, prompts_per_step: int, group_size: int, level: float = 0.95) -> EffectiveBatch:
    """Mixed groups per step when the prompts of a step are drawn at random (theory.md, eq. 21).

    Args:
        fit: Fitted pass rates.
        prompts_per_step: Prompts in one optimiser step, at least 1.
        group_size: Rollouts per prompt, at least 2.
        level: Level of the limits of the mean.

    Raises:
        DomainError: A count is not a whole number or too small.
        PilotError: The pilot does not determine the dead fraction at this group size.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> batch = effective_batch(fit, prompts_per_step=100, group_size=4)
    >>> round(batch.mixed_groups.mean, 6), batch.mixed_groups.p05, batch.mixed_groups.p95
    (20.0, 14.0, 27.0)
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    n = as_count(prompts_per_step, "prompts_per_step", maximum=MAX_PROMPTS_PER_STEP)
    g = as_count(group_size, "group_size", minimum=2)
    dead = fit.dead(g, level)
    if dead.value is None:
        raise PilotError(f"The dead fraction of groups of {g} is unknown. {fit.status.sentence}")
    dead_counts, dead_weights = binomial_window(n, np.array([dead.value]))  # its digits survive where D is tiny
    counts, weights = n - dead_counts[:, ::-1], dead_weights[:, ::-1]
    return _summarise(n, g, dead.value, counts[0], weights[0], dead.value**n, dead)


def effective_batch_of_list(pass_rates: ArrayLike, *, group_size: int) -> EffectiveBatch:
    """Mixed groups per step when the step holds one fixed list of prompts of known pass rates.

    Poisson-binomial law (theory.md, eq. 22): the mean of random prompts, with less spread.

    Args:
        pass_rates: p of each prompt of the list, shape (N,).
        group_size: Rollouts per prompt, at least 2.

    >>> batch = effective_batch_of_list([0.0, 0.5, 0.5, 1.0], group_size=2)
    >>> batch.mixed_groups.mean, batch.dead_batch_probability
    (1.0, 0.25)
    """
    p = as_probability(pass_rates, "pass_rates")
    g = as_count(group_size, "group_size", minimum=2)
    if p.ndim != 1 or p.size == 0:
        raise DomainError(f"pass_rates must be a list of at least one pass rate; got shape {p.shape}.")
    pmf = poisson_binomial_pmf(mixed_probability(p, g))
    dead = dead_probability(p, g)
    counts = np.arange(p.size + 1)
    return _summarise(p.size, g, float(dead.mean()), counts, pmf, float(np.prod(dead)), None)


def poisson_binomial_pmf(probabilities: ArrayLike) -> Floats:
    """Law of the number of successes of independent trials of unequal probability, shape (N + 1,).

    >>> poisson_binomial_pmf([0.5, 0.5]).tolist()
    [0.25, 0.5, 0.25]
    """
    chances = np.atleast_1d(as_probability(probabilities, "probabilities"))
    pmf = np.zeros(chances.size + 1)
    pmf[0] = 1.0
    for trials, chance in enumerate(chances, start=1):
        pmf[1 : trials + 1] = pmf[1 : trials + 1] * (1.0 - chance) + pmf[:trials] * chance
        pmf[0] *= 1.0 - chance
    return pmf


def _summarise(
    prompts: int,
    group_size: int,
    dead_fraction: float,
    counts: NDArray[np.int64],
    weights: Floats,
    dead_batch: float,
    dead: DeadFraction | None,
) -> EffectiveBatch:
    dead_mean = float(weights @ (prompts - counts))
    mean = prompts - dead_mean
    sd = float(np.sqrt(weights @ (prompts - counts - dead_mean) ** 2))
    cumulative = np.cumsum(weights)
    p05, p50, p95 = (
        float(counts[min(int(np.searchsorted(cumulative, q * (1.0 - 1e-12))), counts.size - 1)])
        for q in (0.05, 0.5, 0.95)
    )
    mixed = CountSummary(mean=mean, sd=sd, p05=p05, p50=p50, p95=p95)
    return EffectiveBatch(
        prompts_per_step=prompts,
        group_size=as_one_group_size(group_size),
        dead_fraction=dead_fraction,
        mixed_groups=mixed,
        live_rollouts=mixed.times(group_size),
        dead_batch_probability=dead_batch,
        dead=dead,
        _counts=counts,
        _weights=weights,
    )
