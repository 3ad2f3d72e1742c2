"""``grpo-plan emit``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import (
    FormatOption,
    JsonOption,
    OutputFormat,
    optional_whole,
    parse_whole,
    tell,
    write_json,
)
from grpo_plan.cli.files import write_text
from grpo_plan.errors import DomainError, PlanFormatError, one_line
from grpo_plan.trainers.registry import known_trainers

if TYPE_CHECKING:
    from grpo_plan.costs import Design
    from grpo_plan.trainers.base import Block, Refilling
    from grpo_plan.trainers.planned import PlannedRecipe

Whole = str | None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(emit)


def emit(
    plan: Annotated[
        str | None, typer.Argument(metavar="[PLAN]", help="JSON of grpo-plan plan --json, or - for stdin.")
    ] = None,
    trainer: Annotated[str | None, typer.Option(help=f"Default: the plan's. {', '.join(known_trainers())}.")] = None,
    trainer_version: Annotated[
        str | None,
        typer.Option(
            metavar="V", help="Version of the trainer, e.g. 1.16. Default: the plan's, else the newest known."
        ),
    ] = None,
    gpus: Annotated[
        Whole, typer.Option(metavar="N", help="Data-parallel GPUs that train. Default: the plan's, else 1.")
    ] = None,
    micro_batch: Annotated[
        Whole,
        typer.Option(metavar="N", help="Rollouts per GPU in one pass. Default: the plan's, else chosen, and said."),
    ] = None,
    group_size: Annotated[Whole, typer.Option(metavar="G", help="Group size, instead of a plan.")] = None,
    prompts_per_step: Annotated[Whole, typer.Option(metavar="N", help="Groups in a step, instead of a plan.")] = None,
    steps: Annotated[Whole, typer.Option(metavar="N", help="Optimiser steps, instead of a plan.")] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature. Default: the plan's, else the trainer's own.")
    ] = None,
    max_response_tokens: Annotated[
        Whole, typer.Option(metavar="N", help="Longest response. Default: the plan's, else the trainer's own.")
    ] = None,
    estimator: Annotated[str | None, typer.Option(help="Advantage. Default: the plan's, else grpo.")] = None,
    refill: Annotated[
        bool, typer.Option("--refill", help="Dynamic sampling: dead groups are replaced. Default: as the plan has it.")
    ] = False,
    batch_multiplier: Annotated[
        float | None,
        typer.Option(metavar="M", help="Prompts of a generation batch over the prompts per step. Default: the plan's."),
    ] = None,
    max_rounds: Annotated[
        Whole,
        typer.Option(metavar="N", help="Generation batches after which the trainer gives up. Default: the plan's."),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="File to write the block to.")] = None,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Print a plan as configuration of a trainer.

    It is checked against the trainer's rules.

    Example: grpo-plan emit --group-size 16 --prompts-per-step 64 --trainer trl
    """
    from grpo_plan.trainers.base import Hardware
    from grpo_plan.trainers.emit import emit as emit_block
    from grpo_plan.trainers.planned import recipe_of

    source = _plan(plan, group_size, prompts_per_step, steps)
    planned = recipe_of(source)
    trainer = planned.trainer if trainer is None else trainer
    if trainer is None:
        raise DomainError(f"emit needs --trainer, one of {', '.join(known_trainers())}, or a plan made with it.")
    rounds = optional_whole(max_rounds, "--max-rounds")
    refilling, notes = _refilling(planned, trainer, refill, batch_multiplier, rounds)
    block = emit_block(
        source,
        trainer=trainer,
        version=trainer_version,
        hardware=Hardware(
            gpus=(planned.gpus or 1) if gpus is None else parse_whole(gpus, "--gpus"),
            micro_batch=planned.micro_batch if micro_batch is None else parse_whole(micro_batch, "--micro-batch"),
        ),
        temperature=temperature,
        max_response_tokens=optional_whole(max_response_tokens, "--max-response-tokens"),
        refill=refilling,
        estimator=estimator,
    )
    block = replace(block, notes=(*notes, *block.notes))
    if json or format is OutputFormat.JSON:
        write_json("emit", block_json(block))
    elif output is None:
        sys.stdout.write(block.text)
    if output is not None:
        _write(block.text, output, plan)
    if not json and format is OutputFormat.TEXT:
        for check in block.checks:
            tell(f"checked: {check.detail}.")
        for note in block.notes:
            tell(note)


def block_json(block: Block) -> dict[str, Any]:
    """A block as JSON."""
    return {
        "trainer": block.trainer,
        "versions": block.versions,
        "language": block.language,
        "text": block.text,
        "settings": dict(block.settings),
        "checks": [{"rule": c.rule, "satisfied": c.satisfied, "detail": c.detail} for c in block.checks],
        "notes": list(block.notes),
    }


def _plan(plan: str | None, group_size: Whole, prompts_per_step: Whole, steps: Whole) -> dict[str, Any] | Design:
    from grpo_plan.costs import Design

    if plan is not None:
        if group_size is not None or prompts_per_step is not None or steps is not None:
            raise DomainError("emit takes a plan or --group-size and --prompts-per-step; got both. Leave one out.")
        return _read(plan)
    if group_size is None or prompts_per_step is None:
        raise DomainError(
            "emit needs a plan, or --group-size and --prompts-per-step. Write one with: grpo-plan plan ... --json."
        )
    return Design(
        group_size=parse_whole(group_size, "--group-size"),
        prompts_per_step=parse_whole(prompts_per_step, "--prompts-per-step"),
        steps=optional_whole(steps, "--steps"),
    )


def _read(source: str) -> dict[str, Any]:
    import json

    name = "stdin" if source == "-" else source
    if source != "-" and Path(source).exists() and not Path(source).is_file():
        raise PlanFormatError(f"{name} is no regular file. Give the output of: grpo-plan plan --json.")
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        document = json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise PlanFormatError(f"{name} cannot be read ({error.strerror or error}). Check the path.") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))
        raise PlanFormatError(f"{name} is no JSON ({reason}). Write it with: grpo-plan plan ... --json.") from None
    if not isinstance(document, dict):
        raise PlanFormatError(f"{name} holds no JSON object. Write it with: grpo-plan plan ... --json.")
    return document


def _refilling(
    planned: PlannedRecipe, trainer: str, refill: bool, multiplier: float | None, rounds: int | None
) -> tuple[Refilling | None, tuple[str, ...]]:
    """Dynamic sampling as asked for, else as planned; and what was left out of the plan's."""
    if refill or planned.refill:
        return planned.refilling(trainer, batch_multiplier=multiplier, max_rounds=rounds)
    for name, value in (("--batch-multiplier", multiplier), ("--max-rounds", rounds)):
        if value is not None:
            raise DomainError(f"{name} needs dynamic sampling; got {value:g} without it. Give --refill too.")
    return None, ()


def _write(text: str, output: str, plan: str | None) -> None:
    target = Path(output)
    if target.exists() and not target.is_file():
        raise DomainError(f"--output {output} is no regular file. Give another name.")
    if plan not in (None, "-") and target.exists() and target.samefile(str(plan)):
        raise DomainError(f"--output {output} is an input file, and inputs are never written to. Give another name.")
    write_text(target, text, output)
    tell(f"{output} written.")
