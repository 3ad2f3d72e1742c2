"""Logs of evaluations: what they hold is counted, what they do not hold is said, and nothing is read as its opposite."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.registry import formats, recognised
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"
TRACES = DATA / "verifiers" / "out" / "traces.jsonl"
STEP = DATA / "verifiers" / "rollouts" / "step_0" / "train"
EVAL = next((DATA / "inspect_ai").glob("*.eval"))
HARNESS = DATA / "lm_eval" / "i82qcls7"
AVERAGES, REPEATS = next(HARNESS.glob("samples_toy_avg*")), next(HARNESS.glob("samples_toy_rep*"))


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def format_of(path: Path) -> str | None:
    found = recognised(look(InputFile(name=str(path), path=path)), "pilot")
    return None if found is None else found.name


@pytest.fixture
def inspect_json(tmp_path: Path) -> Path:
    packed = next((DATA / "inspect_ai").glob("*.json.gz"))
    path = tmp_path / packed.stem
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


# --- verifiers 1 and prime-rl ---------------------------------------------------------------------------------------


def test_trap_11_a_failed_scorer_is_no_zero() -> None:
    """24 episodes, 3 of them not ok, whose rewards are all null."""
    rows = rows_of(TRACES)
    assert (len(rows), sum(r["ok"] for r in rows)) == (24, 21)
    pilot = gp.read_pilot(TRACES, pass_threshold=1.0)
    assert pilot.dropped == {"missing_reward": 3}
    assert (pilot.prompts, pilot.total_rollouts) == (6, 21)
    right = Counter(r["task"]["key"] for r in rows if r["ok"] and r["traces"][0]["rewards"]["correct"]["score"] == 1.0)
    assert pilot.prompt_id is not None
    assert {name: k for name, k in zip(pilot.prompt_id, pilot.successes.tolist(), strict=True) if k} == right
    assert any("3 of 24 rollouts failed" in note for note in pilot.notes)


def test_trap_11_the_reward_is_the_sum_of_score_times_weight(tmp_path: Path) -> None:
    with pytest.raises(gp.PilotFormatError, match=r"the weighted sum of correct, short.*--reward-column.* 0, 0.1, 1.1"):
        gp.read_pilot(TRACES)
    both = gp.read_pilot(TRACES, pass_threshold=1.05)  # right and short: 1 + 0.1
    one = gp.read_pilot(TRACES, reward="correct")
    assert both.successes.sum() < one.successes.sum() or both.successes.tolist() == one.successes.tolist()
    weighted = gp.read_pilot(TRACES, reward_weights={"correct": 1.0, "short": 1.0}, pass_threshold=2.0)
    assert weighted.successes.tolist() == both.successes.tolist()
    with pytest.raises(gp.PilotFormatError, match=r"no reward function 'nope'\. It has: correct, short"):
        gp.read_pilot(TRACES, reward="nope")


def test_truncated_rollouts_are_told() -> None:
    cut = sum(r["traces"][0]["calls"][-1]["finish_reason"] == "length" for r in rows_of(TRACES))
    assert cut == 2
    assert any("2 of 24 rollouts were cut off" in note for note in gp.read_pilot(TRACES, reward="correct").notes)
    kept = gp.read_pilot(TRACES, reward="correct", where={"truncated": "false"})
    assert kept.total_rollouts == 19


def test_all_is_preferred_to_effective() -> None:
    """24 episodes in all/, 21 in effective/."""
    both = gp.read_pilot(STEP.parents[2], reward="correct")  # beside it lie the same episodes as vf-eval wrote them
    assert (both.provenance.rows, both.provenance.files, both.dropped["duplicate_episodes"]) == (24 + 24, 2, 24)
    run = gp.read_pilot(STEP, reward="correct")
    assert (run.provenance.rows, run.provenance.files, run.filtered) == (24, 1, None)
    assert run.provenance.policy_steps == (0, 0)
    assert run.total_rollouts == 21
    assert any("1 file in effective/ left out" in note for note in run.notes)
    assert run.strata == ("toy-add",)


def test_trap_7_effective_alone_is_filtered(tmp_path: Path) -> None:
    beside = gp.read_pilot(STEP / "effective", reward="correct")
    assert beside.filtered is not None
    assert any("all holds every rollout: read that instead" in note for note in beside.notes)
    shutil.copytree(STEP / "effective", tmp_path / "effective")
    alone = gp.read_pilot(tmp_path, reward="correct")
    assert alone.filtered is not None
    assert (alone.provenance.rows, alone.provenance.groups) == (21, 6)


def test_groups_of_prime_rl() -> None:
    log = read_groups(STEP)
    assert log.rollouts.tolist() == [4] * 6
    assert sorted(log.scored.tolist()) == sorted(
        Counter(r["group"]["id"] for r in rows_of(STEP / "all" / "traces.jsonl") if r["ok"]).values()
    )


def episode(i: int, **more: Any) -> dict[str, Any]:
    trace = {
        "rewards": {"correct": {"score": float(i % 2), "weight": 1.0}},
        "ok": True,
        "agent": {"name": "agent", "trainable": True, "config": {"model": "m", "sampling": {"temperature": 0.8}}},
        "calls": [],
        "num_output_tokens": 10 + i,
    }
    return {
        "id": f"e{i}", "env": {"id": "toy"}, "task": {"key": f"t{i // 4}"}, "ok": True, "errors": [],
        "run": {"type": "train", "work": {"type": "train", "step": 3}}, "group": {"id": f"g{i // 4}"},
        "traces": [trace], **more,
    }  # fmt: skip


def test_agents_repeats_and_empty_episodes(tmp_path: Path) -> None:
    rows = [episode(i) for i in range(8)]
    other = json.loads(json.dumps(rows[0]["traces"][0]))
    other["agent"] |= {"name": "judge", "trainable": False}
    rows[0]["traces"].append(other)
    second = json.loads(json.dumps(rows[1]["traces"][0]))
    second["agent"]["name"] = "critic"
    rows[1]["traces"].append(second)
    rows.append(episode(8, traces=[], ok=False))  # failed before any agent answered
    rows.append(rows[2])  # written twice
    pilot = gp.read_pilot(write(tmp_path / "t.jsonl", rows))
    assert pilot.dropped == {"duplicate_episodes": 1, "missing_reward": 1, "prompts_without_scored_rollouts": 1}
    assert pilot.temperatures == (0.8,)
    assert pilot.provenance.policies == ("m",)
    assert pilot.prompt_id is not None
    assert sorted(map(str, pilot.prompt_id)) == ["t0", "t0 (critic)", "t1"]
    assert any("1 traces are of agents that are not trained" in note for note in pilot.notes)
    eval_rows = [episode(i, run={"work": {"type": "eval", "step": 3}}) for i in range(20, 28)]
    mixed = write(tmp_path / "m.jsonl", rows[:8] + eval_rows)
    assert gp.read_pilot(mixed, split="eval").prompts == 2
    assert gp.read_pilot(mixed).dropped["eval_rows"] == 8


def test_a_trace_that_stands_alone_is_read_too(tmp_path: Path) -> None:
    """As prime-rl wrote them for a while: one trace a line, with the environment stamped on it."""
    rows = []
    for i in range(8):
        row = episode(i)
        stamped = {"info": {"prime_rl": {"env_name": "toy"}}, "nodes": []}
        rows.append({"id": row["id"], "task": row["task"], **row["traces"][0], **stamped})
    path = write(tmp_path / "step_12" / "train_rollouts.jsonl", rows)
    assert format_of(path) == "verifiers"
    pilot = gp.read_pilot(path)
    assert (pilot.prompts, pilot.provenance.policy_steps, pilot.strata) == (2, (12, 12), ("toy",))


def test_broken_traces(tmp_path: Path) -> None:
    rows = [episode(i) for i in range(4)]
    rows[2]["traces"] = "none"
    with pytest.raises(gp.PilotFormatError, match=r"t.jsonl:3: a field is of another type.*Expected `array \| null`"):
        gp.read_pilot(write(tmp_path / "t.jsonl", rows), format="verifiers")
    rows[2] = {"id": "e2"}  # nothing in it: a rollout without a score and without a prompt
    pilot = gp.read_pilot(write(tmp_path / "u.jsonl", rows), format="verifiers")
    assert pilot.total_rollouts == 3
    cut = tmp_path / "c.jsonl"
    cut.write_text(write(tmp_path / "w.jsonl", [episode(i) for i in range(4)]).read_text()[:-40])
    assert gp.read_pilot(cut).dropped == {"truncated_last_line": 1}
    bad = [episode(0)]
    bad[0]["traces"][0]["rewards"] = {"correct": {"score": "well", "weight": 1.0}}
    with pytest.raises(gp.PilotFormatError, match="correct is well, which is no reward"):
        gp.read_pilot(write(tmp_path / "b.jsonl", bad))


def test_streams_packed_by_prime_rl(tmp_path: Path) -> None:
    packed = tmp_path / "traces.jsonl.gz"
    packed.write_bytes(gzip.compress(TRACES.read_bytes()))
    assert gp.read_pilot(packed, reward="correct").total_rollouts == 21


# --- verifiers 0 ----------------------------------------------------------------------------------------------------


def test_trap_11_verifiers_0_an_error_is_no_zero() -> None:
    pilot = gp.read_pilot(DATA / "verifiers_v0")
    assert pilot.dropped == {"missing_reward": 1}
    assert (pilot.prompts, pilot.total_rollouts, pilot.temperatures) == (8, 31, (1.0,))
    assert pilot.provenance.policies == ("toy",)
    assert pilot.provenance.group_size == (4, 4)
    assert any("1 of 32 rollouts ended in an error" in note for note in pilot.notes)
    by_metric = gp.read_pilot(DATA / "verifiers_v0", reward="correct")
    assert by_metric.total_rollouts == 31
    with pytest.raises(gp.PilotFormatError, match=r"no reward function 'nope'\. It has: reward, correct"):
        gp.read_pilot(DATA / "verifiers_v0", reward="nope")


def v0(example: int, reward: float) -> dict[str, Any]:
    return {
        "example_id": example, "task": "toy", "prompt": [], "completion": [], "reward": reward, "error": None,
        "is_truncated": False, "is_completed": True,
    }  # fmt: skip


def test_trap_7_prime_rl_0_6_survivors_are_told_by_their_groups(tmp_path: Path) -> None:
    mixed = [v0(i, float(j == 0)) for i in range(40) for j in range(4)]
    folder = tmp_path / "rollouts" / "step_5"
    pilot = gp.read_pilot(write(folder / "train_rollouts.jsonl", mixed))
    assert pilot.filtered is not None
    assert "none of the 40 groups is dead" in pilot.filtered
    assert (pilot.provenance.rows, pilot.provenance.groups, pilot.prompts) == (160, 40, 40)
    dead = [v0(100, 0.0) for _ in range(4)]
    whole = gp.read_pilot(write(folder / "train_rollouts.jsonl", mixed + dead))
    assert whole.filtered is None
    assert whole.provenance.policy_steps == (5, 5)
    few = gp.read_pilot(write(folder / "train_rollouts.jsonl", mixed[:8]))
    assert few.filtered is None  # two groups prove nothing
    write(folder / "eval_rollouts_toy.jsonl", [v0(7, 1.0)] * 4)
    assert gp.read_pilot(tmp_path).dropped == {"eval_rows": 4}
    assert gp.read_pilot(tmp_path, split="eval").prompts == 1


# --- Inspect --------------------------------------------------------------------------------------------------------


def test_trap_10_members_are_packed_with_zstandard(inspect_json: Path) -> None:
    """56 rows of 7 samples, 3 of them errors that carry a partial score; ids are texts and a number."""
    for path, cut in ((EVAL, 0), (inspect_json, 4)):
        assert format_of(path) == "inspect"
        pilot = gp.read_pilot(path, reward="match")
        assert pilot.dropped == {"missing_reward": 3}
        assert (pilot.provenance.rows, pilot.provenance.groups, pilot.provenance.group_size) == (56, 7, (8, 8))
        assert (pilot.prompts, pilot.total_rollouts) == (7, 53)
        assert pilot.prompt_id is not None
        assert set(pilot.prompt_id) == {"7", *(f"add-{i}" for i in range(6))}
        assert pilot.provenance.policies == ("mockllm/model",)
        assert pilot.response_tokens is not None
        assert set(pilot.response_tokens.tolist()) == {2.0}
        assert any("3 of 56 samples ended in an error" in note for note in pilot.notes)
        assert any(f"{cut} of 56 samples were cut off" in note for note in pilot.notes) == bool(cut)


def test_inspect_reductions_agree(inspect_json: Path) -> None:
    """The tool's own means over the epochs that were scored... of a sample without errors, it divides by 8."""
    pilot = gp.read_pilot(inspect_json, reward="match")
    reduced = json.loads(inspect_json.read_text())["reductions"][0]
    assert (reduced["scorer"], reduced["reducer"]) == ("match", "mean")
    assert pilot.prompt_id is not None
    ours = dict(zip(map(str, pilot.prompt_id), (pilot.successes / pilot.rollouts).tolist(), strict=True))
    whole = dict(zip(map(str, pilot.prompt_id), (pilot.rollouts == 8).tolist(), strict=True))
    for sample in reduced["samples"]:
        if whole[str(sample["sample_id"])]:
            assert ours[str(sample["sample_id"])] == sample["value"]


