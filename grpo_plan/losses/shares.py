"""Ratios of sums over prompts, with limits (theory.md, eq. 114 and 116)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.losses.lengths import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A number with its confidence limits.

    Attributes:
        value: The number; None where it is not known.
        low: Lower limit; None where fewer than two prompts tell, or the number is not known.
        high: Upper limit, likewise.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


UNKNOWN = Limits()
BALANCED = 20  # prompts from which the variance of a ratio is trusted below that of independent rollouts
MOST_COUNT = 1e12


def share_limits(
    part: Floats,
    whole: Floats,
    rollouts: float,
    level: float,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    balanced: bool = False,
) -> Limits:
    """A share ``sum part / sum whole`` of weight, with limits that take prompts as independent (theory.md, eq. 114).

    Args:
        part: Weight of the kind asked for, of each prompt, shape (P,), from 0 to ``whole``.
        whole: Weight of each prompt, shape (P,); prompts without any are left out.
        rollouts: Rollouts behind them: no share is taken to be surer than that of so many independent ones.
        level: Confidence level.
        bounds: What the share of any prompt is at least and at most by construction; the limits stay inside.
        balanced: Whether right and wrong cancel within a prompt by construction, so that from `BALANCED` prompts on
            the share may be surer than that of independent rollouts.

    >>> half = share_limits(np.array([1.0, 0.0, 1.0, 0.0]), np.ones(4), 4.0, 0.95)
    >>> half.value, round(half.low, 3), round(half.high, 3)
    (0.5, 0.001, 0.999)
    """
    from scipy.special import betaincinv

    has = whole > 0.0
    part, whole = part[has], whole[has]
    total = float(whole.sum())
    if not total > 0.0:
        return UNKNOWN
    share = min(max(float(part.sum()) / total, 0.0), 1.0)
    prompts = int(whole.size)
    if prompts < 2:
        return Limits(value=share)
    least, most_share = min(bounds[0], share), max(bounds[1], share)
    tail = (1.0 - level) / 2.0
    count = float(prompts)
    if 0.0 < share < 1.0:
        wider = _quantile(prompts - 1, tail) / _normal(tail)
        variance = standard_error((part - share * whole) / total) ** 2 * wider**2
        most = MOST_COUNT if balanced and prompts >= BALANCED else max(rollouts, count)
        count = min(share * (1.0 - share) / variance, most) if variance > 0.0 else most
    x = share * count
    low = float(betaincinv(x, count - x + 1.0, tail)) if share > 0.0 else 0.0
    high = float(betaincinv(x + 1.0, count - x, 1.0 - tail)) if share < 1.0 else 1.0
    return Limits(value=share, low=max(min(low, share), least), high=min(max(high, share), most_share))


def mean_limits(value: float, residuals: Floats, level: float) -> Limits:
    """A number with symmetric limits from its linearised residuals of prompts, shape (P,) (theory.md, eq. 116)."""
    if residuals.size < 2:
        return Limits(value=value)
    half = standard_error(residuals) * -_quantile(residuals.size - 1, (1.0 - level) / 2.0)
    return Limits(value=value, low=value - half, high=value + half)


def standard_error(residuals: Floats) -> float:
    """Standard error of a sum of residuals with mean 0, one a prompt."""
    p = residuals.size
    return float(np.sqrt(p / (p - 1.0) * (residuals @ residuals)))


def by_cluster(values: Floats, codes: NDArray[np.int64], clusters: int) -> Floats:
    """Sums of each prompt, shape (clusters,)."""
    return np.bincount(codes, weights=values, minlength=clusters).astype(np.float64)


def _quantile(freedom: int, tail: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, tail))


def _normal(tail: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(tail))
