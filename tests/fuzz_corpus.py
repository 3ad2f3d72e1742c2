"""Sources that the fuzz tests start from: small files of every format, held in memory, and how to read them."""

from __future__ import annotations

import io
import json
import lzma
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

from tests.conftest import ROOT

DATA = ROOT / "tests" / "data"
Files = dict[str, bytes]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source.

    Attributes:
        name: Of the format, with a word on the variant.
        files: Name in the folder to content.
        options: For `grpo_plan.read_pilot`.
        data: Files that hold rollouts; the others lie beside them.
        rows: Whether a line of a data file is a rollout (or a prompt with its counts).
        reward: Where a row keeps its reward; what is no reward there must be refused or counted.
        identity: Fields of a row that name its prompt, group or step.
        run: Whether it is a log of a run, for `grpo_plan.read_run`.
    """

    name: str
    files: Mapping[str, bytes]
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Sequence[str] = ()
    rows: bool = False
    reward: Path = ()
    identity: Sequence[str] = ()
    run: bool = False


def _files(folder: str, *names: str) -> Files:
    root = DATA / folder
    return {name: (root / name).read_bytes() for name in names}


def _of(
    name: str, folder: str, names: Sequence[str], beside: Sequence[str] = (), make: Callable[[Files], Files] = dict,
    **more: Any,
) -> Source:  # fmt: skip
    return Source(name=name, files=make(_files(folder, *names, *beside)), data=tuple(names), **more)


def _parquets(numbers: Sequence[int]) -> list[str]:
    return [f"completions/completions_{i:05d}.parquet" for i in numbers]


def _table() -> Source:
    """A table as W&B keeps it: two steps of two prompts, four rollouts each."""
    columns = ["step", "prompt", "completion", "correct", "advantage"]
    rows = [
        [step, f"question {p}", f"answer {step} {p} {i}", float((i + p) % 2), 1.0 - 2.0 * ((i + p + 1) % 2)]
        for step in (1, 2)
        for p in (0, 1)
        for i in range(4)
    ]
    files = {"media/table/completions_1_abc.table.json": json.dumps({"columns": columns, "data": rows}).encode()}
    return Source(name="trl, table of W&B", files=files, data=tuple(files))


def _lighteval() -> Source:
    rows = [
        {
            "doc": {"query": f"question {i}", "id": str(i), "task_name": "aime"},
            "model_response": {"text": ["x"] * 4},
            "metric": {"avg@n:n=4": i / 4},
        }
        for i in range(5)
    ]
    out = io.BytesIO()
    pl.DataFrame(rows).write_parquet(out)
    files = {"details/org/model/date/details_aime_2026-11-30T16-00-00.parquet": out.getvalue()}
    return Source(name="lighteval", files=files, data=tuple(files))


def _evalplus() -> Source:
    answers = [("pass", "pass"), ("pass", "fail"), ("fail", "fail"), ("timeout", None)]
    tasks = {f"T/{i}": [{"base_status": b, "plus_status": p, "solution": "x"} for b, p in answers] for i in range(3)}
    files = {f"{i}_eval_results.json": json.dumps({"date": str(i), "eval": tasks}).encode() for i in (1, 2)}
    return Source(name="evalplus", files=files, data=tuple(files), options={"reward": "plus_status"})


def _evalchemy() -> Source:
    examples = [
        {"problem": f"q{i}", "model_outputs": ["a", "b"], "model_answers": ["1", "2"], "correct": [True, i > 0]}
        for i in range(3)
    ]
    text = {"results": {"AIME24": {"examples": examples}}, "model_name": "m"}
    files = {f"results_{i}.json": json.dumps(text, indent=2 * i).encode() for i in (1, 2)}
    return Source(name="evalchemy", files=files, data=tuple(files))


def _events() -> Source:
    """An event file of TensorBoard: length, its checksum, the event, its checksum; a file begins with its version."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    events = [Event(wall_time=1.0, file_version="brain.Event:2")]
    for step in range(1, 6):
        values = [Summary.Value(tag=f"train/{n}", simple_value=step / 8) for n in ("reward", "frac_reward_zero_std")]
        events.append(Event(wall_time=1.0 + step, step=step, summary=Summary(value=values)))
    data = b""
    for event in events:
        text = event.SerializeToString()
        size = struct.pack("<Q", len(text))
        data += size + struct.pack("<I", masked_crc32c(size)) + text + struct.pack("<I", masked_crc32c(text))
    files = {"events.out.tfevents.1000000000.host.1.0": data}
    return Source(name="tensorboard", files=files, data=tuple(files), run=True)


