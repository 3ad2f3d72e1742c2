"""Speed from logs: rows as TRL and verl write them, simulated logs with known truth, and hostile files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.readers.throughput_reader import read_throughput
from grpo_plan.throughput import Throughput, estimate_throughput

# A run of TRL 1.16 whose rollouts serve two optimiser steps each: step, seconds, counter of tokens where it is logged.
REUSED: list[tuple[int, float, float | None]] = [
    (1, 6.6636, 1513.0), (2, 1.7045, None), (3, 6.4342, 3010.0), (4, 1.6809, None), (5, 6.6519, 4522.0),
    (6, 1.7458, None), (7, 6.6495, 6030.0), (8, 1.7532, None), (9, 6.6618, 7550.0), (10, 1.746, None),
]  # fmt: skip
# A run of TRL 1.16 with logging_steps=5: times are means over five steps.
WINDOWS: list[tuple[int, float, float | None]] = [
    (5, 0.2053, 4142.0),
    (10, 0.1602, 8284.0),
    (15, 0.133, 12454.0),
    (20, 0.1941, 16598.0),
]


def state(rows: list[tuple[int, float, float | None]], extra: list[dict[str, Any]] | None = None) -> str:
    """A trainer_state.json with these rows, and the rows of evaluations and of the end of a run."""
    history: list[dict[str, Any]] = []
    for step, seconds, tokens in rows:
        history.append({"loss": 0.1, "step": step, "step_time": seconds, "reward": 0.4})
        if tokens is not None:
            history[-1]["num_tokens"] = tokens
    history += extra or []
    history.append({"step": rows[-1][0], "train_runtime": 99.0})
    return json.dumps({"global_step": rows[-1][0], "log_history": history})


def read(tmp_path: Path, text: str, name: str = "trainer_state.json", **options: Any) -> Throughput:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_throughput(path, **options)


# --- as trainers write it ----------------------------------------------------------------------------------------


def test_steps_that_reuse_rollouts_are_joined_to_those_that_made_them(tmp_path: Path) -> None:
    speed = read(tmp_path, state(REUSED))
    assert speed.tokens_per_s == pytest.approx(7550 / sum(seconds for _, seconds, _ in REUSED))
    assert (speed.rows_used, speed.steps_used, speed.dropped) == (5, 10, {})
    cut = read(tmp_path, state(REUSED[:-1]))  # the last rollouts had served one step of two
    assert cut.dropped == {"unfinished_last_rollouts": 1}
    assert cut.tokens_per_s == pytest.approx(6030 / sum(seconds for _, seconds, _ in REUSED[:-2]))


def test_means_over_a_logging_window_count_as_so_many_steps(tmp_path: Path) -> None:
    speed = read(tmp_path, state(WINDOWS))
    assert speed.tokens_per_s == pytest.approx(16598 / (5 * sum(seconds for _, seconds, _ in WINDOWS)))
    assert (speed.rows_used, speed.steps_used) == (4, 20)
    later = read(tmp_path, state(WINDOWS[1:]))  # a log that starts at step 10 does not say what step 6 to 10 made
    assert later.dropped == {"token_count_unknown": 1}
    assert later.tokens_per_s == pytest.approx((16598 - 8284) / (5 * (0.133 + 0.1941)))
    first_logged = read(tmp_path, state([(1, 2.0, 100.0), (5, 1.0, 500.0), (10, 1.0, 1000.0)]))  # logging_first_step
    assert first_logged.steps_used + first_logged.dropped.get("warm_up", 0) == 10


def test_evaluations_and_the_last_row_are_no_steps(tmp_path: Path) -> None:
    evaluation = {"eval_loss": 0.1, "eval_runtime": 14.0, "eval_num_tokens": 8284.0, "step": 10}
    with_it = read(tmp_path, state(WINDOWS, [evaluation]))
    assert with_it == read(tmp_path, state(WINDOWS))
    alone = read(tmp_path, state(WINDOWS, [{**evaluation, "step": 12}]))
    assert alone.dropped == {"rows_without_step_time": 1}
    assert alone.tokens_per_s == with_it.tokens_per_s


def test_a_counter_that_starts_again_gives_no_tokens_for_that_row(tmp_path: Path) -> None:
    speed = read(tmp_path, state([*WINDOWS, (25, 0.2, 900.0), (30, 0.2, 5100.0)]))
    assert speed.dropped == {"token_count_unknown": 1}
    assert speed.rows_used == 5


def test_a_folder_gives_its_latest_checkpoint(tmp_path: Path) -> None:
    for step in (5, 20, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(state([*WINDOWS[:3], (step + 20, 1.0, 20000.0 + step)]))
    speed = read_throughput(tmp_path)
    assert speed.notes[0].startswith(str(tmp_path / "checkpoint-100"))


def verl_rows(gpus: int = 8) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    rows = []
    for step in range(1, 41):
        tokens = float(rng.integers(200_000, 600_000))
        seconds = (40.0 + tokens / 25_000) * (3.0 if step == 1 else 1.0)
        rows.append(
            {
                "perf/total_num_tokens": tokens,
                "perf/time_per_step": seconds,
                "timing_s/step": seconds,
                "timing_s/gen": seconds / 2,
                "perf/throughput": tokens / (seconds * gpus),
            }
        )
    return rows


@pytest.mark.parametrize("kind", ["jsonl", "flat", "array", "csv", "parquet", "nested"])
def test_verls_metrics_in_every_container(tmp_path: Path, kind: str) -> None:
    rows = verl_rows()
    flat = [{"step": i, **row} for i, row in enumerate(rows, start=1)]
    path = tmp_path / f"log.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"step": i, "data": r}) + "\n" for i, r in enumerate(rows, start=1)))
    elif kind == "flat":
        path.write_text("".join(json.dumps(r) + "\n" for r in flat) + '{"step": 41, "timing_s/st')  # being written
    elif kind == "array":
        path.write_text(json.dumps(flat))
    elif kind == "csv":
        pl.DataFrame(flat).rename(lambda name: f"run-7 - {name}").write_csv(path)
    elif kind == "parquet":
        pl.DataFrame(flat).write_parquet(path)
    else:
        nested = [{"step": r["step"], "timing_s": {"step": r["timing_s/step"]}, "perf": {
            "total_num_tokens": r["perf/total_num_tokens"], "throughput": r["perf/throughput"]}} for r in flat]  # fmt: skip
        path.write_text("".join(json.dumps(r) + "\n" for r in nested))
    speed = read_throughput(path)
    assert speed.dropped == {"warm_up": 1}
    assert speed.tokens_per_s == pytest.approx(25_000)
    assert speed.step_overhead_s == pytest.approx(40)
    assert speed.gpus == 8
    assert speed.counts_prompts


def test_mean_lengths_need_the_rollouts_of_a_step(tmp_path: Path) -> None:
    rows = [{"step": i, "step_time": 10.0 + i, "completions/mean_length": 100.0 * i} for i in range(1, 13)]
    text = "".join(json.dumps(r) + "\n" for r in rows)
    with pytest.raises(PilotFormatError, match="no column holds tokens"):
        read(tmp_path, text, "log.jsonl")
    speed = read(tmp_path, text, "log.jsonl", rollouts_per_step=64)
    assert not speed.counts_prompts
    assert speed.tokens_per_s == pytest.approx(6400)
    assert speed.step_overhead_s == pytest.approx(10)


def test_named_columns_and_several_writers_of_a_step(tmp_path: Path) -> None:
    rows = [{"step": i // 2, **({"wall": 2.0} if i % 2 else {"made": 100.0 + i})} for i in range(2, 40)]
    text = "".join(json.dumps(r) + "\n" for r in rows)
    speed = read(tmp_path, text, "log.jsonl", step_time="wall", tokens="made")
    assert speed.rows_used == 19
    assert speed.tokens_per_s == pytest.approx(sum(r.get("made", 0.0) for r in rows) / (19 * 2.0), rel=0.01)
    twice = [{"step": i, "step_time": t, "perf/total_num_tokens": 100} for t in (9.0, 1.0) for i in range(1, 8)]
    again = read(tmp_path, json.dumps(twice), "log.json")  # a run taken up again at step 1: the later rows count
    assert again.dropped == {"steps_logged_twice": 7}
    assert again.tokens_per_s == pytest.approx(100)


# --- the estimate ------------------------------------------------------------------------------------------------


def simulated(rng: np.random.Generator, *, spread: float, noise: float, rows: int = 80) -> tuple[Any, Any]:
    tokens = 3e5 * np.exp(rng.normal(0.0, spread, rows))
    return (25.0 + tokens / 2e4) * np.exp(rng.normal(0.0, noise, rows)), tokens


def test_limits_cover_the_truth_at_their_level() -> None:
    """600 logs of 80 steps: coverage of each 95 % interval is not below 0.93; false alarm under 1e-3 if it is 0.95."""
    rng = np.random.default_rng(8)
    rate = overhead = told = 0
    for _ in range(600):
        speed = estimate_throughput(*simulated(rng, spread=0.4, noise=0.05))
        low, high = speed.tokens_per_s_low or 0.0, speed.tokens_per_s_high or np.inf
        if speed.step_overhead_s is None:
            continue
        told += 1
        rate += low <= 2e4 <= high
        overhead += (speed.step_overhead_low_s or 0.0) <= 25.0 <= (speed.step_overhead_high_s or 0.0)
    assert told > 590
    for hits in (rate, overhead):
        assert binomtest(hits, told, 0.93, alternative="less").pvalue > 1e-3


def test_equal_steps_give_the_ratio_alone() -> None:
    rng = np.random.default_rng(4)
    speed = estimate_throughput(*simulated(rng, spread=0.003, noise=0.05))
    assert speed.step_overhead_s is None
    assert speed.step_overhead_high_s is None
    assert any("cannot be told apart" in note for note in speed.notes)
    assert speed.tokens_per_s_low is not None
    assert speed.tokens_per_s_high is not None
    assert speed.tokens_per_s_low < 3e5 / 40 < speed.tokens_per_s_high
    constant = estimate_throughput([4.0] * 10, [100.0] * 10)
    assert (constant.tokens_per_s, constant.step_overhead_s) == (25.0, None)
    assert constant.tokens_per_s_low == pytest.approx(25.0)


def test_a_speed_that_wanders_widens_the_limits() -> None:
    rng = np.random.default_rng(5)
    tokens = rng.uniform(1e5, 2e5, 120)
    jump = np.where(np.arange(120) < 60, 1.0, 4.0)
    steady, wandering = (estimate_throughput(tokens / 1e4 * factor, tokens) for factor in (rng.permutation(jump), jump))
    width = [np.log((s.tokens_per_s_high or np.inf) / (s.tokens_per_s_low or 1.0)) for s in (steady, wandering)]
    assert width[1] > 1.5 * width[0]


def test_warm_up_is_left_out_at_the_start_only() -> None:
    base = [10.0] * 30
    slow_start = estimate_throughput([90.0, 25.0, *base], [1000.0] * 32)
    assert slow_start.dropped == {"warm_up": 2}
    assert slow_start.tokens_per_s == pytest.approx(100)
    pause = estimate_throughput([*base, 90.0, *base], [1000.0] * 61)
    assert pause.dropped == {}
    assert pause.tokens_per_s == pytest.approx(61_000 / 690)
    always_slow_first = estimate_throughput([90.0] * 5 + base, [1000.0] * 35)
    assert always_slow_first.dropped == {"warm_up": 3}  # at most a tenth


def test_few_rows_have_no_limits() -> None:
    one = estimate_throughput([10.0], [1000.0])
    assert (one.tokens_per_s, one.tokens_per_s_low, one.tokens_per_s_high) == (100.0, None, None)
    assert "100 prompt and response tokens a second over 1 step;" in one.sentence


@given(st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(1.0, 1e7)), min_size=1, max_size=40), st.floats(0.5, 0.99))
def test_estimates_are_in_order_and_finite(rows: list[tuple[float, float]], level: float) -> None:
    speed = estimate_throughput([t for t, _ in rows], [n for _, n in rows], level=level)
    assert 0 < speed.tokens_per_s < np.inf
    assert speed.tokens_per_s_low is None or 0 < speed.tokens_per_s_low <= speed.tokens_per_s * (1 + 1e-9)
    assert speed.tokens_per_s_high is None or speed.tokens_per_s <= speed.tokens_per_s_high * (1 + 1e-9)
    if speed.step_overhead_s is not None:
        low, high = speed.step_overhead_low_s or 0.0, speed.step_overhead_high_s or 0.0
        assert 0 <= low <= speed.step_overhead_s * (1 + 1e-9) + 1e-9
        assert speed.step_overhead_s <= high * (1 + 1e-9) + 1e-9
    assert speed.sentence


# --- hostile files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{}", "no column holds step times"),
        ("[]", "no column holds step times"),
        ('{"log_history": 3}', "no column holds step times"),
        ('{"log_history": [1, null, "x"]}', "no column holds step times"),
        ('{"step_time": 1, "step": 1}\n{"step": 2}', "no column holds tokens"),
        ('{"a": 1}\n{broken\n{"a": 2}', ":2: is no JSON"),
        (json.dumps([{"step": 1, "step_time": 0, "num_tokens": 5}]), "no row has both"),
        (json.dumps([{"step": 1, "step_time": -3.0, "num_tokens": 5}]), "no row has both"),
        (json.dumps([{"step": 1, "step_time": 2.0, "perf/total_num_tokens": 0}]), "no row has both"),
        ('[{"step": 1, "step_time": NaN, "num_tokens": 5}]', "no column holds step times"),
        ("a,b\n1,2\n", "no column holds step times"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PilotFormatError, match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    for options, error in (
        ({"rollouts_per_step": 0}, DomainError), ({"level": 1.0}, DomainError), ({"tokens": 3}, DomainError),
        ({"step_time": "nope"}, PilotFormatError), ({"tokens": "nope"}, PilotFormatError),
    ):  # fmt: skip
        with pytest.raises(error):
            read(tmp_path, state(WINDOWS), **options)
    with pytest.raises(DomainError, match="source must be the path"):
        read_throughput(3)  # type: ignore[arg-type]
    with pytest.raises(PilotFormatError, match="no such file"):
        read_throughput(tmp_path / "none.json")
    (tmp_path / "two").mkdir()
    for name in ("a", "b"):
        (tmp_path / "two" / f"{name}.jsonl").write_text('{"step_time": 1}\n')
    with pytest.raises(PilotFormatError, match="holds 2 files"):
        read_throughput(tmp_path / "two")
