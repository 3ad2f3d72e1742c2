"""Details of the readers that no other test holds: each line here fails if one condition of a reader is turned."""

from __future__ import annotations

import json
import lzma
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.errors import PilotFormatError
from grpo_plan.quantities import Absent, Cause, Quantity, RunView, Stage
from grpo_plan.readers.discovery import discover
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.rates import NotARate, RateColumn, passes_of, reading_of
from grpo_plan.readers.thresholds import OddRewards
from tests.test_dumps_tinker import summary
from tests.test_dumps_tinker import write as write_summaries
from tests.test_formats_evals import episode, log, sample, v0
from tests.test_formats_ms_swift import line
from tests.test_formats_ms_swift import write as write_lines
from tests.test_formats_real_folders import DATA, choice, found, saved, write
from tests.trl_log import group, write_table


def notes(pilot: gp.Pilot) -> str:
    return " ".join(pilot.notes)


# --- metrics --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batches", "filtered"), [(1.0, False), (2.0, True)])
def test_two_generation_batches_in_a_step_are_a_filter(batches: float, filtered: bool) -> None:
    columns = {"frac_reward_zero_std": [0.25, 0.5], "reward_std": [0.1, 0.2], "num_gen_batches": [1.0, batches]}
    dead = found("dead_fraction", columns, scale_rewards="group")
    assert isinstance(dead, Absent) == filtered
    assert not isinstance(dead, Absent) or dead.cause is Cause.SURVIVORS_ONLY


def test_the_last_part_of_a_setting_counts_if_it_is_the_only_one() -> None:
    one = RunView(tool=None, size=0, metrics={}, config={"a.temperature": 0.5, "b.temperature": None})
    two = RunView(tool=None, size=0, metrics={}, config={"a.temperature": 0.5, "b.temperature": 0.7})
    assert (one.setting("temperature"), two.setting("temperature")) == (0.5, None)


@pytest.mark.parametrize("setting", ["multi_objective_aggregation", "log_unique_prompts"])
def test_settings_that_trl_has_since_0_27_tell_the_kind_of_reward_std(setting: str) -> None:
    columns = {"frac_reward_zero_std": [0.25, 0.5], "reward_std": [0.1, 0.2], "reward": [0.4, 0.4]}
    assert isinstance(found("reward_std", columns, **{setting: "x"}), Quantity)
    older = found("reward_std", columns, num_generations_eval=4)
    assert isinstance(older, Absent)
    assert older.cause is Cause.MEANING_UNKNOWN


# --- rates ----------------------------------------------------------------------------------------------------------


def test_a_rate_midway_between_two_counts_is_refused() -> None:
    with pytest.raises(NotARate, match="several"):
        passes_of(Decimal("0.1"), 20, 1)  # 1/20 and 3/20 are half a unit of the digit away
    assert passes_of(Decimal("0.1"), 20) == 2


def test_whole_percentages_that_reach_100_need_no_other_sign() -> None:
    def column(values: Sequence[int]) -> RateColumn:
        rates = RateColumn()
        rates.add(list(values))
        return rates

    reading, _ = reading_of(column([0, 25, 50, 100]), "file", "rate", fails=False, known_n=True)
    assert reading.percent
    assert reading.passes(25, 4) == 1
    with pytest.raises(PilotFormatError, match="percentages or counts"):
        reading_of(column([0, 25, 50, 99]), "file", "rate", fails=False, known_n=True)


# --- rollouts -------------------------------------------------------------------------------------------------------


def test_one_run_of_tinker_is_one_source_and_incomplete_lengths_are_unknown(tmp_path: Path) -> None:
    for iteration in (0, 1):
        steps = [{"ac_len": 3, "metrics": {"correct": 1.0}}, {"metrics": {}}]
        rows = [summary(0, t, float(t), iteration=iteration, steps=steps) for t in (0, 1)]
        write_summaries(tmp_path / f"iteration_00000{iteration}" / "train_rollout_summaries.jsonl", rows)
    pilot = gp.read_pilot(tmp_path)
    assert "are read as one source" not in notes(pilot)
    assert pilot.response_tokens is None


