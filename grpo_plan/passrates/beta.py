"""Beta-distributed pass rates on the closed square of mean and intra-prompt correlation (theory.md, section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import MAX_SUMMED_GROUP_SIZE, as_group_size, as_one_group_size, as_positive, as_probability

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BetaPassRates:
    """Pass rates p ~ Beta(a, b), written as mean ``a / (a + b)`` and correlation ``1 / (a + b + 1)``.

    The two limits belong to the family: correlation 0 is one pass rate for all prompts, correlation 1 is
    prompts that always pass or always fail.

    Attributes:
        mean: Mean pass rate, in [0, 1].
        correlation: Correlation of two rollouts of one prompt, in [0, 1].

    >>> rates = BetaPassRates.from_shape(0.5, 0.5)
    >>> rates.dead([2, 4, 8]).round(6).tolist()
    [0.75, 0.546875, 0.392761]
    """

    mean: float
    correlation: float

    def __post_init__(self) -> None:
        """Check both parameters."""
        object.__setattr__(self, "mean", float(as_probability(self.mean, "mean")))
        object.__setattr__(self, "correlation", float(as_probability(self.correlation, "correlation")))

    @classmethod
    def from_shape(cls, a: float, b: float) -> BetaPassRates:
        """Beta(a, b) with both shapes above 0."""
        a, b = as_positive(a, "a"), as_positive(b, "b")
        return cls(mean=a / (a + b), correlation=1.0 / (a + b + 1.0))

    @cached_property
    def shape(self) -> tuple[float, float] | None:
        """``(a, b)``, or None at the limits, where the Beta has no density."""
        if not (0.0 < self.correlation < 1.0 and 0.0 < self.mean < 1.0):
            return None
        total = (1.0 - self.correlation) / self.correlation
        return self.mean * total, (1.0 - self.mean) * total

    def all_pass(self, group_size: ArrayLike) -> Floats:
        """``E[p**G] = B(a + G, b) / B(a, b)`` (theory.md, eq. 12); same shape as ``group_size``."""
        return self._power_mean(self.mean, 1.0 - self.mean, group_size)

    def all_fail(self, group_size: ArrayLike) -> Floats:
        """``E[(1 - p)**G] = B(a, b + G) / B(a, b)`` (theory.md, eq. 12); same shape as ``group_size``."""
        return self._power_mean(1.0 - self.mean, self.mean, group_size)

    def dead(self, group_size: ArrayLike) -> Floats:
        """Dead fraction D(G), the sum of `all_pass` and `all_fail` (1 at G = 1)."""
        total = np.minimum(self.all_pass(group_size) + self.all_fail(group_size), 1.0)
        return np.where(as_group_size(group_size) == 1, 1.0, total)

    def group_pmf(self, group_size: int) -> Floats:
        """Beta-binomial law of the passes k in a group of G, shape (G + 1,) (theory.md, eq. 13)."""
        g = as_one_group_size(group_size)
        log_pass, log_fail = self._log_rising(self.mean, g), self._log_rising(1.0 - self.mean, g)
        j = np.arange(1.0, g)
        log_total = float(np.sum(np.log1p((j - 1.0) * self.correlation)))
        k = np.arange(g + 1)
        with np.errstate(divide="ignore"):
            ratios = np.log((g - k[:-1]) / (k[:-1] + 1.0))
            interior = math.log1p(-self.correlation) if self.correlation < 1.0 else -math.inf
        log_choose = np.concatenate([[0.0], np.cumsum(ratios)])
        log_pmf = log_choose + log_pass[k] + log_fail[g - k] - log_total
        log_pmf[1:-1] += interior
        pmf = np.exp(log_pmf)
        pmf[0], pmf[-1] = float(self.all_fail(g)), float(self.all_pass(g))
        return pmf

    def density(self, pass_rate: ArrayLike) -> Floats | None:
        """Density at each pass rate, or None at the limits (point masses have none)."""
        if self.shape is None:
            return None
        a, b = self.shape
        p = as_probability(pass_rate)
        log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log_density = (a - 1.0) * np.log(p) + (b - 1.0) * np.log1p(-p) - log_beta
        return np.exp(log_density)

    def _log_rising(self, share: float, group_size: int) -> Floats:
        """Log of ``share * prod_{1 <= j < k} (share (1 - rho) + j rho)`` for k = 0..G (first term without 1 - rho)."""
        j = np.arange(1.0, group_size)
        with np.errstate(divide="ignore"):
            terms = np.log(np.concatenate([[share], share * (1.0 - self.correlation) + j * self.correlation]))
        return np.concatenate([[0.0], np.cumsum(terms)])

    def _power_mean(self, share: float, other: float, group_size: ArrayLike) -> Floats:
        """``E[x**G]`` for mean ``share`` as a product of G ratios; ``other`` is ``1 - share``, with its own digits.

        Each ratio ``(share (1 - rho) + j rho) / (1 - rho + j rho)`` is taken from the side that does not cancel.
        """
        g = as_group_size(group_size, maximum=MAX_SUMMED_GROUP_SIZE)
        j = np.arange(1.0, float(np.max(g, initial=1)))
        rho, s = self.correlation, 1.0 - self.correlation
        total = s + j * rho
        deficit = other * s / total
        with np.errstate(divide="ignore"):
            logs = np.where(deficit < 0.5, np.log1p(-np.minimum(deficit, 0.5)), np.log((share * s + j * rho) / total))
            first = np.log([share]) if share < 0.5 else np.log1p([-other])
        value: Floats = np.exp(np.cumsum(np.concatenate([first, logs]))[g - 1])
        return value
