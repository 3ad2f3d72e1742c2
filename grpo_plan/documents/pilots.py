"""A pilot and its fitted model as JSON, as in the contract."""

from __future__ import annotations

from typing import Any

from grpo_plan.fitting.result import PassRateFit
from grpo_plan.pilot import Pilot
from grpo_plan.provenance import DeadGroups


def pilot_json(fitted: PassRateFit, level: float) -> dict[str, Any]:
    """The pilot behind a fit, as in the contract."""
    pilot, mean = fitted.pilot, fitted.mean_pass_rate_interval(level)
    return {
        "prompts": pilot.prompts,
        "rollouts": pilot.total_rollouts,
        "rollouts_per_prompt": {
            "min": int(pilot.rollouts.min()),
            "median": pilot.median_rollouts,
            "max": int(pilot.rollouts.max()),
        },
        "mean_pass_rate": {"value": mean.value, "low": mean.low, "high": mean.high, "level": level},
        "dropped": dict(pilot.dropped),
        "provenance": provenance_json(pilot),
        "notes": list(pilot.notes),
    }


def provenance_json(pilot: Pilot) -> dict[str, Any]:
    """What a pilot was read from."""
    source = pilot.provenance
    return {
        "format": source.format,
        "files": source.files,
        "rows": source.rows,
        "groups": source.groups,
        "group_size": None if source.group_size is None else list(source.group_size),
        "policy_steps": None if source.policy_steps is None else list(source.policy_steps),
        "step_count": source.step_count,
        "policies": list(source.policies),
        "temperatures": list(pilot.temperatures),
        "filtered": source.filtered,
        "removed": source.removed,
        "weak_prior": source.weak_prior,
        "pass_threshold": source.pass_threshold,
        "dead_groups": None if source.dead_groups is None else _dead_groups_json(source.dead_groups),
    }


def _dead_groups_json(counted: DeadGroups) -> dict[str, Any]:
    return {
        "groups": counted.groups,
        "dead": counted.dead,
        "judged_by": "pass or fail" if counted.by_reward is None else "full reward",
        "by_pass_or_fail": counted.by_pass,
        "by_full_reward": counted.by_reward,
        "all_fail": counted.all_fail,
        "all_pass": counted.all_pass,
        "unscored": counted.unscored,
        "by_step": [
            {"step": None if step < 0 else step, "groups": groups, "dead": dead}
            for step, groups, dead in counted.by_step
        ],
    }


def model_json(fitted: PassRateFit) -> dict[str, Any]:
    """The fitted model, as in the contract."""
    return {
        "family": fitted.family,
        "population": fitted.population,
        "parameters": fitted.parameters,
        "truncated": fitted.truncation,
        "status": fitted.status.name,
        "statuses": {s.name: s.sentence for s in fitted.statuses},
        "max_measured_group_size": fitted.max_measured_group_size,
        "max_counted_group_size": fitted.max_counted_group_size,
    }
