"""What a plan's estimator does with the rollouts, as JSON."""

from __future__ import annotations

from typing import Any

from grpo_plan.planning.live import Ranged
from grpo_plan.planning.plan import Plan, PlannedDesign
from grpo_plan.remedies.planned import beside


def live_json(chosen: Plan, planned: PlannedDesign) -> dict[str, Any] | None:
    """Share of the rollouts with an advantage, by kind of group, and the advantages of dead groups."""
    found = chosen.live(planned)
    if found is None:
        return None
    share, parts = found
    n = planned.design.rollouts_per_step
    down, up = chosen.pushes(planned.design.group_size)
    return {
        "share": _ranged(share),
        "mixed": _ranged(parts.mixed),
        "all_fail": _ranged(parts.all_fail),
        "all_pass": _ranged(parts.all_pass),
        "rollouts_per_step": None if share.value is None else share.value * n,
        "all_fail_advantage": down,
        "all_pass_advantage": up,
    }


def beside_json(chosen: Plan) -> dict[str, Any] | None:
    """Progress over that of rloo at its own pick; None where both are one plan."""
    found = beside(chosen)
    if found is None:
        return None
    return {
        "reference": found.reference,
        "group_size": found.group_size,
        "progress": [{"kappa": at.kappa, **_ranged(at.ratio)} for at in found.progress],
    }


def _ranged(number: Ranged) -> dict[str, float | None]:
    return {"value": number.value, "low": number.low, "high": number.high}
