"""Binomial law and waiting time in plain arithmetic, as the page of a report does them (theory.md, eq. 21, 52, 53).

No array library and no special function: each function here has a twin of the same name in the page's script.
"""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass

TAIL_SDS, TAIL_TERMS = 13, 60
NEGLIGIBLE = 1e-18
FEW_ROUNDS = 200
FREQUENCIES = 65536
TIE = 1.0 + 1e-12
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
# log n! - log(sqrt(2 pi n) (n / e)**n) for n = 1..15; the first place is never asked for
STIRLING = (
    0.0,
    *(math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - HALF_LOG_TAU for n in range(1, 16)),
)


def binomial_quantiles(trials: int, dead: float, shares: tuple[float, ...]) -> list[float]:
    """Quantiles of the mixed groups among ``trials``, each dead with chance ``dead``.

    The law of the dead groups by exact ratios from its mode, 13 standard deviations and 60 terms both ways.

    >>> binomial_quantiles(100, 0.8, (0.05, 0.5, 0.95))
    [14.0, 20.0, 27.0]
    """
    alive = 1.0 - dead
    mode = min(math.floor((trials + 1) * dead), trials)
    half = min(trials, math.floor(TAIL_SDS * math.sqrt(trials * (dead * alive))) + TAIL_TERMS)
    lowest, highest = max(0, mode - half), min(trials, mode + half)
    weights = [0.0] * (highest - lowest + 1)
    weights[mode - lowest] = 1.0
    for k in range(mode + 1, highest + 1):
        weights[k - lowest] = weights[k - 1 - lowest] * ((trials - k + 1) * dead / (k * alive) if alive > 0.0 else 0.0)
    for k in range(mode - 1, lowest - 1, -1):
        weights[k - lowest] = weights[k + 1 - lowest] * ((k + 1) * alive / ((trials - k) * dead) if dead > 0.0 else 0.0)
    total = math.fsum(weights)
    found: list[float] = []
    reached, k = 0.0, highest  # few mixed groups first: many dead ones
    for share in shares:
        wanted = share * (1.0 - 1e-12)
        while k > lowest and reached + weights[k - lowest] / total < wanted:
            reached += weights[k - lowest] / total
            k -= 1
        found.append(float(trials - k))
    return found


def stirling_rest(n: float) -> float:
    """``log n! - log(sqrt(2 pi n) (n / e)**n)`` for whole n of at least 1."""
    if n < 16.0:
        return STIRLING[int(n)]
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def deviance(x: float, mean: float) -> float:
    """``x log(x / mean) + mean - x`` without cancellation near ``x = mean``."""
    gap = x - mean
    if abs(gap) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    share = gap / (x + mean)
    total, term, step = gap * share, 2.0 * x * share, 1
    while True:
        term *= share * share
        following = total + term / (2 * step + 1)
        if following == total:
            return total
        total, step = following, step + 1


def binomial_pmf(trials: float, successes: float, success: float, failure: float) -> float:
    """Chance of exactly this many successes (Loader, 2000).

    >>> round(binomial_pmf(4, 2, 0.5, 0.5), 12)
    0.375
    """
    n, k = trials, successes
    if k == 0.0:
        return math.exp(n * (math.log(failure) if failure < 0.5 else math.log1p(-success)))
    if k == n:
        return math.exp(n * (math.log(success) if success < 0.5 else math.log1p(-failure)))
    exponent = stirling_rest(n) - stirling_rest(k) - stirling_rest(n - k)
    exponent -= deviance(k, n * success) + deviance(n - k, n * failure)
    return math.exp(exponent - 0.5 * (math.log(2.0 * math.pi * k) + math.log1p(-k / n)))


