"""ms-swift: completions.jsonl, one generation batch a line, every column a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, open_sniffed
from grpo_plan.readers.formats._log_reader import add_runs
from grpo_plan.readers.formats._logged import (
    LoggedRun,
    Names,
    asked_columns,
    batches_of_frame,
    frame_of_lists,
    rewards_asked,
)
from grpo_plan.readers.formats._run_facts import facts_of
from grpo_plan.readers.jsonlines import MAX_LINE_BYTES, RowShape, read_blocks, read_json_lines
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.survivors import RARE, at_most, chance_of_no_dead_rewards
from grpo_plan.readers.values import shown

FIRST = ["step", "prompt", "completion"]
LAST = "advantages"
BUILT_IN = frozenset({"step", "prompt", "split", "reward", "group"})


def _is_completions(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has(*FIRST, LAST):
        return False
    return all(isinstance(row[name], list) for row in candidate.rows for name in (*FIRST, LAST))


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Lines of each run in their order; a later line of a step is evaluation."""
    names: Names = {}
    runs: dict[Path | None, LoggedRun] = {}
    for file in files:
        root = None if file.path is None or file.name == "standard input" else file.path.parent
        if root not in runs:
            name = file.name if len(files) == 1 or root is None else str(root)
            runs[root] = LoggedRun(name=name, facts=facts_of(root, sink), appended=True)
        _read_lines(file, runs[root], names, sink)
    if not any(run.batches for run in runs.values()):
        raise PilotFormatError(f"{files[0].name}: holds no rollout.")
    add_runs(list(runs.values()), names, sink, filtered=_filtered)


def _read_lines(file: InputFile, run: LoggedRun, names: Names, sink: RolloutSink) -> None:
    columns = _columns(file)
    for column in (*FIRST, LAST):
        if column not in columns:
            raise PilotFormatError(
                f"{file.name}: no column {column!r}. Columns: {shown(columns)}. Is this of ms-swift?"
            )
    between = columns[columns.index("completion") + 1 : columns.index(LAST)]
    run.rewards += [c for c in between if c not in run.rewards]
    extra = [c for c in columns if c in rewards_asked(sink) | set(run.facts.rewards)]
    rewards = list(dict.fromkeys([*between, *extra]))
    asked = [c for c in asked_columns(sink) if c not in BUILT_IN]
    for column in asked:
        if column not in columns:
            raise PilotFormatError(
                f"{file.name}: no column {column!r}. Columns: {shown(columns, 20)}.{did_you_mean(column, columns)}"
            )
    needed = list(dict.fromkeys([*FIRST, *rewards, LAST, *asked]))
    shape, empty = RowShape.of(needed), 0
    with open_sniffed(file) as sniffed:
        if sniffed.kind != "jsonl":
            raise PilotFormatError(f"{file.name}: is no JSON lines file. Name its format with --format.")
        blocks, options = read_blocks(sniffed.stream, file.name), sink.request.options
        path = None if sniffed.compressed else file.path
        progress = sink.request.progress
        for batch in read_json_lines(blocks, file.name, shape, options, sink.tally, path=path, progress=progress):
            for i, row in enumerate(batch.rows):
                lists = {c: getattr(row, shape.field_of[c]) for c in needed}
                place = _items_of(batch.place, i)
                if not _size(lists, lambda at=i, b=batch: b.place(at)):  # type: ignore[misc]
                    empty += 1
                    continue
                lists["advantage"] = lists[LAST]
                frame = frame_of_lists(lists, rewards, place)
                values = {c: lists[c] for c in asked}
                run.batches += batches_of_frame(frame, rewards, values, file.name, place, names, details=sink.details)
    if empty:
        sink.note(f"{file.name}: {empty} {'line holds' if empty == 1 else 'lines hold'} no rollouts.")


def _columns(file: InputFile) -> list[str]:
    """Columns of the first line that is an object, in its order."""
    with open_sniffed(file) as sniffed:
        while line := sniffed.stream.readline(MAX_LINE_BYTES):
            try:
                row = json.loads(line.removeprefix(BYTE_ORDER_MARK))
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                return list(row)
    return []


def _size(lists: Mapping[str, Any], place: Callable[[], str]) -> int:
    """Rows of a line.

    Raises:
        PilotFormatError: A column is no list, or the lists differ in length.
    """
    for column, values in lists.items():
        if not isinstance(values, list):
            raise PilotFormatError(f"{place()}: {column} must be a list of one value a rollout; got {shown([values])}.")
    rows = len(lists["prompt"])
    for column, values in lists.items():
        if len(values) != rows:
            raise PilotFormatError(
                f"{place()}: {column} has {len(values):,} values for {rows:,} prompts. Is the line complete?"
            )
    return rows


def _items_of(place: Callable[[int], str], line: int) -> Callable[[int], str]:
    return lambda item: f"{place(line)}, item {item + 1:,}"


def _filtered(run: LoggedRun, groups: Sequence[NDArray[np.float64]]) -> str | None:
    """Why dead groups are missing: by the settings, else by the data."""
    setting = run.facts.config.get("dynamic_sample")
    if setting is not None:
        return f"dynamic_sample of {run.facts.config_file}: dead groups were sampled again" if setting else None
    chance = chance_of_no_dead_rewards(groups)
    if chance is None or chance > RARE:
        return None
    return (
        f"no group of {len(groups)} is dead, which has a chance of at most {at_most(chance)} if all are kept: "
        "dynamic_sample leaves survivors only"
    )


FORMATS = (
    Format(
        name="ms-swift",
        tool="ms-swift GRPO",
        files="<output_dir>/completions.jsonl",
        reads="reward functions by prompt and group (runs of G items), step; a second line of a step is evaluation",
        evidence=Evidence.SOURCE,
        versions="4.6.0",
        limits=(
            "needs log_completions",
            "only the last generation batch before each log is in the file",
            "the group size is from args.json, else from equal prompts",
            "with dynamic_sample dead groups are missing: known from args.json, else only suspected",
            "truncation and response lengths are not in the file",
        ),
        looks_like=_is_completions,
        pilot=_read,
    ),
)
