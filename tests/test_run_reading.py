"""Logs of runs: as tools write them, in every carrier, taken up again, cut off and damaged."""

from __future__ import annotations

import csv
import json
import lzma
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.quantities import Cause, Stage
from grpo_plan.readers.candidates import look
from grpo_plan.readers.discovery import natural
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.registry import formats, recognised

DATA = Path(__file__).parent / "data"
TRL = DATA / "trl"


def told(run: gp.RunLog, name: str) -> gp.Quantity:
    found = run.quantity(name)
    assert isinstance(found, gp.Quantity), found
    return found


def untold(run: gp.RunLog, name: str) -> gp.Absent:
    found = run.quantity(name)
    assert isinstance(found, gp.Absent), found
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


# --- as tools write them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mean", "steps", "size"), [("binary", 0.5, 20, 4), ("none2", 0.425, 20, 4), ("gap", 0.4375, 4, 8)]
)
def test_trl_logged_dead_fractions(name: str, mean: float, steps: int, size: int) -> None:
    run = gp.read_run(TRL / name / "trainer_state.json")
    assert (run.format, run.tool, run.steps.size, run.group_size) == ("trainer-state", "trl", steps, size)
    assert told(run, "dead_fraction").mean == pytest.approx(mean)
    assert told(run, "prompts_per_step").values[0] == (8 if name == "none2" else 4)
    assert run.dropped == {"summary_rows": 1}
    assert run.unknown_keys == ()
    assert not {"train_loss", "train_runtime", "step"} & set(run.metrics)
    assert np.all(np.diff(run.steps) > 0)


def test_trap_2_metrics_are_absent_at_steps_that_reuse_rollouts() -> None:
    run = gp.read_run(TRL / "none2" / "trainer_state.json")
    known = np.isfinite(told(run, "dead_fraction").values)
    assert run.steps[known].tolist() == list(range(1, 21, 2))
    assert np.isfinite(told(run, "grad_norm").values).all()


@pytest.mark.parametrize(
    ("name", "groups", "dead", "disagree"), [("binary", 80, 40, 0), ("none2", 80, 39, 5), ("batchstd", 36, 10, 0)]
)
def test_rollouts_beside_the_state_of_trl_are_counted(name: str, groups: int, dead: int, disagree: int) -> None:
    source = TRL / name
    if not (source / "completions").is_dir():
        pytest.fail(f"{source}/completions is missing")
    run = gp.read_run(source)
    assert run.groups is not None
    assert (run.groups.groups, run.groups.dead_groups) == (groups, dead)
    found = told(run, "dead_fraction")
    assert found.mean == pytest.approx(dead / groups)
    assert any(f"says otherwise at {disagree} of" in note for note in found.notes) == bool(disagree)


def test_trap_1_the_logged_mean_of_a_window_counts_where_only_its_last_batch_was_dumped() -> None:
    run = gp.read_run(TRL / "gap")
    assert run.groups is not None
    assert (run.groups.groups, run.groups.dead_groups) == (16, 6)
    assert told(run, "dead_fraction").mean == pytest.approx(0.4375)


def dumped_groups(folder: Path, size: int, training: Callable[[int], bool]) -> gp.GroupLog:
    """Groups of consecutive rows, as TRL writes them."""
    step, low, high = [], [], []
    for path in sorted(folder.glob("*.parquet"), key=lambda p: natural(p.name)):
        table = pl.read_parquet(path)
        rewards = table["graded"].to_numpy().reshape(-1, size)
        if training(int(table["step"][0])):
            step += [int(table["step"][0])] * len(rewards)
            low += rewards.min(axis=1).tolist()
            high += rewards.max(axis=1).tolist()
    count = np.full(len(step), size)
    return gp.GroupLog(
        step=np.array(step), prompt_id=np.array([str(i) for i in range(len(step))], dtype=object), rollouts=count,
        scored=count, reward_min=np.array(low), reward_max=np.array(high), reward_mean=np.array(low),
    )  # fmt: skip


