"""``grpo-plan mixed``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from grpo_plan.cli.common import FormatOption, JsonOption, OutputFormat, write_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(mixed)


def mixed(
    pass_rate: Annotated[float, typer.Option(help="Pass rate p, in [0, 1].")],
    group_size: Annotated[int, typer.Option(help="Rollouts per prompt, G.")],
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Print the chance that a group of one prompt is mixed.

    It is 1 - p^G - (1-p)^G.

    Example: grpo-plan mixed --pass-rate 0.2 --group-size 4
    """
    from grpo_plan.groups import (
        all_fail_probability,
        all_pass_probability,
        dead_probability,
        mixed_probability,
    )

    value = float(mixed_probability(pass_rate, group_size))
    if not json and format is OutputFormat.TEXT:
        sys.stdout.write(f"{value:.6g}\n")
        return
    parts = {
        "mixed": value,
        "dead": float(dead_probability(pass_rate, group_size)),
        "all_pass": float(all_pass_probability(pass_rate, group_size)),
        "all_fail": float(all_fail_probability(pass_rate, group_size)),
    }
    write_json("mixed", {"pass_rate": pass_rate, "group_size": group_size, **parts})
