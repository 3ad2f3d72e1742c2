"""Equations of docs/theory.md, section 1: one group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


def mixed(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that a group is mixed (theory.md, eq. 1).

    >>> mixed(sp.Rational(1, 5), 4)
    368/625
    """
    p, g = exact(pass_rate), exact(group_size)
    return 1 - p**g - (1 - p) ** g


def mixed_sum(pass_rate: Any, group_size: int) -> Expr:
    """The same chance as a sum of the binomial law over 0 < k < G (theory.md, eq. 1)."""
    return sp.Add(*(binomial_pmf(k, group_size, pass_rate) for k in range(1, group_size)))


def all_pass(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that all rollouts pass (theory.md, eq. 2)."""
    return exact(pass_rate) ** exact(group_size)


def all_fail(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that all rollouts fail (theory.md, eq. 2)."""
    return (1 - exact(pass_rate)) ** exact(group_size)


def dead(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that a group is dead under a 0/1 reward (theory.md, eq. 2)."""
    return all_pass(pass_rate, group_size) + all_fail(pass_rate, group_size)


def pass_at(pass_rate: Any, group_size: Any) -> Expr:
    """Chance of at least one pass among G rollouts (theory.md, eq. 3)."""
    return 1 - all_fail(pass_rate, group_size)


def graded_dead(level_probabilities: Sequence[Any], group_size: Any) -> Expr:
    """Chance that all rewards are of one level (theory.md, eq. 4)."""
    return sp.Add(*(exact(q) ** exact(group_size) for q in level_probabilities))


def rare_mode_miss(pass_rate: Any, mode_mass: Any, group_size: Any) -> Expr:
    """Chance that a group is mixed and holds no rollout of the rare correct mode (theory.md, eq. 5)."""
    p, tau, g = exact(pass_rate), exact(mode_mass), exact(group_size)
    return (1 - tau) ** g - (p - tau) ** g - (1 - p) ** g


def binomial_pmf(passes: Any, group_size: Any, pass_rate: Any) -> Expr:
    """Chance of exactly k passes in a group of one prompt (theory.md, eq. 1)."""
    k, g, p = exact(passes), exact(group_size), exact(pass_rate)
    return sp.binomial(g, k) * p**k * (1 - p) ** (g - k)


def group_mean(value_of: Callable[[int], Any], pass_rate: Any, group_size: int) -> Expr:
    """Mean over the binomial law of k of any function of the passes (theory.md, eq. 6)."""
    return sp.Add(
        *(
            binomial_pmf(k, group_size, pass_rate) * exact(value_of(k))
            for k in range(group_size + 1)
            if exact(value_of(k)) != 0
        )
    )


def group_variance(passes: Any, group_size: Any) -> Expr:
    """Population variance of the rewards of a group with k passes (theory.md, eq. 6)."""
    k, g = exact(passes), exact(group_size)
    return k * (g - k) / g**2


def expected_group_variance_sum(pass_rate: Any, group_size: int) -> Expr:
    """Expected group variance as the binomial sum (theory.md, eq. 6)."""
    return group_mean(lambda k: group_variance(k, group_size), pass_rate, group_size)


def expected_group_variance(pass_rate: Any, group_size: Any) -> Expr:
    """Expected group variance in closed form (theory.md, eq. 6)."""
    p, g = exact(pass_rate), exact(group_size)
    return p * (1 - p) * (1 - 1 / g)


def expected_group_std(pass_rate: Any, group_size: int) -> Expr:
    """Expected group standard deviation, by the exact sum (theory.md, eq. 7).

    >>> expected_group_std(sp.Rational(1, 2), 2)
    1/4
    """
    return group_mean(lambda k: sp.sqrt(group_variance(k, group_size)), pass_rate, group_size)


def fidelity(pass_rate: Any, group_size: int) -> Expr:
    """Expected group std over the std of one reward (theory.md, eq. 8)."""
    p = exact(pass_rate)
    return expected_group_std(p, group_size) / sp.sqrt(p * (1 - p))


def fidelity_expansion(pass_rate: Any, group_size: Any) -> Expr:
    """Fidelity to first order in 1/G (theory.md, eq. 8)."""
    p, g = exact(pass_rate), exact(group_size)
    return 1 - 1 / (8 * g * p * (1 - p))


def fidelity_budget(pass_rate: Any, shortfall: Any) -> Expr:
    """Group size at which the expansion reaches fidelity 1 - eps (theory.md, eq. 8)."""
    p, eps = exact(pass_rate), exact(shortfall)
    return 1 / (8 * eps * p * (1 - p))