def test_inspect_scorers_are_chosen(inspect_json: Path) -> None:
    with pytest.raises(gp.PilotFormatError, match=r"2 reward functions \(match, graded\)"):
        gp.read_pilot(inspect_json)
    graded = gp.read_pilot(inspect_json, reward="graded", pass_threshold=1.0)
    assert graded.dropped == {"missing_reward": 5}  # three errors and two NaN
    with pytest.raises(gp.PilotFormatError, match=r"sample add-5 epoch 2: graded is 0\.5, neither 0 nor 1"):
        gp.read_pilot(inspect_json, reward="graded")


def log(samples: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
    eval_ = {"task": "t", "model": "m", "dataset": {}, "config": {}, "eval_id": "run", **about}
    return {
        "version": 2,
        "status": "success",
        "eval": eval_,
        "plan": {"config": {"temperature": 0.6}},
        "samples": samples,
    }


def sample(i: int, value: Any, **more: Any) -> dict[str, Any]:
    return {"id": i, "epoch": 1, "scores": {"s": {"value": value}}, "uuid": f"u{i}{value}", **more}


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["C", "I", "N", "C"], {}, (2, 4)),
        (["C", "P", "I", "N"], {"pass_threshold": 0.5}, (2, 4)),
        ([True, False, 1, 0.0], {}, (2, 4)),
        (["1", "0", None, "yes"], {}, (2, 3)),
        ([{"a": 1, "b": "I"}, {"a": 0, "b": "C"}, {"a": 1}, {"a": None}], {"reward": "s/a"}, (2, 3)),
        ([[1, 0], [0, 0], [1, 1]], {"reward": "s/0"}, (2, 3)),
    ],
)
def test_inspect_values(tmp_path: Path, values: list[Any], options: dict[str, Any], expected: tuple[int, int]) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log([sample(i, v) for i, v in enumerate(values)]), indent=1))
    pilot = gp.read_pilot(path, **options)
    assert (int(pilot.successes.sum()), pilot.total_rollouts) == expected
    assert pilot.temperatures == (0.6,)


