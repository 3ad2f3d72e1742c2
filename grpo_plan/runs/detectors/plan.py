"""The run against its plan: more dead groups than expected, and which."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.quantities import Absent
from grpo_plan.runs.detectors.common import absent, evidence_of, in_words, late_share, percent
from grpo_plan.runs.expectation import Expected, ExpectedGroups
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import Learning, learning_curve
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.sequential import Onset, SequentialTest, above, onset

ID = "DEAD_ABOVE_PLAN"
NO_PLAN = "a plan: --plan FILE, with what grpo-plan plan PILOT --json (or fit --json) printed."
COMPARE = "Compare the run with its pilot: same model, prompts, temperature, length limit and reward?"
REFERENCE = "sequential test of docs/theory.md, section 19; the limit is that of eq. 91."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One share against its limit."""

    limit: float
    test: SequentialTest
    onset: Onset | None
    from_start: bool


def dead_above_plan(facts: Facts) -> Outcome:
    """A sequential test that the dead fraction exceeds the plan's upper limit; then why."""
    if facts.expectation is None:
        return Skipped(id=ID, needs=NO_PLAN)
    planned = facts.planned
    if planned is None:
        size = "unknown" if facts.group_size is None else f"{facts.group_size:,}"
        sizes = ", ".join(f"{g:,}" for g in sorted(facts.expectation.by_group_size)[:8])
        needs = f"the group size of the run (it is {size}) among those of the plan ({sizes}, ...): say --group-size."
        return Skipped(id=ID, needs=needs)
    dead = facts.dead
    if isinstance(dead, Absent):
        return absent(ID, dead)
    tested = tested_above(facts, dead, planned.dead)
    window, share = late_share(facts, dead)
    band = f"{percent(planned.dead.low)} to {percent(planned.dead.high)} %"
    chance = facts.settings.false_alarm
    if not tested.test.crossed:
        return Clear(
            id=ID,
            because=f"{in_words(share)} of groups are dead in {window.span}, planned {band}; no test of {dead.rows:,} "
            f"rows finds more than {percent(tested.limit)} % (chance of a false alarm per run {chance:g}).",
        )
    severity, why, remedy = _why(facts, planned, tested)
    began = tested.onset
    first, least, most = (0, 0, 0) if began is None else (began.row, began.earliest, began.latest)
    since, earliest, latest = (int(dead.steps[row]) for row in (first, least, most))
    detected = int(dead.steps[tested.test.crossed_at or 0])
    begin = f"step {since:,}" if earliest == latest else f"step {since:,} (between {earliest:,} and {latest:,})"
    return Finding(
        id=ID,
        severity=severity,
        says=f"{in_words(share)} of groups are dead in {window.span}, the plan expects {band}: {why}. "
        f"They exceed {percent(tested.limit)} %, its limit that is tested, most likely since {begin}; the "
        f"test was sure of it at step {detected:,}.",
        onset_step=since,
        evidence={
            **evidence_of("late_dead_fraction", share),
            "planned_dead_fraction": planned.dead.value,
            "planned_dead_fraction_low": planned.dead.low,
            "planned_dead_fraction_high": planned.dead.high,
            "tested_limit": tested.limit,
            "anytime_p": tested.test.p_value,
            "false_alarm_per_run": chance,
            "onset_step_earliest": earliest,
            "onset_step_latest": latest,
            "detected_at_step": detected,
            "group_size": planned.group_size,
            "bounded_only": not dead.exact,
        },
        remedy=remedy,
        reference=REFERENCE,
    )


def tested_above(facts: Facts, series: Measured, expected: Expected) -> Tested:
    """The test of one share against the plan's upper limit, and since when it is beyond it."""
    chance = facts.settings.false_alarm
    limit = expected.upper(chance)
    test = above(series.lower, limit, groups=series.groups, alpha=chance)
    began = onset(series.lower, limit, groups=series.groups, alpha=chance) if test.crossed else None
    from_start = began is not None and began.earliest <= max(2, series.rows // 20)
    return Tested(limit=limit, test=test, onset=began, from_start=from_start)


def _why(facts: Facts, planned: ExpectedGroups, tested: Tested) -> tuple[Severity, str, str]:
    """Which groups are more than planned, how grave that is, and what to do first."""
    curve = learning_curve(facts)
    parts: dict[str, Tested] = {}
    for name, series, expected in (
        ("fail", facts.all_fail, planned.all_fail),
        ("pass", facts.all_pass, planned.all_pass),
    ):
        if isinstance(series, Measured) and expected is not None:
            parts[name] = tested_above(facts, series, expected)
    failing = "fail" in parts and parts["fail"].test.crossed
    passing = "pass" in parts and parts["pass"].test.crossed
    if failing:
        return (
            Severity.WARNING,
            "more groups than planned fail altogether" + (" from the start" if parts["fail"].from_start else ""),
            f"{COMPARE} Then plan again from a pilot of this policy.",
        )
    if passing and not tested.from_start and curve.learning in (Learning.IMPROVING, Learning.UNCLEAR):
        return (
            Severity.INFO,
            f"because prompts become easy; {curve.says}",
            "That is what training does. Go on with harder prompts, or plan again from a pilot of this policy.",
        )
    if passing:
        where = " from the start" if parts["pass"].from_start else ""
        return (
            Severity.WARNING,
            f"more groups than planned pass altogether{where}; {curve.says}",
            "The prompts are easier than those of the pilot: take out what is solved, or plan again from a new pilot.",
        )
    if curve.improving and not tested.from_start:
        return (
            Severity.INFO,
            f"most likely because prompts become easy; {curve.says}",
            "Log the shares of groups that all pass and all fail, or dump rollouts: they tell which groups are dead.",
        )
    return (
        Severity.WARNING,
        f"the log does not tell which kind; {curve.says}",
        f"Dump rollouts, or log the shares of groups that all pass and all fail. {COMPARE}",
    )
