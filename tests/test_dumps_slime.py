"""slime's rollout data: plain data from a torch file, and nothing that would run code."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.errors import MissingExtraError
from grpo_plan.readers.groups_reader import read_groups

DATA = Path(__file__).parent / "data" / "slime" / "rollout_data"
torch = pytest.importorskip("torch")


def sample(group: int | None, reward: Any, **more: Any) -> dict[str, Any]:
    return {
        "group_index": group, "index": 0, "prompt": f"q{group}", "tokens": [1], "response": "x", "response_length": 3,
        "reward": reward, "status": "completed", "remove_sample": False, "metadata": {},
    } | more  # fmt: skip


def save(path: Path, samples: list[dict[str, Any]], rollout_id: Any = 0) -> Path:
    torch.save({"rollout_id": rollout_id, "samples": samples}, path)
    return path


def test_samples_are_grouped_by_their_index() -> None:
    pilot = read_pilot(DATA)
    assert pilot.notes[0] == "read as slime: 1 file, 64 rows, 8 groups of 8, step 0."
    assert "1 rollout was cut off at the limit of length, and counted as their rewards say." in pilot.notes
    assert pilot.rollouts.tolist() == [8] * 8
    data = torch.load(DATA / "0.pt", weights_only=True)["samples"]
    assert pilot.successes.sum() == sum(s["reward"] for s in data)
    assert read_groups(DATA).dead_groups == 3
    assert pilot.response_tokens is not None


def test_samples_that_were_not_finished_are_dropped(tmp_path: Path) -> None:
    states = ["completed", "aborted", "failed", "pending", "truncated", "completed"]
    samples = [sample(0, 0.0 if s != "completed" else 1.0, status=s) for s in states]
    samples[-1] |= {"remove_sample": True, "reward": None}
    pilot = read_pilot(save(tmp_path / "3.pt", samples, 3))
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([1], [2])
    assert pilot.dropped == {
        "pending_rollouts": 1, "aborted_rollouts": 1, "failed_rollouts": 1, "missing_reward": 1,
    }  # fmt: skip
    assert pilot.provenance.rows == 6
    assert any(note.startswith("1 rollout was kept from training (remove_sample)") for note in pilot.notes)


def test_a_reward_of_several_is_chosen_by_its_key(tmp_path: Path) -> None:
    samples = [sample(0, {"acc": float(i % 2), "format": 1.0}) for i in range(4)] + [sample(0, None)]
    path = save(tmp_path / "0.pt", samples)
    with pytest.raises(PilotFormatError, match=r"0.pt: holds 2 reward functions \(acc, format\). Choose one"):
        read_pilot(path)
    assert read_pilot(path, reward="acc").successes.tolist() == [2]
    assert read_pilot(path, reward="acc").dropped == {"missing_reward": 1}
    assert read_pilot(path, reward_weights={"acc": 1, "format": 0.5}, pass_threshold=1.5).successes.tolist() == [2]
    save(path, [*samples, sample(0, 1.0)])
    with pytest.raises(PilotFormatError, match="sample 5: reward is 1, that of others an object"):
        read_pilot(path, reward="acc")


def test_evaluation_is_told_by_the_name_and_grouped_by_prompt(tmp_path: Path) -> None:
    save(tmp_path / "0.pt", [sample(g, float(i % 2)) for g in range(2) for i in range(2)])
    save(tmp_path / "eval_0.pt", [sample(None, 1.0, prompt=p) for p in "aab"])
    pilot = read_pilot(tmp_path)
    assert pilot.rollouts.tolist() == [2, 2]
    assert pilot.dropped == {"eval_rows": 3}
    log = read_groups(tmp_path, split="eval")
    assert log.rollouts.tolist() == [2, 1]
    assert "samples without group_index are grouped by their prompt." in log.notes


def test_trap_7_survivors_of_the_dynamic_filter(tmp_path: Path) -> None:
    samples = [sample(g, float(i % 2), prompt=[{"role": "user", "content": "q"}]) for g in range(60) for i in range(4)]
    pilot = read_pilot(save(tmp_path / "0.pt", samples))
    assert pilot.provenance.filtered is not None
    assert "--dynamic-sampling-filter-path" in pilot.provenance.filtered
    assert pilot.rollouts.tolist() == [4] * 60
    assert pilot.prompt_id is not None
    assert pilot.prompt_id[0] == '[{"content":"q","role":"user"}]'


def test_without_torch_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"0.pt: .*not installed. Install it: pip install 'grpo-plan\[torch\]'"):
        read_pilot(DATA / "0.pt")


class Ran:
    """Loading it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "0.pt", [sample(0, 1.0, metadata=Ran(tmp_path / "ran"))])
    with pytest.raises(PilotFormatError, match=r"0.pt: holds more than plain data \(io.open\). It is not loaded") as e:
        read_pilot(path)
    assert "\n" not in str(e.value)
    assert not (tmp_path / "ran").exists()


def test_other_torch_files_are_not_taken_for_rollouts(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "model.pt")
    with pytest.raises(PilotFormatError, match=r"model.pt: is a zip archive, not a table"):
        read_pilot(tmp_path / "model.pt")
    with pytest.raises(PilotFormatError, match=r"model.pt: holds no list of samples. Is it rollout data of slime"):
        read_pilot(tmp_path / "model.pt", format="slime")


def test_a_damaged_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "0.pt"
    path.write_bytes((DATA / "0.pt").read_bytes()[:4000])
    with pytest.raises(PilotFormatError, match=re.escape("0.pt: cannot be loaded by torch")) as error:
        read_pilot(path, format="slime")
    assert "\n" not in str(error.value)
    with pytest.raises(PilotFormatError):
        read_pilot(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"rollout_id samples group_index reward response")
    with pytest.raises(PilotFormatError, match=r"0.pt: "):
        read_pilot(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_index": "a"}, "group_index must be a whole number; got 'a'"),
        ({"reward": [1.0]}, r"reward must be a number, an object of numbers or nothing; got \[1.0\]"),
    ],
)
def test_a_faulty_sample_is_named_or_counted(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = save(tmp_path / "0.pt", [sample(0, 1.0), sample(0, 0.0), sample(0, 1.0) | change])
    with pytest.raises(PilotFormatError, match=rf"0.pt: sample 2: {message}\. Repair"):
        read_pilot(path)
    assert read_pilot(path, skip_malformed=True).dropped == {"malformed_line": 1}
