"""One step: prompts, rollouts, refill, and the estimate of the gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.groups import all_fail_probability, all_pass_probability
from grpo_plan.simulation.drawing import NOISE, ROLLOUTS, SHUFFLE, Sampler, Streams, shuffled_rewards
from grpo_plan.simulation.pairs import Pairs
from grpo_plan.simulation.policy import Parameters, group_noise, group_signal, moved, sigmoid, weighted_gradient
from grpo_plan.simulation.prompts import PromptSet
from grpo_plan.simulation.settings import SimulatedPolicy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Groups of a step.

    Attributes:
        rows: Their prompts, shape (N,).
        passes: Their passes.
        rates: Pass rates of their prompts.
        moved: Changes of the logits of their prompts since the start.
    """

    rows: Ints
    passes: Ints
    rates: Floats
    moved: Floats

    def some(self, keep: NDArray[np.bool_] | slice) -> Groups:
        """Some of them."""
        return Groups(rows=self.rows[keep], passes=self.passes[keep], rates=self.rates[keep], moved=self.moved[keep])


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What was generated: groups by kind, and what their pass rates let expect."""

    groups: int
    all_fail: int
    all_pass: int
    expected_dead: float


def draw_groups(
    prompts: PromptSet,
    parameters: Parameters,
    model: SimulatedPolicy,
    sampler: Sampler,
    streams: Streams,
    *,
    step: int,
    turn: int,
    count: int,
    group_size: int,
) -> Groups:
    """One round of groups; the same random numbers at every policy, so that passes rise with the pass rate."""
    rates = None
    if sampler.needs_rates:
        rates, _ = sigmoid(prompts.start + moved(prompts, parameters, model))
    rows = sampler.draw(count, step, turn, rates)
    change = moved(prompts, parameters, model, rows)
    p, _ = sigmoid(prompts.start[rows] + change)
    uniform = streams.at(ROLLOUTS, step, turn).random((count, group_size))
    passes = np.count_nonzero(uniform < p[:, None], axis=1)
    sampler.tell(rows, passes, group_size)
    return Groups(rows=rows, passes=passes, rates=p, moved=change)


def tally(groups: Groups, group_size: int) -> Drawn:
    """Groups by kind."""
    p = groups.rates
    expected = all_fail_probability(p, group_size) + all_pass_probability(p, group_size)
    return Drawn(
        groups=groups.rows.size,
        all_fail=int(np.count_nonzero(groups.passes == 0)),
        all_pass=int(np.count_nonzero(groups.passes == group_size)),
        expected_dead=float(np.minimum(expected, 1.0).sum()),
    )


def is_mixed(groups: Groups, group_size: int) -> NDArray[np.bool_]:
    """Groups with a pass and a fail."""
    mixed: NDArray[np.bool_] = (groups.passes > 0) & (groups.passes < group_size)
    return mixed


def joined(parts: list[Groups]) -> Groups:
    """Groups of several rounds."""
    names = ("rows", "passes", "rates", "moved")
    return Groups(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def estimate(
    prompts: PromptSet,
    parameters: Parameters,
    model: SimulatedPolicy,
    pairs: Pairs,
    groups: Groups,
    group_size: int,
    streams: Streams,
    *,
    step: int,
    kl_coefficient: float = 0.0,
    shuffled: bool = False,
) -> Parameters:
    """Estimate of the gradient from the groups of a step: the mean over groups (theory.md, eq. 124 and 125).

    The noise of all groups is drawn at once: given their passes it is normal, and its variances add up.
    """
    n = groups.rows.size
    rewarded = kept = groups.passes
    if shuffled:
        rewarded, kept = shuffled_rewards(groups.passes, group_size, streams.at(SHUFFLE, step))
    advantages = pairs.batch(rewarded, group_size)
    weights = group_signal(kept, rewarded, groups.passes, group_size, advantages, groups.rates)
    if kl_coefficient:
        weights = weights - kl_coefficient * groups.rates * (1.0 - groups.rates) * groups.moved
    gradient = weighted_gradient(prompts, parameters, model, weights / n, groups.rows)
    if model.kappa:
        noise = model.kappa * float(group_noise(rewarded, group_size, advantages).sum()) / n**2
        rng = streams.at(NOISE, step)
        d = model.dimension
        gradient.shared[:] += np.sqrt(noise * model.harmful / d) * rng.standard_normal(d)
        gradient.nuisance[:] += np.sqrt(noise * (1.0 - model.harmful) / d) * rng.standard_normal(d)
    return gradient