def test_trap_4_a_batch_wide_flag_reads_0_where_half_of_the_groups_are_dead() -> None:
    folder = TRL / "batchstd"
    run = gp.read_run(folder, groups=False)
    assert set(run.metrics["frac_reward_zero_std"].tolist()) == {0.0}
    assert untold(run, "dead_fraction").cause is Cause.BATCH_FLAG
    assert run.eval_steps.tolist() == [4, 8, 12]
    assert run.eval_metrics["eval_reward"].shape == (3,)
    assert not any(name.startswith("eval_") for name in run.metrics)
    assert run.unknown_keys == ("graded_max",)
    groups = dumped_groups(folder / "completions", 4, lambda step: step not in (4, 8, 12))  # those hold evaluations
    counted = told(
        gp.RunLog(**{**{f: getattr(run, f) for f in run.__dataclass_fields__}, "groups": groups}), "dead_fraction"
    )
    assert {s: v for s, v in zip(run.steps.tolist(), counted.values.tolist(), strict=True) if v == 0.5}.keys() == {
        2,
        3,
        7,
        9,
    }
    assert any("0/1" in note or "only where all rewards of a batch are equal" in note for note in counted.notes)


@pytest.mark.parametrize("name", ["binary", "batchstd"])
def test_event_files_equal_the_trainer_state(name: str) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    events, state = gp.read_run(TRL / name / "tb"), gp.read_run(TRL / name / "trainer_state.json")
    assert events.format == "tensorboard"
    np.testing.assert_array_equal(events.steps, state.steps)
    np.testing.assert_array_equal(events.eval_steps, state.eval_steps)
    for metric in set(state.metrics) - {"epoch"}:
        np.testing.assert_allclose(events.metrics[f"train/{metric}"], state.metrics[metric], rtol=1e-6, err_msg=metric)
    assert events.eval_metrics.keys() == {n.replace("eval_", "eval/", 1) for n in state.eval_metrics}
    assert events.config["loss_type"] == "dapo"  # from the arguments that the event file holds
    assert any("args/text_summary" in note for note in events.notes)
    for quantity in ("dead_fraction", "reward_mean", "reward_std"):
        assert type(events.quantity(quantity)) is type(state.quantity(quantity))


def test_event_files_without_the_extra_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "tensorboard":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(gp.MissingExtraError, match=r"grpo-plan\[tensorboard\]") as caught:
        gp.read_run(TRL / "binary" / "tb")
    assert "\n" not in str(caught.value)


