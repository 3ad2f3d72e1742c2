"""Equations of docs/theory.md, section 12: mix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.estimation import subgroup_pmf
from grpo_plan.symbolic.groups import binomial_pmf, dead


def posterior(rates: Sequence[Any], weights: Sequence[Any], successes: int, rollouts: int) -> list[Expr]:
    """Weights of the pass rates of a prompt after k of n, for an F of finitely many rates (theory.md, eq. 59).

    >>> posterior([0, sp.Rational(1, 2)], [sp.Rational(1, 2)] * 2, 0, 2)
    [4/5, 1/5]
    """
    joint = [exact(w) * binomial_pmf(successes, rollouts, exact(p)) for p, w in zip(rates, weights, strict=True)]
    return [part / sp.Add(*joint) for part in joint]


def conditional_mean(
    value: Callable[[Expr], Any], seen: Callable[[Expr], Any], rates: Sequence[Any], weights: Sequence[Any]
) -> Expr:
    """Mean of a function of p among the prompts with an observation of chance ``seen(p)`` (theory.md, eq. 59)."""
    pairs = [(exact(p), exact(w) * exact(seen(exact(p)))) for p, w in zip(rates, weights, strict=True)]
    return sp.Add(*(w * exact(value(p)) for p, w in pairs)) / sp.Add(*(w for _, w in pairs))


def held_out_law(successes: int, rollouts: int, first: int, chosen: Collection[int], group_size: int) -> list[Expr]:
    """Chance that the first rollouts choose the prompt and a group of the others has 0..G passes (theory.md, eq. 59).

    ``chosen`` are the passes among the ``first`` rollouts that choose it. One prompt, all splits.
    """
    n, k = rollouts, successes
    law = [sp.Integer(0)] * (group_size + 1)
    for j in chosen:
        split = subgroup_pmf(j, k, n, first)
        if split == 0:
            continue
        for passes in range(group_size + 1):
            law[passes] += split * subgroup_pmf(passes, k - j, n - first, group_size)
    return law


def mix_progress(
    signals: Sequence[Any], second_moments: Sequence[Any], shares: Sequence[Any], coherence: Any = 0
) -> Expr:
    """Progress per group of a mix of strata, up to a constant (theory.md, eq. 60)."""
    mean = sp.Add(*(exact(w) * exact(s) for w, s in zip(shares, signals, strict=True)))
    square = sp.Add(*(exact(w) * exact(v) for w, v in zip(shares, second_moments, strict=True)))
    return mean**2 / (square - exact(coherence) * mean**2)


def tilted_mix(base: Sequence[Any], direction: Sequence[Any], multiplier: Any) -> list[Expr]:
    """Shares of largest ``direction @ w`` at their own KL from the base, no floor or cap met (theory.md, eq. 61)."""
    parts = [exact(b) * sp.exp(exact(d) / exact(multiplier)) for b, d in zip(base, direction, strict=True)]
    return [part / sp.Add(*parts) for part in parts]


def mix_divergence(shares: Sequence[Any], base: Sequence[Any]) -> Expr:
    """KL divergence of a mix from the base in nats (theory.md, eq. 61)."""
    terms = [(exact(w), exact(b)) for w, b in zip(shares, base, strict=True)]
    return sp.Add(*(w * sp.log(w / b) for w, b in terms if w != 0))


def most_moved(divergence: Any) -> Expr:
    """Largest share of a step's prompts that a mix of this KL can move (theory.md, eq. 61)."""
    return sp.sqrt(exact(divergence) / 2)


def mixed_after_agreeing(
    rates: Sequence[Any],
    weights: Sequence[Any],
    rollouts: int,
    group_size: int,
    visits: int = 1,
    *,
    passed: bool = False,
) -> Expr:
    """Chance that a prompt whose n rollouts all failed (or passed) is mixed at a later visit (theory.md, eq. 62)."""
    return conditional_mean(
        lambda p: 1 - dead(p, group_size) ** visits,
        lambda p: p**rollouts if passed else (1 - p) ** rollouts,
        rates,
        weights,
    )


def rest_dead(rates: Sequence[Any], weights: Sequence[Any], rollouts: int, group_size: int) -> Expr:
    """Dead fraction of the prompts whose n rollouts did not all agree (theory.md, eq. 62)."""
    return conditional_mean(lambda p: dead(p, group_size), lambda p: 1 - dead(p, rollouts), rates, weights)
