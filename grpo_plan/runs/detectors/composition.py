"""What the dead groups of a run are: too hard, solved, or turning from the one to the other."""

from __future__ import annotations

import numpy as np

from grpo_plan.quantities import Absent
from grpo_plan.runs.composition_now import MAIN_PART
from grpo_plan.runs.detectors.common import (
    WIDE,
    SeenShare,
    absent,
    evidence_of,
    in_words,
    late_share,
    percent,
    share_of,
    too_little,
)
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import Learning, learning_curve
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.trend import Change, changed

MANY_FAIL, MANY_PASS = 0.5, 0.4  # shares of all groups from which a check speaks
FEW_MIXED, HARDLY_MIXED = 0.10, 0.05
MOSTLY_FAIL, ROWS_TO_GIVE_UP = 0.85, 30  # all-fail share, and rows, from which a reward that stands still is critical
THIRDS = 3
ROWS_TO_TURN = 9
WINDOWS = tuple(
    f"the all-{kind} share in the {where} third" for where in ("first", "last") for kind in ("fail", "pass")
)
MOVED = 0.02  # of both shares, before a composition is said to be turning
TOO_HARD = "the prompts are too hard for this policy, or the reward never pays"
NEVER_PAID = "the reward was never paid"
READ_FAILING = (
    "Read a few failing rollouts: is the reward ever paid, are responses cut off? Then take easier prompts or give "
    "partial rewards; a larger group helps only where some rollouts pass."
)
CHECK_SCORER = (
    "Check the scorer first, on a response that you know to be right: does it pay? If it does, read a few rollouts for "
    "answers cut off or in another format; then take easier prompts or give partial rewards."
)
REFERENCE = (
    "docs/theory.md, section 18; composition rather than D: One-Shot-RLVR (arXiv 2504.20571) in docs/diagnosis.md"
)


def starved(facts: Facts) -> Outcome:
    """Most groups fail altogether, and the run does not get better."""
    id, fail, passes = "STARVED", facts.all_fail, facts.all_pass
    if isinstance(fail, Absent):
        return absent(id, fail)
    if isinstance(passes, Absent):
        return absent(id, passes)
    window, share = late_share(facts, fail)
    _, other = late_share(facts, passes)
    mixed = _mixed(share, other)
    curve = learning_curve(facts)
    seen = f"{in_words(share)} of groups all fail and {in_words(other)} all pass in {window.span}"
    if share.undecided(MANY_FAIL):
        return too_little(id, "the share of all-fail groups", share, window)
    if not (share.low > MANY_FAIL and share.low > other.high):
        return Clear(id=id, because=f"{seen}.")
    planned = facts.planned
    if planned is not None and planned.all_fail is not None:
        limit = planned.all_fail.upper(facts.settings.false_alarm)
        if share.low <= limit:
            return Clear(id=id, because=f"{seen}, planned up to {percent(limit)} % all-fail.")
    if curve.improving:
        return Clear(id=id, because=f"{seen}, but {curve.says}.")
    stuck = curve.learning in (Learning.FLAT, Learning.FALLING)
    never = _never_paid(facts)
    given_up = fail.rows >= ROWS_TO_GIVE_UP and (never or (stuck and share.low > MOSTLY_FAIL))
    if mixed < HARDLY_MIXED or given_up:
        severity = Severity.CRITICAL
    elif mixed < FEW_MIXED or stuck:
        severity = Severity.WARNING
    else:
        severity = Severity.INFO
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}: {NEVER_PAID if never else TOO_HARD}; {curve.says}.",
        onset_step=_since(fail, MANY_FAIL),
        evidence={
            **evidence_of("late_all_fail_fraction", share),
            **evidence_of("late_all_pass_fraction", other),
            "mixed_fraction_high": mixed,
            "reward": curve.learning.value,
            "ever_paid": not never,
            "rows": window.rows,
        },
        remedy=CHECK_SCORER if never else READ_FAILING,
        reference=REFERENCE,
    )


