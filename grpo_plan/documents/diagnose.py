"""A diagnosis as JSON: finite numbers, null where unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grpo_plan.quantities import DEFINITIONS, Quantity
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.difficulty import Difficulty, Undetermined
from grpo_plan.runs.expectation import Expected
from grpo_plan.runs.finding import Finding, Remedy, Waste
from grpo_plan.runs.shares import GroupShares, Part, group_shares

PARTS = ("dead", "mixed", "all_pass", "all_fail", "other_dead")


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The body of the answer."""
    return {
        "verdict": diagnosis.verdict,
        "worst": None if diagnosis.worst is None else diagnosis.worst.value,
        "findings": [_finding(f) for f in diagnosis.findings],
        "skipped": [{"id": s.id, "needs": s.needs} for s in diagnosis.skipped],
        "clear": [{"id": c.id, "because": c.because} for c in diagnosis.clear],
        "run": _run(diagnosis),
        "composition": [_window(w) for w in group_shares(diagnosis.facts)],
        "plan": _plan(diagnosis),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "says": finding.says,
        "onset_step": finding.onset_step,
        "evidence": {name: finite(v) if isinstance(v, float) else v for name, v in finding.evidence.items()},
        "cost": None if finding.waste is None else _cost(finding.waste),
        "remedy": finding.remedy,
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
        "reference": finding.reference,
    }


def _cost(waste: Waste) -> dict[str, Any]:
    return {
        "rollouts": finite(waste.rollouts),
        "rollouts_low": finite(waste.rollouts_low),
        "rollouts_high": finite(waste.rollouts_high),
        "gpu_hours": finite(waste.gpu_hours),
        "usd": finite(waste.usd),
        "steps": waste.steps,
        "beyond_share": finite(waste.beyond),
        "missing": dict(waste.missing),
    }


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "action": remedy.action,
        "expected": remedy.expected,
        "price": remedy.price,
        "numbers": {name: finite(value) for name, value in remedy.numbers.items()},
    }


def _run(diagnosis: Diagnosis) -> dict[str, Any]:
    run, facts = diagnosis.run, diagnosis.facts
    read = {name: run.quantity(name) for name in DEFINITIONS}
    steps = run.steps
    return {
        "source": run.source,
        "format": run.format,
        "tool": facts.view.tool,
        "steps": int(steps.size),
        "first_step": int(steps[0]) if steps.size else None,
        "last_step": int(steps[-1]) if steps.size else None,
        "steps_per_row": facts.steps_per_row,
        "group_size": facts.group_size,
        "prompts_per_step": facts.prompts_per_step,
        "rewards": {"kind": facts.rewards.kind.value, "because": facts.rewards.because},
        "metrics_read": [
            {"quantity": name, "metrics": list(q.metrics), "stage": q.stage.value, "notes": list(q.notes)}
            for name, q in read.items()
            if isinstance(q, Quantity)
        ],
        "not_told": [
            {"quantity": name, "cause": q.cause.value, "reason": q.reason}
            for name, q in read.items()
            if not isinstance(q, Quantity)
        ],
        "unknown_keys": list(run.unknown_keys),
        "dropped": dict(run.dropped),
        "notes": list(run.notes),
    }


def _window(window: GroupShares) -> dict[str, Any]:
    return {
        "window": window.name,
        "first_step": window.first_step,
        "last_step": window.last_step,
        "level": window.level,
        **{name: _part(getattr(window, name)) for name in PARTS},
        "mixed_groups": _part(window.mixed_groups),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "value": finite(part.value),
        "low": finite(part.low),
        "high": finite(part.high),
        "seen_low": finite(part.seen_low),
        "seen_high": finite(part.seen_high),
        "rows": part.rows,
        "groups": part.groups if part.known else None,
        "groups_known": part.groups_known if part.known else None,
        "from": part.words if part.known else None,
        "stage": None if part.stage is None else part.stage.value,
        "reason": part.reason,
    }


def _plan(diagnosis: Diagnosis) -> dict[str, Any] | None:
    expectation, planned = diagnosis.facts.expectation, diagnosis.facts.planned
    if expectation is None:
        return None
    return {
        "source": expectation.source,
        "planned_group_size": expectation.group_size,
        "group_size": None if planned is None else planned.group_size,
        "dead": None if planned is None else _expected(planned.dead),
        "all_pass": None if planned is None else _expected(planned.all_pass),
        "all_fail": None if planned is None else _expected(planned.all_fail),
        "prompts_per_step": None if planned is None else planned.prompts_per_step,
        "mixed_groups_p05": None if planned is None else finite(planned.mixed_low),
        "mixed_groups_p95": None if planned is None else finite(planned.mixed_high),
        "mean_pass_rate": _expected(expectation.mean_pass_rate),
    }


def _expected(expected: Expected | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    return {"value": expected.value, "low": expected.low, "high": expected.high, "level": expected.level}


def finite(value: float | None) -> float | None:
    """A number for JSON: null where it is not finite."""
    return None if value is None or not math.isfinite(value) else value


def what_if_json(
    found: Difficulty | Undetermined | None, sizes: Sequence[int], present: int | None = None
) -> dict[str, Any] | None:
    """As JSON; the group size of the run stands among those asked for."""
    if found is None:
        return None
    if isinstance(found, Undetermined):
        return {"reason": found.reason, "source": None, "rests_on": None, "rows": []}
    return {
        "reason": None,
        "source": found.source,
        "rests_on": found.rests_on,
        "rows": [
            {
                "group_size": g,
                **{
                    name: {"value": s.value, "low": s.low, "high": s.high, "level": s.level}
                    for name, s in (("dead", at.dead), ("all_pass", at.all_pass), ("all_fail", at.all_fail))
                },
                "says": at.says,
            }
            for g, at in ((g, found.at(g)) for g in with_present(sizes, present))
        ],
    }


def with_present(sizes: Sequence[int], present: int | None) -> list[int]:
    """Group sizes asked for and that of the run, to compare with.

    >>> with_present([4, 16], 8), with_present([4], None)
    ([4, 8, 16], [4])
    """
    return sorted({*sizes, *([] if present is None else [present])})
