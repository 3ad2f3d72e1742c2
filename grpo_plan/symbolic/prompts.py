"""Equations of docs/theory.md, section 2: prompts differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import dead, mixed


def mixture_mean(of_rate: Callable[[Any], Any], rates: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """Mean over an F of finitely many pass rates (theory.md, eq. 9)."""
    return sp.Add(*(exact(w) * of_rate(exact(p)) for p, w in zip(rates, weights, strict=True)))


def dead_fraction(rates: Sequence[Any], weights: Sequence[Any], group_size: Any) -> Expr:
    """D(G) for an F of finitely many pass rates (theory.md, eq. 9)."""
    return mixture_mean(lambda p: dead(p, group_size), rates, weights)


def dead_curvature(pass_rate: Any, group_size: Any) -> Expr:
    """Second derivative in p of the chance of being dead: a sum of non-negative terms (theory.md, eq. 10)."""
    p, g = exact(pass_rate), exact(group_size)
    return g * (g - 1) * (p ** (g - 2) + (1 - p) ** (g - 2))


def jensen_gap(rates: Sequence[Any], weights: Sequence[Any], group_size: Any) -> Expr:
    """D(G) minus the i.i.d. value at the mean pass rate (theory.md, eq. 10)."""
    mean_rate = mixture_mean(lambda p: p, rates, weights)
    return dead_fraction(rates, weights, group_size) - dead(mean_rate, group_size)


def mixed_increment(pass_rate: Any, group_size: Any) -> Expr:
    """``m_G - m_(G-1) = pq (p**(G-2) + q**(G-2))``, what one more rollout adds (theory.md, eq. 11)."""
    p, g = exact(pass_rate), exact(group_size)
    return p * (1 - p) * (p ** (g - 2) + (1 - p) ** (g - 2))


def mixed_per_rollout(pass_rate: Any, group_size: Any) -> Expr:
    """Mixed groups per rollout, m_G / G (theory.md, eq. 11)."""
    return mixed(pass_rate, group_size) / exact(group_size)


def beta_power_mean(a: Any, b: Any, group_size: Any) -> Expr:
    """E[p**G] for p ~ Beta(a, b) as B(a + G, b) / B(a, b), in gamma functions (theory.md, eq. 12)."""
    a, b, g = exact(a), exact(b), exact(group_size)
    return sp.gamma(a + g) * sp.gamma(a + b) / (sp.gamma(a + b + g) * sp.gamma(a))


def beta_power_mean_product(a: Any, b: Any, group_size: int) -> Expr:
    """The same mean as a ratio of rising factorials, term by term (theory.md, eq. 12).

    >>> beta_power_mean_product(1, 1, 4)
    1/5
    """
    a, b = exact(a), exact(b)
    return sp.Mul(*((a + j) / (a + b + j) for j in range(group_size)))


def beta_dead_fraction(a: Any, b: Any, group_size: int) -> Expr:
    """D(G) for p ~ Beta(a, b) (theory.md, eq. 12)."""
    return beta_power_mean_product(a, b, group_size) + beta_power_mean_product(b, a, group_size)


def beta_mean_correlation(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Mean mu and correlation rho of two rollouts of one prompt, for Beta(a, b) (theory.md, eq. 12)."""
    a, b = exact(a), exact(b)
    return a / (a + b), 1 / (a + b + 1)


def beta_power_mean_correlation(mean: Any, correlation: Any, group_size: int) -> Expr:
    """E[p**G] in (mu, rho), valid on the closed square (theory.md, eq. 12)."""
    mu, rho = exact(mean), exact(correlation)
    factors = ((mu * (1 - rho) + j * rho) / (1 - rho + j * rho) for j in range(1, group_size))
    return sp.Mul(mu, *factors)


def beta_binomial_pmf(passes: int, group_size: int, a: Any, b: Any) -> Expr:
    """Chance of k passes in a group of G when p ~ Beta(a, b) (theory.md, eq. 13)."""
    a, b = exact(a), exact(b)
    k, g = passes, group_size
    return sp.binomial(g, k) * sp.rf(a, k) * sp.rf(b, g - k) / sp.rf(a + b, g)


def beta_binomial_pmf_correlation(passes: int, group_size: int, mean: Any, correlation: Any) -> Expr:
    """The same law in (mu, rho), valid on the closed square (theory.md, eq. 13)."""
    mu, rho = exact(mean), exact(correlation)
    k, g = passes, group_size
    rising = _rising(mu, rho, k) * _rising(1 - mu, rho, g - k) / _rising_total(rho, g)
    return sp.binomial(g, k) * rising * ((1 - rho) if 0 < k < g else 1)


def _rising(share: Expr, rho: Expr, count: int) -> Expr:
    """``share * prod_{0 < j < count} (share (1 - rho) + j rho)``: the j = 0 factor without its (1 - rho)."""
    if count == 0:
        return sp.Integer(1)
    return sp.Mul(share, *(share * (1 - rho) + j * rho for j in range(1, count)))


def _rising_total(rho: Expr, count: int) -> Expr:
    """``prod_{0 < j < count} (1 - rho + j rho)``: the j = 0 factor, 1 - rho, cancels against `_rising`."""
    return sp.Mul(*(1 - rho + j * rho for j in range(1, count)))


def beta_dead_tail(a: Any, b: Any, group_size: Any) -> Expr:
    """Leading term of D(G) for large G when p ~ Beta(a, b) (theory.md, eq. 14)."""
    a, b, g = exact(a), exact(b), exact(group_size)
    return sp.gamma(a + b) * (g ** (-a) / sp.gamma(b) + g ** (-b) / sp.gamma(a))


def halving_factor(a: Any, b: Any) -> Expr:
    """Factor on G that halves D in the tail (theory.md, eq. 14).

    >>> halving_factor(1, sp.Rational(1, 2))
    4
    """
    return 2 ** (1 / sp.Min(exact(a), exact(b)))