def saturated(facts: Facts) -> Outcome:
    """Most dead groups pass altogether: the prompts are solved."""
    id, fail, passes = "SATURATED", facts.all_fail, facts.all_pass
    if isinstance(fail, Absent):
        return absent(id, fail)
    if isinstance(passes, Absent):
        return absent(id, passes)
    window, share = late_share(facts, passes)
    _, other = late_share(facts, fail)
    mixed = _mixed(other, share)
    curve = learning_curve(facts)
    seen = f"{in_words(share)} of groups all pass and {in_words(other)} all fail in {window.span}"
    if share.undecided(MANY_PASS):
        return too_little(id, "the share of all-pass groups", share, window)
    if not (share.low > MANY_PASS and share.low > other.high):
        return Clear(id=id, because=f"{seen}.")
    planned = facts.planned
    expected = (
        planned is not None
        and planned.all_pass is not None
        and share.low <= planned.all_pass.upper(facts.settings.false_alarm)
    )
    stuck = curve.learning in (Learning.FLAT, Learning.FALLING) and not expected
    severity = Severity.WARNING if (mixed < FEW_MIXED and not expected) or stuck else Severity.INFO
    why = "as planned" if expected else curve.says
    always = isinstance(facts.pass_rate, Measured) and bool(np.all(facts.pass_rate.values == 1.0))
    return Finding(
        id=id,
        severity=severity,
        says=f"{seen}: {'every rollout passes' if always else 'the prompts are becoming solved'}; {why}.",
        onset_step=_since(passes, MANY_PASS),
        evidence={
            **evidence_of("late_all_pass_fraction", share),
            **evidence_of("late_all_fail_fraction", other),
            "mixed_fraction_high": mixed,
            "reward": curve.learning.value,
            "rows": window.rows,
        },
        remedy="Drop prompts that always pass and add harder ones, then measure and plan again; stop if the evaluation "
        "no longer moves.",
        reference=REFERENCE,
    )


def composition_turned(facts: Facts) -> Outcome:
    """Dead groups that were all-fail and are all-pass now: the remedy turns with them."""
    id, fail, passes = "COMPOSITION_TURNED", facts.all_fail, facts.all_pass
    if isinstance(fail, Absent):
        return absent(id, fail)
    if isinstance(passes, Absent):
        return absent(id, passes)
    rows = min(fail.rows, passes.rows)
    if rows < ROWS_TO_TURN:
        return Skipped(id=id, needs=f"{ROWS_TO_TURN} rows; the log has {rows}.")
    third, level = rows // THIRDS, facts.settings.level
    first = [share_of(s.take(slice(0, third)), level) for s in (fail, passes)]
    last = [share_of(s.take(slice(s.rows - third, None)), level) for s in (fail, passes)]
    seen = (
        f"all-fail {in_words(first[0])} in the first third of the rows and {in_words(last[0])} in the last, all-pass "
        f"{in_words(first[1])} and {in_words(last[1])}"
    )
    forth, maybe_forth = _turned(first, last)
    back, maybe_back = _turned(first[::-1], last[::-1])
    turning = False
    if not forth and not back and fail.exact and passes.exact:
        less, more = (changed(s.values, s.groups, level=0.99) for s in (fail, passes))
        turning = _moved(less, -1.0) and _moved(more, 1.0)
    elif not forth and not back:  # bounds: what is sure by their limits
        turning = first[0].low - last[0].high > MOVED and last[1].low - first[1].high > MOVED
    solved = not (fail.exact and passes.exact) and _mostly_solved(first, last)
    if not (forth or back or turning or solved):
        vague = [n for n, s in zip(WINDOWS, (*first, *last), strict=True) if s.high - s.low > WIDE]
        if vague and (maybe_forth or maybe_back):
            return Skipped(id=id, needs=f"closer limits of {' and of '.join(vague)}: {seen}.")
        return Clear(id=id, because=f"{seen}.")
    if back:
        says = f"Dead groups were mostly solved prompts and now mostly fail: {seen}"
        remedy = (
            "Look for what broke: new data, another reward, a collapsed policy. Go back to the last good checkpoint."
        )
    elif forth:
        says = f"Dead groups were mostly too hard and are now mostly solved: {seen}"
        remedy = "Turn the remedy too: from easier prompts to harder ones. Drop what is solved, and plan again."
    elif solved and not turning:
        says = f"More groups are solved than before, and by now they are most of the dead ones: {seen}"
        remedy = "Go on with harder prompts: drop what is solved, and plan again."
    else:
        says = f"Dead groups are turning from too hard to solved: {seen}"
        remedy = "Keep watching the composition: the remedy is about to turn from easier prompts to harder ones."
    return Finding(
        id=id,
        severity=Severity.WARNING if back else Severity.INFO,
        says=f"{says}.",
        onset_step=_crossing(fail, passes) if forth or back else None,
        evidence={
            "turn": "back to all-fail"
            if back
            else "to all-pass"
            if forth
            else "under way to all-pass"
            if turning
            else "to all-pass, from either",
            **evidence_of("first_all_fail_fraction", first[0]),
            **evidence_of("last_all_fail_fraction", last[0]),
            **evidence_of("first_all_pass_fraction", first[1]),
            **evidence_of("last_all_pass_fraction", last[1]),
            "rows": rows,
        },
        remedy=remedy,
        reference=REFERENCE,
    )


