"""Equations of docs/theory.md, section 7: all distributions of pass rates at once.

A pilot is given as cells ``(passes, rollouts, prompts)``, a distribution F as its rates and weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact
from grpo_plan.symbolic.groups import binomial_pmf, dead
from grpo_plan.symbolic.prompts import beta_binomial_pmf, beta_power_mean_product, dead_fraction, mixture_mean

PilotCell = tuple[int, int, int]  # passes k and rollouts n of a prompt, and how many prompts have them


def arcsine_point(index: Any, points: Any) -> Expr:
    """Pass rate number ``index`` (from 0) of the grid (theory.md, eq. 31).

    >>> arcsine_point(1, 5)
    1/2 - sqrt(2)/4
    """
    return (1 - sp.cos(sp.pi * exact(index) / (exact(points) - 1))) / 2


def arcsine_variance(pass_rate: Any, rollouts: Any) -> Expr:
    """Variance of ``arcsin sqrt(k/n)`` to first order, for a symbol p or a number (theory.md, eq. 31)."""
    p = sp.Dummy("p", positive=True)
    slope = sp.diff(sp.asin(sp.sqrt(p)), p)
    variance = sp.simplify(slope**2 * p * (1 - p) / exact(rollouts))
    return variance.subs(p, exact(pass_rate))


def cell_chance(passes: int, rollouts: int, rates: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """``f``: chance that a random prompt passes k of n rollouts (theory.md, eq. 31)."""
    return mixture_mean(lambda p: binomial_pmf(passes, rollouts, p), rates, weights)


def log_likelihood(cells: Sequence[PilotCell], rates: Sequence[Any], weights: Sequence[Any]) -> Expr:
    """Log-likelihood of F, binomial coefficients included (theory.md, eq. 31)."""
    return sp.Add(*(count * sp.log(cell_chance(k, n, rates, weights)) for k, n, count in cells))


def directional_derivative(
    cells: Sequence[PilotCell], rates: Sequence[Any], weights: Sequence[Any], toward: Any
) -> Expr:
    """Slope of the log-likelihood per prompt from F towards all mass at one rate (theory.md, eq. 32)."""
    total = sum(count for _, _, count in cells)
    ratios = (count * binomial_pmf(k, n, exact(toward)) / cell_chance(k, n, rates, weights) for k, n, count in cells)
    return sp.Add(*ratios) / total - 1


def certificate(cells: Sequence[PilotCell], rates: Sequence[Any], weights: Sequence[Any], grid: Sequence[Any]) -> Expr:
    """What any distribution on the grid could at most add to the log-likelihood of F (theory.md, eq. 32)."""
    total = sum(count for _, _, count in cells)
    return total * sp.Max(0, *(directional_derivative(cells, rates, weights, p) for p in grid))


def weak_duality_bound(log_likelihood: Any, functional: Any, gap: Any, floor: Any, tilt: Any) -> Expr:
    """Value never below ``max E phi`` over all F with log-likelihood per prompt of at least floor (theory.md, eq. 33).

    ``log_likelihood`` and ``functional`` are those of any g, ``gap`` is its largest directional derivative of
    ``log-likelihood + tilt * E phi``.
    """
    ll, phi, gap, floor, tilt = (exact(x) for x in (log_likelihood, functional, gap, floor, tilt))
    return (ll + tilt * phi + gap - floor) / tilt


def stopping_cost_sum(pass_rate: Any, max_group_size: int) -> Expr:
    """Mean rollouts until both outcomes are seen, at most G, as ``1 + sum of d_t`` over t < G (theory.md, eq. 34)."""
    return 1 + sp.Add(*(dead(exact(pass_rate), t) for t in range(1, max_group_size)))


def stopping_cost(pass_rate: Any, max_group_size: Any) -> Expr:
    """The same in closed form, for 0 < p < 1 (theory.md, eq. 34)."""
    p, g = exact(pass_rate), exact(max_group_size)
    q = 1 - p
    return 1 + (p - p**g) / q + (q - q**g) / p


def linearised_jensen_gap(rates: Sequence[Any], weights: Sequence[Any], group_size: Any, mean: Any) -> Expr:
    """``D(G)`` minus the tangent of ``d_G`` at ``mean``, taken at F's own mean (theory.md, eq. 34)."""
    p, at = sp.Dummy("p"), exact(mean)
    slope = sp.diff(dead(p, group_size), p).subs(p, at)
    own = mixture_mean(lambda rate: rate, rates, weights)
    return dead_fraction(rates, weights, group_size) - dead(at, group_size) - slope * (own - at)


def chi_square_tail(threshold: Any, degrees: Any = 1) -> Expr:
    """Chance that a chi-square variable exceeds a threshold (theory.md, eq. 35 and 37)."""
    x, n = exact(threshold), exact(degrees)
    return sp.uppergamma(n / 2, x / 2) / sp.gamma(n / 2)


