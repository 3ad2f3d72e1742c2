"""The checks of a run, in the order in which a report names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Outcome

Detector = Callable[[Facts], Outcome]


def detectors() -> Mapping[str, Detector]:
    """Every check by the id of what it looks for."""
    from grpo_plan.runs.detectors import composition, plan, published

    return {
        "DEGENERATE_GROUPS": published.degenerate_groups,
        "ADV_COLLAPSE": published.adv_collapse,
        "REWARD_STD_DEATH": published.reward_std_death,
        "DEAD_ABOVE_PLAN": plan.dead_above_plan,
        "STARVED": composition.starved,
        "SATURATED": composition.saturated,
        "COMPOSITION_TURNED": composition.composition_turned,
    }
