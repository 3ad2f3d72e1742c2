"""Equations of docs/theory.md, section 5: planning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf
from grpo_plan.symbolic.prompts import mixture_mean

FLAT_SHARE = sp.Rational(9, 10)


def pass_advantage(estimator: str, passes: Any, group_size: Any) -> Expr:
    """Advantage of a pass in a mixed group; grpo divides by the group's population std (theory.md, eq. 24)."""
    k, g = exact(passes), exact(group_size)
    table = {
        "grpo": lambda: sp.sqrt((g - k) / k),
        "dr_grpo": lambda: (g - k) / g,
        "rloo": lambda: (g - k) / (g - 1),
        "grpo_sample": lambda: sp.sqrt((g - k) / k * (g - 1) / g),
        "grpo_batch": lambda: (g - k) / g,
        "maxrl": lambda: (g - k) / k,
    }
    return table[estimator]()


def fail_advantage(estimator: str, passes: Any, group_size: Any) -> Expr:
    """Advantage of a fail; the advantages of a group sum to 0 (theory.md, eq. 24)."""
    k, g = exact(passes), exact(group_size)
    return -k * pass_advantage(estimator, k, g) / (g - k)


def signal(estimator: str, passes: Any, group_size: Any) -> Expr:
    """``t(k)``: estimate of one group along the gradient of its prompt, in units of h (theory.md, eq. 24)."""
    k, g = exact(passes), exact(group_size)
    if k == 0 or k == g:
        return sp.Integer(0)
    return k * pass_advantage(estimator, k, g) / g


def noise(estimator: str, passes: Any, group_size: Any) -> Expr:
    """``v(k)``: weight of the score noise in the estimate of one group (theory.md, eq. 24)."""
    k, g = exact(passes), exact(group_size)
    if k == 0 or k == g:
        return sp.Integer(0)
    up, down = pass_advantage(estimator, k, g), fail_advantage(estimator, k, g)
    return (k * up**2 + (g - k) * down**2) / g**2


def law_mean(value_of: Callable[[int], Any], group_law: Sequence[Any]) -> Expr:
    """Mean of a function of k under any law of k = 0..G, such as a mixture (theory.md, eq. 25)."""
    return sp.Add(*(exact(weight) * exact(value_of(k)) for k, weight in enumerate(group_law)))


def mixture_law(rates: Sequence[Any], weights: Sequence[Any], group_size: int) -> list[Expr]:
    """Law of k in a group of a random prompt, for an F of finitely many rates (theory.md, eq. 25)."""

    def chance(passes: int) -> Expr:
        return mixture_mean(lambda p: binomial_pmf(passes, group_size, p), rates, weights)

    return [chance(k) for k in range(group_size + 1)]


def second_moment(estimator: str, group_law: Sequence[Any], kappa: Any) -> Expr:
    """``E[t**2] + kappa E[v]``: mean squared norm of a group's estimate over h**2 (theory.md, eq. 25)."""
    g = len(group_law) - 1
    squared = law_mean(lambda k: signal(estimator, k, g) ** 2, group_law)
    return squared + exact(kappa) * law_mean(lambda k: noise(estimator, k, g), group_law)


def rloo_signal_second_moment(pass_rate: Any, group_size: Any) -> Expr:
    """``E[t**2 | p]`` for rloo in closed form (theory.md, eq. 25)."""
    p, g = exact(pass_rate), exact(group_size)
    pq = p * (1 - p)
    return pq**2 * (g - 2) * (g - 3) / (g * (g - 1)) + pq / g


def rloo_noise_mean(pass_rate: Any, group_size: Any) -> Expr:
    """``E[v | p]`` for rloo in closed form (theory.md, eq. 25)."""
    p, g = exact(pass_rate), exact(group_size)
    return p * (1 - p) / (g - 1)


def efficiency(estimator: str, group_law: Sequence[Any], kappa: Any, coherence: Any = 0, prompt_cost: Any = 0) -> Expr:
    """Progress per unit cost at noise-dominated steps, up to a constant (theory.md, eq. 26)."""
    g = len(group_law) - 1
    mean = law_mean(lambda k: signal(estimator, k, g), group_law)
    scatter = second_moment(estimator, group_law, kappa) - exact(coherence) * mean**2
    return mean**2 / ((exact(prompt_cost) + g) * scatter)


def noise_to_signal(estimator: str, group_law: Sequence[Any], kappa: Any, coherence: Any, prompts: Any) -> Expr:
    """Noise-to-signal ratio of a step of N groups (theory.md, eq. 26)."""
    g = len(group_law) - 1
    shared = exact(coherence) * law_mean(lambda k: signal(estimator, k, g), group_law) ** 2
    return (second_moment(estimator, group_law, kappa) - shared) / (exact(prompts) * shared)


def two_stage_group_size(
    mean_pq: Any, mean_pq_squared: Any, kappa: Any, coherence: Any = 0, prompt_cost: Any = 0
) -> Expr:
    """Large-group optimum of the group size; ``mean_pq_squared`` is E[(pq)**2] (theory.md, eq. 27).

    >>> two_stage_group_size(sp.Rational(1, 8), sp.Rational(1, 32), 4)
    5
    """
    first, second = exact(mean_pq), exact(mean_pq_squared)
    between = second - exact(coherence) * first**2
    return 1 + sp.sqrt(exact(kappa) * (1 + exact(prompt_cost)) * first / between)


def two_stage_cost(
    group_size: Any, mean_pq: Any, mean_pq_squared: Any, kappa: Any, coherence: Any = 0, prompt_cost: Any = 0
) -> Expr:
    """The batch variance times cost that eq. 27 minimises, up to a constant (theory.md, eq. 27)."""
    g, first, second = exact(group_size), exact(mean_pq), exact(mean_pq_squared)
    between = second - exact(coherence) * first**2
    return (exact(prompt_cost) + g) * (between + exact(kappa) * first / (g - 1))


def regrets(efficiencies: Sequence[Any]) -> list[Expr]:
    """Regret of each group size at one kappa: ``1 - e / max e`` (theory.md, eq. 28)."""
    values = [exact(e) for e in efficiencies]
    best = sp.Max(*values)
    return [1 - e / best for e in values]


def minimax_regret(efficiencies_by_kappa: Sequence[Sequence[Any]]) -> tuple[int, Expr]:
    """Index of the group size with the smallest worst regret, and that regret (theory.md, eq. 28).

    Rows are values of kappa, columns are group sizes.

    >>> minimax_regret([[4, 3, 1], [1, 3, 4]])
    (1, 1/4)
    """
    worst = [sp.Max(*column) for column in zip(*map(regrets, efficiencies_by_kappa), strict=True)]
    index = min(range(len(worst)), key=worst.__getitem__)
    return index, worst[index]


def flat_range(efficiencies: Sequence[Any], share: Any = FLAT_SHARE) -> list[int]:
    """Indices of the group sizes with at least ``share`` of the best efficiency (theory.md, eq. 28).

    >>> flat_range([10, 9, 8])
    [0, 1]
    """
    return [i for i, regret in enumerate(regrets(efficiencies)) if regret <= 1 - exact(share)]
