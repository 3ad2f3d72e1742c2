"""theory.md and the code name each other truly: each cited equation and each named object exists."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from grpo_plan import symbolic

ROOT = Path(__file__).parents[1]
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^### Eq\. (\d+)\. \S", re.MULTILINE)
NUMBERS = [int(number) for number in HEADING.findall(THEORY)]
ENTRIES = dict(zip(NUMBERS, HEADING.split(THEORY)[2::2], strict=True))
CITATION = re.compile(r"theory\.md,\s+eqs?\.\s+(\d+(?:\s*(?:,|and|to|-)\s*(?:eq\.\s*)?\d+)*)")
SECTION = re.compile(r"theory\.md,\s+sections?\s+(\d+)")
SOURCES = sorted((ROOT / "grpo_plan").rglob("*.py"))


def cited_numbers(text: str) -> list[int]:
    """Numbers cited in a text; "3 to 5" and "3-5" are ranges."""
    numbers: list[int] = []
    for run in CITATION.findall(text):
        for first, last in re.findall(r"(\d+)(?:\s*(?:to|-)\s*(\d+))?", run):
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def resolve(name: str) -> object:
    """The object of a dotted name: the longest importable module, then attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def test_citations_are_understood() -> None:
    assert cited_numbers("(theory.md, eq. 24 and 25)") == [24, 25]
    assert cited_numbers("theory.md, eq. 3 to 5; theory.md,\n    eqs. 7, 9-10.") == [3, 4, 5, 7, 9, 10]
    assert cited_numbers("theory.md, section 2") == []


def test_equations_are_numbered_from_1_on_without_gaps() -> None:
    assert NUMBERS == list(range(1, 140))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_cited_equation_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = sorted(set(cited_numbers(text)) - set(NUMBERS))
    assert not missing, f"{path.relative_to(ROOT)} cites equations that theory.md lacks: {missing}"
    sections = set(re.findall(r"^## (\d+)\. ", THEORY, re.MULTILINE))
    assert set(SECTION.findall(text)) <= sections
    mentions = len(re.findall(r"theory\.md,\s+eq", text))
    assert mentions == len(CITATION.findall(text)), "a citation is not of the form 'theory.md, eq. N'"


@pytest.mark.parametrize("number", NUMBERS)
def test_every_equation_has_its_parts_and_names_code_that_exists(number: int) -> None:
    entry = ENTRIES[number]
    assert "```math" in entry
    assert "*Why.*" in entry
    assert "*Source.*" in entry
    line = entry.split("*In code.*")[1].split("\n\n")[0]
    names = re.findall(r"`(grpo_plan\.[\w.]+)`", line)
    assert names, f"eq. {number} names no code"
    for name in names:
        assert callable(resolve(name)), name


@pytest.mark.parametrize("number", NUMBERS)
def test_every_equation_is_in_symbolic_and_says_so(number: int) -> None:
    own = re.findall(r"`grpo_plan\.symbolic\.(\w+)`", ENTRIES[number])
    assert own, f"eq. {number} has no SymPy form"
    cited = {name: cited_numbers(getattr(symbolic, name).__doc__ or "") for name in own}
    assert any(number in numbers for numbers in cited.values()), f"no docstring of {own} cites eq. {number}"
    strangers = [name for name, numbers in cited.items() if not numbers or min(numbers) > number]
    assert not strangers, f"{strangers} cite no equation up to {number}"


def test_every_public_function_of_symbolic_cites_an_equation() -> None:
    functions = [f for f in vars(symbolic).values() if inspect.isfunction(f) and f.__name__[0] != "_"]
    silent = [f.__name__ for f in functions if not cited_numbers(f.__doc__ or "")]
    assert silent == ["exact"]


def test_math_is_closed_and_survives_markdown() -> None:
    assert THEORY.count("```") % 2 == 0
    prose = re.sub(r"```.*?```", "", THEORY, flags=re.DOTALL)
    assert prose.count("$") % 2 == 0
    escaped = [m for m in re.findall(r"\$[^$]*\$", prose) if re.search(r"\\[^a-zA-Z]", m)]
    assert not escaped, f"markdown eats a backslash before punctuation: {escaped}"
