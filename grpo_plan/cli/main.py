"""Entry point: the commands by name, each loaded when it is called; errors as one line."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Annotated

import typer

from grpo_plan import __version__
from grpo_plan.errors import GrpoPlanError

COMMANDS = ("example", "mixed", "fit", "plan", "plot")
INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit: 0 answer, 1 bad data, 2 usage, 3 no feasible plan."""
    signal.signal(signal.SIGINT, _interrupted)
    try:
        build_app(sys.argv[1:])()
    except GrpoPlanError as error:
        sys.stderr.write(f"grpo-plan: {error}\n")
        sys.exit(error.exit_code)


def build_app(arguments: list[str]) -> typer.Typer:
    """The application; with a known command in front, only that command is loaded, which halves the start-up time."""
    app = typer.Typer(
        name="grpo-plan", rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
        no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback()(_root)
    first = arguments[0] if arguments else ""
    for name in (first,) if first in COMMANDS else COMMANDS:
        import_module(f"grpo_plan.cli.{name}").register(app)
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"grpo-plan {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Plan a GRPO / RLVR run: what fraction of its groups will be dead, and what to change.

    Start with: grpo-plan example pilot.jsonl, then grpo-plan plan pilot.jsonl --budget-rollouts 2e6 --steps 500
    """


def _interrupted(_signum: int, _frame: FrameType | None) -> None:
    sys.stderr.write("grpo-plan: interrupted.\n")
    sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
