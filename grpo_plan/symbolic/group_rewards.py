"""Equations of docs/theory.md, section 22: advantages of any rewards, by their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact

Values = Sequence[Any]


def _exact(values: Values) -> list[Expr]:
    return [exact(v) for v in values]


def _mean(values: Values) -> Expr:
    return sp.Add(*values) / len(values)


def spread(values: Values, less: int = 0) -> Expr:
    """Standard deviation, divided by the number of values less ``less`` (theory.md, eq. 105).

    >>> spread([1, 0, 0, 0]), spread([1, 0, 0, 0], 1)
    (sqrt(3)/4, 1/2)
    """
    x = _exact(values)
    mean = _mean(x)
    return sp.sqrt(sp.Add(*((v - mean) ** 2 for v in x)) / (len(x) - less))


def centred_rewards(rewards: Values, *, leave_one_out: bool = False) -> list[Expr]:
    """Reward minus the mean of the group, or of the other rollouts (theory.md, eq. 105 and 106).

    >>> centred_rewards([1, 0, 0, 0], leave_one_out=True)
    [1, -1/3, -1/3, -1/3]
    """
    r = _exact(rewards)
    if not leave_one_out:
        return [v - _mean(r) for v in r]
    return [v - _mean(r[:i] + r[i + 1 :]) for i, v in enumerate(r)]


def standardised_rewards(rewards: Values, less: int = 0, eps: Any = 0) -> list[Expr]:
    """Reward minus group mean, over the standard deviation plus eps; 0 where that is 0 (theory.md, eq. 105).

    >>> standardised_rewards([1, 0, 0, 0]), standardised_rewards([1, 0, 0, 0], 1)
    ([sqrt(3), -sqrt(3)/3, -sqrt(3)/3, -sqrt(3)/3], [3/2, -1/2, -1/2, -1/2])
    """
    divisor = spread(rewards, less) + exact(eps)
    return [sp.Integer(0) if divisor == 0 else v / divisor for v in centred_rewards(rewards)]


def gap_weight(gap: Any, group_size: Any, eps: Any, less: int = 0) -> Expr:
    """Weight of a gap of one rollout to equal others, ``s / (s + eps)`` (theory.md, eq. 107).

    >>> gap_weight(sp.Rational(1, 100), 4, sp.Rational(1, 10000), 1)
    50/51
    """
    g = exact(group_size)
    s = exact(gap) * sp.sqrt((g - 1) / (g * (g - less)))
    return s / (s + exact(eps))


def focal_rewards(rewards: Values, gamma: Any) -> list[Expr]:
    """Standardised rewards times ``(1 - mean)**gamma`` (theory.md, eq. 108).

    >>> focal_rewards([1, 0, 0, 0], 1)[0]
    3*sqrt(3)/4
    """
    weight = (1 - _mean(_exact(rewards))) ** exact(gamma)
    return [weight * v for v in standardised_rewards(rewards)]


def virtual_best_rewards(rewards: Values, best: Any = 1, less: int = 1) -> list[Expr]:
    """Standardised in the group with one more reward, the best there is, which is then left out (theory.md, eq. 108).

    >>> virtual_best_rewards([0, 0, 0])
    [-1/2, -1/2, -1/2]
    """
    return standardised_rewards([*rewards, best], less)[:-1]


def best_of_rewards(rewards: Values, kept: int) -> list[Expr]:
    """Mean standardised best reward of the choices of k that hold a rollout, each choice counted (theory.md, eq. 108).

    >>> best_of_rewards([1, 0, 0], 2)
    [sqrt(2)/2, -sqrt(2)/4, -sqrt(2)/4]
    """
    r = _exact(rewards)
    choices = list(combinations(range(len(r)), kept))
    best = [max(r[i] for i in choice) for choice in choices]
    scaled = standardised_rewards(best)
    return [_mean([s for s, choice in zip(scaled, choices, strict=True) if i in choice]) for i in range(len(r))]


def decoupled_rewards(functions: Sequence[Sequence[Values]], weights: Values) -> list[list[Expr]]:
    """Each function standardised in its group, their weighted sum over the batch (theory.md, eq. 109).

    Args:
        functions: Rewards by function, group and rollout.
        weights: One a function.

    >>> decoupled_rewards([[[1, 0]], [[0, 4]]], [2, 1])
    [[1, -1]]
    """
    w = _exact(weights)
    groups = range(len(functions[0]))
    parts = [[standardised_rewards(f[g]) for g in groups] for f in functions]
    sums = [[sp.Add(*(w[f] * parts[f][g][i] for f in range(len(w)))) for i in range(len(parts[0][g]))] for g in groups]
    flat = iter(standardised_rewards([v for group in sums for v in group]))
    return [[sp.nsimplify(next(flat)) for _ in group] for group in sums]
