"""Equations of docs/theory.md, section 26: pass@k of a population, two policies, and the tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.estimation import pass_at_estimate

Cell = tuple[Any, Any]  # passes, rollouts
Pair = tuple[Any, Any]  # pass rates before and after


def _fails(cell: Cell, k: int) -> Expr:
    """Share of the subgroups of k of one prompt's rollouts that all fail."""
    return 1 - pass_at_estimate(cell[0], cell[1], k)


def population_pass_at(cells: Sequence[Cell], prompts: Sequence[Any], k: int) -> Expr:
    """Counted pass@k of a population from (passes, rollouts) cells (theory.md, eq. 131).

    >>> population_pass_at([(3, 10)], [1], 5)
    11/12
    """
    weights = [exact(m) for m in prompts]
    total = sp.Add(*(w * (1 - _fails(cell, k)) for cell, w in zip(cells, weights, strict=True)))
    return total / sp.Add(*weights)


def pass_difference(rates: Sequence[Pair], weights: Sequence[Any], k: Any) -> Expr:
    """pass@k after less before, of prompts with pass rates (p, p') (theory.md, eq. 132)."""
    size = exact(k)
    rows = zip(rates, weights, strict=True)
    return sp.Add(*(exact(w) * ((1 - exact(p)) ** size - (1 - exact(after)) ** size) for (p, after), w in rows))


def meeting_k(k: Any, value: Any, next_k: Any, next_value: Any) -> Expr:
    """K at which a line in log k is 0 (theory.md, eq. 133).

    >>> meeting_k(2, 1, 8, -1)
    4
    """
    start, end, first, last = (exact(v) for v in (k, next_k, value, next_value))
    return start * (end / start) ** (first / (first - last))


def wrong_verdict_bound(level: Any, ends: int) -> Expr:
    """Largest chance that a crossing is said where there is none, with ``ends`` k beside 1 (theory.md, eq. 134).

    >>> wrong_verdict_bound(sp.Rational(19, 20), 2)
    3/40
    """
    return (1 + ends) * (1 - exact(level)) / 2


def turnover(rates: Pair, k: Any) -> tuple[Expr, Expr, Expr]:
    """Gained, lost and by chance for a prompt with pass rates p before, p' after (theory.md, eq. 135)."""
    x, y = ((1 - exact(p)) ** exact(k) for p in rates)
    return x * (1 - y), (1 - x) * y, (x * (1 - x) + y * (1 - y)) / 2


def turnover_kernel(before: Cell, after: Cell, k: int) -> tuple[Expr, Expr, Expr]:
    """Their unbiased values from (passes, rollouts) before and after (theory.md, eq. 135).

    >>> turnover_kernel((0, 8), (1, 8), 4)
    (1/2, 0, 1/4)
    """
    x, y, twice, twice_after = _fails(before, k), _fails(after, k), _fails(before, 2 * k), _fails(after, 2 * k)
    return x * (1 - y), (1 - x) * y, (x - twice + y - twice_after) / 2


def local_exponent(unsolved: Any, unsolved_at_twice: Any) -> Expr:
    """Mean exponent of the unsolved share between k and 2k (theory.md, eq. 136).

    >>> local_exponent(1, sp.Rational(1, 4))
    2
    """
    return sp.simplify(sp.log(exact(unsolved) / exact(unsolved_at_twice), 2))


def beta_unsolved(a: Any, b: Any, k: Any, never: Any = 0) -> Expr:
    """``1 - pass@k`` of a Beta with an atom at 0 (theory.md, eq. 137 and 138)."""
    first, second, size, share = exact(a), exact(b), exact(k), exact(never)
    rest = sp.gamma(first + second) * sp.gamma(second + size) / (sp.gamma(second) * sp.gamma(first + second + size))
    return share + (1 - share) * rest


def tail_factor(exponent: Any) -> Expr:
    """Factor on k that halves ``k**-b`` (theory.md, eq. 137).

    >>> tail_factor(sp.Rational(1, 2))
    4
    """
    return 2 ** (1 / exact(exponent))


def atom_pmf(passes: Any, rollouts: Any, a: Any, b: Any, never: Any) -> Expr:
    """Law of the passes under a Beta with an atom at 0 (theory.md, eq. 138)."""
    k, n, first, second, share = (exact(v) for v in (passes, rollouts, a, b, never))
    chance = sp.binomial(n, k) * sp.beta(k + first, n - k + second) / sp.beta(first, second)
    return (1 - share) * chance + (share if k == 0 else 0)