def test_several_event_files_of_a_folder_are_one_run_and_several_folders_are_several(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer", reason="no tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    def log(folder: Path, steps: range, shift: float) -> None:
        out = writer.EventFileWriter(str(folder))
        for step in steps:
            value = Summary.Value(tag="train/frac_reward_zero_std", simple_value=shift + step / 100)
            out.add_event(Event(wall_time=1000.0 + step, step=step, summary=Summary(value=[value])))
        out.close()

    log(tmp_path / "a", range(12_000), 0.0)
    first = next((tmp_path / "a").iterdir())
    first.rename(first.with_name("events.out.tfevents.1000000000.host.1.0"))
    log(tmp_path / "a", range(11_000, 12_500), 0.5)
    run = gp.read_run(tmp_path)
    assert run.steps.size == 12_500  # none sampled away
    assert run.metrics["train/frac_reward_zero_std"][11_000] == pytest.approx(0.5 + 110.0)
    assert run.dropped == {"steps_logged_twice": 1000}
    log(tmp_path / "b", range(5), 0.0)
    with pytest.raises(gp.PilotFormatError, match=r"holds 2 runs: a, b\. Name one of them"):
        gp.read_run(tmp_path)
    assert gp.read_run(tmp_path, run="b").steps.size == 5
    (tmp_path / "c").mkdir()
    broken = tmp_path / "c" / "events.out.tfevents.1.host"
    broken.write_bytes(first.with_name("events.out.tfevents.1000000000.host.1.0").read_bytes()[:70] + b"\xff" * 40)
    with pytest.raises(gp.PilotFormatError, match="holds no scalars"):
        gp.read_run(broken)


def test_tinker_joins_its_settings_and_the_log_before_a_resume(tmp_path: Path) -> None:
    run = gp.read_run(DATA / "tinker" / "run")
    assert (run.format, run.tool, run.group_size) == ("tinker-metrics", "tinker", 4)
    rows = [json.loads(line) for line in (DATA / "tinker" / "run" / "metrics.jsonl").read_text().splitlines()]
    for quantity, metric in (
        ("mixed_fraction", "frac_mixed"), ("all_pass_fraction", "frac_all_good"), ("all_fail_fraction", "frac_all_bad"),
    ):  # fmt: skip
        np.testing.assert_array_equal(told(run, quantity).values, [r[f"env/all/by_group/{metric}"] for r in rows])
    assert told(run, "dead_fraction").mean == pytest.approx(
        1 - np.mean([r["env/all/by_group/frac_mixed"] for r in rows])
    )
    assert told(run, "prompts_per_step").values[0] == 8
    write(tmp_path / "metrics.jsonl", rows[6:])
    write(tmp_path / "metrics.jsonl.pre_resume_000008", rows[:8])
    joined = gp.read_run(tmp_path)
    assert joined.steps.tolist() == list(range(12))
    assert joined.dropped == {"rows_of_a_backup": 2}


def test_verl_with_its_dump_counts_what_was_evicted() -> None:
    folder = DATA / "verl" / "verl_v1"
    run = gp.read_run(folder)
    assert run.groups is not None
    assert (run.format, run.groups.groups, run.group_size) == ("verl-metrics", 24, 8)
    dead = told(run, "dead_fraction")
    np.testing.assert_allclose(dead.values, [5 / 8, 3 / 8, 4 / 8])  # as fit counts them: the dump holds dead groups
    assert any("12 of the 24 groups of rollouts are dead" in note for note in dead.notes)
    assert dead.stage is Stage.BEFORE
    assert told(run, "reward_mean").values[0] == 0.4
    alone = gp.read_run(folder / "toy_project" / "toy_run.jsonl")
    assert untold(alone, "dead_fraction").cause is Cause.NEEDS_SETTING
    given = gp.read_run(folder / "toy_project", config={"data": {"train_batch_size": 16}})
    np.testing.assert_allclose(told(given, "dead_fraction").values, [4 / 20, 5 / 21, 6 / 22])
    assert not any("are pooled" in note for note in run.notes)  # steps are kept apart


def test_a_dump_without_metrics_is_a_run_of_its_groups() -> None:
    run = gp.read_run(DATA / "verl" / "verl_v1" / "rollouts")
    assert (run.metrics, run.steps.tolist(), run.format) == ({}, [1, 2, 3], "verl-v1")
    counted = gp.read_groups(DATA / "verl" / "verl_v1" / "rollouts")
    _, groups, dead = counted.dead_by_step()
    np.testing.assert_allclose(told(run, "dead_fraction").values, dead / groups)
    assert told(run, "all_pass_fraction").mean is not None


@pytest.mark.parametrize("version", ["v0.3", "v0.6", "v0.8"])
def test_prime_rl_in_three_generations_of_names(version: str) -> None:
    run = gp.read_run(DATA / "prime_rl" / version)
    assert run.format == "prime-rl-metrics"
    values = {name: told(run, f"{name}_fraction").values.tolist() for name in ("dead", "all_pass", "all_fail", "mixed")}
    assert values == {"dead": [0.375] * 2, "all_pass": [0.125] * 2, "all_fail": [0.25] * 2, "mixed": [0.625] * 2}


def test_several_writers_of_a_step_are_joined(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for step in (0, 1, 2):
        rows += [
            {"step": step, "time": 1.0, "solve_none/all": 0.1 * step, "solve_all/all": 0.2},
            {"step": step, "time": 2.0, "optim/grad_norm": 1.0},
        ]
    run = gp.read_run(write(tmp_path / "metrics.jsonl", rows))
    assert (run.steps.tolist(), run.dropped) == ([0, 1, 2], {})
    assert told(run, "grad_norm").values.tolist() == [1.0] * 3


def test_ms_swift_and_easyr1() -> None:
    swift = gp.read_run(DATA / "ms_swift" / "logging.jsonl")
    assert (swift.format, swift.steps.tolist()) == ("ms-swift-metrics", [1, 2])
    assert told(swift, "dead_fraction").values.tolist() == [0.375] * 2
    assert told(swift, "group_reward_std").values.tolist() == [0.21] * 2
    easy = gp.read_run(DATA / "easyr1")
    assert (easy.format, told(easy, "reward_mean").values.tolist()) == ("easyr1-metrics", [0.5] * 2)
    assert easy.metrics["critic/advantages/max"].tolist() == [1.8] * 2
    assert told(easy, "advantage_abs_max").values.tolist() == [1.8] * 2


def test_mlflow_database_equals_the_trainer_state(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.write_bytes(lzma.decompress((DATA / "mlflow" / "mlflow.db.xz").read_bytes()))
    before = path.read_bytes()
    run, state = gp.read_run(path), gp.read_run(TRL / "binary" / "trainer_state.json")
    assert (run.format, run.group_size, run.config) == ("mlflow", 4, {"num_generations": "4"})
    for metric in ("reward", "frac_reward_zero_std"):
        np.testing.assert_array_equal(run.metrics[metric], state.metrics[metric])
    assert told(run, "dead_fraction").mean == pytest.approx(0.5)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mlflow.db"]
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as base:
        base.execute("INSERT INTO runs SELECT 'other', name, source_type, source_name, entry_point_name, user_id, status, start_time + 1,"
                     " end_time, source_version, lifecycle_stage, artifact_uri, experiment_id, deleted_time FROM runs")  # fmt: skip
        base.execute("INSERT INTO metrics VALUES ('reward', 0.25, 1, 'other', 7, 0), ('reward', 0.0, 2, 'other', 8, 1)")
        base.commit()
    with pytest.raises(gp.PilotFormatError, match=r"holds 2 runs: grpo, grpo \(other\)"):
        gp.read_run(path)
    other = gp.read_run(path, run="grpo (other)")
    assert (other.steps.tolist(), other.metrics["reward"].tolist()) == ([7], [0.25])


def test_the_old_file_store_of_mlflow(tmp_path: Path) -> None:
    for key, name in (("aa", "first"), ("bb", "second")):
        folder = tmp_path / "mlruns" / "1" / key
        (folder / "metrics" / "train").mkdir(parents=True)
        (folder / "params").mkdir()
        (folder / "params" / "num_generations").write_text("8")
        (folder / "meta.yaml").write_text(f"artifact_uri: x\nrun_name: {name}\n")
        lines = [f"17960555078{i:02d} {0.1 * i} {i}" for i in range(4)]
        (folder / "metrics" / "reward").write_text("\n".join([*lines, "1796055507899 nan 4", "half a li"]) + "\n")
        (folder / "metrics" / "train" / "frac_reward_zero_std").write_text("\n".join(lines) + "\n")
    with pytest.raises(gp.PilotFormatError, match="holds 2 runs: first, second"):
        gp.read_run(tmp_path)
    run = gp.read_run(tmp_path, run="second")
    assert (run.format, run.group_size, run.steps.tolist()) == ("mlflow-files", 8, [0, 1, 2, 3])
    assert set(run.metrics) == {"reward", "train/frac_reward_zero_std"}
    assert run.dropped == {"malformed_line": 1}


def test_charts_of_wandb_and_their_runs(tmp_path: Path) -> None:
    run = gp.read_run(DATA / "wandb_export" / "chart.csv")
    assert (run.format, run.steps.tolist()) == ("wandb-csv", [1, 2, 3, 4, 5])
    assert told(run, "dead_fraction").values.tolist() == [0.3] * 5
    assert list(run.metrics) == ["train/frac_reward_zero_std"]
    for metric in ("train/reward", "train/frac_reward_zero_std"):
        with (tmp_path / f"{metric[6:]}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["Step", *(f"{r} - {metric}{e}" for r in ("a - b", "c") for e in ("", "__MIN", "__MAX"))])
            out.writerows([[s, *[s / 10] * 3, *([s / 20] * 3 if s < 3 else [""] * 3)] for s in range(1, 5)])
    with pytest.raises(gp.PilotFormatError, match=r"holds 2 runs: a - b, c\. Name one of them"):
        gp.read_run(tmp_path)
    both = gp.read_run(tmp_path, run="c")
    assert (both.steps.tolist(), sorted(both.metrics)) == ([1, 2], ["train/frac_reward_zero_std", "train/reward"])
    with pytest.raises(gp.PilotFormatError, match=r"holds no run 'd'\. It holds: a - b, c"):
        gp.read_run(tmp_path, run="d")


def test_histories_of_wandb_go_by_the_training_step(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"_step": i, "_runtime": 1.0, "_timestamp": 2.0, "train/global_step": i // 2 * 5, **values}
        for i, values in enumerate([{"train/reward": 0.1}, {"train/frac_reward_zero_std": 0.4}, {"train/reward": 0.3}])
    ]
    rows.append({"_step": 9, "_runtime": 1.0, "_timestamp": 2.0, "completions": {"_type": "table-file", "nrows": 8}})
    run = gp.read_run(write(tmp_path / "history.jsonl", rows))
    assert (run.format, run.steps.tolist(), run.dropped) == ("wandb-history", [0, 5], {"rows_without_step": 1})
    summary = {"_wandb": {"runtime": 3}, "_step": 9, "_runtime": 2.0, "_timestamp": 1.0, "train/reward": 0.1}
    path = write(tmp_path / "b" / "wandb-summary.json", [summary])
    assert recognised(look(InputFile(name=str(path), path=path)), "run") is None


def test_the_own_log_of_wandb_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "run-1.wandb").write_bytes(b":W&B\xe1\xbe\x00" + bytes(range(64)))
    with pytest.raises(gp.PilotFormatError, match=r"scan_history\(\)"):
        gp.read_run(tmp_path)
    write(tmp_path / "history.jsonl", [{"_step": 1, "_runtime": 1.0, "train/reward_std": 0.1}])
    assert gp.read_run(tmp_path).format == "wandb-history"


def test_summaries_of_experiments_hold_runs_by_name(tmp_path: Path) -> None:
    steps = [{"step": i, "reward": 0.1 * i, "loss": 0.0, "zvf": 0.5, "gu": 0.5} for i in (1, 2, 3)]
    entries = [{"tag": "a", "group_size": 8, "step_log": steps}, {"tag": "b", "reward_trace": [0.5, 1.0]}]
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"metadata": {"x": 1}, "sweep": entries, "runs": entries}, indent=1))
    with pytest.raises(gp.PilotFormatError, match="holds 2 runs: a, b"):
        gp.read_run(path)
    run = gp.read_run(path, run="a")
    assert (run.format, run.group_size) == ("step-log", 8)
    assert told(run, "dead_fraction").values.tolist() == [0.5] * 3
    trace = gp.read_run(path, run="b")
    assert (trace.steps.tolist(), told(trace, "reward_mean").mean) == ([1, 2], 0.75)


