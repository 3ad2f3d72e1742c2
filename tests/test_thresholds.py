"""The pass threshold that is proposed where rewards are neither 0 nor 1."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.readers.thresholds import LEVEL_ROWS, OddRewards, proposed_threshold


def write(path: Path, rewards: list[float]) -> Path:
    path.write_text("".join(json.dumps({"id": f"q{i % 3}", "reward": r}) + "\n" for i, r in enumerate(rewards)))
    return path


@pytest.mark.parametrize(
    ("levels", "proposed"),
    [
        ([-1.0, 1.0], 1.0),
        ([0.0, 10.0], 10.0),
        ([-0.1, 0.0, 0.9, 1.0], 0.9),
        ([0.0, 0.1, 1.0, 1.1], 1.0),
        ([0.0, 0.5, 1.0], 1.0),
        ([-1.0, 0.0, 1.0], 1.0),
        ([0.0, 0.1, 0.2], 0.2),
        ([10.0], None),
        ([0.0, 0.2, 0.3, 0.4, 0.6, 0.9, 1.0], None),
        ([-1e308, 1e308], 1e308),
    ],
)
def test_the_smallest_level_above_the_widest_gap(levels: list[float], proposed: float | None) -> None:
    assert proposed_threshold(levels) == proposed


def test_levels_of_later_files_count(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", [-0.1, 0.0, -0.1])  # no pass yet: alone these would propose 0
    write(tmp_path / "2.jsonl", [0.0, 1.0, 0.9])
    with pytest.raises(PilotFormatError) as error:
        read_pilot(str(tmp_path / "*.jsonl"))
    assert "1.jsonl:1: reward is -0.1" in str(error.value)
    assert "(values seen: -0.1, 0, 0.9, 1). Pass --pass-threshold, e.g. 0.9 " in str(error.value)


def test_levels_of_earlier_rows_count(tmp_path: Path) -> None:
    write(tmp_path / "1.jsonl", [0.0, 1.0])
    write(tmp_path / "2.jsonl", [0.9, 0.9])
    with pytest.raises(PilotFormatError, match=r"2.jsonl:1: reward is 0.9.*values seen: 0, 0.9, 1\)"):
        read_pilot(str(tmp_path / "*.jsonl"))


def test_graded_rewards_get_no_proposal(tmp_path: Path) -> None:
    path = write(tmp_path / "graded.jsonl", [i / 10 for i in range(11)])
    with pytest.raises(PilotFormatError, match=r"--pass-threshold X .*that is yours to define\."):
        read_pilot(path)
    with pytest.raises(PilotFormatError, match="that is yours to define"):
        read_pilot(pl.DataFrame({"id": ["a"] * 11, "reward": [i / 10 for i in range(11)]}))


def test_reading_on_for_levels_ends() -> None:
    import numpy as np

    odd = OddRewards(place="x:1", column="reward", value=-1.0, levels=set())
    odd.take(np.full(LEVEL_ROWS, -1.0), ())
    with pytest.raises(PilotFormatError, match="values seen: -1, 1"):
        odd.take(np.array([1.0]), ())
