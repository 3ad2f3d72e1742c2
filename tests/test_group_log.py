"""Groups of a run: passes, spread, texts, lengths, what was cut off; a pilot of them; quantities counted per step."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_plan import DomainError, PilotError, fit_pass_rates
from grpo_plan.group_log import EQUAL_REWARDS, GroupLog
from grpo_plan.group_steps import counted_by_step
from grpo_plan.provenance import Provenance
from grpo_plan.quantities import Absent, Quantity
from grpo_plan.readers.group_details import GroupDetails, digests, two_levels
from grpo_plan.readers.group_table import GroupTable
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.run_reader import read_run
from grpo_plan.run_log import RunLog
from tests.trl_log import Simulated, write_table

DATA = Path(__file__).parent / "data"
FURTHER = ("passes", "truncated", "distinct", "distinct_rewards", "reward_var", "response_tokens", "measured")


def log_of(rewards: Sequence[Sequence[float]], *, steps: Sequence[int] | None = None, **more: Any) -> GroupLog:
    """Groups from the rewards of each, NaN where scoring failed."""
    values = [np.array(r, dtype=float) for r in rewards]
    scored = [v[np.isfinite(v)] for v in values]
    columns: dict[str, Any] = {
        "step": np.array([1] * len(values) if steps is None else steps, dtype=np.int64),
        "prompt_id": np.array([f"p{i}" for i in range(len(values))], dtype=object),
        "rollouts": np.array([v.size for v in values]),
        "scored": np.array([s.size for s in scored]),
        "reward_min": np.array([s.min() if s.size else np.nan for s in scored]),
        "reward_max": np.array([s.max() if s.size else np.nan for s in scored]),
        "reward_mean": np.array([s.mean() if s.size else np.nan for s in scored]),
        "reward_var": np.array([s.var() if s.size else np.nan for s in scored]),
    }
    threshold = more.get("pass_threshold")
    if threshold is not None:
        columns["passes"] = np.array([int((s >= threshold).sum()) for s in scored])
    return GroupLog(**columns | more)


def consistent(log: GroupLog) -> None:
    """What holds of any groups, whatever they were read from."""
    assert np.all((log.scored >= 0) & (log.scored <= log.rollouts) & (log.failed == log.rollouts - log.scored))
    assert log.distinct_rewards is not None
    assert log.reward_var is not None
    assert np.all((log.distinct_rewards >= np.minimum(log.scored, 1)) & (log.distinct_rewards <= log.scored))
    np.testing.assert_array_equal(log.dead, log.distinct_rewards < 2)
    np.testing.assert_array_equal(log.dead & (log.scored > 0), log.reward_var == 0)
    np.testing.assert_array_equal(np.isnan(log.reward_var), log.scored == 0)
    assert np.all(log.unscored <= log.dead)
    assert np.all(log.flat <= log.dead)
    if log.truncated is not None:
        assert np.all((log.truncated >= -1) & (log.truncated <= log.rollouts))
    if log.distinct is not None:
        known = log.distinct >= 0
        assert np.all((log.distinct <= log.scored) & (~known | (log.distinct >= np.minimum(log.scored, 1))))
        assert log.repeated is not None
        assert log.identical is not None
        np.testing.assert_array_equal(np.isfinite(log.repeated), known & (log.scored > 0))
        assert np.all(~log.identical | (known & (log.scored >= 2)))
    if log.measured is not None and log.response_tokens is not None:
        assert np.all((log.measured >= 0) & (log.measured <= log.rollouts))
        np.testing.assert_array_equal(np.isfinite(log.response_tokens), log.measured > 0)
    if log.passes is None:
        assert log.all_pass is None
        assert log.all_fail is None
        assert log.pass_threshold is None
        return
    assert np.all((log.passes >= 0) & (log.passes <= log.scored))
    assert log.all_pass is not None
    assert log.all_fail is not None
    parts = np.stack([log.unscored, log.all_pass, log.all_fail, log.flat])
    np.testing.assert_array_equal(parts.sum(axis=0), log.dead)  # each dead group is of one kind, others of none


# --- what the sources hold ---------------------------------------------------------------------------------------

TEXTS = {"distinct"}
LENGTHS = {"response_tokens", "measured"}
SOURCES: dict[str, tuple[set[str], dict[str, Any]]] = {
    "trl/none2": (TEXTS, {}),
    "trl/wandb": (TEXTS | {"passes"}, {}),
    "ms_swift/completions.jsonl": (TEXTS | {"passes"}, {}),
    "verl/v1": (TEXTS | {"passes"}, {}),
    "verl/legacy": (TEXTS | {"passes"}, {}),
    "nemo_rl": (TEXTS | {"passes"}, {"rollouts_per_prompt": 8}),
    "roll": (TEXTS | {"passes"}, {}),
    "human_eval": (TEXTS | {"passes"}, {}),
    "skyrl": (TEXTS | {"passes", "truncated"}, {}),
    "verifiers_v0": (TEXTS | {"passes", "truncated"}, {}),
    "open_instruct": (TEXTS | LENGTHS | {"passes", "truncated"}, {}),
    "inspect_ai": (TEXTS | LENGTHS | {"truncated"}, {}),
    "verifiers/out": (TEXTS | LENGTHS | {"truncated"}, {}),
    "verifiers/rollouts": (TEXTS | LENGTHS | {"truncated"}, {}),
    "tinker/run": (LENGTHS, {}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_source_gives_what_it_holds_and_no_more(name: str) -> None:
    held, options = SOURCES[name]
    plain, log = read_groups(DATA / name, **options), read_groups(DATA / name, details=True, **options)
    assert all(getattr(plain, column) is None for column in (*FURTHER, "pass_threshold"))
    for column in ("step", "rollouts", "scored", "reward_min", "reward_max", "reward_mean", "prompt_id"):
        np.testing.assert_array_equal(getattr(log, column), getattr(plain, column))
    assert (log.notes, log.dropped, log.provenance) == (plain.notes, plain.dropped, plain.provenance)
    found = {column for column in FURTHER if getattr(log, column) is not None}
    assert found == held | {"distinct_rewards", "reward_var"}
    consistent(log)


def test_slime_tells_texts_lengths_and_status() -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    log = read_groups(DATA / "slime", details=True)
    assert log.truncated is not None
    assert log.truncated.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert log.distinct is not None
    assert log.response_tokens is not None
    assert log.passes is not None
    assert log.passes.tolist() == [0, 0, 2, 3, 2, 4, 6, 8]
    consistent(log)


def test_trl_texts_and_failed_scoring_are_those_of_the_tables() -> None:
    log = read_groups(DATA / "trl" / "none2", details=True)
    frame = pl.read_parquet(DATA / "trl/none2/completions/completions_00001.parquet")
    functions = [c for c, kind in frame.schema.items() if kind == pl.Float64 and c != "advantage"]
    rewards = np.stack([frame[c].to_numpy() for c in functions])
    total = np.where(np.isnan(rewards).all(axis=0), np.nan, np.nansum(rewards, axis=0)).reshape(-1, 4)
    texts = np.array([json.dumps(c) for c in frame["completion"].to_list()], dtype=object).reshape(-1, 4)
    first = log.window(1, 1)
    assert first.groups == len(total)
    assert first.failed.tolist() == np.isnan(total).sum(axis=1).tolist()
    kept = [t[np.isfinite(r)] for t, r in zip(texts, total, strict=True)]
    assert first.distinct is not None
    assert first.reward_var is not None
    assert first.distinct.tolist() == [len(set(t)) for t in kept]
    spread = [np.nanvar(r) if np.isfinite(r).any() else np.nan for r in total]
    np.testing.assert_allclose(first.reward_var, np.array(spread), atol=1e-12)
    lost = 0
    for step in range(1, 21, 2):  # each table stands twice
        table = pl.read_parquet(DATA / f"trl/none2/completions/completions_{step:05}.parquet")
        lost += int(np.isnan(np.stack([table[c].to_numpy() for c in functions])).all(axis=0).sum())
    assert log.failed.sum() == lost > 0
    assert log.unscored.sum() > 0
    assert log.passes is None  # 0, 0.5, 1 and more: what passes is for the user to say
    chosen = read_groups(DATA / "trl" / "none2", pass_threshold=1.0)
    assert chosen.passes is not None
    assert chosen.pass_threshold == 1.0
    consistent(chosen)


def episodes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_verifiers_tell_errors_limits_and_texts() -> None:
    path = DATA / "verifiers/rollouts/step_0/train/all/traces.jsonl"
    log = read_groups(path, details=True, pass_threshold=1.0)
    cut: dict[str, int] = {}
    texts: dict[str, set[str]] = {}
    failed: dict[str, int] = {}
    for row in episodes(path):
        key = row["task"]["key"]
        for trace in row["traces"] or [{}]:
            limit = trace.get("stop_condition") in ("max_turns", "max_output_tokens", "max_total_tokens")
            ended = [c.get("finish_reason") for c in trace.get("calls", ()) if not c.get("error")]
            cut[key] = cut.get(key, 0) + (limit or (bool(ended) and ended[-1] == "length"))
            bad = not (row["ok"] and trace.get("ok"))
            failed[key] = failed.get(key, 0) + bad
            if not bad:
                said = [n["message"] for n in trace["nodes"] if n["sampled"]]
                texts.setdefault(key, set()).add(json.dumps(said, sort_keys=True))
    assert log.truncated is not None
    assert log.distinct is not None
    names = [str(p) for p in log.prompt_id]
    assert dict(zip(names, log.truncated.tolist(), strict=True)) == cut
    assert dict(zip(names, log.failed.tolist(), strict=True)) == failed
    assert dict(zip(names, log.distinct.tolist(), strict=True)) == {n: len(texts.get(n, ())) for n in names}
    assert sum(cut.values()) > 0
    assert sum(failed.values()) > 0
    consistent(log)


def test_verifiers_texts_are_those_that_the_policy_wrote(tmp_path: Path) -> None:
    rows = episodes(DATA / "verifiers/out/traces.jsonl")
    for i, row in enumerate(rows):
        for trace in row["traces"]:
            trace["nodes"][0]["message"]["content"] += f" (asked {i})"
    path = write_verl(tmp_path / "traces.jsonl", rows)
    before, after = read_groups(DATA / "verifiers/out", details=True), read_groups(path, details=True)
    assert after.distinct is not None
    np.testing.assert_array_equal(after.distinct, before.distinct)
    rows[0]["traces"][0]["nodes"] = "damaged"
    damaged = read_groups(write_verl(path, rows), details=True)
    assert damaged.distinct is not None
    assert damaged.distinct[0] == -1
    np.testing.assert_array_equal(damaged.distinct[1:], after.distinct[1:])


def test_a_table_of_training_and_evaluation_keeps_their_texts_apart(tmp_path: Path) -> None:
    run = Simulated(
        folder=tmp_path, rng=np.random.default_rng(3), size=4, eval_size=4, prompts=4, reuse=1, logging=1, eval_every=2,
        eval_prompts=2, steps=6,
    ).train()  # fmt: skip
    for step, rows in run.files.items():
        one = [row | {"completion": "same"} if row["split"] == "eval" else row for row in rows]
        write_table(tmp_path, step, one)
    run.state()
    run.config()
    for split in ("train", "eval"):
        whole = run.whole_groups(split)
        log = read_groups(tmp_path, details=True, split=split)
        assert log.identical is not None
        assert log.identical.tolist() == [split == "eval"] * len(whole)
        consistent(log)


def test_inspect_documents_tell_texts_and_limits_and_summaries_do_not() -> None:
    log = read_groups(DATA / "inspect_ai", details=True)
    assert log.distinct is not None
    assert log.truncated is not None
    assert (log.distinct[:7] == -1).all()
    assert (log.truncated[:7] == -1).all()
    path = next((DATA / "inspect_ai").glob("*.json.gz"))
    samples = json.loads(gzip.decompress(path.read_bytes()))["samples"]
    cut, texts = Counter[str](), dict[str, set[str]]()
    for sample in samples:
        name, output = str(sample["id"]), sample["output"]
        choices = output.get("choices") or []
        cut[name] += sample.get("limit") is not None or any(c["stop_reason"] == "max_tokens" for c in choices)
        if sample.get("error") is None:
            texts.setdefault(name, set()).add(output["completion"])
    names = [str(p) for p in log.prompt_id[7:]]
    assert log.truncated[7:].tolist() == [cut[name] for name in names]
    assert log.distinct[7:].tolist() == [len(texts[name]) for name in names]
    assert cut.total() > 0


def write_verl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verl(prompt: str, session: int, score: Any, text: Any, *, index: int = 0, step: int = 1) -> dict[str, Any]:
    uid = f"{prompt}_{session}_{index}"
    return {"input": prompt, "output": text, "gts": "", "score": score, "step": step, "uid": uid}


def test_verl_padding_and_earlier_outputs_are_no_texts(tmp_path: Path) -> None:
    rows = [
        verl("a", 0, 0.0, "first", index=0), verl("a", 0, 1.0, "last", index=1), verl("a", 1, 1.0, "last"),
        verl("b", 0, 0.0, ""), verl("b", 1, 0.0, ""), verl("c", 0, 0.0, None), verl("c", 1, 1.0, "x"),
        verl("d", 0, 0.0, 7), verl("d", 1, 1.0, "7"), verl("pad12", 0, 0.0, "pad"), verl("pad12", 1, 0.0, "pad"),
    ]  # fmt: skip
    log = read_groups(write_verl(tmp_path / "1.jsonl", rows), details=True)
    assert log.dropped == {"padding_rows": 2, "earlier_outputs_of_a_session": 1}
    assert log.distinct is not None
    assert log.identical is not None
    assert log.passes is not None
    assert log.prompt_id.tolist() == ["a", "b", "c", "d"]
    assert log.distinct.tolist() == [1, 1, -1, 1]  # an empty answer is a text, a missing one is none
    assert log.identical.tolist() == [True, True, False, True]
    assert log.passes.tolist() == [2, 0, 1, 1]
    assert log.truncated is None
    assert log.response_tokens is None
    none = read_groups(write_verl(tmp_path / "2.jsonl", [row | {"output": None} for row in rows]), details=True)
    assert none.distinct is None
    shown = read_groups(tmp_path / "1.jsonl", details=True, where={"output": "last"})
    assert shown.distinct is not None
    assert shown.distinct.tolist() == [1]


def test_what_passes_is_told_by_two_levels_or_given(tmp_path: Path) -> None:
    def of(scores: Sequence[float], **more: Any) -> GroupLog:
        rows = [verl("a", i, s, "x") for i, s in enumerate(scores)]
        return read_groups(write_verl(tmp_path / "1.jsonl", rows), details=True, **more)

    signs = of([-1.0, 1.0, 1.0])
    assert signs.passes is not None
    assert (signs.pass_threshold, signs.passes.tolist()) == (1.0, [2])
    hidden = of([0.0, 0.5, 1.0])  # the ends alone look like 0 and 1
    assert hidden.passes is None
    assert hidden.pass_threshold is None
    given_one = of([0.0, 0.5, 1.0], pass_threshold=0.5)
    assert given_one.passes is not None
    assert given_one.passes.tolist() == [2]
    assert two_levels(np.empty(0)) == 1.0
    with pytest.raises(DomainError, match="pass_threshold must be a finite number"):
        read_groups(tmp_path / "1.jsonl", pass_threshold=float("nan"))


def test_odd_texts_are_hashed_and_never_refused() -> None:
    values: list[Any] = [-1, 2**70, "a", None, "\ud800", ["a"], {"role": "x"}, "a"]
    found = digests(values)
    assert found.null_count() == 1
    assert found.n_unique() == 7
    assert digests([5, None]).to_list() == [5, None]


# --- any groups, in any batches ----------------------------------------------------------------------------------

LEVELS = st.sampled_from([None, 0.0, 1.0, 0.5, 0.5 + 7e-9, 0.5 + 1.4e-8, -1.0, 0.1, float("nan"), float("inf")])
ROLLOUT = st.tuples(
    LEVELS,
    st.sampled_from(["x", "y", "", None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([None, 0, 7, -2]),
)
ROLLOUTS = st.lists(st.tuples(st.integers(0, 3), ROLLOUT), min_size=1, max_size=30)


@given(rows=ROLLOUTS, cuts=st.lists(st.integers(1, 29), max_size=3), threshold=st.sampled_from([None, 0.5, 1.0]))
@settings(max_examples=60, deadline=None)
def test_groups_in_any_batches_are_counted_as_one_by_one(
    rows: list[tuple[int, tuple[Any, ...]]], cuts: list[int], threshold: float | None
) -> None:
    table = GroupTable(details=GroupDetails(threshold=threshold))
    edges = [0, *sorted({c for c in cuts if c < len(rows)}), len(rows)]
    for start, stop in pairwise(edges):
        part = rows[start:stop]
        reward, text, cut, length = (list(column) for column in zip(*(r for _, r in part), strict=True))
        columns: dict[str, Any] = {
            "group": [str(g) for g, _ in part], "prompt": [f"p{g}" for g, _ in part], "reward": reward,
            "response text": text, "cut off": cut, "response_tokens": length,
        }  # fmt: skip
        table.add(columns, lambda i: f"row {i}", "reward")
    frame = table.frame()
    assert table.details is not None
    more = table.details.of_groups(frame)
    log = GroupLog(
        step=frame["step"].to_numpy(), prompt_id=np.array(frame["prompt"].to_list(), dtype=object),
        rollouts=frame["rollouts"].to_numpy(), scored=frame["scored"].to_numpy(),
        reward_min=frame["low"].fill_null(float("nan")).to_numpy(),
        reward_max=frame["high"].fill_null(float("nan")).to_numpy(),
        reward_mean=np.where(frame["scored"] > 0, frame["total"] / np.maximum(frame["scored"], 1), np.nan), **more,
    )  # fmt: skip
    consistent(log)
    everything = {r for _, (r, *_) in rows if r is not None and np.isfinite(r)}
    level = threshold if threshold is not None else two_levels(np.array(sorted(everything)))
    assert log.pass_threshold == level
    for i, group in enumerate(dict.fromkeys(g for g, _ in rows)):
        of_group = [r for g, r in rows if g == group]
        kept = [r for r in of_group if r[0] is not None and np.isfinite(r[0])]
        values = np.array([r[0] for r in kept])
        assert (log.rollouts[i], log.scored[i]) == (len(of_group), len(kept))
        assert log.reward_var is not None
        assert log.distinct_rewards is not None
        if kept:
            spread = 0.0 if np.ptp(values) <= EQUAL_REWARDS else float(values.var())
            assert log.reward_var[i] == pytest.approx(spread, abs=1e-12)
        if log.passes is not None:
            assert log.passes[i] == (values >= level).sum()
        if log.distinct is not None:
            assert log.distinct[i] == (-1 if any(r[1] is None for r in kept) else len({r[1] for r in kept}))
        if log.truncated is not None:
            unknown = any(r[2] is None for r in of_group)
            assert log.truncated[i] == (-1 if unknown else sum(r[2] for r in of_group))
        lengths = [r[3] for r in of_group if r[3] is not None and r[3] >= 0]
        if log.measured is not None and log.response_tokens is not None:
            assert log.measured[i] == len(lengths)
            if lengths:
                assert log.response_tokens[i] == pytest.approx(np.mean(lengths))


# --- kinds of dead groups ----------------------------------------------------------------------------------------

NONE = float("nan")


def test_flat_groups_of_graded_rewards_are_neither_end() -> None:
    rewards = [[0.1] * 4, [0.0] * 4, [1.1] * 4, [1.1, 1.0, 1.1, 1.1], [0.1, 0.0, 1.0, 0.1], [NONE] * 4, [1.0, NONE]]
    log = log_of(rewards, pass_threshold=1.0)
    assert log.flat.tolist() == [True, *[False] * 6]
    assert log.all_fail is not None
    assert log.all_pass is not None
    assert np.flatnonzero(log.all_fail).tolist() == [1]
    assert np.flatnonzero(log.all_pass).tolist() == [2]  # 1.1 and 1.0 all pass, but differ: mixed
    assert np.flatnonzero(log.unscored).tolist() == [5, 6]
    assert log.dead.tolist() == [True, True, True, False, False, True, True]
    unknown = replace(log, passes=None, pass_threshold=None)
    assert unknown.all_pass is None
    assert unknown.all_fail is None
    assert unknown.flat.tolist() == [True, *[False] * 6]
    assert [x.tolist() for x in log.count_by_step(log.flat)] == [[1], [7], [1]]


def test_flat_is_judged_by_the_lowest_reward_seen() -> None:
    log = log_of([[0.1, 0.1], [1.0, 1.0], [0.0, 1.0]], steps=[1, 1, 2], pass_threshold=1.0)
    assert log.flat.tolist() == [True, False, False]
    early = log.window(1, 1)  # nothing lower is known there
    assert early.all_fail is not None
    assert (early.flat.tolist(), early.all_fail.tolist()) == ([False, False], [True, False])
    assert not log_of([[NONE, NONE]]).flat.any()


def test_rewards_equal_within_the_tolerance_on_both_sides_of_the_threshold() -> None:
    log = log_of([[1.0, 1.0 - 5e-9], [0.0, 1.0]], pass_threshold=1.0)
    assert log.dead.tolist() == [True, False]
    assert log.flat.tolist() == [True, False]


# --- a pilot of a run --------------------------------------------------------------------------------------------


def test_a_run_s_own_groups_are_a_pilot() -> None:
    rewards = [[0.0, 1.0, 1.0, NONE], [0.0] * 4, [1.0] * 4, [NONE] * 4]
    tokens = np.array([5.0, 9.0, np.nan, np.nan])
    log = log_of(
        rewards, steps=[1, 1, 2, 2], pass_threshold=1.0, response_tokens=tokens, measured=np.array([4, 4, 0, 0]),
        provenance=Provenance(format="verl-v1", rows=16, groups=4, policy_steps=(1, 2), step_count=2),
    )  # fmt: skip
    pilot = log.to_pilot()
    assert (pilot.successes.tolist(), pilot.rollouts.tolist()) == ([2, 0, 4], [3, 4, 4])
    assert pilot.dropped["missing_reward"] == 5
    assert pilot.provenance.mixed_policies
    assert pilot.provenance.groups == 4
    one = log.to_pilot(steps=(None, 1))
    assert (one.successes.tolist(), one.provenance.policy_steps) == ([2, 0], (1, 1))
    assert not one.provenance.mixed_policies
    assert one.prompt_id is not None
    assert one.prompt_id.tolist() == ["p0", "p1"]
    assert one.response_tokens is not None
    assert one.response_tokens.tolist() == [5.0, 9.0]
    with pytest.raises(DomainError, match="steps 3 to the last: no group has such a step; the steps are 1 to 2"):
        log.to_pilot(steps=(3, None))
    with pytest.raises(DomainError, match="steps must be whole numbers or None; got '1'"):
        log.window("1")  # type: ignore[arg-type]
    with pytest.raises(DomainError, match="steps must be a pair"):
        log.to_pilot(steps=2)  # type: ignore[arg-type]
    with pytest.raises(PilotError):
        replace(log, scored=np.zeros(4, dtype=int), passes=np.zeros(4, dtype=int)).to_pilot()


def test_a_pilot_of_a_dump_is_that_which_is_read() -> None:
    from grpo_plan import read_pilot

    log = read_groups(DATA / "verl/v1", details=True)
    pilot, read = log.to_pilot(steps=(2, 2)), read_pilot(DATA / "verl/v1", policy_steps=(2, 2))
    mine = {str(p): (int(k), int(n)) for p, k, n in zip(pilot.prompt_id, pilot.successes, pilot.rollouts, strict=True)}  # type: ignore[arg-type]
    other = {str(p): (int(k), int(n)) for p, k, n in zip(read.prompt_id, read.successes, read.rollouts, strict=True)}  # type: ignore[arg-type]
    assert mine == other
    assert fit_pass_rates(pilot).dead(8).value == pytest.approx(fit_pass_rates(read).dead(8).value)


def test_survivors_and_unknown_passes_are_no_pilot() -> None:
    with pytest.raises(PilotError, match=r"only mixed ones .*, so D.G. cannot be counted"):
        read_groups(DATA / "open_instruct", details=True).to_pilot()
    with pytest.raises(PilotError, match=r"the rewards have several levels\. Read the groups with pass_threshold="):
        read_groups(DATA / "trl/none2", details=True).to_pilot()
    with pytest.raises(PilotError, match="passes were not read"):
        read_groups(DATA / "verl/v1").to_pilot()
    with pytest.raises(DomainError, match="the source has no steps"):
        read_groups(DATA / "human_eval", details=True).to_pilot(steps=(1, 2))


# --- quantities of a run -----------------------------------------------------------------------------------------


def run_of(groups: GroupLog, steps: Sequence[int], **metrics: Sequence[float]) -> RunLog:
    names = {name.replace("__", "/"): np.array(values, dtype=float) for name, values in metrics.items()}
    return RunLog(steps=np.array(steps), metrics=names, format="metrics", source="log", groups=groups)


def values(run: RunLog, name: str) -> list[float]:
    found = run.quantity(name)
    assert isinstance(found, Quantity), found
    return [float(v) for v in found.values]


@given(seed=st.integers(0, 10_000), failing=st.sampled_from([0.0, 0.3]))
@settings(max_examples=25, deadline=None)
def test_standard_deviations_of_a_step_are_those_of_its_rewards(seed: int, failing: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=7)
    rewards = [np.where(rng.random(n) < failing, np.nan, rng.normal(3.0, 2.0, n)) for n in sizes]
    steps = np.sort(rng.integers(0, 3, size=7))
    log = log_of([r.tolist() for r in rewards], steps=steps.tolist())
    for name in ("group_reward_std", "reward_std", "failed_fraction", "reward_mean"):
        counted = counted_by_step(log, name)
        for i, step in enumerate(np.unique(steps)):
            here = [r for r, s in zip(rewards, steps, strict=True) if s == step]
            flat = np.concatenate(here)
            known = flat[np.isfinite(flat)]
            several = [r[np.isfinite(r)] for r in here if np.isfinite(r).sum() >= 2]
            expected = {
                "group_reward_std": np.mean([r.std(ddof=1) for r in several]) if several else np.nan,
                "reward_std": known.std(ddof=1) if known.size >= 2 else np.nan,
                "failed_fraction": float(np.isnan(flat).mean()),
                "reward_mean": known.mean() if known.size else np.nan,
            }[name]
            if counted is not None:
                np.testing.assert_allclose(counted[0][i], expected, rtol=1e-9, atol=1e-12)


def test_trl_s_own_standard_deviation_is_that_of_the_rollouts() -> None:
    for name in ("binary", "none2", "batchstd"):
        found = read_run(DATA / "trl" / name).quantity("reward_std")
        assert isinstance(found, Quantity)
        assert found.notes[0].startswith("Counted from")
        assert not any("says otherwise" in note for note in found.notes), (name, found.notes)
    failed = read_run(DATA / "trl/none2").quantity("failed_fraction")
    assert isinstance(failed, Quantity)
    assert np.nanmax(failed.values) == 0.25


def test_truncated_and_lengths_are_counted_where_they_are_known() -> None:
    log = log_of([[0.0] * 4, [1.0] * 4, [0.0, 1.0]], steps=[1, 1, 2], truncated=np.array([1, 3, -1]))
    log = replace(log, response_tokens=np.array([10.0, 20.0, np.nan]), measured=np.array([4, 1, 0]))
    run = run_of(log, [1, 2, 3], completions__clipped_ratio=[0.5, 0.9, 0.1], frac_reward_zero_std=[0.0, 0.0, 0.0])
    assert values(run, "truncated_fraction") == [0.5, 0.9, 0.1]  # counted, then logged where one is unknown
    assert values(run_of(log, [1, 2]), "response_tokens_mean")[0] == 12.0
    assert np.isnan(values(run_of(log, [1, 2]), "response_tokens_mean")[1])
    off = run_of(log, [1, 2], completions__clipped_ratio=[0.25, 0.9], frac_reward_zero_std=[0.0, 0.0])
    found = off.quantity("truncated_fraction")
    assert isinstance(found, Quantity)
    assert any("says otherwise at 1 of 1 steps, first 0.25 against 0.5" in note for note in found.notes)


def test_rewards_near_the_largest_float_have_no_spread(tmp_path: Path) -> None:
    rows = [
        verl(p, i, s, "x")
        for p, scores in {"a": [1e308, -1e308], "b": [0.0, 1.0]}.items()
        for i, s in enumerate(scores)
    ]
    log = read_groups(write_verl(tmp_path / "1.jsonl", rows), details=True)
    assert log.reward_var is not None
    np.testing.assert_array_equal(log.reward_var, [np.nan, 0.25])
    for name in ("group_reward_std", "reward_std"):
        assert isinstance(run_of(log, [1]).quantity(name), Absent)


def test_a_chain_of_close_rewards_is_no_dead_group(tmp_path: Path) -> None:
    rows = [verl("a", i, 0.5 + i * 7e-9, "x") for i in range(3)] + [verl("b", i, 0.5 + i * 7e-9, "x") for i in range(2)]
    log = read_groups(write_verl(tmp_path / "1.jsonl", rows), details=True)
    assert log.dead.tolist() == [False, True]
    assert log.distinct_rewards is not None
    assert log.distinct_rewards.tolist() == [2, 1]
    consistent(log)


def test_failures_are_unknown_where_a_tool_writes_them_as_zero() -> None:
    log = log_of([[0.0, 1.0]], provenance=Provenance(format="verl-v1"))
    assert isinstance(run_of(log, [1]).quantity("failed_fraction"), Absent)
    assert values(run_of(replace(log, provenance=Provenance(format="trl")), [1]), "failed_fraction") == [0.0]
    some = log_of([[0.0, NONE]], provenance=Provenance(format="verl-v1"))
    assert values(run_of(some, [1]), "failed_fraction") == [0.5]
    logged = run_of(some, [1], response__aborted_ratio=[0.125], critic__score__mean=[0.1])
    assert values(logged, "failed_fraction") == [0.125]


def test_survivors_tell_no_quantity_of_all_rollouts() -> None:
    log = log_of([[0.0, 1.0]], truncated=np.array([1]), provenance=Provenance(filtered="dropped"))
    for name in ("truncated_fraction", "group_reward_std", "reward_std", "failed_fraction", "response_tokens_mean"):
        assert isinstance(run_of(log, [1]).quantity(name), Absent)


def test_a_run_reads_the_details_with_its_threshold() -> None:
    run = read_run(DATA / "trl/none2", pass_threshold=1.0)
    assert run.groups is not None
    assert run.groups.passes is not None
    assert run.groups.distinct is not None
    assert run.groups.pass_threshold == 1.0
