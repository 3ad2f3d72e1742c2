"""What a source is: sniffed by content, folders searched, several formats told apart, the user's word first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.provenance import Provenance, merged
from grpo_plan.readers.candidates import look
from grpo_plan.readers.discovery import discover, natural
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.groups_reader import read_groups
from tests.test_cli import Run, document
from tests.test_cli import run as command  # noqa: F401, a fixture


def v1_row(prompt: int, session: int, score: float, step: int = 1) -> dict[str, Any]:
    return {
        "input": f"What is {prompt}?", "output": "x", "gts": "1", "score": score, "step": step,
        "uid": f"{prompt:032x}_{session}_0",
    }  # fmt: skip


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder as verl leaves it: three steps of 4 prompts x 4 rollouts, prompt 0 never right, prompt 3 always."""
    for step in (1, 2, 10):
        rows = [v1_row(p, s, float(s < (0, 2, 3, 4)[p]), step) for p in range(4) for s in range(4)]
        write(tmp_path / "rollouts" / f"{step}.jsonl", rows)
    return tmp_path


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    path = write(tmp_path / "anything.data", [v1_row(p, s, 1.0) for p in range(2) for s in range(2)])
    found = discover(path, "pilot", None)
    assert found.format is not None
    assert found.format.name == "verl-v1"


def test_a_plain_table_is_no_tools_format(tmp_path: Path) -> None:
    path = write(tmp_path / "1.jsonl", [{"prompt_id": "a", "reward": 1}, {"prompt_id": "a", "reward": 0}])
    assert discover(path, "pilot", None).format is None
    assert gp.read_pilot(path).provenance.format == "table"


def test_a_folder_is_searched_in_order_of_numbers(run: Path) -> None:
    (run / "notes.md").write_text("# not a table", encoding="utf-8")
    (run / ".hidden.jsonl").write_text("{}\n", encoding="utf-8")
    found = discover(run, "pilot", None)
    assert [Path(f.name).name for f in found.files] == ["1.jsonl", "2.jsonl", "10.jsonl"]
    pilot = gp.read_pilot(run)
    assert pilot.successes.tolist() == [0, 6, 9, 12]
    assert pilot.rollouts.tolist() == [12] * 4
    source = pilot.provenance
    assert (source.files, source.rows, source.groups, source.group_size) == (3, 48, 12, (4, 4))
    assert (source.policy_steps, source.step_count, source.mixed_policies) == ((1, 10), 3, True)


def test_links_to_folders_are_not_followed(run: Path) -> None:
    os.symlink(run, run / "rollouts" / "loop")
    assert len(discover(run, "pilot", None).files) == 3


def test_a_file_named_twice_is_read_once(run: Path) -> None:
    path = run / "rollouts" / "1.jsonl"
    os.symlink(path, run / "again.jsonl")
    assert gp.read_pilot([path, run / "again.jsonl"]).total_rollouts == 16


def test_several_formats_are_listed_not_mixed(run: Path) -> None:
    write(run / "table.jsonl", [{"prompt_id": "a", "reward": 1}])
    with pytest.raises(
        PilotFormatError, match=r"holds several formats: table \(1 file: .*table.jsonl\), verl-v1 \(1 file: .*1.jsonl\)"
    ):
        gp.read_pilot([run / "table.jsonl", run / "rollouts" / "1.jsonl"])
    assert gp.read_pilot(run).provenance.format == "verl-v1"  # a folder holds other things too


def test_the_user_overrides_the_sniffer(run: Path) -> None:
    path = run / "rollouts" / "1.jsonl"
    table = gp.read_pilot(path, format="table", prompt="input", reward="score")
    assert table.provenance.format == "table"
    assert table.successes.tolist() == [0, 2, 3, 4]
    with pytest.raises(DomainError, match=r"format must be one of table, .*verl-v1"):
        gp.read_pilot(path, format="verl-v9")
    plain = write(run / "plain.jsonl", [{"prompt_id": "a", "reward": 1}])
    with pytest.raises(PilotFormatError):
        gp.read_pilot(plain, format="verl-v1")


def test_format_is_an_option_beside_the_output(run: Path, command: Run) -> None:  # noqa: F811
    source = document(command("fit", run, "--format", "verl-v1", "--json"))["pilot"]["provenance"]
    assert source["format"] == "verl-v1"
    assert source["policy_steps"] == [1, 10]
    text = command("fit", run, "--format", "text").out
    assert "Source  read as verl-v1: 3 files, 48 rows, 12 groups of 4, steps 1 to 10." in text
    assert command("fit", run, "--format", "yaml").code == 2


