"""Metrics that look like the dead fraction and are not: of survivors only, or of the batch as one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.quantities import Absent, Cause, Quantity, Stage, quantity_of
from grpo_plan.runs.detectors.asking import rollouts_wanted
from grpo_plan.runs.detectors.common import SeenShare, evidence_of, in_words, percent, share_of
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity
from grpo_plan.runs.measured import Measured

ZERO_STD = "frac_reward_zero_std"
KEPT_RATIO = "dapo/kept_prompts_ratio"
MOST_UNSEEN = 0.5  # dead fraction from which most of what is generated is thrown away unseen
APART = 0.02  # shares that differ by more than this do not say the same
SURVIVORS = "docs/formats.md, on groups that are dropped; bounds of docs/theory.md, eq. 93."
OF_BATCH = "TRL 1.16.0: with scale_rewards 'batch' (or normalize_then_sum) frac_reward_zero_std is of the whole batch."


def filtered_metric(facts: Facts) -> Outcome:
    """The metric counts groups that were kept: what was thrown away is not in it."""
    id, logged, dead = "FILTERED_METRIC", quantity_of("dead_fraction", facts.view), facts.dead
    told = facts.run.quantity("dead_fraction")
    survivors = next((f for f in (logged, told) if isinstance(f, Absent) and f.cause is Cause.SURVIVORS_ONLY), None)
    after = isinstance(told, Quantity) and told.stage is Stage.AFTER
    beside = facts.view.logged(ZERO_STD) if KEPT_RATIO in facts.view else ()
    if survivors is None and not after and not beside:
        return Clear(id=id, because=_unfiltered(dead))
    names = beside or (survivors.metrics if survivors is not None else ()) or logged.metrics
    name = ", ".join(names) if names else "the dump of rollouts"
    window = facts.late(dead) if isinstance(dead, Measured) and not after else None
    share = None if window is None else share_of(window, facts.settings.level)
    shown = _late_mean(facts, names)
    reads = "" if shown is None else f" It reads {percent(shown)} % on average at the end."
    if beside:
        severity, says = Severity.INFO, f"{facts.view.names[KEPT_RATIO]} tells the groups before the filter"
    elif window is None or share is None:
        severity, says = Severity.WARNING, "nothing else tells how many were dead among those drawn"
    else:
        unseen = float(np.average(window.lower, weights=window.groups)) > MOST_UNSEEN
        severity = Severity.WARNING if unseen else Severity.INFO
        says = f"{_bounds(window)} of the groups drawn were dead in {window.span} ({window.words})"
    evidence: dict[str, float | int | str | bool | None] = {
        "metric": name,
        "metric_late_mean": shown,
        "known_otherwise": window is not None,
        "dead_fraction_least": None if window is None else float(np.average(window.lower, weights=window.groups)),
        "dead_fraction_most": None if window is None else float(np.average(window.upper, weights=window.groups)),
        "rows": None if window is None else window.rows,
        "generation_batches_mean": _batches(facts),
    }
    return Finding(
        id=id,
        severity=severity,
        says=f"{name} {'counts' if names else 'holds'} only groups that were kept.{reads} {says[0].upper()}{says[1:]}.",
        onset_step=int(facts.run.steps[0]) if facts.run.steps.size else None,
        evidence=evidence if share is None else {**evidence, **evidence_of("late_dead_fraction", share)},
        remedy="Judge the run by the groups that are drawn: log the generation batches or the groups thrown away of "
        "each step, or dump rollouts before the filter. Read 0 % here as 'nothing dead was trained on'.",
        reference=SURVIVORS,
    )


def _unfiltered(dead: Measured | Absent) -> str:
    if isinstance(dead, Absent):
        return "the log holds no metric of dead groups that counts only those kept."
    return f"{dead.words}: {dead.stage.value}."


def _bounds(series: Measured) -> str:
    """What the average share is, exactly or between its bounds."""
    low, high = (float(np.average(v, weights=series.groups)) for v in (series.lower, series.upper))
    if series.exact:
        return f"{percent(low)} %"
    return f"between {percent(low)} and {percent(high)} %"


def _late_mean(facts: Facts, names: tuple[str, ...]) -> float | None:
    """Mean of the metric itself over its last rows, where it is one metric and a share."""
    if len(names) != 1 or names[0] not in facts.run.metrics:
        return None
    values = facts.run.metrics[names[0]]
    values = values[np.isfinite(values)]
    if not values.size or values.min() < 0.0 or values.max() > 1.0:
        return None
    return float(values[-max(facts.settings.late_rows, int(facts.settings.late_share * values.size)) :].mean())


def _batches(facts: Facts) -> float | None:
    found = facts.measured("generation_batches")
    return facts.late(found).mean if isinstance(found, Measured) else None


def batch_scaled_metric(facts: Facts) -> Outcome:
    """A flag of the whole batch under the name of a share of groups."""
    id, logged = "BATCH_SCALED_METRIC", quantity_of("dead_fraction", facts.view)
    names = facts.view.logged(ZERO_STD)
    suspects = (Cause.BATCH_FLAG, Cause.MEANING_UNKNOWN)
    if not (isinstance(logged, Absent) and logged.cause in suspects and names and set(names) & set(logged.metrics)):
        return Clear(id=id, because=_share_of_groups(logged))
    sure = logged.cause is Cause.BATCH_FLAG
    name, values = names[0], facts.run.metrics[names[0]]
    at = np.isfinite(values)
    flag = float(values[at].mean()) if at.any() else None
    counted = _counted(facts)
    beside = None if counted is None else counted.take(np.isin(counted.steps, facts.run.steps[at]))
    share = None if beside is None or not beside.rows else share_of(beside, facts.settings.level)
    reads = "has no value" if flag is None else f"reads {flag:.3g} on average over {int(at.sum()):,} rows"
    evidence: dict[str, float | int | str | bool | None] = {
        "metric": name,
        "metric_mean": flag,
        "rows": int(at.sum()),
        "sure": sure,
        "because": logged.reason,
    }
    severity, says, onset = _judged(facts, share, beside, flag, at, sure)
    if severity is None:
        return Clear(id=id, because=f"{name} {reads}; {says}.")
    return Finding(
        id=id,
        severity=severity,
        says=f"{name} {reads}, and {'is' if sure else 'may be'} 1 only where all rewards of a batch are equal: {says}.",
        onset_step=onset,
        evidence=evidence if share is None else {**evidence, **evidence_of("dead_fraction", share)},
        remedy=_remedy(facts, name, share),
        reference=OF_BATCH,
    )


def _judged(
    facts: Facts,
    share: SeenShare | None,
    beside: Measured | None,
    flag: float | None,
    at: NDArray[np.bool_],
    sure: bool,
) -> tuple[Severity | None, str, int | None]:
    """How grave, what the rollouts say of it, and the first step at which both differ."""
    if share is None or beside is None or share.value is None or flag is None:
        if sure:
            return Severity.WARNING, "nothing else in the log tells how many groups are dead", None
        return Severity.INFO, "the log does not tell which; the setting scale_rewards would", None
    both = facts.run.metrics[facts.view.logged(ZERO_STD)[0]][np.isin(facts.run.steps, beside.steps) & at]
    off = np.abs(both - beside.values) > APART
    if not off.any():
        if not sure:
            return None, f"the rollouts of {beside.rows:,} steps count the same share of dead groups", None
        return Severity.INFO, f"the rollouts count {in_words(share)} dead groups, as it reads", None
    says = f"the rollouts of {beside.span} count {in_words(share)} dead groups"
    grave = share.low > float(both.mean()) + APART
    return (Severity.WARNING if grave else Severity.INFO), says, int(beside.steps[int(np.argmax(off))])


def _share_of_groups(logged: Quantity | Absent) -> str:
    if isinstance(logged, Quantity):
        return f"{', '.join(logged.metrics) or 'the dead fraction'} is a share of groups."
    return "no metric of the log looks like a share of groups and is of the whole batch."


def _counted(facts: Facts) -> Measured | None:
    """The dead fraction as counted from rollouts, where they are all of a step."""
    found = facts.measured("dead_fraction")
    return found if isinstance(found, Measured) and found.words == "counted from the rollouts" else None


def _remedy(facts: Facts, name: str, share: SeenShare | None) -> str:
    if share is None:
        wanted = rollouts_wanted(facts, "how many groups of a step are dead")
        return f"Do not read {name} as the dead fraction. {wanted}"
    return f"Do not read {name} as the dead fraction: count the groups of the rollouts, as here."
