"""The callback in real trainings of TRL: what it logs, what it leaves alone, and when it stops."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import grpo_plan.trl
from grpo_plan.errors import DomainError, MissingExtraError
from tests.conftest import ROOT

trained = pytest.mark.skipif(find_spec("trl") is None or find_spec("torch") is None, reason="TRL is not installed")
SHARES = ("dead_fraction", "all_pass_fraction", "all_fail_fraction")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings in a process of their own."""
    where = tmp_path_factory.mktemp("watched")
    done = subprocess.run(
        [sys.executable, "-m", "tests.trl.watched", str(where)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return where


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found


def groups_of(columns: list[list[float | None]], size: int = 4) -> list[list[float]]:
    """Summed rewards of each group, scored rollouts only; written anew, without the package."""
    sums = []
    for row in zip(*columns, strict=True):
        known = [r for r in row if r is not None and not math.isnan(r)]
        sums.append(sum(known) if known else None)
    return [[r for r in sums[i : i + size] if r is not None] for i in range(0, len(sums), size)]


def shares_of(groups: list[list[float]], passing: float) -> dict[str, float]:
    dead = [g for g in groups if len(g) < 2 or max(g) - min(g) <= 1e-8]
    scored = [g for g in dead if len(g) >= 2]
    counts = (len(dead), sum(min(g) >= passing for g in scored), sum(max(g) < passing for g in scored))
    return {name: count / len(groups) for name, count in zip(SHARES, counts, strict=True)}


def rows_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in run["history"] if "loss" in row]


def said_by(run: dict[str, Any], first: int, last: int) -> list[list[float]]:
    """Groups that the reward functions gave in some steps."""
    columns: list[list[float | None]] = [
        [r for step, rewards in function if first <= step <= last for r in rewards] for function in run["said"]
    ]
    return groups_of(columns)


@trained
@pytest.mark.slow
@pytest.mark.parametrize(("name", "every"), [("batch", 1), ("twice", 1), ("sparse", 5), ("whole", 5)])
def test_what_is_logged_is_what_the_reward_functions_gave(runs: dict[str, Any], name: str, every: int) -> None:
    rows = rows_of(runs[name])
    assert rows
    with_groups = 0
    for row in rows:
        groups = said_by(runs[name], row["step"] - every + 1, row["step"])
        if not groups:  # a step on rollouts of a step before
            assert "grpo_plan/dead_fraction" not in row
            continue
        with_groups += 1
        expected = shares_of(groups, 0.75 if name == "batch" else 1.0)
        if name == "batch":  # graded: all-fail are those at the lowest reward
            lowest = min(min(g) for g in said_by(runs[name], 1, row["step"]) if g)
            flat = [g for g in groups if len(g) >= 2 and max(g) - min(g) <= 1e-8 and max(g) < 0.75 and min(g) > lowest]
            expected["all_fail_fraction"] -= len(flat) / len(groups)
        for share in SHARES:
            assert row[f"grpo_plan/{share}"] == pytest.approx(expected[share], abs=1e-12), (row["step"], share)
        assert row["grpo_plan/mixed_groups_per_step"] == pytest.approx(4 * (1 - expected["dead_fraction"]))
    assert with_groups == {"batch": 8, "twice": 4, "sparse": 2, "whole": 2}[name]


@trained
@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch", "twice", "sparse", "whole"])
def test_groups_are_those_of_the_completions(runs: dict[str, Any], folder: Path, name: str) -> None:
    rows = {row["step"]: row for row in rows_of(runs[name])}
    steps, dead = (np.array(column) for column in runs[name]["groups"])
    compared = 0
    for path in sorted((folder / name / "completions").glob("*.parquet")):
        table = pl.read_parquet(path)
        step = int(table["step"][0])
        made = steps[steps <= step].max() if (steps <= step).any() else None
        columns = [table[c].to_list() for c in table.columns if c in ("flaky", "brief", "verdict")]
        groups = groups_of(columns)
        of_step = dead[steps == made]
        found = [len(g) < 2 or max(g) - min(g) <= 1e-8 for g in groups]
        assert found[-of_step.size :] == of_step.tolist()
        if step in rows and "grpo_plan/dead_fraction" in rows[step] and name != "sparse":
            assert rows[step]["grpo_plan/dead_fraction"] == pytest.approx(np.mean(found))
            compared += 1
    assert compared >= {"batch": 8, "twice": 4, "sparse": 0, "whole": 1}[name]


@trained
@pytest.mark.slow
def test_the_own_metric_of_trl_is_no_share_with_batch_scaling(runs: dict[str, Any]) -> None:
    rows = rows_of(runs["batch"])
    assert all(row["frac_reward_zero_std"] == 0.0 for row in rows)
    assert max(row["grpo_plan/dead_fraction"] for row in rows) >= 0.25


@trained
@pytest.mark.slow
def test_training_is_as_without_it(runs: dict[str, Any]) -> None:
    assert not any(run["wrapped"] for run in runs.values())
    unlike = ("step_time", "grpo_plan/", "train_")

    def rest(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if not k.startswith(unlike)} for row in run["history"]]

    assert repr(rest(runs["batch"])) == repr(rest(runs["alone"]))


