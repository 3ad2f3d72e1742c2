"""verifiers 0 (one row a rollout): results of vf-eval, and the rollouts that prime-rl wrote up to 0.6."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import distinct, note_unequal_groups
from grpo_plan.readers.formats._rows import chosen_reward, json_rows, summed
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import judge
from grpo_plan.readers.values import number_of, text_of

MARKS = ("is_completed", "is_truncated", "stop_condition", "timing", "generation_ms")
STEP = re.compile(r"(?:^|/)step_(\d+)/[^/]*$")
TOTAL = "reward"
MAX_METADATA_BYTES = 16 << 20


class _Row(msgspec.Struct):
    example_id: Any = None
    task: Any = None
    env_name: Any = None
    reward: Any = None
    metrics: Any = None
    error: Any = None
    is_truncated: Any = None
    token_usage: Any = None


class _Told(_Row):
    """A row with its response, which only the groups need."""

    completion: Any = None


def _looks(candidate: Candidate) -> bool:
    return (
        candidate.kind == "jsonl"
        and candidate.every_row_has("example_id", "reward", "completion")
        and all(any(mark in row for mark in MARKS) for row in candidate.rows)
    )


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    files = distinct(files, sink, _step_of)
    trained = any(_step_of(file) is not None for file in files)
    sink.groups_apart = trained
    for file in files:
        _read_file(file, sink)
    if trained:
        note_unequal_groups(sink)
        judge(sink, "a filter (online_difficulty_filtering of the buffer, or another)")


def _read_file(file: InputFile, sink: RolloutSink) -> None:
    about = _metadata(file)
    sampling = about.get("sampling_args")
    temperature = sampling.get("temperature") if isinstance(sampling, dict) else None
    step, name = _step_of(file), "" if file.path is None else file.path.name
    split = None if step is None else ("eval" if name.startswith("eval_") else "train")
    run = "" if file.path is None else str(file.path.parent)
    errors = cut = total = 0
    for batch in json_rows(file, _Told if sink.details else _Row, sink):
        rows: Sequence[Any] = batch.rows
        if not rows:
            continue
        total += len(rows)
        errors += sum(row.error not in (None, "", False) for row in rows)
        cut += sum(row.is_truncated is True for row in rows)
        envs = [text_of(row.env_name) or text_of(row.task) or text_of(about.get("env_id")) for row in rows]
        keys = [None if row.example_id is None else f"{env or ''} {text_of(row.example_id)}".strip()
                for row, env in zip(rows, envs, strict=True)]  # fmt: skip
        weights = _chosen(rows, sink, file.name)
        columns: dict[str, Sequence[Any]] = {
            "prompt": keys,
            "group": [f"{run} {key}" for key in keys],
            "reward": [_reward(row, weights, partial(batch.place, i)) for i, row in enumerate(rows)],
            "stratum": envs,
            "policy": [about.get("model")] * len(rows),
            "temperature": [number_of(temperature)] * len(rows),
            "response_tokens": [_tokens(row.token_usage) for row in rows],
            "truncated": [row.is_truncated is True for row in rows],
        }
        if sink.details:
            columns[TEXT] = [row.completion for row in rows]
            columns[CUT] = [row.is_truncated if isinstance(row.is_truncated, bool) else None for row in rows]
        if step is not None:
            columns |= {"step": [step] * len(rows), "split": [split] * len(rows)}
        sink.add(columns, batch.place, reward_name=" + ".join(weights) if weights else TOTAL)
    if errors:
        sink.note(f"{file.name}: {errors:,} of {total:,} rollouts ended in an error (their reward of 0 is not one).")
    if cut:
        sink.note(f"{file.name}: {cut:,} of {total:,} rollouts were cut off by a limit; they count as scored.")
    wanted = number_of(about.get("rollouts_per_example"))
    if wanted is not None:
        sink.note(f"{file.name}: metadata.json gives {wanted:g} rollouts per example.")


def _chosen(rows: Sequence[_Row], sink: RolloutSink, where: str) -> Mapping[str, float]:
    """The metrics that the user named; empty for the reward itself."""
    request = sink.request
    named = request.given.get("reward")
    if not request.reward_weights and named in (None, TOTAL):
        return {}
    names = dict.fromkeys(name for row in rows if isinstance(row.metrics, dict) for name in row.metrics)
    return chosen_reward([TOTAL, *names], sink, where)


def _reward(row: _Row, weights: Mapping[str, float], where: Callable[[], str]) -> Any:
    """The reward; None where the rollout ended in an error, whatever its reward says."""
    if row.error not in (None, "", False):
        return None
    if not weights:
        return row.reward
    metrics = row.metrics if isinstance(row.metrics, dict) else {}
    return summed({TOTAL: row.reward, **metrics}, weights, where)


def _tokens(usage: Any) -> Any:
    return usage.get("output_tokens", usage.get("completion_tokens")) if isinstance(usage, dict) else None


def _step_of(file: InputFile) -> int | None:
    found = None if file.path is None else STEP.search(file.path.as_posix())
    return None if found is None else int(found.group(1))


def _metadata(file: InputFile) -> dict[str, Any]:
    """The metadata.json beside the results; empty if there is none that can be read."""
    path: Path | None = None if file.path is None else file.path.parent / "metadata.json"
    if path is None or not path.is_file() or path.stat().st_size > MAX_METADATA_BYTES:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


FORMATS = (
    Format(
        name="verifiers-v0",
        tool="verifiers 0 (vf-eval) and prime-rl up to 0.6",
        files="results.jsonl (with metadata.json), rollouts/step_<N>/{train_rollouts,eval_rollouts_<env>}.jsonl",
        reads="reward (or a metric), example_id, task, error, truncation; model and temperature from metadata.json",
        evidence=Evidence.SOURCE,
        versions="verifiers 0.1.10 to 0.3.1, prime-rl 0.3 to 0.6",
        limits=(
            "rows hold no step or split: prime-rl's come from the names of folder and file",
            "a buffer that filters by difficulty leaves dead groups out; that is told from the groups themselves",
        ),
        looks_like=_looks,
        pilot=_read,
    ),
)
