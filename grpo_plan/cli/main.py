"""The commands by name, each loaded when it is called; every error is one line."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from grpo_plan import __version__
from grpo_plan.errors import GrpoPlanError, one_line

COMMANDS = tuple(
    "example mixed formats fit plan refill temperature mix allocate emit pilot-size passk remedies advantages "
    "losses simulate plot diagnose watch report".split()
)
BAD_DATA = 1
# typer does not export the base of its usage errors; this is it, in every version.
ClickError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main() -> None:
    """Run the command line and exit: 0 answer, 1 bad data, 2 usage, 3 no feasible plan, 4 a finding."""
    if sys.stdout is None or sys.stderr is None:
        sys.exit(BAD_DATA)  # nowhere to answer
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    arguments = sys.argv[1:] or ["--help"]
    try:
        code = build_app(arguments)(args=arguments, standalone_mode=False)
        sys.stdout.flush()
    except GrpoPlanError as error:
        _fail(str(error), error.exit_code)
    except ClickError as error:
        command = arguments[0] if arguments[0] in COMMANDS else ""
        _fail(f"{error.format_message()} See: grpo-plan {command} --help".replace("  ", " "), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the answer has had enough
        sys.exit(0)
    except OSError as error:
        _fail(f"the answer cannot be written ({error.strerror or error}). Check the disk or the pipe.", BAD_DATA)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"grpo-plan: {one_line(message)}\n")
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.exit(code)


def build_app(arguments: list[str]) -> typer.Typer:
    """The application; with a known command in front, only that command is loaded, which halves the start-up time."""
    app = typer.Typer(
        name="grpo-plan",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    first = arguments[0] if arguments else ""
    for name in (first,) if first in COMMANDS else COMMANDS:
        import_module(f"grpo_plan.cli.{name.replace('-', '_')}").register(app)
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
