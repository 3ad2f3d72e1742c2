"""What the groups of a run are made of, early and late: mixed, all-pass, all-fail and otherwise dead, with limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from grpo_plan.quantities import Absent, Stage
from grpo_plan.runs.clustered import clustered_share
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Counts, Floats, Measured
from grpo_plan.runs.series import share_over

ROUNDING = 1e-6
NEEDS_PROMPTS = "Prompts per step: not logged. Give --prompts-per-step (prompts_per_step of DiagnosisSettings)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A share of the groups of some rows, or a mean per step that follows from it.

    Attributes:
        value: Its value; None where only limits are known, or nothing.
        low: Lower limit; None where nothing is known.
        high: Upper limit; None where nothing is known.
        rows: Rows with a value.
        groups: Groups behind them; a lower bound unless ``groups_known``.
        groups_known: Whether ``groups`` is exact.
        words: Where it comes from.
        stage: Whether groups that were thrown away are counted; None where nothing is known.
        reason: Why nothing is known; None where something is.
        seen_low: What the share of the groups seen is at least; the value where the log tells it exactly.
        seen_high: What it is at most. ``low`` and ``high`` are limits of the share that groups are drawn with.
    """

    value: float | None
    low: float | None
    high: float | None
    rows: int = 0
    groups: float = 0.0
    groups_known: bool = False
    words: str = ""
    stage: Stage | None = None
    reason: str | None = None
    seen_low: float | None = None
    seen_high: float | None = None

    @property
    def known(self) -> bool:
        """Whether anything is known of it."""
        return self.low is not None and self.high is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShares:
    """The groups of some rows in a row.

    Attributes:
        name: ``early``, ``late``, or ``all``.
        first_step: First training step.
        last_step: Last training step.
        level: Confidence level of all limits.
        dead: Share of dead groups.
        mixed: Share of mixed groups.
        all_pass: Share of groups that all pass.
        all_fail: Share of groups that all fail.
        other_dead: Share of groups that are dead and neither: equal rewards between, or failed scoring.
        mixed_groups: Mixed groups of a step, mean over the steps (the effective batch).
    """

    name: str
    first_step: int
    last_step: int
    level: float
    dead: Part
    mixed: Part
    all_pass: Part
    all_fail: Part
    other_dead: Part
    mixed_groups: Part


def group_shares(facts: Facts) -> tuple[GroupShares, ...]:
    """Early and late shares, by the windows of the published rule; all rows and late ones where these would overlap.

    Limits are those of theory.md, eq. 84, and of eq. 94 for dead groups of neither kind, as in FLAT_REWARD.
    Of a share that is only bounded they hold the bounds.

    Args:
        facts: The run.

    Returns:
        Early and late; or all and late; or all alone, where the log is no longer than a window; nothing without rows.

    >>> from grpo_plan.run_log import RunLog
    >>> run = RunLog(steps=np.arange(40), format="table", source="log", tool="trl",
    ...              metrics={"frac_reward_zero_std": np.r_[np.full(20, 0.25), np.full(20, 0.75)]})
    >>> early, late = group_shares(Facts(run))
    >>> early.dead.value, late.dead.value, late.mixed.value, late.first_step
    (0.25, 0.75, 0.25, 30)
    >>> late.mixed_groups.known, late.mixed_groups.reason
    (False, 'Prompts per step: not logged. Give --prompts-per-step (prompts_per_step of DiagnosisSettings).')
    """
    known = [m for m in (facts.dead, facts.all_pass, facts.all_fail) if isinstance(m, Measured)]
    steps = known[0].steps if known else facts.run.steps
    if not steps.size:
        return ()
    window = max(facts.settings.late_rows, int(facts.settings.late_share * steps.size))
    whole = _shares(facts, "all", int(steps[0]), int(steps[-1]))
    if steps.size <= window:
        return (whole,)
    late = _shares(facts, "late", int(steps[-window]), int(steps[-1]))
    if steps.size < 2 * window:
        return whole, late
    return _shares(facts, "early", int(steps[0]), int(steps[window - 1])), late


def _shares(facts: Facts, name: str, first: int, last: int) -> GroupShares:
    level = facts.settings.level
    dead = _part(facts.dead, first, last, level)
    return GroupShares(
        name=name,
        first_step=first,
        last_step=last,
        level=level,
        dead=dead,
        mixed=_complement(dead),
        all_pass=_part(facts.all_pass, first, last, level),
        all_fail=_part(facts.all_fail, first, last, level),
        other_dead=_other(facts, first, last, level),
        mixed_groups=_mixed_groups(facts, dead, first, last),
    )


