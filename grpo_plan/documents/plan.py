"""The body of ``plan --json``, as in the contract."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from grpo_plan.documents.costs import cost_json
from grpo_plan.documents.estimator import beside_json, live_json
from grpo_plan.documents.parts import batch_json, dead_json
from grpo_plan.documents.pilots import model_json, pilot_json

if TYPE_CHECKING:
    from grpo_plan.planning.plan import Alternative, Plan, PlannedDesign
    from grpo_plan.trainers.base import Block
    from grpo_plan.trainers.planned import PlannedRecipe


WORTH_LIMITS = 0.8  # progress below this share of the best's is shown without limits: each takes two searches


def plan_document(chosen: Plan, block: Block | None, recipe: PlannedRecipe) -> dict[str, Any]:
    """The body of ``plan --json``."""
    kappa = chosen.kappa
    return {
        "objective": chosen.objective,
        "estimator": chosen.estimator,
        "beside": beside_json(chosen),
        "recommended": _row(chosen, chosen.recommended),
        "pick": _pick(chosen.pick),
        "least_regret_group_size": chosen.least_regret.design.group_size,
        "flat_range": list(chosen.flat_range),
        "kappa": {"low": kappa.low, "high": kappa.high, "value": kappa.value, "measured": kappa.measured},
        "sensitivity": [
            {
                "kappa": a.kappa,
                "group_size": a.group_size,
                "flat_range": [a.flat_low, a.flat_high],
                "not_told_apart": list(chosen.not_told_apart(a)),
                "two_stage_group_size": a.two_stage,
            }
            for a in chosen.sensitivity
        ],
        "frontier": [_row(chosen, p) for p in chosen.frontier],
        "alternatives": [
            {**_pick(a), **(_row(chosen, a.planned) if a.planned else {"group_size": None})}
            for a in chosen.alternatives
        ],
        "binding_constraint": chosen.binding_constraint,
        "refused": list(chosen.refused),
        "assumptions": list(chosen.assumptions),
        "trainer": None if block is None else block_json(block),
        "recipe": recipe.as_json(),
        "pilot": pilot_json(chosen.fit, chosen.level),
        "model": model_json(chosen.fit),
    }


def block_json(block: Block) -> dict[str, Any]:
    """A trainer's block."""
    return {
        "name": block.trainer,
        "versions": block.versions,
        "language": block.language,
        "block": block.text,
        "settings": dict(block.settings),
        "checks": [{"rule": c.rule, "satisfied": c.satisfied, "detail": c.detail} for c in block.checks],
        "notes": list(block.notes),
    }


def _pick(found: Alternative) -> dict[str, Any]:
    return {
        "objective": found.objective,
        "comment": found.comment,
        "flat_range": None if found.flat_range is None else list(found.flat_range),
        "runner_up": found.runner_up,
        "would_change": found.would_change,
    }


def _row(chosen: Plan, planned: PlannedDesign) -> dict[str, Any]:
    design = planned.design
    ends = ((chosen.kappa.low, planned.progress_low), (chosen.kappa.high, planned.progress_high))
    limits = [
        list(chosen.progress_limits(planned, kappa)) if share >= WORTH_LIMITS or planned is chosen.recommended else None
        for kappa, share in ends
    ]
    return {
        "group_size": design.group_size,
        "prompts_per_step": design.prompts_per_step,
        "steps": design.steps,
        "rollouts_per_step": design.rollouts_per_step,
        "dead": dead_json(planned.dead),
        "effective_batch": batch_json(planned.batch),
        "live": live_json(chosen, planned),
        "cost": {
            **cost_json(
                planned.cost,
                of="step" if design.steps is None else "run",
                low=planned.cost_low,
                high=planned.cost_high,
            ),
            "binding": list(planned.binding),
        },
        "signal": {
            "progress_at_kappa_low": planned.progress_low,
            "progress_at_kappa_low_limits": limits[0],
            "progress_at_kappa_high": planned.progress_high,
            "progress_at_kappa_high_limits": limits[1],
            "worst_regret": planned.worst_regret,
            "noise_to_signal": None if (nsr := planned.noise_to_signal) is None else asdict(nsr),
        },
        "mixed_groups_per_cost": planned.mixed_groups_per_cost,
        "coverage": planned.coverage,
        "rare_mode_miss": planned.rare_mode_miss,
    }
