"""Weighted sums over prompts: their ratio with a jackknife interval, their tails, and the verdict of several tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.independence.verdict import SMALL_SHIFT, IndependenceVerdict

SMALL_SKEWNESS = 1e-3
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A correlation of rollouts, its interval and the test that it is 0; None where no prompt tells."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    z: float | None = None
    p: float | None = None


def correlation_of(
    score: Floats, variance: Floats, third: Floats, slope: Floats, spread: Floats, weight: Floats, level: float
) -> Correlation:
    """Ratio of weighted sums over prompts, with its interval and test (theory.md, eq. 46).

    Args:
        score: Statistic of each prompt minus its mean under independence, given the passes; shape (M,).
        variance: Its variance under independence.
        third: Its third central moment under independence, or an upper value.
        slope: Covariance of two rollouts over the score.
        spread: Unbiased variance of one rollout.
        weight: Weight of each prompt, from the numbers of its rollouts alone.
        level: Confidence level.
    """
    scale = weight * slope
    top, bottom = scale * score, weight * spread
    total = float(bottom.sum())
    deviation = float((scale**2 * variance).sum()) ** 0.5
    if not total > 0 or not deviation > 0:
        return Correlation()
    value = min(max(float(top.sum()) / total, -1.0), 1.0)  # a ratio of unbiased sums can leave the range
    z = float(top.sum()) / deviation
    p = two_sided_p(z, float((scale**3 * third).sum()) / deviation**3)
    rest, count = total - bottom, len(bottom)
    if count < 2 or not np.all(rest > 0):
        return Correlation(value=value, z=z, p=p)
    leave_one_out = (top.sum() - top) / rest
    jackknife = float((count - 1.0) ** 2 / count * leave_one_out.var(ddof=1)) ** 0.5
    half = max(jackknife, deviation / total) * t_quantile(level, count - 1)
    return Correlation(value=value, low=max(value - half, -1.0), high=min(value + half, 1.0), z=z, p=p)


def two_sided_p(z: float, skewness: float = 0.0) -> float:
    """Twice the smaller tail of a standardised sum: the larger of the normal and a shifted gamma of this skewness.

    >>> [round(two_sided_p(z, 0.5), 3) for z in (-1.96, 1.96)], round(two_sided_p(1.96), 3)
    ([0.05, 0.074], 0.05)
    """
    normal = math.erfc(abs(z) / math.sqrt(2.0))
    if skewness < SMALL_SKEWNESS:
        return normal
    from scipy.special import gammainc, gammaincc

    shape = 4.0 / skewness**2
    x = max(shape + 2.0 * z / skewness, 0.0)
    tail = gammaincc(shape, x) if z > 0 else gammainc(shape, x)
    return float(min(1.0, max(normal, 2.0 * tail)))


def chi2_tail(chi2: float, degrees: int) -> float:
    """Chance of a chi-square above this one."""
    from scipy.special import gammaincc

    return float(gammaincc(0.5 * degrees, 0.5 * chi2))


def t_quantile(level: float, degrees: int) -> float:
    """Two-sided quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + 0.5 * level))


def first_alarm(
    drift_p: float | None, largest_shift: float, correlations: Sequence[Correlation], level: float
) -> IndependenceVerdict:
    """The first test whose p-value is below its share of ``1 - level`` (Bonferroni over the tests that were made).

    A drift comes first, unless it is small: then only if nothing else raises an alarm.
    """
    tests = [(sign_of(c), c.p) for c in correlations]
    drift = (IndependenceVerdict.DRIFTING, drift_p)
    small = (IndependenceVerdict.SMALL_DRIFT, drift_p)
    tests = [*tests, small] if largest_shift < SMALL_SHIFT else [drift, *tests]
    made = [(verdict, p) for verdict, p in tests if p is not None]
    if not made:
        return IndependenceVerdict.TOO_FEW
    share = (1.0 - level) / len(made)
    return next((verdict for verdict, p in made if p < share), IndependenceVerdict.INDEPENDENT)


def sign_of(correlation: Correlation) -> IndependenceVerdict:
    """What a correlation means if it is not 0."""
    return IndependenceVerdict.REPELLED if (correlation.value or 0.0) < 0 else IndependenceVerdict.CORRELATED


def in_words(p: float) -> str:
    """A p-value for a sentence."""
    return "p < 1e-6" if p < 1e-6 else f"p = {p:.2g}"


def interval_in_words(low: float | None, high: float | None) -> str:
    """Limits for a sentence; nothing where they are unknown."""
    return "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"
