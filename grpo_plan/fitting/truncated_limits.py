"""Limits over all prompts where only mixed groups were kept, or dead ones merely counted (theory.md, section 16)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotError
from grpo_plan.fitting.average import AveragedFit
from grpo_plan.fitting.functionals import GROUP_FAMILIES, Functional
from grpo_plan.fitting.npmle import Masses
from grpo_plan.fitting.points import Parts, PointEstimator
from grpo_plan.fitting.profile import ACCURACY, ProfileLikelihood
from grpo_plan.fitting.thresholds import Thresholds, chi_square_quantile
from grpo_plan.fitting.truncated import Survivors
from grpo_plan.fitting.uncertainty import Uncertainty
from grpo_plan.groups import mixed_probability
from grpo_plan.passrates.discrete import DiscretePassRates

Floats = NDArray[np.float64]
LARGEST_WEIGHT = 10.0  # of (phi - r) / m_n, in units of its mean; leaving out what is above makes the limit lower only
SHARPER = 0.005  # accuracy of the search relative to the usual one, since the range of the weights is so large
DEGREES = 2
MOST_STEPS = 30
SMALLEST_STEP = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedDeadPoints(PointEstimator):
    """Values where dead groups are known by their number: counts up to n, and the smooth fits of that likelihood."""

    survivors: Survivors

    @cached_property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all F, all-pass and all-fail groups in one cell."""
        return self.survivors.profile

    @cached_property
    def average(self) -> AveragedFit:
        """The plain and the tilted Betas of all prompts."""
        return self.survivors.average


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivorPoints(CountedDeadPoints):
    """Values where the number of dead groups is unknown: those of a smooth F (theory.md, eq. 76)."""

    @cached_property
    def nonparametric(self) -> DiscretePassRates:
        """Not determined: any share of the prompts may always or never pass."""
        raise PilotError(
            "A pilot of mixed groups alone has no nonparametric fit of all prompts: any share of them may always or "
            "never pass. Give the number of dropped groups."
        )

    @cached_property
    def nonparametric_share(self) -> float:
        """0: the middle of limits that reach 1 is no value."""
        return 0.0

    def _parts(self, g: int) -> Parts:
        groups = self.survivors.groups
        if not self.spread_known:
            return Parts(all_pass=None, all_fail=None, method="unknown", prompts_used=groups)
        all_pass, all_fail = float(self.rates.all_pass(g)), float(self.rates.all_fail(g))
        method = "exact" if g == 1 else "survivors"
        return Parts(all_pass=all_pass, all_fail=all_fail, method=method, prompts_used=groups)


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedDeadLimits(Uncertainty):
    """Limits where dead groups are known by their number (theory.md, eq. 75)."""

    def thresholds(self, functional: Functional, level: float, *, everywhere: bool = False) -> Thresholds:
        """Those of the ordinary fit; how many all-pass and how many all-fail groups there are is not known."""
        known = functional.pushed_up_by in ("dead", "mixed")
        return super().thresholds(
            functional if known else replace(functional, pushed_up_by=""), level, everywhere=everywhere
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivorLimits(Uncertainty):
    """Limits where the number of dead groups is unknown (theory.md, eq. 74)."""

    survivors: Survivors

    def limits(self, functional: Functional, level: float, *, everywhere: bool = False) -> tuple[float, float]:
        """Low and high limit of ``E_F phi``: F may have any mass at 0 and 1 beside what the mixed groups say."""
        thresholds = self.thresholds(functional, level, everywhere=everywhere)
        mixing = self.profile.mixing
        phi = functional.phi(mixing.passing, mixing.failing)
        return self.lowest_mean(phi, thresholds.lower), -self.lowest_mean(-phi, thresholds.upper)

    def upper_limit(self, functional: Functional, level: float) -> float:
        """The high limit of `limits` alone."""
        return self.limits(functional, level)[1]

    def thresholds(self, functional: Functional, level: float, *, everywhere: bool = False) -> Thresholds:
        """Chi-square with two degrees of freedom: with one, F of few atoms falls short (theory.md, eq. 74)."""
        degrees = max(self.survivors.group_size - 2, DEGREES) if everywhere else DEGREES
        both = chi_square_quantile(level, degrees)
        return Thresholds(lower=both, upper=both)

    def lowest_mean(self, phi: Floats, threshold: float) -> float:
        """Certified lower limit of ``E_F phi`` over all F, masses at 0 and 1 included (theory.md, eq. 74).

        With H the pass rates of mixed groups, ``E_F phi = E_H[phi / m_n] / E_H[1 / m_n]`` for F without such masses:
        the ratio is below r if and only if ``E_H[(phi - r) / m_n] < 0``, a linear question that the certificate of
        eq. 33 answers. Its least value falls with r, with slope ``-E_H[1 / m_n]`` at the minimiser: Newton steps.

        Args:
            phi: Functional at each grid point, shape (m,).
            threshold: Of the likelihood ratio.
        """
        ends = float(min(phi[0], phi[-1]))
        if float(phi.min()) >= ends:
            return ends
        mixing, n = self.profile.mixing, self.survivors.group_size
        inside = slice(1, -1)
        mixed = np.asarray(mixed_probability(np.minimum(mixing.passing, mixing.failing)[inside], n))
        ratio, weight, certified = min(ends, _ratio(self.profile.best, phi, mixed)[0]), 1.0, float(phi.min())
        for _ in range(MOST_STEPS):
            excess = np.empty_like(phi)
            excess[inside] = np.minimum((phi[inside] - ratio) / mixed, LARGEST_WEIGHT * weight)
            for end, near in ((0, 1), (-1, -2)):
                excess[end] = LARGEST_WEIGHT * weight if phi[end] > ratio else excess[near]
            bound = self.profile.lower(excess, threshold, SHARPER * ACCURACY)
            certified = max(certified, ratio + min(bound.value, 0.0) * float(mixed.max()))
            weight = _ratio(bound.state, phi, mixed)[1]
            step = bound.value / weight
            if abs(step) < SMALLEST_STEP or (bound.value >= 0.0 and ratio >= ends):
                break
            ratio = min(ratio + step, ends)
        return certified

    def _group_limits(self, kind: str, group_size: int, level: float, everywhere: bool) -> tuple[float, float]:
        low, high = self.limits(GROUP_FAMILIES[kind](group_size), level, everywhere=everywhere)
        return max(low, 0.0), min(high, 1.0)


def _ratio(state: Masses, phi: Floats, mixed: Floats) -> tuple[float, float]:
    """``E_H[phi / m] / E_H[1 / m]`` and ``E_H[1 / m]``, with mass at 0 and 1 moved to the next grid point."""
    near = np.clip(state.points, 1, phi.size - 2)
    weights = state.masses / mixed[near - 1]
    total = float(weights.sum())
    return float(weights @ phi[near]) / total, total
