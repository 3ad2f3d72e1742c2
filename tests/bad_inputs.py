"""Bad inputs by kind, and what each gives: ``python -m tests.bad_inputs`` writes docs/bad-inputs.md, a test compares."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from grpo_plan.errors import GrpoPlanError
from grpo_plan.group_log import GroupLog
from grpo_plan.pilot import Pilot
from grpo_plan.readers import read_groups, read_pilot, read_run
from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"
PAGE = ROOT / "docs" / "bad-inputs.md"
READERS: Mapping[str, Callable[..., Any]] = {"pilot": read_pilot, "groups": read_groups, "run": read_run}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of bad input: what it is, who reads it, and how it is made in an empty folder (the source, if not that)."""

    kind: str
    make: Callable[[Path], Path | str | None]
    format: str
    want: str = "pilot"
    options: Mapping[str, Any] = field(default_factory=dict)


def v1(prompt: int, session: int, score: object, **more: Any) -> Row:
    """A row of verl's trainer V1."""
    row = {
        "input": f"question {prompt}", "output": "x", "gts": "1", "score": score, "step": 1,
        "uid": f"{prompt:032x}_{session}_0",
    }  # fmt: skip
    return row | more


def dump(changes: Mapping[int, Row] | None = None) -> list[Row]:
    """Three prompts with four rollouts each, with changes by the number of the row; None removes a field."""
    rows = [v1(p, s, float(s < p + 1)) for p in range(3) for s in range(4)]
    for i, change in (changes or {}).items():
        rows[i] = {name: value for name, value in (rows[i] | change).items() if value is not ...}
    return rows


def lines(path: Path, rows: Sequence[object]) -> Path:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def changed(**change: Any) -> Callable[[Path], Path]:
    """A dump of verl with its sixth row changed."""
    return lambda folder: lines(folder / "1.jsonl", dump({5: change}))


def of_all(**change: Any) -> Callable[[Path], Path]:
    """A dump of verl with every row changed."""
    return lambda folder: lines(folder / "1.jsonl", dump(dict.fromkeys(range(12), change)))


def text(name: str, data: bytes) -> Callable[[Path], Path]:
    """A file of these bytes."""

    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def good(extra: Callable[[Path], object]) -> Callable[[Path], None]:
    """A folder with two sound steps of verl, and something else."""

    def make(folder: Path) -> None:
        for step in (2, 3):
            rows = [row | {"step": step, "uid": f"{step}{row['uid']}"} for row in dump()]
            lines(folder / f"{step}.jsonl", rows)
        extra(folder)

    return make


def copied(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """A copy of a file of tests/data whose bytes are changed."""
    return lambda folder: text(Path(name).name, change((DATA / name).read_bytes()))(folder)


def table(name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], Path]:
    """A copy of a parquet file of tests/data whose table is changed."""

    def make(folder: Path) -> Path:
        path = folder / Path(name).name
        change(pl.read_parquet(DATA / name)).write_parquet(path)
        return path

    return make


def episodes(**change: Any) -> Callable[[Path], Path]:
    """Traces of verifiers with the first trace changed."""

    def make(folder: Path) -> Path:
        rows = [json.loads(line) for line in (DATA / "verifiers" / "out" / "traces.jsonl").read_text().splitlines()]
        rows[0]["traces"][0] |= change
        return lines(folder / "traces.jsonl", rows)

    return make


START = {"eval": {"task": "t", "model": "m", "dataset": {}, "config": {}}, "version": 2, "plan": {}}


