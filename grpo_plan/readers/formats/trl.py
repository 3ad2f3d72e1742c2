"""TRL's GRPOTrainer, and what builds on it (Unsloth, Axolotl): completions as parquet, and as tables of W&B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.discovery import natural
from grpo_plan.readers.files import InputFile, as_path, open_sniffed
from grpo_plan.readers.formats._log_reader import add_runs
from grpo_plan.readers.formats._logged import (
    LoggedBatch,
    LoggedRun,
    Names,
    asked_columns,
    batches_of_frame,
    frame_of_lists,
    rewards_asked,
)
from grpo_plan.readers.formats._rows import document
from grpo_plan.readers.formats._run_facts import facts_of
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.tables import engine_errors
from grpo_plan.readers.values import shown

FIRST = ["step", "prompt", "completion"]
LAST = "advantage"
BUILT_IN = frozenset({"step", "prompt", "split", "reward", "group"})  # what every row has for a filter
TABLE_FILE = "completions_*.table.json"


def _is_table(candidate: Candidate) -> bool:
    """A parquet file of completions, or such a table as W&B keeps it."""
    if candidate.kind == "parquet":
        columns = list(candidate.columns)
        whole = candidate.columns.get("step") in ("Int64", "Null")
        return whole and columns[:3] == FIRST and LAST in columns[3:] and _is_prompt(candidate.columns["prompt"])
    if candidate.kind not in ("json", "jsonl") or len(candidate.rows) != 1:
        return False
    row = candidate.rows[0]
    names = row.get("columns")
    return isinstance(names, list) and isinstance(row.get("data"), list) and names[:3] == FIRST and LAST in names[3:]


def _is_prompt(kind: str) -> bool:
    return kind in ("String", "Null") or (kind.startswith("List(Struct(") and "'role'" in kind)


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Tables of each run in order of step; what lies beside them tells of rewards, evaluation and group size."""
    names: Names = {}
    runs: dict[tuple[Path | None, bool], LoggedRun] = {}
    empty: list[str] = []
    for file in sorted(files, key=lambda f: natural(f.name)):
        batches, appended = _batches(file, request, sink, names)
        root = _root(file)
        if (root, appended) not in runs:
            name = file.name if len(files) == 1 or root is None else str(root)
            runs[root, appended] = LoggedRun(name=name, facts=facts_of(root, sink), appended=appended)
        runs[root, appended].batches.extend(batches)
        if not batches:
            empty.append(file.name)
        if request.progress is not None and file.path is not None:
            request.progress(file.path.stat().st_size)
    if len(empty) == len(files):
        raise PilotFormatError(
            f"{empty[0] if empty else 'no file'}: holds no rollout. A data set of fewer prompts than a generation "
            "batch takes trains 0 steps and leaves an empty table."
        )
    if empty:
        sink.note(f"{len(empty)} of {len(files)} files hold no rows (first: {empty[0]}).")
    for run in runs.values():
        run.batches.sort(key=lambda b: -1 if b.step is None else b.step)  # stable: tables of a step keep their order
    add_runs(sorted(runs.values(), key=lambda run: run.appended), names, sink)


def _root(file: InputFile) -> Path | None:
    """The folder of the run that a file belongs to; None for standard input."""
    if file.path is None or file.name == "standard input":
        return None
    folder = file.path.parent
    if folder.name == "table" and folder.parent.name == "media":
        return folder.parent.parent
    return folder.parent if folder.name == "completions" else folder


def _batches(file: InputFile, request: ReadRequest, sink: RolloutSink, names: Names) -> tuple[list[LoggedBatch], bool]:
    """The tables of a file, and whether it is one that later ones stand beside (W&B)."""
    with open_sniffed(file) as sniffed:
        if sniffed.kind == "parquet":
            with as_path(sniffed, file) as path, engine_errors(file.name, "parquet"):
                return _parquet(path, file.name, sink, names), False
        if sniffed.kind != "jsonl":
            raise PilotFormatError(f"{file.name}: is no completions table of TRL (parquet, or {TABLE_FILE} of W&B).")
    return _table(file, sink, names), True