@trained
@pytest.mark.slow
def test_callbacks_before_and_after_it_get_the_row_with_its_counts(runs: dict[str, Any]) -> None:
    for sent in runs["batch"]["sent"]:
        rows = [row for row in sent if "loss" in row]
        assert [row["grpo_plan/dead_fraction"] for row in rows] == [
            row["grpo_plan/dead_fraction"] for row in rows_of(runs["batch"])
        ]


@trained
@pytest.mark.slow
def test_it_stops_a_run_that_learns_nothing(runs: dict[str, Any], folder: Path) -> None:
    assert 10 <= runs["stopped"]["steps"] < 60
    alerts = [json.loads(line) for line in (folder / "alerts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert alerts[-1]["step"] == runs["stopped"]["steps"]
    assert "critical" in {alert["severity"] for alert in alerts}
    assert len({(a["id"], a["severity"], a["new"]) for a in alerts}) == len(alerts)


def test_without_transformers_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    grpo_plan.trl._callback.cache_clear()
    with pytest.raises(MissingExtraError, match=r"Install grpo-plan\[trl\]\.$"):
        from grpo_plan.trl import GrpoPlanCallback  # noqa: F401
    grpo_plan.trl._callback.cache_clear()
    with pytest.raises(AttributeError, match="nothing"):
        _ = grpo_plan.trl.nothing  # type: ignore[attr-defined,unused-ignore]


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The callback on a stand-in for transformers."""
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    grpo_plan.trl._callback.cache_clear()
    yield grpo_plan.trl.GrpoPlanCallback
    grpo_plan.trl._callback.cache_clear()


def state_at(step: int, history: list[dict[str, Any]] | None = None) -> SimpleNamespace:
    return SimpleNamespace(global_step=step, log_history=history or [], is_world_process_zero=True)


def test_without_a_trainer_it_watches_the_metrics(watching: Any, caplog: pytest.LogCaptureFixture) -> None:
    callback = watching(stop_on="warning")
    args, control = (
        SimpleNamespace(num_generations=8, scale_rewards="group"),
        SimpleNamespace(should_training_stop=False),
    )
    callback.on_train_begin(args, state_at(0), control)
    with caplog.at_level(logging.INFO, logger="grpo_plan.trl"):
        for step in range(1, 60):
            callback.on_step_begin(args, state_at(step - 1), control)
            callback.on_step_end(args, state_at(step), control)
            row = {"loss": 0.0, "reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0}
            callback.on_log(args, state_at(step), control, logs=row)
            callback.on_log(args, state_at(step), control, logs={"eval_reward": 1.0})
            if control.should_training_stop:
                break
    assert 10 <= step < 59
    assert callback.monitor.run.steps.tolist() == list(range(1, step + 1))
    assert caplog.records
    assert max(record.levelno for record in caplog.records) >= logging.WARNING
    callback.on_train_end(args, state_at(step), control)


def test_a_run_that_is_taken_up_again_knows_its_earlier_rows(watching: Any) -> None:
    history = [{"step": s, "reward": 0.5, "loss": 0.0} for s in range(1, 8)] + [{"step": 5, "eval_reward": 0.1}]
    callback = watching()
    callback.on_train_begin(SimpleNamespace(), state_at(5, history), SimpleNamespace())
    assert callback.monitor.run.steps.tolist() == [1, 2, 3, 4, 5]


def test_a_callback_that_fails_does_not_end_training(watching: Any, caplog: pytest.LogCaptureFixture) -> None:
    callback = watching(report_to="/nowhere/alerts.jsonl")
    callback.on_train_begin(SimpleNamespace(), state_at(0), SimpleNamespace())
    callback.monitor.update = None
    with caplog.at_level(logging.WARNING, logger="grpo_plan.trl"):
        for step in (1, 2):
            callback.on_log(SimpleNamespace(), state_at(step), SimpleNamespace(), logs={"loss": 0.0})
    assert len(caplog.records) == 1
    assert "training goes on" in caplog.text


def test_what_it_refuses(watching: Any) -> None:
    with pytest.raises(DomainError, match="stop_on must be 'warning' or 'critical' or None; got 'grave'"):
        watching(stop_on="grave")
    with pytest.raises(DomainError, match="plan must be a Plan; got int"):
        watching(plan=3)
