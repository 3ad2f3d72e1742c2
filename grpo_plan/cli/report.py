"""``grpo-plan report``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grpo_plan import __version__
from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    LevelOption,
    OutputFormat,
    PopulationOption,
    count_option,
    parse_group_sizes,
    parse_population,
    tell,
)
from grpo_plan.cli.cost_options import CostRequest, cost_option_names, takes_costs
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.cli.trainer_options import takes_trainer, trainer_option_names
from grpo_plan.cli.words import without_arguments
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.trainers.choice import TrainerRequest

Repeated = list[str] | None
SOURCES = ("PILOT_OR_RUN", "Pilot, log or folder of a run, or both.")
EXAMPLE_PROMPTS = 128
AGGREGATE_SIZES = (2, 4, 8, 16, 32, 64)
PLAIN_KAPPA = "1:300"
FOR_A_RUN = "--plan, --run, --config and --group-size are for a run; the sources hold none. Add its log."
PLAN_OPTIONS = (
    "group_sizes", "objective", "estimator", "max_dead", "hard_below", "min_coverage", "rare_share", "coherence",
    "population", "level",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    command = takes_costs(takes_trainer(report), example_prompts=EXAMPLE_PROMPTS)
    app.command()(reads_pilot(command, required=False, optional=SOURCES))


def report(
    request: PilotRequest,
    costs: CostRequest,
    trainer: TrainerRequest,
    context: typer.Context,
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Page to write: .html.")] = None,
    files: Annotated[
        Repeated, typer.Option("--pilot", metavar="T=FILE", help="Pilot of one temperature; give two or more.")
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="X,X,...", help="Pass thresholds to choose from; the first is planned."),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What was expected of the run: JSON of plan or fit."),
    ] = None,
    run: Annotated[Repeated, typer.Option(metavar="NAME", help="Run to read where its source holds several.")] = None,
    config: Annotated[
        Repeated, typer.Option(metavar="KEY=VALUE|FILE", help="Setting of the run that its log lacks; may be repeated.")
    ] = None,
    group_size: Annotated[
        int | None, count_option("Rollouts per prompt of the run, where its log does not say it.", "G")
    ] = None,
    group_sizes: Annotated[str | None, typer.Option(metavar="G,G,...", help="Only these group sizes.")] = None,
    objective: Annotated[str, typer.Option(help="signal, max-dead, mixed-groups, coverage or rare-mode.")] = "signal",
    kappa: Annotated[
        str,
        typer.Option(metavar="K|LO:HI|FILE", help="Score noise over contrast: measured, a range, or a probe's file."),
    ] = "1:300",
    estimator: Annotated[str, typer.Option(metavar="NAME[:VALUE]", help="Advantage, as for plan.")] = "grpo",
    max_dead: Annotated[float, typer.Option(help="Limit of the max-dead objective.")] = 0.4,
    hard_below: Annotated[float, typer.Option(help="Pass rate of a hard prompt, for coverage.")] = 0.25,
    min_coverage: Annotated[float, typer.Option(help="Chance of a pass that coverage asks for.")] = 0.5,
    rare_share: Annotated[float, typer.Option(help="Share of right answers of a rare mode, for rare-mode.")] = 0.1,
    coherence: Annotated[float, typer.Option(help="Mean cosine of the gradients of two prompts.")] = 0.0,
    population: PopulationOption = "sample",
    title: Annotated[str | None, typer.Option(help="Title of the page. Default: the names of the sources.")] = None,
    date: Annotated[
        str | None, typer.Option(metavar="ISO", help="Date that the report bears. Default: SOURCE_DATE_EPOCH, or now.")
    ] = None,
    level: LevelOption = 0.95,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Write everything about a pilot, a run or both as one page.

    The page needs no network: verdict, difficulty, dead groups, plan, refill, diagnosis, and sliders that recompute
    the plan. Several pilots are temperatures of the same prompts. What cannot be told is said with its reason.

    Example: grpo-plan report pilot.jsonl --budget-rollouts 2e6 --steps 500 -o report.html
    """
    from grpo_plan.cli.plan_options import by_option, check_plan_options
    from grpo_plan.cli.report_reading import NO_GROUPS, Reading
    from grpo_plan.cli.report_sources import sort_sources
    from grpo_plan.cli.report_target import Given, made_at, page_target, parse_thresholds
    from grpo_plan.cli.temperature import by_temperature
    from grpo_plan.report.build import build_report
    from grpo_plan.report.example_step import example_prompts
    from grpo_plan.report.request import ReportRequest, Words
    from grpo_plan.runs.expectation import Expectation
    from grpo_plan.runs.settings import DiagnosisSettings

    made, json = made_at(date), json or format is OutputFormat.JSON
    several = dict(by_temperature(files or [], "--pilot", "FILE"))
    if not request.sources and not several:
        raise DomainError("report needs a pilot or a run; got none. Give a file, e.g. grpo-plan report pilot.jsonl.")
    if plan == "":
        raise DomainError("--plan must name a file; got ''. Give the JSON of plan or fit, or leave it out.")
    if len(once := list(dict.fromkeys(request.sources))) < len(request.sources):
        tell("a source that is given twice is read once.")
        request = replace(request, sources=once)
    if json and output is not None:
        raise DomainError("--json prints the numbers and --output writes the page: give one of the two.")
    measured = None if kappa == PLAIN_KAPPA or not Path(kappa).is_file() else kappa
    known = [request, replace(request, sources=list(several.values()))]
    others = [name for name in (plan, measured, costs.calibrate) if name]
    target = None if json else page_target(output, known, others)
    sizes = None if group_sizes is None else tuple(parse_group_sizes(group_sizes))
    held = {"max_dead": max_dead, "hard_below": hard_below, "min_coverage": min_coverage, "rare_share": rare_share}
    kappas = check_plan_options(
        objective=objective, kappa=kappa, estimator=estimator, coherence=coherence, level=level, limits=held,
        group_sizes=sizes, removed=request.missing.get("removed"),
    )  # fmt: skip
    pool, limits = parse_population(population), parse_thresholds(thresholds)
    if limits:
        if request.options["pass_threshold"] is not None:
            raise DomainError("--thresholds and --pass-threshold say the same thing: give one of them.")
        request = replace(request, options={**request.options, "pass_threshold": limits[0]})
    rules = trainer.rules(costs.values.get("gpus"), estimator, refill=bool(costs.values.get("refill")))
    step = example_prompts(rules, sizes)
    if costs.assumed:
        costs = replace(costs, budget=replace(costs.budget, prompts_per_step=step))
    found = sort_sources(request.sources, request.options.get("format"))
    if several and found.pilots and not found.both:
        raise DomainError("--pilot T=FILE names the pilots; got another one without a temperature. Leave one out.")
    if len(several) == 1:
        raise DomainError("--pilot T=FILE names one temperature; give two or more, or the file alone.")
    for_run = plan is not None or run or config or group_size is not None
    undecided = not found.run and not several and len(request.sources) == 1
    if for_run and not found.run and not undecided:
        raise DomainError(FOR_A_RUN)
    expectation = None if plan is None or not found.run else Expectation.load(plan)
    told = Given(context)
    reading = Reading(request=request, given=told, found=found, files=several, thresholds=limits)
    try:
        settings = DiagnosisSettings(
            group_size=group_size, level=level, gpus=costs.values.get("gpus"),
            usd_per_gpu_hour=costs.values.get("usd_per_gpu_hour"),
        )  # fmt: skip
    except DomainError as error:
        raise DomainError(by_option(str(error))) from None
    log = reading.run(run, config, group_size, settings) if found.run else None
    try:
        pilot, absent = reading.pilots(log)
    except PilotFormatError:
        if not undecided or (log := reading.run_instead(run, config, group_size, settings)) is None:
            raise
        pilot, absent = None, {"pilot": NO_GROUPS}
    if for_run and log is None:
        raise DomainError(FOR_A_RUN)
    if plan is not None and expectation is None:
        expectation = Expectation.load(plan)
    found = reading.found
    aggregates = () if pilot is not None else AGGREGATE_SIZES
    costs = replace(costs, gpus_used=trainer.trainer is not None)
    if reading.main is not None:
        for note in costs.build(reading.main)[2]:
            tell(note)
    words = Words(
        pilot=reading.main_words,
        several=reading.several_words,
        run=reading.run_words(plan, aggregates),
        budget=(*(("--prompts-per-step", str(step)) if costs.assumed else ()), *told.words(cost_option_names())),
        plan=told.words(PLAN_OPTIONS),
        kappa=kappa,
        trainer=told.words(trainer_option_names()),
        report=("report", *request.sources, *told.words([p.name for p in context.command.params if p.name != "json"])),
    )
    made_report = build_report(
        pilot,
        log,
        ReportRequest(
            main=reading.main, budget=costs.budget, cost_of=lambda one: costs.build(one)[1], objective=objective,
            estimator=estimator, kappa=kappas, group_sizes=sizes, coherence=coherence, level=level,
            population=pool, missing=request.missing, trainer=trainer, limits=held,
            expectation=expectation, settings=settings, aggregates=aggregates,
            threshold=request.options["pass_threshold"], thresholds=reading.other_thresholds(), words=words,
            sources=reading.sources(plan, measured), version=__version__, made=made, title=title,
            example=costs.assumed, own_pilot=found.both, absent=absent,
        ),
    )  # fmt: skip
    if (lacks := made_report.missing.get("plan")) is not None:
        tell(f"{'the answer' if target is None else 'the page'} holds no plan. {without_arguments(lacks)}")
    if target is None:
        sys.stdout.write(f"{made_report.text()}\n")
        return
    existed = target.exists()
    try:
        made_report.write(target)
    except OSError as error:
        raise DomainError(
            f"--output {target} cannot be written ({error.strerror or error}). Give another place."
        ) from None
    tell(f"{target} {'replaced' if existed else 'written'}.")