def far_tail(level: Any) -> Expr:
    """Chance left to the chi-square threshold beyond 4 n: half of ``1 - level`` (theory.md, eq. 35)."""
    return (1 - exact(level)) / 2


def mid_p(events: int, prompts: int, share: Any) -> Expr:
    """``P(X < x) + P(X = x) / 2`` for a binomial X (theory.md, eq. 36)."""
    below = sp.Add(*(binomial_pmf(k, prompts, exact(share)) for k in range(events)))
    return below + binomial_pmf(events, prompts, exact(share)) / 2


def share_likelihood_ratio(events: int, prompts: int, share: Any) -> Expr:
    """``2 (max log-likelihood - log-likelihood)`` of a binomial share (theory.md, eq. 36)."""
    x, m, share = exact(events), exact(prompts), exact(share)
    seen = x * sp.log(x / (m * share)) if events else sp.Integer(0)
    unseen = (m - x) * sp.log((m - x) / (m * (1 - share))) if events < prompts else sp.Integer(0)
    return 2 * (seen + unseen)


def mid_p_threshold(events: int, prompts: int, level: Any) -> Expr:
    """Likelihood ratio at the one-sided mid-P upper limit, by root finding to 15 digits (theory.md, eq. 36).

    >>> round(mid_p_threshold(0, 50, sp.Rational(19, 20)), 4)
    5.9915
    """
    share, tail = sp.Dummy("share"), (1 - exact(level)) / 2
    equation = mid_p(events, prompts, share) - tail
    low = sp.Rational(events, prompts) + sp.Rational(1, 10**9)
    limit = sp.nsolve(equation, share, (low, 1 - sp.Rational(1, 10**9)), solver="bisect", verify=False)
    return share_likelihood_ratio(events, prompts, limit).evalf()


def saturated_log_likelihood(cells: Sequence[PilotCell]) -> Expr:
    """Largest log-likelihood of any law of k for each n, mixture or not (theory.md, eq. 37)."""
    sizes = {n: sum(count for _, m, count in cells if m == n) for _, n, _ in cells}
    return sp.Add(*(count * sp.log(sp.Rational(count, sizes[n])) for _, n, count in cells if count))


def identified_range(frequencies: Sequence[Any], grid: Sequence[Any], values: Sequence[Any]) -> tuple[Expr, Expr]:
    """Ends of ``E phi`` over all F on the grid with these frequencies of k = 0..n (theory.md, eq. 38).

    Every vertex of the set has at most n + 1 atoms; all are tried. ``values`` are phi at the grid.
    """
    shares = sp.Matrix([exact(f) for f in frequencies])
    n, found = len(frequencies) - 1, []
    for atoms in combinations(range(len(grid)), n + 1):
        table = sp.Matrix(n + 1, n + 1, lambda k, j: binomial_pmf(k, n, exact(grid[atoms[j]])))  # noqa: B023
        if table.det() != 0:
            masses = table.LUsolve(shares)
            if all(mass >= 0 for mass in masses):
                found.append(sp.Add(*(mass * exact(values[j]) for mass, j in zip(masses, atoms, strict=True))))
    return sp.Min(*found), sp.Max(*found)


def all_pass_range_from_pairs(mean: Any, pairs: Any, group_size: Any) -> tuple[Expr, Expr]:
    """Ends of ``E[p**G]``, G >= 3, given ``E[p]`` and ``E[p**2]`` alone (theory.md, eq. 38).

    The low end has an atom at 0, the high end one at 1; each has one more.
    """
    m1, m2, g = exact(mean), exact(pairs), exact(group_size)
    inner = (m1 - m2) / (1 - m1)
    share = (1 - m1) / (1 - inner)
    return m1 * (m2 / m1) ** (g - 1), share * inner**g + 1 - share


def tilted_density(pass_rate: Any, a: Any, b: Any, tilts: Sequence[Any]) -> Expr:
    """Density of the tilted Beta, without its constant (theory.md, eq. 39)."""
    p, a, b = exact(pass_rate), exact(a), exact(b)
    tilt = sp.Add(*(exact(c) * sp.legendre(d, 2 * p - 1) for d, c in enumerate(tilts, start=1)))
    return p ** (a - 1) * (1 - p) ** (b - 1) * sp.exp(tilt)


def tilted_logit_density(logit: Any, a: Any, b: Any, tilts: Sequence[Any]) -> Expr:
    """The same per unit of ``log(p / (1 - p))`` (theory.md, eq. 39)."""
    p = 1 / (1 + sp.exp(-exact(logit)))
    return tilted_density(p, a, b, tilts) * p * (1 - p)


