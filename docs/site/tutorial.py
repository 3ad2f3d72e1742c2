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

from grpo_plan.plots.style import save_figure

BEGIN, END = "<!-- output -->", "<!-- end of output -->"
CELL = re.compile(rf"```python\n(.*?)```\n(?:\n{BEGIN}\n(.*?)\n{END}\n)?", re.DOTALL)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")


def without_outputs(text: str) -> str:
    """The page as a notebook: cells and what is said about them."""
    return re.sub(rf"\n{BEGIN}\n.*?\n{END}\n", "", text, flags=re.DOTALL)


def refreshed(text: str, folder: Path, pictures: Path | None = None) -> str:
    """The page with what its cells show, run in order in a folder.

    A cell that ends in a figure names it in its output: ``![what it shows](tutorial/NAME.svg)``. It is written there if
    ``pictures``, the folder of the page, is given.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}

    def rerun(match: re.Match[str]) -> str:
        code, before = match.groups()
        printed, value = run_cell(code, scope)
        parts = [f"```text\n{printed.rstrip()}\n```"] if printed else []
        parts += _shown(value, [*PICTURE.finditer(before or "")], pictures)
        cell = f"```python\n{code}```\n"
        return cell + ("\n" + "\n\n".join([BEGIN, *parts, END]) + "\n" if parts else "")

    here = Path.cwd()
    os.chdir(folder)
    try:
        return CELL.sub(rerun, text)
    finally:
        os.chdir(here)


def run_cell(code: str, scope: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        value = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
    return printed.getvalue(), value


def _shown(value: Any, named: list[re.Match[str]], pictures: Path | None) -> list[str]:
    """A value as a notebook shows it, in Markdown; a figure under the name that the page gives it."""
    drawn = hasattr(value, "savefig")
    if len(named) != drawn:
        raise ValueError(f"a cell ends in {int(drawn)} pictures, and its output names {len(named)}")
    if drawn:
        if pictures is not None:
            target = pictures / named[0].group(1)
            target.parent.mkdir(exist_ok=True)
            save_figure(value, target)
        return [named[0].group(0)]
    if hasattr(value, "_repr_markdown_"):
        return [value._repr_markdown_().rstrip()]
    return [] if value is None else [f"```text\n{value!r}\n```"]
