"""Widths, colours, keyboard, names for screen readers, paper."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Open

WIDTHS = (360, 800, 1400)
LEAST_CONTRAST = 4.5
NAMED_ROLES = (
    "slider",
    "combobox",
    "spinbutton",
    "checkbox",
    "button",
    "link",
    "image",
    "region",
    "table",
    "navigation",
)

CLIPPED = """() => [...document.querySelectorAll("body *")].filter((e) => {
  if (e.closest(".hidden-text, svg, .skip") || e.tagName === "INPUT" || !e.getClientRects().length) return false;
  const style = getComputedStyle(e);
  return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && style.overflowX !== "auto" && style.display !== "inline"
    && e.tagName !== "SELECT" && (style.overflowX !== "visible" || e.getBoundingClientRect().left + e.scrollWidth > innerWidth + 1);
}).map((e) => `${e.tagName} ${e.id} ${e.className} ${e.scrollWidth} > ${e.clientWidth}`)"""

# Words of a picture that stick out of it, or lie on other words of their kind.
WORDS = """() => { const bad = [];
for (const svg of document.querySelectorAll("svg[role=img]")) {
  if (!svg.getClientRects().length) continue;
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]);
  boxes.forEach(([t, b], i) => {
    if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1 || b.top < frame.top - 1) bad.push(`out of its picture: ${t.textContent}`);
    for (const [u, c] of boxes.slice(i + 1)) {
      const wide = Math.min(b.right, c.right) - Math.max(b.left, c.left);
      const high = Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top);
      if (wide > 1 && high > 3) bad.push(`${t.textContent} on ${u.textContent}`);
    }
  });
} return bad; }"""

CONTRAST = """() => {
  const number = (text) => { const found = text.match(/[\\d.]+/g).map(Number); return found.length === 3 ? [...found, 1] : found; };
  const light = ([r, g, b]) => { const f = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const back = (e) => { for (let at = e; at; at = at.parentElement) {
    const colour = number(getComputedStyle(at).backgroundColor); if (colour[3] === 1) return colour; } return [255, 255, 255, 1]; };
  const bars = { "on-all_fail": "all_fail", "on-mixed": "mixed", "on-all_pass": "all_pass" };
  const worst = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || !e.getClientRects().length || e.closest("script, style, .hidden-text, :disabled, .skip")) continue;
    const style = getComputedStyle(e);
    const inside = e.closest("svg");
    const on = [...e.classList].find((name) => bars[name]);
    const colour = number(inside ? style.fill : style.color);
    const under = on ? number(getComputedStyle(inside.querySelector(`rect.${bars[on]}`)).fill) : back(e);
    const [a, b] = [light(colour), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const key = `${e.tagName}.${e.getAttribute("class") || ""} ${node.textContent.trim().slice(0, 30)}`;
    if (ratio < 4.5) worst[key] = ratio;
  }
  return worst; }"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["full", "strata", "temperatures", "dead", "graded", "run"])
def test_nothing_scrolls_sideways_or_is_cut(name: str, width: int, reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports[name], width=width).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(WORDS) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["full", "strata", "dead"])
def test_words_stand_out(name: str, dark: bool, reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports[name], dark=dark).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate(CONTRAST) == {}
    back = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert back == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def test_the_switch_of_colours(reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports["dead"], dark=True).page
    back = "getComputedStyle(document.documentElement).backgroundColor"
    for choice, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)"), ("system", "rgb(20, 23, 27)")):
        page.locator("#theme").select_option(choice)
        assert page.evaluate(back) == colour
    page.locator("#theme").select_option("light")
    page.reload()
    assert page.evaluate(back) == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST) == {}


@pytest.mark.parametrize("name", ["full", "strata", "graded"])
def test_everything_has_a_name_for_a_screen_reader(name: str, reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports[name]).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]

    def of(node: dict[str, Any], key: str) -> str:
        return str(node.get(key, {}).get("value", "")).strip()

    seen = {of(node, "role") for node in nodes if not node.get("ignored")}
    assert {"slider", "combobox", "spinbutton", "checkbox", "button", "link", "image", "region", "table"} <= seen
    nameless = [
        of(node, "role")
        for node in nodes
        if not node.get("ignored") and of(node, "role") in NAMED_ROLES and not of(node, "name")
    ]
    assert nameless == []
    images = [of(node, "name") for node in nodes if not node.get("ignored") and of(node, "role") == "image"]
    assert len(set(images)) == len(images), "two pictures with one name"
    assert page.evaluate("document.documentElement.lang") == "en"
    doubled = page.evaluate(
        "(() => { const ids = [...document.querySelectorAll('[id]')].map((e) => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i); })()"
    )
    assert doubled == []
    unscoped = page.evaluate("[...document.querySelectorAll('th')].filter((th) => !th.scope).length")
    assert unscoped == 0
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), "a heading skips a level"


def test_keys_alone(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"])
    page = opened.page
    focus = "document.activeElement.id || document.activeElement.getAttribute('href')"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate(focus) == "verdict"
    reached: list[str] = []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focus) or "")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"no visible focus on {reached[-1]}"
        if reached[-1] == "back":
            break
    assert {"size", "size-slider", "fixed", "kappa-one", "refill-on"} <= set(reached)
    page.locator("#refill-on").focus()
    page.keyboard.press("Space")
    assert page.evaluate("grpoPlan.whatIf.result().refill !== null")
    page.keyboard.press("Tab")
    assert page.evaluate(focus) == "multiplier"
    page.keyboard.type("2")
    page.keyboard.press("Tab")
    assert page.evaluate("grpoPlan.whatIf.result().refill.batch_multiplier") == 2
    page.locator("#kappa-one").focus()
    page.keyboard.press("Space")
    page.locator("#kappa-slider").focus()
    before = page.evaluate("grpoPlan.whatIf.choice().kappa")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageUp")
    assert page.evaluate("grpoPlan.whatIf.choice().kappa") > before
    page.locator("#back").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("grpoPlan.whatIf.choice()") == page.evaluate("grpoPlan.report.what_if.start")
    opened.assert_quiet()


def test_on_paper(reports: dict[str, Path], open_page: Open, tmp_path: Path) -> None:
    page = open_page(reports["full"], dark=True).page
    page.evaluate(
        "window.addEventListener('beforeprint', () => { window.openAtPrint = document.querySelectorAll('details:not([open])').length; })"
    )
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert page.evaluate("window.openAtPrint") == 0, "details stay shut on paper"
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") > 5
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    for gone in ("#what-if", "nav", "button.copy >> nth=0", "#theme-box"):
        assert not page.locator(gone).is_visible()
    assert page.locator("#verdict").is_visible()
    assert page.evaluate(CONTRAST) == {}
