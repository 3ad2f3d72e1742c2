"""A pilot of mixed groups only: what was dropped, which groups can be used, and the fit (theory.md, section 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._pooling import LENGTHS, PER_PROMPT
from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.estimates import Estimate, Limits
from grpo_plan.fitting.functionals import Functional, custom
from grpo_plan.fitting.identified import range_at
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.points import PointEstimator
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import chi_square_quantile
from grpo_plan.fitting.truncated import Survivors
from grpo_plan.fitting.truncated_limits import CountedDeadLimits, CountedDeadPoints, SurvivorLimits, SurvivorPoints
from grpo_plan.fitting.uncertainty import Uncertainty
from grpo_plan.pilot import Pilot, PilotHistogram

FAMILIES = ("auto", "beta", "tilted-beta")
MIN_GROUPS = 30
LEAST_SHARE = 0.5  # of the groups that have the full size; fewer look like merged visits
COUNTED_SHARE = 0.98  # the same where dropped groups are counted: they are all taken to have the full size
MIXED_FIT = 0.999  # level at which the mixed groups must be those of some distribution, for them to look filtered
WRONG_COUNT = 10.8  # likelihood ratio above which the number of dropped groups contradicts the mixed ones (0.1 %)
MOST_ROWS = 1_000_000  # dead groups up to which a pilot with lengths gets a row for each
OTHER_SIZES = "prompts_of_other_group_sizes"

DroppedGroups = int | tuple[int, int] | Mapping[str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class TruncatedFit(PassRateFit):
    """What mixed groups say of all pass rates.

    Without the number of dead groups every upper limit is the one that prompts at pass rate 0 or 1 would give, the
    values are those of a smooth F, ``mean_pass_rate`` is its mean, with limits 0 and 1, and ``plug_in`` is that
    of the mixed groups. ``pilot`` holds the mixed groups; where dead ones are counted, they split into all-fail and
    all-pass as the smooth fit does, in whole groups.
    """

    survivors: Survivors

    @property
    def unknown_dead(self) -> bool:
        """Whether not even the number of dead groups is known."""
        return self.survivors.dropped is None

    @property
    def truncation(self) -> dict[str, int | None]:
        """Group size, mixed groups, groups of other sizes that were left out, and dropped dead groups."""
        return {
            "group_size": self.survivors.group_size,
            "mixed_groups": self.survivors.groups,
            "other_sizes": self.pilot.dropped.get(OTHER_SIZES, 0),
            "dropped_groups": self.survivors.dropped,
        }

    @property
    def mean_pass_rate(self) -> float:
        """Mean of F: of the smooth fit where dead groups are unknown; of the mixed groups where that has no shape."""
        if not self.unknown_dead:
            return super().mean_pass_rate
        known = self._points.parts(1).all_pass
        return self.pilot.mean_pass_rate if known is None else known

    def mean_pass_rate_interval(self, level: float = 0.95) -> Interval:
        """Mean pass rate with its limits over all F."""
        low, high = self.limits_of(custom(lambda p: p, "mean pass rate"), level)
        value = self.mean_pass_rate
        return Interval(value=value, low=max(0.0, min(low, value)), high=min(1.0, max(high, value)))

    def jensen_gap(self, group_size: int, level: float = 0.95) -> Estimate:
        """``D(G) - d_G(pbar)``; where dead groups are unknown, within 0 and the largest gap there is."""
        gap = super().jensen_gap(group_size, level)
        return replace(gap, _known=(0.0, 1.0 - 2.0 ** (1 - group_size))) if self.unknown_dead else gap

    def identified_of(self, functional: Functional) -> Limits | None:
        """Range of a mean over all F with the fitted law of the cells (theory.md, eq. 74)."""
        if not self._points.spread_known:
            return None
        seen = "mixed" if self.unknown_dead else "merged"
        return range_at(self.smooth_rates, self.survivors.group_size, functional, seen=seen)

    def status_at(self, group_size: int, value: float | None, limits: Limits) -> FitStatus:
        """Status of one dead fraction."""
        if self.unknown_dead and group_size > 1 and FitStatus.DEPENDENT not in self.statuses:
            return FitStatus.TRUNCATED
        found = super().status_at(group_size, value, limits)
        return FitStatus.OK if found is FitStatus.DEAD_KINDS_UNKNOWN else found  # D(G) itself is counted

    @cached_property
    def _points(self) -> PointEstimator:
        known: dict[str, Any] = {
            "histogram": self._histogram, "family": self.family, "beta": self.beta.rates, "agreeing": False,
            "spread_known": self.survivors.shape_known, "largest": self.survivors.group_size,
            "survivors": self.survivors,
        }  # fmt: skip
        if self.unknown_dead:
            return SurvivorPoints(counted=1, **known)
        return CountedDeadPoints(counted=self.survivors.group_size, **known)

    @cached_property
    def _uncertainty(self) -> Uncertainty:
        if self.unknown_dead:
            return SurvivorLimits(points=self._points, sampled=0.0, survivors=self.survivors)
        return CountedDeadLimits(points=self._points, sampled=0.0)


def fit_truncated(pilot: Pilot, dropped: int | None, family: str, population: str | int) -> TruncatedFit:
    """Fit a pilot whose dead groups are missing.

    Args:
        pilot: One row for each mixed group.
        dropped: Number of dead groups, of either kind; None where it is unknown.
        family: One of `FAMILIES`.
        population: Must be ``"sample"``.

    Raises:
        DomainError: A family or population that makes no sense here.
        PilotError: Rows are no mixed groups of one size.
    """
    if family not in FAMILIES:
        raise DomainError(
            f"family must be {', '.join(FAMILIES[:-1])} or {FAMILIES[-1]} for a pilot of mixed groups only; got "
            f"{family!r}. The others need the dead groups."
        )
    if population != "sample":
        raise DomainError(
            f"population must be sample for a pilot of mixed groups only; got {population!r}. Its rows are groups, and "
            "which prompts are missing is unknown."
        )
    kept, size = mixed_groups(pilot, LEAST_SHARE if dropped is None else COUNTED_SHARE)
    cells, counts = kept.histogram(), np.zeros(size - 1, dtype=np.int64)
    counts[cells.successes - 1] = cells.prompts
    survivors = Survivors(group_size=size, counts=counts, dropped=dropped)
    passes = 0
    if dropped and survivors.shape_known:
        rates = survivors.average.rates
        all_pass, all_fail = rates.all_pass(size), rates.all_fail(size)
        passes = round(dropped * all_pass / (all_pass + all_fail)) if all_pass + all_fail > 0.0 else 0
    elif dropped:
        passes = dropped // 2
    return TruncatedFit(
        family=family,
        pilot=kept,
        beta=survivors.beta,
        statuses=_statuses(survivors),
        max_measured_group_size=size,
        survivors=survivors,
        _histogram=survivors.cells((dropped or 0) - passes, passes),
    )


def parse_dropped(dropped: DroppedGroups) -> int | tuple[int, int]:
    """A number of dead groups, or (all-fail, all-pass).

    >>> parse_dropped({"all_fail": 3, "all_pass": 2}), parse_dropped([3, 2]), parse_dropped(5)
    ((3, 2), (3, 2), 5)
    """
    rule = "dropped_groups must be a number, a pair (all-fail, all-pass) or {'all_fail': ..., 'all_pass': ...}"
    if isinstance(dropped, Mapping):
        if set(dropped) != {"all_fail", "all_pass"}:
            raise DomainError(f"{rule}; got the keys {', '.join(map(str, dropped)) or '(none)'}.")
        dropped = dropped["all_fail"], dropped["all_pass"]
    if isinstance(dropped, Sequence) and not isinstance(dropped, str) and len(dropped) == 2:
        fails, passes = (as_count(value, "dropped_groups", minimum=0) for value in dropped)
        return fails, passes
    if isinstance(dropped, Sequence):
        raise DomainError(f"{rule}; got {dropped!r}.")
    return as_count(dropped, "dropped_groups", minimum=0)


def mixed_groups(pilot: Pilot, least_share: float) -> tuple[Pilot, int]:
    """The rows that are mixed groups of the full size, and that size; those with fewer scored rollouts are counted.

    Raises:
        PilotError: Dead groups among the rows, merged visits, or no common size.
    """
    n, k, count = pilot.rollouts, pilot.successes, pilot.prompts_per_row
    fails, passes = int(count[k == 0].sum()), int(count[k == n].sum())
    if fails or passes:
        found = f"got {fails:,} with no pass and {passes:,} with all passes among {pilot.prompts:,}"
        if pilot.filtered is not None:
            raise PilotError(
                f"A truncated fit needs groups with passes and fails; {found}, though dead ones were dropped "
                f"({pilot.filtered}). The filter looked at another reward: read that one, with its threshold."
            )
        raise PilotError(
            f"A truncated fit needs a pilot without dead groups; {found}. This pilot holds its dead groups: leave out "
            "truncated (--truncated)."
        )
    known = pilot.provenance.group_size
    size = int(n.max()) if known is None else known[1]
    wanted = "one size" if known is None else f"size {size}"
    full = n == size
    if int(n.max()) > size or int(count[full].sum()) < least_share * pilot.prompts:
        groups = {int(s): int(count[n == s].sum()) for s in np.unique(n)}
        most = sorted(groups.items(), key=lambda item: -item[1])[:4]
        shown = ", ".join(f"{number:,} of {s}" for s, number in most)
        raise PilotError(
            f"A truncated fit needs one row for each group, all of {wanted}; got rows of {len(groups)} sizes ({shown} "
            "rollouts). Keep one visit of each prompt, or groups of one size, with --where."
        )
    if size < 2:
        raise PilotError("A truncated fit needs groups of at least 2 rollouts; got groups of 1.")
    return rows_of(pilot, full, OTHER_SIZES), size


def restored(pilot: Pilot, all_fail: int, all_pass: int) -> Pilot:
    """The pilot with its dead groups back: an ordinary one. Their names, strata and lengths are unknown.

    Raises:
        PilotError: As `mixed_groups`.
    """
    kept, size = mixed_groups(pilot, COUNTED_SHARE)
    added = f"added as given: {all_fail:,} all-fail and {all_pass:,} all-pass groups that the source dropped."
    about: dict[str, Any] = {
        "temperature": kept.temperatures[0] if kept.temperatures else None,
        "dropped": kept.dropped,
        "notes": (*kept.notes, added),
        "provenance": replace(kept.provenance, filtered=None),
    }
    lengths = {name: column for name in LENGTHS if (column := getattr(kept, name)) is not None}
    if not lengths or all_fail + all_pass > MOST_ROWS:
        cells = kept.histogram()
        return Pilot.from_histogram(
            size,
            np.concatenate([cells.successes, [0, size]]),
            np.concatenate([cells.prompts, [all_fail, all_pass]]),
            **about,
        )
    unknown = np.full(all_fail + all_pass, np.nan)
    about |= {name: np.concatenate([column, unknown]) for name, column in lengths.items()}
    return Pilot.from_counts(
        np.concatenate([kept.successes, np.zeros(all_fail, np.int64), np.full(all_pass, size)]),
        size,
        **about,
    )


def rows_of(pilot: Pilot, keep: NDArray[np.bool_], reason: str) -> Pilot:
    """Some rows of a pilot; the prompts of the others are counted."""
    if keep.all():
        return pilot
    columns = ("successes", "rollouts", "prompt_count", *PER_PROMPT)
    left = {name: column[keep] for name in columns if (column := getattr(pilot, name)) is not None}
    others = int(pilot.prompts_per_row[~keep].sum())
    return replace(pilot, dropped=dict(pilot.dropped) | {reason: others}, **left)


def _statuses(survivors: Survivors) -> tuple[FitStatus, ...]:
    found = []
    if survivors.dropped is None:
        found.append(FitStatus.TRUNCATED)
    elif survivors.groups and contradiction(survivors) > WRONG_COUNT:
        found.append(FitStatus.DROPPED_COUNT_DOUBTFUL)
    if survivors.total < MIN_GROUPS:
        found.append(FitStatus.TOO_FEW_PROMPTS)
    if survivors.dropped is not None:
        found.append(FitStatus.DEAD_KINDS_UNKNOWN)
    return tuple(found)


def looks_filtered(histogram: PilotHistogram) -> bool:
    """Whether a pilot of one n without a dead prompt has so many next to dead that some must be missing."""
    h = histogram
    n = h.max_rollouts
    if n < 3 or int(h.rollouts.min()) < n or int(h.successes.min()) == 0 or int(h.successes.max()) == n:
        return False
    counts = np.zeros(n - 1, dtype=np.int64)
    counts[h.successes - 1] = h.prompts
    survivors = Survivors(group_size=n, counts=counts, dropped=0)
    if contradiction(survivors) <= WRONG_COUNT:
        return False
    best = float(h.prompts @ np.log(h.prompts / h.total_prompts))  # else rollouts are not independent to begin with
    misfit = 2.0 * (best - replace(survivors, dropped=None).profile.log_likelihood)
    return misfit <= chi_square_quantile(MIXED_FIT, n - 2)


def contradiction(survivors: Survivors) -> float:
    """Likelihood ratio between the count of dead groups and what the mixed ones allow (theory.md, eq. 75)."""
    alone = replace(survivors, dropped=None)
    total, dead = survivors.total, survivors.dropped or 0
    shares = np.array([survivors.groups, dead]) / total
    seen = shares > 0.0
    count = total * float(shares[seen] @ np.log(shares[seen]))
    return 2.0 * (alone.profile.log_likelihood + count - survivors.profile.log_likelihood)
