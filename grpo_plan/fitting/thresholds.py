"""Likelihood-ratio thresholds of the profile bounds (theory.md, eq. 35 to 37)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.ustatistics import largest_measured_group_size
from grpo_plan.pilot import PilotHistogram

MANY_EVENTS = 100
FAR = 4  # beyond this many times n the threshold is raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the two ends of an interval."""

    lower: float
    upper: float

    def scaled(self, lower: float, upper: float) -> Thresholds:
        """Both multiplied by their own factor."""
        return Thresholds(lower=lower * self.lower, upper=upper * self.upper)


def chi_square_quantile(level: float, degrees: int = 1) -> float:
    """Quantile of the chi-square law.

    >>> round(chi_square_quantile(0.95), 4), round(chi_square_quantile(0.95, 8), 4)
    (3.8415, 15.5073)
    """
    if degrees == 1:
        return NormalDist().inv_cdf(0.5 + level / 2.0) ** 2
    from scipy.special import chdtri

    return float(chdtri(degrees, 1.0 - level))


@lru_cache(maxsize=4096)
def mid_p_threshold(events: int, prompts: int, level: float) -> float:
    """Likelihood ratio at the one-sided mid-P upper limit of a share, after ``events`` of ``prompts``.

    It replaces the chi-square quantile where the evidence for one end of an interval rests on few prompts.
    It is never below that quantile; beyond `MANY_EVENTS` it approaches it as ``1 / sqrt(events)``.

    >>> [round(mid_p_threshold(x, 50, 0.95), 2) for x in (0, 1, 2, 50)]
    [5.99, 4.66, 4.41, 3.84]
    """
    plain = chi_square_quantile(level)
    if events >= prompts:
        return plain
    if events > MANY_EVENTS:
        few = mid_p_threshold(MANY_EVENTS, 10**9, level)
        return plain + (few - plain) * math.sqrt(MANY_EVENTS / events)
    tail, low, high = (1.0 - level) / 2.0, events / prompts, 1.0
    for _ in range(60):
        share = 0.5 * (low + high)
        if _mid_p(events, prompts, share) > tail:
            low = share
        else:
            high = share
    ratio = (prompts - events) * (math.log1p(-events / prompts) - math.log1p(-low))
    if events:
        ratio += events * math.log(events / (prompts * low))
    return max(plain, 2.0 * ratio)


def _mid_p(events: int, prompts: int, share: float) -> float:
    """``P(X < x) + P(X = x) / 2`` for a binomial X."""
    log_term, odds = prompts * math.log1p(-share), math.log(share) - math.log1p(-share)
    total = 0.0
    for k in range(events):
        total += math.exp(log_term)
        log_term += math.log((prompts - k) / (k + 1.0)) + odds
    return total + 0.5 * math.exp(log_term)


def pointwise(level: float, *, prompts: int, for_low: int, for_high: int, far: bool) -> Thresholds:
    """Thresholds of an interval at one group size.

    Args:
        level: Confidence level.
        prompts: Number of prompts.
        for_low: Prompts that could pull the lower end down (for a dead fraction: mixed prompts).
        for_high: Prompts that could push the upper end up (for a dead fraction: dead prompts).
        far: Whether the group size is beyond `FAR` times the measured ones; each tail is then halved.
    """
    sure = 1.0 - (1.0 - level) / 2.0 if far else level
    return Thresholds(lower=mid_p_threshold(for_low, prompts, sure), upper=mid_p_threshold(for_high, prompts, sure))


def simultaneous(level: float, rollouts: int) -> Thresholds:
    """Thresholds that hold for every functional of F at once: chi-square with n degrees of freedom."""
    both = chi_square_quantile(level, max(rollouts, 1))
    return Thresholds(lower=both, upper=both)


def thresholds_for(
    histogram: PilotHistogram, functional: Functional, level: float, *, everywhere: bool = False, near: bool = False
) -> Thresholds:
    """Thresholds of both ends of the interval of a mean.

    Args:
        histogram: Cells of the pilot.
        functional: The mean; it says which prompts limit its upper end.
        level: Confidence level.
        everywhere: Whether the limits of all means shall hold at once.
        near: Whether to leave out the raised threshold far beyond n.
    """
    h = histogram
    if everywhere:
        return simultaneous(level, largest_measured_group_size(h))
    passes = int(h.prompts[h.successes == h.rollouts].sum())
    fails = int(h.prompts[h.successes == 0].sum())
    total = h.total_prompts
    kinds = {
        "dead": passes + fails,
        "mixed": total - passes - fails,
        "all-pass": passes,
        "all-fail": fails,
        "some-pass": total - fails,
    }
    kind = functional.pushed_up_by
    for_high = kinds[kind] if kind else min(kinds["dead"], kinds["mixed"])
    for_low = total - for_high if kind else for_high
    far = not near and functional.degree > FAR * largest_measured_group_size(h)
    return pointwise(level, prompts=total, for_low=for_low, for_high=for_high, far=far)