def laplace_evidence(log_likelihood: Any, covariance: Any, precisions: Sequence[Any], tilts: Sequence[Any]) -> Expr:
    """Log marginal likelihood up to a constant; normal priors on tilts, flat on log a, log b (theory.md, eq. 40)."""
    value = exact(log_likelihood) + sp.log(sp.Matrix(covariance).det()) / 2
    for precision, tilt in zip(precisions, tilts, strict=True):
        tau = exact(precision)
        value += (sp.log(tau) - tau * exact(tilt) ** 2) / 2
    return value


def averaged(weights: Sequence[Any], means: Sequence[Any], variances: Sequence[Any]) -> tuple[Expr, Expr]:
    """Mean over models, and variance within plus between them (theory.md, eq. 40).

    >>> averaged([sp.Rational(1, 2)] * 2, [0, 2], [1, 3])
    (1, 3)
    """
    shares = [exact(w) for w in weights]
    mean = sp.Add(*(w * exact(x) for w, x in zip(shares, means, strict=True)))
    spread = (w * (exact(v) + (exact(x) - mean) ** 2) for w, x, v in zip(shares, means, variances, strict=True))
    return mean, sp.Add(*spread)


def joined(measured: Any, beyond: Any, at_last: Any) -> Expr:
    """A modelled part beyond n, scaled so that the model meets the measured part at n (theory.md, eq. 40)."""
    return exact(measured) * exact(beyond) / exact(at_last)


def nonparametric_share(gap: Any, rollouts: Any) -> Expr:
    """Weight of the answer without a smooth F (theory.md, eq. 40)."""
    logistic = 1 / (1 + sp.exp(1 + exact(rollouts) / 2 - exact(gap)))
    return sp.Max(0, (logistic - sp.Rational(1, 10)) / sp.Rational(9, 10))


def inflated_power_mean(never: Any, always: Any, a: Any, b: Any, group_size: int) -> Expr:
    """``E[p**G]``, G >= 1, for shares at 0 and at 1 and a Beta for the rest (theory.md, eq. 41)."""
    rest = 1 - exact(never) - exact(always)
    return exact(always) + rest * beta_power_mean_product(a, b, group_size)


def inflated_pmf(passes: int, group_size: int, never: Any, always: Any, a: Any, b: Any) -> Expr:
    """Chance of k passes in a group of G under the same F (theory.md, eq. 41)."""
    rest = 1 - exact(never) - exact(always)
    ends = (exact(never) if passes == 0 else 0) + (exact(always) if passes == group_size else 0)
    return ends + rest * beta_binomial_pmf(passes, group_size, a, b)


def dual_weights(cells: Sequence[PilotCell], rates: Sequence[Any], weights: Sequence[Any]) -> list[Expr]:
    """``s = w / f`` of each cell, for one n: observed over fitted share (theory.md, eq. 42)."""
    total = sum(count for _, _, count in cells)
    return [sp.Rational(count, total) / cell_chance(k, n, rates, weights) for k, n, count in cells]


def dual_variance(cells: Sequence[PilotCell], rates: Sequence[Any], weights: Sequence[Any]) -> tuple[Expr, Expr]:
    """Variance of s over prompts drawn from F, and its part between prompts, for one n (theory.md, eq. 42).

    ``u(p)`` is the mean of s given the pass rate; the part between prompts is its variance over F.
    """
    scores = dual_weights(cells, rates, weights)
    chances = [cell_chance(k, n, rates, weights) for k, n, _ in cells]
    squares = sp.Add(*(f * s**2 for f, s in zip(chances, scores, strict=True)))
    mean = sp.Add(*(f * s for f, s in zip(chances, scores, strict=True)))

    def given(p: Expr) -> Expr:
        return sp.Add(*(binomial_pmf(k, n, p) * s for (k, n, _), s in zip(cells, scores, strict=True)))

    return squares - mean**2, mixture_mean(lambda p: (given(p) - mean) ** 2, rates, weights)


def census_factor(sampled: Any, between: Any, total: Any) -> Expr:
    """Share of a variance that stays when a share of all prompts is in the pilot (theory.md, eq. 42)."""
    return 1 - exact(sampled) * exact(between) / exact(total)


def expected_half_width(dead_fraction: Any, prompts: Any, z: Any) -> Expr:
    """Half of the width of the interval of D(G) at G = n, to first order in M (theory.md, eq. 43)."""
    d = exact(dead_fraction)
    return exact(z) * sp.sqrt(d * (1 - d) / exact(prompts))


def prompts_for(dead_fraction: Any, half_width: Any, z: Any) -> Expr:
    """Prompts that give this half-width at G = n, to first order (theory.md, eq. 43)."""
    d = exact(dead_fraction)
    return d * (1 - d) * (exact(z) / exact(half_width)) ** 2
