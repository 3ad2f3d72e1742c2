"""Inspect (inspect_ai): logs of evaluations, ``.eval`` archives and ``.json`` documents."""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, open_sniffed
from grpo_plan.readers.formats._rows import MAX_DOCUMENT_BYTES, chosen_reward, summed
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import CUT, TEXT, RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import number_of, text_of, whole_of

START, HEADER, SUMMARIES, JOURNAL = "_journal/start.json", "header.json", "summaries.json", "_journal/summaries/"
GRADES = {"P": 0.5, "N": 0.0}  # partly right, and no answer; C and I are words of pass and fail
AT_LIMIT = frozenset({"max_tokens", "model_length"})


class _Choice(msgspec.Struct, gc=False):
    stop_reason: Any = None


class _Output(msgspec.Struct):
    choices: list[_Choice] | None = None


class _Sample(msgspec.Struct):
    """A sample in full, or its summary: fields of one name mean the same in both."""

    id: Any = None
    epoch: Any = None
    uuid: Any = None
    scores: dict[str, Any] | None = None
    error: Any = None
    limit: Any = None
    completed: Any = None
    invalidation: Any = None
    model_usage: dict[str, Any] | None = None
    output: _Output | None = None


class _Log(msgspec.Struct):
    eval: dict[str, Any] = {}
    plan: Any = None
    status: Any = None
    samples: list[_Sample] | None = None


class _ToldOutput(_Output):
    """An output with its text, which only the groups need; summaries lack both."""

    completion: Any = None


class _ToldSample(_Sample):
    output: _ToldOutput | None = None


class _ToldLog(_Log):
    samples: list[_ToldSample] | None = None  # type: ignore[assignment]


def _looks_like_archive(candidate: Candidate) -> bool:
    return candidate.kind == "zip" and candidate.has(START) and any(n.startswith("samples/") for n in candidate.columns)


def _looks_like_document(candidate: Candidate) -> bool:
    if candidate.kind not in ("json", "jsonl") or len(candidate.rows) != 1:
        return False
    row = candidate.rows[0]
    about = row.get("eval")
    return (
        isinstance(row.get("version"), int)
        and isinstance(row.get("status"), str)
        and isinstance(about, dict)
        and all(name in about for name in ("task", "model", "dataset", "config"))
    )


def _looks(candidate: Candidate) -> bool:
    return _looks_like_archive(candidate) or _looks_like_document(candidate)


@dataclass(slots=True, kw_only=True)
class _Reading:
    sink: RolloutSink
    seen: set[str] = field(default_factory=set)
    runs: list[str] = field(default_factory=list)


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    reading = _Reading(sink=sink)
    for file in files:
        _add(_log_of(file, _ToldLog if sink.details else _Log), file.name, reading)
    if len(reading.runs) > 1:
        sink.note(f"{len(reading.runs)} evaluations are pooled; keep one with --where run={reading.runs[0]}.")


def _add(log: _Log, name: str, reading: _Reading) -> None:
    """The samples of one evaluation, one row each."""
    sink, about = reading.sink, log.eval
    if log.samples is None:
        raise PilotFormatError(f"{name}: holds no samples. Evaluate with log_samples on.")
    if log.status != "success":
        sink.note(f"{name}: the evaluation ended with status {log.status}: only a part of its samples is there.")
    run = text_of(about.get("eval_id")) or text_of(about.get("run_id")) or name
    kept = [(i, sample) for i, sample in enumerate(log.samples) if _is_new(sample, reading)]
    samples = [sample for _, sample in kept]
    if not samples:
        return
    reading.runs.append(run)
    scores = [_flat(sample.scores) for sample in samples]
    weights = chosen_reward(_names(scores), sink, name)
    only = next(iter(weights)) if set(weights.values()) == {1.0} and len(weights) == 1 else None
    failed = [sample.error is not None for sample in samples]
    model, limit = text_of(about.get("model")), _generation(log, "max_tokens")
    tokens = [_output_tokens(sample, model) for sample in samples]
    ended = [_is_cut(sample, count, limit) for sample, count in zip(samples, tokens, strict=True)]
    cut = ended.count(True)
    columns: dict[str, Sequence[Any]] = {
        "prompt": [text_of(sample.id) for sample in samples],
        "group": [f"{run} {text_of(sample.id)}" for sample in samples],
        "reward": [
            None
            if bad
            else flat.get(only)
            if only is not None
            else summed(flat, weights, partial(_place, name, sample))
            for bad, flat, sample in zip(failed, scores, samples, strict=True)
        ],
        "stratum": [text_of(about.get("task"))] * len(samples),
        "policy": [model] * len(samples),
        "temperature": [number_of(_generation(log, "temperature"))] * len(samples),
        "response_tokens": tokens,
        "run": [run] * len(samples),
        "epoch": [sample.epoch for sample in samples],
    }
    if sink.details:
        columns |= {TEXT: [getattr(sample.output, "completion", None) for sample in samples], CUT: ended}
    if any(failed):
        sink.note(f"{name}: {sum(failed):,} of {len(samples):,} samples ended in an error; their scores do not count.")
    if cut:
        sink.note(f"{name}: {cut:,} of {len(samples):,} samples were cut off by a limit; they count as scored.")
    sink.add(columns, lambda i: _place(name, samples[i]), reward_name=" + ".join(weights))


def _place(name: str, sample: _Sample) -> str:
    return f"{name}, sample {text_of(sample.id)} epoch {text_of(sample.epoch)}"


