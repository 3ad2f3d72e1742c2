"""Dumps of SkyRL, ROLL and open-instruct."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.readers.groups_reader import read_groups

DATA = Path(__file__).parent / "data"
SKYRL, ROLL, OPEN_INSTRUCT = DATA / "skyrl", DATA / "roll", DATA / "open_instruct"


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def sky(prompt: Any, score: Any, **more: Any) -> dict[str, Any]:
    return {
        "input_prompt": prompt, "output_response": "x", "score": score, "stop_reason": "stop", "env_class": "gsm8k",
        "env_extras": {}, "data_source": "toy",
    } | more  # fmt: skip


def instruct(step: int, idx: int, reward: float, *, prompt: int = 5, **more: Any) -> dict[str, Any]:
    return {
        "step": step, "sample_idx": 0, "prompt_idx": idx, "prompt_tokens": [prompt, 7], "response_tokens": [3, 4, 5],
        "reward": reward, "advantage": 0.0, "finish_reason": "stop", "dataset": "gsm8k", "ground_truth": [1],
        "request_info": None, "logprobs": [-0.1],
    } | more  # fmt: skip


def step_of(ids: Sequence[Any], scores: Sequence[Any], step: int = 1, **more: Any) -> dict[str, Any]:
    n = len(ids)
    return {"global_step": [step] * n, "id": list(ids), "responses": ["x"] * n, "scores": list(scores)} | more


# SkyRL


def test_skyrl_evaluations_are_grouped_by_prompt() -> None:
    pilot = read_pilot(SKYRL)
    rows = rows_of(SKYRL / "dumped_evals" / "global_step_5_evals" / "toy.jsonl")
    expected: dict[str, float] = {}
    for row in rows:
        expected[row["input_prompt"]] = expected.get(row["input_prompt"], 0) + row["score"]
    assert dict(zip(pilot.prompt_id.tolist(), pilot.successes.tolist(), strict=True)) == expected  # type: ignore[union-attr]
    assert pilot.rollouts.tolist() == [4] * 8
    assert pilot.notes[0] == "read as skyrl-eval: 1 file, 32 rows, 8 groups of 4, step 5."
    assert set(pilot.stratum.tolist()) == {"toy"}  # type: ignore[union-attr]
    assert read_groups(SKYRL).dead_groups == 5


def test_skyrl_aggregates_are_no_rollouts() -> None:
    path = SKYRL / "dumped_evals" / "global_step_5_evals" / "aggregated_results.jsonl"
    with pytest.raises(PilotFormatError, match=r"aggregated_results.jsonl: no column holds rewards"):
        read_pilot(path)


def test_skyrl_scores_per_token_are_summed(tmp_path: Path) -> None:
    scores = [[0.0, 0.0, 1.0], [0.0], [0.5, 0.5], 1.0, 0.0, None, []]
    pilot = read_pilot(write(tmp_path / "t.jsonl", [sky("q", s) for s in scores]))
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([3], [5])
    assert pilot.dropped == {"missing_reward": 2}
    write(tmp_path / "t.jsonl", [sky("q", [1.0, "x"])])
    with pytest.raises(PilotFormatError, match=r"t.jsonl:1: score must be a number or a list of numbers; got"):
        read_pilot(tmp_path / "t.jsonl")


def test_skyrl_chat_prompts_truncation_and_missing_prompts(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "q"}]
    rows = [sky(chat, 1.0), sky(chat, 0.0, stop_reason="length")] + [sky("b", 1.0)] * 60 + [sky(None, 1.0)]
    path = write(tmp_path / "t.jsonl", rows)
    with pytest.raises(PilotFormatError, match=r"t.jsonl:63: holds no input_prompt. Repair"):
        read_pilot(path)
    pilot = read_pilot(path, skip_malformed=True)
    assert pilot.rollouts.tolist() == [2, 60]
    assert "1 rollout was cut off at the limit of length, and counted as their rewards say." in pilot.notes
    assert read_pilot(path, skip_malformed=True, where={"truncated": "false"}).rollouts.tolist() == [1, 60]


def test_skyrl_steps_and_data_sources(tmp_path: Path) -> None:
    for step in (5, 10):
        for source in ("a", "b"):
            path = tmp_path / f"global_step_{step}_evals" / f"{source}.jsonl"
            write(path, [sky("q", float(step == 10), data_source=source)] * 4)
    log = read_groups(tmp_path)
    assert sorted(log.step.tolist()) == [5, 5, 10, 10]
    assert log.rollouts.tolist() == [4] * 4
    last = read_pilot(tmp_path, policy_steps=(10, 10))
    assert (last.successes.tolist(), last.stratum.tolist()) == ([4, 4], ["a", "b"])  # type: ignore[union-attr]


def test_skyrl_equal_evaluations_of_two_steps_are_no_copies(tmp_path: Path) -> None:
    for step in (5, 10):
        for folder in ("run", "copy"):
            write(tmp_path / folder / f"global_step_{step}_evals" / "a.jsonl", [sky("q", 1.0)] * 4)
    log = read_groups(tmp_path)
    assert log.step.tolist() == [5, 10]
    assert any(note.startswith("2 files are empty or the copy of another") for note in log.notes)


# ROLL


def test_trap_12_a_line_of_roll_is_a_step_of_columns() -> None:
    pilot = read_pilot(ROLL)
    line = rows_of(ROLL / "rollout_dump_data.step_1.jsonl")[0]
    assert pilot.notes[0] == "read as roll: 1 file, 64 rows, 8 groups of 8, step 1."
    assert pilot.rollouts.tolist() == [8] * 8
    assert pilot.successes.sum() == sum(line["scores"])
    assert read_groups(ROLL).dead_groups == 3
    assert set(pilot.stratum.tolist()) == {"math_rule"}  # type: ignore[union-attr]


def test_roll_without_prompts_goes_by_id_and_reads_temperatures(tmp_path: Path) -> None:
    parameters = ['{"temperature": 0.7}', {"temperature": 0.7}, "{bad", None]
    lines = [step_of("aabb", [1, 0, 1, 1], step, sampling_params=parameters, tag=list("xxyy")) for step in (1, 2)]
    pilot = read_pilot(write(tmp_path / "d.jsonl", lines))
    assert pilot.prompt_id.tolist() == ["a", "b"]  # type: ignore[union-attr]
    assert pilot.rollouts.tolist() == [4, 4]
    assert np.all(pilot.temperature == 0.7)  # the only one there is
    assert pilot.stratum.tolist() == ["x", "y"]  # type: ignore[union-attr]
    assert read_pilot(tmp_path / "d.jsonl", where={"tag": "y"}).rollouts.tolist() == [4]


def test_roll_ids_that_two_prompts_share_are_two_groups(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", [step_of("0000", [1, 1, 0, 0], prompt=["p", "p", "q", "q"])])
    assert read_groups(path).dead_groups == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0, 0.0, 1.0]}, "global_step holds 4 items for 3 scores"),
        ({"scores": "1.0"}, "scores must be a list of rewards; got 1.0"),
        ({"id": "a"}, "id must be a list with one item a rollout; got a"),
        ({"tag": ["x"]}, "tag holds 1 items for 4 scores"),
    ],
)
def test_roll_columns_of_unequal_lengths_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    lines = [step_of("aabb", [1, 0, 1, 1], step) for step in range(60)]
    path = write(tmp_path / "d.jsonl", [*lines, lines[0] | change])
    with pytest.raises(PilotFormatError, match=rf"d.jsonl:61: {message}\. Repair"):
        read_pilot(path)
    pilot = read_pilot(path, skip_malformed=True)
    assert pilot.dropped == {"malformed_line": 1}
    assert pilot.rollouts.tolist() == [120, 120]


def test_roll_faults_and_empty_steps(tmp_path: Path) -> None:
    path = write(tmp_path / "d.jsonl", [step_of("aabb", [1, 0, None, 1]), step_of("", [], 2)])
    pilot = read_pilot(path)
    assert pilot.rollouts.tolist() == [2, 1]
    assert pilot.dropped == {"missing_reward": 1}
    write(path, [step_of("ab", [1, "x"])])
    with pytest.raises(PilotFormatError, match=r"d.jsonl:1, item 2: scores is x, which is neither a number"):
        read_pilot(path)


def test_trap_7_survivors_of_rolls_query_filter(tmp_path: Path) -> None:
    ids = [f"{i:03}" for i in range(60) for _ in range(4)]
    filtered = read_pilot(write(tmp_path / "d.jsonl", [step_of(ids, [1, 0] * 120)])).provenance.filtered
    assert filtered is not None
    assert "query_filter_config dropped them" in filtered


# open-instruct


def test_trap_7_open_instruct_saves_survivors_unless_told_otherwise(tmp_path: Path) -> None:
    pilot = read_pilot(OPEN_INSTRUCT, pass_threshold=10)
    assert pilot.provenance.filtered is not None
    assert "filter_zero_std_samples" in pilot.provenance.filtered
    assert pilot.rollouts.tolist() == [4] * 8  # prompts 4 and 5 are in both steps and stay apart
    assert read_groups(OPEN_INSTRUCT).dead_groups == 0
    shutil.copytree(OPEN_INSTRUCT, tmp_path / "off")
    write(tmp_path / "off" / "toy_rollouts_000001.jsonl", [instruct(3, 0, 0.0, prompt=99)] * 4)
    whole = read_pilot(tmp_path / "off", pass_threshold=10)
    assert whole.provenance.filtered is None
    assert whole.rollouts.sum() == 36
    assert max(whole.rollouts) == 8


def test_open_instructs_reward_of_10_is_proposed() -> None:
    with pytest.raises(PilotFormatError, match=r"values seen: 0, 10\). Pass --pass-threshold, e.g. 10 "):
        read_pilot(OPEN_INSTRUCT)


def test_open_instruct_metadata_lengths_and_dataset() -> None:
    pilot = read_pilot(OPEN_INSTRUCT, pass_threshold=10)
    assert pilot.provenance.policies == ("toy",)
    assert np.all(pilot.response_tokens == 2)
    assert set(pilot.stratum.tolist()) == {"gsm8k"}  # type: ignore[union-attr]
    assert "prompts are named by a hash of their tokens." in pilot.notes


def test_open_instruct_groups_go_on_in_the_next_shard_and_steps_restart(tmp_path: Path) -> None:
    write(tmp_path / "r_rollouts_000000.jsonl", [instruct(1, 0, 0.0), instruct(1, 0, 0.0)])
    write(tmp_path / "r_rollouts_000001.jsonl", [instruct(1, 0, 10.0), instruct(2, 0, 10.0), instruct(2, 0, 0.0)])
    log = read_groups(tmp_path)
    assert log.rollouts.tolist() == [3, 2]
    assert log.step.tolist() == [1, 2]
    assert len(set(log.prompt_id.tolist())) == 1


def test_open_instruct_runs_side_by_side_do_not_share_groups(tmp_path: Path) -> None:
    for run, reward in (("a", 0.0), ("b", 10.0)):
        write(tmp_path / f"{run}_rollouts_000000.jsonl", [instruct(1, 0, reward)] * 2)
    assert read_groups(tmp_path).dead_groups == 2


def test_open_instruct_nan_truncation_and_faults(tmp_path: Path) -> None:
    rows = [instruct(1, 0, 10.0 * (i % 2), logprobs=[float("nan")], finish_reason="length") for i in range(60)]
    path = write(tmp_path / "r_rollouts_000000.jsonl", [*rows, instruct(1, 0, 0.0, prompt_tokens="x")])
    with pytest.raises(PilotFormatError, match=r'jsonl:61: prompt_tokens must be a list; got "x"\. Repair'):
        read_pilot(path, pass_threshold=10)
    pilot = read_pilot(path, pass_threshold=10, skip_malformed=True)
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([30], [60])
    assert pilot.response_tokens is not None
    assert pilot.response_tokens.tolist() == [3]
    assert any(note.startswith("60 rollouts were cut off") for note in pilot.notes)
    write(path, [*rows, instruct(1, 0, 0.0, prompt_idx=None)])
    with pytest.raises(PilotFormatError, match="jsonl:61: prompt_idx must be a whole number; got None"):
        read_pilot(path, pass_threshold=10)
