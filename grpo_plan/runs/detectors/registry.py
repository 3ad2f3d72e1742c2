"""The checks of a run, in the order in which a report names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Outcome

Detector = Callable[[Facts], Outcome]


def detectors() -> Mapping[str, Detector]:
    """Every check by the id of what it looks for."""
    from grpo_plan.runs.detectors import (
        composition,
        duplicates,
        flat,
        metrics,
        penalty,
        plan,
        published,
        refills,
        scoring,
        truncation,
    )

    return {
        "DEGENERATE_GROUPS": published.degenerate_groups,
        "ADV_COLLAPSE": published.adv_collapse,
        "REWARD_STD_DEATH": published.reward_std_death,
        "DEAD_ABOVE_PLAN": plan.dead_above_plan,
        "STARVED": composition.starved,
        "SATURATED": composition.saturated,
        "COMPOSITION_TURNED": composition.composition_turned,
        "FAILED_SCORING": scoring.failed_scoring,
        "FLAT_REWARD": flat.flat_reward,
        "TRUNCATION_DEAD": truncation.truncation_dead,
        "DUPLICATE_ROLLOUTS": duplicates.duplicate_rollouts,
        "FILTERED_METRIC": metrics.filtered_metric,
        "BATCH_SCALED_METRIC": metrics.batch_scaled_metric,
        "KL_ONLY_GRADIENT": penalty.kl_only_gradient,
        "REFILL_CAP_RISK": refills.refill_cap_risk,
    }
