"""Rows of a table of metrics in any container, and the choice among several runs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile, as_path, open_sniffed
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import RunBuilder, flat
from grpo_plan.readers.tables import engine_errors

MAX_LOG_BYTES = 1 << 30
BACKUP = re.compile(r"(.+)\.pre_resume_(\d+)$")  # what a resumed run of tinker-cookbook keeps of its old log
T = TypeVar("T")


def rows_of(file: InputFile, request: ReadRequest, builder: RunBuilder) -> list[dict[str, Any]]:
    """Rows of a file, nested metrics joined by ``/``.

    Raises:
        PilotFormatError: It cannot be read, or a line in the middle is no JSON.
    """
    with open_sniffed(file) as sniffed:
        if sniffed.kind in ("parquet", "arrow", "arrow-stream"):
            import polars as pl

            read = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "arrow-stream": pl.read_ipc_stream}[sniffed.kind]
            with as_path(sniffed, file) as path, engine_errors(file.name, sniffed.kind):
                found: list[Any] = read(path).to_dicts()
        else:
            data = sniffed.stream.read(MAX_LOG_BYTES + 1)
            if len(data) > MAX_LOG_BYTES:
                raise PilotFormatError(f"{file.name}: is larger than 1 GB. Give the log of metrics, not of rollouts.")
            if request.progress is not None:
                request.progress(len(data))
            text = data.decode("utf-8-sig")
            if sniffed.kind == "csv":
                try:
                    found = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=sniffed.separator))
                except csv.Error as error:
                    raise PilotFormatError(f"{file.name}: cannot be read as CSV ({error}). Check its quotes.") from None
            else:
                found = json_values(text, file.name, request, builder)
    rows = [dict(flat({str(k): v for k, v in item.items()})) for item in found if isinstance(item, dict)]
    builder.dropped["rows_that_are_no_objects"] += len(found) - len(rows)
    return rows


def json_values(text: str, name: str, request: ReadRequest, builder: RunBuilder) -> list[Any]:
    """The items of one document, of an array, or of JSON lines; a last line cut off while being written is counted."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, list):
        return whole
    if isinstance(whole, dict):
        return [whole]
    values: list[Any] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == len(lines):
                builder.dropped["truncated_last_line"] += 1
            elif request.options.skip_malformed:
                builder.dropped["malformed_line"] += 1
            else:
                raise PilotFormatError(
                    f"{name}:{number}: is no JSON ({line[:40]!r}). Repair the line, or drop such lines with "
                    "--skip-malformed."
                ) from None
    return values


def chosen_runs(runs: Mapping[str, T], request: ReadRequest, where: str) -> list[tuple[str, T]]:
    """The runs that the user named, in that order, or the only one there is.

    Raises:
        PilotFormatError: There are several and none was named, or the one named is not there.
    """
    listing = ", ".join(list(runs)[:12]) + (", ..." if len(runs) > 12 else "")
    for name in request.runs:
        if name not in runs:
            raise PilotFormatError(f"{where}: holds no run {name!r}. It holds: {listing}.")
    if request.runs:
        return [(name, runs[name]) for name in request.runs]
    if len(runs) > 1:
        raise PilotFormatError(f"{where}: holds {len(runs):,} runs: {listing}. Name one of them with --run (run=).")
    return list(runs.items())


def run_names(paths: Sequence[Path]) -> list[str]:
    """Shortest names that tell paths apart: their last parts.

    >>> run_names([Path("a/x/log.jsonl"), Path("a/y/log.jsonl")])
    ['x/log.jsonl', 'y/log.jsonl']
    """
    deepest = max((len(path.parts) for path in paths), default=1)
    for depth in range(1, deepest + 1):
        names = [str(Path(*path.parts[-depth:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def place_of(files: Sequence[InputFile]) -> str:
    """Files for a message."""
    return files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1:,} more"


def by_run(files: Sequence[InputFile]) -> dict[str, list[InputFile]]:
    """Files by run: each its own, but backups of a log that a resume left go with it, the oldest first."""
    paths = [file.path or Path(file.name) for file in files]
    logs: dict[Path, list[tuple[int, InputFile]]] = {}
    for file, path in zip(files, paths, strict=True):
        match = BACKUP.fullmatch(path.name)
        log = path if match is None else path.with_name(match.group(1))
        logs.setdefault(log, []).append((MAX_LOG_BYTES if match is None else int(match.group(2)), file))
    names = run_names(list(logs))
    return {
        name: [file for _, file in sorted(held, key=lambda item: item[0])]
        for name, held in zip(names, logs.values(), strict=True)
    }
