"""``grpo-plan formats``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from grpo_plan.cli.common import FormatOption, JsonOption, OutputFormat, console, say, write_json

if TYPE_CHECKING:
    from grpo_plan.readers.source import Format


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(formats)


def formats(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One format, in full.")] = None,
    format: FormatOption = OutputFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """List the tools whose pilots and logs are read.

    Of each it says how well it is known, and what it lacks.

    Example: grpo-plan formats verl-v1
    """
    from grpo_plan.readers.registry import format_named
    from grpo_plan.readers.registry import formats as all_formats

    one = None if name is None else format_named(name)
    chosen = all_formats() if one is None else (one,)
    if json or format is OutputFormat.JSON:
        write_json("formats", {"formats": [_document(f) for f in chosen]})
        return
    out = console()
    if one is not None:
        _print_one(one)
        return
    width = max(len(f.name) for f in chosen)
    out.print(f"{'name':{width}}  gives       evidence        tool")
    for f in chosen:
        out.print(f"{f.name:{width}}  {_gives(f):10}  {f.evidence.value:14}  {f.tool}", soft_wrap=True)
    out.print()
    say(
        out,
        "Any other table of rollouts or counts is read by its column names (format: table). Choose a format by hand "
        "with --format NAME. More on one: grpo-plan formats NAME.",
    )


def _gives(f: Format) -> str:
    return " ".join(word for word, there in (("pilot", f.pilot), ("run", f.run)) if there is not None)


def _print_one(f: Format) -> None:
    out = console()
    out.print(f"{f.name}: {f.tool}")
    for title, text in (
        ("Gives", _gives(f)),
        ("Files", f.files),
        ("Reads", f.reads),
        ("Known", f"{f.evidence.value}{f' ({f.versions})' if f.versions else ''}"),
        ("Limits", "; ".join(f.limits) or "none known"),
        ("Needs", f"the extra {f.extra}" if f.extra else "nothing further"),
    ):
        say(out, text, f"{title:7} ")


def _document(f: Format) -> dict[str, Any]:
    return {
        "name": f.name,
        "tool": f.tool,
        "gives": _gives(f).split(),
        "files": f.files,
        "reads": f.reads,
        "evidence": f.evidence.value,
        "versions": f.versions,
        "limits": list(f.limits),
        "extra": f.extra,
    }