def archive(members: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> Callable[[Path], Path]:
    """An archive that looks like one of Inspect."""

    def make(folder: Path) -> Path:
        with zipfile.ZipFile(folder / "log.eval", "w", kind) as out:
            out.writestr("_journal/start.json", json.dumps(START))
            out.writestr("samples/1_epoch_1.json", "{}")
            for name, data in members.items():
                out.writestr(name, data)
        return folder / "log.eval"

    return make


def saved(change: Callable[[Row], object]) -> Callable[[Path], Path]:
    """Rollout data of slime, changed."""

    def make(folder: Path) -> Path:
        import torch

        held = torch.load(DATA / "slime" / "rollout_data" / "0.pt", weights_only=True)
        change(held)
        torch.save(held, folder / "0.pt")
        return folder / "0.pt"

    return make


class RunsCode:
    """What would run a command if it were unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {tempfile.gettempdir()}/grpo-plan-ran",)


def deflated(folder: Path) -> Path:
    """Rollout data of slime whose members are compressed."""
    source = DATA / "slime" / "rollout_data" / "0.pt"
    with (
        zipfile.ZipFile(source) as held,
        zipfile.ZipFile(folder / "0.pt", "w", zipfile.ZIP_DEFLATED) as out,
    ):
        for info in held.infolist():
            out.writestr(info.filename, held.read(info))
    return folder / "0.pt"


def database(*statements: str) -> Callable[[Path], Path]:
    """A database."""

    def make(folder: Path) -> Path:
        base = sqlite3.connect(folder / "mlflow.db")
        for statement in statements:
            base.execute(statement)
        base.commit()
        base.close()
        return folder / "mlflow.db"

    return make


def looped(folder: Path) -> None:
    """A folder whose links lead to itself and nowhere."""
    os.symlink(folder, folder / "loop")
    os.symlink("self.jsonl", folder / "self.jsonl")
    os.symlink("nowhere.jsonl", folder / "4.jsonl")


def pipe(folder: Path) -> None:
    """A folder and a pipe that are named like the files beside them."""
    (folder / "4.jsonl").mkdir()
    os.mkfifo(folder / "5.jsonl")


def second_without(folder: Path) -> None:
    """Two files of results, one of them without any."""
    lines(folder / "1_eval_results.json", [{"eval": {"T/0": [{"base_status": "pass"}]}}])
    lines(folder / "2_eval_results.json", [{"eval": []}])


NAMED = "a\nb\x1b[31m[bold].jsonl"
MLFLOW = tuple(f"CREATE TABLE {name} (a)" for name in ("metrics", "params", "runs", "experiments"))
RATES = [{"problem": f"p{i}", "llama8b_solve_rate": (i % 65) / 64} for i in range(40)]
CASES = (
    Case(kind="empty file", format="any", make=text("1.jsonl", b"")),
    Case(kind="NUL bytes", format="any", make=text("1.jsonl", b'{"a": 1}\n\x00\x00')),
    Case(kind="UTF-16", format="any", make=text("1.jsonl", '{"a": 1}'.encode("utf-16"))),
    Case(kind="compressed data cut off", format="any", make=text("1.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99)[:-12])),
    Case(kind="line cut in the middle", format="JSON lines",
         make=lambda d: text("1.jsonl", b"".join(json.dumps(r).encode()[: 40 if i == 5 else None] + b"\n"
                                                 for i, r in enumerate(dump())))(d)),
    Case(kind="last line cut off while being written", format="JSON lines",
         make=lambda d: text("1.jsonl", "".join(json.dumps(r) + "\n" for r in dump()).encode()[:-30])(d)),
    Case(kind="a line that is a number", format="JSON lines",
         make=lambda d: lines(d / "1.jsonl", [*dump()[:5], 7, *dump()[5:]])),
    Case(kind="a line that is not UTF-8", format="JSON lines",
         make=lambda d: text("1.jsonl", lines(d / "1.jsonl", dump()).read_bytes() + b'{"input": "\xff"}\n')(d)),
    Case(kind="the same, with `--skip-malformed`", format="JSON lines", options={"skip_malformed": True},
         make=lambda d: text("1.jsonl", lines(d / "1.jsonl", dump()).read_bytes() + b'{"input": "\xff"}\n')(d)),
    Case(kind="nested 3,000 deep", format="JSON lines",
         make=lambda d: text("1.jsonl", b"".join(json.dumps(r).encode() + b"\n" for r in dump())
                             + b"[" * 3000 + b"]" * 3000 + b"\n")(d)),
    Case(kind="a line of 100,000 fields", format="any",
         make=lambda d: text("1.jsonl", b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}\n")(d)),
    Case(kind="reward is a list", format="verl", make=changed(score=[1])),
    Case(kind="reward is a word", format="verl", make=changed(score="good")),
    Case(kind="reward is an object", format="verl", make=changed(score={"value": 1})),
    Case(kind="reward of 400 digits", format="verl", make=changed(score=10**400)),
    Case(kind="reward is null", format="verl", make=changed(score=None)),
    Case(kind="reward is missing", format="verl", make=changed(score=...)),
    Case(kind="reward is NaN", format="verl", make=changed(score=float("nan"))),
    Case(kind="reward is infinite", format="verl", make=changed(score=float("inf"))),
    Case(kind="every reward is null", format="verl", make=of_all(score=None)),
    Case(kind="every reward is null, read as groups", format="verl", want="groups", make=of_all(score=None)),
    Case(kind="prompt is missing", format="verl", make=changed(input=...)),
    Case(kind="prompt is a list", format="verl", make=changed(input=["a"])),
    Case(kind="prompt with half of a surrogate pair", format="verl", make=changed(input="\ud800")),
    Case(kind="uid without underscores", format="verl", make=changed(uid="abc")),
    Case(kind="uid of 5,000 digits", format="verl", make=changed(uid=f"a_{'1' * 5000}_0")),
    Case(kind="step is negative", format="verl", make=changed(step=-1)),
    Case(kind="step beyond 64 bits", format="verl", make=changed(step=2**64)),
    Case(kind="step is a truth value", format="verl", make=changed(step=True)),
    Case(kind="step is 1.5", format="verl", make=changed(step=1.5)),
    Case(kind="one rollout a prompt", format="verl",
         make=lambda d: lines(d / "1.jsonl", [v1(p, 0, p % 2) for p in range(6)])),
    Case(kind="rows of two versions of verl", format="verl",
         make=lambda d: lines(d / "1.jsonl", [*dump()[:8], *({k: v for k, v in r.items() if k != "uid"} for r in dump()[8:])])),
    Case(kind="file name with line breaks and markup", format="verl",
         make=lambda d: lines(d / NAMED, dump({5: {"score": "good"}}))),
    Case(kind="the first of several files is binary", format="verl", make=good(text("1.jsonl", b"\x00\x01"))),
    Case(kind="a file of another name is binary", format="verl", make=good(text("validation.jsonl", b"\x00\x01"))),
    Case(kind="a file is empty", format="verl", make=good(text("1.jsonl", b""))),
    Case(kind="a file is a copy of another", format="verl",
         make=good(lambda d: (d / "9.jsonl").write_bytes((d / "2.jsonl").read_bytes()))),
    Case(kind="a file is of another format", format="verl",
         make=good(lambda d: (d / "4.jsonl").write_bytes((DATA / "human_eval/samples.jsonl_results.jsonl").read_bytes()))),
    Case(kind="a folder, and a pipe, named like the files", format="verl",
         make=good(pipe)),
    Case(kind="links in a circle, and to nowhere", format="verl", make=good(looped)),
    Case(kind="two formats in a folder", format="verl, human-eval",
         make=good(lambda d: (d / "samples.jsonl").write_bytes((DATA / "human_eval/samples.jsonl_results.jsonl").read_bytes()))),
    Case(kind="parquet cut off", format="TRL",
         make=copied("trl/binary/completions/completions_00001.parquet", lambda b: b[:-100])),
    Case(kind="a row is missing", format="TRL",
         make=table("trl/binary/completions/completions_00001.parquet", lambda f: f.head(15))),
    Case(kind="a reward column of text", format="TRL",
         make=table("trl/binary/completions/completions_00001.parquet", lambda f: f.cast({"correct": pl.String}))),
    Case(kind="rewards are infinite", format="TRL",
         make=table("trl/binary/completions/completions_00001.parquet",
                    lambda f: f.with_columns(pl.lit(float("inf")).alias("correct")))),
    Case(kind="one of two reward functions is null everywhere", format="TRL", options={"reward": "sometimes_none"},
         make=table("trl/none2/completions/completions_00001.parquet",
                    lambda f: f.with_columns(pl.lit(None).cast(pl.Float64).alias("sometimes_none")))),
    Case(kind="columns of unequal lengths in a line", format="ROLL",
         make=lambda d: lines(d / "r.jsonl", [{"global_step": [1, 1], "id": ["a", "a"], "prompt": ["p", "p"],
                                               "responses": ["x", "y"], "scores": [1.0]}])),
    Case(kind="a step inside a line is an object", format="ROLL",
         make=lambda d: lines(d / "r.jsonl", [{"global_step": [1, {}], "id": ["a", "a"], "prompt": ["p", "p"],
                                               "responses": ["x", "y"], "scores": [1.0, 0.0]}])),
    Case(kind="no column of rewards", format="ms-swift",
         make=lambda d: lines(d / "c.jsonl", [{"step": [1] * 4, "prompt": ["p"] * 4, "completion": list("abcd"),
                                               "advantages": [0.0] * 4}])),
    Case(kind="a group number is a text", format="tinker",
         make=lambda d: text("s.jsonl", (DATA / "tinker/run/iteration_000000/train_rollout_summaries.jsonl").read_bytes()
                             .replace(b'"group_idx": 3', b'"group_idx": "3"'))(d)),
    Case(kind="a score is an object", format="verifiers", options={"reward": "correct"},
         make=episodes(rewards={"correct": {"score": {}}, "short": {"score": 0.1}})),
    Case(kind="a weight is NaN", format="verifiers", make=episodes(rewards={"correct": {"score": 1.0, "weight": float("nan")}})),
    Case(kind="traces are a text", format="verifiers",
         make=lambda d: lines(d / "t.jsonl", [*(json.loads(line) for line in
                              (DATA / "verifiers/out/traces.jsonl").read_text().splitlines()),
                              {"id": "x", "task": {}, "ok": True, "env": {}, "traces": "none"}])),
    Case(kind="rollout data with code in it", format="slime",
         make=saved(lambda held: held["samples"][3].update(reward=RunsCode()))),
    Case(kind="compressed members, which may inflate without limit", format="slime", make=deflated),
    Case(kind="a reward is a tuple", format="slime", make=saved(lambda held: held["samples"][3].update(reward=(1, 2)))),
    Case(kind="a member that is no JSON", format="Inspect", make=archive({"summaries.json": b"[{"})),
    Case(kind="no header, no summaries", format="Inspect", make=archive({})),
    Case(kind="members with paths outside", format="Inspect", make=archive({"../../x.json": b"{}", "summaries.json": b"[]"})),
    Case(kind="archive cut off", format="Inspect",
         make=lambda d: text("log.eval", archive({"summaries.json": b"[]"})(d).read_bytes()[:-30])(d)),
    Case(kind="a second file without results", format="EvalPlus", make=second_without),
    Case(kind="a rate above 1", format="big-math",
         make=lambda d: lines(d / "d.jsonl", [{**r, "llama8b_solve_rate": 1.5} if i == 3 else r for i, r in enumerate(RATES)])),
    Case(kind="a rate of 10^-999,999,999", format="big-math",
         make=lambda d: lines(d / "d.jsonl", [{**r, "llama8b_solve_rate": "1e-999999999"} if i == 3 else r
                                              for i, r in enumerate(RATES)])),
    Case(kind="a fraction of 5,000 digits", format="polaris",
         make=lambda d: lines(d / "d.jsonl", [{"problem": f"p{i}", "difficulty": "1" * 5000 + "/8" if i == 3 else "3/8"}
                                              for i in range(9)])),
    Case(kind="a database with other tables", format="MLflow", want="run", make=database("CREATE TABLE t (a)")),
    Case(kind="tables with other columns", format="MLflow", want="run", make=database(*MLFLOW)),
    Case(kind="log_history is no list", format="trainer_state.json", want="run",
         make=lambda d: text("trainer_state.json", b'{"global_step": 3, "log_history": {}}')(d)),
    Case(kind="steps are texts", format="metrics", want="run",
         make=lambda d: lines(d / "log.jsonl", [{"step": "x", "reward": 0.5, "frac_reward_zero_std": 0.5}])),
    Case(kind="metrics are infinite", format="metrics", want="run",
         make=lambda d: lines(d / "log.jsonl", [{"step": i, "reward": float("inf") if i == 2 else 0.5} for i in (1, 2, 3)])),
)  # fmt: skip


def outcome(case: Case, folder: Path) -> str:
    """What a case gives, in one line: the message of its error, or what was read and left out."""
    source = case.make(folder) or folder
    try:
        found = READERS[case.want](source, **case.options)
    except GrpoPlanError as error:
        said = str(error)
    else:
        said = _read(found)
    said = said.replace(str(folder) + os.sep, "").replace(str(folder), "the folder")
    said = re.sub(r"/\S*grpo-plan-ran", "...", said)
    return re.sub(r"(cannot be (?:read|loaded)[^(]*|damaged Inspect archive )\(.*?\)\. Is", r"\1(...). Is", said)


def _read(found: Any) -> str:
    if isinstance(found, Pilot):
        said = f"{found.total_rollouts:,} rollouts of {found.prompts:,} prompts"
    elif isinstance(found, GroupLog):
        said = f"{found.groups:,} groups, {found.dead_groups:,} of them dead"
    else:
        said = f"{found.steps.size:,} steps, {len(found.metrics):,} metrics"
    left = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in found.dropped.items())
    notes = [note for note in found.notes if "left out" in note or "passed over" in note]
    return f"Read: {said}" + (f"; left out: {left}" if left else "") + "".join(f" ({note})" for note in notes)


def page() -> str:
    """docs/bad-inputs.md."""
    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            said = outcome(case, Path(folder))
        cell = said.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
        rows.append(f"| {case.kind} | {case.format} | {cell} |")
    head = (
        "# Bad inputs\n\nWhat was tried, and what each gives. An error is one line: where, which rule, what was found, what to "
        "do. What is left out is\ncounted under its reason (`pilot.dropped`); nothing is lost silently, no file is written "
        "to, and no code in a file is run. The table is\nwritten by `python -m tests.bad_inputs`, and a test compares it.\n\n"
        "Random changes are tried too: `tests/test_fuzz_formats.py` changes bytes, lines, values, columns and members of files "
        "of every format.\n\n| what is wrong | format | what happens |\n|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
