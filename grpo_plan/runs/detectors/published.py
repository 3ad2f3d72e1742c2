"""Three rules that were published elsewhere, as published, and judged by what else the log shows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.quantities import Absent
from grpo_plan.quantities.spread import all_advantages_zero
from grpo_plan.runs.detectors.common import absent, evidence_of, in_words, late_share, percent, share_of, too_little
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import Learning, learning_curve
from grpo_plan.runs.measured import Measured

SOURCE = "rule of rlprobe 0.1.0"
NOTHING = 0.95  # dead fraction from which hardly anything is learnt
BY_COMPOSITION = (
    "Judge it by its composition and its plan, not by this threshold alone: ordinary sets exceed 0.4 at G = 8."
)
NO_SIGNAL = (
    "Change the prompts or the reward: where no group is mixed, a larger group helps little and a refill never fills. "
    "Take prompts that are solved now and then."
)
ADVANTAGE_LOW, ADVANTAGE_HEALTHY = 0.1, 0.5
STD_LOW, STD_RATIO = 0.05, 3.0
SUSTAINED = 5
EARLY_SHARE, EARLY_ROWS = 0.25, 10
CEILING = 0.9


def first_stretch(flags: NDArray[np.bool_], rows: int) -> int | None:
    """First row of the first stretch of so many rows that all hold; None without one.

    >>> first_stretch(np.array([True, False, True, True]), 2), first_stretch(np.array([True]), 2)
    (2, None)
    """
    sums = np.concatenate([[0], np.cumsum(flags)])
    full = np.flatnonzero(sums[rows:] - sums[:-rows] == rows) if flags.size >= rows else np.empty(0, dtype=int)
    return int(full[0]) if full.size else None


def degenerate_groups(facts: Facts) -> Outcome:
    """Dead fraction above 0.4 for 15 rows running, and above it on average in the last fifth of the rows."""
    id, dead, knobs = "DEGENERATE_GROUPS", facts.dead, facts.settings
    if isinstance(dead, Absent):
        return absent(id, dead)
    window, share = late_share(facts, dead)
    if dead.rows < knobs.sustain_rows:
        needs = (
            f"{knobs.sustain_rows} rows (--sustain); the log has {dead.rows}, with {in_words(share)} of groups dead."
        )
        return Skipped(id=id, needs=needs)
    start = first_stretch(dead.lower > knobs.dead_threshold, knobs.sustain_rows)
    if start is None or _mean(window, low=True) <= knobs.dead_threshold:
        longest = first_stretch(dead.upper > knobs.dead_threshold, knobs.sustain_rows)
        if not dead.exact and longest is not None and _mean(window, low=False) > knobs.dead_threshold:
            return too_little(id, "the dead fraction", share, window)
        limit = percent(knobs.dead_threshold)
        return Clear(
            id=id,
            because=f"{in_words(share)} of groups are dead in {window.span}; the rule asks for more than {limit} % in "
            f"{knobs.sustain_rows} rows running and on average at the end.",
        )
    curve = learning_curve(facts)
    nothing = share.low > NOTHING or (window.rows >= knobs.late_rows and bool(np.all(window.lower == 1.0)))
    severity, why = _severity(facts, share.low, nothing, curve.learning)
    rows = f"{knobs.sustain_rows} rows running"
    return Finding(
        id=id,
        severity=severity,
        says=f"{in_words(share)} of groups are dead in {window.span}, more than {percent(knobs.dead_threshold)} % in "
        f"{rows}{_dated(facts, dead, start)}; {why}.",
        onset_step=int(dead.steps[start]),
        evidence={
            **evidence_of("late_dead_fraction", share),
            "threshold": knobs.dead_threshold,
            "sustain_rows": knobs.sustain_rows,
            "rows": dead.rows,
            "late_rows": window.rows,
            "steps_per_row": facts.run.steps_per_row,
            "bounded_only": not dead.exact,
            "reward": curve.learning.value,
        },
        remedy=NO_SIGNAL if nothing and severity is not Severity.INFO else BY_COMPOSITION,
        reference=f"{SOURCE} (threshold 0.4, 15 rows, mean of the last 20 % of at least 10 rows).",
    )


def _dated(facts: Facts, dead: Measured, start: int) -> str:
    """Where the rule dates it; and that this is no begin where the share was as high before."""
    if start == 0:
        return " from the first one on"
    dated = f" from step {int(dead.steps[start]):,} on, where the rule dates it"
    before = share_of(dead.take(slice(0, start)), facts.settings.level)
    if before.high <= facts.settings.dead_threshold:
        return dated
    return f"{dated} (that need not be the begin: {in_words(before)} before)"


def _severity(facts: Facts, low: float, nothing: bool, learning: Learning) -> tuple[Severity, str]:
    """How grave a high dead fraction is, and why."""
    planned = facts.planned
    if planned is not None and low <= planned.dead.upper(facts.settings.false_alarm):
        return Severity.INFO, f"the plan expects {percent(planned.dead.low)} to {percent(planned.dead.high)} %"
    if nothing:
        rate = facts.pass_rate
        if isinstance(rate, Measured) and facts.late(rate).mean > CEILING:
            return Severity.WARNING, "hardly a prompt is left that is not solved"
        return Severity.CRITICAL, "hardly a group teaches anything"
    if learning in (Learning.FLAT, Learning.FALLING):
        return Severity.WARNING, f"and the reward is {learning.value}"
    if learning is Learning.IMPROVING:
        return Severity.INFO, "the reward improves all the same"
    return Severity.INFO, "by itself that is no fault"


def adv_collapse(facts: Facts) -> Outcome:
    """Spread of the advantages above 0.5 early, below 0.1 late; or advantages that are all 0."""
    id, found = "ADV_COLLAPSE", facts.measured("advantage_std")
    if isinstance(found, Absent):
        return _zero_advantages(facts, found)
    early, late = _early(found), facts.late(found)
    if early.rows + late.rows > found.rows:
        return _overlap(id, found, late)
    before, after = early.mean, late.mean
    if not (after < ADVANTAGE_LOW and before > ADVANTAGE_HEALTHY):
        because = f"{found.words} is {before:.3g} in {early.span} and {after:.3g} in {late.span}."
        return Clear(id=id, because=because)
    start = first_stretch(found.values < ADVANTAGE_LOW, SUSTAINED)
    return Finding(
        id=id,
        severity=_at_ceiling(facts, Severity.WARNING),
        says=f"The standard deviation of the advantages fell from {before:.3g} in {early.span} to {after:.3g} in "
        f"{late.span}: hardly a rollout pulls.",
        onset_step=None if start is None else int(found.steps[start]),
        evidence={"early_advantage_std": before, "late_advantage_std": after, "rows": found.rows},
        remedy=_ceiling_remedy(facts),
        reference=f"{SOURCE} (early mean above 0.5, late mean below 0.1).",
    )


def _zero_advantages(facts: Facts, missing: Absent) -> Outcome:
    """Whether every advantage is 0, where the log holds their largest and another that tells."""
    id, found = "ADV_COLLAPSE", all_advantages_zero(facts.view)
    flags = None if found is None else found[0]
    if found is None or flags is None or not np.isfinite(flags).any():
        return Skipped(id=id, needs=f"{missing.reason} The largest and the smallest advantage would do.")
    at = np.isfinite(flags)
    steps, zero = facts.run.steps[at], flags[at] == 1.0
    tail = max(facts.settings.late_rows, int(facts.settings.late_share * zero.size))
    late, names = zero[-tail:], " and ".join(found[1])
    where = f"steps {int(steps[-late.size]):,} to {int(steps[-1]):,} ({late.size:,} rows)"
    if not late.all():
        largest = float(facts.run.metrics[found[1][0]][at][-tail:].max())
        because = f"advantages are not all 0 at {int((~late).sum()):,} rows of {where}, up to {largest:.3g} ({names})."
        return Clear(id=id, because=because)
    after = int(np.flatnonzero(~zero)[-1]) + 1 if not zero.all() else 0
    since = "since the start" if after == 0 else f"since step {int(steps[after]):,}"
    return Finding(
        id=id,
        severity=_at_ceiling(facts, Severity.CRITICAL),
        says=f"Every advantage is 0 {since} ({where} and before): the policy gets no gradient from rewards.",
        onset_step=int(steps[after]),
        evidence={"late_advantage_abs_max": 0.0, "rows": int(zero.size), "zero_rows": int(zero.sum())},
        remedy=_ceiling_remedy(facts),
        reference="an advantage of 0 has no gradient (docs/theory.md, section 1).",
    )


def reward_std_death(facts: Facts) -> Outcome:
    """Spread of the rewards of a whole batch: gone, or never there."""
    id, found = "REWARD_STD_DEATH", facts.measured("reward_std")
    if isinstance(found, Absent):
        return absent(id, found)
    if found.rows < SUSTAINED:
        return Skipped(id=id, needs=f"{SUSTAINED} rows of {found.name}; the log has {found.rows}.")
    early, late = _early(found), facts.late(found)
    before, after = early.mean, late.mean
    never = bool(np.all(found.values <= 1e-9))
    if not never and early.rows + late.rows > found.rows:
        return _overlap(id, found, late)
    if not never and not (after < STD_LOW and before >= STD_RATIO * after):
        return Clear(id=id, because=f"{found.words} is {before:.3g} in {early.span} and {after:.3g} in {late.span}.")
    start = 0 if never else first_stretch(found.values < STD_LOW, SUSTAINED)
    fell = f"fell from {before:.3g} in {early.span} to {after:.3g} in {late.span}"
    says = (
        f"All rewards of a batch have been equal since the start ({found.span})"
        if never
        else f"The standard deviation of the rewards of a batch {fell}"
    )
    return Finding(
        id=id,
        severity=_at_ceiling(facts, Severity.CRITICAL),
        says=f"{says}: what is equal teaches nothing.",
        onset_step=None if start is None else int(found.steps[start]),
        evidence={"early_reward_std": before, "late_reward_std": after, "rows": found.rows, "since_start": never},
        remedy=_ceiling_remedy(facts),
        reference=f"{SOURCE} (late mean below 0.05, early mean three times as large).",
    )


def _early(series: Measured) -> Measured:
    return series.take(slice(0, max(EARLY_ROWS, int(EARLY_SHARE * series.rows))))


def _overlap(id: str, found: Measured, late: Measured) -> Skipped:
    """Early and late rows have to be others: a window compared with itself never differs."""
    rows = EARLY_ROWS + late.rows
    needs = (
        f"{rows:,} rows of {found.name}, {EARLY_ROWS} early and {late.rows:,} late ones; the log has {found.rows:,}."
    )
    return Skipped(id=id, needs=needs)


def _mean(window: Measured, *, low: bool) -> float:
    """The published mean: each row counts the same."""
    return float((window.lower if low else window.upper).mean())


def _solved(facts: Facts) -> bool:
    rate = facts.pass_rate
    return isinstance(rate, Measured) and facts.late(rate).mean > CEILING


def _at_ceiling(facts: Facts, otherwise: Severity) -> Severity:
    """A run that has solved its prompts has nothing left to differ in: no failure."""
    return Severity.INFO if _solved(facts) else otherwise


def _ceiling_remedy(facts: Facts) -> str:
    if _solved(facts):
        return "The prompts are solved: stop, or go on with harder ones."
    return "Read the rewards of a few groups: they are equal because all fail, or because the reward does not tell."
