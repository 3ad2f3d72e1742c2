"""Plain tables of rollouts as runs, and arguments that do not fit what is read."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.readers.follow import RunFollower
from grpo_plan.readers.registry import formats
from grpo_plan.readers.run_reader import EVALUATIONS
from grpo_plan.runs.known_settings import is_used
from tests.conftest import ROOT
from tests.test_cli import Run, run  # noqa: F401

DATA = ROOT / "tests" / "data"
Rows = list[dict[str, Any]]


def rollouts(steps: int = 6, prompts: int = 4, size: int = 4, seed: int = 1) -> Rows:
    """Rows of rollouts with 0/1 rewards, in order of step and prompt."""
    rng = np.random.default_rng(seed)
    return [
        {"step": s, "prompt_id": f"q{p}", "completion": f"{s} {p} {i}", "reward": int(rng.random() < p / prompts)}
        for s in range(1, steps + 1)
        for p in range(prompts)
        for i in range(size)
    ]


def write(path: Path, rows: Rows) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def dead_share(rows: Rows) -> list[float]:
    """The share of dead groups of each step, counted by hand."""
    groups: dict[tuple[int, str], set[float]] = {}
    for row in rows:
        groups.setdefault((row["step"], row["prompt_id"]), set()).add(row["reward"])
    steps = sorted({step for step, _ in groups})
    return [float(np.mean([len(v) == 1 for (s, _), v in groups.items() if s == step])) for step in steps]


def counted(log: gp.RunLog) -> list[float]:
    found = log.quantity("dead_fraction")
    assert isinstance(found, gp.Quantity)
    return [float(v) for v in found.values]


@pytest.mark.parametrize("format", [None, "table"])
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "json", "parquet"])
def test_rows_of_one_step_and_prompt_are_a_group(suffix: str, format: str | None, tmp_path: Path) -> None:
    rows = rollouts()
    log = gp.read_run(write(tmp_path / f"rows.{suffix}", rows), format=format)
    assert (log.metrics, log.rollouts_per_prompt, log.steps.tolist()) == ({}, 4, [1, 2, 3, 4, 5, 6])
    assert counted(log) == dead_share(rows)
    assert not log.dropped
    assert "step and prompt" in log.notes[0]


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 5), st.integers(2, 4))
def test_the_order_of_rows_does_not_matter(random: Any, prompts: int, size: int) -> None:
    rows = rollouts(3, prompts, size)
    mixed = rows[:]
    random.shuffle(mixed)
    assert counted(gp.read_run(mixed)) == counted(gp.read_run(rows)) == dead_share(rows)


def test_graded_rewards_lists_and_group_columns(tmp_path: Path) -> None:
    graded = [{**row, "reward": row["reward"] / 2 + 0.25} for row in rollouts()]
    assert counted(gp.read_run(write(tmp_path / "graded.jsonl", graded))) == dead_share(graded)
    lists = [{"step": s, "prompt": p, "rewards": r} for s in (1, 2) for p, r in (("a", [0, 1, 1]), ("b", [1, 1, 1]))]
    assert counted(gp.read_run(write(tmp_path / "lists.jsonl", lists))) == [0.5, 0.5]
    twice = [
        {"step": 1, "prompt_id": "a", "group_id": g, "reward": float(g)} for g in (0, 1) for _ in range(4)
    ]  # two groups of one prompt at one step, each dead
    assert counted(gp.read_run(write(tmp_path / "twice.jsonl", twice))) == [1.0]


def test_rewards_are_named_where_there_are_several(tmp_path: Path) -> None:
    rows = [
        {**{k: v for k, v in row.items() if k != "reward"}, "reward_a": row["reward"], "reward_b": 1}
        for row in rollouts()
    ]
    path = write(tmp_path / "several.jsonl", rows)
    with pytest.raises(PilotFormatError, match=r"reward_a, reward_b\)\. Name one with --reward"):
        gp.read_run(path)
    assert counted(gp.read_run(path, reward="reward_a")) == dead_share(rollouts())
    assert counted(gp.read_run(path, reward="reward_b")) == [1.0] * 6
    with pytest.raises(DomainError, match="no column 'nope'"):
        gp.read_run(path, reward="nope")


def test_a_folder_of_steps_is_one_run_and_two_runs_are_refused(tmp_path: Path) -> None:
    rows = rollouts(12)
    for step in range(1, 13):
        write(tmp_path / "steps" / f"step_{step}.jsonl", [row for row in rows if row["step"] == step])
    assert counted(gp.read_run(tmp_path / "steps")) == dead_share(rows)
    write(tmp_path / "two" / "a.jsonl", rows)
    write(tmp_path / "two" / "b.jsonl", rollouts(12, seed=2))
    with pytest.raises(PilotFormatError, match="same prompts at the same steps"):
        gp.read_run(tmp_path / "two")
    assert counted(gp.read_run(tmp_path / "two", run="a.jsonl")) == dead_share(rows)


def test_a_log_of_metrics_with_a_prompt_stays_one(tmp_path: Path) -> None:
    rows = [{"step": s, "prompt": "maths", "reward": 0.4, "reward_std": 0.3, "loss": 0.1} for s in range(1, 21)]
    for name, held in (("once", rows), ("resumed", rows + rows), ("early", rows[:1])):
        log = gp.read_run(write(tmp_path / f"{name}.jsonl", held))
        assert log.groups is None, name
        assert set(log.metrics) == {"reward", "reward_std", "loss"}
    for extra in ("grad_norm", "frac_reward_zero_std"):
        held = [{**row, extra: i / 4, "reward": i / 4} for row in rows for i in range(3)]
        with pytest.raises(PilotFormatError, match="several rows of each step"):
            gp.read_run(write(tmp_path / f"{extra}.jsonl", held))


@pytest.mark.parametrize("lost", ["prompt_id", "step"])
def test_rollouts_without_a_step_or_a_prompt_are_refused(lost: str, tmp_path: Path) -> None:
    rows = [{k: v for k, v in row.items() if k != lost} for row in rollouts()]
    with pytest.raises(PilotFormatError, match="grpo-plan fit"):
        gp.read_run(write(tmp_path / "rows.jsonl", rows))
    alone = [{**row, "prompt_id": f"p{i}"} for i, row in enumerate(rollouts())]
    with pytest.raises(PilotFormatError, match="pairs of step and prompt"):
        gp.read_run(write(tmp_path / "alone.jsonl", alone))


def test_a_growing_table_of_rollouts_is_read_as_groups(tmp_path: Path) -> None:
    rows, path = rollouts(), tmp_path / "rows.jsonl"
    with RunFollower(path) as follower:
        follower.poll()
        for stop in (1, 40, len(rows)):
            write(path, rows[:stop])
            log = follower.finish().log
    assert log is not None
    assert log.groups is not None
    assert counted(log) == dead_share(rows)


def metrics(path: Path, steps: range) -> Path:
    return write(path, [{"step": s, "reward": 0.4, "reward_std": 0.3, "frac_reward_zero_std": 0.5} for s in steps])


def test_several_runs_are_parts_of_one_or_refused(tmp_path: Path) -> None:
    for name, steps in {"a": range(1, 31), "b": range(25, 61), "c": range(1, 31), "d": range(5, 31)}.items():
        metrics(tmp_path / f"{name}.jsonl", steps)
    log = gp.read_run(tmp_path, run=["a.jsonl", "b.jsonl"])
    assert log.steps.tolist() == list(range(1, 61))
    for pair in (["a.jsonl", "c.jsonl"], ["b.jsonl", "a.jsonl"], ["a.jsonl", "d.jsonl"], ["a.jsonl", "a.jsonl"]):
        with pytest.raises(DomainError, match="Name one of them"):
            gp.read_run(tmp_path, run=pair)


def test_a_reward_function_needs_rollouts(tmp_path: Path) -> None:
    path = metrics(tmp_path / "log.jsonl", range(1, 21))
    with pytest.raises(DomainError, match="holds no rollouts"):
        gp.read_run(path, reward="correct")
    with RunFollower(path, reward="correct") as follower, pytest.raises(DomainError, match="reward function"):
        follower.poll()
    with pytest.raises(DomainError, match="no reward function 'nope'"):
        gp.read_run(DATA / "trl" / "none2", reward="nope")


@pytest.mark.parametrize("size", [1, 16])
def test_a_group_size_that_the_log_denies_is_refused(size: int, tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", rollouts())
    for source in (path, DATA / "trl" / "binary"):
        with pytest.raises(DomainError, match="group_size"):
            gp.read_run(source, group_size=size)
    assert gp.read_run(path, group_size=4).group_size == 4


EVALUATED = ["human_eval", "inspect_ai", "lm_eval", "verifiers_v0", "skyrl", "verifiers/out"]


@pytest.mark.parametrize("name", EVALUATED)
def test_an_evaluation_is_no_run(run: Run, name: str) -> None:  # noqa: F811
    answer = run("diagnose", DATA / name)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.count("\n") == 1
    assert "steps -1" not in answer.err
    assert "grpo-plan fit" in answer.err


def test_evaluations_are_names_of_formats() -> None:
    assert {f.name for f in formats()} >= EVALUATIONS


def test_errors_of_a_run_name_its_own_options(run: Run) -> None:  # noqa: F811
    answer = run("diagnose", DATA / "nemo_rl")
    assert answer.code == 1
    assert "with --group-size" in answer.err
    help_text = run("diagnose", "--help").out
    for folder in ("lm_eval", "skyrl", "solve_rates", "verl", "trl", "slime", "rivals"):
        answer = run("diagnose", DATA / folder)
        for option in re.findall(r"--[a-z][a-z-]+", answer.err):
            assert option in help_text, (folder, answer.err)


def test_unused_settings_and_unknown_formats_are_named(run: Run, tmp_path: Path) -> None:  # noqa: F811
    path = metrics(tmp_path / "log.jsonl", range(1, 21))
    answer = run("diagnose", path, "--config", "foo=bar", "--config", "beta=0.1")
    assert (answer.code, answer.err) == (0, "note: --config: no check uses foo. Is the name that of the trainer?\n")
    wrong = run("diagnose", path, "--format", "html")
    assert wrong.code == 2
    assert "text, json, markdown" in wrong.err
    assert len(wrong.err) < 200


def test_every_setting_that_is_read_is_known() -> None:
    for path in [*(ROOT / "grpo_plan" / "quantities").glob("*.py"), *(ROOT / "grpo_plan" / "runs").rglob("*.py")]:
        for call in re.findall(r"view\.setting\(([^()]*)\)", path.read_text()):
            for key in re.findall(r'"([^"]+)"', call):
                assert is_used(key), (path.name, key)


def test_advice_says_what_a_dump_lacks(run: Run) -> None:  # noqa: F811
    answer = run("diagnose", DATA / "trl" / "binary")
    assert "Rollouts would tell" not in answer.out
    assert "do not say which rollouts were cut off" in " ".join(answer.out.split())
