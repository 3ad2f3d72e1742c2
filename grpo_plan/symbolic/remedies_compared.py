"""Equations of docs/theory.md, section 24: remedies compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import all_fail, all_pass, binomial_pmf, dead


def live_share(passed: Sequence[Any], failed: Sequence[Any], pass_rate: Any) -> dict[str, Expr]:
    """Share of rollouts with a non-zero advantage, by kind of group (theory.md, eq. 117).

    Args:
        passed: Advantage of a pass at k = 0..G.
        failed: Advantage of a fail at k = 0..G.
        pass_rate: p.
    """
    g = len(passed) - 1

    def share(k: int) -> Expr:
        return (k * int(passed[k] != 0) + (g - k) * int(failed[k] != 0)) / sp.Integer(g)

    parts = [binomial_pmf(k, g, pass_rate) * share(k) for k in range(g + 1)]
    return {"all_fail": parts[0], "mixed": sp.Add(*parts[1:-1]), "all_pass": parts[-1]}


def dead_signal(passed: Any, failed: Any, pass_rate: Any, group_size: int) -> tuple[Expr, Expr]:
    """Signal of all-fail and of all-pass groups, given their advantages (theory.md, eq. 118).

    >>> p = sp.Symbol("p")
    >>> dead_signal(1, -1, p, 2)
    (p*(1 - p)**2, p**2*(1 - p))
    """
    p = exact(pass_rate)
    return -exact(failed) * p * all_fail(p, group_size), exact(passed) * (1 - p) * all_pass(p, group_size)


def dead_noise(passed: Any, failed: Any, pass_rate: Any, group_size: int) -> tuple[Expr, Expr]:
    """Score noise of all-fail and of all-pass groups, given their advantages (theory.md, eq. 118)."""
    g = exact(group_size)
    return exact(failed) ** 2 * all_fail(pass_rate, g) / g, exact(passed) ** 2 * all_pass(pass_rate, g) / g


def progress_ratio(
    one: tuple[Any, Any, Any], base: tuple[Any, Any, Any], kappa: Any, coherence: Any = 0, size_ratio: Any = 1
) -> Expr:
    """Progress at equal rollouts over that of a base; each is ``(E[t], E[t**2], E[v])`` (theory.md, eq. 119)."""

    def worth(moments: tuple[Any, Any, Any]) -> Expr:
        t, square, noise = map(exact, moments)
        return t**2 / (square + exact(kappa) * noise - exact(coherence) * t**2)

    return worth(one) / worth(base) / exact(size_ratio)


def turning_kappa(
    one: tuple[Any, Any, Any], base: tuple[Any, Any, Any], coherence: Any = 0, size_ratio: Any = 1
) -> Expr:
    """Kappa at which both make the same progress per rollout (theory.md, eq. 119).

    >>> turning_kappa((1, 3, 1), (1, 2, 2))
    1
    """
    (ta, sa, va), (tb, sb, vb) = (tuple(map(exact, m)) for m in (one, base))
    rho, ratio = exact(coherence), exact(size_ratio)
    top = ratio * tb**2 * (sa - rho * ta**2) - ta**2 * (sb - rho * tb**2)
    return top / (ta**2 * vb - ratio * tb**2 * va)


def shifted_odds(pass_rate: Any, odds: Any) -> Expr:
    """Pass rate with its odds multiplied (theory.md, eq. 120)."""
    p, x = exact(pass_rate), exact(odds)
    return x * p / (1 - p + x * p)


def hinted_dead(pass_rate: Any, group_size: int, shift: Callable[[Expr], Expr], share: Any = 1, tries: int = 1) -> Expr:
    """Dead chance when all-fail groups of a share of the prompts are drawn again with a hint (theory.md, eq. 120)."""
    p, w = exact(pass_rate), exact(share)
    saved = 1 - dead(shift(p), group_size) ** tries
    return dead(p, group_size) - w * all_fail(p, group_size) * saved


def always_hinted_dead(pass_rate: Any, group_size: int, shift: Callable[[Expr], Expr], share: Any = 1) -> Expr:
    """Dead chance when a share of the prompts has the hint from the start (theory.md, eq. 120)."""
    p, w = exact(pass_rate), exact(share)
    return (1 - w) * dead(p, group_size) + w * dead(shift(p), group_size)


def pooled_dead(pass_rates: Sequence[Any], group_size: int) -> Expr:
    """Dead chance of a group pooled over variants of these pass rates, G rollouts each (theory.md, eq. 121).

    >>> pooled_dead([sp.Rational(1, 2)] * 2, 1)
    1/2
    """
    rates = [exact(p) for p in pass_rates]
    return sp.Mul(*(p**group_size for p in rates)) + sp.Mul(*((1 - p) ** group_size for p in rates))


def rollouts_per_mixed(rollouts: Any, dead_share: Any) -> Expr:
    """Rollouts drawn for one mixed group (theory.md, eq. 122)."""
    return exact(rollouts) / (1 - exact(dead_share))


def hinted_rollouts(group_size: Any, again: Any, tries: Any = 1) -> Expr:
    """Rollouts of a prompt whose all-fail groups are drawn again (theory.md, eq. 122)."""
    return exact(group_size) * (1 + exact(tries) * exact(again))
