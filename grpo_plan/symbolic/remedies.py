"""Equations of docs/theory.md, section 21: remedies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import dead


def dead_rollouts(shares: Sequence[Any], groups: Sequence[Any], group_size: Any, expected: Any = 0) -> Expr:
    """Rollouts in dead groups beyond an expected share, before the cut at 0 (theory.md, eq. 97).

    >>> dead_rollouts([sp.Rational(1, 2), sp.Rational(1, 4)], [8, 8], 4)
    24
    """
    parts = (exact(n) * (exact(d) - exact(expected)) for d, n in zip(shares, groups, strict=True))
    return exact(group_size) * sp.Add(*parts)


def dead_gpu_hours(
    shares: Sequence[Any], steps: Sequence[Any], seconds: Sequence[Any], gpus: Any, expected: Any = 0
) -> Expr:
    """GPU-hours of dead groups, before the cut at 0 (theory.md, eq. 97)."""
    parts = (exact(s) * exact(t) * (exact(d) - exact(expected)) for d, s, t in zip(shares, steps, seconds, strict=True))
    return exact(gpus) * sp.Add(*parts) / 3600


def mixed_at_equal_rollouts(rollouts: Any, group_size: Any, dead_share: Any) -> Expr:
    """Mixed groups among a number of rollouts (theory.md, eq. 98)."""
    return exact(rollouts) / exact(group_size) * (1 - exact(dead_share))


def swapped_dead(dead_share: Any, share: Any, group_size: int, pass_rate: Any = None) -> Expr:
    """Dead fraction after a share of the prompts gave way to prompts of one pass rate, default 1/2 (theory.md, eq. 98).

    >>> swapped_dead(sp.Rational(4, 5), sp.Rational(1, 2), 2)
    13/20
    """
    p = sp.Rational(1, 2) if pass_rate is None else exact(pass_rate)
    return (1 - exact(share)) * exact(dead_share) + exact(share) * dead(p, group_size)


def dead_without(dead_share: Any, part: Any) -> Expr:
    """Dead fraction without the prompts of a part of the dead groups (theory.md, eq. 98)."""
    return (exact(dead_share) - exact(part)) / (1 - exact(part))


def dead_if_told_apart(dead_share: Any, part: Any, agreeing: Any) -> Expr:
    """Dead fraction when a second reward tells rollouts of a part apart (theory.md, eq. 99)."""
    return exact(dead_share) - exact(part) * (1 - exact(agreeing))


def agreeing_levels(levels: Any, group_size: Any) -> Expr:
    """Chance that all rollouts share one of equally likely levels (theory.md, eq. 99).

    >>> agreeing_levels(3, 4)
    1/27
    """
    return exact(levels) * exact(levels) ** (-exact(group_size))