def _part(found: Measured | Absent, first: int, last: int, level: float) -> Part:
    if isinstance(found, Absent):
        return Part(value=None, low=None, high=None, reason=found.reason)
    rows = found.take((found.steps >= first) & (found.steps <= last))
    if not rows.rows:
        return Part(value=None, low=None, high=None, reason=f"{found.name}: no value in steps {first:,} to {last:,}.")
    low = share_over(_as_shares(rows.lower), rows.groups, level=level)
    high = low if rows.exact else share_over(_as_shares(rows.upper), rows.groups, level=level)
    same = low.value is not None and high.value is not None and abs(high.value - low.value) <= ROUNDING
    return Part(
        value=low.value if same else None, low=low.low, high=high.high, rows=rows.rows, groups=low.groups,
        groups_known=rows.groups_known, words=rows.words, stage=rows.stage, seen_low=low.value,
        seen_high=high.value,
    )  # fmt: skip


def _complement(dead: Part) -> Part:
    if dead.low is None or dead.high is None:
        return dead
    value = None if dead.value is None else 1.0 - dead.value
    return _mapped(dead, value, lambda share: 1.0 - share)


def _mapped(part: Part, value: float | None, rule: Callable[[float], float]) -> Part:
    """What follows from a part by a rule that rises or falls."""
    ends = [None if end is None else rule(end) for end in (part.low, part.high, part.seen_low, part.seen_high)]
    if rule(1.0) < rule(0.0):
        ends = [ends[1], ends[0], ends[3], ends[2]]
    return replace(part, value=value, low=ends[0], high=ends[1], seen_low=ends[2], seen_high=ends[3])


def _other(facts: Facts, first: int, last: int, level: float) -> Part:
    """Dead groups that neither all pass nor all fail."""
    other = other_dead(facts)
    if isinstance(other, Absent) and facts.rewards.binary and isinstance(facts.dead, Measured):
        return Part(value=None, low=None, high=None, reason="Rewards are 0 or 1: dead groups all pass or all fail.")
    part = _part(other, first, last, level)
    if isinstance(other, Absent) or not part.rows:
        return part
    rows = other.take((other.steps >= first) & (other.steps <= last))
    limits = clustered_share(rows.values * rows.groups, rows.groups, level=level)  # they come and go together
    return replace(part, low=limits.low, high=limits.high)


def other_dead(facts: Facts) -> Measured | Absent:
    """The share of groups that are dead and neither all pass nor all fail, where all three are counted."""
    parts = (facts.dead, facts.all_pass, facts.all_fail)
    for part in parts:
        if isinstance(part, Absent):
            return replace(part, name="other_dead")
    dead, passes, fails = (p for p in parts if isinstance(p, Measured))
    steps = np.intersect1d(dead.steps, np.intersect1d(passes.steps, fails.steps))
    at = [p.take(np.isin(p.steps, steps)) for p in (dead, passes, fails)]
    rest = at[0].values - at[1].values - at[2].values
    rest = np.where(np.abs(rest) > ROUNDING, rest, 0.0)
    if not steps.size or not all(p.exact for p in at):
        return _untold(facts, "all-pass and all-fail groups are not counted")
    if bool(np.any(rest < 0.0)):
        return _untold(facts, "all-pass groups by the pass threshold may still differ in their rewards")
    return replace(
        at[0], name="other_dead", values=_as_shares(rest), words=f"{dead.words} less {passes.words} and {fails.words}"
    )


def _untold(facts: Facts, why: str) -> Absent:
    found = facts.run.quantity("all_fail_fraction")
    if isinstance(found, Absent):
        return replace(found, name="other_dead", reason=f"Other dead groups: {why}.")
    from grpo_plan.quantities import Cause

    return Absent(name="other_dead", cause=Cause.NOT_LOGGED, reason=f"Other dead groups: {why}.", metrics=found.metrics)


def _mixed_groups(facts: Facts, dead: Part, first: int, last: int) -> Part:
    """Mean mixed groups of a step: the mixed share times the groups of a step."""
    mixed = _complement(dead)
    if mixed.low is None or mixed.high is None:
        return mixed
    groups = groups_per_step(facts, first, last)
    if groups is None:
        return Part(value=None, low=None, high=None, reason=NEEDS_PROMPTS)
    value = None if mixed.value is None else mixed.value * groups
    return _mapped(mixed, value, lambda share: share * groups)


def groups_per_step(facts: Facts, first: int, last: int) -> float | None:
    """Groups of a step, mean over some steps: as said or logged, else as counted; None if nothing tells it."""
    if facts.prompts_per_step is not None:
        return float(facts.prompts_per_step)
    dead = facts.dead
    if not isinstance(dead, Measured) or not dead.groups_known or facts.steps_per_row != 1:
        return None
    at: Counts = dead.groups[(dead.steps >= first) & (dead.steps <= last)]
    return float(at.mean()) if at.size else None


def _as_shares(values: Floats) -> Floats:
    """What rounding put beyond 0 or 1 is put back."""
    shares: Floats = np.clip(values, 0.0, 1.0)
    return shares
