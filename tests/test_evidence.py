"""docs/evidence.md: what it names exists, README's claims have a row, and its figures are those of the tables."""

from __future__ import annotations

import ast
import csv
import re
from functools import cache

import pytest

from grpo_plan.batches.refilling import RefillStatus
from grpo_plan.costs.lengths import LengthStatus
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passk.result import CrossingStatus
from grpo_plan.passk.tail import TailStatus
from grpo_plan.planning.kappa_measurement import KappaStatus
from grpo_plan.runs.forecast import ForecastStatus
from grpo_plan.runs.recovery_status import RecoveryStatus
from grpo_plan.runs.trend import TrendStatus
from tests.conftest import ROOT

PAGE = (ROOT / "docs/evidence.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:tests|figures|docs)/[\w/]+\.py(?:::\w+)?)`", PAGE)))
WORDS = {"commit", "data", "extra", "by hand"}


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def rows() -> list[list[str]]:
    """Cells of every row of every table."""
    lines = re.findall(r"^\| (?!claim )(.*) \|$", PAGE, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def table(name: str) -> list[dict[str, str]]:
    with (ROOT / "figures" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).is_file(), path
    assert not function or function in functions(path), name


def test_every_row_says_what_shows_it_and_how_often() -> None:
    assert len(rows()) > 40
    for row in rows():
        assert len(row) == 5, row
        assert re.search(r"`(tests|figures)/", row[4]), row
        assert any(word in row[3] for word in WORDS), row


def test_readme_s_claims_have_a_row() -> None:
    section = README.partition("## How sure it is")[2].partition("\n## ")[0]
    bold = re.findall(r"^\* \*\*(.+?)\*\*", section, re.MULTILINE)
    assert len(bold) >= 6
    own = PAGE.partition("## README's claims")[2].partition("\n## ")[0]
    for claim in bold:
        assert f"| **{claim}**" in own, claim
    first = README.partition("\n## ")[0]
    assert "1.4 to 61 times" in " ".join(first.split())
    for number in re.findall(r"(?<![\w.])\.?\d[\d,.]*\d|(?<![\w.])0\.\d", section.replace("](docs", "")):
        assert number in own, f"README says {number}; docs/evidence.md has no row with it"


def test_figures_are_those_of_the_tables() -> None:
    coverage = [float(r["coverage"]) for r in table("calibration.csv")]
    few = [float(r["coverage"]) for r in table("few_values.csv")]
    good = sum(c >= 0.93 for c in coverage)
    least = f"{min(coverage + few):.2f}".lstrip("0")
    assert f".93 or more in {good} of {len(coverage)} cells" in PAGE
    assert f"down to {least} where" in PAGE
    made = [r for r in table("calibration.csv") if r["real"] == "0" and r["prompts"] == "1000"]
    made = [r for r in made if r["rollouts"] == "8" and r["group_size"] == "16"]
    for name, words in (("auto", "mean {}, worst {} of 9 populations"), ("beta", "one Beta: {} and {}")):
        errors = [float(r[f"rmse_{name}"]) for r in made]
        shown = (f"{e:.4f}".lstrip("0") for e in (sum(errors) / len(errors), max(errors)))
        assert words.format(*shown) in PAGE
    runs = table("diagnosis.csv")
    healthy = [r for r in runs if r["healthy"] == "1"]
    alarms, seeds = (sum(int(r[key]) for r in healthy) for key in ("alarms", "seeds"))
    assert f"{alarms} of {seeds:,} simulated runs" in PAGE
    found = min(int(r["detected"]) / int(r["seeds"]) for r in runs if r["healthy"] == "0" and r["detected"])
    assert f"in {found:.3f}".replace("0.", ".") + " of its runs or more" in PAGE
    learning = " ".join((ROOT / "docs/simulation.md").read_text(encoding="utf-8").split())
    for words in ("16 of 16 sweeps", "74 of 79"):
        assert words in PAGE
        assert words in learning


def test_the_validation_page_quotes_the_picture_s_table() -> None:
    page = (ROOT / "docs/validation.md").read_text(encoding="utf-8")
    later = [r for r in table("dead_fraction.csv") if r["later_visits"]]
    assert len(later) == 3
    for r in later:
        g, dead, low, high, seen = (float(r[k]) for k in ("group_size", "dead", "low", "high", "later_visits"))
        assert f"| {g:.0f} | dead | {dead:.3f} | {low:.3f} to {high:.3f} |" in page
        assert f"| {seen:.3f} (1,209) |" in page


OTHERS = {
    "refill": RefillStatus, "kappa": KappaStatus, "aggregates": RecoveryStatus, "trend": TrendStatus,
    "forecast": ForecastStatus, "lengths": LengthStatus, "pass@k tail": TailStatus, "pass@k crossing": CrossingStatus,
}  # fmt: skip


def test_every_status_is_explained_with_what_to_do() -> None:
    """The glossary's two tables hold the members of each enum, all of them and no other, with two cells of words."""
    section = (
        (ROOT / "docs/glossary.md").read_text(encoding="utf-8").partition("### Status\n")[2].partition("\n### ")[0]
    )
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "`" in line]
    assert all(len(words) > 5 or words == "wait" or words == "log it" for *_, words in lines)
    found = [("fit", *cells) if len(cells) == 3 else tuple(cells) for cells in lines]
    assert {len(cells) for cells in found} == {4}
    shown = [(of, status.strip("`")) for of, status, *_ in found]
    assert sorted(shown) == sorted((of, m.name) for of, kind in {"fit": FitStatus, **OTHERS}.items() for m in kind)
    for kind in (FitStatus, *OTHERS.values()):
        assert f"`{kind.__name__}`" in section


def test_the_lowest_coverages_are_those_of_the_tables() -> None:
    """README and the page tell the 672 cells apart from the 96 of few values."""
    usual, few = ([float(r["coverage"]) for r in table(name)] for name in ("calibration.csv", "few_values.csv"))
    assert f"{min(usual):.2f}".lstrip("0") + " in the lowest" in PAGE
    assert f"{min(usual):.2f}".lstrip("0") + " in the lowest" in README
    assert f"in {len(few)} cells apart from these down to {min(few):.2f}".replace("0.", ".") in PAGE


def test_when_to_plan_again_is_one_number() -> None:
    """What `plan` prints is what the pages say."""
    code = (ROOT / "grpo_plan/planning/assumptions.py").read_text(encoding="utf-8")
    assert "pilot again every 50 steps" in code
    for name in ("choosing", "start", "pilot-design"):
        page = " ".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8").split())
        assert re.findall(r"every (\d+) steps or so", page), name
        assert set(re.findall(r"every (\d+) steps or so", page)) == {"50"}, name
