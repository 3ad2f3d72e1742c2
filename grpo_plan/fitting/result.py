"""Results of a fit: the dead fraction at any group size, and the law of passes in a group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level, as_one_group_size
from grpo_plan.errors import PilotError
from grpo_plan.fitting.betabinomial import BetaBinomialFit
from grpo_plan.fitting.intervals import Interval, mean_interval
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.ustatistics import subgroup_all_fail, subgroup_all_pass, subgroup_pmf
from grpo_plan.groups import dead_probability
from grpo_plan.pilot import Pilot, PilotHistogram

Floats = NDArray[np.float64]
USABLE_SHARE = 0.2  # of the prompts must have n >= G before their subgroups stand for all prompts
METHODS = {
    "exact": "one rollout always agrees with itself",
    "u-statistic": "unbiased subgroup count",
    "beta": "Beta fit",
    "beta-capped": "Beta fit, held at the largest G that the pilot measures (D never rises with G)",
    "unknown": "not determined by this pilot",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFraction:
    """Expected share of dead groups at one group size, and its two parts.

    Attributes:
        group_size: G.
        value: D(G), in [0, 1]; None when the pilot does not determine it.
        low: Lower confidence limit of ``value``; None when unknown.
        high: Upper confidence limit; None when unknown.
        level: Confidence level of the limits.
        all_pass: Part whose rollouts all pass.
        all_fail: Part whose rollouts all fail.
        all_pass_interval: Limits of ``all_pass``; None when unknown.
        all_fail_interval: Limits of ``all_fail``; None when unknown.
        iid: ``pbar**G + (1 - pbar)**G`` at the mean pass rate: what the i.i.d. formula says.
        plug_in: Mean of the formula at each prompt's k/n: biased up.
        jensen_gap: ``value - iid``.
        identified: Values that no number of prompts could rule out at this n; equal ends where G <= n; None
            where not computed.
        method: One of `METHODS`.
        prompts_used: Prompts that entered ``value``.
        status: What the number can and cannot say.
    """

    group_size: int
    value: float | None
    low: float | None
    high: float | None
    level: float
    all_pass: float | None
    all_fail: float | None
    all_pass_interval: tuple[float, float] | None
    all_fail_interval: tuple[float, float] | None
    iid: float
    plug_in: float
    jensen_gap: float | None
    identified: tuple[float, float] | None
    method: str
    prompts_used: int
    status: FitStatus

    @property
    def mixed(self) -> float | None:
        """Expected share of mixed groups, ``1 - value``."""
        return None if self.value is None else 1.0 - self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassRateFit:
    """What a pilot says of its pass rates.

    Attributes:
        family: ``"auto"`` (unbiased counts up to n, a Beta beyond) or ``"beta"`` (the Beta everywhere).
        pilot: The pilot that was fitted.
        beta: The fitted Beta with its likelihood and standard errors.
        statuses: Everything that limits the fit, gravest first; ``(FitStatus.OK,)`` if nothing does.
        max_measured_group_size: Largest G that enough prompts have rollouts for.
    """

    family: str
    pilot: Pilot = field(repr=False)
    beta: BetaBinomialFit
    statuses: tuple[FitStatus, ...]
    max_measured_group_size: int
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

    def dead(self, group_size: int, level: float = 0.95) -> DeadFraction:
        """Dead fraction D(G) with its parts, limits and the values of the usual formulas.

        Args:
            group_size: G, at least 1; any size, also beyond the pilot's n.
            level: Confidence level of the limits, in (0, 1).

        >>> from grpo_plan.fitting.fit import fit_pass_rates
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> d = fit.dead(4)
        >>> d.value, round(d.low, 3), round(d.high, 3), round(d.iid, 3)
        (0.8, 0.711, 0.867, 0.125)
        """
        g, level = as_one_group_size(group_size), as_level(level)
        h = self._histogram
        iid = float(dead_probability(self.pilot.mean_pass_rate, g))
        plug_in = float(dead_probability(h.successes / h.rollouts, g) @ h.prompts) / h.total_prompts
        common: dict[str, Any] = {"group_size": g, "level": level, "iid": iid, "plug_in": plug_in}
        if g == 1:
            return self._exact_at_one(common)
        if self.family == "auto" and g <= self.max_measured_group_size:
            return self._measured(g, level, common)
        return self._extrapolated(g, common)

    def group_pmf(self, group_size: int) -> Floats:
        """Law of the passes k in a group of G, shape (G + 1,); its ends are `dead`'s two parts.

        Raises:
            PilotError: The pilot does not determine it (one rollout per prompt).
        """
        g = as_one_group_size(group_size)
        if self.family == "auto" and g <= self.max_measured_group_size:
            h = self._usable(g)
            weights = h.prompts / h.total_prompts
            pmf: Floats = weights @ subgroup_pmf(h.successes, h.rollouts, g)
        elif not self._spread_known:
            raise PilotError(f"The pilot does not determine groups of {g}. {self.status.sentence}")
        else:
            pmf = self.beta.rates.group_pmf(g)
            if (d := self.dead(g)).method == "beta-capped":
                ends = np.array([d.all_fail, d.all_pass], dtype=np.float64)
                inner = float(pmf[1:-1].sum())
                if inner > 0.0:
                    pmf[1:-1] *= max(0.0, 1.0 - float(ends.sum())) / inner
                pmf[0], pmf[-1] = ends
        return pmf

    @property
    def _spread_known(self) -> bool:
        """Whether the pilot says anything on how pass rates differ (or that all rollouts agree)."""
        return FitStatus.SINGLE_ROLLOUT not in self.statuses

    def _usable(self, group_size: int) -> PilotHistogram:
        h = self._histogram
        enough = h.rollouts >= group_size
        return PilotHistogram(rollouts=h.rollouts[enough], successes=h.successes[enough], prompts=h.prompts[enough])

    def _exact_at_one(self, common: dict[str, Any]) -> DeadFraction:
        mean = self.mean_pass_rate_interval(common["level"])
        fitted = self.family == "beta"
        passing = self.beta.rates.mean if fitted else mean.value
        return DeadFraction(
            value=1.0,
            low=1.0,
            high=1.0,
            all_pass=passing,
            all_fail=1.0 - passing,
            all_pass_interval=None if fitted else (mean.low, mean.high),
            all_fail_interval=None if fitted else (1.0 - mean.high, 1.0 - mean.low),
            jensen_gap=0.0,
            identified=(1.0, 1.0),
            method="exact",
            prompts_used=self.pilot.prompts,
            status=FitStatus.OK,
            **common,
        )

    def _measured(self, g: int, level: float, common: dict[str, Any]) -> DeadFraction:
        h = self._usable(g)
        passes = subgroup_all_pass(h.successes, h.rollouts, g)
        fails = subgroup_all_fail(h.successes, h.rollouts, g)
        dead = mean_interval(np.minimum(passes + fails, 1.0), h.prompts, level)
        all_pass = mean_interval(passes, h.prompts, level)
        all_fail = mean_interval(fails, h.prompts, level)
        return DeadFraction(
            value=dead.value,
            low=dead.low,
            high=dead.high,
            all_pass=all_pass.value,
            all_fail=all_fail.value,
            all_pass_interval=(all_pass.low, all_pass.high),
            all_fail_interval=(all_fail.low, all_fail.high),
            jensen_gap=dead.value - common["iid"],
            identified=(dead.value, dead.value),
            method="u-statistic",
            prompts_used=h.total_prompts,
            status=self.status,
            **common,
        )

    def _extrapolated(self, g: int, common: dict[str, Any]) -> DeadFraction:
        value = all_pass = all_fail = gap = None
        method, status = "unknown", FitStatus.UNKNOWN
        if self._spread_known:
            all_pass, all_fail, method = self._beta_parts(g, common)
            value = min(1.0, all_pass + all_fail)
            gap = value - common["iid"]
            status = FitStatus.EXTRAPOLATED if g > self.max_measured_group_size else self.status
        return DeadFraction(
            value=value,
            low=None,
            high=None,
            all_pass=all_pass,
            all_fail=all_fail,
            all_pass_interval=None,
            all_fail_interval=None,
            jensen_gap=gap,
            identified=None,
            method=method,
            prompts_used=self.pilot.prompts,
            status=status,
            **common,
        )

    def _beta_parts(self, g: int, common: dict[str, Any]) -> tuple[float, float, str]:
        """All-pass and all-fail of the Beta fit; in family auto each is held at its last measured value.

        Not where the Beta knows no mixed group: there is then no mass to give the difference to.
        """
        all_pass, all_fail = float(self.beta.rates.all_pass(g)), float(self.beta.rates.all_fail(g))
        if self.family == "auto" and self.max_measured_group_size > 1 and all_pass + all_fail < 1.0:
            last = self._measured(self.max_measured_group_size, common["level"], dict(common))
            held_pass, held_fail = min(all_pass, last.all_pass or 0.0), min(all_fail, last.all_fail or 0.0)
            if (held_pass, held_fail) != (all_pass, all_fail):
                return held_pass, held_fail, "beta-capped"
        return all_pass, all_fail, "beta"


def largest_measured_group_size(histogram: PilotHistogram) -> int:
    """Largest G for which at least `USABLE_SHARE` of the prompts have G or more rollouts."""
    order = np.argsort(histogram.rollouts)[::-1]
    covered = np.cumsum(histogram.prompts[order]) / histogram.total_prompts
    return int(histogram.rollouts[order][int(np.searchsorted(covered, USABLE_SHARE - 1e-12))])