def _step_logs() -> Source:
    steps = [{"step": i, "reward": 0.5, "zvf": 0.25, "gu": 0.75} for i in range(1, 6)]
    text = {"runs": [{"tag": "a", "group_size": 8, "step_log": steps}]}
    return Source(
        name="step-log", files={"summary.json": json.dumps(text, indent=1).encode()}, data=("summary.json",), run=True
    )  # fmt: skip


def _history() -> Source:
    rows = [
        {"_step": i, "_runtime": 1.0, "_timestamp": 2.0, "train/global_step": i, "train/reward": i / 8}
        for i in range(1, 8)
    ]
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return Source(name="wandb-history", files={"history.jsonl": text}, data=("history.jsonl",), run=True)


def _database() -> Source:
    data = lzma.decompress((DATA / "mlflow" / "mlflow.db.xz").read_bytes())
    return Source(name="mlflow", files={"mlflow.db": data}, data=("mlflow.db",), run=True)


def _plain(files: Files) -> Files:
    """Compressed files without their compression, and without the suffix of it."""
    import gzip

    return {n.removesuffix(".gz"): gzip.decompress(b) if n.endswith(".gz") else b for n, b in files.items()}


RATE_SETS = {
    "big-math": {}, "deepmath": {}, "guru": {"reward": "qwen2.5_7b_pass_rate"}, "intellect-2": {}, "intellect-3": {},
    "lime-difficulty": {}, "lime-solved": {}, "openmath-reasoning": {}, "polaris": {}, "skywork-or1": {},
    "synthetic-2": {},
}  # fmt: skip


def _rate_set(name: str, kind: str) -> Source:
    from grpo_plan.errors import PilotFormatError
    from grpo_plan.readers import read_pilot

    path = DATA / "solve_rates" / name / f"data.{kind}"
    options: dict[str, Any] = {}
    try:
        read_pilot(path)
    except PilotFormatError as error:  # of several models one must be chosen
        if "Choose one" in str(error):
            options = {"reward": str(error).partition("(")[2].partition(")")[0].split(", ")[0]}
    return Source(
        name=f"{name}, {kind}", files={path.name: path.read_bytes()}, options=options, data=(path.name,),
        rows=kind == "jsonl" and name != "deepmath",
    )  # fmt: skip


