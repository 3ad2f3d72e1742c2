"""``grpo-plan plan``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from grpo_plan._suggest import not_one_of
from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PopulationOption,
    parse_group_sizes,
    parse_population,
    tell,
    write_json,
)
from grpo_plan.cli.cost_options import CostRequest, takes_costs
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.plan_options import check_plan_options, parse_kappa
from grpo_plan.cli.trainer_options import takes_trainer
from grpo_plan.cli.waiting import waiting
from grpo_plan.trainers.choice import TrainerRequest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(takes_costs(takes_trainer(plan))))


def plan(
    request: PilotRequest,
    costs: CostRequest,
    trainer: TrainerRequest,
    group_sizes: Annotated[str | None, typer.Option(metavar="G,G,...", help="Only these group sizes.")] = None,
    objective: Annotated[str, typer.Option(help="signal, max-dead, mixed-groups, coverage or rare-mode.")] = "signal",
    kappa: Annotated[
        str,
        typer.Option(metavar="K|LO:HI|FILE", help="Score noise over contrast: measured, a range, or a probe's file."),
    ] = "1:300",
    estimator: Annotated[
        str,
        typer.Option(
            metavar="NAME[:VALUE]",
            help="Advantage: grpo, grpo_sample, grpo_batch, dr_grpo, rloo, maxrl, dapo, gdpo, f_grpo:GAMMA, passk:K, "
            "opo, gpg, reinforce_plus_plus_baseline, reinforce_plus_plus, reinforce, sign, w_reinforce:WEIGHT, nsr, "
            "ngrpo or grpo_passk.",
        ),
    ] = "grpo",
    max_dead: Annotated[float, typer.Option(help="Limit of the max-dead objective.")] = 0.4,
    hard_below: Annotated[float, typer.Option(help="Pass rate of a hard prompt, for coverage.")] = 0.25,
    min_coverage: Annotated[float, typer.Option(help="Chance of a pass that coverage asks for.")] = 0.5,
    rare_share: Annotated[float, typer.Option(help="Share of right answers of a rare mode, for rare-mode.")] = 0.1,
    coherence: Annotated[float, typer.Option(help="Mean cosine of the gradients of two prompts.")] = 0.0,
    population: PopulationOption = "sample",
    details: Annotated[
        bool, typer.Option("--details", help="Say everything: all assumptions, what other objectives pick and why.")
    ] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it too: .png, .svg or .pdf.")] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Choose group size and prompts per step under a budget.

    Give all but one of budget, --steps, --prompts-per-step and --group-sizes: what is left out is solved for. A budget
    is in rollouts, tokens, GPU-hours or USD. With --trainer only designs that it accepts are planned, and the block to
    paste is printed.

    Example: grpo-plan plan pilot.jsonl --budget-rollouts 2e6 --steps 500 --trainer trl
    """
    from grpo_plan.cli.plan_json import plan_document
    from grpo_plan.cli.plot import picture_target
    from grpo_plan.estimators import parse_estimator
    from grpo_plan.planning.group_size import plan_group_size
    from grpo_plan.planning.objectives import OBJECTIVES

    target = None if plot is None else picture_target(plot, [request], "--plot")
    pool = parse_population(population)
    sizes = None if group_sizes is None else parse_group_sizes(group_sizes)
    check_plan_options(
        objective=objective, kappa=kappa, estimator=estimator, coherence=coherence, level=level, group_sizes=sizes,
        removed=request.missing.get("removed"),
        limits={
            "max_dead": max_dead, "hard_below": hard_below, "min_coverage": min_coverage, "rare_share": rare_share,
        },
    )  # fmt: skip
    refill = bool(costs.values.get("refill"))
    parse_estimator(estimator)  # a wrong name is told before a long read
    trainer.rules(costs.values.get("gpus"), estimator, refill=refill)
    if objective not in OBJECTIVES:
        raise DomainError(not_one_of("objective", objective, OBJECTIVES))
    kappas = parse_kappa(kappa)
    pilot = request.read()
    budget, model, notes = replace(costs, gpus_used=trainer.trainer is not None).build(pilot)
    for note in notes:
        tell(note)
    if request.options["stratum"] is not None:
        tell("strata are planned together; one at a time with --where, or a mix of them with grpo-plan mix.")
    fit = request.fit(pilot, population=pool)
    with waiting("comparing designs"):
        chosen = plan_group_size(
            fit,
            budget=budget,
            objective=objective,
            estimator=estimator,
            kappa=kappas,
            max_dead=max_dead,
            group_sizes=sizes,
            cost=model,
            coherence=coherence,
            level=level,
            rules=trainer.rules(model.gpus, estimator),
            hard_below=hard_below,
            min_coverage=min_coverage,
            rare_share=rare_share,
        )
    block, recipe = trainer.carry_out(chosen)
    if target is not None:
        from grpo_plan.plots.plan import draw_plan

        draw_plan(chosen, target)
        tell(f"{plot} written.")
    if json or format is OutputFormat.JSON:
        write_json("plan", plan_document(chosen, block, recipe))
    else:
        from grpo_plan.cli.plan_text import print_plan

        print_plan(chosen, block, details=details)
