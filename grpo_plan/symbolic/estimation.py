"""Equations of docs/theory.md, sections 3, 4 and 6: estimation from k of n, a step, and checks of a pilot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf, dead, group_mean

PSEUDO_PROMPTS = 2


def u_statistic(passes: Any, rollouts: Any, group_size: Any) -> Expr:
    """Kernel of D(G) from one prompt with k of n passes (theory.md, eq. 15).

    >>> u_statistic(1, 8, 4)
    1/2
    """
    k, n, g = exact(passes), exact(rollouts), exact(group_size)
    return (sp.binomial(k, g) + sp.binomial(n - k, g)) / sp.binomial(n, g)


def subgroup_pmf(subgroup_passes: Any, passes: Any, rollouts: Any, group_size: Any) -> Expr:
    """Chance of j passes among G rollouts drawn from n without replacement (theory.md, eq. 16)."""
    j, k, n, g = (exact(x) for x in (subgroup_passes, passes, rollouts, group_size))
    return sp.binomial(k, j) * sp.binomial(n - k, g - j) / sp.binomial(n, g)


def pass_at_estimate(passes: Any, rollouts: Any, group_size: Any) -> Expr:
    """Unbiased pass@k from c passes of n rollouts (theory.md, eq. 17)."""
    c, n, g = exact(passes), exact(rollouts), exact(group_size)
    return 1 - sp.binomial(n - c, g) / sp.binomial(n, g)


def plug_in(passes: Any, rollouts: Any, group_size: Any) -> Expr:
    """The chance of being dead at the observed share k / n (theory.md, eq. 18)."""
    return dead(exact(passes) / exact(rollouts), group_size)


def plug_in_bias(pass_rate: Any, rollouts: int, group_size: Any) -> Expr:
    """Mean of the plug-in value minus the truth, for one prompt (theory.md, eq. 18)."""
    mean = group_mean(lambda k: plug_in(k, rollouts, group_size), pass_rate, rollouts)
    return mean - dead(pass_rate, group_size)


def effective_prompts(kernel_values: Sequence[Any]) -> Expr:
    """Number of 0/1 prompts that would be as informative as these kernel values (theory.md, eq. 19)."""
    values = [exact(h) for h in kernel_values]
    count = len(values)
    mean = sp.Add(*values) / count
    largest = mean * (1 - mean)
    if largest == 0:
        return sp.Integer(count)
    squares = sp.Add(*((h - mean) ** 2 for h in values))
    spread = (squares + PSEUDO_PROMPTS * largest) / (count - 1 + PSEUDO_PROMPTS)
    return sp.Max(count * largest / spread, 1)


def wilson_interval(share: Any, trials: Any, z: Any) -> tuple[Expr, Expr]:
    """Wilson score interval: the roots in x of ``n (share - x)**2 = z**2 x (1 - x)`` (theory.md, eq. 19)."""
    d, n, z = exact(share), exact(trials), exact(z)
    centre = (d + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * sp.sqrt(d * (1 - d) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return centre - half, centre + half


def tail_counts(counts: Iterable[tuple[int, int]]) -> tuple[list[int], list[int], list[int]]:
    """``A_j = #(k > j)``, ``B_j = #(n-k > j)``, ``C_j = #(n > j)`` of pairs (k, n) (theory.md, eq. 20)."""
    pairs = list(counts)
    steps = range(max(n for _, n in pairs))
    return (
        [sum(k > j for k, _ in pairs) for j in steps],
        [sum(n - k > j for k, n in pairs) for j in steps],
        [sum(n > j for _, n in pairs) for j in steps],
    )


def beta_binomial_log_likelihood(counts: Iterable[tuple[int, int]], mean: Any, correlation: Any) -> Expr:
    """Log-likelihood of pairs (k, n) in tail counts, without binomial coefficients (theory.md, eq. 20)."""
    mu, rho = exact(mean), exact(correlation)
    passed, failed, total = tail_counts(counts)
    terms = [
        (passed[0], mu),
        (failed[0], 1 - mu),
        (passed[0] + failed[0] - total[0], 1 - rho),
    ]
    for j in range(1, len(total)):
        terms.append((passed[j], mu * (1 - rho) + j * rho))
        terms.append((failed[j], (1 - mu) * (1 - rho) + j * rho))
        terms.append((-total[j], 1 - rho + j * rho))
    return sp.Add(*(count * sp.log(argument) for count, argument in terms if count))


def mixed_groups_pmf(groups: Any, prompts: Any, dead_share: Any) -> Expr:
    """Chance of exactly j mixed groups among N random prompts (theory.md, eq. 21)."""
    return binomial_pmf(groups, prompts, 1 - exact(dead_share))


def poisson_binomial_pmf(mixed_chances: Sequence[Any]) -> list[Expr]:
    """Law of the mixed groups of a fixed list of prompts, by generating polynomial (theory.md, eq. 22)."""
    law: list[Expr] = [sp.Integer(1)]
    for chance in map(exact, mixed_chances):
        none, one = [*law, sp.Integer(0)], [sp.Integer(0), *law]
        law = [(1 - chance) * x + chance * y for x, y in zip(none, one, strict=True)]
    return law


def poisson_binomial_variance(mixed_chances: Sequence[Any]) -> Expr:
    """``N m (1 - m) - sum (m_i - m)**2`` (theory.md, eq. 22)."""
    chances = [exact(m) for m in mixed_chances]
    mean = sp.Add(*chances) / len(chances)
    return len(chances) * mean * (1 - mean) - sp.Add(*((m - mean) ** 2 for m in chances))


def dead_batch(dead_share: Any, prompts: Any) -> Expr:
    """Chance that every group of a step is dead (theory.md, eq. 23)."""
    return exact(dead_share) ** exact(prompts)


def fewer_mixed_than(wanted: int, prompts: Any, dead_share: Any) -> Expr:
    """Chance of fewer than m mixed groups in a step (theory.md, eq. 23)."""
    return sp.Add(*(mixed_groups_pmf(j, prompts, dead_share) for j in range(wanted)))


def pair_kernel_variance_sum(pass_rate: Any, rollouts: int) -> Expr:
    """Variance of ``k (k-1) / (n (n-1)) - 2 p k / n + p**2`` as a sum over the binomial law (theory.md, eq. 29)."""
    p, n = exact(pass_rate), rollouts
    return group_mean(
        lambda k: (sp.Rational(k * (k - 1), n * (n - 1)) - 2 * p * sp.Rational(k, n) + p**2) ** 2, pass_rate, n
    )


def pair_kernel_variance(pass_rate: Any, rollouts: Any) -> Expr:
    """The same variance in closed form (theory.md, eq. 29)."""
    p, n = exact(pass_rate), exact(rollouts)
    return 2 * p**2 * (1 - p) ** 2 / (n * (n - 1))


def unevenness(counts: Iterable[tuple[int, int]]) -> Expr:
    """Standardised covariance of n with k / n over prompts, from pairs (k, n) (theory.md, eq. 30)."""
    pairs = [(sp.Rational(k, n), sp.Integer(n)) for k, n in counts]
    size = len(pairs)
    mean = sp.Add(*(r for r, _ in pairs)) / size
    middle = sp.Add(*(n for _, n in pairs)) / size
    products = [(n - middle) * (r - mean) for r, n in pairs]
    spread = sp.Max(sp.Add(*((r - mean) ** 2 for r, _ in pairs)) / size, mean * (1 - mean) / size)
    variance = sp.Max(sp.Add(*(x**2 for x in products)), spread * sp.Add(*((n - middle) ** 2 for _, n in pairs)))
    return sp.Add(*products) / sp.sqrt(variance)
