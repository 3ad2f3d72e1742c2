"""What leaving out the prompts that always failed or always passed in the pilot would do (theory.md, eq. 62)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.fitting.functionals import dead as dead_functional
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass
from grpo_plan.pilot import PilotHistogram
from grpo_plan.planning.posterior import Curve, chance_of, conditional_limits, rates_given

Floats = NDArray[np.float64]
DEFAULT_VISITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedKind:
    """Prompts of one outcome, all-fail or all-pass in the pilot.

    Attributes:
        prompts: How many the pilot has.
        mixed: Chance that the next group of such a prompt is mixed; None if there is no such prompt.
        mixed_in_visits: Chance that at least one of its next visits is mixed.
    """

    prompts: int
    mixed: Interval | None
    mixed_in_visits: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Dropping(Shown):
    """What dropping every prompt whose pilot rollouts all agree would do, at the pilot's policy.

    Attributes:
        group_size: G of the next visits.
        visits: Number of later visits looked at.
        prompts: Prompts of the pilot.
        never: Prompts that failed every time, 0 of n.
        always: Prompts that passed every time, n of n.
        rest: Prompts that remain.
        rest_dead: Dead fraction of the rest at their next visit; None if nothing remains.
        naive_dead: What the pilot's own groups of the rest say: too low, since the rest was chosen for being mixed.
        lost: Share of all mixed groups that goes with the dropped prompts; None if no group is mixed.
    """

    group_size: int
    visits: int
    prompts: int
    never: DroppedKind
    always: DroppedKind
    rest: int
    rest_dead: Interval | None
    naive_dead: float | None
    lost: float | None


def effect_of_dropping(
    fit: PassRateFit, group_size: int, level: float = 0.95, *, visits: int = DEFAULT_VISITS
) -> Dropping:
    """What dropping "0 of n" and "n of n" prompts would do (theory.md, eq. 62).

    Prompts with a single rollout say nothing and stay.

    Args:
        fit: A fitted pilot whose spread is known (some prompt has two rollouts).
        group_size: G.
        level: Confidence level.
        visits: Later visits of a prompt.
    """
    h = fit.pilot.histogram()
    several = h.rollouts > 1
    never, always = several & (h.successes == 0), several & (h.successes == h.rollouts)
    rest = ~(never | always)
    dead = dead_functional(group_size).phi

    def mixed(p: Floats, q: Floats) -> Floats:
        return 1.0 - dead(p, q)

    def mixed_once(p: Floats, q: Floats) -> Floats:
        return 1.0 - dead(p, q) ** visits

    def given(inside: NDArray[np.bool_], value: Curve) -> Interval | None:
        cells = PilotHistogram(rollouts=h.rollouts[inside], successes=h.successes[inside], prompts=h.prompts[inside])
        if not cells.prompts.size:
            return None
        rates = rates_given(fit.likely_rates, cells)
        found = float(rates.masses @ value(rates.passing, rates.failing))
        seen, degree = chance_of(cells, h), h.max_rollouts + group_size
        low, high = conditional_limits(fit, value, seen, level, degree=degree, near=found)
        return Interval(value=found, low=low, high=high)

    kinds = [
        DroppedKind(
            prompts=int(h.prompts[inside].sum()),
            mixed=given(inside, mixed),
            mixed_in_visits=given(inside, mixed_once),
        )
        for inside in (never, always)
    ]
    remaining = given(rest, dead)
    going = sum(kind.prompts * kind.mixed.value for kind in kinds if kind.mixed is not None)
    staying = 0.0 if remaining is None else (1.0 - remaining.value) * int(h.prompts[rest].sum())
    return Dropping(
        group_size=group_size,
        visits=visits,
        prompts=h.total_prompts,
        never=kinds[0],
        always=kinds[1],
        rest=int(h.prompts[rest].sum()),
        rest_dead=remaining,
        naive_dead=_naive(h, rest, group_size),
        lost=going / (going + staying) if going + staying > 0.0 else None,
    )


def _naive(h: PilotHistogram, rest: NDArray[np.bool_], group_size: int) -> float | None:
    """Dead fraction of the rest by the pilot's own groups of min(G, n)."""
    if not rest.any():
        return None
    total = 0.0
    for n in np.unique(h.rollouts[rest]):
        rows = rest & (h.rollouts == n)
        g = min(group_size, int(n))
        kernel = subgroup_all_pass(h.successes[rows], h.rollouts[rows], g)
        kernel = kernel + subgroup_all_fail(h.successes[rows], h.rollouts[rows], g)
        total += float(h.prompts[rows] @ np.minimum(kernel, 1.0))
    return total / float(h.prompts[rest].sum())