def test_the_temperature_of_tinker_is_that_of_training(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"temperature": 0.7}', encoding="utf-8")
    for split in ("train", "eval_math"):
        rows = [summary(0, t, float(t), split=split.partition("_")[0]) for t in (0, 1)]
        write_summaries(tmp_path / "iteration_000000" / f"{split}_rollout_summaries.jsonl", rows)
    assert gp.read_pilot(tmp_path).temperatures == (0.7,)
    assert gp.read_pilot(tmp_path, split="eval").temperature is None


def test_survivors_of_two_steps_are_counted_by_group(tmp_path: Path) -> None:
    """A prompt that was mixed twice are two mixed groups, not one prompt with twice the rollouts."""
    for step in (5, 6):
        rows = [v0(i, float(j == 0)) for i in range(40) for j in range(4)]
        write(tmp_path / "rollouts" / f"step_{step}" / "train_rollouts.jsonl", [row | {"x": step} for row in rows])
    pilot = gp.read_pilot(tmp_path)
    assert pilot.filtered is not None
    assert pilot.rollouts.tolist() == [4] * 80


@pytest.mark.parametrize(
    ("more", "cut"),
    [
        ({"stop_condition": "max_turns"}, 1),
        ({"stop_condition": "max_input_tokens"}, 1),
        ({"stop_condition": "max_output_tokens"}, 1),
        ({"stop_condition": "max_total_tokens"}, 1),
        ({"stop_condition": "compaction_failed"}, 1),
        ({"stop_condition": "has_final_answer"}, 0),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}, 0),
        ({"calls": [{"finish_reason": "stop"}, {"finish_reason": "length"}]}, 1),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop", "error": {"type": "x"}}]}, 1),
    ],
)
def test_what_cuts_off_a_trace_of_verifiers(tmp_path: Path, more: Mapping[str, Any], cut: int) -> None:
    rows = [episode(i) for i in range(4)]
    rows[0]["traces"][0] |= more
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert ("1 of 4 rollouts were cut off by a limit" in notes(pilot)) == bool(cut)


def test_the_key_of_a_task_comes_before_its_hash(tmp_path: Path) -> None:
    rows = [episode(i) for i in range(4)]
    for i, row in enumerate(rows):
        row["task"] = {"key": "same", "hash": f"h{i}"}
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert pilot.prompt_id is not None
    assert pilot.prompt_id.tolist() == ["same"]


def test_a_partly_right_answer_is_half_a_reward(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log([sample(i, value) for i, value in enumerate("CPI")]), indent=1), encoding="utf-8")
    with pytest.raises(PilotFormatError, match=r"s is 0\.5, neither 0 nor 1"):
        gp.read_pilot(path)


def test_a_group_that_lacks_rows_is_told(tmp_path: Path) -> None:
    rows = [
        {"input": f"q{p}", "output": "", "gts": "", "score": float(s % 2), "step": 1}
        for p in range(4) for s in range(4 - (p == 3))
    ]  # fmt: skip
    pilot = gp.read_pilot(write(tmp_path / "1.jsonl", rows))
    assert "1 of 4 groups hold another number of rollouts than 4: rows are missing." in notes(pilot)
    assert "hold a multiple" not in notes(pilot)


def test_a_window_that_cuts_the_first_group_of_an_evaluation(tmp_path: Path) -> None:
    """Of 9 rows of evaluation the window kept the last 8: the first group lacks its beginning."""
    train, window = line(1, [[1, 0]] * 4), line(1, [[1, 1], [1, 0, 0], [0, 0, 0]], tag="e")
    path = write_lines(tmp_path, train, window)
    groups = read_groups(path, split="eval")
    assert groups.rollouts.tolist() == [3, 3]
    assert groups.dropped["rows_of_cut_groups"] == 2


def test_prompts_that_always_come_twice_in_groups_of_two(tmp_path: Path) -> None:
    """Runs of four equal prompts: the advantages of each two sum to 0, so the groups are of two."""
    for step in (1, 2, 3):
        rows = [row for p in range(3) for half in "ab" for row in group(f"q{p}", [1, 0], tag=f"{step}{p}{half}")]
        write_table(tmp_path, step, rows)
    assert read_groups(tmp_path).provenance.group_size == (2, 2)


