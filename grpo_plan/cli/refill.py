"""``grpo-plan refill``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_plan.batches import CountSummary, Refill, RefillAt, SamplingCost
    from grpo_plan.batches.stopping import Bounded
    from grpo_plan.fitting.result import PassRateFit

Whole = str | None
TRIED = (0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0)  # generation batches shown, over the prompts per step


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
        sizes = sorted(_tried(plan) | {plan.gen_batch_size})
        others = [plan if b == plan.gen_batch_size else plan_refill(fit, gen_batch_size=b, **options) for b in sizes]
        costs = compare_sampling(fit, plan, max_group_size=max_group_size, round_size=round_size)
    if json or format is OutputFormat.JSON:
        write_json("refill", _document(fit, plan, others, costs, level))
    else:
        print_refill(fit, plan, others, costs, level)


def _tried(plan: Refill) -> set[int]:
    from grpo_plan.batches.refilling import MAX_GEN_BATCH

    n = plan.prompts_per_step
    sure = plan.at_value if plan.at_high is None else plan.at_high
    one_round = sure.one_round_gen_batch_size
    most = min(MAX_GEN_BATCH, max(one_round, plan.data_prompts or 0))
    return {size for size in {round(share * n) for share in TRIED} | {one_round} if 1 <= size <= most}


def _document(
    fit: PassRateFit, plan: Refill, others: list[Refill], costs: tuple[SamplingCost, ...], level: float
) -> dict[str, Any]:
    from grpo_plan.batches.refilling import batch_multiplier_for
    from grpo_plan.cli.fit import model_json, pilot_json
    from grpo_plan.cli.numbers import dead_json
    from grpo_plan.cli.refill_advice import assumptions, better_option, trainer_settings

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
        "surplus_mixed_groups": {"value": plan.at_value.surplus_mixed_groups, "low": low, "high": high},
    }


def _spread(plan: Refill, of: Callable[[RefillAt], CountSummary]) -> dict[str, Any]:
    """A count that varies from step to step, with the limits of its mean and of its 95 % quantile."""
    from grpo_plan.cli.numbers import summary_json

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
