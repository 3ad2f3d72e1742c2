"""From exact gradients to second moments of groups, kappa, and the noise of a step: no torch, no sampling.

A prompt has a pass rate p, a gradient g of p, and the mean squared score P after a pass and F after a fail. Scores have
means g/p and -g/q there and rollouts are independent, so for any advantages A+(k), A-(k) the second moment of a group
is a sum over the number of passes k: nothing of theory.md's model (eq. 24) is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from grpo_plan.estimators import get_estimator

Floats = NDArray[np.float64]
N = TypeVar("N", float, NDArray[np.float64])
Ints = NDArray[np.int64]
PROBE_SIZES = (4, 16)
ESTIMATORS = {"mean": "dr_grpo", "rloo": "rloo", "std": "grpo", "maxrl": "maxrl", "sign": "sign"}
TINY = 1e-12


@dataclass(frozen=True)
class Prompts:
    """Exact numbers of M prompts, each of shape (M,).

    Attributes:
        rate: Pass rate p.
        square: ``|grad p|**2``.
        after_pass: Mean squared score after a pass.
        after_fail: The same after a fail; where no fail was seen its least possible value, ``|grad p|**2 / q**2``.
    """

    rate: Floats
    square: Floats
    after_pass: Floats
    after_fail: Floats

    @classmethod
    def of(cls, given: Mapping[str, list[float]]) -> Prompts:
        """From lists as results hold them; NaN or None for unseen fails."""
        rate, square, passed, failed = (
            np.array(given[name], dtype=np.float64) for name in ("rate", "square", "after_pass", "after_fail")
        )
        least = square / np.maximum(1 - rate, TINY) ** 2
        return cls(rate, square, passed, np.where(np.isnan(failed), least, failed))

    def __len__(self) -> int:
        return len(self.rate)

    def chosen(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> Prompts:
        """Some of the prompts, or some of them more than once."""
        return Prompts(self.rate[index], self.square[index], self.after_pass[index], self.after_fail[index])

    @property
    def spread(self) -> Floats:
        """``pq``."""
        return self.rate * (1 - self.rate)

    @property
    def noise(self) -> Floats:
        """``S**2``: mean squared score less the part along the contrast, ``|grad p|**2 / pq``."""
        p = self.rate
        found: Floats = p * self.after_pass + (1 - p) * self.after_fail - self.square / np.maximum(self.spread, TINY)
        return found


def _passes(rate: Floats, size: int) -> Floats:
    """Law of the number of passes in groups of ``size``: shape (M, size + 1)."""
    k = np.arange(size + 1)
    law: Floats = comb(size, k) * rate[:, None] ** k * (1 - rate[:, None]) ** (size - k)
    return law


def group_squares(prompts: Prompts, size: int, estimator: str = "rloo") -> Floats:
    """``E|ghat_G|**2`` of each prompt, shape (M,)."""
    passed, failed = get_estimator(ESTIMATORS[estimator]).pair(size)
    k = np.arange(size + 1)
    law = _passes(prompts.rate, size)
    p, q = np.maximum(prompts.rate, TINY), np.maximum(1 - prompts.rate, TINY)
    own_pass, own_fail = law @ (k * passed**2), law @ ((size - k) * failed**2)
    two_pass, two_fail = law @ (k * (k - 1) * passed**2), law @ ((size - k) * (size - k - 1) * failed**2)
    crossed = law @ (2 * k * (size - k) * passed * failed)
    between = two_pass / p**2 + two_fail / q**2 - crossed / (p * q)
    total: Floats = own_pass * prompts.after_pass + own_fail * prompts.after_fail + between * prompts.square
    return total / size**2


def pulls(rate: Floats, size: int, estimator: str = "rloo") -> Floats:
    """Factor c of each prompt, shape (M,): the mean estimate of a group is c grad p."""
    passed, failed = get_estimator(ESTIMATORS[estimator]).pair(size)
    k = np.arange(size + 1)
    law = _passes(rate, size)
    p, q = np.maximum(rate, TINY), np.maximum(1 - rate, TINY)
    found: Floats = (law @ (k * passed) / p - law @ ((size - k) * failed) / q) / size
    return found


def kappa(prompts: Prompts) -> float:
    """Kappa of theory.md's model, pooled: ``E[pq S^2] / E[pq]`` over ``h^2 = E|grad p|^2 / E[p^2 q^2]``."""
    pq = prompts.spread
    h2 = prompts.square.mean() / (pq**2).mean()
    return float((pq * prompts.noise).mean() / pq.mean() / h2)


