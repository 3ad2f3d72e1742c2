"""TRL trains tiny models here, and what it logs is read: groups, dead groups, repeats and evaluations are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.readers.groups_reader import read_groups
from tests.conftest import ROOT

pytestmark = [pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed"), pytest.mark.slow]
STEPS = 8


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-W", "ignore", "-m", "tests.regenerate.trl_runs", str(folder), str(STEPS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def logged(run: Path, key: str) -> dict[int, Any]:
    history = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    return {row["step"]: row[key] for row in history if key in row}


def dead_by_step(run: Path, **options: Any) -> dict[int, float]:
    steps, size, dead = read_groups(run, **options).dead_by_step()
    return dict(zip(steps.tolist(), (dead / size).tolist(), strict=True))


def dead_by_advantage(run: Path, size: int) -> dict[int, float]:
    out = {}
    for path in sorted((run / "completions").glob("*.parquet")):
        frame = pl.read_parquet(path)
        silent = np.abs(frame["advantage"].to_numpy().reshape(-1, size)).max(axis=1) == 0
        out[int(frame["step"][0])] = float(silent.mean())
    return out


@pytest.mark.parametrize("settings", [True, False])
def test_dead_groups_are_those_that_trl_logged(runs: Path, settings: bool) -> None:
    files = runs / "binary" if settings else sorted((runs / "binary" / "completions").glob("*.parquet"))
    groups = read_groups(files)
    assert groups.groups == STEPS * 4
    assert dead_by_step(runs / "binary") == pytest.approx(logged(runs / "binary", "frac_reward_zero_std"))
    pilot = gp.read_pilot(files)
    assert pilot.total_rollouts == STEPS * 16
    mean = np.mean(list(logged(runs / "binary", "reward").values()))
    assert pilot.successes.sum() / pilot.total_rollouts == pytest.approx(mean)


def test_repeated_batches_and_failed_scoring(runs: Path) -> None:
    run = runs / "none2"
    groups = read_groups(run)
    assert groups.dropped["duplicate_rollouts"] == STEPS // 2 * 32
    assert sorted(logged(run, "reward")) == sorted(set(groups.step.tolist())) == list(range(1, STEPS, 2))
    by_advantage = dead_by_advantage(run, 4)
    assert dead_by_step(run) == pytest.approx({step: by_advantage[step] for step in range(1, STEPS, 2)})
    few = {int(s): int((groups.scored[groups.step == s] < 2).sum()) / 8 for s in set(groups.step.tolist())}
    flag = logged(run, "frac_reward_zero_std")  # counts no group with fewer than two scored rollouts
    assert dead_by_step(run) == pytest.approx({step: flag[step] + few[step] for step in flag})
    assert not any("differ" in note for note in groups.notes)


def test_evaluation_apart_from_training(runs: Path) -> None:
    run = runs / "batchstd"
    train, tested = dead_by_step(run), dead_by_step(run, split="eval")
    assert sorted(tested) == [4, 8]
    assert sorted(train) == [1, 2, 3, 5, 6, 7]
    assert train | tested == pytest.approx(dead_by_advantage(run, 4))
    rewards = logged(run, "rewards/graded/mean")
    means = read_groups(run)
    for step in train:
        assert means.reward_mean[means.step == step].mean() == pytest.approx(rewards[step])
    assert gp.read_pilot(run, pass_threshold=0.5, response_tokens="n_tokens").response_tokens is not None


def test_an_evaluation_of_fewer_rows_than_a_batch(runs: Path) -> None:
    run = runs / "small_eval"
    tested = read_groups(run, split="eval")
    assert tested.step.tolist() == [3, 3, 6, 6, 8, 8]  # and at the end
    assert tested.rollouts.tolist() == [2] * 6
    assert set(tested.prompt_id) == {"coin 12", "coin 13"}
    train = read_groups(run)
    steps, size, _ = train.dead_by_step()
    assert dict(zip(steps.tolist(), size.tolist(), strict=True)) == {2: 4, 3: 3, 4: 4, 6: 3, 8: 3}
    for split, log in (("eval", tested), ("train", train)):
        assert log.provenance.rows == 5 * 16, split
    mean = logged(run, "eval_rewards/verdict/mean")
    for step in (3, 6, 8):
        assert tested.reward_mean[tested.step == step].mean() == pytest.approx(mean[step])


def test_batches_between_logs_are_missing(runs: Path) -> None:
    groups = read_groups(runs / "gap")
    assert groups.groups == 2 * 4
    assert any(f"2 of the {STEPS} generation batches of training were read" in note for note in groups.notes)
