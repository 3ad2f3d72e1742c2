"""What the groups of a run are made of at its end, and which part of the dead ones to act on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from grpo_plan.quantities import Absent
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import share_over

MAIN_PART = 2.0  # one end is the main part where it is surely twice the other


class DeadKind(StrEnum):
    """Why groups are dead, or why nobody can tell."""

    ALL_FAIL = "all-fail"
    ALL_PASS = "all-pass"
    BOTH = "all-fail and all-pass"
    FLAT = "flat reward"
    FAILED_SCORING = "failed scoring"
    TRUNCATED = "truncated"
    DUPLICATES = "duplicate rollouts"
    FILTERED = "filtered"
    BATCH_FLAG = "a flag of the whole batch"
    PENALTY = "penalty only"
    REFILL = "refill cap"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Shares of the groups over the last rows of a log, with limits; None where the log does not tell one.

    Attributes:
        dead: Dead fraction.
        all_pass: Its part that all passes.
        all_fail: Its part that all fails.
        group_size: Rollouts per prompt.
        steps: First and last step of the rows.
    """

    dead: Expected | None
    all_pass: Expected | None
    all_fail: Expected | None
    group_size: int | None
    steps: tuple[int, int] | None

    @property
    def other(self) -> Expected | None:
        """Dead groups that neither all pass nor all fail: limits only, from those of the three."""
        if self.dead is None or self.all_pass is None or self.all_fail is None:
            return None
        low = max(self.dead.low - self.all_pass.high - self.all_fail.high, 0.0)
        high = min(max(self.dead.high - self.all_pass.low - self.all_fail.low, low), 1.0)
        return Expected(value=None, low=low, high=high, level=self.dead.level)


def composition_of(facts: Facts) -> Composition:
    """The shares over the last rows of a run: those of the published rules."""
    dead, passing, failing = (_share(facts, found) for found in (facts.dead, facts.all_pass, facts.all_fail))
    steps = None
    if isinstance(facts.dead, Measured):
        late = facts.late(facts.dead)
        steps = (int(late.steps[0]), int(late.steps[-1])) if late.rows else None
    if dead is not None:
        passing, failing = passing or _rest(dead, failing), failing or _rest(dead, passing)
    return Composition(dead=dead, all_pass=passing, all_fail=failing, group_size=facts.group_size, steps=steps)


def kind_of(composition: Composition) -> DeadKind:
    """Which end the dead groups lie at; decided by limits, never by values alone."""
    passing, failing, other = composition.all_pass, composition.all_fail, composition.other
    if passing is None or failing is None:
        return DeadKind.UNKNOWN
    if failing.low > MAIN_PART * passing.high:
        return DeadKind.ALL_FAIL
    if passing.low > MAIN_PART * failing.high:
        return DeadKind.ALL_PASS
    if other is not None and other.low > MAIN_PART * (passing.high + failing.high):
        return DeadKind.FLAT
    return DeadKind.BOTH if passing.low > 0.0 and failing.low > 0.0 else DeadKind.UNKNOWN


def _share(facts: Facts, found: Measured | Absent) -> Expected | None:
    if not isinstance(found, Measured):
        return None
    late, level = facts.late(found), facts.settings.level
    if late.exact:
        share = share_over(late.values, late.groups, level=level)
        return Expected(value=share.value, low=share.low, high=share.high, level=level)
    low = share_over(late.lower, late.groups, level=level).low
    high = share_over(late.upper, late.groups, level=level).high
    return Expected(value=None, low=low, high=max(low, high), level=level)


def _rest(dead: Expected, part: Expected | None) -> Expected | None:
    """What is left of the dead groups for one end, where the other end is known."""
    if part is None:
        return None
    return Expected(value=None, low=0.0, high=max(dead.high - part.low, 0.0), level=dead.level)
