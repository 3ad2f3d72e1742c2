"""The start of a file, decoded for the sniffers: what kind it is, its columns and its first rows."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, Sniffed, as_path, open_sniffed
from grpo_plan.readers.source import Candidate

PEEK_BYTES = 1 << 16
PEEK_ROWS = 50
MAX_DOCUMENT_BYTES = 1 << 30
MAX_LINE_BYTES = 256 << 20
MLFLOW_LINE = re.compile(rb"1\d{12} (nan|[-+]?[\d.]\S*) -?\d+\r?\n", re.IGNORECASE)  # milliseconds, value, step


def look(file: InputFile) -> Candidate:
    """What a file starts with.

    Raises:
        PilotFormatError: It cannot be opened, or is of no kind that any reader knows.
    """
    kind = _binary_kind(file)
    if kind is not None:
        return Candidate(file=file, kind=kind, columns=_members(file, kind))
    with open_sniffed(file) as sniffed:
        return look_at(sniffed, file)


def look_at(sniffed: Sniffed, file: InputFile) -> Candidate:
    """What an opened file starts with; the stream of standard input is left as it was, that of a file is used up."""
    if sniffed.kind in ("parquet", "arrow", "arrow-stream"):
        return Candidate(file=file, kind=sniffed.kind, columns=_schema(sniffed, file))
    if sniffed.kind == "csv":
        rows = _csv_rows(sniffed.head, sniffed.separator)
        return _of_rows(file, "csv", rows, list(rows[0]) if rows else [])
    if sniffed.kind == "json-array":
        return _of_rows(file, "json-array", _array_rows(sniffed.head))
    return _json(sniffed, file)


def _json(sniffed: Sniffed, file: InputFile) -> Candidate:
    """JSON lines, or one document; a line longer than the head is read in full where the file can be read again."""
    head = sniffed.head.removeprefix(BYTE_ORDER_MARK)
    again = file.path is not None and file.path.is_file()
    if again and b"\n" not in head.strip():
        line = sniffed.stream.readline(MAX_LINE_BYTES)
        head = line.removeprefix(BYTE_ORDER_MARK)
    rows = [row for line in head.split(b"\n")[:PEEK_ROWS] if (row := _object(line)) is not None]
    if rows and _object(head.lstrip().split(b"\n", 1)[0]) is not None:
        return _of_rows(file, "jsonl", rows)
    if again and head.lstrip()[:1] == b"{":
        with open_sniffed(file) as anew:
            document = _object(anew.stream.read(MAX_DOCUMENT_BYTES).removeprefix(BYTE_ORDER_MARK))
        if document is not None:
            return _of_rows(file, "json", [document])
    return _of_rows(file, "jsonl", rows)


def _of_rows(file: InputFile, kind: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Candidate:
    names = dict.fromkeys([*columns, *(key for row in rows for key in row)], "")
    return Candidate(file=file, kind=kind, rows=rows, columns=names)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _array_rows(head: bytes) -> list[dict[str, Any]]:
    from grpo_plan.readers.jsonlines import _array_head

    return [row for row in _array_head(head.removeprefix(BYTE_ORDER_MARK))[:PEEK_ROWS] if isinstance(row, dict)]


def _csv_rows(head: bytes, separator: str) -> list[dict[str, Any]]:
    text = head.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return [{str(k): v for k, v in row.items()} for row, _ in zip(reader, range(PEEK_ROWS), strict=False)]
    except csv.Error:
        return []


def _schema(sniffed: Sniffed, file: InputFile) -> dict[str, str]:
    import polars as pl

    with as_path(sniffed, file) as path:
        try:
            if sniffed.kind == "parquet":
                schema: Mapping[str, Any] = pl.read_parquet_schema(path)
            elif sniffed.kind == "arrow":
                schema = pl.read_ipc_schema(path)
            else:
                return {}
        except (pl.exceptions.PolarsError, OSError):
            return {}  # the reader of tables will say what is wrong
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            return {}
    return {name: str(kind) for name, kind in schema.items()}


def _binary_kind(file: InputFile) -> str | None:
    """Kind of a file that is neither text nor a table: by its first bytes; None for every other."""
    if file.path is None or not file.path.is_file():
        return None
    try:
        with file.path.open("rb") as raw:
            head = raw.read(64)
    except OSError as error:
        raise PilotFormatError(f"{file.name}: cannot be opened ({error.strerror}). Check its permissions.") from None
    if head.startswith(b"SQLite format 3\x00"):
        return "sqlite"
    if b"brain.Event:" in head:
        return "events"
    if head.startswith(b":W&B"):
        return "wandb"
    if MLFLOW_LINE.match(head):
        return "mlflow-metric"
    if head.startswith(b"PK\x03\x04"):
        names = _members(file, "zip")
        return "torch" if any(name.endswith("/data.pkl") for name in names) else "zip"
    return None


def _members(file: InputFile, kind: str) -> dict[str, str]:
    """Names of the members of an archive, or of the tables of a database."""
    path = file.path
    if path is None:
        return {}
    if kind in ("zip", "torch"):
        try:
            with zipfile.ZipFile(path) as archive:
                return dict.fromkeys(archive.namelist(), "")
        except Exception:  # on a damaged archive its reader raises what it likes
            raise PilotFormatError(f"{file.name}: is a damaged zip archive. Is it complete?") from None
    if kind == "sqlite":
        return dict.fromkeys(_tables(file), "")
    return {}


def damaged_text(data: bytes) -> str:
    """A text of a database, whose bytes may be damaged."""
    return data.decode(errors="replace")


def _tables(file: InputFile) -> list[str]:
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.path))}?mode=ro&immutable=1", uri=True)) as base:
            base.text_factory = damaged_text
            return [str(row[0]) for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except (sqlite3.Error, UnicodeError) as error:  # what SQLite says of it may hold damaged text
        raise PilotFormatError(
            f"{file.name}: cannot be read as an SQLite database ({error}). Is it complete?"
        ) from None