def test_policy_steps_keep_the_policy_of_now(run: Path, command: Run) -> None:  # noqa: F811
    pilot = gp.read_pilot(run, policy_steps=(10, 10))
    assert pilot.total_rollouts == 16
    assert pilot.dropped == {"rows_outside_policy_steps": 32}
    assert not pilot.provenance.mixed_policies
    assert document(command("fit", run, "--policy-steps", "2:", "--json"))["pilot"]["rollouts"] == 32
    for bad in ("5:2", "x", "1:2:3"):
        assert command("fit", run, "--policy-steps", bad).code == 2
    with pytest.raises(DomainError, match="policy_steps"):
        gp.read_pilot(run, policy_steps=(3, 2))


def test_where_filters_by_what_the_reader_gives(run: Path) -> None:
    assert gp.read_pilot(run, where={"step": "2"}).total_rollouts == 16
    with pytest.raises(PilotFormatError, match=r"no column 'level' \(asked for as --where\)"):
        gp.read_pilot(run, where={"level": "2"})


def test_groups_as_they_were_sampled(run: Path) -> None:
    groups = read_groups(run)
    assert (groups.groups, groups.dead_groups) == (12, 6)
    steps, size, dead = groups.dead_by_step()
    assert steps.tolist() == [1, 2, 10]
    assert size.tolist() == [4, 4, 4]
    assert dead.tolist() == [2, 2, 2]
    assert read_groups(run, policy_steps=(2, 2)).groups == 4


def test_groups_need_a_trainers_dump(tmp_path: Path) -> None:
    path = write(tmp_path / "1.jsonl", [{"prompt_id": "a", "reward": 1}])
    with pytest.raises(PilotFormatError, match="sampled together"):
        read_groups(path)


def test_a_group_may_go_on_in_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_plan.readers.jsonlines.BLOCK_BYTES", 300)
    rows = [v1_row(p, s, float(s < (0, 2, 3, 4)[p])) for p in range(4) for s in range(4)]
    path = write(tmp_path / "1.jsonl", rows)
    groups = read_groups(path)
    assert groups.rollouts.tolist() == [4] * 4
    assert groups.dead.tolist() == [True, False, False, True]


def test_failed_scoring_leaves_a_group_dead(tmp_path: Path) -> None:
    rows = [v1_row(0, 0, 1.0), v1_row(0, 1, 0.0), v1_row(1, 0, 1.0), {**v1_row(1, 1, 0.0), "score": None}]
    groups = read_groups(write(tmp_path / "1.jsonl", rows))
    assert groups.scored.tolist() == [2, 1]
    assert groups.dead.tolist() == [False, True]
    assert gp.read_pilot(tmp_path / "1.jsonl").dropped == {"missing_reward": 1}


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1, 2", b"PK\x03\x04broken", b"SQLite format 3\x00broken", b"\x00\x01"]
)
def test_damaged_starts_are_errors_of_one_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(damage)
    with pytest.raises(PilotFormatError) as caught:
        gp.read_pilot(path)
    assert "\n" not in str(caught.value)


def test_kinds_of_files(tmp_path: Path) -> None:
    document = tmp_path / "one.json"
    document.write_text(json.dumps({"log_history": [{"step": 1}]}, indent=2), encoding="utf-8")
    assert look(InputFile(name="x", path=document)).kind == "json"
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"tokens": list(range(200_000)), "reward": 1}) + "\n", encoding="utf-8")
    assert look(InputFile(name="x", path=long)).has("tokens", "reward")


def test_numbers_in_names_count() -> None:
    assert sorted(["s10.x", "s9.x", "s9a"], key=natural) == ["s9.x", "s9a", "s10.x"]


def test_provenance_of_parts() -> None:
    a = Provenance(format="verl-v1", files=1, rows=8, groups=1, group_size=(8, 8), policy_steps=(1, 1), step_count=1)
    b = Provenance(format="verl-v1", files=1, rows=4, groups=1, group_size=(4, 4), policy_steps=(5, 5), step_count=1)
    both = merged([a, b])
    assert (both.files, both.rows, both.groups, both.group_size) == (2, 12, 2, (4, 8))
    assert (both.policy_steps, both.step_count) == ((1, 5), 2)
    assert merged([a, Provenance(weak_prior="Qwen")]).weak_prior == "Qwen"
    assert merged([a]) is a


def test_formats_are_listed(command: Run) -> None:  # noqa: F811
    text = command("formats").out
    assert "verl-v1" in text
    listed = document(command("formats", "--json"))["formats"]
    names = [f["name"] for f in listed]
    assert len(names) == len(set(names))
    assert not {"text", "json", "table"} & set(names)  # words of --format already
    for f in listed:
        assert f["gives"]
        assert f["files"]
        assert f["reads"]
        assert f["evidence"] in ("ran", "read in source", "documented", "inferred")
        assert f["name"] == f["name"].lower()
    assert command("formats", "verl-v1").code == 0
    assert command("formats", "nothing").code == 2
