"""Equations of docs/theory.md, section 8: sessions, and the order of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact

Cell = tuple[int, int]  # passes k and rollouts n of a prompt in one session


def session_squares(cells: Sequence[Cell]) -> Expr:
    """``B = sum (k_s - n_s k/n)**2 / n_s`` between the sessions of a prompt (theory.md, eq. 44)."""
    k, n = sum(x for x, _ in cells), sum(x for _, x in cells)
    return sp.Add(*((x - sp.Rational(m * k, n)) ** 2 / sp.Integer(m) for x, m in cells))


def session_covariance(cells: Sequence[Cell]) -> tuple[Expr, Expr]:
    """Unbiased covariance of two rollouts of one session, and variance of one rollout (theory.md, eq. 44).

    >>> session_covariance([(2, 2), (0, 2)])
    (1/2, 1/2)
    """
    k, n, count = sum(x for x, _ in cells), sum(x for _, x in cells), len(cells)
    between = session_squares(cells)
    within = (sp.Rational(k * (n - k), n) - between) / (n - count)
    size = n - sp.Rational(sum(m * m for _, m in cells), n)
    covariance = (between - (count - 1) * within) / size
    return covariance, within + covariance


def session_law(passes: int, rollouts: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Expr]]:
    """Chance of each table of passes by session, given k and independent rollouts (theory.md, eq. 45)."""
    total = sum(rollouts)
    for table in product(*(range(min(passes, m) + 1) for m in rollouts)):
        if sum(table) == passes:
            ways = sp.Mul(*(sp.binomial(m, x) for x, m in zip(table, rollouts, strict=True)))
            yield table, ways / sp.binomial(total, passes)


def session_mean(value_of: Callable[[tuple[int, ...]], Any], passes: int, rollouts: Sequence[int]) -> Expr:
    """Mean over that law (theory.md, eq. 45)."""
    return sp.Add(*(chance * value_of(table) for table, chance in session_law(passes, rollouts)))


def session_squares_mean(passes: Any, rollouts: Sequence[Any]) -> Expr:
    """Mean of B given k (theory.md, eq. 45)."""
    n, k = sp.Add(*map(exact, rollouts)), exact(passes)
    return (len(rollouts) - 1) * k * (n - k) / (n * (n - 1))


def session_squares_variance(passes: Any, rollouts: Sequence[Any]) -> Expr:
    """Variance of B given k, for at least 4 rollouts (theory.md, eq. 45)."""
    n, k, c = sp.Add(*map(exact, rollouts)), exact(passes), len(rollouts)
    spread = k * (n - k)
    uneven = (n * sp.Add(*(1 / exact(m) for m in rollouts)) - c**2) / (n - 2)
    even = sp.Integer(c - 1) * (n - c) / (n - 1)
    first = 2 * n**3 * (even - uneven) * spread * (spread - n + 1) / ((n - 1) * (n - 2) * (n - 3))
    second = n**2 * uneven * spread * (n**2 - 4 * spread) / ((n - 1) * (n - 2))
    return (first + second) / n**4


def design_effect(rollouts: Sequence[Any], correlation: Any) -> Expr:
    """Variance of k/n in sessions against that of independent rollouts (theory.md, eq. 46)."""
    sizes = [exact(m) for m in rollouts]
    return 1 + (sp.Add(*(m**2 for m in sizes)) / sp.Add(*sizes) - 1) * exact(correlation)


def drift_covariance(passes: int, rollouts: Sequence[int]) -> Expr:
    """Covariance matrix of ``k_s - n_s k/n`` given k (theory.md, eq. 47)."""
    n = sum(rollouts)
    scale = sp.Rational(passes * (n - passes), n**2 * (n - 1))
    sizes = sp.Matrix(list(rollouts))
    return scale * (n * sp.diag(*rollouts) - sizes * sizes.T)


def changes_mean(passes: Any, rollouts: Any) -> Expr:
    """Mean number of changes along a list in random order (theory.md, eq. 48)."""
    k, n = exact(passes), exact(rollouts)
    return 2 * k * (n - k) / n


def changes_variance(passes: Any, rollouts: Any) -> Expr:
    """Variance of the number of changes (theory.md, eq. 48)."""
    k, n = exact(passes), exact(rollouts)
    return 2 * k * (n - k) * (2 * k * (n - k) - n) / (n**2 * (n - 1))


def neighbour_covariance(rewards: Sequence[int]) -> tuple[Expr, Expr]:
    """Covariance of neighbours, and variance of one rollout, from pairs that are none (theory.md, eq. 48)."""
    n = len(rewards)
    unequal = [(j - i, int(rewards[i] != rewards[j])) for i, j in combinations(range(n), 2)]
    near = sp.Rational(sum(x for lag, x in unequal if lag == 1), n - 1)
    far = sp.Rational(2 * sum(x for lag, x in unequal if lag > 1), (n - 1) * (n - 2))
    return (far - near) / 2, far / 2