def test_inspect_logs_of_several_runs(tmp_path: Path) -> None:
    first = [sample(i, "C") for i in range(4)]
    write(tmp_path / "a.json", [log(first)])
    write(
        tmp_path / "b.json", [log([*first, sample(9, "I")], eval_id="again")]
    )  # a retry holds the samples that were done
    pilot = gp.read_pilot(tmp_path)
    assert pilot.dropped == {"duplicate_samples": 4}
    assert (pilot.prompts, pilot.total_rollouts) == (5, 5)
    assert any("2 evaluations are pooled; keep one with --where run=run" in note for note in pilot.notes)
    write(tmp_path / "c.json", [log([sample(1, "I", uuid="x")], model="other")])
    with pytest.raises(gp.PilotFormatError, match=r"rollouts of 2 models \(m, other\)"):
        gp.read_pilot(tmp_path)
    assert gp.read_pilot(tmp_path, where={"run": "again"}).total_rollouts == 1


def test_inspect_logs_that_lack_something(tmp_path: Path) -> None:
    write(tmp_path / "none.json", [{k: v for k, v in log([]).items() if k != "samples"}])
    with pytest.raises(gp.PilotFormatError, match="holds no samples"):
        gp.read_pilot(tmp_path / "none.json")
    unfinished = log([sample(0, "C"), {"id": 1, "epoch": 1, "completed": False}, sample(2, "I", invalidation={})])
    write(tmp_path / "part.json", [unfinished | {"status": "cancelled"}])
    pilot = gp.read_pilot(tmp_path / "part.json")
    assert pilot.dropped == {"unfinished_samples": 1, "invalidated_samples": 1}
    assert any("ended with status cancelled" in note for note in pilot.notes)
    write(tmp_path / "type.json", [log([{"id": 1, "scores": "C"}])])
    with pytest.raises(gp.PilotFormatError, match=r"no Inspect log that can be read \(Expected `object \| null`"):
        gp.read_pilot(tmp_path / "type.json")
    damaged = bytearray(EVAL.read_bytes())
    start = damaged.index(b"summaries.json", damaged.index(b"_journal/summaries/6.json") + 40) + len("summaries.json")
    damaged[start + 100 : start + 400] = bytes(300)
    (tmp_path / "bad.eval").write_bytes(bytes(damaged))
    with pytest.raises(gp.PilotFormatError, match="damaged Inspect archive"):
        gp.read_pilot(tmp_path / "bad.eval", reward="match")
    (tmp_path / "cut.eval").write_bytes(EVAL.read_bytes()[:5000])
    with pytest.raises(gp.PilotFormatError, match="zip archive"):
        gp.read_pilot(tmp_path / "cut.eval")


