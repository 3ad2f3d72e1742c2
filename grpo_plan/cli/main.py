"""The commands by name, each loaded when it is called; every error is one line."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from grpo_plan import __version__
from grpo_plan._suggest import did_you_mean
from grpo_plan.cli.help import Command, Group
from grpo_plan.cli.terminal import colours
from grpo_plan.cli.words import other_word, without_arguments
from grpo_plan.errors import GrpoPlanError, one_line

COMMANDS = tuple(
    "example mixed formats fit plan refill temperature mix allocate emit pilot-size passk remedies advantages "
    "losses simulate plot diagnose watch report".split()
)
BAD_DATA = 1
PROGRAM = "grpo-plan"
COMPLETE = "_GRPO_PLAN_COMPLETE"  # set by the completion scripts of the shells
# typer does not export the base of its usage errors; this is it, in every version.
ClickError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main() -> None:
    """Run the command line and exit: 0 answer, 1 bad data, 2 usage, 3 no feasible plan, 4 a finding."""
    if sys.stderr is None:
        sys.exit(BAD_DATA)  # nowhere to say what is wrong
    if sys.stdout is None:
        _fail("the answer cannot be written: the standard output is closed. Open it, or send it to a file.", BAD_DATA)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if COMPLETE in os.environ:
        from grpo_plan.cli.completion import complete

        sys.exit(complete(build_app))
    arguments = sys.argv[1:] or ["--help"]
    try:
        if arguments[0] in ("--show-completion", "--install-completion"):
            from grpo_plan.cli.completion import set_up

            set_up(arguments)
            sys.exit(0)
        code = build_app(arguments)(args=arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except GrpoPlanError as error:
        _fail(without_arguments(str(error)), error.exit_code)
    except ClickError as error:
        command = arguments[0] if arguments[0] in COMMANDS else ""
        _fail(f"{_usage_message(error)} See: grpo-plan {command} --help".replace("  ", " "), error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read the answer has had enough
        sys.exit(0)
    except OSError as error:
        _fail(f"the answer cannot be written ({error.strerror or error}). Check the disk or the pipe.", BAD_DATA)
    sys.exit(code if isinstance(code, int) else 0)


def _usage_message(error: Any) -> str:
    """What is wrong with the options; a mistyped name or value is met with the one that may be meant."""
    message = " ".join(str(error.format_message()).split()).replace("Value error, ", "")
    option, param = getattr(error, "option_name", None), getattr(error, "param", None)
    if option is not None and hasattr(error, "possibilities") and error.ctx is not None:
        known = [name for p in error.ctx.command.params for name in p.opts if name.startswith("--")]
        return f"No such option: {option}.{_meant_option(option, known)}"
    choices = getattr(getattr(param, "type_descriptor", None), "choices", None)
    if choices and (given := re.search(r"'([^']*)' is not one of", message)):
        message += did_you_mean(given[1], [getattr(c, "value", c) for c in choices])
    return message


def _meant_option(option: str, known: list[str]) -> str:
    """The option that has this name elsewhere, those that begin with it, or the one it was mistyped for."""
    meant = other_word(option)
    for name in (meant, f"{meant}s"):
        if meant and name in known:
            return f" Here it is {name}."
    longer = [name for name in known if name.startswith(f"{option}-")]
    if len(longer) > 1:
        return f" Did you mean one of {', '.join(longer)}?"
    return did_you_mean(option, known)


def _fail(message: str, code: int) -> None:
    prefix = "grpo-plan:" if not colours(sys.stderr) else "\x1b[31mgrpo-plan:\x1b[0m"
    sys.stderr.write(f"{prefix} {one_line(message)}\n")
    if sys.stdout is not None:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    sys.exit(code)


def build_app(arguments: list[str]) -> typer.Typer:
    """The application; with a known command in front, only that command is loaded, which halves the start-up time."""
    app = typer.Typer(
        name=PROGRAM,
        cls=Group,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"], "color": colours(sys.stdout)},
    )
    app.callback()(_root)
    first = arguments[0] if arguments else ""
    for name in (first,) if first in COMMANDS else COMMANDS:
        import_module(f"grpo_plan.cli.{name.replace('-', '_')}").register(app)
    for command in app.registered_commands:
        command.cls = Command
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"grpo-plan {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion", help="Print the completion script of your shell, or of the shell named after it."
        ),
    ] = False,
    install_completion: Annotated[
        bool, typer.Option("--install-completion", help="Install it: commands, options, values and columns.")
    ] = False,
) -> None:
    """Plan a GRPO / RLVR run: what fraction of its groups will be dead, and what to change.

    Start with: grpo-plan example pilot.jsonl

    Example: grpo-plan plan pilot.jsonl --budget-rollouts 2e6 --steps 500
    """
