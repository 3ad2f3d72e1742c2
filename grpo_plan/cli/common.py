"""What the commands share: options that read a pilot, numbers as people write them, output."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from grpo_plan.errors import DomainError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


SCHEMA = 1
PAGE_WIDTH = 80


class OutputFormat(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


FormatOption = Annotated[OutputFormat, typer.Option("--format", help="Output: text or json.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
PopulationOption = Annotated[
    str, typer.Option(help="sample (prompts from a large pool), census (exactly these) or a number of prompts.")
]
LevelOption = Annotated[float, typer.Option(help="Confidence level of the intervals, in (0, 1).")]


def parse_group_sizes(text: str) -> list[int]:
    """``2,4,8`` as a list.

    >>> parse_group_sizes("2, 4,8")
    [2, 4, 8]
    """
    try:
        sizes = sorted({parse_whole(part, "") for part in text.split(",")})
    except DomainError:
        sizes = []
    if not sizes:
        raise DomainError(f"--group-sizes must be whole numbers separated by commas, e.g. 2,4,8; got {text!r}.")
    return sizes


def parse_whole(text: str, name: str) -> int:
    """A whole number as people write it: 2000000, 2e6, 2_000_000 or 2,000,000.

    >>> parse_whole("2e6", "--budget-rollouts"), parse_whole("2,000", "--steps")
    (2000000, 2000)
    """
    try:
        number = float(text.strip().replace(",", "").replace("_", ""))
        if number.is_integer():
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise DomainError(f"{name} must be a whole number, e.g. 2000000 or 2e6; got {text!r}.")


def whole(text: str | int) -> int:
    """Parser of an option: a whole number as people write it.

    >>> whole("1e3"), whole(8)
    (1000, 8)
    """
    if isinstance(text, int):
        return text
    try:
        return parse_whole(text, "it")
    except DomainError:
        raise typer.BadParameter(f"must be a whole number, e.g. 8 or 1e3; got {one_line(text)[:40]!r}.") from None


def count_option(help_text: str, metavar: str = "N") -> Any:
    """An option that takes a whole number."""
    return typer.Option(parser=whole, metavar=metavar, help=help_text)


def parse_population(text: str) -> str | int:
    """``sample``, ``census`` or a number of prompts.

    >>> parse_population("Census"), parse_population("5,000")
    ('census', 5000)
    """
    word = text.strip().lower()
    if word in ("sample", "census"):
        return word
    try:
        return parse_whole(text, "--population")
    except DomainError:
        raise DomainError(
            f"--population must be sample, census or a number of prompts, e.g. 5000; got {text!r}."
        ) from None


def optional_whole(text: str | None, name: str) -> int | None:
    """`parse_whole`, or None if nothing was given."""
    return None if text is None else parse_whole(text, name)


def tell(note: str) -> None:
    """A note on stderr."""
    sys.stderr.write(f"note: {one_line(note)}\n")


def percent(share: float) -> str:
    """A share as a percentage, with the digits it needs.

    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100.0 * share:.10g}%"


def json_text(command: str, body: dict[str, Any]) -> str:
    """One JSON object: schema, command, then the body; unknown is null, NaN is a bug and raises."""
    return json.dumps({"schema": SCHEMA, "command": command, **body}, indent=2, allow_nan=False) + "\n"


def write_json(command: str, body: dict[str, Any]) -> None:
    """`json_text` on stdout."""
    sys.stdout.write(json_text(command, body))


def console(file: TextIO | None = None) -> Console:
    """A console of 80 columns that prints text as it is: plain when piped or to a file, no markup read from names."""
    from rich.console import Console

    class Page(Console):
        """A console that leaves a closed pipe to the caller."""

        def on_broken_pipe(self) -> None:
            """Whoever read the answer has had enough: no error."""
            raise BrokenPipeError

    return Page(highlight=False, markup=False, emoji=False, width=PAGE_WIDTH, file=file)


def say(out: Console, text: str, indent: str = "") -> None:
    """A paragraph, broken at 80 columns; further lines start under the first word after ``indent``."""
    import textwrap

    lines = textwrap.wrap(
        text, PAGE_WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
    out.print("\n".join(lines), markup=False)


def print_table(out: Console, table: Table) -> None:
    """A table without the blanks that pad its last column; one too wide gets narrower gaps, then longer lines."""
    from rich.measure import Measurement

    wide = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    if wide > PAGE_WIDTH:
        table.padding = (0, 1, 0, 0)
        wide = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    width, out.width = out.width, max(PAGE_WIDTH, wide)
    with out.capture() as captured:
        out.print(table)
    out.width = width
    out.file.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")
