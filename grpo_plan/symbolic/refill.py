"""Equations of docs/theory.md, section 10: refill and adaptive stopping."""

from __future__ import annotations

from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf


def prompts_until_filled_pmf(prompts: int, wanted: int, mixed: Any) -> Expr:
    """Chance that the N-th mixed group is that of prompt t (theory.md, eq. 52)."""
    m = exact(mixed)
    if prompts < wanted:
        return sp.Integer(0)
    return sp.binomial(prompts - 1, wanted - 1) * m**wanted * (1 - m) ** (prompts - wanted)


def not_filled(prompts: int, wanted: int, mixed: Any) -> Expr:
    """Chance that fewer than N of t groups are mixed: that t prompts do not suffice (theory.md, eq. 52)."""
    return sp.Add(*(binomial_pmf(k, prompts, exact(mixed)) for k in range(min(wanted, prompts + 1))))


def prompts_until_filled_mean(wanted: Any, mixed: Any) -> Expr:
    """``N / m`` (theory.md, eq. 52)."""
    return exact(wanted) / exact(mixed)


def prompts_until_filled_variance(wanted: Any, mixed: Any) -> Expr:
    """``N (1 - m) / m**2`` (theory.md, eq. 52)."""
    m = exact(mixed)
    return exact(wanted) * (1 - m) / m**2


def prompts_generating_function(wanted: int, mixed: Any, argument: Any) -> Expr:
    """``E z**T`` (theory.md, eq. 52)."""
    m, z = exact(mixed), exact(argument)
    return (m * z / (1 - (1 - m) * z)) ** wanted


def rounds_mean(wanted: int, mixed: Any, gen_batch_size: int) -> Expr:
    """Mean rounds of B prompts, as a finite Fourier sum over the B-th roots of unity (theory.md, eq. 53)."""
    b = gen_batch_size
    total = exact(wanted) / exact(mixed) / b + sp.Rational(b - 1, 2 * b)
    for j in range(1, b):
        root = sp.exp(2 * sp.pi * sp.I * sp.Rational(j, b))
        total += prompts_generating_function(wanted, mixed, root) / (b * (root - 1))
    return total


def rounds_second_moment(wanted: int, mixed: Any, gen_batch_size: int) -> Expr:
    """Mean square of the rounds, as a finite Fourier sum (theory.md, eq. 53)."""
    b, n, m = gen_batch_size, exact(wanted), exact(mixed)
    mean, square = n / m, n * (1 - m) / m**2 + (n / m) ** 2
    total = square / b**2 + 2 * mean / b * sp.Rational(b - 1, 2 * b) + sp.Rational((b - 1) * (2 * b - 1), 6 * b * b)
    for j in range(1, b):
        root = sp.exp(2 * sp.pi * sp.I * sp.Rational(j, b))
        wave = prompts_generating_function(wanted, mixed, root)
        first = 1 / (b * (root - 1))
        total += 2 * first * wave * n / (1 - (1 - m) * root) / b
        total += wave * (first - 2 * root / (b * b * (root - 1) ** 2))
    return total


def surplus_mixed(wanted: Any, mixed: Any, gen_batch_size: Any, rounds: Any) -> Expr:
    """Mixed groups rolled out beyond N, from the mean number of rounds (theory.md, eq. 53)."""
    return exact(mixed) * exact(gen_batch_size) * exact(rounds) - exact(wanted)


def capped_rounds_mean(wanted: int, mixed: Any, gen_batch_size: int, cap: int) -> Expr:
    """Mean rounds of a step that gives up after R of them (theory.md, eq. 139)."""
    return sp.Add(*(not_filled(r * gen_batch_size, wanted, mixed) for r in range(cap)))


def capped_rounds_square(wanted: int, mixed: Any, gen_batch_size: int, cap: int) -> Expr:
    """Mean square of them (theory.md, eq. 139)."""
    return sp.Add(*((2 * r + 1) * not_filled(r * gen_batch_size, wanted, mixed) for r in range(cap)))


def capped_mixed(wanted: int, mixed: Any, prompts: int) -> Expr:
    """Mean of the lesser of N and the mixed groups among so many prompts (theory.md, eq. 139)."""
    m = exact(mixed)
    below = not_filled(prompts - 1, wanted - 1, m) if wanted > 1 and prompts > 0 else sp.Integer(0)
    return wanted * (1 - not_filled(prompts, wanted, m)) + prompts * m * below


def finite_prompts_pmf(prompts: int, data_prompts: int, mixed_prompts: int, wanted: int) -> Expr:
    """Chance that the N-th of K mixed prompts among P is drawn t-th, without replacement (theory.md, eq. 54)."""
    t, p, k, n = prompts, data_prompts, mixed_prompts, wanted
    if not n <= t <= p - k + n:
        return sp.Integer(0)
    return sp.binomial(t - 1, n - 1) * sp.binomial(p - t, k - n) / sp.binomial(p, k)


def finite_prompts_mean(data_prompts: Any, mixed_prompts: Any, wanted: Any) -> Expr:
    """``N (P + 1) / (K + 1)`` (theory.md, eq. 54)."""
    return exact(wanted) * (exact(data_prompts) + 1) / (exact(mixed_prompts) + 1)


def finite_prompts_variance(data_prompts: Any, mixed_prompts: Any, wanted: Any) -> Expr:
    """Variance of the negative hypergeometric law (theory.md, eq. 54)."""
    p, k, n = exact(data_prompts), exact(mixed_prompts), exact(wanted)
    return n * (p - k) * (p + 1) * (k - n + 1) / ((k + 1) ** 2 * (k + 2))


def finite_surplus(prompts: int, drawn: int, data_prompts: int, mixed_prompts: int, wanted: int) -> Expr:
    """Mean mixed groups among the prompts drawn after the t-th, that filled the step (theory.md, eq. 54)."""
    if drawn == prompts:
        return sp.Integer(0)
    return sp.Rational((drawn - prompts) * (mixed_prompts - wanted), data_prompts - prompts)


def rule_unmet(pass_rate: Any, rollouts: int, passes: int, fails: int) -> Expr:
    """Chance of fewer than a passes or fewer than b fails in t rollouts (theory.md, eq. 55)."""
    p = exact(pass_rate)
    ks = [k for k in range(rollouts + 1) if k < passes or rollouts - k < fails]
    return sp.Add(*(sp.binomial(rollouts, k) * p**k * (1 - p) ** (rollouts - k) for k in ks))


def adaptive_cost(pass_rate: Any, round_size: int, max_group_size: int, passes: int, fails: int) -> Expr:
    """Mean rollouts of a prompt until the rule is met, in rounds, at most G (theory.md, eq. 55)."""
    rounds = range(round_size, max_group_size, round_size)
    return round_size * (1 + sp.Add(*(rule_unmet(pass_rate, t, passes, fails) for t in rounds)))


def rollouts_per_kept(cost: Any, unmet: Any) -> Expr:
    """Rollouts spent for one prompt that is kept (theory.md, eq. 55)."""
    return exact(cost) / (1 - exact(unmet))
