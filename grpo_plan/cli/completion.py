"""Completion in the shell: commands, options, values, and the columns of the file that is already typed."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_plan._suggest import not_one_of
from grpo_plan.errors import DomainError, GrpoPlanError

PROGRAM = "grpo-plan"
COMPLETE = "_GRPO_PLAN_COMPLETE"  # set by the completion scripts of the shells
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
MOST_COLUMNS = 500
Values = Callable[[Any], Iterable[str]]


def complete(build_app: Callable[[list[str]], Any]) -> int:
    """Answer the shell, which says in the environment what was typed; silent where nothing can be said."""
    try:
        import typer
        from typer import completion as shells

        shells.completion_init()  # type: ignore[attr-defined]
        command: Any = typer.main.get_command(build_app(_typed()))
        for name, sub in getattr(command, "commands", {}).items():
            _give_values(name, sub)
        command.main(args=[], prog_name=PROGRAM, complete_var=COMPLETE, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception:  # a shell that completes must never show a traceback
        return 1
    return 0


def _typed() -> list[str]:
    """The words after the program, as far as they were typed in full."""
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    try:
        return shlex.split(words)[1:]
    except ValueError:  # a quote that is still open
        return words.split()[1:]


def set_up(arguments: list[str]) -> None:
    """``--show-completion [SHELL]`` and ``--install-completion [SHELL]``.

    Raises:
        DomainError: No such shell, or it cannot be told which one is used.
    """
    from typer import completion as shells

    option, *named = arguments
    if len(named) > 1:
        raise DomainError(f"{option} takes one shell: {', '.join(SHELLS)}; got {' '.join(named)[:60]!r}.")
    shell = named[0].lower() if named else _own_shell()
    if shell not in SHELLS:
        if named:
            raise DomainError(not_one_of(f"the shell of {option}", shell, SHELLS))
        raise DomainError(f"{option}: cannot tell which shell this is. Name it, e.g. {option} bash.")
    if option == "--show-completion":
        script: Any = shells.get_completion_script  # type: ignore[attr-defined]
        sys.stdout.write(script(prog_name=PROGRAM, complete_var=COMPLETE, shell=shell) + "\n")
        return
    try:
        _, path = shells.install(  # type: ignore[attr-defined]
            shell=shell, prog_name=PROGRAM, complete_var=COMPLETE
        )
    except (OSError, ValueError) as error:
        raise DomainError(
            f"{option}: the file for {shell} cannot be written ({error}). Print it with --show-completion {shell}."
        ) from None
    sys.stdout.write(f"Completion for {shell} is in {path}; it works in the next terminal that you open.\n")


def _own_shell() -> str:
    try:
        import shellingham  # type: ignore[import-untyped]

        return str(shellingham.detect_shell()[0])
    except Exception:  # not in a shell, or in one that is not known
        return ""


# values -----------------------------------------------------------------------------------------------------------


def _give_values(command: str, sub: Any) -> None:
    """Give each option of a command the values that it may take."""
    for param in sub.params:
        name = max(param.opts, key=len).lstrip("-")
        found = VALUES.get(f"{command} {name}") or VALUES.get(name)
        if found is None and name.endswith("-column"):
            found = _columns
        if found is not None:
            param.shell_complete = _completer(found, listed=name in LISTED)


@dataclass(frozen=True, slots=True)
class Item:
    """One value, as the scripts of the shells take it."""

    value: str
    help: str | None = None
    type: str = "plain"


def _completer(values: Values, *, listed: bool) -> Callable[[Any, str], list[Item]]:
    """Those values that begin with what was typed; of a list, with what follows its last comma."""

    def found(ctx: Any, incomplete: str) -> list[Item]:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        try:
            return [Item(before + comma + v) for v in values(ctx) if v.startswith(last)]
        except (GrpoPlanError, OSError, ValueError):
            return []

    return found


def _fixed(*values: str) -> Values:
    return lambda _ctx: values


def _estimators(_ctx: Any) -> Iterable[str]:
    from grpo_plan.estimators.registry import ESTIMATORS

    return ESTIMATORS


def _trainers(_ctx: Any) -> Iterable[str]:
    from grpo_plan.trainers.registry import known_trainers

    return known_trainers()


def _preset_trainers(_ctx: Any) -> Iterable[str]:
    from grpo_plan.estimators.presets import preset_trainers

    return preset_trainers()


def _readers(_ctx: Any) -> Iterable[str]:
    from grpo_plan.readers.registry import TABLE, formats

    return (TABLE, *(f.name for f in formats()))


def _outputs(*outputs: str) -> Values:
    return lambda ctx: (*outputs, *_readers(ctx))


def _families(_ctx: Any) -> Iterable[str]:
    from grpo_plan.fitting.fit import FAMILIES

    return FAMILIES


def _objectives(_ctx: Any) -> Iterable[str]:
    from grpo_plan.planning.objectives import OBJECTIVES

    return OBJECTIVES


def _mix_objectives(_ctx: Any) -> Iterable[str]:
    from grpo_plan.planning.mix import OBJECTIVES

    return OBJECTIVES


def _temperature_objectives(_ctx: Any) -> Iterable[str]:
    from grpo_plan.planning.temperature import OBJECTIVES

    return OBJECTIVES


def _allocation_estimators(_ctx: Any) -> Iterable[str]:
    from grpo_plan.planning.allocation import ESTIMATORS

    return ESTIMATORS


def _aggregations(_ctx: Any) -> Iterable[str]:
    from grpo_plan.losses import aggregations

    return aggregations()


def _columns(_ctx: Any) -> list[str]:
    """Columns of the first file that is named so far, read from its first bytes."""
    from grpo_plan.readers.candidates import look
    from grpo_plan.readers.files import InputFile

    for word in _typed()[1:]:
        path = Path(word.partition("=")[2] or word)
        if path.is_file():
            return list(map(str, look(InputFile(name=path.name, path=path)).columns or ()))[:MOST_COLUMNS]
    return []


VALUES: dict[str, Values] = {
    "estimator": _estimators,
    "estimators": _estimators,
    "reference": _estimators,
    "allocate estimator": _allocation_estimators,
    "trainer": _trainers,
    "advantages trainer": _preset_trainers,
    "formats name": _readers,
    "optimizer": _fixed("sgd", "adam", "adam-norm"),
    "measure": _fixed("held_out", "train"),
    "format": _outputs("text", "json"),
    "diagnose format": _outputs("text", "json", "markdown"),
    "watch format": _outputs("text", "json"),
    "objective": _objectives,
    "mix objective": _mix_objectives,
    "temperature objective": _temperature_objectives,
    "family": _families,
    "aggregation": _aggregations,
    "population": _fixed("sample", "census"),
    "split": _fixed("train", "eval", "all"),
    "removed": _fixed("all-pass", "all-fail", "dead"),
    "kind": _fixed("both", "dead", "pass-rates"),
    "hint-when": _fixed("all-fail", "always"),
    "where": _columns,
    "reward": _columns,
}
"""What may stand after an option, by its name, or by the command and its name."""
LISTED = ("estimators",)
