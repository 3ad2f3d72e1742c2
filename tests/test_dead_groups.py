"""How many groups of a run are dead: counted in the dump, shown by fit, judged as the trainer compares rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.provenance import DeadGroups, Provenance, merged
from tests.conftest import ROOT
from tests.test_cli import Run, document
from tests.test_cli import run as command  # noqa: F401, a fixture

DATA = ROOT / "tests" / "data"
VERL = DATA / "verl" / "verl_v1"


def dump(path: Path, groups: list[list[float]], **more: list[list[float]]) -> Path:
    """Groups as verl V1 dumps them, all of one step."""
    rows: list[dict[str, Any]] = []
    for p, scores in enumerate(groups):
        for s, score in enumerate(scores):
            row = {"input": f"q{p}", "output": "", "gts": "", "score": score, "step": 1, "uid": f"{p}_{s}_0"}
            rows.append(row | {name: values[p][s] for name, values in more.items()})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def counted(source: Path, **options: Any) -> DeadGroups:
    found = gp.read_pilot(source, **options).provenance.dead_groups
    assert found is not None
    return found


def test_fit_counts_the_dead_groups_of_a_dump(command: Run) -> None:  # noqa: F811
    text = command("fit", VERL).out
    assert "Groups  counted: 12 of 24 dead (all-fail 8, all-pass 4; by step: 5, 3, 4)" in text
    found = document(command("fit", VERL, "--json"))["pilot"]["provenance"]
    assert found["groups"] == 24
    assert found["dead_groups"]["dead"] == found["dead_groups"]["by_full_reward"] == 12
    assert [row["dead"] for row in found["dead_groups"]["by_step"]] == [5, 3, 4]
    assert int(gp.read_groups(VERL).dead.sum()) == 12


def test_graded_rewards_are_dead_by_pass_but_not_by_reward(tmp_path: Path, command: Run) -> None:  # noqa: F811
    path = dump(tmp_path / "1.jsonl", [[0.1, 0.2, 0.3], [0.8, 0.9, 1.0], [0.5, 0.5, 0.5], [0.2, 0.9, 0.4]])
    found = counted(path, pass_threshold=0.6)
    assert (found.by_pass, found.by_reward, found.dead, found.all_fail, found.all_pass) == (3, 1, 1, 2, 1)
    text = command("fit", path, "--pass-threshold", "0.6").out
    assert "1 of 4 dead by the full reward, which is what a trainer" in text
    assert "whose rewards all agree" not in text
    assert "share of groups that agree on pass or fail" in text


def test_the_full_reward_judges_where_another_is_counted_by(tmp_path: Path) -> None:
    path = dump(tmp_path / "1.jsonl", [[1.0, 1.0], [0.9, 1.0], [0.0, 1.0]], acc=[[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    found = counted(path, reward="acc")
    assert (found.by_pass, found.by_reward) == (2, 1)


def test_trl_sums_its_reward_functions() -> None:
    folder = DATA / "trl" / "none2"
    found = counted(folder, reward="format_reward", pass_threshold=0.5)
    whole = gp.read_groups(folder)
    assert found.by_reward == int(whole.dead.sum())
    assert found.by_pass != found.by_reward


def test_what_lacks_dead_groups_or_groups_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("prompt,reward\na,1\na,0\nb,1\n", encoding="utf-8")
    assert gp.read_pilot(path).provenance.dead_groups is None
    only_mixed = dump(tmp_path / "1.jsonl", [[0.0, 1.0, 0.0, 1.0]] * 80)
    pilot = gp.read_pilot(only_mixed)
    assert pilot.provenance.filtered is not None
    assert pilot.provenance.dead_groups is None


@pytest.mark.parametrize("known", [True, False])
def test_parts_add_up(known: bool) -> None:
    one = DeadGroups(groups=4, all_fail=2, all_pass=1, by_reward=3 if known else None, by_step=((1, 4, 3),))
    other = DeadGroups(groups=2, all_fail=0, all_pass=1, by_reward=0, by_step=((1, 1, 0), (2, 1, 0)))
    both = merged([Provenance(dead_groups=one), Provenance(dead_groups=other)]).dead_groups
    assert both is not None
    assert (both.groups, both.by_pass, both.by_reward) == (6, 4, 3 if known else None)
    assert both.by_step == ((1, 5, 3), (2, 1, 0))
    assert merged([Provenance(dead_groups=one), Provenance()]).dead_groups is None
