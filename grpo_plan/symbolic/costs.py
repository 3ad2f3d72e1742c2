"""Equations of docs/theory.md, section 14: costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


def mixed_share(group_law: Sequence[Any]) -> Expr:
    """Share of the groups that are mixed, from the law of k = 0..G (theory.md, eq. 66)."""
    return sp.Add(*(exact(weight) for weight in group_law[1:-1]))


def mixed_passes(group_law: Sequence[Any]) -> Expr:
    """``E[k; mixed]``: passes in mixed groups, per group generated (theory.md, eq. 66)."""
    return sp.Add(*(k * exact(weight) for k, weight in enumerate(group_law[:-1])))


def group_tokens(group_law: Sequence[Any], pass_tokens: Any, fail_tokens: Any, *, mixed_only: bool = False) -> Expr:
    """Mean response tokens of a group, or of its part that is in mixed groups (theory.md, eq. 66).

    >>> group_tokens([sp.Rational(1, 4), sp.Rational(1, 2), sp.Rational(1, 4)], 400, 900)
    1300
    """
    size = len(group_law) - 1
    kept = [k for k in range(size + 1) if not mixed_only or 0 < k < size]
    right, wrong = exact(pass_tokens), exact(fail_tokens)
    return sp.Add(*(exact(group_law[k]) * (k * right + (size - k) * wrong) for k in kept))


def prompt_cost(generated: Any, trained: Any, mixed: Any, rule: str) -> Expr:
    """Cost that one more prompt adds to a step, by what is trained on (theory.md, eq. 66).

    ``generated`` is the cost of generating a group, ``trained`` of training on one; ``rule`` is ``"all"``, ``"mixed"``
    or ``"refill"``.
    """
    make, use, share = exact(generated), exact(trained), exact(mixed)
    return {"all": make + use, "mixed": make + share * use, "refill": make / share + use}[rule]


def run_cost(steps: Any, prompts: Any, each: Any, overhead: Any = 0) -> Expr:
    """``S (o + N c)``, linear in the prompts per step (theory.md, eq. 67)."""
    return exact(steps) * (exact(overhead) + exact(prompts) * exact(each))


def most_prompts(budget: Any, steps: Any, each: Any, overhead: Any = 0) -> Expr:
    """Most prompts per step that a budget allows (theory.md, eq. 67).

    >>> most_prompts(1000, 10, 8, 20)
    10
    """
    return sp.floor((exact(budget) / exact(steps) - exact(overhead)) / exact(each))


def most_steps(budget: Any, prompts: Any, each: Any, overhead: Any = 0) -> Expr:
    """Most steps that a budget allows (theory.md, eq. 67)."""
    return sp.floor(exact(budget) / run_cost(1, prompts, each, overhead))
