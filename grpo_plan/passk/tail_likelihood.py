"""Likelihood of a Beta with an atom at 0, and its profiles (theory.md, eq. 137 and 138)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.thresholds import chi_square_quantile
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
LOG_A = (-6.0, 5.0)
LOG_B = (-6.0, 12.0)
LOGIT = 12.0  # of the atom
STARTS = (0.02, 0.3, 0.8)  # share of the all-fail prompts that starts in the atom
PRECISION = 1e-4


def atom_threshold(level: float) -> float:
    """Likelihood ratio beyond which an atom at 0 is there: a share of 0 is an edge, so the test has one side.

    >>> round(atom_threshold(0.95), 2)
    2.71
    """
    return NormalDist().inv_cdf(level) ** 2


@dataclass(frozen=True, kw_only=True, eq=False)
class TailLikelihood:
    """Log-likelihood of a share that never passes and a Beta(a, b) for the others, without binomial coefficients.

    Attributes:
        rollouts: n of each cell, shape (C,).
        successes: k of each cell, shape (C,).
        prompts: Prompts of each cell, shape (C,).
    """

    rollouts: Floats
    successes: Floats
    prompts: Floats = field(repr=False)

    @classmethod
    def of(cls, histogram: PilotHistogram) -> TailLikelihood:
        """The likelihood of a pilot."""
        n, k, prompts = histogram.rollouts, histogram.successes, histogram.prompts
        return cls(rollouts=n.astype(float), successes=k.astype(float), prompts=prompts.astype(float))

    def at(self, log_a: float, log_b: float, never: float = 0.0) -> float:
        """Log-likelihood at one point."""
        from scipy.special import betaln

        a, b = math.exp(log_a), math.exp(log_b)
        logs = betaln(self.successes + a, self.rollouts - self.successes + b) - betaln(a, b)
        if never > 0.0:
            zero = self.successes == 0.0
            mixed = math.log1p(-never) + logs
            logs = np.where(zero, np.logaddexp(math.log(never), mixed), mixed)
        return float(self.prompts @ logs)

    @cached_property
    def plain(self) -> tuple[Floats, float]:
        """(log a, log b) of the best Beta, and its log-likelihood."""
        return max((self._ascend(lambda x: self.at(x[0], x[1]), x) for x in self._starts()), key=lambda f: f[1])

    @cached_property
    def inflated(self) -> tuple[Floats, float]:
        """(log a, log b, logit of the atom) of the best Beta with an atom, and its log-likelihood."""
        zero = float(self.prompts[self.successes == 0.0].sum()) / float(self.prompts.sum())
        found = []
        for share in STARTS:
            never = min(max(share * zero, 1e-4), 0.99)
            wider = self.plain[0] + [2.0 * share, share]  # without the atom the others lie further from 0
            point = np.append(wider, math.log(never / (1.0 - never)))
            found.append(self._ascend(lambda x: self.at(x[0], x[1], _expit(x[2])), point))
        return max(found, key=lambda f: f[1])

    @property
    def ratio(self) -> float:
        """Likelihood ratio of the atom, at least 0 (theory.md, eq. 138)."""
        return max(0.0, 2.0 * (self.inflated[1] - self.plain[1]))

    def exponent(self, level: float) -> tuple[float | None, float | None, float | None]:
        """Exponent a of the plain Beta with its profile limits; None where it runs to the edge of the family."""
        best, top = self.plain
        if best[0] >= LOG_A[1] - PRECISION:
            return None, None, None
        from scipy.optimize import minimize_scalar

        def profile(log_a: float) -> float:
            found = minimize_scalar(lambda y: -self.at(log_a, y), bounds=LOG_B, method="bounded")
            return -float(found.fun)

        low, high = self._limits(profile, float(best[0]), top, LOG_A, level)
        return math.exp(best[0]), 0.0 if low is None else math.exp(low), None if high is None else math.exp(high)

    def floor(self, level: float) -> tuple[float, float, float]:
        """Share of the atom with its profile limits; an end at the edge is 0 or 1."""
        best, top = self.inflated

        def profile(logit: float) -> float:
            never = _expit(logit)
            return self._ascend(lambda x: self.at(x[0], x[1], never), best[:2])[1]

        low, high = self._limits(profile, float(best[2]), top, (-LOGIT, LOGIT), level)
        return _expit(float(best[2])), 0.0 if low is None else _expit(low), 1.0 if high is None else _expit(high)

    def _starts(self) -> list[Floats]:
        mean = float(self.prompts @ (self.successes / self.rollouts)) / float(self.prompts.sum())
        mean = min(max(mean, 1e-6), 1.0 - 1e-6)
        return [np.clip(np.log([mean * s, (1.0 - mean) * s]), LOG_A[0], LOG_B[1]) for s in (0.5, 10.0)]

    def _ascend(self, value: Callable[[Floats], float], start: Floats) -> tuple[Floats, float]:
        from scipy.optimize import minimize

        bounds = [LOG_A, LOG_B, (-LOGIT, LOGIT)][: start.size]
        inside = np.clip(start, [b[0] for b in bounds], [b[1] for b in bounds])
        found = minimize(lambda x: -value(x), inside, method="L-BFGS-B", bounds=bounds)
        return np.asarray(found.x, dtype=np.float64), -float(found.fun)

    def _limits(
        self, profile: Callable[[float], float], best: float, top: float, edges: tuple[float, float], level: float
    ) -> tuple[float | None, float | None]:
        """Where the profile falls by half the chi-square quantile; None where it does not before the edge."""
        from scipy.optimize import brentq

        floor = top - 0.5 * chi_square_quantile(level)
        ends: list[float | None] = []
        for edge in edges:
            if profile(edge) >= floor:
                ends.append(None)
            else:
                ends.append(float(brentq(lambda x: profile(x) - floor, best, edge, xtol=PRECISION)))
        return ends[0], ends[1]


def _expit(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))
