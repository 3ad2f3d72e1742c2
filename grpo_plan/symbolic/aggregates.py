"""Equations of docs/theory.md, section 18: what aggregates of groups say about the distribution of pass rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import dead, mixed
from grpo_plan.symbolic.prompts import beta_power_mean_correlation


def pass_share_bounds(mean: Any, dead_share: Any, group_size: int, group_std: Any = None) -> tuple[Expr, Expr] | None:
    """Ends of the all-pass share, by trying every vertex; None if there is none (theory.md, eq. 79).

    >>> pass_share_bounds(sp.Rational(1, 2), sp.Rational(2, 5), 4)
    (1/20, 7/20)
    """
    m, d = exact(mean), exact(dead_share)
    rows = [[1] * (group_size + 1), [sp.Rational(k, group_size) for k in range(group_size + 1)]]
    rows.append([1, *([0] * (group_size - 1)), 1])
    wanted = [sp.Integer(1), m, d]
    if group_std is not None:
        rows.append([sp.sqrt(k * (group_size - k)) / sp.Integer(group_size) for k in range(group_size + 1)])
        wanted.append(exact(group_std))
    return _vertices(rows, wanted, [0] * group_size + [1])


def aggregate_correlation(mean: Any, dead_share: Any, group_size: int) -> Expr:
    """Correlation of the Beta with this mean and D(G), for rational numbers within reach (theory.md, eq. 80).

    >>> aggregate_correlation(sp.Rational(1, 2), sp.Rational(3, 4), 2)
    1/2
    """
    rho, m = sp.Symbol("rho"), exact(mean)
    total = beta_power_mean_correlation(m, rho, group_size) + beta_power_mean_correlation(1 - m, rho, group_size)
    equation = sp.numer(sp.cancel(sp.together(total - exact(dead_share))))
    (root,) = [r for r in sp.Poly(equation, rho).real_roots(multiple=True) if 0 <= r <= 1]
    return root


def even_tail(group_size: int, exceeded: int) -> Expr:
    """``T_G(l)``: chance of more than l heads of G fair coins, given that their number is even (theory.md, eq. 81).

    >>> [even_tail(4, l) for l in range(5)]
    [7/8, 7/8, 1/8, 1/8, 0]
    """
    chances = [sp.binomial(group_size, i) for i in range(0, group_size + 1, 2) if i > exceeded]
    return sp.Add(*chances) / sp.Integer(2) ** (group_size - 1)


def dead_range_ends(mean: Any, dead_share: Any, group_size: int, target: int) -> tuple[Expr, Expr]:
    """Smallest and largest D(G') over all F with this mean and D(G), rational numbers (theory.md, eq. 81)."""
    s, half = sp.Symbol("s"), sp.Rational(1, 2)
    rarer, share = sp.Min(exact(mean), 1 - exact(mean)), 1 - exact(dead_share)
    (one,) = _roots(mixed(s, group_size) - share, s)
    two = _roots(sp.cancel(mixed(s, group_size) / s) - share / rarer, s)
    at = two[0] if two else half
    ends = dead(one, target), 1 - share * mixed(at, target) / mixed(at, group_size)
    return ends if target > group_size else ends[::-1]


def aggregate_range(
    table: Sequence[Sequence[Any]], lower: Sequence[Any], upper: Sequence[Any], values: Sequence[Any]
) -> tuple[Expr, Expr] | None:
    """Ends of ``E phi`` over all F on a grid with means between limits; None if there is none (theory.md, eq. 82).

    Args:
        table: Each aggregate at the grid.
        lower: Its lower limit.
        upper: Its upper limit.
        values: phi at the grid.
    """
    m, n = len(table), len(values)
    rows, wanted = [[1] * n + [0] * (2 * m)], [sp.Integer(1)]
    for i, (row, low, high) in enumerate(zip(table, lower, upper, strict=True)):
        for j, (sign, limit) in enumerate(((1, high), (-1, low))):  # a slack variable for each limit
            rows.append([*row, *(sign * int(t == 2 * i + j) for t in range(2 * m))])
            wanted.append(exact(limit))
    return _vertices(rows, wanted, [*values, *([0] * (2 * m))])


def trials_tail(hits: int, groups: int, chance: Any) -> Expr:
    """``P(X >= x)`` of N trials, which is alpha / 2K at the lower limit (theory.md, eq. 83).

    >>> trials_tail(1, 2, sp.Rational(1, 2))
    3/4
    """
    p = exact(chance)
    return sp.Add(*(sp.binomial(groups, k) * p**k * (1 - p) ** (groups - k) for k in range(hits, groups + 1)))


def _roots(equation: Any, symbol: Any) -> list[Expr]:
    """Real roots in [0, 1/2], each once."""
    roots = sp.Poly(sp.expand(equation), symbol).real_roots(multiple=False)
    return [r for r, _ in roots if 0 <= r <= sp.Rational(1, 2)]


def _vertices(rows: Sequence[Sequence[Any]], wanted: Sequence[Any], values: Sequence[Any]) -> tuple[Expr, Expr] | None:
    """Ends of a linear function of non-negative variables under equations, over all vertices."""
    found = []
    for chosen in combinations(range(len(values)), len(rows)):
        matrix = sp.Matrix([[exact(row[j]) for j in chosen] for row in rows])
        if sp.simplify(matrix.det()) != 0:
            at = matrix.LUsolve(sp.Matrix(wanted))
            if all(sp.N(x, 40) >= -sp.Float("1e-35") for x in at):
                found.append(sp.Add(*(x * exact(values[j]) for x, j in zip(at, chosen, strict=True))))
    return (sp.Min(*found), sp.Max(*found)) if found else None
