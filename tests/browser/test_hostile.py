"""Whatever stands in names, logs and blocks is shown as text, and nothing of it runs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from grpo_plan.report.page import render
from tests.browser.conftest import Command, Open

HOSTILE = {
    "script": "</script><script>window.ran = 'script'</script>",
    "comment": "<!--<script>window.ran = 'comment'</script>",
    "image": '"><img src=x onerror="window.ran = \'image\'">',
    "attribute": "' onfocus='window.ran = 1' autofocus='",
    "style": "</style><style>body { display: none }</style>",
    "svg": "</title></svg><script>window.ran = 'svg'</script>",
    "template": "{{7*7}}{% for x in range(9) %}x{% endfor %}{{ doc }}",
    "lines": "a\u2028b\u2029c\rd\n<b>e</b>",
    "directions": "\u202eabc\u2066\u200fdef\u202c",
    "controls": "nul\x00bell\x07escape\x1b[31m\ufeff\ud800",
    "entities": "&lt;script&gt; &amp;amp; &#x3c;b&#x3e;",
    "long": "n" * 10_240,
    "url": "javascript:window.ran='url'",
}
KEPT = {"section", "schema", "command"}  # what the page itself reads: parts and their names


def poisoned(value: Any, text: str, key: str = "") -> Any:
    """A document with foreign text added to every text of it, and to every key that comes from a file."""
    if isinstance(value, dict):
        foreign = key in ("dropped", "evidence", "missing", "statuses", "errors")
        return {(f"{name}{text}" if foreign else name): poisoned(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item, text, f"item of {key}") for item in value]
    if isinstance(value, str) and key not in KEPT:
        return value + text
    return value


@pytest.fixture(scope="session")
def document(reports: dict[str, Path]) -> dict[str, Any]:
    """A document with every part."""
    start = '<script type="application/json" id="data">'
    texts = (reports[name].read_text(encoding="utf-8") for name in ("full", "strata", "temperatures"))
    full, strata, heats = (json.loads(text.split(start)[1].split("</script>")[0]) for text in texts)
    whole = {**full, "strata": strata["strata"], "mix": strata["mix"], "temperature": heats["temperature"]}
    assert all(part is not None for part in whole.values())
    return whole


@pytest.mark.parametrize("kind", HOSTILE)
def test_foreign_text_is_text(kind: str, document: dict[str, Any], open_page: Open, tmp_path: Path) -> None:
    text = HOSTILE[kind]
    held = poisoned(copy.deepcopy(document), text)
    path = tmp_path / f"{kind}.html"
    path.write_text(render(held), encoding="utf-8")
    width = (1200, 360, 800)[list(HOSTILE).index(kind) % 3]
    opened = open_page(path, width=width)
    page = opened.page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    page.evaluate("for (const box of document.querySelectorAll('main *')) box.focus?.()")
    page.wait_for_timeout(30)
    opened.assert_quiet()
    assert page.evaluate("window.ran ?? null") is None
    assert (
        page.evaluate("document.images.length + document.querySelectorAll('iframe, object, embed, base').length") == 0
    )
    assert page.evaluate("[document.scripts.length, document.styleSheets.length]") == [2, 1]
    assert page.evaluate("[...document.querySelectorAll('a')].every((a) => a.getAttribute('href').startsWith('#'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("grpoPlan.report") == held
    heading = page.locator("h1").inner_text()
    if kind in ("script", "comment", "image", "style", "svg", "template", "entities"):
        assert text in heading
    elif kind == "long":
        assert len(heading) < 400
        assert "characters" in heading
    elif kind == "directions":
        assert "[U+202E]abc[U+2066][U+200F]def" in heading
    elif kind == "controls":
        assert "nul[U+0000]bell[U+0007]escape[U+001B]" in heading
    page.locator("#size").select_option("8")
    assert page.evaluate("grpoPlan.whatIf.result().design.group_size") == 8


def test_foreign_names_come_through_the_command_line(folder: Path, command: Command, open_page: Open) -> None:
    nasty = HOSTILE["image"] + HOSTILE["script"]
    place = folder / 'it\'s <b>&"x".jsonl'
    rows = [
        {"prompt_id": f"{nasty}{i}", "level": ("a" + nasty, "b{{7*7}}")[i % 2], "successes": i % 9, "rollouts": 8}
        for i in range(80)
    ]
    place.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    command("report", place.name, "--stratum-column", "level", "-o", "nasty.html", "--title", nasty)
    opened = open_page(folder / "nasty.html")
    opened.assert_quiet()
    assert opened.page.evaluate("window.ran ?? null") is None
    assert opened.page.locator("h1").inner_text() == f"Report of {nasty}"
    assert nasty in opened.page.locator("#strata").inner_text()
    assert place.name in opened.page.locator("#provenance").inner_text()
    assert "{{7*7}}" in opened.page.locator("#strata").inner_text()


def test_the_check_has_teeth(open_page: Open, tmp_path: Path) -> None:
    """A page that does not escape fails it."""
    path = tmp_path / "bad.html"
    path.write_text(f"<!doctype html><h1>{HOSTILE['image']}{HOSTILE['script']}</h1>", encoding="utf-8")
    opened = open_page(path)
    opened.page.wait_for_timeout(50)
    assert opened.page.evaluate("window.ran ?? null") is not None
