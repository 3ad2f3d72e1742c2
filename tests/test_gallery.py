"""The gallery and every other picture of the docs: fresh, small, with data and script, drawn by the lines shown."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import StringIO
from types import ModuleType
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures import gallery
from figures.drawn import table_of
from figures.gallery_entries import Entry
from figures.gallery_more import ENTRIES
from figures.index import FIGURES
from grpo_plan.plots.registry import PLOTS, WHERE, function
from tests.conftest import ROOT

MOST_BYTES, MOST_IN_ALL, MOST_LINES = 60_000, 1_000_000, 7
PICTURES = {
    (page, alt, target)
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
}


class Twice:
    """A module whose pictures are drawn twice: on a new figure, and on given axes, which must come back alike."""

    def __init__(self, module: ModuleType, drawn: set[str]) -> None:
        self.module, self.drawn = module, drawn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if not name.startswith("plot"):
            return found

        def draw(result: Any) -> Axes:
            axes: Axes = found(result)
            given = Figure().subplots()
            assert found(result, given) is given
            assert table_of(given) == table_of(axes)
            kind = type(result[0] if isinstance(result, list | tuple) and not hasattr(result, "_fields") else result)
            self.drawn.add(PLOTS[kind.__name__][0] if name == "plot" else name)
            return axes

        return draw


@pytest.fixture(scope="module")
def drawn() -> set[str]:
    """Names of the functions that the gallery has called."""
    return set()


@pytest.fixture(scope="module")
def names(drawn: set[str]) -> Iterator[dict[str, Any]]:
    with gallery.workplace() as found:
        found |= {name: Twice(found[name], drawn) for name in ("gp", "plots")}
        yield found


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_lines_draw_the_data(entry: Entry, names: dict[str, Any]) -> None:
    before = dict(mpl.rcParams)
    ax = gallery.axes_of(entry, names)
    assert dict(mpl.rcParams) == before
    new = list(csv.reader(StringIO(table_of(ax))))
    old = list(csv.reader(StringIO((gallery.FOLDER / f"{entry.name}.csv").read_text(encoding="utf-8"))))
    assert len(new) == len(old) > 1
    for new_row, old_row in zip(new, old, strict=True):
        assert new_row[0] == old_row[0]
        for a, b in zip(new_row[1:], old_row[1:], strict=True):
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-4, abs=1e-6)


def test_every_function_is_in_the_gallery(names: dict[str, Any], drawn: set[str]) -> None:
    for entry in ENTRIES:  # those that another process of the same run has drawn, too
        if set(WHERE) <= drawn:
            break
        gallery.axes_of(entry, names)
    assert set(WHERE) - drawn == set()


def test_the_page_is_fresh() -> None:
    assert gallery.page() == gallery.PAGE.read_text(encoding="utf-8"), "run python -m figures.gallery"


def test_lines_are_few_and_names_are_unique() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    for entry in ENTRIES:
        assert len(entry.code.splitlines()) <= MOST_LINES, entry.name
        assert entry.read.endswith("."), entry.name


def data(name: str) -> dict[str, list[tuple[float, float, bool]]]:
    """Of a picture: series to x, y and whether a row has limits."""
    with (gallery.FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, list[tuple[float, float, bool]]] = {row["series"]: [] for row in rows}
    for row in rows:
        found[row["series"]].append((float(row["x"] or 0), float(row["y"] or 0), bool(row["low"])))
    return found


def test_the_words_beside_a_picture_are_true_of_its_data() -> None:
    for name in ("sessions", "frontier", "observed_pass_rates"):  # "values", as the page says: no interval is drawn
        curves = {s: rows for s, rows in data(name).items() if "along x" not in s}  # a range of G, no interval
        assert not any(limits for rows in curves.values() for *_, limits in rows), name
    sizes = data("group_sizes")
    small, large = ([y for _, y, _ in sizes[name]] for name in ("G = 4", "G = 16"))
    assert small[0] > 1 > small[-1]  # stops paying
    assert large[0] < 1 < large[-1]  # starts to pay
    mean = {series: rows[0][0] for series, rows in data("sampling").items() if series.endswith("value")}
    refilled, kept = (next(x for s, x in mean.items() if word in s) for word in ("refilled", "dead ones kept"))
    assert refilled > 1.5 * kept  # the bad batch of 1.5
    assert refilled == pytest.approx(24, abs=0.5)  # two rounds of 1.5 x 8 rollouts


def test_files_are_those_of_the_entries() -> None:
    kinds = ("svg", "csv")
    assert {f.name for f in gallery.FOLDER.iterdir()} == {f"{e.name}.{kind}" for e in ENTRIES for kind in kinds}


def test_pictures_are_small_and_without_a_date() -> None:
    files = [*gallery.FOLDER.glob("*.svg"), *(ROOT / "figures").glob("*.svg")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert len(text) < MOST_BYTES, file.name
        assert "dc:date" not in text, file.name
        assert "#ffffff" in text, file.name  # a ground of its own, in the dark too
    assert sum(file.stat().st_size for file in files) < MOST_IN_ALL


@pytest.mark.parametrize(("page", "alt", "target"), sorted(PICTURES), ids=lambda v: getattr(v, "name", None))
def test_every_picture_has_words_data_and_a_script(page: Any, alt: str, target: str) -> None:
    assert len(alt) > 20
    file = (page.parent / target).resolve()
    assert file.exists()
    if file.parent == gallery.FOLDER:
        return
    if file.parent.parent == ROOT / "docs":  # drawn by the cells of the page of that name (tests/test_tutorial.py)
        assert file.parent.name == page.stem
        return
    where, script, data = FIGURES[file.name]
    assert page.stem == where or (page.stem, where) == ("index", "README")  # the front page shows README's picture
    assert (ROOT / f"figures/{script}.py").exists()
    for name in data:
        assert (ROOT / f"figures/{name}").exists()
        assert f"](../figures/{name})" in gallery.PAGE.read_text(encoding="utf-8")


def test_every_picture_of_the_index_is_shown() -> None:
    shown = {(page.stem, target.split("/")[-1]) for page, _, target in PICTURES}
    assert {(where, name) for name, (where, _, _) in FIGURES.items()} <= shown
    assert {f.name for f in (ROOT / "figures").glob("*.svg")} == set(FIGURES)


def test_functions_are_named_as_they_are() -> None:
    assert all(function(name).__name__ == name for name in WHERE)
