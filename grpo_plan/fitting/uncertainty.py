"""Confidence limits of means over F: profile likelihood, joined with Wilson limits up to n (theory.md, section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.functionals import GROUP_FAMILIES, Functional
from grpo_plan.fitting.intervals import LEAST_WITHIN, effective_trials, wilson_limits
from grpo_plan.fitting.mixing import Mixing
from grpo_plan.fitting.npmle import Masses
from grpo_plan.fitting.points import PointEstimator
from grpo_plan.fitting.profile import Bound, ProfileLikelihood
from grpo_plan.fitting.thresholds import FAR, Thresholds, chi_square_quantile, simultaneous, thresholds_for
from grpo_plan.fitting.ustatistics import subgroup_curves
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
FULL_CURVE = 400_000  # cells times n up to which Wilson limits are taken at every G
SHORT_CURVE = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """Everything that turns a functional into limits.

    Attributes:
        points: Cells of the pilot, their likelihood, and a smooth fit for the variance between prompts of a census.
        sampled: Share of the wanted population that the pilot's prompts are: 0 for a sample of a large pool, 1 for a
            census.
    """

    points: PointEstimator
    sampled: float
    _known: dict[tuple[str, int, float, bool], tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def histogram(self) -> PilotHistogram:
        """Cells of the pilot."""
        return self.points.histogram

    @property
    def counted(self) -> int:
        """Largest group size that subgroup counts answer."""
        return self.points.counted

    @property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all F."""
        return self.points.profile

    def limits(self, functional: Functional, level: float, *, everywhere: bool = False) -> tuple[float, float]:
        """Low and high limit of ``E_F phi`` from the likelihood alone.

        Args:
            functional: The mean.
            level: Confidence level.
            everywhere: Whether limits of all functionals shall hold at once.
        """
        thresholds = self.thresholds(functional, level, everywhere=everywhere)
        mixing = self.profile.mixing
        phi = functional.phi(mixing.passing, mixing.failing)
        low = 0.0 - self._end(-phi, thresholds.lower)
        return low, self._end(phi, thresholds.upper)

    def thresholds(self, functional: Functional, level: float, *, everywhere: bool = False) -> Thresholds:
        """Likelihood-ratio thresholds of both ends."""
        return thresholds_for(self.histogram, functional, level, everywhere=everywhere)

    def upper_limit(self, functional: Functional, level: float) -> float:
        """The high limit of `limits` alone, at half the cost."""
        mixing = self.profile.mixing
        threshold = self.thresholds(functional, level).upper
        return self._end(functional.phi(mixing.passing, mixing.failing), threshold)

    def _end(self, phi: Floats, threshold: float) -> float:
        """Upper end; for a census the threshold shrinks with the share of the variance within prompts at that end."""
        bound = self.profile.upper(phi, threshold)
        if self.sampled == 0.0:
            return bound.value
        return self.profile.upper(phi, threshold * self.variance_factor(bound, phi)).value

    def variance_factor(self, bound: Bound, phi: Floats) -> float:
        """Share of the variance behind a bound that remains when prompts are not resampled (theory.md, eq. 42)."""
        if bound.tilt == 0.0:
            return 1.0
        mixing, state = self.profile.mixing, bound.state
        total = _score_variance(mixing, state)
        scaled = phi[state.points] / (float(phi.max()) - float(phi.min()))
        between = bound.tilt**2 * float(state.masses @ (scaled - float(state.masses @ scaled)) ** 2)
        return min(1.0, max(1.0 - self.sampled * between / total, LEAST_WITHIN)) if total > 0.0 else 1.0

    def group_limits(
        self, kind: str, group_size: int, level: float, *, everywhere: bool = False
    ) -> tuple[float, float]:
        """Limits at one group size of a mean that falls with G: "dead", "all-pass" or "all-fail".

        The likelihood limits are joined with the effective-n Wilson limits of every smaller G (low end) and of every
        larger G up to n (high end), so that limits fall with G as the truth does (of a census, to within 0.001 or so:
        its thresholds differ from G to G). They are kept.
        """
        key = kind, group_size, level, everywhere
        if key not in self._known:
            self._known[key] = self._group_limits(kind, group_size, level, everywhere)
        return self._known[key]

    def _group_limits(self, kind: str, group_size: int, level: float, everywhere: bool) -> tuple[float, float]:
        at = GROUP_FAMILIES[kind]
        coarse = self.profile.mixing.condensed
        if coarse and group_size <= self.counted:  # subgroup counts know more than the condensed likelihood
            low, high = 1.0, 0.0
        else:
            low, high = self.limits(at(group_size), level, everywhere=everywhere)
        if self.counted >= 2:
            sizes, means, trials = self._measured_with(kind, group_size)
            if everywhere:
                wider = simultaneous(level, self.points.largest).upper / chi_square_quantile(level)
                trials = trials / wider
            lows, highs = wilson_limits(means, trials, level)
            low = min(low, float(lows[sizes <= group_size].min(initial=1.0)))
            high = max(high, float(highs[sizes >= group_size].max(initial=0.0)))
            if coarse and group_size > self.counted:
                high = min(high, float(highs[-1]))
        edge = FAR * self.points.largest
        if group_size > edge and not everywhere:  # the threshold rises there, the mean does not
            key = f"{kind}, near", edge, level, False
            if key not in self._known:
                mixing, near = self.profile.mixing, at(edge)
                threshold = self.thresholds(near, level).upper
                self._known[key] = 0.0, self._end(near.phi(mixing.passing, mixing.failing), threshold)
            high = min(high, self._known[key][1])
        return (low if low > 0.0 else 0.0), min(high, 1.0)

    def _measured_with(self, kind: str, group_size: int) -> tuple[NDArray[np.int64], Floats, Floats]:
        sizes, means, trials = self._measured[kind]
        group_size = min(group_size, self.counted)  # beyond, the last counted one is what limits
        if group_size < 2 or group_size in sizes:
            return sizes, means, trials
        h = self.histogram
        usable = h.rollouts >= group_size
        values = GROUP_FAMILIES[kind](group_size).kernel(
            h.successes[usable].astype(np.float64), h.rollouts[usable].astype(np.float64)
        )
        mean, count = self._mean_and_trials(
            kind, np.array([group_size]), values[:, None], h.prompts[usable].astype(np.float64)[:, None]
        )
        return np.append(sizes, group_size), np.append(means, mean), np.append(trials, count)

    @cached_property
    def _measured(self) -> dict[str, tuple[NDArray[np.int64], Floats, Floats]]:
        """Group sizes, means and effective trials (eq. 19) of each family, from 2 to the largest counted G."""
        h = self.histogram
        largest = self.counted if h.prompts.size * self.counted <= FULL_CURVE else min(self.counted, SHORT_CURVE)
        passes, fails = subgroup_curves(h.successes, h.rollouts, largest)
        sizes = np.arange(1, largest + 1)
        weights = np.where(h.rollouts[:, None] >= sizes, h.prompts[:, None], 0).astype(np.float64)
        kernels = {"dead": np.minimum(passes + fails, 1.0), "all-pass": passes, "all-fail": fails}
        return {
            kind: (sizes[1:], *self._mean_and_trials(kind, sizes[1:], kernel[:, 1:], weights[:, 1:]))
            for kind, kernel in kernels.items()
        }

    def _mean_and_trials(
        self, kind: str, sizes: NDArray[np.int64], kernel: Floats, weights: Floats
    ) -> tuple[Floats, Floats]:
        prompts = weights.sum(axis=0)
        means = np.clip((weights * kernel).sum(axis=0) / prompts, 0.0, 1.0)
        spreads = (weights * (kernel - means) ** 2).sum(axis=0)
        trials = effective_trials(means, spreads, prompts)
        if self.sampled > 0.0:
            shares = self.sampled * prompts / self.histogram.total_prompts
            rates = self.points.smooth_rates
            for i, size in enumerate(sizes):
                phi = GROUP_FAMILIES[kind](int(size)).phi(rates.passing, rates.failing)
                between = float(rates.masses @ (phi - float(rates.masses @ phi)) ** 2)
                total = float(means[i] * (1.0 - means[i]) / trials[i] * prompts[i])
                if total > 0.0:
                    trials[i] /= min(1.0, max(1.0 - shares[i] * between / total, LEAST_WITHIN))
        return means, trials


def _score_variance(mixing: Mixing, state: Masses) -> float:
    """Variance over prompts of the dual weights ``w / f`` of the cells, each n for itself."""
    _, groups = np.unique(mixing.rollouts, return_inverse=True)
    shares = np.bincount(groups, weights=mixing.weights)[groups]
    chances = shares * state.cells * np.exp(mixing.log_scale)
    return float(mixing.weights @ (mixing.weights / chances)) - 1.0
