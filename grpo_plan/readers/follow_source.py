"""What a path holds that is to be followed, and how: read on line by line, or read anew as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.discovery import Found
from grpo_plan.readers.files import BYTE_ORDER_MARK, HEAD_BYTES, ZSTD_MAGIC, InputFile, sniff
from grpo_plan.readers.formats.metrics import READ_AS, ROLLOUT_COLUMNS
from grpo_plan.readers.registry import TABLE, recognised
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_reader import discover_run, notes_of
from grpo_plan.readers.run_rows import by_run, chosen_runs, place_of
from grpo_plan.readers.step_groups import OPTIMISER, has_rollout_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A file of one row a line.

    Attributes:
        path: The file.
        kind: ``jsonl`` or ``csv``.
        separator: Of the columns of a CSV.
        format: Name of the format that the user named.
        before: Backup that a resumed run left of its log.
        notes: What else is there and is not read.
    """

    path: Path
    kind: str
    separator: str = ","
    format: str | None = None
    before: Path | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A source that is read as a whole; the format, once told, stays."""

    format: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Nothing to read yet, and why."""

    reason: str


def choose(path: Path, request: ReadRequest) -> Lines | Whole | Waiting:
    """How to follow a path.

    Raises:
        PilotFormatError: It cannot be told.
    """
    if path.is_file():
        if (early := _of_text(path, request.format)) is not None:
            return early
    elif not path.exists() and not any(sign in str(path) for sign in "*?["):
        return Waiting(reason=f"{path}: is not there.")
    found = discover_run(str(path), request)
    if found is None:
        return Whole(format=request.format)  # rollouts without metrics
    name = TABLE if found.format is None else found.format.name
    if name != TABLE and name not in READ_AS:
        return Whole(format=name)
    if name == TABLE and any(file.path is not None and _of_rollouts(file.path) for file in found.files):
        return Whole(format=None)
    return _lines_of(found, name, request)


def _lines_of(found: Found, name: str, request: ReadRequest) -> Lines | Whole | Waiting:
    """The file of the run that the user named, or the only one."""
    runs = chosen_runs(by_run(found.files), request, place_of(found.files))
    files = [file for _, held in runs for file in held]
    if len(runs) > 1 or files[-1].path is None or (path := files[-1].path) is None:
        return Whole(format=request.format)
    chosen = _of_text(path, request.format)
    if not isinstance(chosen, Lines):
        return Whole(format=None if name == TABLE else name) if chosen is None else chosen
    before = files[0].path if len(files) > 1 else None
    return replace(chosen, before=before, notes=notes_of(found))


def _of_text(path: Path, format: str | None) -> Lines | Waiting | None:
    """How to follow a file by its first bytes; None where it is no table of lines, or not one of metrics."""
    if format is not None and format not in READ_AS and format != TABLE:
        return None
    if format in (None, TABLE) and _of_rollouts(path):
        return None
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        return Waiting(reason=f"{path}: cannot be opened ({error.strerror or error}).")
    text = head.removeprefix(BYTE_ORDER_MARK).strip(b"\0 \t\r\n")
    if not text:
        return Waiting(reason=f"{path}: is empty.")
    if head.startswith((b"\x1f\x8b", ZSTD_MAGIC)):
        return None
    if text[:1] == b"{":
        return _of_objects(path, head, format)
    if b"\n" not in head.lstrip():
        try:
            kind = look(InputFile(name=str(path), path=path)).kind
        except PilotFormatError:
            kind = "csv"
        return None if kind != "csv" else Waiting(reason=f"{path}: holds no whole line yet.")
    if look(InputFile(name=str(path), path=path)).kind != "csv":
        return None
    return Lines(path=path, kind="csv", separator=sniff(head, str(path))[1], format=format)


def _of_rollouts(path: Path) -> bool:
    """Whether a table may hold rollouts: whether it does, all of its rows tell, so that it is read as a whole."""
    try:
        candidate = look(InputFile(name=str(path), path=path))
    except PilotFormatError:
        return False
    if has_rollout_columns(candidate.columns):
        return True
    rollouts = ROLLOUT_COLUMNS & set(candidate.columns) and not OPTIMISER & set(candidate.columns)
    return bool(rollouts) and recognised(candidate, "run") is None


def _of_objects(path: Path, head: bytes, format: str | None) -> Lines | Waiting | None:
    """JSON lines; or a document, to be read as a whole, which may be half written."""
    lines = [line.removeprefix(BYTE_ORDER_MARK).strip(b"\0 \t\r") for line in head.split(b"\n")]
    whole = [line for line in lines[:-1] if line]
    if not whole and not _is_object(lines[-1]):
        return Waiting(reason=f"{path}: holds no whole line yet.")
    rows = [line for line in head.split(b"\n") if line[:1] in (b"{", b"\0", BYTE_ORDER_MARK[:1])]
    if not any(_is_object(line.removeprefix(BYTE_ORDER_MARK).strip(b"\0 \t\r")) for line in rows):
        return None
    if format is None and b"\0" not in head:
        candidate = look(InputFile(name=str(path), path=path))
        run = recognised(candidate, "run")
        if (run is not None and run.name not in READ_AS) or (run is None and recognised(candidate, "pilot")):
            return None
    return Lines(path=path, kind="jsonl", format=format)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False
