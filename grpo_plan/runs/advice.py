"""Costs and remedies of the findings of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grpo_plan.quantities import Absent
from grpo_plan.runs.composition_now import Composition, DeadKind, composition_of, kind_of
from grpo_plan.runs.difficulty import Difficulty, Undetermined, difficulty_of
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Remedy, Waste
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.remedies import remedies_for
from grpo_plan.runs.waste import waste_of

KINDS = {
    "STARVED": DeadKind.ALL_FAIL,
    "SATURATED": DeadKind.ALL_PASS,
    "FAILED_SCORING": DeadKind.FAILED_SCORING,
    "FLAT_REWARD": DeadKind.FLAT,
    "TRUNCATION_DEAD": DeadKind.TRUNCATED,
    "DUPLICATE_ROLLOUTS": DeadKind.DUPLICATES,
    "FILTERED_METRIC": DeadKind.FILTERED,
    "BATCH_SCALED_METRIC": DeadKind.BATCH_FLAG,
    "KL_ONLY_GRADIENT": DeadKind.PENALTY,
    "REFILL_CAP_RISK": DeadKind.REFILL,
}
BY_COMPOSITION = frozenset(
    {"DEGENERATE_GROUPS", "ADV_COLLAPSE", "REWARD_STD_DEATH", "DEAD_ABOVE_PLAN", "COMPOSITION_TURNED"}
)
WHOLE = frozenset({"DEGENERATE_GROUPS", "ADV_COLLAPSE", "REWARD_STD_DEATH", "FILTERED_METRIC", "KL_ONLY_GRADIENT"})


def advise(facts: Facts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with what they cost and what could be done; the pass rates are worked out once, and only if needed."""
    given = tuple(findings)
    if not any(_has_advice(finding) for finding in given):
        return given
    known, now = difficulty_of(facts), composition_of(facts)
    kinds = dict.fromkeys(kind_of_finding(f, now) for f in given if _has_advice(f) and not f.remedies)
    remedies = {kind: remedies_for(facts, known, kind, now) for kind in kinds}
    return tuple(_advised(facts, f, now, remedies) if _has_advice(f) else f for f in given)


def with_advice(facts: Facts, finding: Finding, difficulty: Difficulty | Undetermined | None = None) -> Finding:
    """A finding with what it costs and what could be done; as it is where neither applies, or both are given."""
    if not _has_advice(finding):
        return finding
    now = composition_of(facts)
    kind = kind_of_finding(finding, now)
    known = difficulty_of(facts) if difficulty is None else difficulty
    return _advised(facts, finding, now, {kind: remedies_for(facts, known, kind, now)})


def kind_of_finding(finding: Finding, composition: Composition) -> DeadKind:
    """Why the groups of a finding are dead."""
    return KINDS[finding.id] if finding.id in KINDS else kind_of(composition)


def _has_advice(finding: Finding) -> bool:
    return finding.id in KINDS or finding.id in BY_COMPOSITION


def _advised(
    facts: Facts, finding: Finding, now: Composition, remedies: Mapping[DeadKind, tuple[Remedy, ...]]
) -> Finding:
    waste = _waste(facts, finding) if finding.waste is None else finding.waste
    return replace(finding, waste=waste, remedies=finding.remedies or remedies[kind_of_finding(finding, now)])


def _waste(facts: Facts, finding: Finding) -> Waste | None:
    """Of the whole run where all dead groups are meant; of their part, or of what exceeds the plan, elsewhere."""
    if finding.id in WHOLE:
        return _of(facts, facts.dead)
    if finding.id == "STARVED":
        return _of(facts, facts.all_fail)
    if finding.id == "SATURATED":
        return _of(facts, facts.all_pass)
    if finding.id == "DEAD_ABOVE_PLAN" and facts.planned is not None:
        beyond = facts.planned.dead.value if facts.planned.dead.value is not None else facts.planned.dead.high
        return _of(facts, _since(facts.dead, finding.onset_step), beyond)
    return None


def _of(facts: Facts, series: Measured | Absent, beyond: float | None = None) -> Waste | None:
    return waste_of(facts, series, beyond=beyond) if isinstance(series, Measured) and series.rows else None


def _since(series: Measured | Absent, step: int | None) -> Measured | Absent:
    if step is None or not isinstance(series, Measured):
        return series
    return series.take(series.steps >= step)
