"""The fit of prompts that were kept by their own count, and the sign that they were (theory.md, section 17)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.average import AveragedFit
from grpo_plan.fitting.estimates import Estimate, Limits
from grpo_plan.fitting.functionals import GROUP_FAMILIES, Functional, custom
from grpo_plan.fitting.identified import range_given
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.mixing import GRID_POINTS, LARGEST_N_OF_GRID, arcsine_grid, build_mixing
from grpo_plan.fitting.points import Parts, PointEstimator
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.selected import Selected, kept_chance, kept_passes
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import Thresholds, chi_square_quantile
from grpo_plan.fitting.truncated_fit import MIN_GROUPS, MIXED_FIT, WRONG_COUNT, rows_of
from grpo_plan.fitting.uncertainty import Uncertainty
from grpo_plan.pilot import Pilot, PilotHistogram
from grpo_plan.provenance import REMOVED

Floats = NDArray[np.float64]
FAMILIES = ("auto", "beta", "tilted-beta")
LEAST_SHARE = 0.5  # of the prompts that have the usual number of rollouts
OTHER_SIZES = "prompts_of_other_rollout_counts"
DEGREES = 2  # of freedom of the threshold


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedPoints(PointEstimator):
    """Values for the kept prompts: those of the smooth fits, at every G, since no count is unbiased."""

    selected: Selected

    @cached_property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all distributions of the kept prompts."""
        return self.selected.profile

    @cached_property
    def average(self) -> AveragedFit:
        """The smooth distributions of the kept prompts."""
        return self.selected.average

    def _parts(self, g: int) -> Parts:
        if g > 1 or not self.spread_known:
            found = super()._parts(g)
            return replace(found, method="selected") if found.dead is not None and g > 1 else found
        mean = float(self.rates.all_pass(1))
        return Parts(all_pass=mean, all_fail=1.0 - mean, method="selected", prompts_used=self.selected.total)

    @property
    def rates(self) -> Any:
        """The smooth distribution: that of the kept prompts is no Beta in any family."""
        return self.smooth_rates


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedLimits(Uncertainty):
    """Limits for the kept prompts: the likelihood alone (theory.md, eq. 77)."""

    def thresholds(self, functional: Functional, level: float, *, everywhere: bool = False) -> Thresholds:
        """Chi-square with two degrees of freedom, as for mixed groups (theory.md, eq. 74)."""
        degrees = max(self.points.largest - 1, DEGREES) if everywhere else DEGREES
        both = chi_square_quantile(level, degrees)
        return Thresholds(lower=both, upper=both)

    def _group_limits(self, kind: str, group_size: int, level: float, everywhere: bool) -> tuple[float, float]:
        low, high = self.limits(GROUP_FAMILIES[kind](group_size), level, everywhere=everywhere)
        return max(low, 0.0), min(high, 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SelectedFit(PassRateFit):
    """What the counts of kept prompts say of these prompts when they are rolled out anew.

    ``plug_in`` is that of the counts as they stand, and so far off; ``beta`` is that of all prompts.
    """

    selected: Selected

    @property
    def removed(self) -> str | None:
        """Which prompts were taken out by their own count."""
        return self.selected.removed

    def require_all_groups(self, purpose: str) -> None:
        """Refuse, in one line, what takes counts as they stand.

        Raises:
            PilotError: Always.
        """
        raise PilotError(
            f"{purpose} takes the counts of prompts as they stand; those of this pilot decided which prompts were kept "
            f"({self.removed} ones were removed). Roll out a pilot of your own on the kept prompts."
        )

    @property
    def mean_pass_rate(self) -> float:
        """Mean pass rate of the kept prompts, from the smooth fit; that of the counts is off."""
        known = self._points.parts(1).all_pass
        return self.pilot.mean_pass_rate if known is None else known

    def mean_pass_rate_interval(self, level: float = 0.95) -> Interval:
        """Mean pass rate of the kept prompts with its limits."""
        low, high = self.limits_of(custom(lambda p: p, "mean pass rate"), level)
        value = self.mean_pass_rate
        return Interval(value=value, low=max(0.0, min(low, value)), high=min(1.0, max(high, value)))

    def jensen_gap(self, group_size: int, level: float = 0.95) -> Estimate:
        """``D(G) - d_G(pbar)``, with limits from those of both terms."""
        gap, dead = super().jensen_gap(group_size, level), self.dead(group_size, level)
        mean = self.mean_pass_rate_interval(level)
        ends = [p**group_size + (1.0 - p) ** group_size for p in (mean.low, mean.high)]
        middle = min(max(0.5, mean.low), mean.high)
        least = middle**group_size + (1.0 - middle) ** group_size
        return replace(gap, _known=(max(0.0, dead.low - max(ends)), max(0.0, dead.high - least)))

    def identified_of(self, functional: Functional) -> Limits | None:
        """Range of a mean over all distributions of the kept prompts with the fitted law of k (theory.md, eq. 77)."""
        if not self._points.spread_known:
            return None
        s = self.selected
        p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if s.rollouts <= size))
        return range_given(self.smooth_rates, kept_chance(s.rollouts, s.kept, p, q, s.removed), functional, (p, q))

    @cached_property
    def _points(self) -> PointEstimator:
        return SelectedPoints(
            histogram=self._histogram, family=self.family, beta=self.beta.rates, agreeing=False, counted=1,
            spread_known=self.selected.shape_known, largest=self.selected.rollouts, selected=self.selected,
        )  # fmt: skip

    @cached_property
    def _uncertainty(self) -> Uncertainty:
        return SelectedLimits(points=self._points, sampled=0.0)


