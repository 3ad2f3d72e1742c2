"""Equations of docs/theory.md, section 9: measured kappa."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.planning import rloo_signal_second_moment


def line(group_sizes: Sequence[Any], values: Sequence[Any]) -> tuple[Expr, Expr]:
    """Intercept and slope of the least-squares line in ``1 / (G - 1)`` (theory.md, eq. 49).

    >>> line([2, 3, 5], [5, 3, 2])
    (1, 4)
    """
    x = [1 / (exact(g) - 1) for g in group_sizes]
    y = [exact(v) for v in values]
    k = sp.Integer(len(x))
    middle, mean = sp.Add(*x) / k, sp.Add(*y) / k
    slope = sp.Add(*((a - middle) * b for a, b in zip(x, y, strict=True))) / sp.Add(*((a - middle) ** 2 for a in x))
    return sp.simplify(mean - slope * middle), sp.simplify(slope)


def measured_group_size(intercept: Any, slope: Any, prompt_cost: Any = 0) -> Expr:
    """The best group size from the line alone (theory.md, eq. 49).

    >>> measured_group_size(1, 9)
    4
    """
    return 1 + sp.sqrt((1 + exact(prompt_cost)) * exact(slope) / exact(intercept))


def measured_kappa(group_sizes: Sequence[Any], values: Sequence[Any], mean_pq: Any, mean_pq_squared: Any) -> Expr:
    """Kappa of eq. 25 from squared norms and the first two moments of pq (theory.md, eq. 49)."""
    pq, pq2 = exact(mean_pq), exact(mean_pq_squared)

    def rewards_alone(g: Expr) -> Expr:  # E[t**2], linear in the two moments
        p = sp.Symbol("p")
        unit = sp.expand(rloo_signal_second_moment(p, g))
        u = sp.Symbol("u")  # pq
        in_u = sp.expand(sp.simplify(unit.subs(p, (1 - sp.sqrt(1 - 4 * u)) / 2)))
        return in_u.coeff(u, 1) * pq + in_u.coeff(u, 2) * pq2

    intercept, slope = line(group_sizes, values)
    of_intercept, of_slope = line(group_sizes, [rewards_alone(exact(g)) for g in group_sizes])
    return sp.simplify((slope / intercept * of_intercept - of_slope) / pq)


def pair_products(gram: Any, rewards: Sequence[Any]) -> tuple[Expr, Expr, Expr]:
    """Mean inner products of pair estimates with 0, 1 and 2 rollouts in common, by enumeration (theory.md, eq. 50)."""
    r = [exact(x) for x in rewards]
    pairs = list(combinations(range(len(r)), 2))
    found: list[list[Expr]] = [[], [], []]
    for i, j in pairs:
        for k, m in pairs:
            inner = exact(gram[i][k]) - exact(gram[i][m]) - exact(gram[j][k]) + exact(gram[j][m])
            found[len({i, j} & {k, m})].append((r[i] - r[j]) * (r[k] - r[m]) * inner / 4)
    none, one, two = (sp.Add(*values) / len(values) for values in found)
    return none, one, two


def subgroup_squared_norm(products: Sequence[Any], group_size: Any) -> Expr:
    """Mean squared norm over all sub-groups of one size, from `pair_products` (theory.md, eq. 50)."""
    none, one, two = (exact(x) for x in products)
    m = exact(group_size)
    return ((m - 2) * (m - 3) * none + 4 * (m - 2) * one + 2 * two) / (m * (m - 1))


def sketch_variance(first: Any, second: Any, inner: Any, size: Any) -> Expr:
    """Largest variance of a sketched inner product, from the squared norms and the product (theory.md, eq. 50)."""
    return (exact(first) * exact(second) + exact(inner) ** 2) / exact(size)


def mean_square_between(square_of_sum: Any, sum_of_squares: Any, prompts: Any) -> Expr:
    """``|E g|**2`` without bias: the mean product of the gradients of two prompts (theory.md, eq. 51)."""
    m = exact(prompts)
    return (exact(square_of_sum) - exact(sum_of_squares)) / (m * (m - 1))


def measured_noise_to_signal(group_square: Any, mean_square: Any, prompts_per_step: Any) -> Expr:
    """Noise-to-signal ratio of a step of N groups from measured squares (theory.md, eq. 51)."""
    return (exact(group_square) - exact(mean_square)) / (exact(prompts_per_step) * exact(mean_square))
