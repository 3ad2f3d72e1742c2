"""Options of a command that plans for one trainer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from grpo_plan.cli.common import optional_whole
from grpo_plan.trainers.choice import TrainerRequest


def _trainer_options(
    *,
    trainer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Plan for this trainer and print its block, e.g. trl or verl.")
    ] = None,
    trainer_version: Annotated[
        str | None, typer.Option(metavar="V", help="Its version; else the newest known.")
    ] = None,
    micro_batch: Annotated[str | None, typer.Option(metavar="N", help="Rollouts per GPU in one pass.")] = None,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Sampling temperature of the block.")] = None,
    max_response_tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Longest response of the block, in tokens.")
    ] = None,
) -> TrainerRequest:
    return TrainerRequest(
        trainer=None if trainer is None else trainer.lower(),
        version=trainer_version,
        micro_batch=optional_whole(micro_batch, "--micro-batch"),
        temperature=temperature,
        max_response_tokens=optional_whole(max_response_tokens, "--max-response-tokens"),
    )


def trainer_option_names() -> tuple[str, ...]:
    """Names of the options of a trainer."""
    return tuple(inspect.signature(_trainer_options).parameters)


def takes_trainer(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a trainer; it receives them as the keyword argument ``trainer``."""
    shared = inspect.signature(_trainer_options, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters.values()

    @wraps(command)
    def run(*arguments: Any, **values: Any) -> None:
        request = _trainer_options(**{name: values.pop(name) for name in shared})
        command(*arguments, trainer=request, **values)

    parameters = [p for q in own for p in (shared.values() if q.name == "trainer" else [q])]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p if i == 0 else p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for i, p in enumerate(parameters)]
    )
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