def test_real_logs(real_data: Path) -> None:
    for name, rows in (("gemma3_1b_gsm8k", 25), ("unsloth_llama31_8b_gsm8k_G6", 250)):
        run = gp.read_run(real_data / "logs" / f"{name}_trainer_state.json")
        assert run.steps.size == rows
        assert told(run, "group_reward_std").mean is not None  # completion_length: an old version
        assert untold(run, "dead_fraction").cause is Cause.NOT_LOGGED
        assert run.unknown_keys == ()
    sweeps = real_data / "logs" / "tinker_qwen3_8b_gsm8k_G8_temperature_rank_batch_sweeps.json"
    run = gp.read_run(sweeps, run="w6_temp0.2_r32_b2")
    assert (run.group_size, run.steps.tolist()) == (8, list(range(1, 31)))
    dead = told(run, "dead_fraction")
    assert set(dead.values.tolist()) <= {0.0, 0.5, 1.0}  # two groups a step
    seeds = real_data / "logs" / "tinker_llama33_70b_gsm8k_G8_seeds.json"
    assert gp.read_run(seeds, run="w1_llama33-70b-inst_s42").steps.size == 30


# --- folders, steps, values --------------------------------------------------------------------------------------


def state(step: int, rows: list[dict[str, Any]]) -> str:
    return json.dumps({"best_metric": None, "global_step": step, "log_history": rows}, indent=1)


