"""The documentation site: it builds without a warning, needs no network, and what it should hold is there.

The site is built here where Sphinx is installed, or taken from the folder that GRPO_PLAN_SITE names.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import grpo_plan
from tests.conftest import ROOT

for library in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
    pytest.importorskip(library, exc_type=ImportError, reason="needs the extra docs")
pytestmark = pytest.mark.slow
LOADED = {("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("object", "data"), ("use", "href")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if named := os.environ.get("GRPO_PLAN_SITE"):
        return Path(named)
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(folder / "read")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Page(HTMLParser):
    """What a page loads, where its links lead, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.count: dict[str, int] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        self.loads += [value for name, value in values.items() if (tag, name) in LOADED]
        self.loads += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]
        if tag == "link" and values.get("rel") not in ("index", "search", "next", "prev", "canonical", "author"):
            self.loads.append(values.get("href", ""))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loads += re.findall(r"url\(\s*['\"]?([^'\")]+)", values.get("style", ""))


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> Iterator[Path]:
    return iter(sorted(site.rglob("*.html")))


def from_outside(text: str) -> list[str]:
    """Addresses that a browser would fetch for a page."""
    return [address for address in Page(text).loads if re.match(r"(?:[a-z]+:)?//", address)]


@pytest.mark.parametrize("name", ["mathml", "annotations"])
def test_examples_in_the_modules_of_the_site(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_no_page_loads_anything_from_outside(site: Path) -> None:
    for path in pages(site):
        assert from_outside(path.read_text(encoding="utf-8")) == [], path.name
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^'\")]*", text) == [], style.name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example.org/x.css">',
        '<img src="http://example.org/x.png" alt="">',
        '<img srcset="a.png 1x, https://example.org/x.png 2x">',
        '<p style="background: url(https://example.org/x.png)">',
    ],
)
def test_the_check_of_loads_sees(text: str) -> None:
    assert len(from_outside(text)) == 1


def test_every_link_within_the_site_leads_to_a_page_and_an_anchor(site: Path) -> None:
    wrong = []
    for path in pages(site):
        for link in page(path).links:
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists():
                wrong.append(f"{path.name}: {link}: no such file")
            elif anchor and target.suffix == ".html" and anchor not in page(target).anchors:
                wrong.append(f"{path.name}: {link}: no such anchor")
    assert wrong == []


def test_every_page_is_in_the_contents(site: Path) -> None:
    reached = {unquote(link).partition("#")[0] for link in page(site / "index.html").links}
    for path in (ROOT / "docs").glob("*.md"):
        assert path.stem == "index" or f"{path.stem}.html" in reached, path.stem


def test_every_public_name_has_its_entry(site: Path) -> None:
    anchors = set().union(*(page(path).anchors for path in (site / "api").glob("*.html")))
    assert {f"grpo_plan.{name}" for name in grpo_plan.__all__} <= anchors


def test_equations_are_drawn(site: Path) -> None:
    source = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    text = (site / "theory.html").read_text(encoding="utf-8")
    equations = text.count('<div class="equation')
    assert equations == source.count("```math\n") >= 138
    assert text.count("<math") > equations
    assert "\\frac" not in text
    assert "\\sum" not in text


def test_lines_and_hats_over_several_letters_are_as_wide_as_these(site: Path) -> None:
    source = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    text = (site / "theory.html").read_text(encoding="utf-8")
    assert text.count('<mrow class="overline">') == source.count("\\overline{") > 0
    assert ">¯</mo>" not in text
    assert ">^</mo>" not in text
    assert ".overline" in (site / "_static/site.css").read_text(encoding="utf-8")


def test_equation_numbers_lead_to_their_equation(site: Path) -> None:
    assert '<a class="reference internal" href="theory.html#eq-38-' in (site / "pilot-design.html").read_text("utf-8")


def test_nothing_went_wrong_within_a_page(site: Path) -> None:
    for path in pages(site):
        text = path.read_text(encoding="utf-8")
        assert 'class="system-message' not in text, path.name
        assert 'class="problematic' not in text, path.name


def test_the_search_works_from_the_disk(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert '"glossary"' in index
    scripts = [script for script in page(site / "search.html").loads if script.endswith(".js") or ".js?" in script]
    assert any("searchtools.js" in script for script in scripts)
    assert any("searchindex.js" in script for script in scripts)