def line(values: tuple[N, N], sizes: tuple[int, int] = PROBE_SIZES) -> tuple[N, N]:
    """Intercept and slope in ``1/(G-1)`` through values at two sizes."""
    x, y = 1 / (sizes[0] - 1), 1 / (sizes[1] - 1)
    slope = (values[0] - values[1]) / (x - y)
    return values[0] - slope * x, slope


def _of_rewards(pq: N, ppqq: N, size: int) -> N:
    """``E[t^2]`` of RLOO (theory.md, eq. 25)."""
    return ppqq * (size - 2) * (size - 3) / (size * (size - 1)) + pq / size


def kappa_of_line(
    squares: tuple[float, float], pq: float, ppqq: float, sizes: tuple[int, int] = PROBE_SIZES
) -> tuple[float, float]:
    """Kappa and G* (at c0 = 0) of theory.md, eq. 49, from exact ``E|ghat_G|**2`` at two sizes."""
    intercept, slope = line(squares, sizes)
    reward_intercept, reward_slope = line((_of_rewards(pq, ppqq, sizes[0]), _of_rewards(pq, ppqq, sizes[1])), sizes)
    ratio = slope / intercept
    return (ratio * reward_intercept - reward_slope) / pq, 1 + max(ratio, 0.0) ** 0.5


def moments_of_rewards(passes: Floats, rollouts: int) -> tuple[float, float]:
    """Unbiased ``E[pq]`` and ``E[p^2 q^2]`` from passes (M,) of so many rollouts each."""
    k, n = passes, rollouts
    pq = k * (n - k) / (n * (n - 1))
    ppqq = k * (k - 1) * (n - k) * (n - k - 1) / (n * (n - 1) * (n - 2) * (n - 3))
    return float(pq.mean()), float(ppqq.mean())


def two_size_kappa(prompts: Prompts) -> tuple[float, float]:
    """What the two-size probe estimates, kappa and G*, from exact numbers."""
    a, b = (float(group_squares(prompts, size).mean()) for size in PROBE_SIZES)
    pq = prompts.spread
    return kappa_of_line((a, b), float(pq.mean()), float((pq**2).mean()))


def two_stage_size(prompts: Prompts, mean_gradient: float = 0.0, prompt_cost: float = 0.0) -> float:
    """G* of theory.md, eq. 27, with ``E[pq S^2]`` and ``E|grad p|^2 - |E grad p|^2`` as measured."""
    between = prompts.square.mean() - mean_gradient
    return float(1 + np.sqrt((1 + prompt_cost) * (prompts.spread * prompts.noise).mean() / between))


def noise_to_signal(square: float, signal: float, groups: float) -> float:
    """Variance of a step of so many groups over the square of its mean (theory.md, eq. 51)."""
    return (square - signal) / (groups * signal)


def bootstrap(
    values: Floats, statistic: Callable[[Floats], Floats], resamples: int = 600, seed: int = 0
) -> tuple[float, float, float]:
    """A function of means over prompts with its 95 % percentile interval.

    Args:
        values: Shape (M, K): the function takes their means.
        statistic: Means (R, K) to values (R,).
        resamples: Draws of M prompts with replacement.
        seed: Of the draws.
    """
    prompts = len(values)
    times = np.random.default_rng(seed).multinomial(prompts, np.full(prompts, 1 / prompts), size=resamples)
    found = statistic(times @ values / prompts)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(statistic(values.mean(0)[None])[0]), float(low), float(high)


def kappa_interval(prompts: Prompts) -> tuple[float, float, float]:
    """`kappa` with its interval over prompts."""
    pq = prompts.spread

    def statistic(m: Floats) -> Floats:
        return m[:, 0] * m[:, 3] / (m[:, 1] * m[:, 2])

    return bootstrap(np.stack([pq * prompts.noise, pq, prompts.square, pq**2], 1), statistic)


def two_size_interval(prompts: Prompts) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Both numbers of `two_size_kappa` with intervals over prompts; G* is infinite without an intercept above 0."""
    pq = prompts.spread
    values = np.stack([*(group_squares(prompts, size) for size in PROBE_SIZES), pq, pq**2], 1)

    def ratio(m: Floats) -> Floats:
        intercept, slope = line((m[:, 0], m[:, 1]))
        return np.where(intercept > 0, slope / np.where(intercept > 0, intercept, 1.0), np.inf)

    def of_kappa(m: Floats) -> Floats:
        first, second = (_of_rewards(m[:, 2], m[:, 3], size) for size in PROBE_SIZES)
        intercept, slope = line((first, second))
        found: Floats = (ratio(m) * intercept - slope) / m[:, 2]
        return found

    return bootstrap(values, of_kappa), bootstrap(values, lambda m: 1 + np.sqrt(np.maximum(ratio(m), 0.0)))
