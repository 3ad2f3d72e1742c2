"""Every sniffer against every file of every tool: each is taken by its own format and by no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.registry import formats
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"
PILOTS = {  # start of the path to the format of its pilots; the longest start counts
    "human_eval": "human-eval",
    "inspect_ai": "inspect",
    "lm_eval": "lm-eval",
    "ms_swift/completions": "ms-swift",
    "nemo_rl": "nemo-rl",
    "open_instruct/toy_rollouts": "open-instruct",
    "roll": "roll",
    "skyrl/dumped_evals/global_step_5_evals/toy": "skyrl-eval",
    "slime": "slime",
    "solve_rates/big-math": "big-math",
    "solve_rates/deepmath": "deepmath",
    "solve_rates/guru": "guru",
    "solve_rates/intellect-2": "intellect-2",
    "solve_rates/intellect-3": "intellect-3",
    "solve_rates/lime-difficulty": "lime-difficulty",
    "solve_rates/lime-solved": "lime-solved",
    "solve_rates/openmath-reasoning": "openmath-reasoning",
    "solve_rates/polaris": "polaris",
    "solve_rates/skywork-or1": "skywork-or1",
    "solve_rates/synthetic-2": "synthetic-2",
    "tinker/run/iteration": "tinker",
    "trl/": "trl",
    "verifiers/": "verifiers",
    "verifiers_v0/results": "verifiers-v0",
    "verl/legacy/rollouts": "verl-legacy",
    "verl/legacy/": "verl-legacy",
    "verl/v1/": "verl-v1",
    "verl/verl_v1/rollouts": "verl-v1",
}
NO_PILOT = (
    "trainer_state",
    "run_config",
    "config.json",
    "metrics.jsonl",
    "events.out",
    "eval.json",
    "results_2",
    "toy_run",
)
ORDINARY = (
    {"prompt_id": "a", "reward": 1},
    {"prompt": "a", "completion": "x", "reward": 0.0, "step": 3},
    {"task_id": "a", "correct": True, "answer": "x", "output": "y"},
    {"id": 3, "n": 8, "k": 2, "difficulty": "hard"},
    {"problem": "2+2", "pass_rate": 0.25, "n": 8, "source": "gsm8k"},
    {"question": "q", "rewards": [1, 0, 1], "model": "m"},
    {"uid": "x", "input": "q", "output": "y", "score": 1.0},
    {"step": 1, "loss": 0.5, "reward": 0.5},
)


def files() -> list[Path]:
    skipped = {".py", ".md", ".yaml", ".log", ".sh"}
    return sorted(p for p in DATA.rglob("*") if p.is_file() and p.suffix not in skipped and not p.name.startswith("."))


def expected(name: str) -> str | None:
    if any(part in name for part in NO_PILOT):
        return None
    starts = [start for start in PILOTS if name.startswith(start)]
    return PILOTS[max(starts, key=len)] if starts else None


def taken_by(path: Path, want: str) -> list[str]:
    try:
        candidate = look(InputFile(name=path.name, path=path))
    except PilotFormatError:
        return []
    return [f.name for f in formats() if getattr(f, want) is not None and f.looks_like(candidate)]


@pytest.mark.parametrize("path", files(), ids=lambda p: p.relative_to(DATA).as_posix())
def test_each_file_is_of_its_own_format_and_no_other(path: Path) -> None:
    name = path.relative_to(DATA).as_posix()
    want = expected(name)
    assert taken_by(path, "pilot") == ([] if want is None else [want])


@pytest.mark.parametrize("row", ORDINARY, ids=lambda row: ",".join(row))
def test_a_users_own_table_is_of_no_tools_format(row: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(4 * (json.dumps(row) + "\n"), encoding="utf-8")
    assert taken_by(path, "pilot") == []


def test_every_format_of_pilots_has_a_file_here_or_says_why() -> None:
    seen = {expected(p.relative_to(DATA).as_posix()) for p in files()}
    without = {f.name for f in formats() if f.pilot is not None} - seen
    assert without == WITHOUT_FILE, "laid out by a test instead of a file"


WITHOUT_FILE = {"lighteval", "evalplus", "evalchemy"}
