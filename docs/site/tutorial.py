"""docs/tutorial.md: a notebook as text. Its cells are run here, and what they show is written below them.

The page is the notebook: jupytext reads its Python blocks as cells (docs/tutorial.md says how). Between the marks below
each cell stands what the cell shows, for readers of the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- output -->", "<!-- end of output -->"
CELL = re.compile(rf"```python\n(.*?)```\n(?:\n{BEGIN}\n(.*?)\n{END}\n)?", re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


def without_outputs(text: str) -> str:
    """The page as a notebook: cells and what is said about them."""
    return re.sub(rf"\n{BEGIN}\n.*?\n{END}\n", "", text, flags=re.DOTALL)


def refreshed(text: str, folder: Path, pictures: Path | None = None) -> str:
    """The page with what its cells show, run in order in a folder.

    A cell that draws names its picture in its output: ``![what it shows](tutorial/NAME.svg)``. It is written there if
    ``pictures``, the folder of the page, is given.
    """
    import matplotlib

    matplotlib.use("agg")
    scope: dict[str, Any] = {"__name__": "__main__"}

    def rerun(match: re.Match[str]) -> str:
        code, before = match.groups()
        parts = run_cell(code, scope)
        parts += _drawn(PICTURE.finditer(before or ""), pictures)
        cell = f"```python\n{code}```\n"
        return cell + ("\n" + "\n\n".join([BEGIN, *parts, END]) + "\n" if parts else "")

    here = Path.cwd()
    os.chdir(folder)
    try:
        return CELL.sub(rerun, text)
    finally:
        os.chdir(here)


def run_cell(code: str, scope: dict[str, Any]) -> list[str]:
    """What a cell prints and what its last line is, as Markdown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)  # type: ignore[attr-defined]
    parts = [f"```text\n{printed.getvalue().rstrip()}\n```"] if printed.getvalue() else []
    return parts + ([] if value is None else [shown(value)])


def shown(value: Any) -> str:
    """A value as a notebook shows it."""
    if hasattr(value, "_repr_markdown_"):
        return str(value._repr_markdown_()).rstrip()
    return f"```text\n{value!r}\n```"


def _drawn(named: Any, pictures: Path | None) -> list[str]:
    """Figures that a cell drew, saved under the names that its output gives them."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    figures, names = [plt.figure(number) for number in plt.get_fignums()], list(named)
    if len(figures) != len(names):
        raise ValueError(f"a cell draws {len(figures)} pictures, and its output names {len(names)}")
    for figure, name in zip(figures, names, strict=True):
        if pictures is not None:
            target = pictures / name.group(1)
            target.parent.mkdir(exist_ok=True)
            with mpl.rc_context({"svg.hashsalt": "grpo-plan"}):
                figure.savefig(target, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    return [name.group(0) for name in names]
