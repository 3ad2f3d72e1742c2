"""Details of the readers that no other test holds: each line here fails if one condition of a reader is turned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError
from grpo_plan.quantities import Absent, Cause, Quantity, RunView
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.rates import NotARate, RateColumn, passes_of, reading_of
from tests.test_dumps_tinker import summary
from tests.test_dumps_tinker import write as write_summaries
from tests.test_formats_evals import episode, log, sample, v0
from tests.test_formats_ms_swift import line
from tests.test_formats_ms_swift import write as write_lines
from tests.test_formats_real_folders import found, write


def notes(pilot: gp.Pilot) -> str:
    return " ".join(pilot.notes)


# --- metrics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batches", "filtered"), [(1.0, False), (2.0, True)])
def test_two_generation_batches_in_a_step_are_a_filter(batches: float, filtered: bool) -> None:
    columns = {"frac_reward_zero_std": [0.25, 0.5], "reward_std": [0.1, 0.2], "num_gen_batches": [1.0, batches]}
    dead = found("dead_fraction", columns, scale_rewards="group")
    assert isinstance(dead, Absent) == filtered
    assert not isinstance(dead, Absent) or dead.cause is Cause.SURVIVORS_ONLY


def test_the_last_part_of_a_setting_counts_if_it_is_the_only_one() -> None:
    one = RunView(tool=None, size=0, metrics={}, config={"a.temperature": 0.5, "b.temperature": None})
    two = RunView(tool=None, size=0, metrics={}, config={"a.temperature": 0.5, "b.temperature": 0.7})
    assert (one.setting("temperature"), two.setting("temperature")) == (0.5, None)


@pytest.mark.parametrize("setting", ["multi_objective_aggregation", "log_unique_prompts"])
def test_settings_that_trl_has_since_0_27_tell_the_kind_of_reward_std(setting: str) -> None:
    columns = {"frac_reward_zero_std": [0.25, 0.5], "reward_std": [0.1, 0.2], "reward": [0.4, 0.4]}
    assert isinstance(found("reward_std", columns, **{setting: "x"}), Quantity)
    older = found("reward_std", columns, num_generations_eval=4)
    assert isinstance(older, Absent)
    assert older.cause is Cause.MEANING_UNKNOWN


# --- rates ----------------------------------------------------------------------------------------------------------


def test_a_rate_midway_between_two_counts_is_refused() -> None:
    with pytest.raises(NotARate, match="several"):
        passes_of(Decimal("0.1"), 20, 1)  # 1/20 and 3/20 are half a unit of the digit away
    assert passes_of(Decimal("0.1"), 20) == 2


def test_whole_percentages_that_reach_100_need_no_other_sign() -> None:
    def column(values: Sequence[int]) -> RateColumn:
        rates = RateColumn()
        rates.add(list(values))
        return rates

    reading, _ = reading_of(column([0, 25, 50, 100]), "file", "rate", fails=False, known_n=True)
    assert reading.percent
    assert reading.passes(25, 4) == 1
    with pytest.raises(PilotFormatError, match="percentages or counts"):
        reading_of(column([0, 25, 50, 99]), "file", "rate", fails=False, known_n=True)


# --- rollouts -------------------------------------------------------------------------------------------------------


def test_one_run_of_tinker_is_one_source_and_incomplete_lengths_are_unknown(tmp_path: Path) -> None:
    for iteration in (0, 1):
        steps = [{"ac_len": 3, "metrics": {"correct": 1.0}}, {"metrics": {}}]
        rows = [summary(0, t, float(t), iteration=iteration, steps=steps) for t in (0, 1)]
        write_summaries(tmp_path / f"iteration_00000{iteration}" / "train_rollout_summaries.jsonl", rows)
    pilot = gp.read_pilot(tmp_path)
    assert "are read as one source" not in notes(pilot)
    assert pilot.response_tokens is None


def test_the_temperature_of_tinker_is_that_of_training(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"temperature": 0.7}', encoding="utf-8")
    for split in ("train", "eval_math"):
        rows = [summary(0, t, float(t), split=split.partition("_")[0]) for t in (0, 1)]
        write_summaries(tmp_path / "iteration_000000" / f"{split}_rollout_summaries.jsonl", rows)
    assert gp.read_pilot(tmp_path).temperatures == (0.7,)
    assert gp.read_pilot(tmp_path, split="eval").temperature is None


def test_survivors_of_two_steps_are_counted_by_group(tmp_path: Path) -> None:
    """A prompt that was mixed twice are two mixed groups, not one prompt with twice the rollouts."""
    for step in (5, 6):
        rows = [v0(i, float(j == 0)) for i in range(40) for j in range(4)]
        write(tmp_path / "rollouts" / f"step_{step}" / "train_rollouts.jsonl", [row | {"x": step} for row in rows])
    pilot = gp.read_pilot(tmp_path)
    assert pilot.filtered is not None
    assert pilot.rollouts.tolist() == [4] * 80


@pytest.mark.parametrize(
    ("more", "cut"),
    [
        ({"stop_condition": "max_turns"}, 1),
        ({"stop_condition": "max_input_tokens"}, 1),
        ({"stop_condition": "max_output_tokens"}, 1),
        ({"stop_condition": "max_total_tokens"}, 1),
        ({"stop_condition": "compaction_failed"}, 1),
        ({"stop_condition": "has_final_answer"}, 0),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}, 0),
        ({"calls": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}, 1),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop", "error": {"type": "x"}}]}, 1),
    ],
)
def test_what_cuts_off_a_trace_of_verifiers(tmp_path: Path, more: Mapping[str, Any], cut: int) -> None:
    rows = [episode(i) for i in range(4)]
    rows[0]["traces"][0] |= more
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert ("1 of 4 rollouts were cut off by a limit" in notes(pilot)) == bool(cut)


def test_the_key_of_a_task_comes_before_its_hash(tmp_path: Path) -> None:
    rows = [episode(i) for i in range(4)]
    for i, row in enumerate(rows):
        row["task"] = {"key": "same", "hash": f"h{i}"}
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert pilot.prompt_id is not None
    assert pilot.prompt_id.tolist() == ["same"]


def test_a_partly_right_answer_is_half_a_reward(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log([sample(i, value) for i, value in enumerate("CPI")]), indent=1), encoding="utf-8")
    with pytest.raises(PilotFormatError, match=r"s is 0\.5, neither 0 nor 1"):
        gp.read_pilot(path)


def test_a_group_that_lacks_rows_is_told(tmp_path: Path) -> None:
    rows = [
        {"input": f"q{p}", "output": "", "gts": "", "score": float(s % 2), "step": 1}
        for p in range(4) for s in range(4 - (p == 3))
    ]  # fmt: skip
    pilot = gp.read_pilot(write(tmp_path / "1.jsonl", rows))
    assert "1 of 4 groups hold another number of rollouts than 4: rows are missing." in notes(pilot)
    assert "hold a multiple" not in notes(pilot)


def test_a_window_that_cuts_the_first_group_of_an_evaluation(tmp_path: Path) -> None:
    """Of 9 rows of evaluation the window kept the last 8: the first group lacks its beginning."""
    train, window = line(1, [[1, 0]] * 4), line(1, [[1, 1], [1, 0, 0], [0, 0, 0]], tag="e")
    path = write_lines(tmp_path, train, window)
    groups = read_groups(path, split="eval")
    assert groups.rollouts.tolist() == [3, 3]
    assert groups.dropped["rows_of_cut_groups"] == 2
