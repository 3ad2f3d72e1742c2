"""docs/gallery.md: every picture of the library with the code that makes it and its data.

Run ``python -m figures.gallery`` to write the page, and ``gallery/NAME.svg`` and ``gallery/NAME.csv`` beside this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from figures.drawn import table_of
from figures.gallery_entries import SETUP, Entry
from figures.gallery_more import ENTRIES, SECTIONS
from figures.index import FIGURES
from grpo_plan.example import example_lines, example_run_lines
from grpo_plan.plots import ROLES, save_figure

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "gallery"
PAGE = HERE.parent / "docs" / "gallery.md"
HEAD = """\
# Gallery

Every result has a picture: `gp.plot(result)` draws it, on axes of yours (`gp.plot(result, ax)`) or on those of a new
figure, and returns the axes; `ax.figure.savefig("a.png")` writes them. In a notebook end the cell with
`gp.plot(result).figure`: axes alone show no picture there. `grpo_plan.plots.PLOTS` lists the functions by type, with
more than one for some; `NOT_DRAWN` says which types have none, and why.

One style sheet serves them all, and your own matplotlib settings are neither used nor changed. Where a result cannot
tell, the picture says so: the grey line below the title is its status. Bands and thin bars with ends are intervals, at
95 % unless asked otherwise; broad columns are values, and a curve or column with no band shows no interval: the
result's own table or JSON has those that there are. Filled marks are counted, hollow ones fitted. The data of each
picture are what it draws: `series`, `x` and `y` of curves, marks and bars, `low` and `high` of bands.

| colour | stands for |
|---|---|
{roles}

All pictures below are made by the lines beside them, after these:

```python
{setup}```

"""
TAIL = """\
## Pictures of other pages

| picture | page | made by | data |
|---|---|---|---|
{rows}
"""
NAMES = {
    "#1a1a1a": "black", "#0072B2": "blue", "#D55E00": "vermilion", "#E69F00": "orange", "#9ecae8": "sky blue",
    "#009E73": "green", "#6e6e6e": "grey", "#c4c4c4": "silver, or hatched",
}  # fmt: skip


@contextmanager
def workplace() -> Iterator[dict[str, Any]]:
    """The names that the lines of an entry find, in a folder with the example's files."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        Path(folder, "pilot.jsonl").write_text("".join(f"{line}\n" for line in example_lines()), encoding="utf-8")
        Path(folder, "run.jsonl").write_text("".join(f"{line}\n" for line in example_run_lines()), encoding="utf-8")
        chdir(folder)
        try:
            names: dict[str, Any] = {}
            exec(compile(SETUP, "gallery", "exec"), names)
            yield names
        finally:
            chdir(before)


def axes_of(entry: Entry, names: dict[str, Any]) -> Any:
    """The axes that the lines of an entry make."""
    own = dict(names)
    exec(compile(entry.code, entry.name, "exec"), own)
    return own["ax"]


def page() -> str:
    """The text of docs/gallery.md."""
    roles = "\n".join(f"| {NAMES[colour]} | {role} |" for role, colour in ROLES.items())
    parts = [HEAD.format(roles=roles, setup=SETUP)]
    for title, entries in SECTIONS:
        parts.append(f"## {title}\n\n")
        parts += [_entry(entry) for entry in entries]
    rows = [
        f"| [{name}](../figures/{name}) | [{where}]({'../README.md' if where == 'README' else f'{where}.md'}) | "
        f"`python -m figures.{script}` | {', '.join(f'[{d}](../figures/{d})' for d in data)} |"
        for name, (where, script, data) in FIGURES.items()
    ]
    return "".join([*parts, TAIL.format(rows="\n".join(rows))])


def _entry(entry: Entry) -> str:
    files = f"../figures/gallery/{entry.name}"
    return (
        f"### {entry.name.replace('_', ' ').capitalize()}\n\n![{entry.shows}]({files}.svg)\n\n{entry.read} "
        f"Data: [{entry.name}.csv]({files}.csv).\n\n```python\n{entry.code}\n```\n\n"
    )


def main() -> None:
    """Write the page, the pictures and their data."""
    FOLDER.mkdir(exist_ok=True)
    kept = {f"{entry.name}.{kind}" for entry in ENTRIES for kind in ("svg", "csv")}
    for file in FOLDER.iterdir():
        if file.name not in kept:
            file.unlink()
    with workplace() as names:
        for entry in ENTRIES:
            ax = axes_of(entry, names)
            save_figure(ax.figure, FOLDER / f"{entry.name}.svg")
            (FOLDER / f"{entry.name}.csv").write_text(table_of(ax), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
