"""The body of ``refill --json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grpo_plan.batches import CountSummary, Refill, RefillAt, SamplingCost
from grpo_plan.batches.refilling import MAX_GEN_BATCH, batch_multiplier_for
from grpo_plan.batches.stopping import Bounded
from grpo_plan.documents.parts import dead_json, summary_json
from grpo_plan.documents.pilots import model_json, pilot_json
from grpo_plan.documents.refill_advice import assumptions, better_option, trainer_settings
from grpo_plan.fitting.result import PassRateFit

TRIED = (0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0)  # generation batches shown, over the prompts per step


def sizes_to_try(plan: Refill) -> list[int]:
    """Generation batches worth showing beside that of the plan, its own among them."""
    n = plan.prompts_per_step
    sure = plan.at_value if plan.at_high is None else plan.at_high
    one_round = sure.one_round_gen_batch_size
    most = min(MAX_GEN_BATCH, max(one_round, plan.data_prompts or 0))
    tried = {size for size in {round(share * n) for share in TRIED} | {one_round} if 1 <= size <= most}
    return sorted(tried | {plan.gen_batch_size})


def refill_document(
    fit: PassRateFit, plan: Refill, others: list[Refill], costs: tuple[SamplingCost, ...], level: float
) -> dict[str, Any]:
    """The body: one refill, others of other generation batches, and other ways to sample."""
    n, at, better = plan.prompts_per_step, plan.at_value, better_option(plan, others)
    return {
        "prompts_per_step": n,
        "group_size": plan.group_size,
        "gen_batch_size": plan.gen_batch_size,
        "batch_multiplier": plan.batch_multiplier,
        "max_rounds": plan.max_rounds,
        "steps": plan.steps,
        "data_prompts": plan.data_prompts,
        "status": plan.status.name,
        "dead": dead_json(plan.dead),
        "one_by_one": _spread(plan, lambda a: a.one_by_one),
        **_row(plan),
        "cap_probability": _ends(plan, lambda a: a.cap_probability),
        "run_cap_probability": _ends(plan, lambda a: a.run_cap_probability),
        "rounds_to_fill": _ends(plan, lambda a: a.rounds_to_fill),
        "safe_max_rounds": _ends(plan, lambda a: a.safe_max_rounds),
        "one_round": {
            "gen_batch_size": _ends(plan, lambda a: a.one_round_gen_batch_size),
            "batch_multiplier": _ends(plan, lambda a: batch_multiplier_for(a.one_round_gen_batch_size, n)),
        },
        "within_max_rounds": None
        if at.capped_gen_batch_size is None
        else {
            "gen_batch_size": _ends(plan, lambda a: a.capped_gen_batch_size),
            "batch_multiplier": _ends(plan, lambda a: batch_multiplier_for(a.capped_gen_batch_size or 1, n)),
        },
        "mixed_prompts": _ends(plan, lambda a: a.mixed_prompts, falls=True),
        "steps_per_pass": _ends(plan, lambda a: a.steps_per_pass, falls=True),
        "better_gen_batch_size": None if better is None else better.gen_batch_size,
        "options": [
            {"gen_batch_size": p.gen_batch_size, "batch_multiplier": p.batch_multiplier, **_row(p)} for p in others
        ],
        "comparison": [
            {
                "scheme": c.scheme,
                "group_size": c.group_size,
                "round_size": c.round_size,
                "rollouts_per_prompt": _bounded(c.rollouts_per_prompt),
                "dropped_fraction": _bounded(c.dropped_fraction),
                "rollouts_per_group": None if c.rollouts_per_group is None else _bounded(c.rollouts_per_group),
                "status": c.status.name,
            }
            for c in costs
        ],
        "settings": [s.as_json() for s in trainer_settings(plan)],
        "assumptions": assumptions(plan),
        "pilot": pilot_json(fit, level),
        "model": model_json(fit),
    }


def _row(plan: Refill) -> dict[str, Any]:
    low, high = plan.surplus_limits or (None, None)
    return {
        "rounds": _spread(plan, lambda a: a.rounds),
        "prompts": _spread(plan, lambda a: a.prompts),
        "rollouts": _spread(plan, lambda a: a.rollouts),
        "mixed_groups": _ends(plan, lambda a: a.mixed_groups, falls=True),
        "surplus_mixed_groups": {"value": plan.at_value.surplus_mixed_groups, "low": low, "high": high},
    }


def _spread(plan: Refill, of: Callable[[RefillAt], CountSummary]) -> dict[str, Any]:
    """A count that varies from step to step, with the limits of its mean and of its 95 % quantile."""
    mean, most = plan.limits(lambda a: of(a).mean), plan.limits(lambda a: of(a).p95)
    ends = {"mean_low": mean[0], "mean_high": mean[1], "p95_low": most[0], "p95_high": most[1]}
    return {**summary_json(of(plan.at_value)), **ends}


def _ends(plan: Refill, of: Callable[[RefillAt], float | None], *, falls: bool = False) -> dict[str, Any] | None:
    """A number at the estimate and at both limits of the dead fraction; a number that falls with it, ends swapped."""
    value = of(plan.at_value)
    if value is None:
        return None
    low, high = of(plan.at_low), None if plan.at_high is None else of(plan.at_high)
    return {"value": value, "low": high, "high": low} if falls else {"value": value, "low": low, "high": high}


def _bounded(number: Bounded) -> dict[str, float | None]:
    return {"value": number.value, "low": number.low, "high": number.high}
