"""Results in a notebook: the answer and a small table, as HTML and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from grpo_plan.shown.fields import Field, View, plain
from grpo_plan.shown.registry import view_of

MOST_ROWS = 12
LONGEST_CELL = 400  # characters
UNKNOWN = "unknown"

# Colours are those of the notebook; only lines are grey, at a strength that shows on light and on dark. The classes
# keep a notebook from typesetting the dollar signs of user text.
BOX = 'class="grpo-plan tex2jax_ignore mathjax_ignore" style="color:inherit;max-width:100%;overflow-x:auto"'
TABLE = (
    "border-collapse:collapse;color:inherit;background:transparent;font-size:0.95em;margin:0.4em 0;"
    "font-variant-numeric:tabular-nums"
)
ROW = "border-bottom:1px solid rgba(128,128,128,0.45);background:transparent"
CELL = "padding:0.2em 0.7em;vertical-align:top;background:transparent;color:inherit"


def headline(result: Any) -> str:
    """The answer in words."""
    return view_of(result).headline(result)


@dataclass(frozen=True, slots=True)
class Table:
    """A table in words.

    Attributes:
        heads: One a column.
        right: Which columns hold numbers.
        cells: One list a row.
        count: Rows that there are.
        unknown: Heads of columns without a value in any row that is shown; they are not among ``heads``.
    """

    heads: list[str]
    right: list[bool]
    cells: list[list[str]]
    count: int
    unknown: list[str]


def table_of(result: Any, view: View) -> Table:
    """The table of a result, as far as a page shows it."""
    fields = [field for field in view.fields_of(result) if field.title]
    marks: list[bool] = []
    if view.rows is None:
        columns = [field.get(result) for field in fields]
        count = max((len(values) for group in columns for values in group if values is not None), default=0)
        chosen = _chosen(result, view, count)
        values = [[[None if v is None else v[i] for v in group] for group in columns] for i in chosen]
    else:
        rows = list(view.rows(result))
        count, chosen = len(rows), _chosen(result, view, len(rows))
        values = [[list(field.get(rows[i])) for field in fields] for i in chosen]
        marks = [view.marked is not None and view.marked(rows[i]) for i in chosen]
    cells = [[_cell(field, v) for field, v in zip(fields, row, strict=True)] for row in values]
    for row, mark in zip(cells, marks, strict=False):
        row[0] = f"> {row[0]}" if mark else row[0]
    titles = {} if view.titles is None else view.titles(result)
    kept = [j for j in range(len(fields)) if any(row[j] != UNKNOWN for row in cells)]
    heads = [titles.get(field.title, field.title) for field in fields]
    return Table(
        heads=[heads[j] for j in kept],
        right=[fields[j].right for j in kept],
        cells=[[row[j] for j in kept] for row in cells] if kept else [],
        count=count,
        unknown=[head for j, head in enumerate(heads) if j not in kept] if cells else [],
    )


def _chosen(result: Any, view: View, count: int) -> Sequence[int]:
    if count <= MOST_ROWS:
        return range(count)
    return range(MOST_ROWS) if view.pick is None else view.pick(result)


def _cell(field: Field, values: Sequence[Any]) -> str:
    shown = field.cell(*(plain(value) for value in values))
    return shown if len(shown) <= LONGEST_CELL else f"{shown[:LONGEST_CELL]}..."


def _rest(table: Table, view: View) -> str:
    """What of the table is not on the page."""
    shown, count = len(table.cells), table.count
    if not shown or shown == count:
        return ""
    left = count - shown
    rows = f"... {left:,} more {'row' if left == 1 else 'rows'}"
    return f"{shown} of {count:,} rows" if view.pick or view.page else rows


def _parts(result: Any) -> tuple[str, Table, tuple[str, str], list[str]]:
    """Headline, table, what of it is not shown and how to get it, and notes."""
    view = view_of(result)
    other = result if view.page is None else view.page(result)
    table = table_of(other, view_of(other))
    notes = [] if view.notes is None else list(view.notes(result))
    if table.unknown:
        notes.insert(0, f"Not known: {', '.join(table.unknown)}.")
    return view.headline(result), table, (_rest(table, view), view.more), notes


def html(result: Any) -> str:
    """The answer and a table as a piece of HTML without scripts or outside styles; all text is escaped."""
    words, table, (rest, more), notes = _parts(result)
    parts = [f"<div {BOX}>", f"<div><strong>{type(result).__name__}</strong> {_text(words)}</div>"]
    if table.cells:
        styles = [_style(right) for right in table.right]
        heads = "".join(
            f'<th scope="col" style="{style};font-weight:600">{_text(head)}</th>'
            for style, head in zip(styles, table.heads, strict=True)
        )
        parts.append(f'<table style="{TABLE}"><thead><tr style="{ROW}">{heads}</tr></thead><tbody>')
        for row in table.cells:
            weight = ";font-weight:600" if row[0].startswith("> ") else ""
            cells = "".join(
                f'<td style="{style}{weight}">{_text(cell)}</td>' for style, cell in zip(styles, row, strict=True)
            )
            parts.append(f'<tr style="{ROW}">{cells}</tr>')
        parts.append("</tbody></table>")
    if rest:
        parts.append(f"<div>{rest}: <code>{more}</code></div>")
    parts += [f'<div style="opacity:0.8">{_text(note)}</div>' for note in notes]
    return "\n".join([*parts, "</div>"])


def _style(right: bool) -> str:
    return f"text-align:{'right' if right else 'left'};{CELL}" + (";white-space:nowrap" if right else "")


def _text(words: str) -> str:
    """Escaped; line breaks stay, and characters that a page may not hold become a mark."""
    return escape(_printable(words)).replace("\n", "<br/>")


def _printable(words: str) -> str:
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", words)


def markdown(result: Any) -> str:
    """The answer and a table as Markdown; what would be markup in names is escaped."""
    words, table, (rest, more), notes = _parts(result)
    parts = [f"**{type(result).__name__}** {_mark(words)}"]
    if table.cells:
        lines = ["| " + " | ".join(map(_mark, table.heads)) + " |"]
        lines.append("|" + "|".join("---:" if right else "---" for right in table.right) + "|")
        lines += ["| " + " | ".join(map(_mark, row)) + " |" for row in table.cells]
        parts.append("\n".join(lines))
    if rest:
        parts.append(f"{rest}: `{more}`")
    return "\n\n".join([*parts, *map(_mark, notes)]) + "\n"


def _mark(words: str) -> str:
    flat = " ".join(_printable(words).split())
    return re.sub(r"([\\`*_\[\]|$~])", r"\\\1", escape(flat, quote=False))
