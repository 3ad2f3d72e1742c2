"""``grpo-plan plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PilotRequest,
    PopulationOption,
    optional_whole,
    parse_group_sizes,
    parse_population,
    reads_pilot,
    write_json,
)
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.planning.plan import Plan, PlannedDesign

Whole = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(plan))


def plan(
    request: PilotRequest,
    budget_rollouts: Annotated[Whole, typer.Option(metavar="N", help="Rollouts of the whole run, e.g. 2e6.")] = None,
    steps: Annotated[Whole, typer.Option(metavar="N", help="Optimiser steps of the run.")] = None,
    prompts_per_step: Annotated[Whole, typer.Option(metavar="N", help="Groups in a step.")] = None,
    rollouts_per_step: Annotated[Whole, typer.Option(metavar="N", help="Rollouts in a step.")] = None,
    group_sizes: Annotated[str | None, typer.Option(metavar="G,G,...", help="Only these group sizes.")] = None,
    objective: Annotated[str, typer.Option(help="signal or max-dead.")] = "signal",
    kappa: Annotated[
        str, typer.Option(metavar="K|LO:HI", help="Score noise over contrast, measured or a range.")
    ] = "1:300",
    estimator: Annotated[str, typer.Option(help="Advantage: grpo, dr_grpo or rloo.")] = "grpo",
    max_dead: Annotated[float, typer.Option(help="Limit of the max-dead objective.")] = 0.4,
    prompt_cost: Annotated[float, typer.Option(help="Fixed cost of a prompt, in rollouts.")] = 0.0,
    coherence: Annotated[float, typer.Option(help="Mean cosine of the gradients of two prompts.")] = 0.0,
    population: PopulationOption = "sample",
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Choose group size and prompts per step under a budget, with the reasons.

    Give --budget-rollouts and at least one of --steps, --prompts-per-step, --rollouts-per-step, or --rollouts-per-step
    alone; what is left out is solved for.

    Example: grpo-plan plan pilot.jsonl --budget-rollouts 2e6 --steps 500
    """
    from grpo_plan.cli.plan_text import print_plan
    from grpo_plan.costs import Budget, CostModel
    from grpo_plan.fitting.fit import fit_pass_rates
    from grpo_plan.planning.group_size import plan_group_size

    pool = parse_population(population)
    budget = Budget(
        rollouts=optional_whole(budget_rollouts, "--budget-rollouts"),
        steps=optional_whole(steps, "--steps"),
        prompts_per_step=optional_whole(prompts_per_step, "--prompts-per-step"),
        rollouts_per_step=optional_whole(rollouts_per_step, "--rollouts-per-step"),
    )
    options = {
        "budget": budget, "objective": objective, "estimator": estimator, "kappa": parse_kappa(kappa),
        "max_dead": max_dead, "group_sizes": parse_group_sizes(group_sizes) if group_sizes else None,
        "cost": CostModel(prompt_rollouts=prompt_cost), "coherence": coherence, "level": level,
    }  # fmt: skip
    chosen = plan_group_size(fit_pass_rates(request.read(), population=pool), **options)  # type: ignore[arg-type]
    if json or format is OutputFormat.JSON:
        write_json("plan", _document(chosen, level))
    else:
        print_plan(chosen, level)


def parse_kappa(text: str) -> tuple[float, float]:
    """``10`` or ``1:300`` as a range.

    >>> parse_kappa("1:300"), parse_kappa("4.5")
    ((1.0, 300.0), (4.5, 4.5))
    """
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high) if colon else float(low)
    except ValueError:
        raise DomainError(f"--kappa must be a number or LO:HI, e.g. 10 or 1:300; got {text!r}.") from None


def _row(planned: PlannedDesign) -> dict[str, Any]:
    from grpo_plan.cli.numbers import batch_json, dead_json

    design = planned.design
    return {
        "group_size": design.group_size,
        "prompts_per_step": design.prompts_per_step,
        "steps": design.steps,
        "rollouts_per_step": design.rollouts_per_step,
        "dead": dead_json(planned.dead),
        "effective_batch": batch_json(planned.batch),
        "cost": {
            "of": "step" if design.steps is None else "run",
            "rollouts": design.rollouts_per_step * (design.steps or 1),
            "rollout_equivalents": planned.cost_rollouts,
        },
        "signal": {
            "progress_at_kappa_low": planned.progress_low,
            "progress_at_kappa_high": planned.progress_high,
            "worst_regret": planned.worst_regret,
            "noise_to_signal": list(planned.noise_to_signal) if planned.noise_to_signal else None,
        },
    }


def _document(chosen: Plan, level: float) -> dict[str, Any]:
    from grpo_plan.cli.fit import model_json, pilot_json

    kappa = chosen.kappa
    return {
        "objective": chosen.objective,
        "estimator": chosen.estimator,
        "recommended": _row(chosen.recommended),
        "least_regret_group_size": chosen.least_regret.design.group_size,
        "flat_range": list(chosen.flat_range),
        "kappa": {"low": kappa.low, "high": kappa.high, "measured": kappa.measured},
        "sensitivity": [
            {
                "kappa": a.kappa,
                "group_size": a.group_size,
                "flat_range": [a.flat_low, a.flat_high],
                "two_stage_group_size": a.two_stage,
            }
            for a in chosen.sensitivity
        ],
        "frontier": [_row(p) for p in chosen.frontier],
        "alternatives": [
            {
                "objective": a.objective,
                "comment": a.comment,
                **(_row(a.planned) if a.planned else {"group_size": None}),
            }
            for a in chosen.alternatives
        ],
        "binding_constraint": chosen.binding_constraint,
        "assumptions": list(chosen.assumptions),
        "trainer": None,
        "pilot": pilot_json(chosen.fit, level),
        "model": model_json(chosen.fit),
    }
