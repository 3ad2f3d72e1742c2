"""``grpo-plan example``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from grpo_plan.cli.common import tell
from grpo_plan.cli.files import write_text
from grpo_plan.errors import DomainError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(example)


def example(
    path: Annotated[
        str | None, typer.Argument(help="File to write, or - for stdout; pilot.jsonl or run.jsonl if not given.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite a file that holds something else.")] = False,
    run: Annotated[bool, typer.Option("--run", help="Write the log of the run that followed the pilot.")] = False,
) -> None:
    """Write the packaged example: a pilot, or with --run its run.

    The pilot holds 1,209 prompts x 8 rollouts, the log 44 passes over these prompts; real counts.

    Example: grpo-plan example run.jsonl --run
    """
    from grpo_plan.example import example_lines, example_run_lines

    text = "".join(f"{line}\n" for line in (example_run_lines() if run else example_lines()))
    path = path or ("run.jsonl" if run else "pilot.jsonl")
    if path == "-":
        sys.stdout.write(text)
        return
    target = Path(path)
    if target.is_dir():
        raise DomainError(f"{path} is a folder. Give a file name, e.g. {target / 'pilot.jsonl'}.")
    if target.exists() and not target.is_file():
        raise DomainError(f"{path} is no regular file. Give another name, or - for stdout.")
    if target.exists() and not force and target.read_bytes() != text.encode():
        raise DomainError(f"{path} exists and holds something else. Give another name, or overwrite with --force.")
    write_text(target, text, path, "")
    what = "44 passes over 1,209 prompts, groups of 8" if run else "1,209 prompts x 8 rollouts"
    where = "the run that followed" if run else "first visit"
    tell(f"{path}: {what} (One-Shot-RLVR, Qwen2.5-Math-1.5B, DeepScaleR subset, {where}; Apache-2.0).")
