"""Equations of docs/theory.md, section 13: allocation."""

from __future__ import annotations

from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import mixed


def estimate_variance(estimator: str, spread: Any, rollouts: Any) -> Expr:
    """Variance of one prompt's gradient estimate with n rollouts, ``spread = 4 s**2 p (1 - p)`` (theory.md, eq. 63)."""
    a, n = exact(spread), exact(rollouts)
    return a / (n - 1) if estimator == "rloo" else a * (n - 1) / n**2


def water_level(estimator: str, spread: Any, rollouts: Any) -> Expr:
    """Variance that one more rollout removes at n, the lambda of which n is the answer (theory.md, eq. 63)."""
    a, n = exact(spread), exact(rollouts)
    return a / (n - 1) ** 2 if estimator == "rloo" else a * (n - 2) / n**3


def water_filling(estimator: str, spread: Any, multiplier: Any) -> Expr:
    """Rollouts at multiplier lambda, before the bounds (theory.md, eq. 63)."""
    a, level = exact(spread), exact(multiplier)
    if estimator == "rloo":
        return 1 + sp.sqrt(a / level)
    reach = sp.sqrt(a / level)
    return 2 * reach / sp.sqrt(3) * sp.cos(sp.acos(-sp.sqrt(27) / reach) / 3)


def knapsack_value(pass_rate: Any, rollouts: Any) -> Expr:
    """``mixed(N, p) p (1 - p)**2`` (theory.md, eq. 64)."""
    p = exact(pass_rate)
    return mixed(p, rollouts) * p * (1 - p) ** 2


def knapsack_increment(pass_rate: Any, rollouts: Any) -> Expr:
    """What rollout N + 1 adds to the value, from N at least 1 (theory.md, eq. 64)."""
    p, n = exact(pass_rate), exact(rollouts)
    return (p**n * (1 - p) + (1 - p) ** n * p) * p * (1 - p) ** 2


def hit_probability(successes: Any, rollouts: Any, more: int, prior: tuple[Any, Any] = (1, 1)) -> Expr:
    """Chance of a pass among m more rollouts after k of n (theory.md, eq. 65).

    >>> hit_probability(0, 8, 8)
    8/17
    """
    k, n = exact(successes), exact(rollouts)
    a, b = map(exact, prior)
    return 1 - sp.Mul(*((b + n - k + j) / (a + b + n + j) for j in range(more)))


def first_pass_rollouts(pass_rate: Any, probability: Any) -> Expr:
    """Rollouts n with ``1 - (1 - p)**n = c`` (theory.md, eq. 65)."""
    return sp.log(1 - exact(probability)) / sp.log(1 - exact(pass_rate))