def test_inspect_archive_still_being_written(tmp_path: Path) -> None:
    """Without header and summaries the journal is read."""
    if sys.version_info >= (3, 14):
        import zipfile
    else:
        from backports.zstd import zipfile
    with zipfile.ZipFile(EVAL) as whole, zipfile.ZipFile(tmp_path / "part.eval", "w") as part:
        for name in whole.namelist():
            if name not in ("header.json", "summaries.json", "reductions.json", "_journal/summaries/6.json"):
                part.writestr(name, whole.read(name))
    pilot = gp.read_pilot(tmp_path / "part.eval", reward="match")
    assert pilot.provenance.rows == 50
    assert any("ended with status started" in note for note in pilot.notes)


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed")
def test_logs_that_inspect_writes_now(tmp_path: Path) -> None:
    script = ROOT / "tests" / "regenerate" / "inspect_logs.py"
    subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(tmp_path)], check=True, capture_output=True, timeout=300
    )
    truth = json.loads((tmp_path / "truth.json").read_text())
    (tmp_path / "truth.json").unlink()
    pilot = gp.read_pilot(tmp_path, reward="match")
    assert pilot.provenance.rows == 2 * truth["calls"]
    assert int(pilot.successes.sum()) == 2 * truth["right"]
    assert pilot.dropped == {"missing_reward": 2 * truth["errors"]}
    assert pilot.temperatures == (0.7,)
    assert any(f"{truth['cut']} of {truth['calls']} samples were cut off" in note for note in pilot.notes)
    right = gp.read_pilot(tmp_path, reward="graded/right")
    assert right.dropped == {"missing_reward": 2 * (truth["errors"] + 1)}
    with pytest.raises(gp.PilotFormatError, match="It has: match, graded/right, graded/tidy"):
        gp.read_pilot(tmp_path, reward="graded")


