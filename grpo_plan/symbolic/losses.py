"""Equations of docs/theory.md, section 23: losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


def loss_weights(lengths: Sequence[Any], per: str = "token", over: str = "tokens", constant: Any = 1) -> list[Expr]:
    """Weight of a token of each response in the loss of a batch; no length is 0 (theory.md, eq. 110).

    Args:
        lengths: Loss tokens of each response.
        per: ``"token"`` or ``"response"``.
        over: ``"tokens"``, ``"responses"`` or ``"nothing"``.
        constant: A length that divides too.

    >>> loss_weights([2, 8], "response", "responses"), loss_weights([2, 8])
    ([1/4, 1/16], [1/10, 1/10])
    """
    values = [exact(length) for length in lengths]
    count = {"tokens": sp.Add(*values), "responses": sp.Integer(len(values)), "nothing": sp.Integer(1)}[over]
    return [1 / ((length if per == "response" else 1) * count * exact(constant)) for length in values]


def net_push(advantages: Sequence[Any], lengths: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """Sum of advantages times lengths times weights (theory.md, eq. 111).

    >>> net_push([1, -1], [2, 8], loss_weights([2, 8]))
    -3/5
    >>> net_push([1, -1], [2, 8], loss_weights([2, 8], "response", "responses"))
    0
    """
    parts = zip(advantages, lengths, weights, strict=True)
    return sp.Add(*(exact(a) * exact(length) * exact(w) for a, length, w in parts))


def split_loss_weights(
    micro_batches: Sequence[Sequence[Any]], per: str = "token", over: str = "tokens", constant: Any = 1
) -> list[list[Expr]]:
    """Weights where each micro-batch counts for itself and their results are averaged (theory.md, eq. 112).

    >>> split_loss_weights([[2], [8]])
    [[1/4], [1/16]]
    """
    return [[w / len(micro_batches) for w in loss_weights(own, per, over, constant)] for own in micro_batches]


def misplaced_weight(real: Sequence[Any], intended: Sequence[Any]) -> Expr:
    """Half the sum of the differences between two laws of weight over responses (theory.md, eq. 113).

    >>> misplaced_weight([sp.Rational(1, 2)] * 2, [sp.Rational(1, 5), sp.Rational(4, 5)])
    3/10
    """
    real, intended = ([exact(v) for v in values] for values in (real, intended))
    total, wanted = sp.Add(*real), sp.Add(*intended)
    return sp.Add(*(sp.Abs(a / total - b / wanted) for a, b in zip(real, intended, strict=True))) / 2


def expected_misplaced(variation: Any, micro_batch: Any, responses: Any) -> Expr:
    """Normal approximation to the mean misplaced weight of a mean of token means (theory.md, eq. 113)."""
    b, n = exact(micro_batch), exact(responses)
    return exact(variation) * sp.sqrt((1 - b / n) / (2 * sp.pi * b))


def weight_share(part: Sequence[Any], whole: Sequence[Any]) -> Expr:
    """A share of weight as a ratio of sums over prompts (theory.md, eq. 114)."""
    return sp.Add(*map(exact, part)) / sp.Add(*map(exact, whole))


def equivalent_rollouts(share: Any, variance: Any) -> Expr:
    """Independent rollouts whose share would vary as much (theory.md, eq. 114)."""
    return exact(share) * (1 - exact(share)) / exact(variance)


def gradient_share(weights: Sequence[Any], advantages: Sequence[Any], chosen: Sequence[bool]) -> Expr:
    """Share of the weight times the size of the advantage on chosen responses (theory.md, eq. 115).

    >>> gradient_share([2, 8, 5], [1, -1, 0], [False, True, True])
    4/5
    """
    sizes = [exact(w) * sp.Abs(exact(a)) for w, a in zip(weights, advantages, strict=True)]
    return sp.Add(*(s for s, c in zip(sizes, chosen, strict=True) if c)) / sp.Add(*sizes)


def stop_score(chance: Any, length: Any) -> Expr:
    """Score of the log-odds of stopping after a response of a length, at a constant chance (theory.md, eq. 116).

    >>> h, length = sp.symbols("h l")
    >>> stop_score(h, length)
    -h*l + 1
    """
    return 1 - exact(chance) * exact(length)


def length_pull(advantages: Sequence[Any], lengths: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """Pull on length, with weights of tokens scaled so that those of all tokens sum to 1 (theory.md, eq. 116).

    >>> length_pull([1, -1], [2, 8], loss_weights([2, 8]))
    -3/5
    >>> length_pull([1, -1], [2, 8], loss_weights([2, 8], "response"))
    -15/16
    """
    a, tokens, w = ([exact(v) for v in values] for values in (advantages, lengths, weights))
    total = sp.Add(*(length * weight for length, weight in zip(tokens, w, strict=True)))
    mean = sp.Add(*tokens) / len(tokens)
    parts = zip(a, tokens, w, strict=True)
    return sp.Add(*(ai * wi * (length - mean) for ai, length, wi in parts)) / total
