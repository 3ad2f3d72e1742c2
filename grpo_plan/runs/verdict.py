"""The verdict of a diagnosis in one line: how many groups are dead, of which kind, as planned or not, what matters."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_plan.quantities import Absent
from grpo_plan.runs.detectors.common import in_words, late_share, percent
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Severity
from grpo_plan.runs.measured import Measured

AT_ONCE = 3
AT_END = 2  # rows whose mean reward is exactly 0 or 1, before they are spoken of
LEAST_SPECIFIC = ("DEAD_ABOVE_PLAN", "REWARD_STD_DEATH", "ADV_COLLAPSE", "DEGENERATE_GROUPS")  # what is wrong, not why


def verdict_of(facts: Facts, findings: Sequence[Finding], skipped: int = 0) -> str:
    """One line; findings come gravest first."""
    return f"{_dead(facts)} {_worst(findings)}{_unchecked(facts, skipped)}"


def _dead(facts: Facts) -> str:
    dead = facts.dead
    if not facts.run.steps.size:
        return "The log holds no training step."
    if isinstance(dead, Absent):
        return f"The log does not tell how many groups are dead.{_at_ends(facts)}"
    window, share = late_share(facts, dead)
    if dead.exact:
        said = f"{in_words(share)} of groups are dead in {window.span}"
    else:
        said = f"The log only bounds the dead fraction: {in_words(share)} of groups in {window.span}"
    parts = [_part(facts, series, word) for series, word in ((facts.all_fail, "fail"), (facts.all_pass, "pass"))]
    known = [part for part in parts if part]
    composition = f" ({', '.join(known)})" if known else ""
    return f"{said}{composition}{_planned(facts)}."


def _at_ends(facts: Facts) -> str:
    """Rows whose mean reward is exactly 0 or 1: whole steps of dead groups, if rewards end there."""
    reward = facts.reward
    if isinstance(reward, Absent):
        return ""
    told = []
    for end, kind in ((0.0, "fail"), (1.0, "pass")):
        beyond = reward.values < end if end == 0.0 else reward.values > end
        rows = int((reward.values == end).sum())
        if rows >= AT_END and not beyond.any():
            told.append(
                f" At {rows:,} of {reward.rows:,} rows the mean reward is exactly {end:g}: if no reward is "
                f"{'below' if end == 0.0 else 'above'} {end:g}, all groups {kind} altogether there."
            )
    return "".join(told)


def _part(facts: Facts, series: Measured | Absent, word: str) -> str:
    if isinstance(series, Absent):
        return ""
    share = late_share(facts, series)[1]
    if share.wide:
        return ""
    low, high = percent(share.seen_low), percent(share.seen_high)
    return f"{low if low == high else f'{low} to {high}'} % all {word}"


def _planned(facts: Facts) -> str:
    planned, dead = facts.planned, facts.dead
    if planned is None or isinstance(dead, Absent):
        return ""
    share = late_share(facts, dead)[1]
    band = f"{percent(planned.dead.low)} to {percent(planned.dead.high)} %{_at_size(facts, planned.group_size)}"
    if share.low > planned.dead.high:
        return f", more than the plan's {band}"
    if share.high < planned.dead.low:
        return f", fewer than the plan's {band}"
    return f", in line with the plan's {band}"


def _at_size(facts: Facts, size: int) -> str:
    """The group size of the comparison, and the one that was planned where that is another."""
    of_plan = None if facts.expectation is None else facts.expectation.group_size
    if of_plan is None or of_plan == size:
        return f" at G = {size}"
    return f" at G = {size} (you planned {of_plan})"


def most_specific(grave: Sequence[Finding]) -> Finding:
    """Of the gravest findings the one that says most about the reason: its remedy is the one to begin with."""
    gravest = [f for f in grave if f.severity is grave[0].severity]
    order = {id: place for place, id in enumerate(LEAST_SPECIFIC, start=1)}
    return min(gravest, key=lambda f: order.get(f.id, 0))


def _worst(findings: Sequence[Finding]) -> str:
    grave = [f for f in findings if f.severity is not Severity.INFO]
    if grave:
        shown = ", ".join(f.id for f in grave[:AT_ONCE]) + (", ..." if len(grave) > AT_ONCE else "")
        return f"{grave[0].severity.value.capitalize()}: {shown}. {most_specific(grave).remedy}"
    if findings:
        return f"No warning; to know: {', '.join(f.id for f in findings[:AT_ONCE])}."
    return "No warning."


def _unchecked(facts: Facts, skipped: int) -> str:
    """Where the dead fraction is not known, quiet is no clean bill."""
    if not skipped or not isinstance(facts.dead, Absent):
        return ""
    return f" This is no clean bill: {skipped} checks could not run."
