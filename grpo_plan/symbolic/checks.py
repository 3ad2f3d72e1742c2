"""Checks of a run of docs/theory.md, section 20."""

from __future__ import annotations

from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


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
