"""Equations of docs/theory.md, section 25: simulated learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.estimation import poisson_binomial_pmf
from grpo_plan.symbolic.groups import binomial_pmf

Numbers = Sequence[Any]


def simulated_logit(
    start: Any, share: Any, direction: Numbers, shared: Numbers, private: Any, damage: Any = 0, nuisance: Numbers = ()
) -> Expr:
    """Logit of a prompt from its start and the parameters (theory.md, eq. 123).

    >>> simulated_logit(1, sp.Rational(1, 4), [1, 0], [2, 5], 0)
    2
    """
    s = exact(share)
    inner = sp.Add(*(exact(x) * exact(w) for x, w in zip(direction, shared, strict=True)))
    drift = sp.Add(*(exact(v) ** 2 for v in nuisance))
    return exact(start) + sp.sqrt(s) * inner + sp.sqrt(1 - s) * exact(private) - exact(damage) * drift / 2


def simulated_signal(kept: Any, rewarded: Any, passes: Any, group_size: Any, plus: Any, minus: Any, p: Any) -> Expr:
    """Estimate of a group along the gradient of its logit (theory.md, eq. 124).

    >>> simulated_signal(1, 1, 1, 4, 1, -sp.Rational(1, 3), sp.Rational(1, 5))
    1/4
    """
    c, r, k, g, rate = (exact(v) for v in (kept, rewarded, passes, group_size, p))
    return (exact(plus) * (c - r * rate) + exact(minus) * (k - c - (g - r) * rate)) / g


def simulated_noise(rewarded: Any, group_size: Any, plus: Any, minus: Any) -> Expr:
    """Weight of the score noise in the estimate of a group (theory.md, eq. 124)."""
    r, g = exact(rewarded), exact(group_size)
    return (r * exact(plus) ** 2 + (g - r) * exact(minus) ** 2) / g**2


def finite_step_moments(
    signals: Numbers, squares: Numbers, noises: Numbers, gram: Sequence[Numbers], kappa: Any, prompts_per_step: Any
) -> tuple[Expr, Expr]:
    """Squared length of the expected step, and variance of a step, over M prompts (theory.md, eq. 125).

    >>> finite_step_moments([1, 1], [2, 2], [1, 1], [[1, 0], [0, 1]], 3, 1)
    (1/2, 9/2)
    """
    m = sp.Integer(len(signals))
    t = [exact(v) for v in signals]
    square = sp.Add(*(t[i] * t[j] * exact(gram[i][j]) for i in range(m) for j in range(m))) / m**2
    own = sp.Add(
        *(exact(a) * exact(gram[i][i]) + exact(kappa) * exact(b) for i, (a, b) in enumerate(_pairs(squares, noises)))
    )
    return square, (own / m - square) / exact(prompts_per_step)


def _pairs(a: Numbers, b: Numbers) -> list[tuple[Any, Any]]:
    return list(zip(a, b, strict=True))


def expected_contrast(plus: Numbers, minus: Numbers, p: Any) -> Expr:
    """``E[A+(K + 1) - A-(K)]`` with K passes among G - 1 rollouts: what grad p is multiplied by (theory.md, eq. 126).

    >>> expected_contrast([1, 1, 1], [-1, -1, -1], sp.Rational(1, 3))
    2
    """
    g = len(plus) - 1
    return sp.Add(*(binomial_pmf(k, g - 1, p) * (exact(plus[k + 1]) - exact(minus[k])) for k in range(g)))


def bernoulli_divergence(rate: Any, start: Any) -> Expr:
    """``KL(Bernoulli(p) || Bernoulli(p0))`` (theory.md, eq. 127)."""
    p, p0 = exact(rate), exact(start)
    return p * sp.log(p / p0) + (1 - p) * sp.log((1 - p) / (1 - p0))


def normed_adam(gradients: Sequence[Numbers], rate: Any, first: Any, second: Any) -> list[Expr]:
    """Last step of Adam with one second moment, after these gradients (theory.md, eq. 127).

    >>> normed_adam([[3, 4]], 1, sp.Rational(9, 10), sp.Rational(999, 1000))
    [3/5, 4/5]
    """
    a, b = exact(first), exact(second)
    moment: list[Expr] = [sp.Integer(0)] * len(gradients[0])
    square: Expr = sp.Integer(0)
    for g in gradients:
        moment = [a * m + (1 - a) * exact(x) for m, x in zip(moment, g, strict=True)]
        square = b * square + (1 - b) * sp.Add(*(exact(x) ** 2 for x in g))
    count = len(gradients)
    root = sp.sqrt(square / (1 - b**count))
    return [exact(rate) * m / (1 - a**count) / root for m in moment]


def turned_share(starts: Numbers, rates: Numbers, group_size: int) -> Expr:
    """Chance that a group is all-fail at the start and one of now all-pass (theory.md, eq. 128).

    >>> turned_share([0, 1], [1, 1], 4)
    1/2
    """
    pairs = _pairs(starts, rates)
    return sp.Add(*((1 - exact(a)) ** group_size * exact(b) ** group_size for a, b in pairs)) / len(pairs)


def shuffled_contrast(plus: Numbers, minus: Numbers, rates: Numbers, row: int = 0) -> Expr:
    """What grad p of one prompt is multiplied by when rewards are shuffled over the batch (theory.md, eq. 129).

    >>> shuffled_contrast([1, 1, 1], [-1, -1, -1], [sp.Rational(1, 2), sp.Rational(1, 3)])
    1/2
    """
    g = len(plus) - 1
    outcomes = [exact(p) for p in rates for _ in range(g)]
    del outcomes[row * g]
    total = len(outcomes) + 1

    def mean_advantage(ones: int) -> Expr:
        ways = sp.binomial(total, g)
        return sp.Add(
            *(
                sp.binomial(ones, r)
                * sp.binomial(total - ones, g - r)
                / ways
                * (r * exact(plus[r]) + (g - r) * exact(minus[r]))
                / g
                for r in range(g + 1)
            )
        )

    others = poisson_binomial_pmf(outcomes)
    steps = (others[k] * (mean_advantage(k + 1) - mean_advantage(k)) for k in range(total))
    return sp.Add(*steps)


def seed_limits(values: Numbers, quantile: Any) -> tuple[Expr, Expr]:
    """Limits of a mean over seeds (theory.md, eq. 130).

    >>> seed_limits([1, 2, 3], sp.sqrt(3))
    (1, 3)
    """
    x = [exact(v) for v in values]
    n = len(x)
    mean = sp.Add(*x) / n
    error = sp.sqrt(sp.Add(*((v - mean) ** 2 for v in x)) / (n - 1) / n)
    return mean - exact(quantile) * error, mean + exact(quantile) * error
