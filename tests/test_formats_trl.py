"""TRL's completions: files that TRL wrote, the traps of its log, and broken files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats.trl import FORMATS
from grpo_plan.readers.groups_reader import read_groups
from tests.conftest import ROOT
from tests.test_cli import Run, document
from tests.test_cli import run as command  # noqa: F401, a fixture
from tests.trl_log import Row, group, write_table

DATA = ROOT / "tests" / "data" / "trl"
SKEWED = (1.0, 0.0, 0.0, 0.0)


def told(notes: tuple[str, ...], words: str) -> str:
    """The one note that holds these words."""
    found = [note for note in notes if words in note]
    assert len(found) == 1, notes
    return found[0]


def copy(name: str, to: Path, *, without: tuple[str, ...] = ()) -> Path:
    return Path(shutil.copytree(DATA / name, to / name, ignore=shutil.ignore_patterns(*without)))


def mixed_table(count: int, size: int = 4, tag: str = "", **extra: Any) -> list[Row]:
    rewards = [1.0] + [0.0] * (size - 1)
    return [row for i in range(count) for row in group(f"p{i}", rewards, tag=f"{tag}{i}.", **extra)]


# --- files that TRL 1.16 wrote -------------------------------------------------------------------------------------


def test_binary_rewards() -> None:
    groups = read_groups(DATA / "binary")
    assert (groups.groups, groups.dead_groups) == (80, 40)
    assert groups.provenance.group_size == (4, 4)
    pilot = gp.read_pilot(DATA / "binary")
    assert (pilot.prompts, pilot.total_rollouts, pilot.dropped) == (24, 320, {})
    assert set(pilot.temperature.tolist() if pilot.temperature is not None else []) == {1.0}
    easy = [k == n for p, k, n in zip(pilot.prompt_id, pilot.successes, pilot.rollouts, strict=True) if "easy" in p]  # type: ignore[arg-type]
    assert easy == [True] * 5


def test_dead_groups_of_a_step_are_those_that_trl_logged() -> None:
    history = json.loads((DATA / "binary" / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    steps, size, dead = read_groups(DATA / "binary").dead_by_step()
    logged = {row["step"]: row["frac_reward_zero_std"] for row in history if "frac_reward_zero_std" in row}
    assert dict(zip(steps.tolist(), (dead / size).tolist(), strict=True)) == logged


def test_every_fixture_from_the_command_line(command: Run) -> None:  # noqa: F811
    found = document(command("fit", DATA / "gap", "--json"))["pilot"]
    assert found["provenance"]["format"] == "trl"
    assert found["provenance"]["groups"] == 16
    assert command("fit", DATA / "none2").code == 1
    weights = "sometimes_none=1,format_reward=1"
    assert command("fit", DATA / "none2", "--reward-weights", weights, "--pass-threshold", "1").code == 0


def test_single_files_and_globs_find_the_log_of_their_run() -> None:
    pilot = gp.read_pilot(str(DATA / "batchstd" / "completions" / "*.parquet"), pass_threshold=0.5)
    assert pilot.dropped == {"eval_rows": 48}
    one = gp.read_pilot(DATA / "binary" / "completions" / "completions_00003.parquet")
    assert one.total_rollouts == 16
    assert told(one.notes, "of the 20 generation batches").endswith("1 of the 20 generation batches of training were "
        "read: only the last generation batch before each log is written.")  # fmt: skip


# --- the traps -----------------------------------------------------------------------------------------------------


def test_trap_1_only_the_last_batch_before_each_log_is_on_disk() -> None:
    groups = read_groups(DATA / "gap")
    assert (groups.groups, groups.dead_groups) == (16, 6)
    assert "4 of the 20 generation batches of training were read" in told(groups.notes, "logging_steps = 5")
    assert not any("generation batches" in note for note in read_groups(DATA / "binary").notes)


def test_trap_1_without_settings_missing_steps_are_counted(tmp_path: Path) -> None:
    run = copy("gap", tmp_path, without=("run_config.json",))
    assert told(gp.read_pilot(run).notes, "tables of 4 of 20 steps were read, 16 are missing")


def test_trap_2_a_batch_used_twice_is_counted_once() -> None:
    groups = read_groups(DATA / "none2")
    assert groups.dropped["duplicate_rollouts"] == 320
    assert (groups.groups, groups.dead_groups) == (80, 39)  # 78 of 160 in the files
    assert told(groups.notes, "10 of 20 tables repeat the rollouts of another step")
    paths = sorted((DATA / "none2" / "completions").iterdir())
    silent = [pl.read_parquet(p)["advantage"].to_numpy().reshape(-1, 4) for p in paths]
    assert sum(int((np.abs(a).max(axis=1) == 0).sum()) for a in silent) == 2 * groups.dead_groups


def test_trap_2_equal_rows_of_one_table_are_honest(tmp_path: Path) -> None:
    write_table(tmp_path, 1, [row for _ in range(3) for row in group("p", [1.0, 1.0, 1.0, 1.0])] + group("q", SKEWED))
    pilot = gp.read_pilot(tmp_path, rollouts_per_prompt=4)
    assert pilot.rollouts.tolist() == [12, 4]
    assert not pilot.dropped


def test_trap_2_the_log_tells_new_rollouts_that_read_the_same(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_table(tmp_path, step, mixed_table(2))
    assert gp.read_pilot(tmp_path).dropped == {"duplicate_rollouts": 16}
    rows = [{"step": s, "loss": 0.0, "rewards/correct/mean": 0.5} for s in (1, 2)] + [{"step": 3, "loss": 0.0}]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 3, "log_history": rows}), encoding="utf-8")
    assert gp.read_pilot(tmp_path).dropped == {"duplicate_rollouts": 8}


def test_trap_2_a_copy_of_a_run_is_counted_once(tmp_path: Path) -> None:
    copy("binary", tmp_path / "a")
    copy("binary", tmp_path / "b")
    pilot = gp.read_pilot(tmp_path)
    assert (pilot.total_rollouts, pilot.dropped) == (320, {"duplicate_rollouts": 320})


def test_trap_3_evaluation_overwrites_training() -> None:
    groups = read_groups(DATA / "batchstd")
    assert groups.dropped == {"eval_rows": 48}
    assert sorted(set(groups.step.tolist())) == [1, 2, 3, 5, 6, 7, 9, 10, 11]
    note = told(groups.notes, "rollouts of evaluation at")
    assert "at steps 4, 8, 12 (by trainer_state.json)" in note
    assert "overwritten" in note
    assert told(groups.notes, "9 of the 12 generation batches").endswith("3 overwritten by evaluation.")
    evaluated = read_groups(DATA / "batchstd", split="eval")
    assert sorted(set(evaluated.step.tolist())) == [4, 8, 12]
    assert evaluated.dropped == {"train_rows": 144}
    assert read_groups(DATA / "batchstd", split="all").groups == 48


def test_trap_3_without_a_log_it_cannot_be_told_for_sure(tmp_path: Path) -> None:
    run = copy("batchstd", tmp_path, without=("trainer_state.json",))
    groups = read_groups(run)
    assert groups.dropped == {"eval_rows": 48}
    assert "the same prompts in the same order return at regular steps" in told(groups.notes, "steps 4, 8, 12")
    assert told(groups.notes, "cannot be told for sure")
    plain = gp.read_pilot(copy("binary", tmp_path, without=("trainer_state.json",)))
    assert (plain.total_rollouts, plain.dropped) == (320, {})
    assert told(plain.notes, "cannot be told for sure")
    assert not any("cannot be told" in note for note in gp.read_pilot(DATA / "binary").notes)


def test_trap_3_a_checkpoint_tells_up_to_its_step(tmp_path: Path) -> None:
    run = copy("batchstd", tmp_path)
    state = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))
    (run / "trainer_state.json").unlink()
    for step in (4, 8):
        rows = [row for row in state["log_history"] if row["step"] <= step]
        (run / f"checkpoint-{step}").mkdir()
        text = json.dumps(state | {"global_step": step, "log_history": rows})
        (run / f"checkpoint-{step}" / "trainer_state.json").write_text(text, encoding="utf-8")
    groups = read_groups(run)
    assert "steps 4, 8 (by checkpoint-8/trainer_state.json)" in told(groups.notes, "rollouts of evaluation at")
    assert told(groups.notes, "ends at step 8, before 4 of 12 tables")


def test_trap_4_the_flag_of_a_batch_is_not_the_share_of_dead_groups() -> None:
    history = json.loads((DATA / "batchstd" / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    assert {row["frac_reward_zero_std"] for row in history if "frac_reward_zero_std" in row} == {0.0}
    steps, size, dead = read_groups(DATA / "batchstd").dead_by_step()
    assert [s for s, n in zip(steps, dead, strict=True) if n == 2] == [2, 3, 7, 9]
    assert set(size) == {4}


def test_trap_4_rewards_normalised_apart_are_said(tmp_path: Path) -> None:
    rows = mixed_table(4)
    for row in rows:
        row["length"] = 1.0 - row["correct"]  # the sum is 1 everywhere: dead by the sum, not by two norms
    rows = [{k: row[k] for k in ("prompt", "completion", "correct", "length", "advantage")} for row in rows]
    write_table(tmp_path, 1, rows)
    settings = {"num_generations": 4, "multi_objective_aggregation": "normalize_then_sum"}
    (tmp_path / "run_config.json").write_text(json.dumps(settings), encoding="utf-8")
    log = {"step": 1, "loss": 0.0, "rewards/correct/mean": 0.2, "rewards/length/mean": 0.2}
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": [log]}), encoding="utf-8")
    groups = read_groups(tmp_path)
    assert groups.dead_groups == 4
    note = told(groups.notes, "4 of 4 groups are dead by their rewards, 0 by the trainer's advantages")
    assert "4 differ (the rewards were normalised apart)" in note
    assert not any(
        "differ" in n for name in ("binary", "batchstd", "gap", "none2") for n in read_groups(DATA / name).notes
    )


def test_trap_6_failed_scoring_is_no_reward() -> None:
    pilot = gp.read_pilot(DATA / "none2", reward="sometimes_none")
    assert pilot.dropped["missing_reward"] == 82
    assert pilot.total_rollouts == 320 - 82
    groups = read_groups(DATA / "none2")
    assert groups.dropped["missing_reward"] == 53  # None in both functions
    few = groups.scored < 2
    assert few.any()
    assert groups.dead[few].all()


def test_trap_6_before_trl_1_6_failed_scoring_was_a_zero(tmp_path: Path) -> None:
    rows = group("p", [1.0, 1.0, 1.0, None]) + group("q", SKEWED)
    for row, advantage in zip(rows, (0.5, 0.5, 0.5, -1.5), strict=False):
        row["advantage"] = advantage
    write_table(tmp_path, 1, rows)
    groups = read_groups(tmp_path)
    assert groups.dead.tolist() == [True, False]
    assert told(groups.notes, "1 rollouts without any reward have an advantage")
    assert "1 differs (failed scoring was taken for 0)" in told(groups.notes, "dead by their rewards")


# --- group size ----------------------------------------------------------------------------------------------------


def test_the_group_size_is_inferred_from_equal_prompts(tmp_path: Path) -> None:
    for name, size, number in (("binary", 4, 80), ("gap", 8, 16)):
        run = copy(name, tmp_path, without=("run_config.json",))
        groups = read_groups(run)
        assert groups.rollouts.tolist() == [size] * number
        assert told(groups.notes, f"groups of {size} (from runs of equal prompts)")


def test_a_prompt_twice_in_a_row_is_two_groups(tmp_path: Path) -> None:
    write_table(tmp_path, 1, group("p", SKEWED) + group("p", SKEWED) + group("q", SKEWED))
    assert read_groups(tmp_path).rollouts.tolist() == [4, 4, 4]


def test_one_prompt_all_the_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for step in range(1, 6):
        rewards = (rng.random((4, 8)) < 0.3).astype(float)
        write_table(tmp_path, step, [row for i in range(4) for row in group("p", rewards[i], tag=f"{step}.{i}.")])
    assert set(read_groups(tmp_path).rollouts.tolist()) == {8}
    half = [1.0, 1.0, 0.0, 0.0]  # halves of such a group may sum to 0 too
    write_table(tmp_path / "four", 1, [row for i in range(3) for row in group("p", np.roll(half, i).tolist())])
    assert read_groups(tmp_path / "four").rollouts.tolist() == [4] * 3
    assert set(read_groups(tmp_path / "completions", rollouts_per_prompt=16).rollouts.tolist()) == {16}


def test_rows_left_over_are_named(tmp_path: Path) -> None:
    path = write_table(tmp_path, 1, mixed_table(3))
    with pytest.raises(PilotFormatError, match=r"12 rows are no whole number of groups of 5 .*; 2 are left over"):
        gp.read_pilot(path, rollouts_per_prompt=5)
    with pytest.raises(PilotFormatError, match=r"row 5: the prompt changes inside a group of 6 .* runs of 4, 4, 4"):
        gp.read_pilot(path, rollouts_per_prompt=6)
    write_table(tmp_path, 2, mixed_table(2) + group("odd", [1.0, 0.0, 0.0]))
    with pytest.raises(PilotFormatError, match=r"00002\.parquet: equal prompts come in runs of 4, 4, 3"):
        gp.read_pilot(tmp_path)
    assert read_groups(path, rollouts_per_prompt=2).groups == 6
    assert told(read_groups(path, rollouts_per_prompt=2).notes, "do not sum to 0. Is the group size right?")


# --- which columns are rewards -------------------------------------------------------------------------------------


def test_columns_of_log_extra_are_no_rewards(tmp_path: Path) -> None:
    pilot = gp.read_pilot(DATA / "batchstd", pass_threshold=0.5)
    assert pilot.total_rollouts == 144
    run = copy("batchstd", tmp_path, without=("trainer_state.json",))
    assert gp.read_pilot(run, pass_threshold=0.5).total_rollouts == 144
    rows = mixed_table(4)
    for i, row in enumerate(rows):
        row |= {"score": (i % 3) / 2, "seconds": 0.25 * i, "advantage": row.pop("advantage")}
    write_table(tmp_path / "floats", 1, rows)
    bare = read_groups(tmp_path / "floats")
    assert bare.dead_groups == 0
    assert told(bare.notes, "taken as reward functions: correct (they explain the advantages)")
    assert told(bare.notes, "columns that are not summed into the reward, or have weight 0: score, seconds.")
    assert gp.read_pilot(tmp_path / "floats").successes.sum() == 4
    assert gp.read_pilot(tmp_path / "floats", reward="score", pass_threshold=0.5).successes.sum() == 10


def test_a_column_that_never_differs_in_a_group_may_be_a_reward(tmp_path: Path) -> None:
    write_table(tmp_path, 1, mixed_table(4, format=0.5))
    with pytest.raises(PilotFormatError, match=r"holds 2 reward functions \(correct, format\)"):
        gp.read_pilot(tmp_path)
    assert told(read_groups(tmp_path).notes, "log_extra adds such")


def test_two_rewards_explain_the_advantages_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows: list[Row] = []
    for i in range(8):
        first, second = rng.integers(0, 2, 4).astype(float), rng.integers(0, 3, 4) / 2.0
        total = group(f"p{i}", (first + second).tolist())
        for row, a, b in zip(total, first, second, strict=True):
            rows.append({"prompt": row["prompt"], "completion": f"{i}", "a": a, "b": b, "z": float(rng.random()),
                         "advantage": row["advantage"]})  # fmt: skip
    write_table(tmp_path, 1, rows)
    assert told(read_groups(tmp_path).notes, "taken as reward functions: a, b (they explain the advantages)")
    with pytest.raises(PilotFormatError, match=r"holds 2 reward functions \(a, b\)\. Choose one with --reward-column"):
        gp.read_pilot(tmp_path)


def test_single_precision_does_not_fail_at_the_threshold() -> None:
    frame = pl.concat(pl.read_parquet(p) for p in (DATA / "batchstd" / "completions").glob("*.parquet"))
    assert (frame["graded"] == float(np.float32(0.7))).any()  # 0.699999988
    pilot = gp.read_pilot(DATA / "batchstd", split="all", pass_threshold=0.7)
    assert pilot.successes.sum() == frame.filter(pl.col("graded") > 0.65).height


def test_columns_of_the_user(tmp_path: Path) -> None:
    batchstd = DATA / "batchstd"
    pilot = gp.read_pilot(batchstd, pass_threshold=0.5, response_tokens="n_tokens")
    assert pilot.response_tokens is not None
    assert 12 < float(np.nanmean(pilot.response_tokens)) <= 16
    short = gp.read_pilot(batchstd, pass_threshold=0.5, where={"n_tokens": [str(n) for n in range(16)]})
    assert short.dropped["rows_outside_where"] + short.total_rollouts + 48 == 192
    with pytest.raises(PilotFormatError, match=r"no column 'level'\. Columns: step, prompt, completion, graded"):
        gp.read_pilot(batchstd, pass_threshold=0.5, stratum="level")
    with pytest.raises(PilotFormatError, match=r"no reward function 'correct'\. It has: graded"):
        gp.read_pilot(batchstd, reward="correct")
    pilot = gp.read_pilot(batchstd, pass_threshold=0.5, policy_steps=(9, 11), n="prompt")
    assert pilot.total_rollouts == 48
    assert told(pilot.notes, "the column given as n is not used")


# --- tables of W&B -------------------------------------------------------------------------------------------------


def wandb_table(folder: Path, number: int, rows: list[Row], step: int) -> Path:
    columns = ["step", *(c for c in rows[0])]
    data = [[step, *row.values()] for row in rows]
    path = folder / "media" / "table" / f"completions_{number}_{number:020x}.table.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"columns": columns, "data": data}), encoding="utf-8")
    return path


def test_a_table_of_wandb_with_null_and_nan() -> None:
    groups = read_groups(DATA / "wandb")
    assert (groups.rollouts.tolist(), groups.scored.tolist(), groups.dead.tolist()) == ([2], [1], [True])
    assert gp.read_pilot(DATA / "wandb").dropped == {"missing_reward": 1}


def test_trap_3_wandb_keeps_training_beside_evaluation(tmp_path: Path) -> None:
    trained, tested = mixed_table(3, tag="t"), [r for i in range(3) for r in group(f"e{i}", [1.0] * 4, tag=f"{i}e")]
    wandb_table(tmp_path, 9, mixed_table(3, tag="a"), 1)
    wandb_table(tmp_path, 10, trained, 2)
    wandb_table(tmp_path, 11, tested, 2)
    wandb_table(tmp_path, 12, tested, 2)  # the log at the end of training
    (tmp_path / "config.yaml").write_text(
        "_wandb:\n    value:\n        e: 1\nnum_generations:\n    value: 4\ntemperature:\n    value: 0.7\n",
        encoding="utf-8",
    )
    pilot = gp.read_pilot(tmp_path)
    assert pilot.dropped == {"duplicate_rollouts": 12, "eval_rows": 12}
    assert pilot.total_rollouts == 24
    assert told(pilot.notes, "groups of 4 (num_generations of config.yaml)")
    assert pilot.temperature is not None
    assert set(pilot.temperature.tolist()) == {0.7}
    assert told(pilot.notes, "step 2 (a second table of its step)")
    assert gp.read_pilot(tmp_path, split="eval").successes.sum() == 12


def test_unique_prompts_of_wandb_hold_no_groups(tmp_path: Path) -> None:
    path = wandb_table(tmp_path, 1, mixed_table(4)[::4], 1)
    assert told(gp.read_pilot(path).notes, "every prompt stands alone")
    with pytest.raises(PilotFormatError, match="does not say which rollouts were sampled together"):
        read_groups(path)


def test_a_run_with_both_kinds_is_counted_once(tmp_path: Path) -> None:
    rows = mixed_table(3)
    write_table(tmp_path, 1, rows)
    wandb_table(tmp_path / "wandb", 1, rows, 1)
    assert gp.read_pilot(tmp_path).dropped == {"duplicate_rollouts": 12}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"columns": ["step", "prompt", "completion", "r", "advantage"], "data": [[1, "p", "c", 1.0]]}, "4 values for 5"),
        ({"columns": ["step", "prompt", "completion", "r", "advantage"], "data": [7]}, "row 1: a row has 7 for 5"),
        ({"columns": ["step", "prompt", "completion", "r", "advantage"], "data": []}, "holds no rollout"),
        ({"columns": ["step", "prompt", "r", "advantage"], "data": []}, "no column 'completion'"),
        ({"columns": 3, "data": []}, "is no table of W&B"),
        ({"columns": ["step", "prompt", "completion", "r", "advantage"], "data": [["x", "p", "c", 1.0, 0.0]]}, "step is x"),
        ({"columns": ["step", "prompt", "completion", "r", "advantage"], "data": [[1, "p", "c", 1.0, "?"]]}, "advantage is"),
    ],
)  # fmt: skip
def test_broken_tables_of_wandb(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "completions_1.table.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(PilotFormatError, match=message) as error:
        gp.read_pilot(path, format="trl")
    assert "\n" not in str(error.value)


# --- broken files --------------------------------------------------------------------------------------------------


def test_empty_tables_are_said(tmp_path: Path) -> None:
    write_table(tmp_path, 1, mixed_table(2))
    empty = pl.DataFrame(
        {"step": [], "prompt": [], "completion": [], "advantage": []}, schema_overrides={"step": pl.Null}
    )
    empty.write_parquet(tmp_path / "completions" / "completions_00000.parquet")
    pilot = gp.read_pilot(tmp_path)
    assert pilot.total_rollouts == 8
    assert told(pilot.notes, "1 of 2 files hold no rows")
    with pytest.raises(PilotFormatError, match="trains 0 steps and leaves an empty table"):
        gp.read_pilot(tmp_path / "completions" / "completions_00000.parquet")


def test_a_file_cut_off_is_one_line(tmp_path: Path) -> None:
    run = copy("binary", tmp_path)
    path = run / "completions" / "completions_00007.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(PilotFormatError, match=r"00007\.parquet: cannot be read as Parquet") as error:
        gp.read_pilot(run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": None}, r"00002\.parquet: no column 'correct', a reward function that other tables have"),
        ({"prompt": None}, r"no column 'prompt'\. Columns: step, completion"),
        ({"step": pl.lit("two")}, r"step is String, not a whole number"),
        ({"correct": pl.lit("good")}, r"no column 'correct', a reward function"),
    ],
)
def test_columns_missing_in_the_middle(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    for step in (1, 2, 3):
        path = write_table(tmp_path, step, mixed_table(2, tag=f"{step}."))
        if step == 2:
            frame = pl.read_parquet(path)
            for column, value in change.items():
                frame = frame.drop(column) if value is None else frame.with_columns(value.alias(column))
            frame.write_parquet(path)
    with pytest.raises(PilotFormatError, match=message):
        gp.read_pilot(tmp_path)


def test_prompts_that_are_missing_are_counted(tmp_path: Path) -> None:
    rows = mixed_table(2)
    for row in rows[:4]:
        row["prompt"] = None
    write_table(tmp_path, 1, rows)
    assert gp.read_pilot(tmp_path).dropped == {"missing_prompt": 4}


@pytest.mark.parametrize("text", ["{", "[]", '{"log_history": 3}', '{"log_history": [3, {"step": "x"}, {"step": 1}]}'])
def test_a_damaged_log_is_left_aside(tmp_path: Path, text: str) -> None:
    write_table(tmp_path, 1, mixed_table(2))
    (tmp_path / "trainer_state.json").write_text(text, encoding="utf-8")
    (tmp_path / "run_config.json").write_text('{"num_generations": "many"}', encoding="utf-8")
    pilot = gp.read_pilot(tmp_path)
    assert pilot.total_rollouts == 8
    assert any("was not used" in note for note in pilot.notes) == (text == "{")


def test_only_such_tables_are_taken(tmp_path: Path) -> None:
    looks_like = FORMATS[0].looks_like
    names = ["step", "prompt", "completion", "correct", "advantage"]
    good = pl.DataFrame({n: ["x"] for n in names}).with_columns(step=pl.lit(1, dtype=pl.Int64), advantage=pl.lit(0.0))
    others = {
        "order": good.select("prompt", "step", "completion", "correct", "advantage"),
        "reward": good.drop("advantage"),
        "step": good.with_columns(step=pl.lit("1")),
        "prompt": good.with_columns(prompt=pl.lit(3)),
    }
    for name, frame in {"good": good, **others}.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
        path = tmp_path / f"{name}.parquet"
        assert looks_like(look(InputFile(name=str(path), path=path))) == (name == "good"), name
