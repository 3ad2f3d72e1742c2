"""Pass rates of prompts, given what the pilot saw of them (theory.md, eq. 59).

A prompt that failed 4 of 4 times does not have pass rate 0. Whatever is said of prompts that were chosen by their
counts goes through the posterior of their pass rates under the fitted F, or through rollouts held out of the choice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan.fitting.estimates import Limits
from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.mixing import log_power
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.ustatistics import subgroup_pmf
from grpo_plan.passrates.discrete import DiscretePassRates, power
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
Curve = Callable[[Floats, Floats], Floats]
BLOCK_ENTRIES = 4_000_000
LIMIT_TOLERANCE = 5e-4
MOST_STEPS = 40


def posterior_masses(rates: DiscretePassRates, successes: NDArray[np.int64], rollouts: NDArray[np.int64]) -> Floats:
    """Posterior of the pass rate after k of n passes, on the points of ``rates`` (theory.md, eq. 59).

    Args:
        rates: Distribution of pass rates over prompts, m points.
        successes: k, shape (C,).
        rollouts: n, shape (C,).

    Returns:
        Shape (C, m); rows sum to 1.

    >>> p = np.array([0.0, 0.5])
    >>> half = DiscretePassRates(passing=p, failing=1 - p, masses=np.array([0.5, 0.5]))
    >>> posterior_masses(half, np.array([0, 1]), np.array([2, 2])).round(12).tolist()
    [[0.8, 0.2], [0.0, 1.0]]
    """
    k, n = successes.astype(np.float64)[:, None], rollouts.astype(np.float64)[:, None]
    with np.errstate(divide="ignore"):
        prior = np.log(rates.masses)
    logs = prior + log_power(rates.passing, k) + log_power(rates.failing, n - k)
    top = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    masses: Floats = weights / weights.sum(axis=1, keepdims=True)
    return masses


def rates_given(rates: DiscretePassRates, cells: PilotHistogram) -> DiscretePassRates:
    """Pass rates of the prompts of these cells: the mean of their posteriors (theory.md, eq. 59)."""
    total = np.zeros(rates.masses.size)
    blocks = max(1, cells.prompts.size * rates.masses.size // BLOCK_ENTRIES)
    for rows in np.array_split(np.arange(cells.prompts.size), blocks):
        total += cells.prompts[rows] @ posterior_masses(rates, cells.successes[rows], cells.rollouts[rows])
    return DiscretePassRates(passing=rates.passing, failing=rates.failing, masses=total / total.sum())


def laws_of_cells(rates: DiscretePassRates, cells: PilotHistogram, group_size: int) -> Floats:
    """Law of the passes in a group of G of each cell's prompts, F kept, shape (C, G + 1) (theory.md, eq. 59)."""
    g, points = group_size, rates.masses.size
    counts, chances = binomial_window(g, rates.passing)
    places = counts + (g + 1) * np.arange(points)[:, None]
    laws = np.bincount(places.ravel(), weights=chances.ravel(), minlength=points * (g + 1)).reshape(points, g + 1)
    laws[:, 0], laws[:, -1] = power(rates.failing, rates.passing, g), power(rates.passing, rates.failing, g)
    found = np.empty((cells.prompts.size, g + 1))
    for rows in np.array_split(np.arange(cells.prompts.size), max(1, cells.prompts.size * points // BLOCK_ENTRIES)):
        found[rows] = posterior_masses(rates, cells.successes[rows], cells.rollouts[rows]) @ laws
    return found


def chance_of(cells: PilotHistogram, everyone: PilotHistogram) -> Curve:
    """Chance that a prompt of pass rate p lands in one of ``cells``, as a function of p (theory.md, eq. 59).

    Its number of rollouts is that of a random prompt of the pilot.
    """
    sizes, places = np.unique(everyone.rollouts, return_inverse=True)
    shares = np.bincount(places, weights=everyone.prompts) / everyone.total_prompts
    wanted = [(int(n), set(cells.successes[cells.rollouts == n].tolist())) for n in sizes]

    def chance(p: Floats, q: Floats) -> Floats:
        total = np.zeros(p.shape)
        for share, (n, inside) in zip(shares, wanted, strict=True):
            counts, chances = binomial_window(n, p)
            keep = np.isin(counts, list(inside))
            if 0 in inside:
                total += share * np.exp(log_power(q, np.array(float(n))))
                keep &= counts != 0
            if n in inside:
                total += share * np.exp(log_power(p, np.array(float(n))))
                keep &= counts != n
            total += share * np.where(keep, chances, 0.0).sum(axis=1)
        return np.minimum(total, 1.0)

    return chance


def conditional_limits(
    fit: PassRateFit, value: Curve, seen: Curve, level: float, *, degree: int, near: float
) -> Limits:
    """Limits of ``E[value | seen] = E_F[value seen] / E_F[seen]`` over all F that the pilot leaves possible (eq. 59).

    A number r is inside when the likelihood limits of ``E_F[(value - r) seen]`` hold 0.

    Args:
        fit: The fitted pilot.
        value: In [0, 1], from arrays (p, 1 - p).
        seen: Chance of the observation given p, from arrays (p, 1 - p).
        level: Confidence level.
        degree: Rollouts of one prompt that the product looks at.
        near: The estimate, where the search starts; the limits hold it.
    """
    known: list[tuple[Floats, Floats, Floats]] = []  # the grid is the same at every r

    def limit(r: float, sign: float) -> float:
        def phi(p: Floats, q: Floats) -> Floats:
            if not known or known[-1][0] is not p:
                known.append((p, value(p, q), seen(p, q)))
            _, values, chances = known[-1]
            return sign * (values - r) * chances

        def kernel(k: Floats, n: Floats) -> Floats:
            raise NotImplementedError

        at_r = Functional(name="conditional mean", degree=degree, phi=phi, kernel=kernel, pushed_up_by="")
        return fit.upper_limit_of(at_r, level)

    low = 1.0 - _crossing(lambda r: limit(1.0 - r, -1.0), 1.0 - near)
    high = _crossing(lambda r: limit(r, 1.0), near)
    return min(low, near), max(high, near)


def _crossing(falling: Callable[[float], float], start: float) -> float:
    """Where a falling function of r crosses 0 between ``start`` and 1, by false position (Illinois)."""
    left, right = min(max(start, 0.0), 1.0), 1.0
    at_left, at_right = falling(left), falling(right)
    if at_right >= 0.0:
        return right
    if at_left <= 0.0:
        return left
    last = 0.0
    for _ in range(MOST_STEPS):
        if right - left < LIMIT_TOLERANCE:
            break
        r = left + (right - left) * at_left / (at_left - at_right)
        r = min(max(r, left + 0.3 * LIMIT_TOLERANCE), right - 0.3 * LIMIT_TOLERANCE)
        found = falling(r)
        if found > 0.0:
            at_right *= 0.5 if last > 0.0 else 1.0
            left, at_left = r, found
        else:
            at_left *= 0.5 if last < 0.0 else 1.0
            right, at_right = r, found
        last = found
    return right  # the wide side


def held_out_laws(
    cells: PilotHistogram, buckets: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.intp]], group_size: int,
    count: int,
) -> tuple[Floats, Floats, Floats]:  # fmt: skip
    """Half of each prompt's rollouts choose its bucket, the other half speak of it (theory.md, eq. 59).

    All splits are averaged: of k passes among n, j fall in the first half of a = floor(n / 2) with hypergeometric
    chance. No model, unbiased for the buckets that a rollouts would choose.

    Args:
        cells: Cells of the pilot; those whose second half is smaller than G are left out.
        buckets: From (j, a) to bucket numbers.
        group_size: G, at most the second half.
        count: Number of buckets B.

    Returns:
        Per cell and bucket: share of its splits, shape (C, B); law of the passes in a group of the second half times
        that share, shape (C, B, G + 1); and passes expected of one rollout times that share, shape (C, B).
    """
    size = cells.prompts.size
    shares, laws, means = np.zeros((size, count)), np.zeros((size, count, group_size + 1)), np.zeros((size, count))
    for i in range(size):
        n, k = int(cells.rollouts[i]), int(cells.successes[i])
        first, second = n // 2, n - n // 2
        if second < group_size or first < 1:
            continue
        chance = subgroup_pmf(np.array([k]), np.array([n]), first)[0]
        j = np.flatnonzero(chance > 0.0)
        rest = subgroup_pmf(k - j, np.full(j.size, second), group_size)
        place = buckets(j, np.full(j.size, first))
        for b in range(count):
            inside = place == b
            shares[i, b] = chance[j[inside]].sum()
            laws[i, b] = chance[j[inside]] @ rest[inside]
            means[i, b] = chance[j[inside]] @ ((k - j[inside]) / second)
    return shares, laws, means
