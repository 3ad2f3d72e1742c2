"""``grpo-plan example``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from grpo_plan.cli.common import tell
from grpo_plan.errors import DomainError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(example)


def example(
    path: Annotated[str, typer.Argument(help="File to write, or - for stdout.")] = "pilot.jsonl",
    force: Annotated[bool, typer.Option(help="Overwrite a file that holds something else.")] = False,
) -> None:
    """Write the packaged example pilot.

    It holds 1,209 prompts x 8 rollouts, real counts.

    Example: grpo-plan example pilot.jsonl
    """
    from grpo_plan.example import example_lines

    text = "".join(f"{line}\n" for line in example_lines())
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
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DomainError(f"{path} cannot be written ({error.strerror}). Give another place.") from None
    tell(
        f"{path}: 1,209 prompts x 8 rollouts (One-Shot-RLVR, Qwen2.5-Math-1.5B, DeepScaleR subset, first visit; "
        "Apache-2.0)."
    )
