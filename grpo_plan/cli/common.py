"""What the commands share: options that read a pilot, numbers as people write them, output."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TextIO

import typer

from grpo_plan.errors import DomainError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


SCHEMA = 1
PAGE_WIDTH = 80  # columns of an answer in a file
TOGETHER = re.compile(r"\[[-+\d.,e%x ]{3,40}\]|\b(?:G|D|n|k|p|kappa) = [\d.]+")  # an interval, a value with its name
HELD, FILLER = "\x00", "\x01"  # a blank that is no place to break a line, and the second column of a wide sign
STATUS_PATTERNS = (
    r"(?P<bad>\bCRITICAL\b(?: +[A-Z_]+)?)",
    r"(?P<doubt>\bWARNING\b(?: +[A-Z_]+)?|\b(EXTRAPOLATED|BEYOND_REACH)\b|(?<=Status  )(?!OK\b)[A-Z_]{3,}(?=:))",
    r"(?P<good>(?<=Status  )OK\b)",
)
STATUS_STYLES = {"bad": "bold red", "doubt": "yellow", "good": "green"}


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


def per_cent(share: float, sign: str = " %") -> str:
    """A share in whole per cent, for a sentence; with a decimal near 0 and 1.

    >>> per_cent(0.496), per_cent(0.004), per_cent(0.9995), per_cent(0.0), per_cent(0.52, "")
    ('50 %', '0.4 %', '99.9 %', '0 %', '52')
    """
    value = 100.0 * share
    if 0.0 < value < 1.0 or 99.0 < value < 100.0:
        return f"{min(max(value, 0.1), 99.9):.1f}{sign}"
    return f"{value:.0f}{sign}"


def json_text(command: str, body: dict[str, Any]) -> str:
    """One JSON object: schema, command, then the body; unknown is null, NaN is a bug and raises."""
    return json.dumps({"schema": SCHEMA, "command": command, **body}, indent=2, allow_nan=False) + "\n"


def write_json(command: str, body: dict[str, Any]) -> None:
    """`json_text` on stdout."""
    sys.stdout.write(json_text(command, body))


def console(file: TextIO | None = None) -> Console:
    """A console that prints text as it is, no markup read from names: on stdout, or to a file, which is plain.

    It is as wide as the terminal or COLUMNS, and 80 columns where the answer goes elsewhere. On a terminal the names of
    statuses and findings are coloured; nothing is said by colour alone.
    """
    from rich.console import Console
    from rich.highlighter import RegexHighlighter
    from rich.theme import Theme

    from grpo_plan.cli.terminal import colours, page_width

    class Statuses(RegexHighlighter):
        """Names in capitals, by how grave they are."""

        highlights: ClassVar[list[str]] = list(STATUS_PATTERNS)

    class Page(Console):
        """A console that leaves a closed pipe to the caller."""

        def on_broken_pipe(self) -> None:
            """Whoever read the answer has had enough: no error."""
            raise BrokenPipeError

    colour = file is None and colours(sys.stdout)
    return Page(
        highlight=colour,
        highlighter=Statuses(),
        theme=Theme(STATUS_STYLES),
        markup=False,
        emoji=False,
        width=page_width() if file is None else PAGE_WIDTH,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        file=file,
    )


def text_width(out: Console) -> int:
    """Columns of a paragraph: those of the page, but no line is longer than can be read with ease."""
    from grpo_plan.cli.terminal import PROSE_WIDTH

    return min(out.width, PROSE_WIDTH)


def say(out: Console, text: str, indent: str = "") -> None:
    """A paragraph, broken at the width of the page; further lines start under the first word after ``indent``."""
    out.print(wrapped(text, text_width(out), indent), markup=False, soft_wrap=True)


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Lines of a paragraph; no name, number or interval is broken, and signs of two columns count as two.

    >>> print(wrapped("the groups are dead: 0.44 [0.41, 0.47] of them", 34, "Dead  "))
    Dead  the groups are dead: 0.44
          [0.41, 0.47] of them
    """
    import textwrap

    text = TOGETHER.sub(lambda match: match.group().replace(" ", HELD), text)
    if not text.isascii():
        from rich.cells import cell_len

        text = "".join(sign + FILLER * (cell_len(sign) - 1) for sign in text)
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=" " * min(len(indent), width // 4),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines).replace(HELD, " ").replace(FILLER, "")


def print_table(out: Console, table: Table) -> None:
    """A table without the blanks that pad its last column.

    One too wide gets narrower gaps; if that does not help, columns that do not fit follow below, beside the first one.
    """
    if _width(out, table) > out.width:
        table.padding = (0, 1, 0, 0)
    for i, part in enumerate(_parts(out, table)):
        if i:
            out.file.write("\n")
        width, out.width = out.width, max(out.width, _width(out, part))
        with out.capture() as captured:
            out.print(part)
        out.width = width
        out.file.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def _width(out: Console, table: Table) -> int:
    from rich.measure import Measurement

    return Measurement.get(out, out.options.update(max_width=10_000), table).maximum


def _parts(out: Console, table: Table) -> list[Table]:
    """The table, or tables of some of its columns, each with the first one."""
    if _width(out, table) <= out.width or len(table.columns) < 3:
        return [table]
    parts: list[list[int]] = [[0]]
    for i in range(1, len(table.columns)):
        if len(parts[-1]) > 1 and _width(out, _of_columns(table, [*parts[-1], i])) > out.width:
            parts.append([0])
        parts[-1].append(i)
    return [_of_columns(table, part) for part in parts]


def _of_columns(table: Table, columns: list[int]) -> Table:
    from rich.table import Table

    part = Table(box=None, pad_edge=False, padding=table.padding)
    for i in columns:
        c = table.columns[i]
        part.add_column(c.header, justify=c.justify, no_wrap=c.no_wrap, overflow=c.overflow, max_width=c.max_width)
    cells = [list(table.columns[i].cells) for i in columns]
    for j, row in enumerate(table.rows):
        part.add_row(*(column[j] for column in cells), style=row.style)
    return part


def cut(name: str, columns: int) -> str:
    """A name of a file or a stratum in so many columns of a terminal; its end is left out where it is longer.

    >>> cut("a very long name of a data set", 18), cut("数学の問題", 8)
    ('a very long nam...', '数学...')
    """
    from rich.cells import cell_len

    name = one_line(name)
    if cell_len(name) <= columns:
        return name
    while name and cell_len(name) > columns - 3:
        name = name[:-1]
    return f"{name}..."


def padded(name: str, columns: int) -> str:
    """A name and the blanks that fill its columns; signs of two columns count as two.

    >>> padded("数学", 6) + "|"
    '数学  |'
    """
    from rich.cells import cell_len

    return name + " " * max(columns - cell_len(name), 0)