# --- lm-evaluation-harness ------------------------------------------------------------------------------------------


def test_harness_averages_give_counts() -> None:
    """8 documents of 8 answers; c = 8 times avg_at_8, whose mean is .53125."""
    pilot = gp.read_pilot(AVERAGES)
    assert pilot.rollouts.tolist() == [8] * 8
    assert pilot.successes.tolist() == [round(8 * row["avg_at_8"]) for row in rows_of(AVERAGES)]
    assert pilot.mean_pass_rate == 0.53125
    assert (pilot.temperatures, pilot.strata, pilot.provenance.policies) == ((0.8,), ("toy_avg",), ("i82qcls7",))
    with pytest.raises(gp.PilotFormatError, match="pass_at_8 is no mean over the 8 answers"):
        gp.read_pilot(AVERAGES, reward="pass_at_8")
    assert gp.read_pilot(AVERAGES, reward="avg_at_8,take_all").total_rollouts == 64


def test_harness_filters_that_take_one_answer_are_refused() -> None:
    """16 lines of 8 documents: two filters, neither of which scores every answer."""
    assert len(rows_of(REPEATS)) == 16
    for where in ({}, {"filter": "first"}, {"filter": "maj"}):
        with pytest.raises(gp.PilotFormatError, match=r"scores one of 8 answers.*take_first_k with k = 8"):
            gp.read_pilot(REPEATS, where=where)