def history(last: int) -> list[dict[str, Any]]:
    return [
        {"step": s, "reward": s / 100, "frac_reward_zero_std": 0.5 + s / 1000, "loss": 0.1} for s in range(1, last + 1)
    ]


def test_the_latest_checkpoint_of_a_folder_counts(tmp_path: Path) -> None:
    for step in (5, 10, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(state(step, history(step)))
        (folder / "config.json").write_text('{"hidden_size": 8, "model_type": "x"}')
        (folder / "adapter_config.json").write_text('{"r": 8}')
    run = gp.read_run(tmp_path)
    assert run.source == str(tmp_path / "checkpoint-100" / "trainer_state.json")
    assert run.steps.size == 100
    assert run.config == {}
    assert any("the latest of 3 checkpoints" in note for note in run.notes)
    (tmp_path / "checkpoint-200").mkdir()
    (tmp_path / "checkpoint-200" / "trainer_state.json").write_text(state(200, history(200))[:400])  # was being written
    assert gp.read_run(tmp_path).steps.size == 100
    (tmp_path / "README.md").write_text("# Card\n### Framework versions\n\n- TRL: 0.26.2\n- Transformers: 5.0\n")
    assert gp.read_run(tmp_path).config == {"trl_version": "0.26.2"}
    other = tmp_path / "second"
    other.mkdir()
    (other / "trainer_state.json").write_text(state(3, history(3)))
    with pytest.raises(gp.PilotFormatError, match="holds 2 runs"):
        gp.read_run(tmp_path)
    assert gp.read_run(tmp_path, run="second").steps.size == 3


def test_the_same_run_in_several_formats_is_read_once(tmp_path: Path) -> None:
    shutil.copytree(TRL / "binary", tmp_path / "run")
    run = gp.read_run(tmp_path / "run")
    assert run.format == "trainer-state"
    assert "Also there, and not read: tensorboard (1 file)." in run.notes
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    assert gp.read_run(tmp_path / "run", format="tensorboard").format == "tensorboard"


def test_a_threshold_says_what_passes_in_the_rollouts() -> None:
    rewards = {"a": (0.0, 0.5, 1.0), "b": (1.0, 1.0, 1.0), "c": (0.5, 0.5, 0.5)}
    rows = [{"step": 1, "prompt_id": name, "reward": r} for name, held in rewards.items() for r in held]
    assert "pass_threshold=" in untold(gp.read_run(rows), "all_pass_fraction").reason
    run = gp.read_run(rows, pass_threshold=1.0)
    assert told(run, "all_pass_fraction").values.tolist() == [pytest.approx(1 / 3)]
    assert told(run, "reward_mean").values.size == 1


def test_ms_swift_is_told_from_trl_by_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text(
        state(2, [{**r, "reward_std": 0.1, "global_step/max_steps": "1/2"} for r in history(2)])
    )
    run = gp.read_run(tmp_path)
    assert (run.format, run.tool) == ("trainer-state", "ms-swift")
    shutil.copy(DATA / "ms_swift" / "logging.jsonl", tmp_path)
    (tmp_path / "args.json").write_text(json.dumps({"num_generations": 8, "dynamic_sample": True}))
    both = gp.read_run(tmp_path)
    assert (both.format, both.group_size) == ("ms-swift-metrics", 8)
    assert untold(both, "dead_fraction").cause is Cause.SURVIVORS_ONLY


def test_a_run_taken_up_again_undoes_what_came_after(tmp_path: Path) -> None:
    first = [{"step": s, "reward": 0.1, "reward_std": 0.1, "kl": 0.0} for s in range(1, 11)]
    second = [{"step": s, "reward": 0.9, "reward_std": 0.1, "kl": 0.0} for s in range(6, 9)]
    run = gp.read_run(write(tmp_path / "log.jsonl", first + second))
    assert run.steps.tolist() == list(range(1, 9))
    assert run.metrics["reward"].tolist() == [0.1] * 5 + [0.9] * 3
    assert run.dropped == {"steps_logged_twice": 3, "steps_undone_by_a_resume": 2}
    assert any("3 steps are logged twice" in note for note in run.notes)


def test_values_as_text_and_values_that_are_none(tmp_path: Path) -> None:
    rows = [
        '{"step": "1", "reward": "0.5", "reward_std": "nan", "kl": null, "note": "warm-up"}',
        '{"step": 2.0, "reward": NaN, "reward_std": 0.25, "kl": [0.125], "note": "x"}',
        '{"step": 3, "reward": Infinity, "reward_std": "", "kl": 1e999, "note": "y"}',
        '{"step": -1, "reward": 0.5}', '{"step": 2.5, "reward": 0.5}', '{"step": null, "reward": 0.5}', "17",
        '{"step": 4, "rew',
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(rows))
    run = gp.read_run(path, format="metrics")
    assert run.steps.tolist() == [1, 2]
    np.testing.assert_array_equal(run.metrics["reward"], [0.5, np.nan])
    np.testing.assert_array_equal(run.metrics["kl"], [np.nan, 0.125])
    assert run.dropped == {
        "values_not_finite": 3, "rows_without_step": 3, "rows_that_are_no_objects": 1, "truncated_last_line": 1,
    }  # fmt: skip
    assert "No numbers are in: note." in run.notes


def test_an_evaluation_before_training_is_no_step(tmp_path: Path) -> None:
    rows = [{"step": 0, "epoch": 0.0, "eval_reward": 0.2}, *({**r, "epoch": 0.1} for r in history(3))]
    (tmp_path / "trainer_state.json").write_text(state(3, rows))
    run = gp.read_run(tmp_path)
    assert (run.steps.tolist(), run.eval_steps.tolist()) == ([1, 2, 3], [0])


@pytest.mark.parametrize("kind", ["csv", "array", "parquet", "jsonl"])
def test_plain_tables_of_metrics(tmp_path: Path, kind: str) -> None:
    rows = history(6)
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        pl.DataFrame(rows).write_csv(path)
    elif kind == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        path.write_text(json.dumps(rows) if kind == "array" else "\n".join(json.dumps(r) for r in rows))
    run = gp.read_run(path)
    assert (run.format, run.tool, run.steps.size) == ("metrics", "trl", 6)
    assert told(run, "dead_fraction").values[0] == pytest.approx(0.501)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty. Give a file with at least one row"),
        ("[]", "holds no metrics of training|no column of training steps"),
        ('{"step": 1}\n{"step": 2}', "holds no metrics of training"),
        ('{"step": 1, "reward": "high"}\n{"step": 2, "reward": "low"}', "holds no metrics of training"),
        ('{"prompt": "a", "n": 4, "k": 1}\n', "Is it a pilot"),
        (
            '{"step": 1, "reward": 0.1, "reward_std": 0.1, "kl": 1}\n{broken\n{"step": 2, "reward": 0.1}',
            ":2: is no JSON",
        ),
        ('{"global_step": 3, "log_history": []}', "holds no metrics of training"),
        ('{"global_step": 3, "log_history": [1, null, "x"]}', "holds no metrics of training"),
    ],
)
def test_what_holds_no_run_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(gp.PilotFormatError, match=message) as caught:
        gp.read_run(path)
    assert "\n" not in str(caught.value)


