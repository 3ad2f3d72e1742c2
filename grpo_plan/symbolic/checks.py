"""Equations of docs/theory.md, section 20: limits behind the checks of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.refill import not_filled


def tested_limit(share: Any, high: Any, ratio: Any) -> Expr:
    """The upper limit moved in logits by the ratio of two normal quantiles (theory.md, eq. 91).

    >>> tested_limit(sp.Rational(1, 2), sp.Rational(3, 5), 1)
    3/5
    """
    p, h, r = exact(share), exact(high), exact(ratio)
    odds = p / (1 - p) * ((h / (1 - h)) / (p / (1 - p))) ** sp.Max(r, 0)
    return odds / (1 + odds)


def dead_from_spread(group_std: Any, group_size: int) -> tuple[Expr, Expr]:
    """Lower and upper end of D, from population standard deviations (theory.md, eq. 92).

    >>> dead_from_spread(sp.Rational(1, 4), 2)
    (1/2, 1/2)
    """
    s = exact(group_std)
    spread = [sp.sqrt(k * (group_size - k)) / group_size for k in (1, group_size // 2)]
    low, high = (sp.Max(1 - s / one, 0) for one in spread)
    return sp.simplify(low), sp.simplify(high)


def dead_from_batches(batches: Any) -> tuple[Expr, Expr]:
    """Lower and upper end of D (theory.md, eq. 93).

    >>> dead_from_batches(5)
    (3/5, 4/5)
    """
    b = exact(batches)
    return sp.Max(1 - 2 / b, 0), 1 - 1 / b


def cluster_variance(hits: Sequence[Any], totals: Sequence[Any]) -> Expr:
    """Variance of a share over clusters, as a ratio (theory.md, eq. 94)."""
    h, t = [exact(x) for x in hits], [exact(x) for x in totals]
    clusters, units = len(h), sp.Add(*t)
    share = sp.Add(*h) / units
    apart = sp.Add(*((x - share * y) ** 2 for x, y in zip(h, t, strict=True)))
    return sp.Rational(clusters, clusters - 1) * apart / units**2


def effective_units(hits: Sequence[Any], totals: Sequence[Any]) -> Expr:
    """Independent units with the variance of the clusters, at most all (theory.md, eq. 94)."""
    units = sp.Add(*(exact(x) for x in totals))
    share = sp.Add(*(exact(x) for x in hits)) / units
    variance = cluster_variance(hits, totals)
    return units if variance == 0 else sp.Min(units, share * (1 - share) / variance)


def rounds_probability(rounds: int, wanted: int, gen_batch_size: int, dead: Any, cap: int | None = None) -> Expr:
    """Chance that a step takes so many generation batches (theory.md, eq. 95)."""
    mixed = 1 - exact(dead)
    before = not_filled((rounds - 1) * gen_batch_size, wanted, mixed)
    return before if cap == rounds else before - not_filled(rounds * gen_batch_size, wanted, mixed)


def overlap_limits(first: Any, second: Any) -> tuple[Expr, Expr]:
    """Least and most that two shares of the same rollouts have in common (theory.md, eq. 96)."""
    a, b = exact(first), exact(second)
    return sp.Max(0, a + b - 1), sp.Min(a, b)
