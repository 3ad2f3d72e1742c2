"""Links of README and docs, without a network: files, headings, pictures, and a list of addresses outside."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")))
ADDRESS = re.compile(r"^(https?://\S+)\s*(.*)$", re.MULTILINE)
LIST = re.split(r"^\[(.+)\]$", (ROOT / "docs/site/links.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
# Address -> what it is; a section of the list counts where its page is there.
OUTSIDE = dict(
    pair
    for page, part in zip(("README.md", *LIST[1::2]), LIST[::2], strict=True)
    if (ROOT / page).exists()
    for pair in ADDRESS.findall(part)
)
INLINE = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINED = re.compile(r"^ {0,3}\[([^\]]+)\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
REFERRED = re.compile(r"(?<!\\)\[([^\[\]]+)\]\[([^\[\]]*)\]")
BARE = re.compile(r"<(https?://[^>\s]+)>|(?<![\(\w\"'])(https?://[^\s)>\]\"'`]+)")


def prose(text: str) -> str:
    """A page without its code, fenced or in a line, which may hold anything."""
    text = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "`code`", text, flags=re.DOTALL)


def slug(heading: str) -> str:
    """The anchor of a heading, as code-hosting sites and the docs site make it."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


@cache
def anchors(path: Path) -> frozenset[str]:
    """Anchors of the headings of a page; the second of equal ones ends in -1."""
    text = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    counts: dict[str, int] = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        name = slug(heading)
        found.add(name if name not in counts else f"{name}-{counts[name]}")
        counts[name] = counts.get(name, 0) + 1
    return frozenset(found)


def problems(path: Path, text: str, root: Path = ROOT) -> list[str]:
    """What is wrong with the links of a page."""
    text = prose(text)
    defined = {name.lower(): target for name, target in DEFINED.findall(text)}
    targets = [(mark == "!", target) for mark, _, target in INLINE.findall(text)]
    targets += [(False, target) for target in defined.values()]
    targets += [(False, first or second) for first, second in BARE.findall(text)]
    found = [
        f"[{label}][{name}]: not defined"
        for label, name in REFERRED.findall(text)
        if (name or label).lower() not in defined
    ]
    for picture, target in targets:
        if re.match(r"[a-z+.-]+:", target):
            if target not in OUTSIDE:
                found.append(f"{target}: not in docs/site/links.txt")
            continue
        name, _, anchor = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        if not place.exists() or not place.is_relative_to(root):
            found.append(f"{target}: no such file")
        elif picture and place.suffix not in (".svg", ".png"):
            found.append(f"{target}: not a picture")
        elif anchor and place.suffix == ".md" and anchor not in anchors(place):
            found.append(f"{target}: no such heading")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert problems(ROOT / page, (ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES)
def test_pictures_have_a_description(page: str) -> None:
    pictures = [words for mark, words, _ in INLINE.findall(prose((ROOT / page).read_text(encoding="utf-8"))) if mark]
    assert all(len(words) >= 20 for words in pictures), pictures


def test_addresses_outside_are_listed_with_what_they_are_and_used() -> None:
    texts = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    for address, about in OUTSIDE.items():
        assert address.startswith("https://")
        assert about, f"{address}: say what it is"
        assert address in texts, f"{address}: no page links to it"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](nowhere.md)", "no such file"),
        ("[a](theory.md#nowhere)", "no such heading"),
        ("[a](#nowhere)", "no such heading"),
        ("![a](theory.md)", "not a picture"),
        ("![a](../figures/nowhere.svg)", "no such file"),
        ("[a][nowhere]", "not defined"),
        ("[a][here]\n\n[here]: nowhere.md", "no such file"),
        ("[a](https://example.org)", "not in docs/site/links.txt"),
        ("[a](http://example.org)", "not in docs/site/links.txt"),
        ("see <https://example.org>", "not in docs/site/links.txt"),
        ("see https://example.org/x", "not in docs/site/links.txt"),
        ("[a](../../outside.md)", "no such file"),
        ('[a](nowhere.md "title")', "no such file"),
    ],
)
def test_the_checker_sees(text: str, problem: str) -> None:
    (found,) = problems(ROOT / "docs/choosing.md", text)
    assert problem in found


@pytest.mark.parametrize(
    "text",
    [
        "[a](theory.md#eq-1-mixed-probability)",
        "`[a](nowhere.md)`",
        "```text\n[a](nowhere.md)\n```",
        "[a][b]\n\n[b]: theory.md",
        "![a](../figures/run.svg)",
        "G in [2, 4] and D(8) [0.1, 0.2]",
    ],
)
def test_the_checker_passes(text: str) -> None:
    assert problems(ROOT / "docs/choosing.md", text) == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("26. pass@k", "26-passk"),
        ("`Monitor`, one call", "monitor-one-call"),
        ("All-pass and all-fail", "all-pass-and-all-fail"),
        ('Census: `population="census"`', "census-populationcensus"),
        ("The [theory](theory.md) of D", "the-theory-of-d"),
    ],
)
def test_anchors_are_those_of_code_hosting_sites(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor
