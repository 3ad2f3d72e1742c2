"""``grpo-plan refill``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PopulationOption,
    count_option,
    optional_whole,
    parse_population,
    parse_whole,
    write_json,
)
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.waiting import waiting

Whole = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reads_pilot(refill))


def refill(
    request: PilotRequest,
    prompts_per_step: Annotated[str, typer.Option(metavar="N", help="Mixed groups that a step trains on.")],
    group_size: Annotated[int, count_option("Rollouts per prompt.", "G")],
    batch_multiplier: Annotated[
        float | None, typer.Option(help="Prompts of a generation batch over the prompts per step.")
    ] = None,
    gen_batch_size: Annotated[
        Whole, typer.Option(metavar="B", help="Prompts of a generation batch. Default: the prompts per step.")
    ] = None,
    max_rounds: Annotated[
        Whole, typer.Option(metavar="R", help="Generation batches after which the trainer gives up. Default: no cap.")
    ] = None,
    steps: Annotated[Whole, typer.Option(metavar="N", help="Optimiser steps of the run.")] = None,
    data_prompts: Annotated[
        Whole, typer.Option(metavar="P", help="Prompts of the data set, each drawn once a pass.")
    ] = None,
    max_group_size: Annotated[
        int | None,
        count_option("Most rollouts of a prompt in adaptive sampling. Default: 2 G."),
    ] = None,
    round_size: Annotated[int, count_option("Rollouts that adaptive sampling draws at a time.")] = 1,
    population: PopulationOption = "sample",
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Say what dynamic sampling (refill) will take.

    That is prompts, rounds, rollouts, and the chance to hit the cap.

    A step draws generation batches until it has enough mixed groups. Sizes that fill 95 % of the steps, or of the runs
    if --steps is given, are computed too.

    Example: grpo-plan refill pilot.jsonl --prompts-per-step 128 --group-size 8
    """
    from grpo_plan.batches import compare_sampling
    from grpo_plan.batches import refill as plan_refill
    from grpo_plan.cli.refill_text import print_refill
    from grpo_plan.documents.refill import refill_document, sizes_to_try

    pool = parse_population(population)
    options: dict[str, Any] = {
        "prompts_per_step": parse_whole(prompts_per_step, "--prompts-per-step"),
        "group_size": group_size,
        "max_rounds": optional_whole(max_rounds, "--max-rounds"),
        "steps": optional_whole(steps, "--steps"),
        "data_prompts": optional_whole(data_prompts, "--data-prompts"),
        "level": level,
    }
    size = optional_whole(gen_batch_size, "--gen-batch-size")
    fit = request.fit(request.read(), population=pool)
    with waiting("computing rounds"):
        plan = plan_refill(fit, batch_multiplier=batch_multiplier, gen_batch_size=size, **options)
        sizes = sizes_to_try(plan)
        others = [plan if b == plan.gen_batch_size else plan_refill(fit, gen_batch_size=b, **options) for b in sizes]
        costs = compare_sampling(fit, plan, max_group_size=max_group_size, round_size=round_size)
    if json or format is OutputFormat.JSON:
        write_json("refill", refill_document(fit, plan, others, costs, level))
    else:
        print_refill(fit, plan, others, costs, level)
