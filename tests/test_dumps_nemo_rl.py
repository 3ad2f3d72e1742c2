"""NeMo-RL's dumps: lists of one item, no prompt, a group size that is told or given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.readers.groups_reader import read_groups

DATA = Path(__file__).parent / "data" / "nemo_rl"


def row(idx: int, reward: Any, prompt: int = 0, **more: Any) -> dict[str, Any]:
    """A row of training; the prompt is 10 + prompt and 7, the answer two tokens that differ from row to row."""
    return {
        "content": ["x"], "rewards": [reward], "input_lengths": [4], "token_ids": [[10 + prompt, 7, idx, 3]],
        "token_loss_mask": [[0, 0, 1, 1]], "advantages": [[0.0] * 4], "generation_logprobs": [[0.0] * 4], "idx": idx,
    } | more  # fmt: skip


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def step(prompts: str, size: int, **more: Any) -> list[dict[str, Any]]:
    """Rows of a step: one letter a group, capitals pass."""
    return [
        row(g * size + i, float(p.isupper() and i < 2), ord(p.lower()), **more)
        for g, p in enumerate(prompts)
        for i in range(size)
    ]


def test_trap_12_values_are_lists_of_one_item() -> None:
    pilot = read_pilot(DATA, rollouts_per_prompt=8)
    assert pilot.notes[0] == "read as nemo-rl: 2 files, 128 rows, 16 groups of 8, steps 1 to 2."
    rewards = [json.loads(line)["rewards"][0] for line in (DATA / "train_data_step1.jsonl").read_text().splitlines()]
    expected = [int(sum(rewards[i : i + 8])) for i in range(0, 64, 8)]
    assert pilot.successes.tolist()[:8] == expected
    assert pilot.rollouts.tolist() == [8] * 16  # groups of two steps do not join
    assert read_groups(DATA, rollouts_per_prompt=8).groups == 16


def test_the_group_size_is_asked_for_where_tokens_do_not_tell() -> None:
    with pytest.raises(PilotFormatError, match=r"step1.jsonl: its 64 rows name no prompt, .*--rollouts-per-prompt"):
        read_pilot(DATA)


def test_a_remainder_is_named() -> None:
    with pytest.raises(PilotFormatError, match=r"64 rows are 9 groups of 7 and 1 more. Is the group size right"):
        read_pilot(DATA, rollouts_per_prompt=7)


def test_the_group_size_is_told_from_prompt_tokens(tmp_path: Path) -> None:
    path = write(tmp_path / "train_data_step7.jsonl", step("aBccD", 4))  # c twice in a row: a run of 8
    log = read_groups(path)
    assert log.rollouts.tolist() == [4] * 5
    assert log.step.tolist() == [7] * 5
    assert log.dead.tolist() == [True, False, True, True, False]
    assert "groups are 4 consecutive rows, as their prompt tokens say; --rollouts-per-prompt overrides." in log.notes
    with pytest.raises(PilotFormatError, match=r"idx 4: has other prompt tokens than .* in its group of 5"):
        read_groups(path, rollouts_per_prompt=5)


def test_unequal_runs_of_prompts_do_not_tell(tmp_path: Path) -> None:
    rows = step("ab", 4) + [row(8 + i, 0.0, 99) for i in range(3)]
    with pytest.raises(PilotFormatError, match="its 11 rows name no prompt, and their tokens do not tell"):
        read_groups(write(tmp_path / "train_data_step1.jsonl", rows))


def test_a_later_step_with_other_runs_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train_data_step1.jsonl", step("aabb", 4))  # tells 8
    write(tmp_path / "train_data_step2.jsonl", step("abcd", 4))
    with pytest.raises(PilotFormatError, match=r"step2.jsonl: idx 4: has other prompt tokens .* group of 8"):
        read_groups(tmp_path)
    assert read_groups(tmp_path, rollouts_per_prompt=4).groups == 8


def test_nan_elsewhere_in_a_row_is_no_matter(tmp_path: Path) -> None:
    rows = step("aB", 4, advantages=[[float("nan")] * 4])
    assert read_pilot(write(tmp_path / "train_data_step1.jsonl", rows)).successes.tolist() == [0, 2]


def test_trap_7_filtered_rewards_are_those_of_the_rows(tmp_path: Path) -> None:
    rows = [r | {"filtered_rewards": r["rewards"], "rewards": [0.0]} for r in step("AB", 4)]
    path = write(tmp_path / "train_data_step1.jsonl", rows)
    pilot = read_pilot(path)
    assert pilot.successes.tolist() == [2, 2]
    assert pilot.provenance.filtered is not None
    assert "grpo.use_dynamic_sampling" in pilot.provenance.filtered
    with pytest.raises(PilotFormatError, match="'rewards' are those before filtering, of other rows"):
        read_pilot(path, reward="rewards")
    del rows[60 % len(rows)]["filtered_rewards"]
    write(path, rows)
    with pytest.raises(PilotFormatError, match=r"jsonl:5: filtered_rewards must be a list of one reward; got None"):
        read_pilot(path)


def test_validation_is_dropped_beside_training_and_read_alone(tmp_path: Path) -> None:
    shutil.copy(DATA / "train_data_step1.jsonl", tmp_path)
    rows = [{"content": ["x"], "rewards": [float(i % 2)], "idx": i} for i in range(6)]
    path = write(tmp_path / "val_data_step1.jsonl", rows)
    pilot = read_pilot(tmp_path, rollouts_per_prompt=8)
    assert pilot.dropped == {"eval_rows": 6}
    assert pilot.prompts == 8
    alone = read_pilot(path, rollouts_per_prompt=2)
    assert alone.successes.tolist() == [1, 1, 1]
    assert "holds rows of evaluation only; they are counted." in alone.notes
    assert read_pilot(tmp_path, rollouts_per_prompt=2, split="eval").successes.tolist() == [1, 1, 1]
    with pytest.raises(PilotFormatError, match=r"val_data_step1.jsonl: its 6 rows name no prompt"):
        read_pilot(path)


def test_two_experiments_do_not_share_groups(tmp_path: Path) -> None:
    for exp in ("exp_001", "exp_002"):
        write(tmp_path / exp / "train_data_step1.jsonl", step("aB" if exp == "exp_001" else "AB", 4))
    log = read_groups(tmp_path)
    assert log.groups == 4
    assert log.prompt_id.tolist()[0] == "exp_001 train_data_step1 group 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": 1.0}, "rewards must be a list of one reward; got 1"),
        ({"rewards": []}, r"rewards must be a list of one reward; got \[\]"),
        ({"idx": None}, "idx must be the number of the row; got None"),
        ({"idx": 3}, "idx 3 occurs twice in the file, so its groups cannot be told"),
    ],
)
def test_a_faulty_row_is_named_or_counted(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rows = step("aB" * 8, 4)
    rows[60] |= change
    path = write(tmp_path / "train_data_step1.jsonl", rows)
    with pytest.raises(PilotFormatError, match=rf"jsonl:61: {message}\. Repair"):
        read_pilot(path)
    pilot = read_pilot(path, skip_malformed=True, rollouts_per_prompt=4)
    assert pilot.dropped == {"malformed_line": 1}
    assert sorted(pilot.rollouts.tolist()) == [3] + [4] * 15


def test_missing_rows_are_refused_and_a_cut_line_is_counted(tmp_path: Path) -> None:
    rows = step("aBc", 4)
    path = write(tmp_path / "train_data_step1.jsonl", rows[:5] + rows[6:])
    with pytest.raises(PilotFormatError, match="idx goes to 11 in 11 rows: rows are missing"):
        read_pilot(path, rollouts_per_prompt=4)
    write(path, rows)
    path.write_text(path.read_text()[:-9])
    pilot = read_pilot(path, rollouts_per_prompt=4)
    assert pilot.dropped == {"truncated_last_line": 1}
    assert pilot.rollouts.tolist() == [4, 4, 3]


def test_rows_can_be_filtered_by_their_items(tmp_path: Path) -> None:
    rows = step("AB", 4, sample_loss_mask=[1.0])
    rows[0]["sample_loss_mask"] = [0.0]
    pilot = read_pilot(write(tmp_path / "train_data_step1.jsonl", rows), where={"sample_loss_mask": "1"})
    assert pilot.rollouts.tolist() == [3, 4]
    assert pilot.dropped == {"rows_outside_where": 1}


def test_a_group_size_that_prompts_contradict_is_doubted(tmp_path: Path) -> None:
    path = write(tmp_path / "train_data_step1.jsonl", step("aBcD", 8))
    notes = read_pilot(path, rollouts_per_prompt=4).notes
    assert any("groups of 8, it seems, and not of 4" in note for note in notes)
    assert not any("it seems" in note for note in read_pilot(path, rollouts_per_prompt=8).notes)
