"""What a pilot says of its pass rates: the dead fraction and other means at any group size, with limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, as_one_group_size
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.betabinomial import BetaBinomialFit
from grpo_plan.fitting.estimates import DeadFraction, Estimate, Limits
from grpo_plan.fitting.functionals import GROUP_FAMILIES, Functional, custom, jensen_gap, stopping_cost
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.intervals import Interval, mean_interval
from grpo_plan.fitting.memory import Remembering
from grpo_plan.fitting.mixing import arcsine_grid
from grpo_plan.fitting.points import PointEstimator
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import chi_square_quantile
from grpo_plan.fitting.uncertainty import Uncertainty
from grpo_plan.fitting.ustatistics import COUNTED_SHARE, largest_measured_group_size
from grpo_plan.groups import dead_probability
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import Pilot, PilotHistogram

Floats = NDArray[np.float64]
TOO_WIDE = 0.5
MOST_VARIANCE = 0.25  # of a 0/1 reward
LONGEST_SUM = 256  # of dead fractions one by one, where they are no plain sum of powers
MISFIT = 0.5  # share of the nonparametric answer above which no smooth interval is given
AGREEING = (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PassRateFit(Remembering, Shown):
    """What a pilot says of its pass rates.

    Attributes:
        family: Estimator of the values: ``"auto"`` and the others of `fit_pass_rates`.
        pilot: The pilot that was fitted.
        beta: The fitted Beta with its likelihood and standard errors.
        statuses: Everything that limits the fit, gravest first; ``(FitStatus.OK,)`` if nothing does.
        max_measured_group_size: Largest G that a fifth of the prompts have rollouts for.
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
    def unknown_dead(self) -> bool:
        """Whether dead groups are missing from the pilot and not even their number is known."""
        return False

    @property
    def truncation(self) -> dict[str, int | None] | None:
        """Group size, mixed and dropped groups of a pilot that lacks its dead groups; None for an ordinary one."""
        return None

    @property
    def removed(self) -> str | None:
        """Which prompts were taken out of the pilot by their own count: all-pass, all-fail or dead ones; else None."""
        return None

    @property
    def fitted_prompts(self) -> int:
        """Prompts that the likelihood speaks of; where dead groups are missing: groups, counted ones included."""
        return self._histogram.total_prompts

    def require_all_groups(self, purpose: str) -> None:
        """Refuse, in one line, what cannot be answered without the pilot's dead groups.

        Raises:
            PilotError: The pilot lacks them, or only their number is known.
        """
        if self.truncation is not None:
            raise PilotError(
                f"{purpose} needs all groups; this pilot holds the mixed ones only. Read a source with all groups."
            )

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
        h = self._histogram
        return float(h.prompts @ (h.successes / h.rollouts)) / h.total_prompts

    def mean_pass_rate_interval(self, level: float = 0.95) -> Interval:
        """Mean pass rate with its effective-n Wilson limits over prompts (theory.md, eq. 19)."""
        h = self._histogram
        rates = h.successes / h.rollouts
        between = 0.0
        if self.population is not None and h.max_rollouts > 1:  # variance of p: that of k/n less that within prompts
            spread = float(h.prompts @ (rates - self.mean_pass_rate) ** 2) / h.total_prompts
            several = h.rollouts > 1
            n, k = h.rollouts[several], h.successes[several]
            pq = float(h.prompts[several] @ (k * (n - k) / (n * (n - 1.0)))) / float(h.prompts[several].sum())
            within = pq * float(h.prompts @ (1.0 / h.rollouts)) / h.total_prompts
            between = max(spread - within, 0.0) * self.pilot.prompts / self.population
        return mean_interval(rates, h.prompts, level, between=between)

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
        (0.8, 0.711, 0.87, 0.125)
        """
        g, level = as_one_group_size(group_size), as_level(level)
        return self.remembered(("dead", g, level, simultaneous), lambda: self._dead(g, level, simultaneous))

    def _dead(self, g: int, level: float, simultaneous: bool) -> DeadFraction:
        h, parts = self._histogram, self._points.parts(g)
        return DeadFraction(
            group_size=g,
            value=1.0 if g == 1 else parts.dead,
            level=level,
            all_pass=parts.all_pass,
            all_fail=parts.all_fail,
            iid=float(dead_probability(self.mean_pass_rate, g)),
            plug_in=float(dead_probability(h.successes / h.rollouts, g) @ h.prompts) / h.total_prompts,
            method=parts.method,
            prompts_used=parts.prompts_used,
            simultaneous=simultaneous,
            _source=self,
        )

    def group_pmf(self, group_size: int) -> Floats:
        """Law of the passes k in a group of G, shape (G + 1,); its ends are `dead`'s two parts.

        Raises:
            PilotError: The pilot does not determine it (one rollout per prompt).
        """
        return next(iter(self.group_pmfs([group_size]).values()))

    def group_pmfs(self, group_sizes: Iterable[int]) -> dict[int, Floats]:
        """`group_pmf` at many group sizes, for little more than the cost of the largest."""
        sizes = [as_one_group_size(g) for g in group_sizes]
        for g in sizes:
            if self._points.parts(g).dead is None:
                raise PilotError(f"The pilot does not determine groups of {g}. {self.status.sentence}")
        laws = self.remembered(("laws", *sorted(set(sizes))), lambda: self._points.group_pmfs(sizes))
        return {g: law.copy() for g, law in laws.items()}

    def pass_at(self, group_size: int, level: float = 0.95) -> Estimate:
        """Share of groups of G with at least one pass (theory.md, eq. 3)."""
        g = as_one_group_size(group_size)
        fails = GROUP_FAMILIES["all-fail"](g)
        all_fail = self._points.parts(g).all_fail
        value = None if all_fail is None else 1.0 - all_fail
        fails_limits = self.group_limits("all-fail", g, as_level(level), False)
        functional = custom(lambda p: 1.0 - fails.phi(p, 1.0 - p), f"pass@{g}", "some-pass")
        return Estimate(
            name=functional.name,
            value=value,
            level=as_level(level),
            _functional=functional,
            _source=self,
            _known=(1.0 - fails_limits[1], 1.0 - fails_limits[0]),
        )

    def reward_variance(self, level: float = 0.95) -> Estimate:
        """Mean reward variance within a prompt, ``E[p (1 - p)] = (1 - D(2)) / 2`` (theory.md, eq. 11)."""
        pairs = self.dead(2, level)
        value = None if pairs.value is None else (1.0 - pairs.value) / 2.0
        functional = custom(lambda p: p * (1.0 - p), "E[p(1-p)]", "mixed")
        return Estimate(
            name=functional.name,
            value=None if value is None else min(value, MOST_VARIANCE),
            level=pairs.level,
            _functional=functional,
            _source=self,
            _known=(min((1.0 - pairs.high) / 2.0, MOST_VARIANCE), min((1.0 - pairs.low) / 2.0, MOST_VARIANCE)),
        )

    def stopping_cost(self, max_group_size: int, level: float = 0.95) -> Estimate:
        """Rollouts per prompt if sampling stops once both outcomes are seen, at most G (theory.md, eq. 34)."""
        g = as_one_group_size(max_group_size)
        points = self._points
        known = g - 1 if points.nonparametric_share > 0.0 and g <= LONGEST_SUM else points.counted
        last = min(g - 1, known)
        value: float | None
        if self.family == "auto" and last <= points.counted:
            value = 1.0 + points.counted_sum(last) if last else 1.0
        else:
            values = [self.dead(t).value for t in range(1, last + 1)]
            value = None if any(v is None for v in values) else 1.0 + sum(v for v in values if v is not None)
        if value is not None and last < g - 1:
            value = points.blended(stopping_cost(g), value + points.dead_sum(last, g))
        return self._estimate(stopping_cost(g), value, level)

    def jensen_gap(self, group_size: int, level: float = 0.95) -> Estimate:
        """``D(G) - d_G(pbar)``, its limits linearised at the observed mean (theory.md, eq. 34).

        The low limit is 0 where D's own interval holds the i.i.d. value: prompts may then be alike.
        """
        g = as_one_group_size(group_size)
        d = self.dead(g, level)
        functional = jensen_gap(g, self.mean_pass_rate)
        low, high = self.limits_of(functional, d.level)
        if d.low <= d.iid <= d.high:
            low = 0.0
        return Estimate(
            name=functional.name,
            value=d.jensen_gap,
            level=d.level,
            _functional=functional,
            _source=self,
            _known=(low, max(low, high)),
        )

    def mean_of(
        self, function: Callable[[Floats], NDArray[Any]], *, name: str = "mean", level: float = 0.95
    ) -> Estimate:
        """``E_F f(p)`` of any function, with limits over all F that the pilot leaves possible.

        The value is that of the smooth fit. The named means (`dead`, `pass_at`, `reward_variance`) start from counts
        and so differ a little from the same function given here.

        Args:
            function: From an array of pass rates to values of the same shape, finite on [0, 1]. The limits are those on
                a grid (steps of .004 in the middle, 1.5e-5 at the ends): it must change little within a step.
            name: For messages.
            level: Confidence level.

        >>> from grpo_plan.fitting.fit import fit_pass_rates
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> hard = fit.mean_of(lambda p: p < 0.1)
        >>> 0.2 < hard.low < hard.value < hard.high < 0.6
        True
        """
        functional = custom(function, name)
        if not np.all(np.isfinite(functional.phi(*arcsine_grid()))):
            raise DomainError(f"{name} must be finite for every pass rate from 0 to 1.")
        value = None
        if self._points.spread_known:
            rates = self.smooth_rates
            values = functional.phi(rates.passing, rates.failing)
            value = self._points.blended(functional, float(rates.masses @ values))
        return self._estimate(functional, value, level)

    @property
    def max_counted_group_size(self) -> int:
        """Largest G answered by subgroup counts: four fifths of the prompts have rollouts for it."""
        return self._points.counted

    # what estimates ask for -------------------------------------------------------------------------------------

    def group_limits(self, kind: str, group_size: int, level: float, simultaneous: bool) -> Limits:
        """Confidence limits of "dead", "all-pass" or "all-fail"; in family auto they always hold the value."""
        if group_size == 1:
            mean = self.mean_pass_rate_interval(level)
            low, high = (mean.low, mean.high) if kind == "all-pass" else (1.0 - mean.high, 1.0 - mean.low)
            return low, max(high, self.group_limits(kind, 2, level, simultaneous)[1])  # no part rises with G
        low, high = self._uncertainty.group_limits(kind, group_size, level, everywhere=simultaneous)
        value = self.group_value(kind, group_size)
        if self.family == "auto" and value is not None:
            return min(low, value), max(high, value)
        return low, high

    def group_value(self, kind: str, group_size: int) -> float | None:
        """Value of "dead", "all-pass" or "all-fail"; None where the pilot does not determine it."""
        parts = self._points.parts(group_size)
        return {"dead": parts.dead, "all-pass": parts.all_pass, "all-fail": parts.all_fail}[kind]

    def limits_of(self, functional: Functional, level: float) -> Limits:
        """Confidence limits of another mean."""
        return self._uncertainty.limits(functional, level)

    def upper_limit_of(self, functional: Functional, level: float) -> float:
        """The upper one of `limits_of` alone, at half the cost."""
        return self._uncertainty.upper_limit(functional, level)

    def identified_of(self, functional: Functional) -> Limits | None:
        """Range of a mean over all F with the fitted law of k of n (theory.md, eq. 38); None where no smooth F fits."""
        if self.family == "auto" and self.nonparametric_share > MISFIT:
            return None
        return range_at(self.smooth_rates, self.max_measured_group_size, functional)

    def smooth_limits(self, group_size: int, level: float) -> Limits | None:
        """Limits of D(G) by the delta method within and between smooth fits (theory.md, eq. 40)."""
        value, fits = self._points.parts(group_size).dead, self._points.smooth_fits
        if value is None or fits is None or self.nonparametric_share > MISFIT:
            return None
        z = chi_square_quantile(level) ** 0.5
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
        if FitStatus.DEPENDENT in self.statuses:
            return FitStatus.DEPENDENT
        if value is None:
            return FitStatus.UNKNOWN
        if group_size > self.max_measured_group_size and limits[1] - limits[0] > TOO_WIDE:
            return FitStatus.BEYOND_REACH
        if group_size > 2 * self.max_measured_group_size:
            return FitStatus.EXTRAPOLATED
        return self.status

    # ------------------------------------------------------------------------------------------------------------

    @property
    def nonparametric(self) -> DiscretePassRates:
        """The nonparametric maximum-likelihood distribution: its atoms and masses (theory.md, eq. 32)."""
        return self._points.nonparametric

    @property
    def certificate(self) -> float:
        """What any other F could add to the log-likelihood of `nonparametric`, at most."""
        return self._points.profile.certificate

    @property
    def smooth_rates(self) -> DiscretePassRates:
        """The distribution behind the values beyond n, on a grid (two points where no prompt is mixed)."""
        return self._points.smooth_rates

    @property
    def likely_rates(self) -> DiscretePassRates:
        """The smooth distribution, mixed with the nonparametric one by `nonparametric_share`."""
        smooth, share = self.smooth_rates, self.nonparametric_share
        if share == 0.0:
            return smooth
        raw = self.nonparametric
        return DiscretePassRates(
            passing=np.concatenate([smooth.passing, raw.passing]),
            failing=np.concatenate([smooth.failing, raw.failing]),
            masses=np.concatenate([(1.0 - share) * smooth.masses, share * raw.masses]),
        )

    @property
    def nonparametric_share(self) -> float:
        """Weight of the nonparametric answer beyond n: about 0, unless no smooth F fits the pilot."""
        return self._points.nonparametric_share

    @cached_property
    def _points(self) -> PointEstimator:
        return PointEstimator(
            histogram=self._histogram,
            family=self.family,
            beta=self.beta.rates,
            spread_known=FitStatus.SINGLE_ROLLOUT not in self.statuses,
            agreeing=bool(set(self.statuses) & set(AGREEING)),
            largest=self.max_measured_group_size,
            counted=largest_measured_group_size(self._histogram, COUNTED_SHARE),
        )

    @cached_property
    def _uncertainty(self) -> Uncertainty:
        sampled = 0.0 if self.population is None else self.pilot.prompts / self.population
        return Uncertainty(points=self._points, sampled=sampled)

    def _estimate(self, functional: Functional, value: float | None, level: float) -> Estimate:
        return Estimate(name=functional.name, value=value, level=as_level(level), _functional=functional, _source=self)
