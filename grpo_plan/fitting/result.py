"""What a pilot says of its pass rates: the dead fraction and other means at any group size, with limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level, as_one_group_size
from grpo_plan.errors import FitError, PilotError
from grpo_plan.fitting.average import AveragedFit, fit_average
from grpo_plan.fitting.betabinomial import BetaBinomialFit
from grpo_plan.fitting.estimates import DeadFraction, Estimate, Limits
from grpo_plan.fitting.functionals import (
    GROUP_FAMILIES,
    Functional,
    custom,
    jensen_gap,
    power_sum,
    stopping_cost,
)
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.inflated import fit_inflated
from grpo_plan.fitting.intervals import Interval, mean_interval
from grpo_plan.fitting.mixing import condensed
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import chi_square_quantile
from grpo_plan.fitting.uncertainty import Uncertainty
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass, subgroup_pmf
from grpo_plan.groups import dead_probability
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.passrates.inflated import InflatedBetaPassRates
from grpo_plan.pilot import Pilot, PilotHistogram

Floats = NDArray[np.float64]
Rates = BetaPassRates | DiscretePassRates | InflatedBetaPassRates
USABLE_SHARE = 0.2  # of the prompts must have n >= G before their subgroups stand for all prompts
TOO_WIDE = 0.5
DEGENERATE = (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD)


@dataclass(frozen=True, kw_only=True, eq=False)
class PassRateFit:
    """What a pilot says of its pass rates.

    Attributes:
        family: Estimator of the values: ``"auto"`` and the others of `fit_pass_rates`.
        pilot: The pilot that was fitted.
        beta: The fitted Beta with its likelihood and standard errors.
        statuses: Everything that limits the fit, gravest first; ``(FitStatus.OK,)`` if nothing does.
        max_measured_group_size: Largest G that enough prompts have rollouts for.
        population: Prompts that the numbers speak of: None for a large pool that the pilot is a sample of, else the
            size of a finite set; the pilot's own size for a census.
    """

    family: str
    pilot: Pilot = field(repr=False)
    beta: BetaBinomialFit
    statuses: tuple[FitStatus, ...]
    max_measured_group_size: int
    population: int | None = None
    _histogram: PilotHistogram = field(repr=False)

    @property
    def status(self) -> FitStatus:
        """The gravest of ``statuses``."""
        return self.statuses[0]

    @property
    def parameters(self) -> dict[str, float | None]:
        """Shape of the fitted Beta with standard errors; None at the edges of the family."""
        shape, errors = self.beta.rates.shape, self.beta.standard_errors
        known = self.beta.identified
        return {
            "a": shape[0] if shape and known else None,
            "b": shape[1] if shape and known else None,
            "a_standard_error": errors[0] if errors else None,
            "b_standard_error": errors[1] if errors else None,
            "mean": self.beta.rates.mean,
            "correlation": self.beta.rates.correlation if known else None,
            "log_likelihood": self.beta.log_likelihood,
        }

    @property
    def mean_pass_rate(self) -> float:
        """Mean over prompts of k/n."""
        return self.pilot.mean_pass_rate

    def mean_pass_rate_interval(self, level: float = 0.95) -> Interval:
        """Mean pass rate with its effective-n Wilson limits over prompts (theory.md, eq. 19)."""
        h = self._histogram
        return mean_interval(h.successes / h.rollouts, h.prompts, level)

    def dead(self, group_size: int, level: float = 0.95, *, simultaneous: bool = False) -> DeadFraction:
        """Dead fraction D(G) with its parts, limits and the values of the usual formulas.

        Args:
            group_size: G, at least 1; any size, also beyond the pilot's n.
            level: Confidence level of the limits, in (0, 1).
            simultaneous: Limits that hold at all G at once, for a band.

        >>> from grpo_plan.fitting.fit import fit_pass_rates
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> d = fit.dead(4)
        >>> d.value, round(d.low, 3), round(d.high, 3), round(d.iid, 3)
        (0.8, 0.711, 0.867, 0.125)
        """
        g, level = as_one_group_size(group_size), as_level(level)
        h = self._histogram
        all_pass, all_fail, method, used = self._parts(g)
        value = None if all_pass is None or all_fail is None else min(1.0, all_pass + all_fail)
        return DeadFraction(
            group_size=g,
            value=1.0 if g == 1 else value,
            level=level,
            all_pass=all_pass,
            all_fail=all_fail,
            iid=float(dead_probability(self.pilot.mean_pass_rate, g)),
            plug_in=float(dead_probability(h.successes / h.rollouts, g) @ h.prompts) / h.total_prompts,
            method=method,
            prompts_used=used,
            simultaneous=simultaneous,
            _source=self,
        )

    def group_pmf(self, group_size: int) -> Floats:
        """Law of the passes k in a group of G, shape (G + 1,); its ends are `dead`'s two parts.

        Raises:
            PilotError: The pilot does not determine it (one rollout per prompt).
        """
        g = as_one_group_size(group_size)
        all_pass, all_fail, method, _ = self._parts(g)
        if all_pass is None or all_fail is None:
            raise PilotError(f"The pilot does not determine groups of {g}. {self.status.sentence}")
        if g == 1:
            return np.array([all_fail, all_pass])
        if method == "u-statistic":
            h = self._usable(g)
            weights = h.prompts / h.total_prompts
            pmf: Floats = weights @ subgroup_pmf(h.successes, h.rollouts, g)
            return pmf
        pmf = self._rates.group_pmf(g)
        inner = float(pmf[1:-1].sum())
        if inner > 0.0:
            pmf[1:-1] *= max(0.0, 1.0 - all_pass - all_fail) / inner
        pmf[0], pmf[-1] = all_fail, all_pass
        return pmf

    def pass_at(self, group_size: int, level: float = 0.95) -> Estimate:
        """Share of groups of G with at least one pass (theory.md, eq. 3)."""
        g = as_one_group_size(group_size)
        fails = GROUP_FAMILIES["all-fail"](g)
        all_fail = self._parts(g)[1]
        value = None if all_fail is None else 1.0 - all_fail
        return self._estimate(custom(lambda p: 1.0 - fails.phi(p, 1.0 - p), f"pass@{g}", "some-pass"), value, level)

    def reward_variance(self, level: float = 0.95) -> Estimate:
        """Mean reward variance within a prompt, ``E[p (1 - p)] = (1 - D(2)) / 2`` (theory.md, eq. 11)."""
        pairs = self.dead(2, level)
        value = None if pairs.value is None else (1.0 - pairs.value) / 2.0
        return self._estimate(custom(lambda p: p * (1.0 - p), "E[p(1-p)]", "mixed"), value, level)

    def stopping_cost(self, max_group_size: int, level: float = 0.95) -> Estimate:
        """Rollouts per prompt if sampling stops once both outcomes are seen, at most G (theory.md, eq. 34)."""
        g = as_one_group_size(max_group_size)
        last = min(g - 1, max(self.max_measured_group_size, 1))
        values = [self.dead(t).value for t in range(1, last + 1)]
        value = None if any(v is None for v in values) else 1.0 + sum(v for v in values if v is not None)
        if value is not None and last < g - 1:
            value += self._tail_sum(last, g) if self._spread_known else float("nan")
        return self._estimate(stopping_cost(g), value, level)

    def jensen_gap(self, group_size: int, level: float = 0.95) -> Estimate:
        """``D(G) - d_G(pbar)``, its limits linearised at the observed mean (theory.md, eq. 34)."""
        g = as_one_group_size(group_size)
        return self._estimate(jensen_gap(g, self.mean_pass_rate), self.dead(g).jensen_gap, level)

    def mean_of(self, function: Callable[[Floats], Floats], *, name: str = "mean", level: float = 0.95) -> Estimate:
        """``E_F f(p)`` of any function, with limits over all F that the pilot leaves possible.

        Args:
            function: From an array of pass rates to values of the same shape, finite on [0, 1].
            name: For messages.
            level: Confidence level.

        >>> from grpo_plan.fitting.fit import fit_pass_rates
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> hard = fit.mean_of(lambda p: p < 0.1)
        >>> 0.2 < hard.low < hard.value < hard.high < 0.6
        True
        """
        functional = custom(function, name)
        value = None
        if self._spread_known:
            rates = self.smooth_rates
            values = functional.phi(rates.passing, rates.failing)
            if not np.all(np.isfinite(values)):
                raise FitError(f"{name} must be finite for every pass rate in [0, 1].")
            value = float(rates.masses @ values)
        return self._estimate(functional, value, level)

    # what estimates ask for -------------------------------------------------------------------------------------

    def group_limits(self, kind: str, group_size: int, level: float, simultaneous: bool) -> Limits:
        """Confidence limits of "dead", "all-pass" or "all-fail"; in family auto they always hold the value."""
        if group_size == 1:
            mean = self.mean_pass_rate_interval(level)
            return (mean.low, mean.high) if kind == "all-pass" else (1.0 - mean.high, 1.0 - mean.low)
        low, high = self._uncertainty.group_limits(kind, group_size, level, everywhere=simultaneous)
        all_pass, all_fail, _, _ = self._parts(group_size)
        if self.family == "auto" and all_pass is not None and all_fail is not None:
            value = {"dead": min(1.0, all_pass + all_fail), "all-pass": all_pass, "all-fail": all_fail}[kind]
            return min(low, value), max(high, value)
        return low, high

    def limits_of(self, functional: Functional, level: float) -> Limits:
        """Confidence limits of another mean."""
        return self._uncertainty.limits(functional, level)

    def identified_of(self, functional: Functional) -> Limits:
        """Range of a mean over all F with the fitted law of k of n (theory.md, eq. 38)."""
        return range_at(self.smooth_rates, self.max_measured_group_size, functional)

    def smooth_limits(self, group_size: int, level: float) -> Limits | None:
        """Limits of D(G) by the delta method within and between smooth fits (theory.md, eq. 40)."""
        value = self.dead(group_size, level).value
        if value is None or self.family in ("inflated-beta", "nonparametric") or set(self.statuses) & set(DEGENERATE):
            return None
        fits, z = self._smooth_fits, chi_square_quantile(level) ** 0.5
        phi = GROUP_FAMILIES["dead"](group_size).phi(fits.grid.passing, fits.grid.failing)
        error = fits.mean(phi)[1]
        return max(0.0, value - z * error), min(1.0, value + z * error)

    def dead_functional(self, group_size: int) -> Functional:
        """The functional of D(G)."""
        return GROUP_FAMILIES["dead"](group_size)

    def status_at(self, group_size: int, value: float | None, limits: Limits) -> FitStatus:
        """Status of one dead fraction."""
        if group_size == 1:
            return FitStatus.OK
        if value is None:
            return FitStatus.UNKNOWN
        if group_size > self.max_measured_group_size and limits[1] - limits[0] > TOO_WIDE:
            return FitStatus.BEYOND_REACH
        if group_size > 2 * self.max_measured_group_size:
            return FitStatus.EXTRAPOLATED
        return self.status

    # ------------------------------------------------------------------------------------------------------------

    @property
    def _spread_known(self) -> bool:
        """Whether the pilot says anything on how pass rates differ (or that all rollouts agree)."""
        return FitStatus.SINGLE_ROLLOUT not in self.statuses

    @cached_property
    def _average(self) -> AveragedFit:
        return fit_average(condensed(self._histogram), self.beta.rates)

    @property
    def _smooth_fits(self) -> AveragedFit:
        if self.family == "beta":
            return self._average.plain
        return self._average.tilted if self.family == "tilted-beta" else self._average

    @cached_property
    def smooth_rates(self) -> DiscretePassRates:
        """A distribution that fits the pilot, on a grid."""
        if not self._spread_known or set(self.statuses) & set(DEGENERATE):
            mean = self.mean_pass_rate
            if not self._spread_known:
                return DiscretePassRates(passing=np.array([mean]), failing=np.array([1.0 - mean]), masses=np.ones(1))
            ends = np.array([0.0, 1.0])
            return DiscretePassRates(passing=ends, failing=ends[::-1].copy(), masses=np.array([1.0 - mean, mean]))
        if self.family == "nonparametric":
            return self.nonparametric
        return self._smooth_fits.rates

    @cached_property
    def nonparametric(self) -> DiscretePassRates:
        """The nonparametric maximum-likelihood distribution: its atoms and masses."""
        profile = self._uncertainty.profile
        points = profile.best.points
        return DiscretePassRates(
            passing=profile.mixing.passing[points], failing=profile.mixing.failing[points], masses=profile.best.masses
        )

    @property
    def certificate(self) -> float:
        """What any other F could add to the log-likelihood of `nonparametric`, at most."""
        return self._uncertainty.profile.certificate

    @cached_property
    def _uncertainty(self) -> Uncertainty:
        sampled = 0.0 if self.population is None else self.pilot.prompts / self.population
        return Uncertainty(
            histogram=self._histogram,
            sampled=sampled,
            largest=self.max_measured_group_size,
            smooth=self.smooth_rates if sampled > 0.0 else None,
        )

    @cached_property
    def _rates(self) -> Rates:
        """What answers where subgroups do not."""
        if self.family == "beta" or set(self.statuses) & set(DEGENERATE) or not self._spread_known:
            return self.beta.rates
        if self.family == "inflated-beta":
            return fit_inflated(self._histogram, self.beta.rates)
        return self.smooth_rates

    def _parts(self, g: int) -> tuple[float | None, float | None, str, int]:
        """All-pass, all-fail, the method and the prompts used."""
        everyone = self.pilot.prompts
        if g == 1:
            mean = self.beta.rates.mean if self.family == "beta" else self.mean_pass_rate
            return mean, 1.0 - mean, "exact", everyone
        if self.family == "auto" and g <= self.max_measured_group_size:
            passes, fails, used = self._measured(g)
            return passes, fails, "u-statistic", used
        if not self._spread_known:
            return None, None, "unknown", everyone
        rates = self._rates
        all_pass, all_fail = float(rates.all_pass(g)), float(rates.all_fail(g))
        if self.family != "auto":
            return all_pass, all_fail, self.family, everyone
        last = self.max_measured_group_size
        if last > 1:
            passes, fails, _ = self._measured(last)
            all_pass = _joined(passes, all_pass, float(rates.all_pass(last)))
            all_fail = _joined(fails, all_fail, float(rates.all_fail(last)))
        return all_pass, all_fail, "average", everyone

    def _measured(self, g: int) -> tuple[float, float, int]:
        h = self._usable(g)
        total = h.total_prompts
        passes = float(h.prompts @ subgroup_all_pass(h.successes, h.rollouts, g)) / total
        fails = float(h.prompts @ subgroup_all_fail(h.successes, h.rollouts, g)) / total
        return min(passes, 1.0), min(fails, 1.0 - min(passes, 1.0)), total

    def _usable(self, group_size: int) -> PilotHistogram:
        h = self._histogram
        enough = h.rollouts >= group_size
        return PilotHistogram(rollouts=h.rollouts[enough], successes=h.successes[enough], prompts=h.prompts[enough])

    def _estimate(self, functional: Functional, value: float | None, level: float) -> Estimate:
        return Estimate(name=functional.name, value=value, level=as_level(level), _functional=functional, _source=self)

    def _tail_sum(self, last: int, g: int) -> float:
        """Sum of D(t) for t = last + 1 .. g - 1, joined at ``last`` like every value beyond n."""
        rates = self.smooth_rates
        total = 0.0
        for kind, (base, other) in {
            "all-pass": (rates.passing, rates.failing),
            "all-fail": (rates.failing, rates.passing),
        }.items():
            tail = float(rates.masses @ (power_sum(base, other, g) - power_sum(base, other, last + 1)))
            if self.family == "auto" and last > 1:
                passes, fails, _ = self._measured(last)
                modelled = float(rates.masses @ GROUP_FAMILIES[kind](last).phi(rates.passing, rates.failing))
                tail = _joined(passes if kind == "all-pass" else fails, tail, modelled)
            total += tail
        return total


def _joined(measured: float, beyond: float, at_last: float) -> float:
    """A modelled value, times what makes the model right at the last measured G (theory.md, eq. 40)."""
    return measured * (beyond / at_last) if at_last > 0.0 else min(beyond, measured)


def largest_measured_group_size(histogram: PilotHistogram) -> int:
    """Largest G for which at least `USABLE_SHARE` of the prompts have G or more rollouts."""
    order = np.argsort(histogram.rollouts)[::-1]
    covered = np.cumsum(histogram.prompts[order]) / histogram.total_prompts
    return int(histogram.rollouts[order][int(np.searchsorted(covered, USABLE_SHARE - 1e-12))])