def test_a_table_of_step_0_is_evaluation_before_training(tmp_path: Path) -> None:
    for step in (0, 1, 2):
        write_table(tmp_path, step, [row for p in range(3) for row in group(f"q{step}{p}", [1, 0], tag=f"{step}{p}")])
    pilot = gp.read_pilot(tmp_path)
    assert pilot.dropped == {"eval_rows": 6}
    assert "rollouts of evaluation at step 0 (no training before step 1)" in notes(pilot)


def test_tables_without_a_column_of_numbers_are_refused_in_a_line(tmp_path: Path) -> None:
    rows = [row for p in range(2) for row in group(f"q{p}", [1.0, 0.0])]
    worded = [{**row, "correct": "yes"} for row in rows]
    write_table(tmp_path / "words", 1, worded)
    write_table(tmp_path / "none", 1, [{**row, "correct": None} for row in rows])
    for read in (gp.read_pilot, read_groups):
        with pytest.raises(PilotFormatError, match=r"00001\.parquet: no column holds rewards as numbers\. Name it"):
            read(tmp_path / "words")
    assert read_groups(tmp_path / "none").scored.tolist() == [0, 0]
    lists = line(1, [[1, 0], [0, 0]])
    del lists["Accuracy"]
    with pytest.raises(PilotFormatError, match="no column holds rewards as numbers"):
        read_groups(write_lines(tmp_path, lists))


def test_rewards_and_advantages_that_agree_are_not_remarked_upon(tmp_path: Path) -> None:
    """One scored row makes a dead group by both; a small spread without division by it is none by both."""
    rows = [
        *group("a", [1.0, None, None], tag="a"),
        *group("b", [0.5, 0.51, 0.52], tag="b"),
        *group("c", [0.0, 1.0, 1.0], tag="c"),
    ]
    for row, advantage in zip(rows[3:], (-0.01, 0.0, 0.01, -2 / 3, 1 / 3, 1 / 3), strict=True):
        row["advantage"] = advantage
    write_table(tmp_path, 1, rows)
    groups = read_groups(tmp_path)
    assert groups.dead.tolist() == [True, False, False]
    assert groups.reward_mean.tolist() == pytest.approx([1.0, 0.51, 2 / 3])
    assert not any("by the trainer's advantages" in note for note in groups.notes)


def test_infinite_rewards_are_no_scores_of_a_group(tmp_path: Path) -> None:
    rows = [
        {"input": "q", "output": "", "gts": "", "score": score, "step": 1, "uid": f"{0:032x}_{i}_0"}
        for i, score in enumerate((1.0, 1.0, float("inf")))
    ]
    groups = read_groups(write(tmp_path / "1.jsonl", rows))
    assert (groups.rollouts.tolist(), groups.scored.tolist(), groups.dead.tolist()) == ([3], [2], [True])


def test_a_failed_episode_of_sound_traces_is_not_scored(tmp_path: Path) -> None:
    rows = [episode(i) for i in range(4)]
    rows[1]["ok"] = False
    rows[2]["traces"][0]["ok"] = False
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert pilot.dropped == {"missing_reward": 2}
    assert "2 of 4 rollouts failed (ok is false)" in notes(pilot)


def test_trap_9_exactly_100_is_open_too() -> None:
    rate = {"dynamic_filtering_pass_rate": [100.0], "rollout/reward_mean": [0.4]}
    dead = found("dead_fraction", rate, group_size=4)
    assert isinstance(dead, Absent)
    assert dead.cause is Cause.MEANING_UNKNOWN


def test_a_batch_of_no_whole_number_of_groups_gives_no_number_of_prompts() -> None:
    sizes = {"generation_batch_size": 10, "num_generations": 4}
    assert RunView(tool=None, size=0, metrics={}, config=sizes).prompts_per_step is None
    assert RunView(tool=None, size=0, metrics={}, config=sizes | {"num_generations": 5}).prompts_per_step == 2


