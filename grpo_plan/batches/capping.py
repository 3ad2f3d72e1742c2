"""A refill that gives up after R rounds: what the step draws, and what it holds then (theory.md, eq. 139)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from grpo_plan.batches.tails import binomial_split, hypergeometric_split
from grpo_plan.batches.waiting import EndlessPrompts, FinitePrompts, Rounds

MOST_TERMS = 1024  # rounds summed one by one; more are summed by Simpson's rule, whose steps are then short
FAINT = 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedRounds(Rounds):
    """Rounds that are drawn until the step is full or the cap is reached.

    Attributes:
        kept: Mean number of mixed groups that the step holds, at most N.
    """

    kept: float


def capped_rounds(law: EndlessPrompts | FinitePrompts, gen_batch_size: int, cap: int) -> CappedRounds:
    """Mean and variance of rounds and prompts within a cap, mixed groups held, and surplus (theory.md, eq. 139).

    >>> found = capped_rounds(EndlessPrompts(wanted=2, dead=0.5), 2, 1)
    >>> found.mean, round(found.kept, 12), round(found.surplus, 12)
    (1.0, 1.0, 0.0)
    """
    kept = mixed_held(law, gen_batch_size * cap)
    if isinstance(law, FinitePrompts):
        return _of_set(law, gen_batch_size, cap, kept)
    if law.beyond(cap * gen_batch_size) <= FAINT:
        free = law.rounds(gen_batch_size)
        mean, variance = free.mean, free.variance
    else:
        mean, variance = _moments(law, gen_batch_size, cap)
    return CappedRounds(
        mean=mean,
        variance=variance,
        prompts_mean=mean * gen_batch_size,
        prompts_variance=variance * gen_batch_size**2,
        surplus=max(0.0, law.mixed * mean * gen_batch_size - kept),
        kept=kept,
    )


def mixed_held(law: EndlessPrompts | FinitePrompts, prompts: int) -> float:
    """Mean of the lesser of N and the mixed groups among so many prompts.

    >>> round(mixed_held(EndlessPrompts(wanted=1, dead=0.5), 2), 12)
    0.75
    """
    n = law.wanted
    if isinstance(law, EndlessPrompts):
        _, reached = binomial_split(prompts, n, law.mixed, law.dead)
        below = binomial_split(prompts - 1, n - 1, law.mixed, law.dead)[0] if prompts and n > 1 else 0.0
        return n * reached + prompts * law.mixed * below
    drawn = min(prompts, law.prompts)
    _, reached = hypergeometric_split(law.prompts, law.mixed, drawn, n)
    below = hypergeometric_split(law.prompts - 1, law.mixed - 1, drawn - 1, n - 1)[0] if drawn and n > 1 else 0.0
    return n * reached + drawn * law.mixed / law.prompts * below


def _of_set(law: FinitePrompts, size: int, cap: int, kept: float) -> CappedRounds:
    t, weights = law.pmf()
    rounds = np.minimum(np.ceil(t / size), float(cap))
    drawn = np.minimum(rounds * size, float(law.prompts))
    over = np.where(t <= drawn, (drawn - t) * (law.mixed - law.wanted) / np.maximum(law.prompts - t, 1.0), 0.0)
    mean, prompts_mean = float(weights @ rounds), float(weights @ drawn)
    return CappedRounds(
        mean=mean,
        variance=float(weights @ (rounds - mean) ** 2),
        prompts_mean=prompts_mean,
        prompts_variance=float(weights @ (drawn - prompts_mean) ** 2),
        surplus=float(weights @ over),
        kept=kept,
    )


def _moments(law: EndlessPrompts, size: int, cap: int) -> tuple[float, float]:
    """Sums of the chances that r rounds do not suffice, for r below the cap, about the last r that never does."""

    def beyond(r: int) -> float:
        return 1.0 if r <= 0 else law.beyond(r * size)

    start = max(0, min(cap, int((law.mean - 14.0 * law.variance**0.5) / size) - 1))
    while start and beyond(start) < 1.0:
        start = max(0, start - 1 - start // 8)
    more = _sum(beyond, start, cap)
    second = _sum(lambda r: (2 * (r - start) + 1) * beyond(r), start, cap)
    return start + more, max(0.0, second - more * more)


def _sum(term: Callable[[int], float], first: int, last: int) -> float:
    """Sum of the terms from the first to before the last; smooth where they are many (Euler and Maclaurin)."""
    if last - first <= MOST_TERMS:
        return float(sum(term(r) for r in range(first, last)))
    step = -(-(last - first) // MOST_TERMS)
    rest = (last - first) % (2 * step)
    head, a = float(sum(term(r) for r in range(first, first + rest))), first + rest
    values = np.array([term(r) for r in range(a, last + 1, step)])
    area = step / 3.0 * (values[0] + values[-1] + 4.0 * values[1:-1:2].sum() + 2.0 * values[2:-1:2].sum())
    slope = (term(last + 1) - term(last - 1)) / 2.0 - (term(a + 1) - term(a))
    return head + float(area + (values[0] - values[-1]) / 2.0 + slope / 12.0)
