"""docs/tutorial.md shows what its cells give, here and as a notebook in a kernel of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
sys.path.insert(0, str(ROOT / "docs" / "site"))
import tutorial  # type: ignore[import-not-found]  # noqa: E402

pytestmark = pytest.mark.slow


def test_the_page_shows_what_its_cells_give(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert tutorial.refreshed(text, tmp_path) == text, "docs/tutorial.md is stale: run python docs/make_docs.py"
    assert 10 <= len(tutorial.CELL.findall(text)) <= 14
    for picture in tutorial.PICTURE.finditer(text):
        drawn = (PAGE.parent / picture.group(1)).read_text(encoding="utf-8")
        assert "<svg" in drawn
        assert "Date" not in re.findall(r"<dc:date>.*?</dc:date>", drawn)
    assert {p.name for p in (ROOT / "docs" / "tutorial").iterdir()} == {
        Path(picture.group(1)).name for picture in tutorial.PICTURE.finditer(text)
    }


def test_a_stale_output_is_seen(tmp_path: Path) -> None:
    page = "```python\nprint(1 + 1)\n```\n\n<!-- output -->\n\n```text\n3\n```\n\n<!-- end of output -->\n"
    assert tutorial.refreshed(page, tmp_path) == page.replace("3", "2")
    assert tutorial.without_outputs(page) == "```python\nprint(1 + 1)\n```\n"
    drawn = "```python\nfrom matplotlib.figure import Figure\n\nFigure()\n```\n"
    with pytest.raises(ValueError, match="a cell ends in 1 pictures, and its output names 0"):
        tutorial.refreshed(drawn, tmp_path)


def test_the_numbers_of_the_text_are_in_the_outputs() -> None:
    """A number with a decimal point that the text says has to stand in some output, as it is or rounded as said."""
    text = PAGE.read_text(encoding="utf-8")
    outputs = " ".join(re.findall(rf"{tutorial.BEGIN}\n(.*?)\n{tutorial.END}", text, re.DOTALL))
    prose = re.sub(r"```.*?```", "", tutorial.without_outputs(text), flags=re.DOTALL)
    said = [n for n in re.findall(r"(?<![\w.-])\d+\.\d{2,}(?![\w.])", prose) if n != "1.5"]
    assert said
    assert all(number in outputs for number in said), said
    known = [float(n.replace(",", "")) for n in re.findall(r"(?<![\w.])\d[\d,]*\.?\d*", outputs)]
    for low, high in ((4, 0.039), (53, 0.529), (44, 0.439)):
        assert f"{low} %" in prose
        assert high in known
    for count in ("439", "92", "1,209", "63", "81", "3,069", "87", "44"):
        assert re.search(rf"\b{count}\b", prose), count
        assert re.search(rf"\b{count}\b", outputs), count


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_in_a_kernel_and_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "the extra notebook is not installed"
    jupytext = pytest.importorskip("jupytext", reason=reason, exc_type=ImportError)
    nbclient = pytest.importorskip("nbclient", reason=reason, exc_type=ImportError)
    pytest.importorskip("ipykernel", reason=reason, exc_type=ImportError)
    (command,) = re.findall(r"^    (sed .*?) && jupyter lab", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    written = tmp_path / "tutorial.ipynb"
    there = command.replace("-o tutorial.ipynb", f"-o {shlex.quote(str(written))}")
    assert there != command
    subprocess.run(["sh", "-c", there], cwd=ROOT, check=True, capture_output=True, env={**os.environ, "PATH": path})
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = jupytext.read(str(written))
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    page = [(code.rstrip("\n"), shown) for code, shown in tutorial.CELL.findall(PAGE.read_text(encoding="utf-8"))]
    assert [cell.source for cell in cells] == [code for code, _ in page]
    for cell, (_, shown) in zip(cells, page, strict=True):
        outputs = [*map(as_on_the_page, cell.outputs)]
        drawn = [part for part in outputs if part == "picture"]
        assert len(drawn) == len(tutorial.PICTURE.findall(shown)), cell.source
        for part in outputs:
            assert part == "picture" or part in shown, cell.source
        for output in cell.outputs:
            if "text/markdown" in output.get("data", {}):
                assert "<table" in output["data"]["text/html"]


def as_on_the_page(output: Any) -> str:
    """An output of a kernel as the page shows it."""
    if output.output_type == "stream":
        assert output.name == "stdout", output.text
        return str(output.text).rstrip()
    data = output.data
    return "picture" if "image/png" in data else str(data.get("text/markdown", data["text/plain"])).rstrip()