def doc(i: int, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": i, "doc": {}, "arguments": {"gen_args_0": {"arg_1": {"do_sample": False}}}, "resps": [["x"]],
        "filtered_resps": ["x"], "filter": "none", "metrics": ["acc"], "acc": float(i % 2), **more,
    }  # fmt: skip


def test_harness_single_answers_and_two_filters(tmp_path: Path) -> None:
    pilot = gp.read_pilot(write(tmp_path / "a.jsonl", [doc(i) for i in range(6)]))
    assert (pilot.rollouts.tolist(), pilot.temperatures) == ([1] * 6, (0.0,))
    rows = [doc(i, filter=f, acc=float(f == "loose")) for i in range(4) for f in ("strict", "loose")]
    path = write(tmp_path / "b.jsonl", rows)
    with pytest.raises(gp.PilotFormatError, match=r"2 filters \(strict, loose\).*--where filter=strict"):
        gp.read_pilot(path)
    assert gp.read_pilot(path, where={"filter": "loose"}).successes.tolist() == [1] * 4
    assert gp.read_pilot(path, reward="acc,strict").successes.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (doc(0, resps=[]), "resps holds no answer"),
        (doc(0, resps=["x"]), "resps holds no answer"),
        (doc(0, acc=0.4), "acc = 0.4 of 1 answers is no whole number"),
        (doc(0, metrics=["acc", "f1"], f1=0.3), "holds 2 metrics"),
        (
            doc(0, resps=[["a", "b"]], filtered_resps=[["a", "b"]], metrics=["avg_at_4"], avg_at_4=0.5),
            "speaks of 4 answers",
        ),
    ],
)
def test_harness_rows_that_cannot_be_counted(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    with pytest.raises(gp.PilotFormatError, match=why):
        gp.read_pilot(write(tmp_path / "a.jsonl", [row]))


def test_harness_missing_score_is_counted(tmp_path: Path) -> None:
    pilot = gp.read_pilot(write(tmp_path / "a.jsonl", [doc(0), doc(1, acc=None), doc(2, acc=float("nan"))]))
    assert pilot.dropped == {"prompts_with_missing_counts": 2}


# --- lighteval ------------------------------------------------------------------------------------------------------


def details(path: Path, metrics: Callable[[int], dict[str, float | None]], answers: int = 4) -> Path:
    rows = [
        {
            "doc": {"query": f"question {i}", "id": str(i), "task_name": "aime", "num_samples": [answers]},
            "model_response": {"text": ["x"] * answers},
            "metric": metrics(i),
        }
        for i in range(5)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(path)
    return path


def test_lighteval_means_give_counts(tmp_path: Path) -> None:
    place = tmp_path / "details" / "org" / "model" / "2026-11-30T16-00-00" / "details_aime_2026-11-30T16-00-00.parquet"
    path = details(place, lambda i: {"avg@n:n=4": i / 4, "pass@k:k=2&n=4": 0.9})
    assert format_of(path) == "lighteval"
    pilot = gp.read_pilot(path)
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([0, 1, 2, 3, 4], [4] * 5)
    assert (pilot.strata, pilot.provenance.policies) == (("aime",), ("org/model",))
    with pytest.raises(gp.PilotFormatError, match="one of 2 answers is right, which only bounds how many"):
        gp.read_pilot(path, reward="pass@k:k=2&n=4")
    first = gp.read_pilot(details(tmp_path / "b.parquet", lambda i: {"pass@k:k=1&n=4": i / 4}))
    assert first.successes.tolist() == [0, 1, 2, 3, 4]
    fewer = gp.read_pilot(details(tmp_path / "c.parquet", lambda i: {"avg@n:n=64": i / 4}))
    assert fewer.rollouts.tolist() == [4] * 5
    assert any("5 documents have fewer than 64 answers" in note for note in fewer.notes)


def test_lighteval_metrics_that_do_not(tmp_path: Path) -> None:
    bounds = details(tmp_path / "a.parquet", lambda i: {"pass@k:k=4&n=4": 1.0, "maj@n:n=4": 1.0})
    with pytest.raises(
        gp.PilotFormatError, match=r"no metric gives how many answers are right.*Evaluate with avg@n:n=16"
    ):
        gp.read_pilot(bounds)
    graded = details(tmp_path / "b.parquet", lambda i: {"avg@n:n=4": 0.3})
    with pytest.raises(gp.PilotFormatError, match=r"row 1: avg@n:n=4 = 0.3 of 4 answers is no whole number"):
        gp.read_pilot(graded)
    missing = details(tmp_path / "c.parquet", lambda i: {"avg@n:n=4": None if i else 0.5})
    assert gp.read_pilot(missing).dropped == {"prompts_with_missing_counts": 4}
    with pytest.raises(gp.PilotFormatError, match="no metric 'x'"):
        gp.read_pilot(graded, reward="x")


# --- human-eval, EvalPlus, evalchemy --------------------------------------------------------------------------------


def test_human_eval() -> None:
    path = DATA / "human_eval" / "samples.jsonl_results.jsonl"
    rows = rows_of(path)
    pilot = gp.read_pilot(path)
    assert (pilot.prompts, pilot.total_rollouts) == (8, len(rows))
    assert int(pilot.successes.sum()) == sum(row["passed"] for row in rows)
    assert pilot.provenance.group_size == (10, 10)


def test_evalplus(tmp_path: Path) -> None:
    answers = [("pass", "pass"), ("pass", "fail"), ("fail", "fail"), ("timeout", None)]
    tasks = {f"T/{i}": [{"base_status": b, "plus_status": p, "solution": "x"} for b, p in answers] for i in range(3)}
    path = tmp_path / "x_eval_results.json"
    path.write_text(json.dumps({"date": "d", "eval": tasks}))
    assert format_of(path) == "evalplus"
    with pytest.raises(gp.PilotFormatError, match=r"2 reward functions \(base_status, plus_status\)"):
        gp.read_pilot(path)
    assert gp.read_pilot(path, reward="base_status").successes.tolist() == [2] * 3
    plus = gp.read_pilot(path, reward="plus_status")
    assert (plus.successes.tolist(), plus.dropped) == ([1] * 3, {"missing_reward": 3})
    with pytest.raises(gp.PilotFormatError, match="are no sum"):
        gp.read_pilot(path, reward_weights={"base_status": 1.0, "plus_status": 1.0})


def test_evalchemy_needs_grades(tmp_path: Path) -> None:
    examples = [{"problem": f"q{i}", "model_outputs": ["a", "b"], "model_answers": ["1", "2"]} for i in range(3)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"results": {"AIME24": {"examples": examples}}, "model_name": "m"}, indent=2))
    assert format_of(path) == "evalchemy"
    with pytest.raises(gp.PilotFormatError, match=r"AIME24, example 1: evalchemy keeps 2 answers.*not which are right"):
        gp.read_pilot(path)
    graded = [e | {"correct": [True, i > 0]} for i, e in enumerate(examples)]
    path.write_text(json.dumps({"results": {"AIME24": {"examples": graded}}, "model_name": "m"}))
    pilot = gp.read_pilot(path)
    assert (pilot.successes.tolist(), pilot.strata) == ([1, 2, 2], ("AIME24",))
    graded[1]["correct"] = [True]
    path.write_text(json.dumps({"results": {"AIME24": {"examples": graded}}}))
    with pytest.raises(gp.PilotFormatError, match="example 2: correct has 1 items for 2 answers"):
        gp.read_pilot(path)