def _turned(first: list[SeenShare], last: list[SeenShare]) -> tuple[bool, bool]:
    """Whether more groups were surely of the first kind and are now of the second; and whether that may be."""
    sure = first[0].low > first[1].high and last[1].low > last[0].high
    return sure, first[0].high > first[1].low and last[1].high > last[0].low


def _mostly_solved(first: list[SeenShare], last: list[SeenShare]) -> bool:
    """Whether all-pass groups surely became more and are now most of the dead ones, whatever these were before."""
    return last[1].low - first[1].high > MOVED and last[1].low > MAIN_PART * last[0].high


def _never_paid(facts: Facts) -> bool:
    """Whether every mean reward, and so every 0/1 reward, is 0."""
    rate = facts.pass_rate
    return isinstance(rate, Measured) and bool(np.all(rate.values == 0.0))


def _moved(change: Change, direction: float) -> bool:
    """Whether a share surely moved this way, and by enough to be said."""
    if change.difference is None or change.low is None or change.high is None:
        return False
    nearer = change.low if direction > 0.0 else -change.high
    return nearer > 0.0 and direction * change.difference > MOVED


def _mixed(fail: SeenShare, passes: SeenShare) -> float:
    """Upper limit of the share of mixed groups."""
    return max(1.0 - fail.low - passes.low, 0.0)


def _since(series: Measured, limit: float) -> int | None:
    """First step from which on the share stays above a limit, to the end, smoothed over a tenth of the rows."""
    width = max(series.rows // 10, 1)
    smooth = np.convolve(series.values, np.full(width, 1.0 / width), mode="valid")
    below = np.flatnonzero(smooth <= limit)
    at = 0 if not below.size else int(below[-1]) + width
    return int(series.steps[at]) if at < series.rows else None


def _crossing(fail: Measured, passes: Measured) -> int | None:
    """First step from which on there are more of the last kind, to the end, smoothed over a tenth of the rows."""
    steps, a, b = np.intersect1d(fail.steps, passes.steps, assume_unique=True, return_indices=True)
    apart = passes.values[b] - fail.values[a]
    width = max(steps.size // 10, 1)
    smooth = np.convolve(apart, np.full(width, 1.0 / width), mode="valid")
    other = np.flatnonzero(np.sign(smooth) != np.sign(smooth[-1]))
    return int(steps[int(other[-1]) + width]) if other.size and int(other[-1]) + width < steps.size else None
