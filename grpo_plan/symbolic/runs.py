"""Equations of docs/theory.md, section 19: a run against its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from grpo_plan.symbolic.base import Expr, exact


def at_least(trials: int, count: int, p: Any) -> Expr:
    """Chance of so many dead groups or more; a Clopper-Pearson limit makes it half of 1 - level (theory.md, eq. 84).

    >>> at_least(2, 1, "1/2")
    3/4
    """
    x = exact(p)
    return sp.Add(*(sp.binomial(trials, k) * x**k * (1 - x) ** (trials - k) for k in range(count, trials + 1)))


def fewest_groups(shares: Sequence[Any], slack: Any = 0) -> int:
    """Smallest N whose multiples of 1/N are within the slack of every share (theory.md, eq. 85).

    >>> fewest_groups(["1/4", "5/8", "1/2"]), fewest_groups(["593/1000"], "1/1000")
    (8, 27)
    """
    n, wide = 1, exact(slack)
    while True:
        nearest = ((exact(s), sp.Rational(round(exact(s) * n), n)) for s in shares)
        if all(abs(s - k) <= wide for s, k in nearest):
            return n
        n += 1


def row_evidence(share: Any, groups: Any, p: Any, limit: Any) -> Expr:
    """Likelihood ratio of a row's dead groups, share p against the limit (theory.md, eq. 86).

    >>> row_evidence("1/2", 2, "3/4", "1/2")
    3/4
    """
    x, n, a, m = exact(share), exact(groups), exact(p), exact(limit)
    return ((a / m) ** x * ((1 - a) / (1 - m)) ** (1 - x)) ** n


def bet(share: Any, p: Any, limit: Any) -> Expr:
    """What a bet on a share beyond the limit pays: linear, and 1 at the limit (theory.md, eq. 86).

    >>> bet("1/2", "3/4", "1/2")
    1
    """
    x, a, m = exact(share), exact(p), exact(limit)
    return 1 + (a - m) / (m * (1 - m)) * (x - m)


def start_weight(row: Any) -> Expr:
    """Weight of a start at a row, counted from 1; over all rows they sum to 1 (theory.md, eq. 87)."""
    r = exact(row)
    return 1 / sp.log(r + 1, 2) - 1 / sp.log(r + 2, 2)


def restarted_evidence(factors: Sequence[Sequence[Any]]) -> Expr:
    """Mean over alternatives and starts of the products of the rows' evidence (theory.md, eq. 87).

    Args:
        factors: Evidence of each row for each alternative.
    """
    rows, many = len(factors), len(factors[0])
    started = sp.Add(
        *(
            start_weight(r + 1) * sp.Mul(*(exact(row[j]) for row in factors[r:]))
            for j in range(many)
            for r in range(rows)
        )
    )
    return started / many + 1 / sp.log(rows + 2, 2)


def most_likely_stretch(factors: Sequence[Sequence[Any]], crossed: int) -> tuple[int, int]:
    """First and last row of the stretch around a row with the largest evidence, over alternatives (theory.md, eq. 88).

    >>> most_likely_stretch([["1/2"], ["2"], ["3"], ["1/2"]], 2)
    (1, 2)
    """
    found = {
        (first, last, j): sp.Mul(*(exact(row[j]) for row in factors[first : last + 1]))
        for first in range(crossed + 1)
        for last in range(crossed, len(factors))
        for j in range(len(factors[0]))
    }
    first, last, _ = max(found, key=lambda key: found[key])
    return first, last


def wave_variance(values: Sequence[Any], kept: Sequence[Sequence[Any]], waves: Sequence[Sequence[Any]]) -> Expr:
    """Mean square of the values along waves made orthonormal to what is kept and to each other (theory.md, eq. 89).

    >>> wave_variance([1, 2, 4], [[1, 1, 1]], [[-1, 0, 1]])
    9/2
    """
    y = sp.Matrix([exact(v) for v in values])
    columns = [sp.Matrix([exact(v) for v in column]) for column in (*kept, *waves)]
    basis = sp.GramSchmidt(columns)[len(kept) :]
    return sp.simplify(sp.Add(*(y.dot(b) ** 2 / b.dot(b) for b in basis)) / len(waves))


def slowness(correlation: Any, half_waves: Sequence[int], rows: int) -> Expr:
    """Power of noise with such a correlation of neighbours at half a wave, over its mean at others (theory.md, eq. 89).

    >>> slowness(0, [2, 3], 10)
    1
    """
    r = exact(correlation)

    def power(half: int) -> Expr:
        return 1 / (1 - 2 * r * sp.cos(sp.pi * half / rows) + r**2)

    return power(1) * len(half_waves) / sp.Add(*(power(k) for k in half_waves))


def first_passage_chance(distance: Any, drift: Any, variance: Any, time: Any) -> Expr:
    """Chance that a random walk with drift has gone up by a distance so far (theory.md, eq. 90)."""
    b, mu, v, t = exact(distance), exact(drift), exact(variance), exact(time)

    def phi(z: Expr) -> Expr:
        return (1 + sp.erf(z / sp.sqrt(2))) / 2

    return phi((mu * t - b) / sp.sqrt(v * t)) + sp.exp(2 * mu * b / v) * phi((-mu * t - b) / sp.sqrt(v * t))


def walk_ahead(
    times: Sequence[Any], logits: Sequence[Any], variances: Sequence[Any], wandering: Any, slope: Any, ahead: Any
) -> tuple[Expr, Expr]:
    """Mean and variance of a random walk with drift some time after its last row (theory.md, eq. 90).

    Args:
        times: Steps of the rows.
        logits: Logits of the rows.
        variances: Variances of their noise.
        wandering: Variance of the walk per step.
        slope: Variance of the prior of the drift; the level has a flat prior.
        ahead: Steps after the last row.

    >>> walk_ahead([0, 1], [0, 1], [1, 1], 1, 1, 1)
    (1, 3)
    """
    t = [exact(x) - exact(times[0]) for x in times]
    end = t[-1] + exact(ahead)
    r = [exact(x) for x in variances]
    w, s = exact(wandering), exact(slope)

    def shared(a: Expr, b: Expr) -> Expr:  # covariance of the walk at two times, its level known from the first row
        return r[0] + w * sp.Min(a, b) + s * a * b

    later = t[1:]
    seen = sp.Matrix(
        [[shared(a, b) + (r[i + 1] if i == j else 0) for j, b in enumerate(later)] for i, a in enumerate(later)]
    )
    cross = sp.Matrix([shared(a, end) for a in later])
    gain = seen.LUsolve(cross)
    rest = sp.Matrix([exact(z) - exact(logits[0]) for z in logits[1:]])
    return exact(logits[0]) + gain.dot(rest), shared(end, end) - gain.dot(cross)