def _is_new(sample: _Sample, reading: _Reading) -> bool:
    """Whether a sample counts: it is finished, was not invalidated, and no log read before holds it."""
    if sample.completed is False and sample.scores is None and sample.error is None:
        reading.sink.drop("unfinished_samples")
        return False
    if sample.invalidation is not None:
        reading.sink.drop("invalidated_samples")
        return False
    identity = text_of(sample.uuid)
    if identity is None:
        return True
    if identity in reading.seen:
        reading.sink.drop("duplicate_samples")
        return False
    reading.seen.add(identity)
    return True


def _flat(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    """Value of each scorer; a dict or list of values as ``scorer/key``."""
    out: dict[str, Any] = {}
    for name, score in (scores or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
        if parts is None:
            out[name] = GRADES.get(value, value) if isinstance(value, str) else value
        else:
            out |= {f"{name}/{key}": GRADES.get(v, v) if isinstance(v, str) else v for key, v in parts}
    return out


def _names(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """Scorers; one with several values counts by them, though a sample that it could not grade has none."""
    names = list(dict.fromkeys(name for flat in scores for name in flat))
    several = {name.rpartition("/")[0] for name in names}
    return [name for name in names if name not in several]


def _generation(log: _Log, name: str) -> Any:
    """A setting of generation: of the plan, else of the model."""
    config = log.plan.get("config") if isinstance(log.plan, dict) else None
    for place in (config, log.eval.get("model_generate_config")):
        if isinstance(place, dict) and place.get(name) is not None:
            return place[name]
    return None


def _output_tokens(sample: _Sample, model: str | None) -> Any:
    usage = (sample.model_usage or {}).get(model or "")
    return usage.get("output_tokens") if isinstance(usage, dict) else None


def _is_cut(sample: _Sample, tokens: Any, limit: Any) -> bool | None:
    """Whether a limit ended a sample. Summaries lack the reason to stop: the length tells, where a limit was set."""
    if sample.limit is not None:
        return True
    if sample.output is not None:
        return any(isinstance(c.stop_reason, str) and c.stop_reason in AT_LIMIT for c in sample.output.choices or [])
    most, used = number_of(limit), number_of(tokens)
    if most is None or used is None:
        return None if sample.error is None else False
    return used >= most


def _log_of(file: InputFile, kind: type[_Log]) -> _Log:
    try:
        if file.path is not None and _is_archive(file.path):
            return _from_archive(file.path, file.name)
        return _from_document(file, kind)
    except msgspec.ValidationError as error:
        raise PilotFormatError(f"{file.name}: is no Inspect log that can be read ({error}).") from None


def _is_archive(path: Path) -> bool:
    with path.open("rb") as raw:
        return raw.read(4) == b"PK\x03\x04"


def _from_document(file: InputFile, kind: type[_Log]) -> _Log:
    with open_sniffed(file) as sniffed:
        data = sniffed.stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise PilotFormatError(f"{file.name}: is one JSON document of more than 1 GB. Convert it to .eval.")
    return _decoded(data.removeprefix(BYTE_ORDER_MARK), kind, file.name)  # type: ignore[no-any-return]


def _from_archive(path: Path, name: str) -> _Log:
    """The header and the summaries; of an archive still being written what its journal holds."""
    if sys.version_info >= (3, 14):
        import zipfile

        from compression import zstd
    else:
        from backports import zstd  # type: ignore[no-redef,unused-ignore]
        from backports.zstd import zipfile  # type: ignore[no-redef,unused-ignore]

    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
            header = _member(archive, HEADER if HEADER in members else START, name)
            parts = [SUMMARIES] if SUMMARIES in members else _journal(members)
            if not parts:
                raise PilotFormatError(f"{name}: holds no summaries of its samples. Is it complete?")
            samples = [_member(archive, part, name) for part in parts]
    except PilotFormatError:
        raise
    except (zipfile.BadZipFile, zstd.ZstdError, zlib.error, struct.error, EOFError, OSError, LookupError, ValueError,
            RuntimeError) as error:  # fmt: skip
        raise PilotFormatError(f"{name}: is a damaged Inspect archive ({error}). Is it complete?") from None
    log: _Log = _decoded(header, _Log, name)
    log.samples = [sample for part in samples for sample in _decoded(part, list[_Sample], name)]
    log.status = log.status or "started"
    return log


def _member(archive: Any, member: str, name: str) -> bytes:
    """The bytes of a member, which may not inflate without limit."""
    data, told = b"", archive.getinfo(member).file_size
    if told <= MAX_DOCUMENT_BYTES:
        with archive.open(member) as stream:
            data = stream.read(MAX_DOCUMENT_BYTES + 1)  # it may hold more than it says
    if max(told, len(data)) > MAX_DOCUMENT_BYTES:
        raise PilotFormatError(f"{name}: its member {member} takes more than 1 GB. Is it an Inspect log?")
    return data


def _journal(members: set[str]) -> list[str]:
    numbers = {m: whole_of(m.removeprefix(JOURNAL).split(".")[0]) for m in members if m.startswith(JOURNAL)}
    return [m for _, m in sorted((number, m) for m, number in numbers.items() if number is not None)]


def _decoded(data: bytes, kind: Any, name: str) -> Any:
    """JSON as a structure; NaN and Infinity are allowed, as Inspect writes them."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(data), kind)
    except (ValueError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            raise
        raise PilotFormatError(f"{name}: cannot be read as JSON ({error}). Is it complete?") from None


FORMATS = (
    Format(
        name="inspect",
        tool="Inspect (inspect_ai)",
        files="<log_dir>/<date>_<task>_<id>.eval or .json",
        reads="scores of every sample and epoch, errors, limits, model, temperature, output tokens",
        evidence=Evidence.RAN,
        versions="0.3.285",
        limits=(
            "summaries in .eval do not say why an answer stopped: cut-off ones are known only where max_tokens was set",
            "scores that were reduced over epochs are not used",
        ),
        looks_like=_looks,
        pilot=_read,
    ),
)
