"""Equations of docs/theory.md, section 11: two temperatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.estimation import u_statistic
from grpo_plan.symbolic.groups import binomial_pmf, dead

Pair = tuple[Any, Any]


def _kernel_mean(pass_rate: Any, rollouts: int, value_of: Callable[[Expr], Expr], group_size: int) -> Expr:
    """Mean over k of a function of the kernel of one prompt."""
    return sp.Add(
        *(
            binomial_pmf(k, rollouts, pass_rate) * value_of(u_statistic(k, rollouts, group_size))
            for k in range(rollouts + 1)
        )
    )


def paired_mean(rates: Sequence[Pair], weights: Sequence[Any], group_size: int) -> Expr:
    """``D_T(G) - D_0(G)`` of prompts with pass rates (p_0, p_T) (theory.md, eq. 56)."""
    rows = zip(rates, weights, strict=True)
    return sp.Add(*(exact(w) * (dead(there, group_size) - dead(here, group_size)) for (here, there), w in rows))


def paired_variance(rates: Sequence[Pair], weights: Sequence[Any], rollouts: tuple[int, int], group_size: int) -> Expr:
    """``Var h_0 + Var h_T - 2 Cov(d(p_0), d(p_T))``, variance of one prompt's difference (theory.md, eq. 56).

    >>> paired_variance([(sp.Rational(1, 2), sp.Rational(1, 2))], [1], (2, 2), 2)
    1/2
    """
    shares = [exact(w) for w in weights]
    total, means = sp.Integer(0), []
    for side in (0, 1):
        own = [pair[side] for pair in rates]
        first = sp.Add(
            *(w * _kernel_mean(p, rollouts[side], lambda h: h, group_size) for p, w in zip(own, shares, strict=True))
        )
        second = sp.Add(
            *(w * _kernel_mean(p, rollouts[side], lambda h: h**2, group_size) for p, w in zip(own, shares, strict=True))
        )
        total += second - first**2
        means.append(first)
    joint = sp.Add(*(w * dead(a, group_size) * dead(b, group_size) for (a, b), w in zip(rates, shares, strict=True)))
    return sp.simplify(total - 2 * (joint - means[0] * means[1]))


def moved_share(rises: Any, falls: Any, prompts: Any, difference: Any) -> Expr:
    """Most likely share of falls if rises are ``difference`` more frequent (theory.md, eq. 57)."""
    r, f, m, x = exact(rises), exact(falls), exact(prompts), exact(difference)
    b = (2 * m - r + f) * x - r - f
    c = -f * x * (1 - x)
    return (sp.sqrt(b**2 - 8 * m * c) - b) / (4 * m)


def moved_log_likelihood(rises: Any, falls: Any, prompts: Any, difference: Any, share: Any) -> Expr:
    """Log-likelihood of M prompts that rise, fall or stay (theory.md, eq. 57)."""
    r, f, m, x, y = (exact(v) for v in (rises, falls, prompts, difference, share))
    return r * sp.log(y + x) + f * sp.log(y) + (m - r - f) * sp.log(1 - 2 * y - x)


def score_statistic(rises: Any, falls: Any, prompts: Any, difference: Any) -> Expr:
    """Score statistic of a difference of paired shares (theory.md, eq. 57)."""
    r, f, m, x = exact(rises), exact(falls), exact(prompts), exact(difference)
    share = moved_share(r, f, m, x)
    return (r - f - m * x) / sp.sqrt(m * (2 * share + x * (1 - x)))


def pseudo_moves(differences: Sequence[Any]) -> tuple[Expr, Expr, Expr, Expr]:
    """Rises, falls, prompts and size of a move, with one pseudo-prompt of difference 1 or -1 (theory.md, eq. 57).

    >>> pseudo_moves([1, -1, 0])
    (3/2, 3/2, 4, 1)
    """
    values = [exact(d) for d in differences]
    up, down = sp.Add(*(d for d in values if d > 0)), sp.Add(*(-d for d in values if d < 0))
    size = (sp.Add(*(d**2 for d in values)) + 1) / (up + down + 1)
    half = sp.Rational(1, 2)
    return (up + half) / size, (down + half) / size, sp.Integer(len(values) + 1), size


def square_and_add(first: tuple[Any, Any, Any], second: tuple[Any, Any, Any]) -> tuple[Expr, Expr]:
    """Limits of ``second - first`` from (value, low, high) of two independent means (theory.md, eq. 57)."""
    a, a_low, a_high = (exact(v) for v in first)
    b, b_low, b_high = (exact(v) for v in second)
    return (
        b - a - sp.sqrt((b - b_low) ** 2 + (a_high - a) ** 2),
        b - a + sp.sqrt((b_high - b) ** 2 + (a - a_low) ** 2),
    )


def prompts_to_detect(difference: Any, mean_square: Any, level_quantile: Any, power_quantile: Any) -> Expr:
    """Prompts whose interval excludes 0 with a given chance (theory.md, eq. 58)."""
    x, square = exact(difference), exact(mean_square)
    return ((exact(level_quantile) * sp.sqrt(square) + exact(power_quantile) * sp.sqrt(square - x**2)) / x) ** 2
