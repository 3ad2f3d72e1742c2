"""Equations of docs/theory.md, sections 16 and 17: pilots that lack their dead groups, or prompts chosen by count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf, dead, mixed
from grpo_plan.symbolic.prompts import beta_binomial_pmf, dead_fraction


def mixed_group_chance(passes: int, group_size: int, rates: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """``P(k) / (1 - D(n))``: chance of k passes of a mixed group under F (theory.md, eq. 73)."""
    total = sp.Add(
        *(exact(w) * binomial_pmf(passes, group_size, exact(p)) for p, w in zip(rates, weights, strict=True))
    )
    return total / (1 - dead_fraction(rates, weights, group_size))


def survivor_chance(passes: int, group_size: int, pass_rate: Any) -> Expr:
    """Chance of k passes of a mixed group of one prompt, 0 < p < 1 (theory.md, eq. 73).

    >>> survivor_chance(1, 3, sp.Rational(1, 4))
    3/4
    """
    p = exact(pass_rate)
    return binomial_pmf(passes, group_size, p) / mixed(p, group_size)


def survivor_weights(group_size: int, rates: Sequence[Any], weights: Sequence[Any]) -> list[Expr]:
    """H: how the pass rates of mixed groups are distributed, on the same rates as F (theory.md, eq. 73)."""
    parts = [exact(w) * (1 - dead(exact(p), group_size)) for p, w in zip(rates, weights, strict=True)]
    return [part / sp.Add(*parts) for part in parts]


def mean_from_survivors(
    function: Callable[[Any], Any], group_size: int, rates: Sequence[Any], weights: Sequence[Any]
) -> Expr:
    """``E_H[phi / m_n] / E_H[1 / m_n]``, with H given by its rates inside (0, 1) and weights (theory.md, eq. 74)."""
    inverse = [exact(w) / mixed(exact(p), group_size) for p, w in zip(rates, weights, strict=True)]
    return sp.Add(*(w * function(exact(p)) for p, w in zip(rates, inverse, strict=True))) / sp.Add(*inverse)


def counted_log_likelihood(counts: Sequence[int], dropped: int, rates: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """Log-likelihood of mixed groups with k = 1 .. n-1 passes and a number of dead ones (theory.md, eq. 75)."""
    n = len(counts) + 1
    share = dead_fraction(rates, weights, n)
    terms = [
        count * sp.log(mixed_group_chance(k, n, rates, weights) * (1 - share))
        for k, count in enumerate(counts, 1)
        if count
    ]
    return sp.Add(*terms, *([dropped * sp.log(share)] if dropped else []))


def survivor_beta_pmf(passes: int, group_size: int, a: Any, b: Any) -> Expr:
    """Chance of k passes of a mixed group where F is a Beta (theory.md, eq. 76)."""
    law = [beta_binomial_pmf(k, group_size, exact(a), exact(b)) for k in range(1, group_size)]
    return law[passes - 1] / sp.Add(*law)


def kept_chance(passes: int, rollouts: int, pass_rate: Any, removed: Sequence[int]) -> Expr:
    """Chance of k passes of a prompt that is kept unless its count is one of ``removed`` (theory.md, eq. 77).

    >>> kept_chance(0, 2, sp.Rational(1, 2), [2])
    1/3
    """
    p = exact(pass_rate)
    return binomial_pmf(passes, rollouts, p) / (1 - sp.Add(*(binomial_pmf(k, rollouts, p) for k in removed)))


def kept_weights(rollouts: int, rates: Sequence[Any], weights: Sequence[Any], removed: Sequence[int]) -> list[Expr]:
    """H: how the pass rates of kept prompts are distributed, on the same rates as F (theory.md, eq. 77 and 78)."""
    parts = [
        exact(w) * (1 - sp.Add(*(binomial_pmf(k, rollouts, exact(p)) for k in removed)))
        for p, w in zip(rates, weights, strict=True)
    ]
    return [part / sp.Add(*parts) for part in parts]