def test_malformed_lines_are_dropped_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "reward_std": 0.1, "kl": 1}\n{broken\n{"step": 2, "reward_std": 0.1}\n')
    run = gp.read_run(path, skip_malformed=True)
    assert (run.steps.tolist(), run.dropped) == ([1, 2], {"malformed_line": 1})


def test_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", history(3))
    wrong: list[dict[str, Any]] = [{"group_size": 0}, {"run": 3}, {"run": []}, {"config": "x"}, {"format": "nope"}]
    for options in wrong:
        with pytest.raises(gp.DomainError):
            gp.read_run(path, **options)
    with pytest.raises(gp.PilotFormatError, match="holds no run 'x'"):
        gp.read_run(path, run="x")
    with pytest.raises(gp.PilotFormatError, match="gives a pilot, not a log of metrics"):
        gp.read_run(path, format="verl-v1")
    with pytest.raises(gp.PilotFormatError, match="no such file"):
        gp.read_run(tmp_path / "none")


def test_damaged_databases_are_refused(tmp_path: Path) -> None:
    whole = lzma.decompress((DATA / "mlflow" / "mlflow.db.xz").read_bytes())
    path = tmp_path / "mlflow.db"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(gp.PilotFormatError):
        gp.read_run(path)


# --- sniffing ----------------------------------------------------------------------------------------------------

OWN = {
    "trl/binary/trainer_state.json": "trainer-state",
    "trl/binary/tb": "tensorboard",
    "tinker/run/metrics.jsonl": "tinker-metrics",
    "verl/verl_v1/toy_project/toy_run.jsonl": "verl-metrics",
    "ms_swift/logging.jsonl": "ms-swift-metrics",
    "easyr1/experiment_log.jsonl": "easyr1-metrics",
    "prime_rl/v0.3/metrics.jsonl": "prime-rl-metrics",
    "prime_rl/v0.6/metrics.jsonl": "prime-rl-metrics",
    "prime_rl/v0.8/metrics.jsonl": "prime-rl-metrics",
    "wandb_export/chart.csv": "wandb-csv",
}
NO_RUN = [
    {"prompt": "a", "reward": 1, "step": 3, "reward_std": 0.1, "kl": 0.1},
    {"prompt_id": "a", "rewards": [0, 1]},
    {"step": 1, "question_id": 7, "reward": 1.0},
    {"input": "a", "output": "b", "gts": "", "score": 1.0, "step": 1, "uid": "a_0_0"},
    {"example_id": 1, "reward": 0.5, "metrics": {"correct": 1.0}},
]


@pytest.mark.parametrize("name", sorted(OWN))
def test_each_log_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    path = next((DATA / name).iterdir()) if (DATA / name).is_dir() else DATA / name
    copy = tmp_path / "file"
    shutil.copy(path, copy)
    found = recognised(look(InputFile(name=str(copy), path=copy)), "run")
    assert found is not None
    assert found.name == OWN[name]
    assert next(f.name for f in formats() if f.run and f.looks_like(look(InputFile(name="x", path=copy)))) == OWN[name]
    assert recognised(look(InputFile(name=str(copy), path=copy)), "pilot") is None


def test_no_other_file_of_any_tool_is_taken_for_a_log_of_metrics() -> None:
    logs = {*OWN, *(f"trl/{name}/trainer_state.json" for name in ("none2", "batchstd", "gap"))}
    for path in sorted(p for p in DATA.rglob("*") if p.is_file() and p.suffix not in (".xz", ".md", ".yaml", ".toml")):
        name = path.relative_to(DATA).as_posix()
        if name in logs or "tfevents" in name or name.startswith("rivals/"):
            continue
        try:
            found = recognised(look(InputFile(name=name, path=path)), "run")
        except gp.PilotFormatError:
            continue
        assert found is None, f"{name} is taken for {found and found.name}"


@pytest.mark.parametrize("row", NO_RUN)
def test_rollouts_are_no_log_of_metrics(row: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [row] * 20)
    assert recognised(look(InputFile(name=str(path), path=path)), "run") is None


def test_speed_is_read_from_every_carrier(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    state_speed = gp.read_throughput(TRL / "binary" / "trainer_state.json")
    for source in (TRL / "binary", TRL / "binary" / "tb"):
        assert gp.read_throughput(source).tokens_per_s == pytest.approx(state_speed.tokens_per_s, rel=1e-5)
    rows = [
        {"step": s, "env/all/total_ac_tokens": 100 * s, "env/all/total_ob_tokens": 10, "time/total": 3 + s}
        for s in range(1, 20)
    ]
    tinker = gp.read_throughput(write(tmp_path / "metrics.jsonl", rows))
    assert tinker.tokens_per_s == pytest.approx(100)
    with pytest.raises(gp.PilotFormatError) as caught:
        gp.read_throughput(write(tmp_path / "other.jsonl", [{"step": 1, "loss": 0.1}]))
    assert "step_time=" not in str(caught.value)
    assert "pilot" not in str(caught.value).replace(str(tmp_path), "")
