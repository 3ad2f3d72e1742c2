"""Equations of docs/theory.md, section 22: advantage estimators at 0/1 rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf
from grpo_plan.symbolic.prompts import mixture_mean

Pair = Callable[[int], tuple[Any, Any]]


def advantage_pair(estimator: str, passes: int, group_size: int, **settings: Any) -> tuple[Expr, Expr]:
    """Advantage of a pass and of a fail at k of G passes; 0 where there is no such rollout (theory.md, eq. 103).

    Settings: ``gamma``, ``k`` (as ``kept``), ``positive_weight``, ``mean_pass_rate``.

    >>> advantage_pair("ngrpo", 0, 3)
    (0, -1/2)
    """
    k, g = sp.Integer(passes), sp.Integer(group_size)
    rewards = [sp.Integer(1)] * passes + [sp.Integer(0)] * (group_size - passes)
    passed, failed = _TABLE[estimator](k, g, rewards, {name: exact(value) for name, value in settings.items()})
    return (sp.Integer(0) if k == 0 else passed), (sp.Integer(0) if k == g else failed)


def _standardised(rewards: Sequence[Any], every: Sequence[Any], less: int) -> tuple[Expr, Expr]:
    """(1 - mean)/std and (0 - mean)/std with mean and std of ``every``, 0 where the std is."""
    mean = sp.Add(*every) / len(every)
    std = sp.sqrt(sp.Add(*((r - mean) ** 2 for r in every)) / (len(every) - less))
    return (sp.Integer(0), sp.Integer(0)) if std == 0 else ((1 - mean) / std, -mean / std)


def _grpo(k: Any, g: Any, rewards: Sequence[Any], _: dict[str, Any]) -> tuple[Expr, Expr]:
    return _standardised(rewards, rewards, 0)


def _centred(k: Any, g: Any, rewards: Sequence[Any], _: dict[str, Any]) -> tuple[Expr, Expr]:
    return (sp.Integer(0), sp.Integer(0)) if k in (0, g) else (1 - k / g, -k / g)


def _focal(k: Any, g: Any, rewards: Sequence[Any], s: dict[str, Any]) -> tuple[Expr, Expr]:
    up, down = _standardised(rewards, rewards, 0)
    weight = (1 - k / g) ** s.get("gamma", sp.Rational(1, 2))
    return weight * up, weight * down


def _passk(k: Any, g: Any, rewards: Sequence[Any], s: dict[str, Any]) -> tuple[Expr, Expr]:
    kept = s.get("kept", sp.Integer(4))
    none = sp.binomial(g - k, kept) / sp.binomial(g, kept)
    std = sp.sqrt(none * (1 - none))
    if std == 0:
        return sp.Integer(0), sp.Integer(0)
    return none / std, (none - sp.binomial(g - k - 1, kept - 1) / sp.binomial(g - 1, kept - 1)) / std


def _batch(k: Any, g: Any, rewards: Sequence[Any], s: dict[str, Any]) -> tuple[Expr, Expr]:
    m = s["mean_pass_rate"]
    std = sp.sqrt(m * (1 - m))
    return (1 - m) / std, -m / std


def _flat(passed: Any, failed: Any) -> Callable[..., tuple[Expr, Expr]]:
    return lambda k, g, rewards, s: (exact(passed), exact(failed))


_TABLE: dict[str, Callable[..., tuple[Expr, Expr]]] = {
    "grpo": _grpo,
    "dapo": _grpo,
    "gdpo": _grpo,
    "grpo_sample": lambda k, g, rewards, s: _standardised(rewards, rewards, 1),
    "grpo_batch": _centred,
    "dr_grpo": _centred,
    "opo": _centred,
    "gpg": _centred,
    "reinforce_plus_plus_baseline": _centred,
    "rloo": lambda k, g, rewards, s: tuple(x * g / (g - 1) for x in _centred(k, g, rewards, s)),
    "maxrl": lambda k, g, rewards, s: tuple(x * g / k if k else x for x in _centred(k, g, rewards, s)),
    "f_grpo": _focal,
    "passk": _passk,
    "reinforce": _flat(1, 0),
    "sign": _flat(1, -1),
    "nsr": _flat(0, -1),
    "w_reinforce": lambda k, g, rewards, s: (s.get("positive_weight", sp.Rational(1, 10)), sp.Integer(-1)),
    "reinforce_plus_plus": _batch,
    "ngrpo": lambda k, g, rewards, s: _standardised(rewards, [*rewards, sp.Integer(1)], 1),
    "grpo_passk": lambda k, g, rewards, s: (sp.sqrt(g) if k == 1 else sp.Integer(0), sp.Integer(0)),
}


def pair_signal(passes: Any, pass_rate: Any, group_size: Any, passed: Any, failed: Any) -> Expr:
    """``t(k, p) = k A+ q / G - (G - k) A- p / G`` of any pair (theory.md, eq. 100)."""
    k, p, g, a, b = (exact(x) for x in (passes, pass_rate, group_size, passed, failed))
    return (k * a * (1 - p) - (g - k) * b * p) / g


def pair_noise(passes: Any, group_size: Any, passed: Any, failed: Any) -> Expr:
    """``v(k) = (k A+**2 + (G - k) A-**2) / G**2`` of any pair (theory.md, eq. 100)."""
    k, g, a, b = (exact(x) for x in (passes, group_size, passed, failed))
    return (k * a**2 + (g - k) * b**2) / g**2


def pair_moments(pair: Pair, pass_rate: Any, group_size: int) -> tuple[Expr, Expr, Expr]:
    """``E[t | p]``, ``E[t**2 | p]`` and ``E[v | p]`` of any pair, by summing over k (theory.md, eq. 100)."""
    p = exact(pass_rate)
    signal, square, noise = [], [], []
    for k in range(group_size + 1):
        chance = binomial_pmf(k, group_size, p)
        t = pair_signal(k, p, group_size, *pair(k))
        signal.append(chance * t)
        square.append(chance * t**2)
        noise.append(chance * pair_noise(k, group_size, *pair(k)))
    return sp.Add(*signal), sp.Add(*square), sp.Add(*noise)


def raised_binomial(passes: Any, group_size: Any) -> tuple[Expr, Expr, Expr]:
    """Factors of the law in groups of G + 2 at k, k + 1 and k + 2 (theory.md, eq. 100).

    The products are q**2, p q and p**2 times the law in groups of G at k.
    """
    k, g = exact(passes), exact(group_size)
    n = (g + 2) * (g + 1)
    return (g + 2 - k) * (g + 1 - k) / n, (k + 1) * (g + 1 - k) / n, (k + 2) * (k + 1) / n


def flat_moments(passed: Any, failed: Any, pass_rate: Any, group_size: Any) -> tuple[Expr, Expr, Expr]:
    """``E[t | p]``, ``E[t**2 | p]`` and ``E[v | p]`` of a pair that does not depend on k (theory.md, eq. 101)."""
    a, b, p, g = (exact(x) for x in (passed, failed, pass_rate, group_size))
    q = 1 - p
    mean = (a - b) * p * q
    return mean, mean**2 + (a**2 * p * q**2 + b**2 * p**2 * q - mean**2) / g, (a**2 * p + b**2 * q) / g


def batch_slope(rates: Sequence[Any], weights: Sequence[Any], group_size: Any, kappa: Any, coherence: Any = 0) -> Expr:
    """Derivative of ``log(E[t]**2 / V)`` in the batch mean that is subtracted, F fixed (theory.md, eq. 102)."""
    m = sp.Symbol("m", positive=True)

    def mean_of(part: int) -> Expr:
        return mixture_mean(lambda p: flat_moments(1 - m, -m, p, group_size)[part], rates, weights)

    signal, square, noise = (mean_of(part) for part in range(3))
    worth = sp.log(signal**2 / (square + exact(kappa) * noise - exact(coherence) * signal**2))
    mean = mixture_mean(lambda p: p, rates, weights)
    return sp.simplify(sp.diff(worth, m).subs(m, mean))


def pull(pair: Pair, pass_rate: Any, group_size: int) -> Expr:
    """``E[A+(j + 1) - A-(j)]`` over j passes of the other G - 1: weight of grad p in the step (theory.md, eq. 104)."""
    p, g = exact(pass_rate), group_size
    return sp.Add(*(binomial_pmf(j, g - 1, p) * (pair(j + 1)[0] - pair(j)[1]) for j in range(g)))


def sign_lead(mean_pq: Any, mean_pq_squared: Any, kappa: Any, group_size: Any) -> Expr:
    """``4 G E[pq]**2 (1/W_rloo - 1/W_sign)``: above 0 where sign makes more progress (theory.md, eq. 104)."""
    m, s, kap, g = (exact(x) for x in (mean_pq, mean_pq_squared, kappa, group_size))
    return 3 * m - 4 * s * (3 * g - 5) / (g - 1) - kap * (1 - 4 * m * g / (g - 1))


def sign_threshold_kappa(mean_pq: Any, mean_pq_squared: Any, group_size: Any) -> Expr:
    """Kappa below which sign makes more progress than rloo; infinite if it always does (theory.md, eq. 104).

    >>> sign_threshold_kappa(sp.Rational(1, 4), sp.Rational(1, 16), 8)
    oo
    """
    m, g = exact(mean_pq), exact(group_size)
    price = 1 - 4 * m * g / (g - 1)
    return sp.oo if price <= 0 else sign_lead(m, mean_pq_squared, 0, g) / price