def chance_of_fewer(trials: int, wanted: int, success: float, failure: float) -> float:
    """Chance of fewer than ``wanted`` successes, to full relative precision where it is small.

    >>> round(chance_of_fewer(3, 2, 0.5, 0.5), 12)
    0.5
    """
    if wanted <= 0:
        return 0.0
    if wanted > trials or success == 0.0:
        return 1.0
    if failure == 0.0:
        return 0.0
    n, total, term = float(trials), 1.0, 1.0
    if wanted - 1 < n * success:
        k = float(wanted - 1)
        while k > 0.0 and term > NEGLIGIBLE * total:
            term *= k * failure / ((n - k + 1.0) * success)
            total += term
            k -= 1.0
        return min(binomial_pmf(n, float(wanted - 1), success, failure) * total, 1.0)
    k = float(wanted)
    while k < n and term > NEGLIGIBLE * total:
        term *= (n - k) * success / ((k + 1.0) * failure)
        total += term
        k += 1.0
    return max(1.0 - binomial_pmf(n, float(wanted), success, failure) * total, 0.0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Prompts drawn at random until ``wanted`` groups are mixed, each dead with chance ``dead`` below 1 (eq. 52)."""

    wanted: int
    dead: float

    @property
    def mean(self) -> float:
        """``N / (1 - D)``."""
        return self.wanted / (1.0 - self.dead)

    @property
    def variance(self) -> float:
        """``N D / (1 - D)**2``."""
        return self.wanted * self.dead / (1.0 - self.dead) ** 2

    def beyond(self, prompts: int) -> float:
        """Chance that so many prompts do not suffice."""
        return chance_of_fewer(prompts, self.wanted, 1.0 - self.dead, self.dead)

    def fewest(self, tail: float) -> int:
        """Fewest prompts that do not suffice with chance ``tail`` at most."""
        if self.dead == 0.0:
            return self.wanted
        spread = math.floor(math.sqrt(self.variance)) + 1
        low, high, step = self.wanted - 1, max(self.wanted, math.floor(self.mean)), spread
        while self.beyond(high) > tail * TIE:
            low, high, step = high, high + step, 2 * step
        step = spread
        while high - step > low and self.beyond(high - step) <= tail * TIE:
            high, step = high - step, 2 * step
        low = max(low, high - step)
        while high - low > 1:
            middle = (low + high) // 2
            if self.beyond(middle) <= tail * TIE:
                high = middle
            else:
                low = middle
        return high

    def rounds(self, size: int) -> tuple[float, float]:
        """Mean and variance in rounds of ``size`` prompts (eq. 53)."""
        if self.dead == 0.0:
            return float(-(-self.wanted // size)), 0.0
        if self.wanted == 1:
            stay, leave = math.exp(size * math.log(self.dead)), -math.expm1(size * math.log(self.dead))
            return 1.0 / leave, stay / leave**2
        if 26.0 * math.sqrt(self.variance) <= FEW_ROUNDS * size:
            return self._summed(size)
        return self._by_frequency(size)

    def within(self, size: int, cap: int) -> tuple[float, float]:
        """Mean and variance of the rounds of a step that gives up after ``cap`` of them (eq. 139)."""
        if self.beyond(cap * size) <= NEGLIGIBLE:
            return self.rounds(size)
        more, second, r = 0.0, 0.0, 0
        while r < cap:
            chance = 1.0 if r == 0 else self.beyond(r * size)
            more += chance
            second += (2 * r + 1) * chance
            r += 1
        return more, max(0.0, second - more * more)

    def held(self, prompts: int) -> float:
        """Mean of the lesser of N and the mixed groups among so many prompts (eq. 139).

        >>> round(Waiting(1, 0.5).held(2), 12)
        0.75
        """
        success = 1.0 - self.dead
        below = chance_of_fewer(prompts - 1, self.wanted - 1, success, self.dead) if self.wanted > 1 else 0.0
        return self.wanted * (1.0 - self.beyond(prompts)) + prompts * success * below

    def _summed(self, size: int) -> tuple[float, float]:
        start = max(0, math.floor((self.mean - 14.0 * math.sqrt(self.variance)) / size) - 1)
        while start > 0 and self.beyond(start * size) < 1.0:
            start = max(0, start - 1 - start // 8)
        more, second, r = 0.0, 0.0, start
        chance = self.beyond(r * size)
        while chance > NEGLIGIBLE:
            more += chance
            second += (2 * (r - start) + 1) * chance
            r += 1
            chance = self.beyond(r * size)
        return start + more, max(0.0, second - more * more)

    def _by_frequency(self, size: int) -> tuple[float, float]:
        alive, dead, wanted = 1.0 - self.dead, self.dead, self.wanted
        part, square = (size - 1) / (2 * size), (size - 1) * (2 * size - 1) / (6 * size * size)
        covariance, half = 0.0, (size - 1) // 2
        last = min(half, FREQUENCIES)
        middle = 1 if size % 2 == 0 and half < FREQUENCIES else 0
        for j in range(1, last + middle + 1):
            weight = 1.0 if j > last else 2.0
            angle = math.pi * j / size if j <= last else math.pi / 2
            away = complex(2.0 * math.sin(angle) ** 2, -math.sin(2.0 * angle))  # 1 - omega
            omega, left = 1.0 - away, alive + dead * away  # 1 - D omega
            wave = cmath.exp(wanted * cmath.log(alive * omega / left))
            first = -wave / (size * away)
            part += weight * first.real
            square += weight * (wave * (-1.0 / (size * away) - 2.0 * omega / (size * away) ** 2)).real
            covariance += weight * (first * (wanted / left - self.mean)).real
        variance = self.variance / size**2 + 2.0 * covariance / size + square - part**2
        return self.mean / size + part, variance