@cache
def sources() -> tuple[Source, ...]:
    """Every source."""
    inspect = "2026-11-30T16-08-37-00-00_toy-add-eval_J24VrpCAsbwkt6yUiE7i9Y.eval"
    document = "2026-11-30T16-08-39-00-00_toy-add-json_VGZ95xoLJqxkcwDcq7L7QC.json.gz"
    averages = "samples_toy_avg_2026-11-30T16-10-05.059435.jsonl"
    beside_lm_eval = "results_2026-11-30T16-10-05.059435.json"
    tinker = [f"iteration_{i:06d}/train_rollout_summaries.jsonl" for i in (0, 1, 11)]
    settings = ("run_config.json", "trainer_state.json")
    episode = {
        "rows": True,
        "reward": ("traces", 0, "rewards"),
        "identity": ("task", "traces"),
        "options": {"reward": "correct"},
    }
    listed = [
        _of("verl-v1", "verl/v1", ["1.jsonl", "2.jsonl", "3.jsonl"], rows=True, reward=("score",),
            identity=("input", "uid", "step")),
        _of("verl-legacy", "verl/legacy", ["1.jsonl", "2.jsonl"], rows=True, reward=("score",),
            identity=("input", "step"), options={"pass_threshold": 1.0}),
        _of("trl", "trl/binary", _parquets(range(1, 5)), settings),
        _of("trl, two rewards", "trl/none2", _parquets(range(1, 6)), settings, options={"reward": "format_reward", "pass_threshold": 0.5}),
        _of("trl, evaluation", "trl/batchstd", _parquets(range(1, 6)), settings, options={"pass_threshold": 0.5}),
        _table(),
        _of("ms-swift", "ms_swift", ["completions.jsonl"], ["logging.jsonl"]),
        _of("nemo-rl", "nemo_rl", ["train_data_step1.jsonl", "train_data_step2.jsonl"], rows=True,
            reward=("rewards",), identity=("idx", "token_ids"), options={"rollouts_per_prompt": 8}),
        _of("skyrl-eval", "skyrl/dumped_evals/global_step_5_evals", ["toy.jsonl"], ["aggregated_results.jsonl"],
            rows=True, reward=("score",), identity=("input_prompt",)),
        _of("roll", "roll", ["rollout_dump_data.step_1.jsonl"]),
        _of("tinker", "tinker/run", tinker, ["config.json", "metrics.jsonl"], rows=True, reward=("total_reward",),
            identity=("iteration", "group_idx"), options={"pass_threshold": 0.5}),
        _of("open-instruct", "open_instruct", ["toy_rollouts_000000.jsonl"], ["toy_metadata.jsonl"], rows=True,
            reward=("reward",), identity=("step", "prompt_idx", "prompt_tokens"), options={"pass_threshold": 10.0}),
        _of("slime", "slime/rollout_data", ["0.pt"]),
        _of("verifiers", "verifiers/out", ["traces.jsonl"], (), dict, **episode),
        _of("verifiers, prime-rl", "verifiers/rollouts/step_0/train", ["all/traces.jsonl"], ["effective/traces.jsonl"], dict, **episode),
        _of("verifiers-v0", "verifiers_v0", ["results.jsonl"], ["metadata.json"], rows=True, reward=("reward",),
            identity=("example_id",)),
        _of("inspect", "inspect_ai", [inspect], options={"reward": "match"}),
        _of("inspect, json", "inspect_ai", [document], options={"reward": "match"}),
        _of("lm-eval", "lm_eval/i82qcls7", [averages], [beside_lm_eval], rows=True, reward=("avg_at_8",),
            identity=("doc_hash",), options={"reward": "avg_at_8"}),
        _lighteval(),
        _of("human-eval", "human_eval", ["samples.jsonl_results.jsonl"], rows=True, reward=("passed",),
            identity=("task_id",)),
        _evalplus(),
        _evalchemy(),
    ]  # fmt: skip
    listed += [_rate_set(name, kind) for name in RATE_SETS for kind in ("jsonl", "parquet")]
    listed += [_rate_set(name, "csv") for name in ("lime-difficulty", "lime-solved")]
    logs = [
        _of("trainer-state", "trl/binary", ["trainer_state.json"], ["run_config.json"], run=True),
        _of("run of TRL", "trl/none2", ["trainer_state.json", *_parquets(range(1, 4))], ["run_config.json"], run=True),
        _of("run of tinker", "tinker/run", ["metrics.jsonl"], ["config.json", tinker[0]], run=True),
        _of("run of ms-swift", "ms_swift", ["logging.jsonl"], ["completions.jsonl"], run=True),
        _of("run of EasyR1", "easyr1", ["experiment_log.jsonl"], run=True),
        *(_of(f"run of prime-rl {v}", f"prime_rl/{v}", ["metrics.jsonl"], run=True) for v in ("v0.3", "v0.6", "v0.8")),
        _of("wandb-csv", "wandb_export", ["chart.csv"], run=True),
        _history(),
        _events(),
        _step_logs(),
        _database(),
    ]
    return tuple(listed + logs)