def test_a_table_with_dashes_in_its_names_is_no_chart(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("prompt - id,reward - mean\na,1\n", encoding="utf-8")
    assert discover(path, "run", None).format is None
    path.write_text("Step,run-1 - reward\n1,0.5\n", encoding="utf-8")
    chart = discover(path, "run", None).format
    assert chart is not None
    assert chart.name == "wandb-csv"


def test_hidden_folders_are_not_searched(tmp_path: Path) -> None:
    rows = [{"input": "q", "output": "", "gts": "", "score": float(i), "step": 1, "uid": f"a_{i}_0"} for i in (0, 1)]
    write(tmp_path / "rollouts" / "1.jsonl", rows)
    write(tmp_path / ".cache" / "1.jsonl", [row | {"input": "other"} for row in rows])
    assert gp.read_pilot(tmp_path).prompts == 1


def test_a_step_logged_again_with_another_value_is_told(tmp_path: Path) -> None:
    rows = [{"step": 1, "reward": 0.5, "reward_std": 0.1, "frac_reward_zero_std": 0.2}]
    rows += [rows[0] | {"reward": 0.6}, rows[0] | {"step": 2}]
    run = gp.read_run(write(tmp_path / "log.jsonl", rows))
    assert run.dropped == {"steps_logged_twice": 1}
    assert run.metrics["reward"].tolist() == [0.6, 0.5]
    assert gp.read_run(write(tmp_path / "log.jsonl", [rows[0], rows[0], rows[2]])).dropped == {}


def test_a_group_may_span_two_files(tmp_path: Path) -> None:
    """A shard of open-instruct is full in the middle of a group."""
    rows = saved(1, (1, 2), (10, 0))
    for shard, part in enumerate((rows[:1], rows[1:3], rows[3:])):
        write(tmp_path / f"run_rollouts_{shard:06d}.jsonl", part)
    groups = read_groups(tmp_path)
    assert (groups.rollouts.tolist(), groups.dead.tolist()) == ([2, 2], [False, False])
    assert (groups.reward_min.tolist(), groups.reward_max.tolist()) == ([0, 0], [10, 10])


def test_the_mean_over_most_answers_is_read_of_lighteval(tmp_path: Path) -> None:
    import polars as pl

    metric = {"extractive_match": 1.0, "avg@n:n=4": 0.25, "pass@k:k=1&n=2": 0.5}
    frame = pl.DataFrame({"doc": [{"query": "q"}], "model_response": [{"text": ["a"] * 4}], "metric": [metric]})
    frame.write_parquet(tmp_path / "details.parquet")
    pilot = gp.read_pilot(tmp_path / "details.parquet")
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([1], [4])


def test_documents_of_lm_eval_are_known_by_their_hash(tmp_path: Path) -> None:
    rows = [choice(0, "text") | {"doc_hash": name} for name in ("a", "b")]
    pilot = gp.read_pilot(write(tmp_path / "samples.jsonl", rows))
    assert sorted(map(str, pilot.prompt_id)) == ["a", "b"]  # type: ignore[arg-type]


def test_a_percent_sign_tells_percentages_however_small() -> None:
    rates = RateColumn()
    rates.add(["0.5%", "1%", "0%"])
    reading, _ = reading_of(rates, "file", "rate", fails=False, known_n=True)
    assert (reading.percent, reading.passes("0.5%", 200)) == (True, 1)


def test_deleted_runs_of_mlflow_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.write_bytes(lzma.decompress((DATA / "mlflow" / "mlflow.db.xz").read_bytes()))
    before = gp.read_run(path)
    with closing(sqlite3.connect(path)) as base:
        (columns,) = base.execute("SELECT group_concat(name) FROM pragma_table_info('runs')").fetchone()
        others = columns.replace("run_uuid", "'gone'").replace("lifecycle_stage", "'deleted'")
        base.execute(f"INSERT INTO runs ({columns}) SELECT {others} FROM runs LIMIT 1")
        base.execute(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES ('reward', 9, 1, 'gone', 1, 0)"
        )
        base.commit()
    assert gp.read_run(path).metrics["reward"].tolist() == before.metrics["reward"].tolist()


def test_few_groups_whose_halves_sum_to_nothing_are_not_split(tmp_path: Path) -> None:
    """Rewards 1, 0, 1, 0: the advantages of each half sum to 0 too, but not as those of a group of two."""
    write_table(tmp_path, 1, [row for p in range(3) for row in group(f"q{p}", [1.0, 0.0, 1.0, 0.0])])
    assert read_groups(tmp_path).provenance.group_size == (4, 4)


def test_equal_rollouts_of_two_steps_of_prime_rl_are_no_copies(tmp_path: Path) -> None:
    for step in (5, 6):
        write(tmp_path / "rollouts" / f"step_{step}" / "train_rollouts.jsonl", [v0(i, float(i)) for i in (0, 0, 1, 1)])
    assert gp.read_pilot(tmp_path).total_rollouts == 8


@pytest.mark.parametrize(
    ("metric", "scored", "message"),
    [
        ("exact_match", 4, "exact_match scores one of 8 answers"),  # a filter that leaves 4 of them
        ("avg_at_4", 8, "avg_at_4 speaks of 4 answers, and resps holds 8"),
        ("avg_at_16", 8, "avg_at_16 speaks of 16 answers, and resps holds 8"),
    ],
)
def test_answers_scored_are_the_answers_there_are(tmp_path: Path, metric: str, scored: int, message: str) -> None:
    answers = {"resps": [["a"] * 8], "filtered_resps": [["a"] * scored], "metrics": [metric], metric: 0.5}
    with pytest.raises(PilotFormatError, match=message):
        gp.read_pilot(write(tmp_path / "samples.jsonl", [choice(0, "text") | answers]))


def test_weights_of_reward_functions_are_used(tmp_path: Path) -> None:
    rows = [row | {"style": 0.5} for p in range(3) for row in group(f"q{p}", [1.0, 0.0], tag=str(p))]
    write_table(tmp_path, 1, rows)
    pilot = gp.read_pilot(tmp_path, reward_weights={"correct": 2.0, "style": 1.0}, pass_threshold=2.5)
    assert pilot.successes.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("tokens", "cut"), [(5, False), (6, True), (7, True)])