# --- who is who -----------------------------------------------------------------------------------------------------


def own_files() -> Iterator[tuple[Path, str]]:
    yield TRACES, "verifiers"
    yield STEP / "all" / "traces.jsonl", "verifiers"
    yield DATA / "verifiers_v0" / "results.jsonl", "verifiers-v0"
    yield EVAL, "inspect"
    yield AVERAGES, "lm-eval"
    yield REPEATS, "lm-eval"
    yield DATA / "human_eval" / "samples.jsonl_results.jsonl", "human-eval"


@pytest.mark.parametrize(("path", "name"), list(own_files()), ids=lambda x: x if isinstance(x, str) else x.name[:24])
def test_a_file_looks_like_its_own_format_alone(path: Path, name: str) -> None:
    candidate = look(InputFile(name=str(path), path=path))
    assert [f.name for f in formats() if f.looks_like(candidate)] == [name]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "task": "t", "reward": 1.0},
        {"example_id": 1, "reward": 1.0, "completion": "x"},
        {"task_id": "a", "completion": "x", "passed": True},
        {"doc_id": 1, "doc": {}, "acc": 1.0},
        {"version": 1, "eval": {"task": "t"}, "results": {}},
        {"problem": "a", "difficulty": 3, "reward": 1},
    ],
)
def test_ordinary_tables_are_no_format(tmp_path: Path, row: dict[str, Any]) -> None:
    assert format_of(write(tmp_path / "t.jsonl", [row] * 3)) is None


def test_a_task_that_cannot_be_read_does_not_hide_the_others() -> None:
    pilot = gp.read_pilot(HARNESS)
    assert (pilot.prompts, pilot.strata) == (8, ("toy_avg",))
    assert any(note.startswith("toy_rep was left out:") and "scores one of 8" in note for note in pilot.notes)
    assert gp.read_pilot(HARNESS, where={"stratum": "toy_avg"}).prompts == 8
    assert not any("left out:" in note for note in gp.read_pilot(HARNESS, where={"stratum": "toy_avg"}).notes)
    with pytest.raises(gp.PilotFormatError, match="scores one of 8"):
        gp.read_pilot(HARNESS, where={"stratum": "toy_rep"})
    with pytest.raises(gp.PilotFormatError, match=r"Values among the first rows: .*toy_avg"):
        gp.read_pilot(HARNESS, where={"stratum": "other"})
