"""Differences of two means over prompts, paired by prompt or not (theory.md, eq. 56 to 58)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_level
from grpo_plan.fitting.intervals import Interval

Floats = NDArray[np.float64]
HALVINGS = 44  # of an interval of at most 2: to 1e-13
LEAST_VARIANCE = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of two shares with its confidence limits, all in [-1, 1].

    Attributes:
        value: The observed difference.
        low: Lower limit.
        high: Upper limit.
        level: Confidence level of the limits.
        prompts: Prompts behind it (those of the smaller side where prompts are not paired).
        scatter: Mean square of a prompt's difference, a pseudo-prompt included; for the size of another pilot.
    """

    value: float
    low: float
    high: float
    level: float
    prompts: int
    scatter: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval says which of the two is larger."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low

    def times(self, factor: float) -> Difference:
        """The difference of the same two means times a factor."""
        ends = sorted((factor * self.low, factor * self.high))
        return Difference(
            value=factor * self.value,
            low=ends[0] + 0.0,
            high=ends[1] + 0.0,
            level=self.level,
            prompts=self.prompts,
            scatter=factor**2 * self.scatter,
        )


def paired_difference(differences: Floats, level: float) -> Difference:
    """Mean of the differences of M prompts with score limits (theory.md, eq. 56 and 57).

    Args:
        differences: One for each prompt, shape (M,), M at least 1, each in [-1, 1].
        level: Confidence level, in (0, 1).

    >>> d = paired_difference(np.array([0.0] * 45 + [-1.0] * 5), 0.95)
    >>> round(d.value, 3), round(d.low, 3), round(d.high, 3)
    (-0.1, -0.214, -0.006)
    """
    m = differences.size
    value = float(differences.sum()) / m
    up, down = float(differences[differences > 0.0].sum()), -float(differences[differences < 0.0].sum())
    squares = float(differences @ differences)
    low, high = (float(end) for end in score_limits(up, down, squares, m, level))
    return Difference(
        value=value,
        low=min(low, value),
        high=max(high, value),
        level=level,
        prompts=m,
        scatter=(squares + 1.0) / (m + 1.0),
    )


def score_limits(
    up: ArrayLike, down: ArrayLike, squares: ArrayLike, prompts: int, level: float
) -> tuple[Floats, Floats]:
    """Score limits of a mean difference, one pseudo-prompt added (theory.md, eq. 57).

    Args:
        up: Sum of the differences above 0, any shape.
        down: Minus the sum of those below 0, the same shape.
        squares: Sum of their squares, the same shape.
        prompts: Number of prompts, those without a difference included.
        level: Confidence level, in (0, 1).

    Returns:
        Low and high limits in [-1, 1], of that shape.

    >>> low, high = score_limits(0.0, 0.0, 0.0, 50, 0.95)
    >>> round(low.item(), 4), round(high.item(), 4)
    (-0.0786, 0.0786)
    """
    z = NormalDist().inv_cdf(0.5 + as_level(level) / 2.0)
    rising, falling, square = (np.asarray(v, dtype=np.float64) for v in (up, down, squares))
    size = (square + 1.0) / (rising + falling + 1.0)
    rises, falls = (rising + 0.5) / size, (falling + 0.5) / size
    mirrored = _upper_limit(np.stack([rises, falls]), np.stack([falls, rises]), prompts + 1.0, z)
    return np.maximum(-size * mirrored[1], -1.0), np.minimum(size * mirrored[0], 1.0)


def _upper_limit(rises: Floats, falls: Floats, total: float, z: float) -> Floats:
    """Largest difference, in units of the size of one, that the score test keeps; by bisection, as it falls in it."""
    inside, outside = (rises - falls) / total, np.ones(np.shape(rises))
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        beyond = score_statistic(rises, falls, total, middle) < -z
        inside, outside = np.where(beyond, inside, middle), np.where(beyond, middle, outside)
    return outside


def score_statistic(rises: ArrayLike, falls: ArrayLike, total: float, difference: ArrayLike) -> Floats:
    """Tango's score statistic of ``rises`` and ``falls`` among ``total`` prompts (theory.md, eq. 57).

    >>> round(score_statistic(9.0, 1.0, 50.0, 0.0).item(), 6) == round(8 / 10**0.5, 6)  # McNemar
    True
    """
    r, f, x = (np.asarray(v, dtype=np.float64) for v in (rises, falls, difference))
    b = -r - f + (2.0 * total - r + f) * x
    c = -f * x * (1.0 - x)
    share = (np.sqrt(np.maximum(b * b - 8.0 * total * c, 0.0)) - b) / (4.0 * total)
    variance = total * (2.0 * share + x * (1.0 - x))
    statistic: Floats = (r - f - total * x) / np.sqrt(np.maximum(variance, LEAST_VARIANCE))
    return statistic


def unpaired_difference(
    first: Interval, second: Interval, level: float, *, prompts: int, scatter: float = 2.0
) -> Difference:
    """``second - first`` of two independent means by square-and-add (theory.md, eq. 57).

    Args:
        first: Mean and limits of the one.
        second: Mean and limits of the other.
        level: Level of these limits, and of the answer.
        prompts: Prompts of the smaller side.
        scatter: Sum of the variances of a prompt's value on the two sides.

    >>> d = unpaired_difference(Interval(value=0.5, low=0.4, high=0.6), Interval(value=0.5, low=0.4, high=0.6), 0.95,
    ...                         prompts=100)
    >>> round(d.low, 4), round(d.high, 4)
    (-0.1414, 0.1414)
    """
    value = second.value - first.value
    low = value - sqrt((second.value - second.low) ** 2 + (first.high - first.value) ** 2)
    high = value + sqrt((second.high - second.value) ** 2 + (first.value - first.low) ** 2)
    return Difference(
        value=value, low=max(low, -1.0), high=min(high, 1.0), level=level, prompts=prompts, scatter=scatter
    )


def prompts_to_detect(difference: float, scatter: float, *, level: float, power: float) -> int:
    """Prompts that show a difference with a given chance (theory.md, eq. 58).

    Args:
        difference: The true difference, not 0.
        scatter: Mean square of a prompt's difference, at least ``difference**2``.
        level: Confidence level of the interval that shall exclude 0.
        power: Chance that it does.

    >>> prompts_to_detect(0.1, 0.2, level=0.95, power=0.8)
    155
    """
    size = abs(difference)
    variance = max(scatter - size**2, 0.0)
    z_level, z_power = NormalDist().inv_cdf(0.5 + level / 2.0), NormalDist().inv_cdf(power)
    return ceil(((z_level * sqrt(max(scatter, size**2)) + z_power * sqrt(variance)) / size) ** 2)
