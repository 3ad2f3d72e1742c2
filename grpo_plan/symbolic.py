"""Every equation of docs/theory.md as a SymPy object: the second route that tests and documents compare with.

Arguments may be symbols, SymPy numbers or Python numbers; a float stands for the exact rational that it is.
Functions that sum over the passes of a group need a whole number for the group size. Nothing here is fast,
and no planning code imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import sympy as sp

Expr: TypeAlias = Any  # SymPy ships no types

PSEUDO_PROMPTS = 2
FLAT_SHARE = sp.Rational(9, 10)


def exact(value: Any) -> Expr:
    """The value as a SymPy object; a float becomes the rational number that its bits mean.

    >>> exact(0.25)
    1/4
    """
    return sp.Rational(value) if isinstance(value, float) else sp.sympify(value)


# Section 1: one group


def mixed(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that a group is mixed (theory.md, eq. 1).

    >>> mixed(sp.Rational(1, 5), 4)
    368/625
    """
    p, g = exact(pass_rate), exact(group_size)
    return 1 - p**g - (1 - p) ** g


def mixed_sum(pass_rate: Any, group_size: int) -> Expr:
    """The same chance as a sum of the binomial law over 0 < k < G (theory.md, eq. 1)."""
    return sp.Add(*(binomial_pmf(k, group_size, pass_rate) for k in range(1, group_size)))


def all_pass(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that all rollouts pass (theory.md, eq. 2)."""
    return exact(pass_rate) ** exact(group_size)


def all_fail(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that all rollouts fail (theory.md, eq. 2)."""
    return (1 - exact(pass_rate)) ** exact(group_size)


def dead(pass_rate: Any, group_size: Any) -> Expr:
    """Chance that a group is dead under a 0/1 reward (theory.md, eq. 2)."""
    return all_pass(pass_rate, group_size) + all_fail(pass_rate, group_size)


def pass_at(pass_rate: Any, group_size: Any) -> Expr:
    """Chance of at least one pass among G rollouts (theory.md, eq. 3)."""
    return 1 - all_fail(pass_rate, group_size)


def graded_dead(level_probabilities: Sequence[Any], group_size: Any) -> Expr:
    """Chance that all rewards are of one level (theory.md, eq. 4)."""
    return sp.Add(*(exact(q) ** exact(group_size) for q in level_probabilities))


def rare_mode_miss(pass_rate: Any, mode_mass: Any, group_size: Any) -> Expr:
    """Chance that a group is mixed and holds no rollout of the rare correct mode (theory.md, eq. 5)."""
    p, tau, g = exact(pass_rate), exact(mode_mass), exact(group_size)
    return (1 - tau) ** g - (p - tau) ** g - (1 - p) ** g


def binomial_pmf(passes: Any, group_size: Any, pass_rate: Any) -> Expr:
    """Chance of exactly k passes in a group of one prompt (theory.md, eq. 1)."""
    k, g, p = exact(passes), exact(group_size), exact(pass_rate)
    return sp.binomial(g, k) * p**k * (1 - p) ** (g - k)


def group_mean(value_of: Callable[[int], Any], pass_rate: Any, group_size: int) -> Expr:
    """Mean over the binomial law of k of any function of the passes (theory.md, eq. 6)."""
    return sp.Add(
        *(
            binomial_pmf(k, group_size, pass_rate) * exact(value_of(k))
            for k in range(group_size + 1)
            if exact(value_of(k)) != 0
        )
    )


def group_variance(passes: Any, group_size: Any) -> Expr:
    """Population variance of the rewards of a group with k passes (theory.md, eq. 6)."""
    k, g = exact(passes), exact(group_size)
    return k * (g - k) / g**2


def expected_group_variance_sum(pass_rate: Any, group_size: int) -> Expr:
    """Expected group variance as the binomial sum (theory.md, eq. 6)."""
    return group_mean(lambda k: group_variance(k, group_size), pass_rate, group_size)


def expected_group_variance(pass_rate: Any, group_size: Any) -> Expr:
    """Expected group variance in closed form (theory.md, eq. 6)."""
    p, g = exact(pass_rate), exact(group_size)
    return p * (1 - p) * (1 - 1 / g)


def expected_group_std(pass_rate: Any, group_size: int) -> Expr:
    """Expected group standard deviation, by the exact sum (theory.md, eq. 7).

    >>> expected_group_std(sp.Rational(1, 2), 2)
    1/4
    """
    return group_mean(lambda k: sp.sqrt(group_variance(k, group_size)), pass_rate, group_size)


def fidelity(pass_rate: Any, group_size: int) -> Expr:
    """Expected group std over the std of one reward (theory.md, eq. 8)."""
    p = exact(pass_rate)
    return expected_group_std(p, group_size) / sp.sqrt(p * (1 - p))


def fidelity_expansion(pass_rate: Any, group_size: Any) -> Expr:
    """Fidelity to first order in 1/G (theory.md, eq. 8)."""
    p, g = exact(pass_rate), exact(group_size)
    return 1 - 1 / (8 * g * p * (1 - p))


def fidelity_budget(pass_rate: Any, shortfall: Any) -> Expr:
    """Group size at which the expansion reaches fidelity 1 - eps (theory.md, eq. 8)."""
    p, eps = exact(pass_rate), exact(shortfall)
    return 1 / (8 * eps * p * (1 - p))


# Section 2: prompts differ


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


# Section 3: estimation from k passes of n rollouts


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


# Section 4: a step


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


# Section 5: planning


def pass_advantage(estimator: str, passes: Any, group_size: Any) -> Expr:
    """Advantage of a pass in a mixed group; grpo divides by the population std (theory.md, eq. 24)."""
    k, g = exact(passes), exact(group_size)
    table = {
        "grpo": lambda: sp.sqrt((g - k) / k),
        "dr_grpo": lambda: (g - k) / g,
        "rloo": lambda: (g - k) / (g - 1),
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
