"""docs/diagnosis.md says of every check, tool and number what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from figures.run import data, diagnosed
from grpo_plan.plots import plot_composition
from grpo_plan.runs.detectors import (
    composition,
    duplicates,
    flat,
    metrics,
    penalty,
    published,
    refills,
    scoring,
    truncation,
)
from grpo_plan.runs.detectors.asking import DUMPS
from grpo_plan.runs.detectors.common import percent
from grpo_plan.runs.detectors.registry import detectors
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.runs.shares import other_dead
from tests.conftest import ROOT

PAGE = (ROOT / "docs/diagnosis.md").read_text(encoding="utf-8")
KNOBS = DiagnosisSettings()
SHARES = {
    "DEGENERATE_GROUPS": (KNOBS.dead_threshold, published.NOTHING, published.CEILING),
    "ADV_COLLAPSE": (published.EARLY_SHARE, published.CEILING),
    "REWARD_STD_DEATH": (published.CEILING,),
    "DEAD_ABOVE_PLAN": (),
    "STARVED": (
        composition.MANY_FAIL, composition.FEW_MIXED, composition.HARDLY_MIXED, composition.MOSTLY_FAIL
    ),
    "SATURATED": (composition.MANY_PASS, composition.FEW_MIXED),
    "COMPOSITION_TURNED": (composition.MOVED,),
    "FAILED_SCORING": (scoring.FAILED_INFO, scoring.FAILED_WARNING, scoring.FAILED_CRITICAL),
    "FLAT_REWARD": (flat.FLAT_INFO, flat.FLAT_WARNING, flat.FLAT_CRITICAL),
    "TRUNCATION_DEAD": (truncation.CUT_INFO, truncation.CUT_WARNING, truncation.CUT_CRITICAL, truncation.CUT_IMPROVING),
    "DUPLICATE_ROLLOUTS": (
        duplicates.SAME_INFO, duplicates.SAME_WARNING, duplicates.SAME_CRITICAL, duplicates.REPEATED_WARNING
    ),
    "FILTERED_METRIC": (metrics.MOST_UNSEEN,),
    "BATCH_SCALED_METRIC": (metrics.APART,),
    "KL_ONLY_GRADIENT": (penalty.SPEAK, penalty.MOSTLY),
    "REFILL_CAP_RISK": (refills.TELL, refills.STOPS, refills.WORSE),
}  # fmt: skip
OTHERS = {
    "DEGENERATE_GROUPS": f"in {KNOBS.sustain_rows} rows running",
    "ADV_COLLAPSE": f"above {published.ADVANTAGE_HEALTHY:g} in the first 25 % of the rows and below "
    f"{published.ADVANTAGE_LOW:g} late",
    "REWARD_STD_DEATH": f"below {published.STD_LOW:g} late and {published.STD_RATIO:g} times as large early",
    "DEAD_ABOVE_PLAN": f"false alarm {KNOBS.false_alarm:g} a run",
    "COMPOSITION_TURNED": f"{composition.ROWS_TO_TURN} rows",
    "DUPLICATE_ROLLOUTS": f"up to {duplicates.TINY:g} tokens",
    "KL_ONLY_GRADIENT": f"over {penalty.ROWS_TO_JUDGE} rows or more",
}


def table(after: str) -> dict[str, str]:
    """Rows of the first table after a text, by their first cell."""
    lines = PAGE.partition(after)[2].lstrip("\n").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|---"))
    rows = {}
    for line in lines[start + 1 :]:
        if not line.startswith("| "):
            break
        rows[line.split("|")[1].strip().strip("`")] = line
    return rows


def test_every_check_has_its_row_in_order() -> None:
    assert list(table("## The fifteen checks")) == list(detectors()) == list(SHARES)


@pytest.mark.parametrize("name", SHARES)
def test_thresholds_are_those_of_the_code(name: str) -> None:
    row = table("## The fifteen checks")[name]
    allowed = {percent(share) for share in SHARES[name]}
    said = set(re.findall(r"(\d[\d.]*) %", row)) - ({"99"} if name == "COMPOSITION_TURNED" else set())
    assert said == allowed
    assert OTHERS.get(name, "") in row


def test_equations_named_are_there() -> None:
    theory = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    for number in set(re.findall(r"eq\. (\d+)", PAGE)):
        assert f"### Eq. {number}. " in theory, number


def test_tests_named_are_there() -> None:
    for file, names in re.findall(r"`(tests/\w+\.py)`((?:[^|\n])*)", PAGE):
        code = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(test_\w+)`", names):
            assert f"def {name}(" in code, name


def test_how_tools_are_made_to_write_rollouts() -> None:
    rows = "\n".join(table("## What to log").values())
    for tool, how in DUMPS.items():
        for word in re.findall(r"[\w./{}<>*-]*[_.=/][\w./{}<>=*-]*", how):
            assert word.strip(",;()").split("=")[0] in rows, (tool, word)


def test_metrics_named_are_known_to_the_code() -> None:
    code = "".join(p.read_text(encoding="utf-8") for p in Path(ROOT / "grpo_plan/quantities").glob("*.py"))
    for row in table("## What to log").values():
        for name in re.findall(r"`([\w/]+)", row.split("|")[2]):
            parts = [name.rstrip("/"), name.rpartition("/")[2] or name]
            assert any(part and part in code for part in parts), name


def test_numbers_of_the_example() -> None:
    rows = data()
    late = {key: float(np.mean([row[key] for row in rows[-10:]])) for key in ("dead", "all_fail", "all_pass")}
    section = " ".join(PAGE.partition("### The dead fraction alone is no fault")[2].partition("\n## ")[0].split())
    pilot = rows[0]
    assert f"D rises from {pilot['dead']:.3f} in the first pass to {late['dead']:.3f} in the last ten" in section
    assert f"all-fail groups fall from {pilot['all_fail']:.3f} to {late['all_fail']:.3f}" in section
    assert f"all-pass groups rise from {pilot['all_pass']:.3f} to {late['all_pass']:.3f}" in section
    assert f"from {pilot['pass_rate']:.3f} to {rows[-1]['pass_rate']:.3f}" in section
    assert not diagnosed().at_least("warning")
    held = (ROOT / "tests/test_diagnosis.py").read_text(encoding="utf-8")
    assert "np.linspace(0.47, 0.20, rows), np.linspace(0.18, 0.66, rows)" in held  # D from 0.65 to 0.86
    assert "D goes from 0.65 to 0.86 at G = 4" in section


def test_what_rounding_leaves_of_a_share_is_none() -> None:
    # 1 - mixed - all-pass - all-fail is up to 1e-16 in the example
    found = other_dead(diagnosed().facts)
    assert isinstance(found, Measured)
    assert found.values.max() == 0.0
    axes = plot_composition(diagnosed())
    assert "dead otherwise" not in axes.get_legend_handles_labels()[1]


def test_the_page_says_how_late_rows_are_taken() -> None:
    assert f"the last {percent(KNOBS.late_share)} % of the rows and at least {KNOBS.late_rows}" in PAGE
    assert f"at most {KNOBS.false_alarm:g} of the runs" in PAGE
    assert f"about {2 * KNOBS.false_alarm:g} a run" in PAGE