def test_an_answer_as_long_as_the_limit_was_cut_off(tmp_path: Path, tokens: int, cut: bool) -> None:
    rows = [sample(0, "C", model_usage={"m": {"output_tokens": tokens}}), sample(1, "I")]
    content = log(rows) | {"plan": {"config": {"max_tokens": 6}}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    assert ("1 of 2 samples were cut off by a limit" in notes(gp.read_pilot(path))) == cut


def test_folders_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for step in (2, 10):
        write(tmp_path / f"step_{step}" / "traces.jsonl", [episode(i) for i in range(4)])
    found_files = discover(tmp_path, "pilot", None).files
    assert [Path(file.name).parent.name for file in found_files] == ["step_2", "step_10"]


@pytest.mark.parametrize("count", [1, 3])
def test_gradings_of_evalchemy_are_one_an_answer(tmp_path: Path, count: int) -> None:
    example = {"problem": "q", "model_outputs": ["1", "2"], "correct": [True] * count}
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"AIME24": {"examples": [example]}}}), encoding="utf-8")
    with pytest.raises(PilotFormatError, match=rf"correct has {count} items for 2 answers"):
        gp.read_pilot(path)


def test_two_rows_do_not_tell_the_kind_of_reward_std() -> None:
    def kind(rows: int) -> bool:
        columns = {
            "frac_reward_zero_std": [0.5, 0.25, 0.5],
            "reward_std": [0.1, 0.2, 0.3],
            "rewards/f/std": [0.1, 0.2, 0.3],
        }
        return isinstance(found("reward_std", {name: v[:rows] for name, v in columns.items()}), Quantity)

    assert [kind(rows) for rows in (2, 3)] == [False, True]


def test_a_spread_of_nothing_where_all_groups_are_dead_tells_no_kind() -> None:
    columns = {"frac_reward_zero_std": [1.0, 0.5], "reward": [0.4, 0.4]}
    assert isinstance(found("reward_std", columns | {"reward_std": [0.0, 0.1]}), Absent)
    assert isinstance(found("reward_std", columns | {"reward_std": [0.3, 0.1]}), Quantity)


def test_counts_of_0_and_1_in_forks_of_verl_are_counts() -> None:
    columns = {"critic/score/mean": [0.4] * 2, "batch/solve_none": [1.0, 0.0], "batch/solve_all": [0.0, 1.0]}
    dead = found("dead_fraction", columns, prompts_per_step=4)
    assert isinstance(dead, Quantity)
    assert dead.values.tolist() == [0.25, 0.25]