def fit_selected(pilot: Pilot, removed: str, family: str, population: str | int) -> SelectedFit:
    """Fit a pilot from which prompts were removed by their own count.

    Args:
        pilot: One row a prompt, with the count that decided.
        removed: One of `REMOVED`.
        family: One of `FAMILIES`.
        population: Must be ``"sample"``.

    Raises:
        DomainError: No such kind of prompts, or a family or population that makes no sense here.
        PilotError: Prompts of that kind are there, or prompts have no common n.
    """
    if removed not in REMOVED:
        hint = did_you_mean(removed, REMOVED)
        raise DomainError(f"removed must be {', '.join(REMOVED[:-1])} or {REMOVED[-1]}; got {removed!r}.{hint}")
    if family not in FAMILIES:
        raise DomainError(
            f"family must be {', '.join(FAMILIES[:-1])} or {FAMILIES[-1]} where prompts were removed by their count; "
            f"got {family!r}."
        )
    if population != "sample":
        raise DomainError(
            f"population must be sample where prompts were removed by their count; got {population!r}. Its limits hold "
            "for these prompts too, and are wider than they need be."
        )
    kept, size = _of_one_size(pilot)
    cells, counts = kept.histogram(), np.zeros(size + 1, dtype=np.int64)
    counts[cells.successes] = cells.prompts
    outside = np.setdiff1d(np.arange(size + 1), kept_passes(size, removed))
    if counts[outside].any():
        there = ", ".join(f"{counts[k]:,} with {k} of {size}" for k in outside if counts[k])
        raise PilotError(
            f"{removed} prompts are said to have been removed, but the pilot has prompts {there}. Leave out removed "
            "(--removed), or name what was removed."
        )
    selected = Selected(rollouts=size, removed=removed, counts=counts)
    few = (FitStatus.TOO_FEW_PROMPTS,) if selected.total < MIN_GROUPS else ()
    return SelectedFit(
        family=family,
        pilot=kept,
        beta=selected.beta,
        statuses=(FitStatus.SELECTED, *few),
        max_measured_group_size=size,
        selected=selected,
        _histogram=cells,
    )


def _of_one_size(pilot: Pilot) -> tuple[Pilot, int]:
    """The rows with the usual n, and that n; the others are counted.

    Raises:
        PilotError: No n is usual, or it is 1.
    """
    n, count = pilot.rollouts, pilot.prompts_per_row
    sizes = np.unique(n)
    prompts = np.array([int(count[n == s].sum()) for s in sizes])
    size = int(sizes[int(prompts.argmax())])
    if int(prompts.max()) < LEAST_SHARE * pilot.prompts:
        raise PilotError(
            f"Where prompts were removed by their count, all must have one number of rollouts; got {sizes.size} "
            f"({', '.join(f'{m:,} of {s}' for s, m in list(zip(sizes, prompts, strict=True))[:4])}). Keep one with "
            "--where."
        )
    if size < 2:
        raise PilotError("Where prompts were removed by their count, they need at least 2 rollouts; got 1.")
    return rows_of(pilot, n == size, OTHER_SIZES), size


def looks_selected(histogram: PilotHistogram) -> bool:
    """Whether a pilot of one n lacks one kind of dead prompt, though so many are one rollout away that some must be.

    Where both kinds are missing, `looks_filtered` says so.
    """
    h, n = histogram, histogram.max_rollouts
    fails, passes = int(h.successes.min()) == 0, int(h.successes.max()) == n
    if not 3 <= n <= LARGEST_N_OF_GRID or int(h.rollouts.min()) < n or fails == passes:
        return False
    counts = np.zeros(n + 1, dtype=np.int64)
    counts[h.successes] = h.prompts
    if not counts[n - 1 if fails else 1]:
        return False
    selected = Selected(rollouts=n, removed="all-pass" if fails else "all-fail", counts=counts)
    alone = selected.profile.log_likelihood
    if 2.0 * (alone - ProfileLikelihood.of(build_mixing(h)).log_likelihood) <= WRONG_COUNT:
        return False
    best = float(h.prompts @ np.log(h.prompts / h.total_prompts))
    return 2.0 * (best - alone) <= chi_square_quantile(MIXED_FIT, n - 1)
