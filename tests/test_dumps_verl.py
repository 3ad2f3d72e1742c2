"""verl's dumps: V1 with uid, padding and sessions; the older ones by input text; validation beside training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.independence_reader import read_independence

DATA = Path(__file__).parent / "data" / "verl"


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def v1(prompt: str, session: int, score: Any, *, index: int = 0, step: int = 1, **more: Any) -> dict[str, Any]:
    row = {"input": f"ask {prompt}", "output": "x", "gts": "1", "score": score, "step": step}
    return row | {"uid": f"{prompt}_{session}_{index}"} | more


def legacy(prompt: str, score: float, *, step: int = 1, **more: Any) -> dict[str, Any]:
    return {"input": f"ask {prompt}", "output": "x", "gts": "1", "score": score, "step": step} | more


def counts(pilot: Any) -> dict[str, tuple[int, int]]:
    return {str(p): (int(k), int(n)) for p, k, n in zip(pilot.prompt_id, pilot.successes, pilot.rollouts, strict=True)}


def test_trap_12_padding_rows_of_v1_are_no_rollouts() -> None:
    pilot = read_pilot(DATA / "v1")
    assert pilot.dropped == {"padding_rows": 4}
    assert pilot.notes[0] == "read as verl-v1: 3 files, 196 rows, 24 groups of 8, steps 1 to 3."
    assert pilot.rollouts.tolist() == [24] * 8
    assert "" not in counts(pilot)
    groups = read_groups(DATA / "v1")
    assert (groups.groups, groups.dead_groups) == (24, 12)
    assert groups.provenance.filtered is None


def test_counts_of_v1_are_those_of_the_rows() -> None:
    expected: dict[str, list[float]] = {}
    for path in DATA.glob("v1/*.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            if not row["uid"].startswith("pad"):
                expected.setdefault(row["input"], []).append(row["score"])
    assert counts(read_pilot(DATA / "v1")) == {p: (int(sum(s)), len(s)) for p, s in expected.items()}


def test_the_last_output_of_a_session_counts(tmp_path: Path) -> None:
    rows = [
        v1("a", 0, 0.0, index=0), v1("a", 0, 0.0, index=1), v1("a", 0, 1.0, index=10), v1("a", 0, 0.0, index=2),
        v1("a", 1, 0.0), v1("a", 2, 1.0, index=1), v1("a", 2, 0.0, index=0), v1("b", 0, 1.0), v1("b", 0, 1.0),
    ]  # fmt: skip
    pilot = read_pilot(write(tmp_path / "1.jsonl", rows))
    assert counts(pilot) == {"ask a": (2, 3), "ask b": (1, 1)}
    assert pilot.dropped == {"earlier_outputs_of_a_session": 4, "repeated_rows": 1}


def test_a_prompt_drawn_twice_in_a_step_is_two_groups_in_v1(tmp_path: Path) -> None:
    rows = [v1("u1", s, 0.0, input="same") for s in range(4)] + [v1("u2", s, 1.0, input="same") for s in range(4)]
    path = write(tmp_path / "1.jsonl", rows)
    assert read_groups(path).dead_groups == 2
    assert counts(read_pilot(path)) == {"same": (4, 8)}


def test_trap_7_survivors_of_filter_groups_are_counted_group_by_group(tmp_path: Path) -> None:
    rows = [v1(f"{i:03}", s, float(s < 2), input=f"q{i % 30}") for i in range(60) for s in range(4)]
    pilot = read_pilot(write(tmp_path / "1.jsonl", rows))
    assert pilot.provenance.filtered is not None
    assert "algorithm.filter_groups dropped them" in pilot.provenance.filtered
    assert pilot.rollouts.tolist() == [4] * 60  # not [8] * 30: what was dropped are groups
    assert len(set(pilot.prompt_id.tolist())) == 30  # type: ignore[union-attr]
    one_dead = [v1("z", s, 0.0) for s in range(4)]
    whole = read_pilot(write(tmp_path / "1.jsonl", rows + one_dead))
    assert whole.provenance.filtered is None
    assert sorted(whole.rollouts.tolist()) == [4] + [8] * 30


def test_few_groups_without_a_dead_one_are_noted(tmp_path: Path) -> None:
    rows = [v1(f"{i}", s, float(s < 2)) for i in range(5) for s in range(8)]
    pilot = read_pilot(write(tmp_path / "1.jsonl", rows))
    assert pilot.provenance.filtered is None
    assert any("Whether algorithm.filter_groups dropped dead groups cannot be told" in note for note in pilot.notes)


def test_legacy_dumps_are_grouped_by_input_and_step() -> None:
    pilot = read_pilot(DATA / "legacy", reward="acc")
    assert pilot.notes[0] == "read as verl-legacy: 2 files, 128 rows, 16 groups of 8, steps 1 to 2."
    assert counts(pilot) == counts(read_pilot(DATA / "legacy", pass_threshold=1))
    groups = read_groups(DATA / "legacy")
    assert (groups.groups, groups.dead_groups) == (16, 8)
    assert (groups.reward_min.min(), groups.reward_max.max()) == (-1, 1)


def test_signed_scores_propose_a_threshold_and_acc() -> None:
    with pytest.raises(
        PilotFormatError,
        match=r"1.jsonl:1: score is -1, .*values seen: -1, 1\).*e.g. 1 .* Or judge by acc with --reward-column",
    ):
        read_pilot(DATA / "legacy")


def test_a_reward_that_is_not_there_and_a_sum_of_two(tmp_path: Path) -> None:
    with pytest.raises(PilotFormatError, match=r"no reward function 'pred'. It has: score, acc\."):
        read_pilot(DATA / "legacy", reward="pred")
    rows = [legacy("a", 0.0, acc=True), legacy("a", 1.0, acc=True), legacy("a", 1.0, acc=None), legacy("a", 0, acc=0)]
    path = write(tmp_path / "1.jsonl", rows)
    pilot = read_pilot(path, reward_weights={"score": 1, "acc": 0.5}, pass_threshold=1.5)
    assert counts(pilot) == {"ask a": (1, 4)}


def test_prompts_drawn_twice_in_legacy_dumps_are_noted(tmp_path: Path) -> None:
    rows = [legacy(p, float(i % 2)) for p in "abcc" for i in range(4)]
    log = read_groups(write(tmp_path / "1.jsonl", rows))
    assert log.groups == 3
    assert any("1 of 3 groups hold a multiple of 4 rollouts" in note for note in log.notes)


def test_validation_beside_training_is_split_by_folder(tmp_path: Path) -> None:
    shutil.copytree(DATA / "v1", tmp_path / "rollouts")
    write(tmp_path / "validation" / "1.jsonl", [v1("v", s, 1.0, acc=1.0) for s in range(4)])
    train = read_pilot(tmp_path)
    assert train.prompts == 8
    assert train.dropped == {"padding_rows": 4, "eval_rows": 4}
    assert any("validation" in note and "--split" in note for note in train.notes)
    assert counts(read_pilot(tmp_path, split="eval")) == {"ask v": (4, 4)}
    assert read_pilot(tmp_path, split="all").prompts == 9
    assert counts(read_pilot(tmp_path / "validation")) == {"ask v": (4, 4)}  # alone it is what was asked for


def test_folders_of_two_runs_do_not_share_groups(tmp_path: Path) -> None:
    for run, score in (("a", 0.0), ("b", 1.0)):
        write(tmp_path / run / "1.jsonl", [legacy("q", score) for _ in range(4)])
    log = read_groups(tmp_path)
    assert (log.groups, log.dead_groups) == (2, 2)
    assert any("files of 2 folders are read as one source: a, b" in note for note in log.notes)


def test_copies_and_empty_files_are_left_out(tmp_path: Path) -> None:
    for name in ("1.jsonl", "1 (copy).jsonl"):
        shutil.copy(DATA / "v1" / "1.jsonl", tmp_path / name)
    (tmp_path / "2.jsonl").touch()
    pilot = read_pilot(str(tmp_path / "*.jsonl"))
    assert pilot.rollouts.tolist() == [8] * 8
    assert any("2 files are empty or the copy of another" in note for note in pilot.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"uid": None}, "uid must be prompt_session_index; got None"),
        ({"uid": "plain"}, "uid must be prompt_session_index; got plain"),
        ({"input": ["a"]}, r"input must be a text; got \['a'\]"),
        ({"step": "x"}, "step must be a whole number; got 'x'"),
    ],
)
def test_a_faulty_row_in_the_middle_is_named_or_counted(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rows = [v1("a", s, float(s % 2)) for s in range(70)]
    rows[60] |= change
    path = write(tmp_path / "1.jsonl", rows)
    with pytest.raises(PilotFormatError, match=rf"1.jsonl:61: {message}\. Repair the line, or drop"):
        read_pilot(path)
    pilot = read_pilot(path, skip_malformed=True)
    assert pilot.dropped == {"malformed_line": 1}
    assert pilot.rollouts.tolist() == [69]


def test_rewards_that_are_none_and_rewards_that_are_missing(tmp_path: Path) -> None:
    rows = [v1("a", 0, 1.0), v1("a", 1, None), v1("a", 2, float("nan")), v1("a", 3, 0.0)]
    del rows[3]["score"]
    rows += [v1("a", s, 1.0) for s in range(4, 60)]
    path = write(tmp_path / "1.jsonl", sorted(rows, key=lambda r: "score" not in r))
    path.write_text("\n".join(path.read_text().splitlines()[1:] + path.read_text().splitlines()[:1]) + "\n")
    pilot = read_pilot(path, format="verl-v1")
    assert counts(pilot) == {"ask a": (57, 57)}
    assert pilot.dropped == {"missing_reward": 3}
    write(tmp_path / "1.jsonl", [v1("a", 0, 1.0), v1("a", 1, [1.0])])
    with pytest.raises(PilotFormatError, match=r"uid a_1_0: score is \[1.0\], which is neither a number nor"):
        read_pilot(path)


def test_a_last_line_that_is_cut_off_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "1.jsonl", [v1("a", s, float(s % 2)) for s in range(4)])
    path.write_text(path.read_text()[:-20])
    pilot = read_pilot(path)
    assert pilot.dropped == {"truncated_last_line": 1}
    assert counts(pilot) == {"ask a": (1, 3)}


def test_columns_that_the_user_names(tmp_path: Path) -> None:
    rows = [v1(p, s, float(s % 2), data_source="ab"[s % 2], temp=0.5) for p in "xy" for s in range(4)]
    path = write(tmp_path / "1.jsonl", rows)
    pilot = read_pilot(path, stratum="data_source", temperature="temp")
    assert sorted(pilot.stratum.tolist()) == ["a", "a", "b", "b"]  # type: ignore[union-attr]
    assert np.all(pilot.temperature == 0.5)
    assert read_pilot(path, where={"data_source": "b"}).dropped == {"rows_outside_where": 4}
    with pytest.raises(PilotFormatError, match=r"no column 'nope' \(asked for as --stratum-column\). Columns: input,"):
        read_pilot(path, stratum="nope")
    with pytest.raises(PilotFormatError, match=r"no column 'nope' \(asked for as --where\)"):
        read_pilot(path, where={"nope": "1"})
    notes = read_pilot(path, n="k", rollouts_per_prompt=4).notes
    assert "--n-column has no effect: a row is a rollout." in notes
    assert any(note.startswith("--rollouts-per-prompt has no effect") for note in notes)


def test_checks_of_independence_look_at_prompts_not_at_groups() -> None:
    report = read_independence(DATA / "v1", session="step")
    assert report.sessions is not None
    assert report.sessions.names == ("1", "2", "3")
    assert report.sessions.prompts == 8
    with pytest.raises(PilotFormatError, match="Or judge by acc"):  # also where the checks see every batch
        read_independence(DATA / "legacy", session="step")
    by_order = read_independence(DATA / "legacy", reward="acc")
    assert by_order.sequence is not None


def test_steps_can_be_kept() -> None:
    pilot = read_pilot(DATA / "v1", policy_steps=(3, 3))
    assert pilot.rollouts.tolist() == [8] * 8
    assert pilot.provenance.policy_steps == (3, 3)


@pytest.mark.parametrize("change", [{"uid": "a"}, {"step": "1"}, {"input": 3}])
def test_rows_of_other_kinds_are_not_taken_for_verl(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write(tmp_path / "t.jsonl", [v1("a", 0, 1.0), v1("a", 1, 1.0) | change])
    assert read_pilot(path).provenance.format == "table"
