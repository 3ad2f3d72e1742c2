"""How many prompts, and how many rounds, until N groups are mixed (theory.md, section 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_plan.batches.counts import CountSummary
from grpo_plan.batches.tails import binomial_split, hypergeometric_split

Floats = NDArray[np.float64]
TIE = 1.0 + 1e-12
FEW_ROUNDS = 200  # in reach of chance: summed one by one
FREQUENCIES = 1 << 16  # where the rounds in reach are more, higher ones are below 1e-14 (theory.md, eq. 53)
REACH_SDS, REACH_TERMS = 45.0, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Mean and variance of the rounds of a step, and its mean and variance in prompts."""

    mean: float
    variance: float
    prompts_mean: float
    prompts_variance: float
    surplus: float


class Waiting(Protocol):
    """A law of the prompts that a step draws until it has N mixed groups."""

    @property
    def wanted(self) -> int:
        """Mixed groups wanted, N."""

    @property
    def mean(self) -> float:
        """Mean number of prompts."""

    @property
    def variance(self) -> float:
        """Its variance."""

    @property
    def last(self) -> float:
        """The most prompts that it can take; infinite for an endless stream."""

    def beyond(self, prompts: int) -> float:
        """Chance that ``prompts`` prompts do not suffice."""

    def rounds(self, gen_batch_size: int) -> Rounds:
        """Mean and variance in rounds of ``gen_batch_size`` prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndlessPrompts:
    """Prompts drawn at random from a pool so large that it does not run down (theory.md, eq. 52 and 53).

    Attributes:
        wanted: Mixed groups wanted, N.
        dead: Chance that a group is dead, D, below 1.
    """

    wanted: int
    dead: float

    @property
    def mixed(self) -> float:
        """Chance that a group is mixed."""
        return 1.0 - self.dead

    @property
    def mean(self) -> float:
        """``N / (1 - D)``."""
        return self.wanted / self.mixed

    @property
    def variance(self) -> float:
        """``N D / (1 - D)**2``."""
        return self.wanted * self.dead / self.mixed**2

    @property
    def last(self) -> float:
        """No number of prompts is sure to suffice, unless no group is dead."""
        return float(self.wanted) if self.dead == 0.0 else math.inf

    def beyond(self, prompts: int) -> float:
        """Chance that among ``prompts`` groups fewer than N are mixed."""
        return binomial_split(prompts, self.wanted, self.mixed, self.dead)[0]

    def rounds(self, gen_batch_size: int) -> Rounds:
        """Mean and variance in rounds; the surplus is mixed groups beyond N (theory.md, eq. 53)."""
        size = gen_batch_size
        if self.dead == 0.0:
            mean, variance = float(-(-self.wanted // size)), 0.0
        elif self.wanted == 1:
            stay = math.exp(size * math.log(self.dead))  # the whole round is dead
            leave = -math.expm1(size * math.log(self.dead))
            mean, variance = 1.0 / leave, stay / leave**2
        elif 26.0 * self.variance**0.5 <= FEW_ROUNDS * size:
            mean, variance = summed_rounds(self, size)
        else:
            mean, variance = self._rounds_by_frequency(size)
        return Rounds(
            mean=mean,
            variance=variance,
            prompts_mean=mean * size,
            prompts_variance=variance * size**2,
            surplus=max(0.0, self.mixed * mean * size - self.wanted),
        )

    def _rounds_by_frequency(self, size: int) -> tuple[float, float]:
        """``ceil(T / B)`` as ``T / B`` and a part of period B, whose mean is a finite Fourier sum."""
        base, part_mean = self.mean, (size - 1) / (2 * size)
        part_square = (size - 1) * (2 * size - 1) / (6 * size**2)
        half = (size - 1) // 2
        index = np.arange(1, min(half, FREQUENCIES) + 1, dtype=np.float64)
        weight = np.full(index.size, 2.0)
        if size % 2 == 0 and half < FREQUENCIES:
            index, weight = np.append(index, size / 2), np.append(weight, 1.0)
        angle = 2.0 * math.pi * index / size
        away = 2.0 * np.sin(angle / 2.0) ** 2 - 1j * np.sin(angle)  # 1 - omega
        omega = 1.0 - away
        left = self.mixed + self.dead * away  # 1 - D omega
        wave = np.exp(self.wanted * np.log(self.mixed * omega / left))
        first = -wave / (size * away)
        second = wave * (-1.0 / (size * away) - 2.0 * omega / (size * away) ** 2)
        part_mean += float(weight @ first.real)
        part_square += float(weight @ second.real)
        covariance = float(weight @ (first * (self.wanted / left - base)).real)
        variance = self.variance / size**2 + 2.0 * covariance / size + part_square - part_mean**2
        return base / size + part_mean, variance


@dataclass(frozen=True, slots=True, kw_only=True)
class FinitePrompts:
    """Prompts drawn without replacement from a set whose groups are mixed or dead already (theory.md, eq. 54).

    Attributes:
        wanted: Mixed groups wanted, N, at most ``mixed``.
        prompts: Prompts of the set, P.
        mixed: Those whose group is mixed, K.
    """

    wanted: int
    prompts: int
    mixed: int

    @property
    def mean(self) -> float:
        """``N (P + 1) / (K + 1)``."""
        return self.wanted * (self.prompts + 1) / (self.mixed + 1)

    @property
    def variance(self) -> float:
        """Variance of the negative hypergeometric law."""
        p, k, n = self.prompts, self.mixed, self.wanted
        return n * (p - k) * (p + 1) * (k - n + 1) / ((k + 1) ** 2 * (k + 2))

    @property
    def last(self) -> float:
        """With all dead prompts drawn, every further one is mixed."""
        return float(self.prompts - self.mixed + self.wanted)

    def beyond(self, prompts: int) -> float:
        """Chance that among ``prompts`` groups fewer than N are mixed."""
        return hypergeometric_split(self.prompts, self.mixed, min(prompts, self.prompts), self.wanted)[0]

    def pmf(self) -> tuple[Floats, Floats]:
        """Numbers of prompts in reach of chance, and their probabilities, by ratios from the likeliest."""
        p, k, n = self.prompts, self.mixed, self.wanted
        reach = REACH_SDS * self.variance**0.5 + REACH_TERMS
        first, last = max(n, int(self.mean - reach)), min(int(self.last), int(self.mean + reach))
        t = np.arange(first, last + 1, dtype=np.float64)
        step = t[:-1]
        logs = np.log(step * (p - step - k + n) / ((step - n + 1.0) * (p - step)))
        heights = np.concatenate([[0.0], np.cumsum(logs)])
        weights = np.exp(heights - heights.max())
        return t, weights / weights.sum()

    def rounds(self, gen_batch_size: int) -> Rounds:
        """Mean and variance in rounds, of which the last of the set may be short."""
        t, weights = self.pmf()
        rounds = np.ceil(t / gen_batch_size)
        drawn = np.minimum(rounds * gen_batch_size, float(self.prompts))
        left = np.maximum(self.prompts - t, 1.0)
        mean, prompts_mean = float(weights @ rounds), float(weights @ drawn)
        return Rounds(
            mean=mean,
            variance=float(weights @ (rounds - mean) ** 2),
            prompts_mean=prompts_mean,
            prompts_variance=float(weights @ (drawn - prompts_mean) ** 2),
            surplus=float(weights @ ((drawn - t) * (self.mixed - self.wanted) / left)),
        )


def summed_rounds(law: Waiting, gen_batch_size: int) -> tuple[float, float]:
    """Mean and variance of the rounds, from the chances that r rounds do not suffice (theory.md, eq. 53)."""
    start = max(0, int((law.mean - 14.0 * law.variance**0.5) / gen_batch_size) - 1)
    while start and law.beyond(start * gen_batch_size) < 1.0:
        start = max(0, start - 1 - start // 8)
    mean, second, r = float(start), float(start) ** 2, start
    while (chance := law.beyond(r * gen_batch_size)) > 1e-18:
        mean += chance
        second += (2 * (r - start) + 1) * chance  # about `start`, so that the variance keeps its digits
        r += 1
    second -= float(start) ** 2
    return mean, max(0.0, second - (mean - start) ** 2)


def fewest_prompts(law: Waiting, tail: float) -> int:
    """Fewest prompts that do not suffice with chance ``tail`` at most; a quantile of the law."""
    return _fewest(lambda t: law.beyond(t) <= tail * TIE, law)


def _fewest(enough: Callable[[int], bool], law: Waiting) -> int:
    low, spread = law.wanted - 1, int(law.variance**0.5) + 1
    if math.isfinite(law.last) and not enough(int(law.last) - 1):
        return int(law.last)
    high = max(law.wanted, int(law.mean))
    while not enough(high):
        low, high, spread = high, high + spread, 2 * spread
    step = int(law.variance**0.5) + 1
    while high - step > low and enough(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def prompts_summary(law: Waiting) -> CountSummary:
    """Prompts drawn one at a time (theory.md, eq. 52)."""
    p05, p50, p95 = (float(fewest_prompts(law, tail)) for tail in (0.95, 0.5, 0.05))
    return CountSummary(mean=law.mean, sd=law.variance**0.5, p05=p05, p50=p50, p95=p95)
