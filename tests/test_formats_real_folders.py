"""What folders of real runs hold beside clean files: copies, resumed runs, damaged first files, several environments."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError
from grpo_plan.quantities import Absent, Cause, Quantity, RunView, Stage, quantity_of, tool_of
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.survivors import at_most

DATA = Path(__file__).parent / "data"
TRACES = DATA / "verifiers" / "out" / "traces.jsonl"


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def found(name: str, columns: Mapping[str, Sequence[float]], **config: object) -> Quantity | Absent:
    metrics = {metric: np.array(values, dtype=float) for metric, values in columns.items()}
    settings = {key.replace("__", "."): value for key, value in config.items() if key != "group_size"}
    size = config.get("group_size")
    assert size is None or isinstance(size, int)
    length = len(next(iter(metrics.values())))
    return quantity_of(
        name, RunView(tool=tool_of(metrics), size=length, metrics=metrics, config=settings, group_size=size)
    )


# --- folders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["1.jsonl", "2.jsonl", "3.jsonl"])
def test_a_blank_file_does_not_hide_the_others_of_its_kind(tmp_path: Path, blank: str) -> None:
    """A step without rows is written as one line feed; validation beside must not be all that is read."""
    for folder, shift in (("rollouts", 0), ("val", 1)):
        for step in (1, 2, 3):
            rows = [
                {"input": f"q{p}", "output": "", "gts": "", "score": float((p + s + shift) % 2), "step": step, "uid": uid}
                for p in range(2) for s in range(2) for uid in [f"{p:032x}_{s}_0"]
            ]  # fmt: skip
            write(tmp_path / folder / f"{step}.jsonl", rows)
    (tmp_path / "rollouts" / blank).write_text("\n", encoding="utf-8")
    pilot = gp.read_pilot(tmp_path)
    assert (pilot.total_rollouts, pilot.dropped) == (8, {"eval_rows": 12})
    assert any(note.startswith("1 file is empty or the copy of another, and left out") for note in pilot.notes)
    named = gp.read_pilot(tmp_path / "rollouts", format="verl-v1")
    assert named.total_rollouts == 8


COPIED: list[tuple[str, str, dict[str, Any]]] = [
    ("verifiers_v0", "results.jsonl", {}),
    ("human_eval", "samples.jsonl_results.jsonl", {}),
    ("lm_eval/i82qcls7", "samples_toy_avg_2026-11-30T16-10-05.059435.jsonl", {}),
    ("solve_rates/polaris", "data.jsonl", {}),
    ("skyrl/dumped_evals/global_step_5_evals", "toy.jsonl", {}),
    ("roll", "*.jsonl", {}),
]


@pytest.mark.parametrize(("folder", "pattern", "options"), COPIED, ids=[folder for folder, _, _ in COPIED])
def test_a_copy_of_a_file_is_not_counted_again(
    folder: str, pattern: str, options: dict[str, Any], tmp_path: Path
) -> None:
    (original,) = (DATA / folder).glob(pattern)
    for copy in ("a", "b"):
        (tmp_path / copy).mkdir()
        shutil.copy(original, tmp_path / copy / original.name)
    once, twice = gp.read_pilot(original, **options), gp.read_pilot(tmp_path, **options)
    assert twice.rollouts.tolist() == once.rollouts.tolist()
    assert twice.provenance.files == 1
    assert twice.provenance.rows == once.provenance.rows


def test_copies_of_evalplus_and_evalchemy_results_count_once(tmp_path: Path) -> None:
    plus = {"eval": {"T/1": [{"base_status": "pass"}, {"base_status": "fail"}]}}
    example = {"problem": "q", "model_outputs": ["1", "2"], "correct": [True, False]}
    chemy = {"results": {"AIME24": {"examples": [example]}}, "model_name": "m"}
    for name, content in (("plus", plus), ("chemy", chemy)):
        for copy in "ab":
            (tmp_path / name / copy).mkdir(parents=True)
            (tmp_path / name / copy / "results.json").write_text(json.dumps(content), encoding="utf-8")
        assert gp.read_pilot(tmp_path / name).rollouts.tolist() == [2]


def test_copies_of_lighteval_details_count_once(tmp_path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame(
        {"doc": [{"query": "q", "id": "1"}], "model_response": [{"text": ["a"] * 4}], "metric": [{"avg@n:n=4": 0.25}]}
    )
    for copy in "ab":
        (tmp_path / copy).mkdir()
        frame.write_parquet(tmp_path / copy / "details.parquet")
    assert gp.read_pilot(tmp_path).rollouts.tolist() == [4]


def test_rows_read_are_rows_counted_and_rows_left_out(tmp_path: Path) -> None:
    rows = rows_of(DATA / "human_eval" / "samples.jsonl_results.jsonl")
    path = write(tmp_path / "results.jsonl", rows[:4])
    path.write_text(path.read_text() + "no json\n" + json.dumps(rows[4]) + "\n" + json.dumps(rows[5])[:30])
    pilot = gp.read_pilot(path, skip_malformed=True)
    assert pilot.dropped == {"malformed_line": 1, "truncated_last_line": 1}
    assert pilot.provenance.rows == pilot.total_rollouts + 2 == 7
    table = write(tmp_path / "table.jsonl", [{"prompt": "a", "reward": 1}, {"prompt": "a", "reward": 0}])
    table.write_text(table.read_text() + "no json\n" + '{"prompt": "b", "reward": 1}\n{"prompt"')
    pilot = gp.read_pilot(table, skip_malformed=True)
    assert pilot.provenance.rows == pilot.total_rollouts + 2 == 5


# --- several environments -------------------------------------------------------------------------------------------


def test_rewards_of_another_environment_are_said_to_be_missing(tmp_path: Path) -> None:
    rows = rows_of(TRACES)
    for row in rows[12:]:
        row["env"] = {"id": "other", "name": "other"}
        for trace in row["traces"]:
            if "correct" in (trace["rewards"] or {}):
                trace["rewards"] = {"exact": trace["rewards"]["correct"]}
    path = write(tmp_path / "traces.jsonl", rows)
    pilot = gp.read_pilot(path, reward="correct")
    without = pilot.dropped["missing_reward"] - sum(row["ok"] is False for row in rows)
    assert without == 11
    assert any(note.startswith("11 rollouts do not have the reward correct (they have exact)") for note in pilot.notes)
    assert not any("do not have" in note for note in gp.read_pilot(TRACES, reward="correct").notes)


# --- runs taken up again --------------------------------------------------------------------------------------------


def instruct(step: int, idx: int, sample: int, reward: float, prompt: int) -> dict[str, Any]:
    return {
        "step": step, "sample_idx": sample, "prompt_idx": idx, "prompt_tokens": [prompt], "response_tokens": [sample],
        "reward": reward, "advantage": 0.0, "finish_reason": "stop", "dataset": "gsm8k", "ground_truth": [1],
        "request_info": None, "logprobs": [-0.1],
    }  # fmt: skip


def saved(step: int, prompts: Sequence[int], rewards: Sequence[float], size: int = 2) -> list[dict[str, Any]]:
    return [
        instruct(step, i // size, i, rewards[i % len(rewards)], prompts[i // size]) for i in range(size * len(prompts))
    ]


@pytest.mark.parametrize("prompts", [(1, 2), (3, 4)])
def test_a_step_of_open_instruct_that_was_saved_twice(tmp_path: Path, prompts: tuple[int, int]) -> None:
    """After a resume the shard is appended to: the groups of both times are groups of their own."""
    rows = [*saved(1, (1, 2), (10, 0)), *saved(2, (1, 2), (10, 0)), *saved(2, prompts, (0, 10))]
    path = write(tmp_path / "run_rollouts_000000.jsonl", rows)
    groups = read_groups(path)
    assert (groups.groups, groups.provenance.group_size) == (6, (2, 2))
    assert "1 step was saved more than once, as by a run taken up again" in " ".join(groups.notes)
    assert "saved more than once" not in " ".join(read_groups(write(path, rows[:8])).notes)


def test_prompt_numbers_of_open_instruct_that_hold_two_prompts_are_refused(tmp_path: Path) -> None:
    rows = saved(1, (1, 2), (10, 0), size=3)
    del rows[1]
    for i, row in enumerate(rows):
        row |= {"sample_idx": i, "prompt_idx": i // 3}
    path = write(tmp_path / "run_rollouts_000000.jsonl", rows)
    with pytest.raises(PilotFormatError, match=r":3: prompt_idx 0 of step 1 holds two prompts, as where rows were"):
        read_groups(path)
    pilot = gp.read_pilot(path, format="table", prompt="prompt_tokens", pass_threshold=10)
    assert sorted(pilot.rollouts.tolist()) == [2, 3]


def test_a_step_of_ms_swift_that_was_done_again_is_no_evaluation(tmp_path: Path) -> None:
    shutil.copytree(DATA / "ms_swift", tmp_path / "run")
    path = tmp_path / "run" / "completions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    again = json.loads(lines[-1])
    again["completion"] = [text + "!" for text in again["completion"]]
    path.write_text("\n".join([*lines, json.dumps(again)]) + "\n", encoding="utf-8")
    pilot = gp.read_pilot(tmp_path / "run")
    assert (pilot.total_rollouts, pilot.dropped) == (192, {})
    log = tmp_path / "run" / "logging.jsonl"
    log.write_text(log.read_text() + json.dumps({"eval_reward": 0.1, "global_step/max_steps": "2/2"}) + "\n")
    assert gp.read_pilot(tmp_path / "run").dropped == {"eval_rows": 64}


def test_names_that_two_writers_share_are_no_resume(tmp_path: Path) -> None:
    """The trainer of prime-rl writes a step after the orchestrator has written the next one."""
    rows: list[dict[str, Any]] = []
    for step in range(5):
        rows.append({"step": step, "solve_none/all": 0.1, "solve_all/all": 0.2, "time/step": 10.0 + step})
        if step:
            rows.append({"step": step - 1, "optim/grad_norm": 1.0, "entropy/mean": 0.2, "time/step": 5.0})
    run = gp.read_run(write(tmp_path / "metrics.jsonl", rows))
    assert (run.notes, run.dropped) == ((), {})
    assert run.metrics["time/step"].tolist() == [5.0] * 4 + [14.0]
    resumed = [{"step": step, "solve_none/all": 0.1, "solve_all/all": 0.01 * step} for step in (0, 1, 2, 3, 4, 2, 3)]
    run = gp.read_run(write(tmp_path / "metrics.jsonl", resumed))
    assert run.steps.tolist() == [0, 1, 2, 3]
    assert run.dropped == {"steps_logged_twice": 2, "steps_undone_by_a_resume": 1}


def test_each_run_of_nemo_rl_tells_its_own_group_size(tmp_path: Path) -> None:
    def step_of(size: int) -> list[dict[str, Any]]:
        return [
            {
                "content": ["x"], "rewards": [float(i % 2)], "advantages": [0.0], "token_ids": [[i // size, 5, 6]],
                "token_loss_mask": [[0, 1, 1]], "idx": i,
            }
            for i in range(4 * size)
        ]  # fmt: skip

    for run, size in (("exp_001", 2), ("exp_002", 4)):
        write(tmp_path / run / "train_data_step1.jsonl", step_of(size))
    assert read_groups(tmp_path).provenance.group_size == (2, 4)


# --- what metrics mean ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("none", "every"), [("batch/solve_none", "batch/solve_all"), ("solve_none/all", "solve_all/all")]
)
def test_older_prime_rl_counts_the_batch_that_it_trains_on(none: str, every: str) -> None:
    columns = {none: [0.25], every: [0.125], "effective_batch_size/all": [0.625], "reward/all/mean": [0.4]}
    for given, stage in ((None, Stage.UNKNOWN), (True, Stage.AFTER), (False, Stage.UNFILTERED)):
        dead = found("dead_fraction", columns, orchestrator__buffer__online_difficulty_filtering=given)
        assert isinstance(dead, Quantity)
        assert (dead.values.tolist(), dead.stage) == ([0.375], stage)
    reward = found("reward_mean", columns)  # "all" are all environments here
    assert isinstance(reward, Quantity)
    assert reward.stage is Stage.UNKNOWN
    newer = {f"train/agg/all/agent/{name}": [0.25] for name in ("solved_none", "solved_all", "reward/mean")}
    for name in ("dead_fraction", "reward_mean"):
        quantity = found(name, newer)
        assert isinstance(quantity, Quantity)
        assert quantity.stage is Stage.BEFORE


def test_trap_9_versions_of_openrlhf_after_the_last_one_read_are_not_known() -> None:
    rate = {"dynamic_filtering_pass_rate": [40.0], "rollout/reward_mean": [0.4]}
    for version, cause in (("0.11.3", Cause.MEANING_UNKNOWN), ("0.12", Cause.MEANING_UNKNOWN)):
        dead = found("dead_fraction", rate, group_size=4, openrlhf_version=version)
        assert isinstance(dead, Absent)
        assert dead.cause is cause
    known = found("dead_fraction", rate, group_size=4, openrlhf_version="0.11.2")
    assert isinstance(known, Quantity)
    assert known.values[0] == pytest.approx(0.9)


def test_forks_of_verl_that_count_all_three_kinds_of_groups_need_no_setting() -> None:
    counts = {"batch/solve_none": [4.0, 0.0], "batch/solve_all": [2.0, 0.0], "batch/solve_partial": [10.0, 0.0]}
    dead = found("dead_fraction", counts | {"critic/score/mean": [0.4, 0.4]})
    assert isinstance(dead, Quantity)
    assert dead.values[0] == 6 / 16
    assert np.isnan(dead.values[1])


# --- what rows mean -------------------------------------------------------------------------------------------------


def choice(i: int, answer: Any) -> dict[str, Any]:
    return {
        "doc_id": i, "doc": {"q": str(i)}, "target": "1", "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": " a"}},
        "resps": [[answer], [answer]], "filtered_resps": [answer, answer], "filter": "none", "metrics": ["acc"],
        "doc_hash": str(i), "acc": 1.0,
    }  # fmt: skip


def test_choices_scored_by_likelihood_are_no_rollouts(tmp_path: Path) -> None:
    path = write(tmp_path / "samples.jsonl", [choice(i, [-1.5, True]) for i in range(3)])
    with pytest.raises(PilotFormatError, match=r":1: its choices were scored by their likelihood, and no answer was"):
        gp.read_pilot(path)
    assert gp.read_pilot(write(path, [choice(i, "text") for i in range(3)])).total_rollouts == 3


def test_a_filter_that_no_row_has_names_those_that_there_are(tmp_path: Path) -> None:
    repeats = next((DATA / "lm_eval").rglob("samples_toy_rep*"))
    with pytest.raises(PilotFormatError, match=r"no row has the filter take_first\. Its filters: first, maj\."):
        gp.read_pilot(repeats, where={"filter": "take_first"})


@pytest.mark.parametrize("inner", [{"temperature": 0.8}, {"generation_config": {"temperature": 0.8}, "step": 1}])
def test_the_temperature_of_roll_may_be_inside_its_settings_of_generation(
    inner: dict[str, Any], tmp_path: Path
) -> None:
    row = {"global_step": [1] * 2, "id": ["a"] * 2, "responses": ["x"] * 2, "scores": [1.0, 0.0]}
    path = write(tmp_path / "rollout_dump_data.step_1.jsonl", [row | {"sampling_params": [json.dumps(inner)] * 2}])
    pilot = gp.read_pilot(path)
    assert pilot.temperature is not None
    assert pilot.temperature.tolist() == [0.8]


def test_a_limit_of_a_chance_is_rounded_up() -> None:
    assert [at_most(chance) for chance in (2.4e-4, 3e-4, 9.9e-4, 0.0)] == ["0.0003", "0.0003", "0.001", "1e-12"]


def test_a_problem_with_a_row_for_each_solution_counts_once(tmp_path: Path) -> None:
    """OpenMathReasoning repeats the rate of a problem beside each of its solutions."""
    rows = [
        {"problem": f"p{i}", "generated_solution": f"s{j}", "pass_rate_72b_tir": rate}
        for i, rate in enumerate(["0.5", "0.96875", "n/a", "1.0"]) for j in range(3)
    ]  # fmt: skip
    rows.append({"problem": "p0", "generated_solution": "s", "pass_rate_72b_tir": "0.25"})  # measured again
    pilot = gp.read_pilot(write(tmp_path / "train.jsonl", rows))
    counts = dict(zip(pilot.prompt_id.tolist(), zip(pilot.successes, pilot.rollouts, strict=True), strict=True))  # type: ignore[union-attr]
    assert counts == {"p0": (24, 64), "p1": (31, 32), "p3": (32, 32)}
    assert pilot.dropped == {"repeated_problems": 8, "prompts_with_missing_counts": 1}
    assert any(note.startswith("8 rows repeat a problem with the same rate") for note in pilot.notes)


def test_a_score_of_one_answer_is_suspected(tmp_path: Path) -> None:
    def row(i: int, value: float, metric: str) -> dict[str, Any]:
        return choice(i, "text") | {
            "resps": [["a"] * 4], "filtered_resps": [["a"] * 4], "metrics": [metric], metric: value,
        }  # fmt: skip

    def notes(values: Sequence[float], metric: str) -> str:
        rows = [row(i, value, metric) for i, value in enumerate(values)]
        return " ".join(gp.read_pilot(write(tmp_path / "samples.jsonl", rows)).notes)

    suspicion = "exact_match is 0 or 1 in all 8 documents, each of several answers: does it score one of them only?"
    assert suspicion in notes([0, 1] * 4, "exact_match")
    assert "does it score" not in notes([0, 1] * 3 + [0], "exact_match")  # too few to say
    assert "does it score" not in notes([0, 1, 0.25] * 3, "exact_match")
    assert "does it score" not in notes([0, 1] * 4, "avg_at_4")


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("tinker/run/metrics.jsonl", "tinker-metrics"),
        ("trl/binary/trainer_state.json", "trainer-state"),
        ("prime_rl/v0.8/metrics.jsonl", "prime-rl-metrics"),
        ("wandb_export/chart.csv", "wandb-csv"),
    ],
)
def test_a_log_of_metrics_is_no_pilot_and_says_so(log: str, name: str) -> None:
    with pytest.raises(
        PilotFormatError,
        match=rf": is a log of metrics \({name}\), not rollouts\. Look at it with grpo-plan diagnose \(in Python read_run\)",
    ):
        gp.read_pilot(DATA / log)
