"""Equations of docs/theory.md, section 15: more estimators and objectives, and how sure their answers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


def sign_signal(passes: Any, pass_rate: Any, group_size: Any) -> Expr:
    """``t(k, p)`` of the sign advantage, in units of h (theory.md, eq. 68)."""
    k, p, g = exact(passes), exact(pass_rate), exact(group_size)
    return (k * (1 - p) + (g - k) * p) / g


def sign_signal_mean(pass_rate: Any) -> Expr:
    """``E[t | p]`` of the sign advantage (theory.md, eq. 68)."""
    p = exact(pass_rate)
    return 2 * p * (1 - p)


def sign_signal_second_moment(pass_rate: Any, group_size: Any) -> Expr:
    """``E[t**2 | p]`` of the sign advantage (theory.md, eq. 68)."""
    p, g = exact(pass_rate), exact(group_size)
    pq = p * (1 - p)
    return 4 * pq**2 + (pq - 4 * pq**2) / g


def coverage_of_hard(rates: Sequence[Any], weights: Sequence[Any], group_size: int, hard_below: Any) -> Expr:
    """pass@G of the prompts with p below a line, for an F of finitely many rates (theory.md, eq. 69)."""
    pairs = [(exact(p), exact(w)) for p, w in zip(rates, weights, strict=True) if exact(p) < exact(hard_below)]
    solved = sp.Add(*(w * (1 - (1 - p) ** group_size) for p, w in pairs))
    return solved / sp.Add(*(w for _, w in pairs))


def rare_mode_miss_of_law(group_law: Sequence[Any], rare_share: Any) -> Expr:
    """Mixed groups without a rare answer, from the law of k (theory.md, eq. 70)."""
    g = len(group_law) - 1
    return sp.Add(*(exact(group_law[k]) * (1 - exact(rare_share)) ** k for k in range(1, g)))


def log_worth_influence(signal: Any, second: Any, signals: Any, seconds: Any, coherence: Any = 0) -> Expr:
    """Influence of a prompt on ``log(E[t]**2 / (E[t**2] + kappa E[v] - rho E[t]**2))`` (theory.md, eq. 71).

    ``signal`` and ``second`` are E[t | p] and E[t**2 + kappa v | p] of the prompt, the others their means over F.
    """
    t, u, mean, square, rho = (exact(x) for x in (signal, second, signals, seconds, coherence))
    variance = square - rho * mean**2
    return 2 * (t - mean) / mean - (u - square - 2 * rho * mean * (t - mean)) / variance


def log_chord(first: Any, second: Any, left: Any, right: Any, group_size: Any) -> Expr:
    """The line through two values of log D, at a group size (theory.md, eq. 72)."""
    a, b, g, h, x = (exact(v) for v in (first, second, left, right, group_size))
    return sp.exp(sp.log(a) + (sp.log(b) - sp.log(a)) * (x - g) / (h - g))


def thinned_law(group_law: Sequence[Any]) -> list[Expr]:
    """Law of k when one rollout of each group is left out (theory.md, eq. 16).

    >>> thinned_law([sp.Rational(1, 8), sp.Rational(3, 8), sp.Rational(3, 8), sp.Rational(1, 8)])
    [1/4, 1/2, 1/4]
    """
    g = len(group_law) - 1
    return [
        exact(group_law[k]) * sp.Rational(g - k, g) + exact(group_law[k + 1]) * sp.Rational(k + 1, g) for k in range(g)
    ]
