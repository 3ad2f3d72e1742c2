"""tinker-cookbook's summaries: what its own serialiser wrote, against its own metrics."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grpo_plan import PilotFormatError, read_pilot
from grpo_plan.readers.groups_reader import read_groups

RUN = Path(__file__).parent / "data" / "tinker" / "run"


def summary(group: int, traj: int, reward: Any, *, iteration: int = 0, split: str = "train", **more: Any) -> str:
    step = {"step_idx": 0, "ob_len": 9, "ac_len": 5, "reward": reward, "metrics": {"correct": reward}, "logs": {}}
    row = {
        "schema_version": 1, "split": split, "iteration": iteration, "group_idx": group, "traj_idx": traj,
        "tags": ["math"], "total_reward": reward, "final_reward": 0.0, "steps": [step],
    } | more  # fmt: skip
    return json.dumps(row) + "\n"


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))
    return path


def test_groups_agree_with_the_metrics_that_tinker_logged() -> None:
    logged = [json.loads(line) for line in (RUN / "metrics.jsonl").read_text().splitlines()]
    log = read_groups(RUN)
    assert (log.groups, log.dead_groups) == (96, 38)
    for row in logged:
        here = log.step == row["step"]
        mixed, mean = ~log.dead[here], log.reward_mean[here]
        assert mixed.mean() == pytest.approx(row["env/all/by_group/frac_mixed"])
        assert (~mixed & (mean >= 0.5)).mean() == pytest.approx(row["env/all/by_group/frac_all_good"])
        assert (~mixed & (mean < 0.5)).mean() == pytest.approx(row["env/all/by_group/frac_all_bad"])
        assert mean.mean() == pytest.approx(row["env/all/reward/total"])


def test_correct_agrees_with_the_metrics_that_tinker_logged() -> None:
    for row in map(json.loads, (RUN / "metrics.jsonl").read_text().splitlines()):
        pilot = read_pilot(RUN, reward="correct", policy_steps=(row["step"], row["step"]))
        assert pilot.successes.sum() / pilot.rollouts.sum() == pytest.approx(row["env/all/correct"])
        assert np.nanmean(pilot.response_tokens) == pytest.approx(row["env/all/ac_tokens_per_turn"])  # type: ignore[arg-type]


def test_a_format_penalty_needs_a_threshold_or_another_reward() -> None:
    with pytest.raises(
        PilotFormatError,
        match=r"values seen: -0.1, 0, 0.9, 1\).*e.g. 0.9 .* Or judge by correct or format or final_reward with",
    ):
        read_pilot(RUN)
    by_threshold, by_metric = read_pilot(RUN, pass_threshold=0.9), read_pilot(RUN, reward="correct")
    assert by_threshold.successes.tolist() == by_metric.successes.tolist()
    summed = read_pilot(RUN, reward_weights={"correct": 1, "format": 0.1}, pass_threshold=1)
    assert summed.successes.tolist() == by_metric.successes.tolist()


def test_prompts_do_not_join_across_iterations() -> None:
    pilot = read_pilot(RUN, reward="correct")
    assert pilot.notes[0] == "read as tinker: 12 files, 384 rows, 96 groups of 4, steps 0 to 11."
    assert pilot.prompts == 96
    assert pilot.rollouts.tolist() == [4] * 96
    assert "rows name no prompt: each group is one, and prompts do not join across iterations." in pilot.notes
    assert np.all(pilot.temperature == 1.0)
    assert pilot.provenance.policies == ("toy",)
    assert set(pilot.stratum.tolist()) == {"toy_math"}  # type: ignore[union-attr]


def test_sets_of_an_evaluation_are_apart_from_training_and_from_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "iteration_000000"
    write(folder / "train_rollout_summaries.jsonl", [summary(0, i, float(i % 2)) for i in range(4)])
    for name in ("aime", "math"):
        lines = [summary(0, i, 1.0, split="test") for i in range(3)]
        write(folder / f"eval_{name}_rollout_summaries.jsonl", [*lines, summary(1, 0, float(name == "math"))][:4])
    pilot = read_pilot(tmp_path)
    assert pilot.dropped == {"eval_rows": 6}
    evaluation = read_pilot(tmp_path, split="eval")
    assert evaluation.rollouts.tolist() == [3, 3]
    assert evaluation.temperature is None
    alone = read_pilot(folder / "eval_aime_rollout_summaries.jsonl", where={"tags": "['math']"})
    assert alone.rollouts.sum() == 4


def test_trap_7_constant_groups_that_were_removed(tmp_path: Path) -> None:
    lines = [summary(g, i, float(i % 2)) for g in range(60) for i in range(4)]
    path = write(tmp_path / "iteration_000000" / "train_rollout_summaries.jsonl", lines)
    filtered = read_pilot(path).provenance.filtered
    assert filtered is not None
    assert "remove_constant_reward_groups dropped them" in filtered
    (tmp_path / "config.json").write_text('{"remove_constant_reward_groups": false}')  # then it is chance
    assert read_pilot(path).provenance.filtered is None


def test_a_metric_is_that_of_the_last_step_that_has_it(tmp_path: Path) -> None:
    steps = [{"ac_len": 3, "metrics": {"correct": 0.0}}, {"ac_len": 4, "metrics": {"correct": 1.0}}, {"ac_len": 5}]
    lines = [summary(0, 0, 0.0, steps=steps), summary(0, 1, 0.0, steps=[]), summary(0, 2, 0.0)]
    path = write(tmp_path / "i" / "train_rollout_summaries.jsonl", lines)
    pilot = read_pilot(path, reward="correct")
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([1], [2])
    assert pilot.dropped == {"missing_reward": 1}
    assert pilot.response_tokens is not None
    assert pilot.response_tokens.tolist() == [(12 + 5) / 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group_idx": None}, "group_idx must be a whole number; got None"),
        ({"steps": "x"}, "steps must be a list of objects; got x"),
        ({"steps": [1]}, r"steps must be a list of objects; got \[1\]"),
        ({"split": 1}, "split must be a text; got 1"),
    ],
)
def test_a_faulty_row_is_named_or_counted(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    lines = [summary(0, i, float(i % 2)) for i in range(60)] + [summary(0, 60, 1.0, **change)]
    path = write(tmp_path / "i" / "train_rollout_summaries.jsonl", lines)
    with pytest.raises(PilotFormatError, match=rf"jsonl:61: {message}\. Repair"):
        read_pilot(path)
    assert read_pilot(path, skip_malformed=True).dropped == {"malformed_line": 1}


def test_two_runs_do_not_share_groups(tmp_path: Path) -> None:
    for run in "ab":
        lines = [summary(0, i, float(run == "a")) for i in range(4)]
        write(tmp_path / run / "iteration_000000" / "train_rollout_summaries.jsonl", lines)
    assert read_groups(tmp_path).dead_groups == 2
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "a" / "config.json").write_text("{broken")
    assert read_pilot(tmp_path).prompts == 1
