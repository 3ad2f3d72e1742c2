"""ms-swift's completions.jsonl: one generation batch a line, every column a list."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.groups_reader import read_groups
from tests.conftest import ROOT
from tests.test_formats_trl import told
from tests.trl_log import group

DATA = ROOT / "tests" / "data" / "ms_swift"
NAN = float("nan")


def line(step: int, rewards: list[list[float | None]], tag: str = "", **extra: Any) -> dict[str, Any]:
    rows = [
        row
        for i, group_rewards in enumerate(rewards)
        for row in group(f"p{i}", group_rewards, "Accuracy", f"{tag}{step}.{i}.")
    ]
    columns = {name: [row[name] for row in rows] for name in ("prompt", "completion", "Accuracy", "advantage")}
    columns["advantages"] = columns.pop("advantage")
    return {"step": [str(step)] * len(rows), **columns, **extra}


def write(folder: Path, *lines: Any, name: str = "completions.jsonl") -> Path:
    path = folder / name
    text = "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in lines)
    path.write_text(text, encoding="utf-8")
    return path


def test_trap_12_a_column_of_lists_a_step() -> None:
    pilot = gp.read_pilot(DATA)
    assert pilot.provenance.format == "ms-swift"
    assert (pilot.prompts, pilot.total_rollouts) == (8, 128)
    groups = read_groups(DATA / "completions.jsonl")
    assert groups.rollouts.tolist() == [8] * 16
    assert groups.dead_by_step()[2].tolist() == [5, 5]
    with (DATA / "completions.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(text) for text in file]
    silent = [np.abs(np.reshape(row["advantages"], (-1, 8))).max(axis=1) == 0 for row in rows]
    assert groups.dead.tolist() == np.concatenate(silent).tolist()


def test_trap_5_the_logged_spread_is_not_used(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "run")
    before = read_groups(tmp_path / "run").dead
    log = (tmp_path / "run" / "logging.jsonl").read_text(encoding="utf-8")
    (tmp_path / "run" / "logging.jsonl").write_text(
        log.replace('"reward_std": 0.21', '"reward_std": 0.0'), encoding="utf-8"
    )
    assert read_groups(tmp_path / "run").dead.tolist() == before.tolist()


def test_trap_1_and_2_repeats_and_gaps(tmp_path: Path) -> None:
    first = line(2, [[1, 0], [1, 1]])
    again = first | {"step": ["4"] * 4}
    write(tmp_path, first, again, line(6, [[0, 0], [1, 0]]))
    pilot = gp.read_pilot(tmp_path)
    assert pilot.dropped == {"duplicate_rollouts": 4}
    assert pilot.total_rollouts == 8
    assert told(pilot.notes, "tables of 3 of 6 steps were read, 3 are missing")


def test_a_second_line_of_a_step_is_evaluation(tmp_path: Path) -> None:
    train = line(1, [[1, 0, 0], [0, 0, 0]])
    window = line(1, [[0, 0, 0], [1, 1, 1]], tag="e")  # the window keeps the last group of training before its own
    for name in ("prompt", "completion", "Accuracy"):
        window[name][:3] = train[name][3:]
    path = write(tmp_path, train, window)
    pilot = gp.read_pilot(path)
    assert pilot.dropped == {"duplicate_rollouts": 3, "eval_rows": 3}
    assert pilot.total_rollouts == 6
    assert gp.read_pilot(path, split="eval").successes.tolist() == [3]


def test_failed_scoring_is_nan_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, line(1, [[1, None, 0], [1, None, None]]))
    assert "null" in path.read_text(encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace("null", "NaN"), encoding="utf-8")
    groups = read_groups(path)
    assert groups.scored.tolist() == [2, 1]
    assert groups.dead.tolist() == [False, True]
    assert gp.read_pilot(path).dropped == {"missing_reward": 3}


def test_settings_beside_it(tmp_path: Path) -> None:
    (tmp_path / "args.json").write_text('{"num_generations": 2, "temperature": 0.9}', encoding="utf-8")
    path = write(tmp_path, line(1, [[1, 0], [0, 0]]))
    pilot = gp.read_pilot(path)
    assert told(pilot.notes, "groups of 2 (num_generations of args.json)")
    assert pilot.temperature is not None
    assert set(pilot.temperature.tolist()) == {0.9}
    (tmp_path / "args.json").write_text('{"num_generations": 3}', encoding="utf-8")
    with pytest.raises(PilotFormatError, match=r"4 rows are no whole number of groups of 3 .*; 1 is left over"):
        gp.read_pilot(path)
    assert read_groups(path, rollouts_per_prompt=2).groups == 2


def test_trap_7_survivors_of_dynamic_sampling(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mixed: list[list[float | None]] = [
        [1.0, 0.0, 0.0, 0.0] if rng.random() < 0.5 else [1.0, 1.0, 1.0, 0.0] for _ in range(60)
    ]
    path = write(tmp_path, line(1, mixed))
    groups = read_groups(path)
    assert groups.provenance.filtered is not None
    assert "no group of 60 is dead, which has a chance of at most" in groups.provenance.filtered
    assert read_groups(write(tmp_path, line(1, mixed[:8]))).provenance.filtered is None  # 8 such groups are no proof
    (tmp_path / "args.json").write_text('{"num_generations": 4, "dynamic_sample": true}', encoding="utf-8")
    assert "dynamic_sample of args.json" in str(gp.read_pilot(path).provenance.filtered)
    (tmp_path / "args.json").write_text('{"num_generations": 4, "dynamic_sample": false}', encoding="utf-8")
    assert gp.read_pilot(write(tmp_path, line(1, mixed))).provenance.filtered is None


def test_several_rewards_and_columns_behind_the_advantages(tmp_path: Path) -> None:
    row = line(1, [[1, 0], [0, 0]], solution=["s"] * 4, level=["a", "a", "b", "b"])
    names = list(row)
    row["Format"] = [0.0, 0.0, 1.0, 1.0]
    names.insert(names.index("advantages"), "Format")
    path = write(tmp_path, {name: row[name] for name in names})
    with pytest.raises(PilotFormatError, match=r"holds 2 reward functions \(Accuracy, Format\)"):
        gp.read_pilot(path)
    pilot = gp.read_pilot(path, reward="Accuracy", stratum="level")
    assert pilot.stratum is not None
    assert pilot.stratum.tolist() == ["a", "b"]
    assert gp.read_pilot(path, reward="Format", where={"level": "b"}).successes.sum() == 2
    assert gp.read_pilot(path, reward_weights={"Accuracy": 1, "Format": 1}, pass_threshold=1).successes.sum() == 3


GOOD = line(1, [[1, 0], [0, 0]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({k: v for k, v in GOOD.items() if k != "Accuracy"}, r"completions\.jsonl:2: Accuracy must be a list .*; got None"),
        (GOOD | {"completion": "text"}, r":2: completion must be a list of one value a rollout; got text"),
        (GOOD | {"Accuracy": [1.0]}, r":2: Accuracy has 1 values for 4 prompts\. Is the line complete\?"),
        (GOOD | {"Accuracy": [1.0, "good", 0.0, 0.0]}, r":2, item 2: Accuracy is good, which is no number"),
        (GOOD | {"prompt": []}, r":2: step has 4 values for 0 prompts"),
        ([1, 2], r":2: is not a JSON object"),
        ("{", r":2: is not a JSON object"),
    ],
)  # fmt: skip
def test_lines_broken_in_the_middle(tmp_path: Path, bad: Any, message: str) -> None:
    path = write(tmp_path, GOOD, bad, line(3, [[1, 1], [1, 0]]))
    with pytest.raises(PilotFormatError, match=message) as error:
        gp.read_pilot(path, format="ms-swift")
    assert "\n" not in str(error.value)


def test_empty_and_cut_off_lines_are_said(tmp_path: Path) -> None:
    empty: dict[str, list[Any]] = {name: [] for name in GOOD}
    path = write(tmp_path, GOOD, empty)
    path.write_text(path.read_text(encoding="utf-8") + json.dumps(GOOD)[:50], encoding="utf-8")
    pilot = gp.read_pilot(path)
    assert pilot.dropped == {"truncated_last_line": 1}
    assert told(pilot.notes, "1 line holds no rollouts")
    with pytest.raises(PilotFormatError, match="holds no rollout"):
        gp.read_pilot(write(tmp_path, empty))


def test_rows_are_no_lines_of_lists(tmp_path: Path) -> None:
    path = write(tmp_path, {"step": "1", "prompt": "p", "completion": "c", "reward": 1.0, "advantages": [0.1]})
    assert gp.read_pilot(path).provenance.format == "table"
