"""A page of an answer in parts that can be printed as text or written as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from grpo_plan.cli.common import console, print_table, say, text_width, wrapped
from grpo_plan.errors import one_line

if TYPE_CHECKING:
    from rich.console import Console

LABEL = 9
GAP = 2  # blanks between the columns of a table, and before it
NESTED = 4  # a line indented more than this belongs to a point of a list
MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*[|"} | {"<": "&lt;", ">": "&gt;", "#": "\\#"})
CELL = str.maketrans({c: f"\\{c}" for c in "\\`*|"} | {"<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Line:
    """A label and what stands beside it."""

    label: str
    text: str
    strong: bool = False
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section, or of a part of one."""

    text: str
    part: bool = False


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences."""

    text: str
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Bullet:
    """One of several points; with a mark of its own, or a dash."""

    text: str
    mark: str = "-"
    indent: int = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Lines as they are."""

    lines: Sequence[str]


Part = Line | Heading | Paragraph | Bullet | Grid | Verbatim


def print_page(parts: Sequence[Part], file: Any = None) -> None:
    """As text; plain where it does not go to a terminal."""
    out = console(file)
    for i, part in enumerate(parts):
        _print(out, part, first=i == 0)


def page_text(parts: Sequence[Part]) -> str:
    """The text of `print_page`."""
    held = StringIO()
    print_page(parts, held)
    return held.getvalue()


def _print(out: Console, part: Part, *, first: bool) -> None:
    if isinstance(part, Heading):
        out.print(f"{'' if first else chr(10)}{one_line(part.text)}", style="bold", soft_wrap=True)
    elif isinstance(part, Line):
        indent = f"{'':{part.indent}}{one_line(part.label):{LABEL}}"
        text = wrapped(one_line(part.text), text_width(out), indent)
        out.print(text or indent.rstrip(), style="bold" if part.strong else None, soft_wrap=True)
    elif isinstance(part, Paragraph):
        say(out, one_line(part.text), " " * part.indent)
    elif isinstance(part, Bullet):
        say(out, one_line(part.text), f"{'':{part.indent}}{part.mark} ")
    elif isinstance(part, Verbatim):
        out.print("\n".join(f"  {line}" for line in part.lines), soft_wrap=True)
    else:
        _print_grid(out, part)


def _print_grid(out: Console, grid: Grid) -> None:
    """As a table; columns that do not fit beside the first one follow below, with the first one again."""
    from rich.table import Table

    for columns in _chunks(grid, out.width):
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column("")
        for i in columns:
            justify: Literal["left", "right"] = "right" if i in grid.right else "left"
            table.add_column(one_line(grid.columns[i]), justify=justify, no_wrap=True)
        for row in grid.rows:
            table.add_row("", *(one_line(row[i]) for i in columns))
        print_table(out, table)


def _chunks(grid: Grid, width: int) -> list[list[int]]:
    """Columns that stand side by side: the first with as many others as a page holds."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(one_line(row[i])) for row in (grid.columns, *grid.rows)) + GAP for i in range(len(grid.columns))
    ]
    room = width - GAP - widths[0]  # beside the blank before a table and its first column
    chunks: list[list[int]] = [[0]]
    used = 0
    for i, wide in enumerate(widths[1:], 1):
        if used + wide - GAP > room and len(chunks[-1]) > 1:
            chunks.append([0])
            used = 0
        chunks[-1].append(i)
        used += wide
    return chunks


def page_markdown(parts: Sequence[Part], title: str) -> str:
    """As Markdown for a ticket."""
    lines = [f"### {one_line(title).translate(MARKDOWN)}", ""]
    listed = False
    for part in parts:
        is_list = isinstance(part, Bullet) or (isinstance(part, Line) and not part.strong)
        if listed and not is_list:
            lines.append("")
        listed = is_list
        lines += _markdown(part)
    return "\n".join(lines).rstrip() + "\n"


def _markdown(part: Part) -> list[str]:
    if isinstance(part, Heading):
        return [f"{'#####' if part.part else '####'} {one_line(part.text).translate(MARKDOWN)}", ""]
    if isinstance(part, Verbatim):
        return ["```text", *part.lines, "```", ""]
    if isinstance(part, Grid):
        names = [one_line(name).translate(CELL) for name in part.columns]
        rule = ["---:" if i in part.right else "---" for i in range(len(names))]
        body = [[_cell(cell) for cell in row] for row in part.rows]
        return [*(f"| {' | '.join(row)} |" for row in (names, rule, *body)), ""]
    text = one_line(part.text).translate(MARKDOWN)
    if isinstance(part, Paragraph):
        return [text, ""]
    if isinstance(part, Bullet):
        return [f"{part.mark} {text}"]
    label = one_line(part.label).strip().translate(MARKDOWN)
    if part.strong:
        return [f"**{label}: {text}**", ""]
    return [f"{'   ' if part.indent > NESTED else ''}- **{label}:** {text}"]


def _cell(text: str) -> str:
    """A cell of a table; blanks before its text stay where it is rendered."""
    line = one_line(text).translate(CELL)
    return "&nbsp;" * (len(line) - len(line.lstrip())) + line.lstrip()
