"""Sources given to the wrong reader: the error says what they are, and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.errors import DomainError, PilotFormatError
from tests.conftest import ROOT
from tests.test_cli import Run
from tests.test_cli import run as command  # noqa: F401, a fixture

DATA = ROOT / "tests" / "data"
LOGS = {
    "verl/verl_v1/toy_project/toy_run.jsonl": "verl-metrics",
    "verl/verl_v1/toy_project": "verl-metrics",
    "prime_rl/v0.8": "prime-rl-metrics",
    "wandb_export": "wandb-csv",
    "trl/binary/trainer_state.json": "trainer-state",
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_is_no_pilot_and_says_what_it_is_for(name: str) -> None:
    for read in (gp.read_pilot, gp.read_groups):
        with pytest.raises(PilotFormatError, match=rf"is a log of metrics \({LOGS[name]}\).*read_run.*--calibrate"):
            read(DATA / name)


def test_rollouts_beside_logs_keep_their_own_error() -> None:
    with pytest.raises(PilotFormatError, match="no reward function 'nothing'"):
        gp.read_pilot([DATA / "trl" / "binary", DATA / "trl" / "gap"], reward="nothing")


def test_fit_of_a_log_is_one_line(command: Run) -> None:  # noqa: F811
    result = command("fit", DATA / "prime_rl" / "v0.8" / "metrics.jsonl")
    assert result.code != 0
    assert result.err.count("\n") == 1
    assert "Look at it with grpo-plan diagnose" in result.err


def test_a_pilot_with_steps_stays_a_pilot(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [{"step": i, "reward": i % 2, "question_id": f"q{i // 4}", "kl": 0.1, "entropy": 1.0} for i in range(16)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert gp.read_pilot(path, prompt="question_id").prompts == 4
    with pytest.raises(PilotFormatError, match="nothing"):
        gp.read_pilot(path, prompt="question_id", reward="nothing")


ROWS = [{"step": i, "reward": 0.4, "frac_reward_zero_std": i / 10} for i in (1, 2, 3)]


def rows() -> Iterator[dict[str, Any]]:
    yield from ROWS


@pytest.mark.parametrize(
    "source",
    [ROWS, tuple(ROWS), rows, pl.DataFrame(ROWS), pl.LazyFrame(ROWS)],
    ids=lambda source: type(source).__name__,
)
def test_a_run_in_memory(source: object) -> None:
    log = gp.read_run(source() if callable(source) else source)
    dead = log.quantity("dead_fraction")
    assert isinstance(dead, gp.Quantity)
    assert dead.values.tolist() == [0.1, 0.2, 0.3]
    assert log.steps.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "source",
    [None, 3, [1, 2], {"step": 1}, pl.DataFrame(), [{"step": 1}, "a"]],
    ids=lambda source: type(source).__name__,
)
def test_no_run(source: object) -> None:
    with pytest.raises(DomainError, match="read_run takes a path"):
        gp.read_run(source)


@pytest.mark.parametrize("source", [pl.DataFrame(ROWS), ROWS, None, {"a": 1}], ids=lambda source: type(source).__name__)
def test_no_groups_in_memory(source: Any) -> None:
    with pytest.raises(DomainError, match=r"by path; got .*read_pilot"):
        gp.read_groups(source)


PROGRAM = '''"""Make the data, then train, then stop."""

from x import a, b

def f(a, b, c):
    return [a, b, (b, c, a), c]


print("Hello, world")
'''


def test_source_code_among_files_is_no_table(tmp_path: Path) -> None:
    for name in ("make.py", "make.txt"):
        (tmp_path / name).write_text(PROGRAM, encoding="utf-8")
    rollouts = sorted((DATA / "verl" / "verl_v1" / "rollouts").iterdir())
    whole = gp.read_pilot(rollouts)
    pilot = gp.read_pilot([*rollouts, tmp_path / "make.py", tmp_path / "make.txt"])
    assert pilot.successes.tolist() == whole.successes.tolist()
    assert sum("was left out: its lines are no rows of a table" in note for note in pilot.notes) == 2
    table = tmp_path / "t.csv"
    table.write_text("prompt,reward\na,1\na,0\n", encoding="utf-8")
    with pytest.raises(
        PilotFormatError, match=r"holds several formats: .*verl-v1 \(3 files\).*table \(1 file: .*t\.csv\)"
    ):
        gp.read_pilot([*rollouts, table])


def test_what_was_read_shows_itself_in_one_line() -> None:
    folder = DATA / "verl" / "verl_v1"
    groups, log = gp.read_groups(folder), gp.read_run(folder)
    assert repr(groups) == "<GroupLog: 24 groups, 12 dead, steps 1 to 3>"
    assert repr(log).startswith("<RunLog of verl (verl-metrics)")
    assert "3 steps, 1 to 3" in repr(log)
    assert repr(log.quantity("reward_mean")).startswith("<Quantity reward_mean: 3 of 3 steps, 0.4 to 0.4 (reward;")
    assert max(len(repr(x)) for x in (groups, log)) < 300


def test_every_command_is_said_in_full_in_the_list(command: Run) -> None:  # noqa: F811
    listed = command("--help").out.partition("Commands:")[2]
    assert "..." not in listed


def test_names_of_trainers_in_any_case(command: Run) -> None:  # noqa: F811
    from grpo_plan.trainers.registry import get_trainer

    assert get_trainer("Verl") is get_trainer("verl")
    command("example", "pilot.jsonl")
    options = ("pilot.jsonl", "--budget-rollouts", "2e6", "--steps", "500", "--trainer")
    assert command("plan", *options, "Verl").out == command("plan", *options, "verl").out