def _parquet(path: Path, name: str, sink: RolloutSink, names: Names) -> list[LoggedBatch]:
    """Only the columns needed: completions are hashed by the engine and not decoded."""
    import polars as pl

    schema = pl.read_parquet_schema(path)
    _check(list(schema), name)
    rest = {c: kind for c, kind in schema.items() if c not in (*FIRST, LAST)}
    rewards = [c for c, kind in rest.items() if kind in (pl.Float64, pl.Float32)]
    rewards = rewards or [c for c, kind in rest.items() if kind.is_integer() or kind == pl.Null]  # by another writer
    rewards += [c for c in rewards_asked(sink) if c in schema and c not in rewards and schema[c].is_numeric()]
    if not schema["step"].is_integer() and schema["step"] != pl.Null:
        raise PilotFormatError(f"{name}: step is {schema['step']}, not a whole number. Is this a table of TRL?")
    asked = _asked(sink, list(schema), name)
    needed = list(dict.fromkeys([*FIRST, *rewards, *([LAST] if LAST in schema else []), *asked]))
    frame = pl.scan_parquet(path, glob=False).select(needed).collect()
    values = {c: frame[c].to_list() for c in asked}
    return batches_of_frame(frame, rewards, values, name, _rows_of(name), names, details=sink.details)


def _table(file: InputFile, sink: RolloutSink, names: Names) -> list[LoggedBatch]:
    """A table of W&B: names of the columns, and rows as lists; null and NaN stand for failed scoring."""
    content = document(file)
    columns, data = (content.get("columns"), content.get("data")) if isinstance(content, dict) else (None, None)
    if not isinstance(columns, list) or not isinstance(data, list):
        raise PilotFormatError(f"{file.name}: is no table of W&B (columns and data). Is it complete?")
    columns = [str(c) for c in columns]
    _check(columns, file.name)
    place = _rows_of(file.name)
    for i, row in enumerate(data):
        if not isinstance(row, list) or len(row) != len(columns):
            found = f"{len(row)} values" if isinstance(row, list) else shown([row])
            raise PilotFormatError(f"{place(i)}: a row has {found} for {len(columns)} columns. Is the file damaged?")
    if not data:
        return []
    lists: dict[str, list[Any]] = {c: [row[i] for row in data] for i, c in enumerate(columns)}
    rest = [c for c in columns if c not in (*FIRST, LAST)]
    rewards = [c for c in rest if _is_numbers(lists[c], float)] or [c for c in rest if _is_numbers(lists[c], int)]
    rewards += [c for c in rest if c in rewards_asked(sink) and c not in rewards]
    values = {c: lists[c] for c in _asked(sink, columns, file.name)}
    frame = frame_of_lists(lists, rewards, place)
    return batches_of_frame(frame, rewards, values, file.name, place, names, details=sink.details)


def _is_numbers(values: Sequence[Any], kind: type) -> bool:
    """Whether a column holds numbers of a kind and nothing else, missing ones aside (rewards are written as floats)."""
    return all(v is None or (type(v) in (kind, float)) for v in values)


def _check(columns: Sequence[str], name: str) -> None:
    for column in FIRST:
        if column not in columns:
            raise PilotFormatError(
                f"{name}: no column {column!r}. Columns: {shown(columns)}. Is this a completions table of TRL?"
            )


def _asked(sink: RolloutSink, columns: Sequence[str], name: str) -> list[str]:
    asked = [c for c in asked_columns(sink) if c not in BUILT_IN]
    for column in asked:
        if column not in columns:
            raise PilotFormatError(
                f"{name}: no column {column!r}. Columns: {shown(columns, 20)}.{did_you_mean(column, columns)}"
            )
    return asked


def _rows_of(name: str) -> Callable[[int], str]:
    return lambda row: f"{name}, row {row + 1:,}"


FORMATS = (
    Format(
        name="trl",
        tool="TRL GRPOTrainer, Unsloth, Axolotl",
        files="<output_dir>/completions/completions_<step>.parquet, W&B media/table/completions_*.table.json",
        reads="reward functions by prompt and group (runs of G rows), step, evaluation apart; repeated batches once",
        evidence=Evidence.RAN,
        versions="TRL 1.16.0; Unsloth 2026.10.9 and Axolotl 0.21.0 write TRL's files (read in source)",
        limits=(
            "needs log_completions=True",
            "only the last generation batch before each log is on disk: set logging_steps=1",
            "evaluation overwrites the rollouts of training of its step, told apart by trainer_state.json",
            "reward functions are told from log_extra columns by trainer_state.json, else by their advantages",
            "the group size is not in the file: from settings beside it (run_config.json, training_args.json, "
            "args.json, config.yaml of W&B), else from equal prompts",
            "truncation and response lengths are not in the file",
        ),
        looks_like=_is_table,
        pilot=_read,
    ),
)
