"""The body of ``temperature --json``."""

from __future__ import annotations

from typing import Any

from grpo_plan.documents.parts import dead_json
from grpo_plan.documents.pilots import model_json, pilot_json
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.paired import Difference
from grpo_plan.planning.dead_counts import DeadCountComparison
from grpo_plan.planning.temperature_result import Movement, NeededPilot, TemperatureDifference, TemperaturePlan


def _interval_json(interval: Interval) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _difference_json(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "value": difference.value,
        "low": difference.low,
        "high": difference.high,
        "level": difference.level,
        "prompts": difference.prompts,
    }


def _movement_json(movement: Movement | None) -> dict[str, Any] | None:
    if movement is None:
        return None
    return {name: _interval_json(getattr(movement, name)) for name in type(movement).__slots__}


def _needed_json(needed: NeededPilot | None) -> dict[str, Any] | None:
    if needed is None:
        return None
    return {name: getattr(needed, name) for name in type(needed).__slots__}


def _row(d: TemperatureDifference) -> dict[str, Any]:
    return {
        "temperature": d.temperature,
        "baseline": d.baseline,
        "paired": d.paired,
        "prompts": d.prompts,
        "only_baseline": d.only_baseline,
        "only_here": d.only_here,
        "dead": _difference_json(d.dead),
        "counted": d.counted,
        "measured_group_size": d.measured_group_size,
        "measured_dead": _difference_json(d.measured_dead),
        "all_pass": _difference_json(d.all_pass),
        "all_fail": _difference_json(d.all_fail),
        "pass_rate": _difference_json(d.pass_rate),
        "reward_variance": _difference_json(d.reward_variance),
        "movement": _movement_json(d.movement),
        "unpaired_width": d.unpaired_width,
        "paired_width": d.paired_width,
        "needed": _needed_json(d.needed),
    }


def temperature_document(plan: TemperaturePlan) -> dict[str, Any]:
    """The body: of pilots at several temperatures."""
    return {
        "verdict": plan.verdict.name,
        "recommended": plan.recommended,
        "reason": plan.reason,
        "objective": plan.objective,
        "group_size": plan.group_size,
        "baseline": plan.baseline,
        "level": plan.level,
        "temperatures": [
            {
                "temperature": at.temperature,
                "dead": dead_json(at.dead),
                "pass_rate": _interval_json(at.pass_rate),
                "pooled_rows": at.pooled_rows,
                "pilot": pilot_json(at.fit, plan.level),
                "model": model_json(at.fit),
            }
            for at in plan.temperatures
        ],
        "differences": [_row(d) for d in plan.differences],
        "notes": list(plan.notes),
        "assumptions": list(plan.assumptions),
    }


def counts_document(compared: DeadCountComparison) -> dict[str, Any]:
    """The body: of dead groups that were counted."""
    return {
        "verdict": compared.verdict.name,
        "recommended": compared.recommended,
        "baseline": compared.baseline,
        "level": compared.level,
        "counts": [
            {
                "temperature": count.temperature,
                "dead": count.dead,
                "groups": count.groups,
                "design_effect": count.design_effect,
                "share": _interval_json(count.share),
            }
            for count in compared.counts
        ],
        "differences": [
            {"temperature": t, "baseline": compared.baseline, "dead": _difference_json(d)}
            for t, d in compared.differences.items()
        ],
        "assumptions": list(compared.assumptions),
    }