@pytest.mark.parametrize(
    ("name", "value", "stage"),
    [
        ("num_gen_batches", 1.0, Stage.UNFILTERED),
        ("num_gen_batches", 2.0, Stage.AFTER),
        ("training/filter_groups/evicted_samples", 0.0, Stage.UNFILTERED),
        ("training/filter_groups/evicted_samples", 1.0, Stage.AFTER),
    ],
)
def test_when_groups_were_thrown_away(name: str, value: float, stage: Stage) -> None:
    reward = found("reward_mean", {"critic/score/mean": [0.4], name: [value]})
    assert isinstance(reward, Quantity)
    assert reward.stage is stage


def test_many_levels_of_rewards_end_the_reading() -> None:
    odd = OddRewards(place="here", column="reward", value=0.5, levels=set())
    odd.add([i / 10 for i in range(6)], 6, ())
    with pytest.raises(PilotFormatError, match=r"here: reward is 0\.5, neither 0 nor 1"):
        odd.add([0.9], 1, ())


def test_limits_of_mixed_groups_are_those_of_dead_ones_turned_round() -> None:
    columns = {"critic/advantages/max": [0.0, 2.0], "critic/advantages/min": [0.0, -1.0]}
    mixed = found("mixed_fraction", columns, prompts_per_step=8)
    assert isinstance(mixed, Absent)
    assert mixed.lower is not None
    assert mixed.upper is not None
    assert (mixed.lower.tolist(), mixed.upper.tolist()) == ([0.0, 0.125], [0.0, 1.0])


def test_a_setting_of_0_is_no_group_size() -> None:
    assert RunView(tool=None, size=0, metrics={}, config={"num_generations": 0}).rollouts_per_prompt is None


def test_rows_of_other_filters_are_counted(tmp_path: Path) -> None:
    answers = {"resps": [["a"] * 2], "filtered_resps": [["a"] * 2], "metrics": ["avg_at_2"], "avg_at_2": 0.5}
    rows = [choice(0, "text") | answers | {"filter": name} for name in ("all", "other")]
    pilot = gp.read_pilot(write(tmp_path / "samples.jsonl", rows), where={"filter": "all"})
    assert pilot.dropped == {"rows_of_other_filters": 1}
    assert pilot.provenance.rows == 2


def test_a_log_may_have_four_rows_a_step_and_no_more(tmp_path: Path) -> None:
    def rows(count: int) -> list[dict[str, Any]]:
        return [{"step": step, "solve_none/all": 0.1, "solve_all/all": 0.2} for step in range(3) for _ in range(count)]

    for count, name in ((4, "prime-rl-metrics"), (5, None)):
        path = write(tmp_path / "metrics.jsonl", rows(count))
        format = discover(path, "run", None).format
        assert (None if format is None else format.name) == name


def test_an_error_names_its_row_though_others_were_left_out(tmp_path: Path) -> None:
    rows = [
        {"input": "q", "output": "", "gts": "", "score": score, "step": step, "uid": f"a_{step}{i}_0"}
        for step, scores in ((1, (0, 1)), (2, (1, 0.5))) for i, score in enumerate(scores)
    ]  # fmt: skip
    rows = [{**row, "lang": "de" if row["step"] == 2 else "en"} for row in rows]
    with pytest.raises(PilotFormatError, match=r"uid a_21_0: score is 0\.5"):
        gp.read_pilot(write(tmp_path / "1.jsonl", rows), where={"lang": "de"})


def test_percentages_of_nemo_rl_are_of_fails_and_of_passes() -> None:
    columns = {"baseline_reward/pct_0": [25.0], "baseline_reward/pct_1": [50.0]}
    for name, value in (("all_fail_fraction", 0.25), ("all_pass_fraction", 0.5), ("dead_fraction", 0.75)):
        quantity = found(name, columns, grpo__use_leave_one_out_baseline=False)
        assert isinstance(quantity, Quantity)
        assert quantity.values.tolist() == [value]


@pytest.mark.parametrize(("version", "dead"), [("0.9.9", 0.6), ("0.9.10", 0.9), ("0.11.2", 0.9)])
def test_trap_9_first_and_last_version_that_count_samples(version: str, dead: float) -> None:
    rate = {"dynamic_filtering_pass_rate": [40.0], "rollout/reward_mean": [0.4]}
    quantity = found("dead_fraction", rate, group_size=4, openrlhf_version=version)
    assert isinstance(quantity, Quantity)
    assert quantity.values[0] == pytest.approx(dead)
