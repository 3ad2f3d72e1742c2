"""Pass rates recovered from aggregates, and their shares of dead and mixed groups (theory.md, eq. 80 to 83)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count
from grpo_plan.fitting.functionals import GROUP_FAMILIES
from grpo_plan.groups import dead_probability
from grpo_plan.passrates import BetaPassRates
from grpo_plan.runs.beta_matching import beta_aggregate
from grpo_plan.runs.composition import MAX_GROUP_SIZE
from grpo_plan.runs.dead_range import dead_range, largest_rarer
from grpo_plan.runs.moment_range import Known, moment_range, rates_grid
from grpo_plan.runs.recovery_status import RecoveryStatus


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecoveredShare(Shown):
    """A share of groups at one group size, as far as the aggregates tell it.

    Attributes:
        name: "dead", "mixed", "all-pass" or "all-fail".
        group_size: G'.
        value: That of the Beta, held within the range; None where there is no Beta.
        low: Smallest value over all distributions of pass rates that the aggregates allow.
        high: Largest one.
        status: What stands behind it.
    """

    name: str
    group_size: int
    value: float | None
    low: float
    high: float
    status: RecoveryStatus

    def __str__(self) -> str:
        """One line."""
        value = "unknown" if self.value is None else f"{self.value:.4f}"
        return f"{self.name}({self.group_size}) = {value} in [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Recovered(Shown):
    """Pass rates recovered from aggregates of groups of one size.

    Attributes:
        group_size: G of the groups.
        known: The aggregates, each with its limits.
        groups: Number of groups behind the aggregates; None where they were taken as exact.
        level: Level at which all limits hold at once; None where the aggregates were taken as exact.
        beta: The Beta with mean and one more aggregate; None where only the mean is known or nothing fits.
        status: What stands behind the numbers.
        inflation: How far the limits had to be moved outwards for some F to lie within; 0 where one does.
        misfit: Largest distance between an aggregate and the Beta's; None without a Beta.
    """

    group_size: int
    known: tuple[Known, ...]
    groups: int | None
    level: float | None
    beta: BetaPassRates | None
    status: RecoveryStatus
    inflation: float
    misfit: float | None
    _only_dead: bool

    def dead(self, group_size: int) -> RecoveredShare:
        """D(G') of the same pass rates in groups of another size.

        Raises:
            DomainError: The group size is not a whole number from 1 to 100,000.
        """
        return self._share("dead", group_size)

    def all_pass(self, group_size: int) -> RecoveredShare:
        """Share of groups in which every rollout passes."""
        return self._share("all-pass", group_size)

    def all_fail(self, group_size: int) -> RecoveredShare:
        """Share of groups in which no rollout passes."""
        return self._share("all-fail", group_size)

    def mixed(self, group_size: int) -> RecoveredShare:
        """Share of mixed groups, 1 - D(G')."""
        d = self._share("dead", group_size)
        value = None if d.value is None else 1.0 - d.value
        return RecoveredShare(
            name="mixed", group_size=d.group_size, value=value, low=1.0 - d.high, high=1.0 - d.low, status=d.status
        )

    @property
    def range_means(self) -> str:
        """What the ranges are, in words."""
        if self.status is RecoveryStatus.INCONSISTENT:
            return "over all distributions of pass rates"
        if self.level is None:
            return "over all distributions of pass rates with these aggregates"
        return (
            "over all distributions of pass rates whose aggregates lie within the sampling error of "
            f"{self.groups:,} groups ({100 * self.level:g} % for all at once)"
        )

    def __repr__(self) -> str:
        """One line."""
        names = ", ".join(k.name for k in self.known)
        return f"<Recovered from {names} of groups of {self.group_size}: {self.status.name}>"

    def _share(self, name: str, group_size: int) -> RecoveredShare:
        g = as_count(group_size, "group_size", minimum=1, maximum=MAX_GROUP_SIZE)
        low, high = self._range(name, g)
        value = None if self.beta is None else min(max(beta_aggregate(self.beta, name, g), low), high)
        return RecoveredShare(name=name, group_size=g, value=value, low=low, high=high, status=self.status)

    def _range(self, name: str, g: int) -> tuple[float, float]:
        anything = (2.0 ** (1 - g), 1.0) if name == "dead" else (0.0, 1.0)
        if name == "dead" and g == 1:
            return 1.0, 1.0
        if self.status is RecoveryStatus.INCONSISTENT:
            return anything
        same = [k for k in self.known if k.name == name and g == self.group_size]
        if same and same[0].low == same[0].high and self.inflation == 0.0:
            return same[0].value, same[0].value
        if name == "dead" and self._only_dead:
            return self._dead_range(g)
        mean = self.known[0]
        middle = [mean.low, mean.value, mean.high] if 0.0 < mean.value < 1.0 else []
        grid = rates_grid(max(g, self.group_size), middle)
        found = moment_range(self.known, GROUP_FAMILIES[name](g).phi, grid, self.inflation)
        if found is None:  # the solver gave up
            return anything
        return min(max(found[0], anything[0]), 1.0), min(max(found[1], anything[0]), 1.0)

    def _dead_range(self, g: int) -> tuple[float, float]:
        mean, e = self.known[0], self.inflation
        rarer = largest_rarer(np.array([mean.low - e]), np.array([mean.high + e]))
        if len(self.known) == 1:
            return float(dead_probability(rarer, g)[0]), 1.0
        dead = self.known[1]
        low, high = dead_range(rarer, np.array([dead.low - e]), np.array([dead.high + e]), self.group_size, g)
        return float(low[0]), float(high[0])
