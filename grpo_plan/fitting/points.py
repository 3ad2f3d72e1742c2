"""Values of D(G) and its parts: subgroup counts up to n, fitted distributions beyond (theory.md, eq. 15 and 40)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.average import AveragedFit, fit_average, nonparametric_share
from grpo_plan.fitting.functionals import GROUP_FAMILIES, Functional, power_sum
from grpo_plan.fitting.inflated import fit_inflated
from grpo_plan.fitting.mixing import build_mixing, condensed
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.thresholds import thresholds_for
from grpo_plan.fitting.ustatistics import (
    BLOCK_ENTRIES,
    subgroup_all_fail,
    subgroup_all_pass,
    subgroup_curves,
    subgroup_pmf,
)
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.passrates.inflated import InflatedBetaPassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
Rates = BetaPassRates | DiscretePassRates | InflatedBetaPassRates
BLEND_LEVEL = 0.95
THINNED_FROM = 1.5  # a law is thinned from one at most this many times larger; else it is summed afresh
VANISHED = 1e-290  # below, ratios lose their digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """D(G) in its parts; None where the pilot does not determine them."""

    all_pass: float | None
    all_fail: float | None
    method: str
    prompts_used: int

    @property
    def dead(self) -> float | None:
        """Their sum."""
        if self.all_pass is None or self.all_fail is None:
            return None
        return min(1.0, self.all_pass + self.all_fail)


@dataclass(frozen=True, kw_only=True, eq=False)
class PointEstimator:
    """Everything that gives values; the fits are made when first needed.

    Attributes:
        histogram: Cells of the pilot.
        family: As in `fit_pass_rates`.
        beta: The Beta fit.
        spread_known: Whether some prompt has two rollouts.
        agreeing: Whether no prompt is mixed, so that only the Beta at the edge of its family fits.
        largest: Largest group size that enough prompts have rollouts for.
        counted: Largest group size that subgroup counts answer; with unequal n it is smaller.
    """

    histogram: PilotHistogram = field(repr=False)
    family: str
    beta: BetaPassRates
    spread_known: bool
    agreeing: bool
    largest: int
    counted: int
    _known: dict[int, Parts] = field(default_factory=dict, repr=False)

    @cached_property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all F."""
        return ProfileLikelihood.of(build_mixing(self.histogram))

    @cached_property
    def average(self) -> AveragedFit:
        """The plain and the tilted Betas with their weights."""
        return fit_average(condensed(self.histogram), self.beta)

    @property
    def smooth_fits(self) -> AveragedFit | None:
        """Those of the average that the family uses; None where nothing smooth is fitted."""
        if self.agreeing or not self.spread_known or self.family in ("inflated-beta", "nonparametric"):
            return None
        if self.family == "beta":
            return self.average.plain
        return self.average.tilted if self.family == "tilted-beta" else self.average

    @cached_property
    def smooth_rates(self) -> DiscretePassRates:
        """A distribution that fits the pilot, on a grid."""
        h = self.histogram
        mean = float(h.prompts @ (h.successes / h.rollouts)) / h.total_prompts
        if not self.spread_known:
            return DiscretePassRates(passing=np.array([mean]), failing=np.array([1.0 - mean]), masses=np.ones(1))
        if self.agreeing:
            ends = np.array([0.0, 1.0])
            return DiscretePassRates(passing=ends, failing=ends[::-1].copy(), masses=np.array([1.0 - mean, mean]))
        fits = self.smooth_fits
        if fits is not None:
            return fits.rates
        return self.nonparametric if self.family == "nonparametric" else self.average.rates

    @cached_property
    def nonparametric(self) -> DiscretePassRates:
        """The nonparametric maximum-likelihood distribution: its atoms and masses."""
        best, mixing = self.profile.best, self.profile.mixing
        return DiscretePassRates(
            passing=mixing.passing[best.points], failing=mixing.failing[best.points], masses=best.masses
        )

    @cached_property
    def nonparametric_share(self) -> float:
        """Weight of the nonparametric answer beyond n: about 0, unless no smooth F fits the pilot."""
        if self.family != "auto" or self.smooth_fits is None:
            return 0.0
        lost = self.profile.log_likelihood - self.average.log_likelihood
        return nonparametric_share(lost, self.largest)

    @cached_property
    def rates(self) -> Rates:
        """What answers where subgroups do not."""
        if self.family == "beta" or self.agreeing or not self.spread_known:
            return self.beta
        if self.family == "inflated-beta":
            return fit_inflated(self.histogram, self.beta)
        return self.smooth_rates

    def parts(self, g: int) -> Parts:
        """All-pass and all-fail at one G; kept, since more than one number asks for them."""
        if g not in self._known:
            self._known[g] = self._parts(g)
        return self._known[g]

    def _parts(self, g: int) -> Parts:
        everyone = self.histogram.total_prompts
        if g == 1:
            h = self.histogram
            mean = float(h.prompts @ (h.successes / h.rollouts)) / everyone
            mean = self.beta.mean if self.family == "beta" else mean
            return Parts(all_pass=mean, all_fail=1.0 - mean, method="exact", prompts_used=everyone)
        if self.family == "auto" and g <= self.counted:
            return self.measured(g)
        if not self.spread_known:
            return Parts(all_pass=None, all_fail=None, method="unknown", prompts_used=everyone)
        all_pass, all_fail = float(self.rates.all_pass(g)), float(self.rates.all_fail(g))
        if self.family != "auto":
            return Parts(all_pass=all_pass, all_fail=all_fail, method=self.family, prompts_used=everyone)
        if self.counted > 1:
            last = self.measured(self.counted)
            all_pass = joined(last.all_pass or 0.0, all_pass, float(self.rates.all_pass(self.counted)))
            all_fail = joined(last.all_fail or 0.0, all_fail, float(self.rates.all_fail(self.counted)))
        smooth = all_pass + all_fail
        if self.nonparametric_share > 0.0:
            most = self.measured(self.counted).dead if self.counted > 1 else 1.0
            dead = min(self.blended(GROUP_FAMILIES["dead"](g), smooth), most or 0.0)
            if smooth < VANISHED:  # nothing is left to be split by: the rarer outcome has vanished first
                passing = (
                    float(self.histogram.prompts @ (self.histogram.successes / self.histogram.rollouts)) / everyone
                )
                passes = 0.5 if passing == 0.5 else float(passing > 0.5)
            else:
                passes = all_pass / smooth
            all_pass, all_fail = dead * passes, dead * (1.0 - passes)
        return Parts(all_pass=all_pass, all_fail=all_fail, method="average", prompts_used=everyone)

    def measured(self, g: int) -> Parts:
        """Unbiased subgroup counts over the prompts with n >= G."""
        h = self._usable(g)
        total = h.total_prompts
        passes = min(float(h.prompts @ subgroup_all_pass(h.successes, h.rollouts, g)) / total, 1.0)
        fails = min(float(h.prompts @ subgroup_all_fail(h.successes, h.rollouts, g)) / total, 1.0 - passes)
        return Parts(all_pass=passes, all_fail=fails, method="u-statistic", prompts_used=total)

    def group_pmf(self, g: int) -> Floats:
        """Law of the passes in groups of G; its ends are `parts`."""
        return self.group_pmfs([g])[g]

    def group_pmfs(self, sizes: Iterable[int]) -> dict[int, Floats]:
        """`group_pmf` at many sizes: modelled laws are thinned from the largest one downwards (theory.md, eq. 16)."""
        laws: dict[int, Floats] = {}
        larger: Floats | None = None
        for g in sorted(set(sizes), reverse=True):
            parts = self.parts(g)
            all_pass, all_fail = parts.all_pass or 0.0, parts.all_fail or 0.0
            if g == 1:
                laws[g] = np.array([all_fail, all_pass])
                continue
            if parts.method == "u-statistic":
                h = self._usable(g)
                laws[g] = (h.prompts / h.total_prompts) @ subgroup_pmf(h.successes, h.rollouts, g)
                continue
            if larger is None or larger.size - 1 > THINNED_FROM * g:
                larger = self._modelled_pmf(g)
            while larger.size - 1 > g:
                larger = thinned(larger)
            pmf = larger.copy()
            inner = float(pmf[1:-1].sum())
            if inner > 0.0:
                pmf[1:-1] *= max(0.0, 1.0 - all_pass - all_fail) / inner
            pmf[0], pmf[-1] = all_fail, all_pass
            laws[g] = pmf
        return laws

    def _modelled_pmf(self, g: int) -> Floats:
        pmf = self.rates.group_pmf(g)
        if (share := self.nonparametric_share) > 0.0:
            pmf = (1.0 - share) * pmf + share * self.nonparametric.group_pmf(g)
        return pmf

    def blended(self, functional: Functional, smooth: float) -> float:
        """A smooth value and the middle of its likelihood limits, by `nonparametric_share`."""
        share = self.nonparametric_share
        if share == 0.0:
            return smooth
        thresholds = thresholds_for(self.histogram, functional, BLEND_LEVEL, near=True)
        mixing = self.profile.mixing
        phi = functional.phi(mixing.passing, mixing.failing)
        low = self.profile.lower(phi, thresholds.lower).value
        high = self.profile.upper(phi, thresholds.upper).value
        return (1.0 - share) * smooth + share * 0.5 * (low + high)

    def counted_sum(self, last: int) -> float:
        """Sum of the subgroup counts of D(t) for t = 1 .. last; 1 at t = 1."""
        h = self.histogram
        sizes = np.arange(1, last + 1)
        total, prompts = np.zeros(last), np.zeros(last)
        for rows in np.array_split(np.arange(h.prompts.size), max(1, h.prompts.size * last // BLOCK_ENTRIES)):
            passes, fails = subgroup_curves(h.successes[rows], h.rollouts[rows], last)
            weights = np.where(h.rollouts[rows, None] >= sizes, h.prompts[rows, None], 0).astype(np.float64)
            total += (weights * np.minimum(passes + fails, 1.0)).sum(axis=0)
            prompts += weights.sum(axis=0)
        return float(np.sum(total / prompts))

    def dead_sum(self, last: int, g: int) -> float:
        """Sum of D(t) for t = last + 1 .. g - 1 under the smooth fit, joined at ``last``."""
        p, q = self.smooth_rates.passing, self.smooth_rates.failing
        measured = self.measured(last) if self.family == "auto" and last > 1 else None
        total = 0.0
        for kind, base, other in (("all-pass", p, q), ("all-fail", q, p)):
            tail = float(self.smooth_rates.masses @ (power_sum(base, other, g) - power_sum(base, other, last + 1)))
            if measured is not None:
                at_last = float(self.smooth_rates.masses @ GROUP_FAMILIES[kind](last).phi(p, q))
                seen = measured.all_pass if kind == "all-pass" else measured.all_fail
                tail = joined(seen or 0.0, tail, at_last)
            total += tail
        return total

    def _usable(self, group_size: int) -> PilotHistogram:
        h = self.histogram
        enough = h.rollouts >= group_size
        return PilotHistogram(rollouts=h.rollouts[enough], successes=h.successes[enough], prompts=h.prompts[enough])


def thinned(group_pmf: Floats) -> Floats:
    """Law of the passes when one rollout of each group is left out, shape (G,) (theory.md, eq. 16).

    >>> thinned(np.array([0.25, 0.5, 0.25])).tolist()
    [0.5, 0.5]
    """
    g = group_pmf.size - 1
    k = np.arange(g)
    smaller: Floats = group_pmf[:-1] * ((g - k) / g) + group_pmf[1:] * ((k + 1) / g)
    return smaller


def joined(measured: float, beyond: float, at_last: float) -> float:
    """A modelled value, times what makes the model right at the last measured G (theory.md, eq. 40)."""
    return measured * (beyond / at_last) if at_last > 0.0 else min(beyond, measured)
