"""Bytes of a growing table to its rows: JSON lines or CSV, cut anywhere, with what a crash leaves in them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from grpo_plan.readers.files import BYTE_ORDER_MARK
from grpo_plan.readers.run_builder import flat

MAX_PENDING = 64 << 20  # of a line without an end
MAX_OPEN = 1 << 20  # of a quoted field of a CSV without an end
END = "\x1f\x1fend of the rows\x1f\x1f"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """How far the lines of a file were read.

    Attributes:
        kind: ``jsonl`` or ``csv``.
        separator: Of the columns of a CSV.
        header: Columns of a CSV, once its first line is there.
        pending: The line that is being written.
        taken: Whether it was taken already, being a whole row without its line break.
        carried: What the file before ended with, as long as it is open whether the first line here continues it.
        number: Lines read of the file.
        at_start: Whether no line of the file was read.
    """

    kind: str
    separator: str = ","
    header: tuple[str, ...] | None = None
    pending: bytes = b""
    taken: bool = False
    carried: bytes = b""
    number: int = 0
    at_start: bool = True

    def next_file(self) -> Lines:
        """The start of a file that goes on where the one before ended, maybe within a line."""
        carried = b"" if self.taken else self.carried + self.pending
        return replace(self, pending=b"", taken=False, carried=carried, number=0, at_start=True)


@dataclass(slots=True, kw_only=True)
class Parsed:
    """Rows of some bytes, in order; what is no row is counted, and the first such line is told.

    Attributes:
        rows: Flat rows.
        dropped: Lines that are no row: their reason, in order.
        damage: Where the first damaged line is and how it begins; None without one.
    """

    rows: list[Row] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    damage: tuple[int, str] | None = None

    def damaged(self, number: int, line: bytes) -> None:
        """Count a line that is no row."""
        self.dropped.append("malformed_line")
        if self.damage is None:
            self.damage = (number, line[:40].decode(errors="replace"))

    def value(self, value: object) -> None:
        """Take a row, if it is one."""
        if isinstance(value, dict):
            self.rows.append(dict(flat({str(k): v for k, v in value.items()})))
        else:
            self.dropped.append("rows_that_are_no_objects")


def feed(lines: Lines, data: bytes) -> tuple[Lines, Parsed]:
    r"""Take further bytes of the same file.

    >>> lines, first = feed(Lines(kind="jsonl"), b'{"step": 1, "reward": 0.5}\n{"step": 2, "re')
    >>> lines, then = feed(lines, b'ward": 0.25}\n')
    >>> first.rows, then.rows
    ([{'step': 1, 'reward': 0.5}], [{'step': 2, 'reward': 0.25}])
    """
    out = Parsed()
    whole, cut, rest = (lines.pending + data).rpartition(b"\n")
    if not cut:
        return replace(lines, pending=_bounded(lines, rest, out)), out
    if lines.kind == "csv":
        lines = _feed_csv(lines, whole, rest, out)
        return lines, out
    taken, number = lines.taken, lines.number
    for line in whole.split(b"\n"):
        number += 1
        if lines.at_start:
            line = line.removeprefix(BYTE_ORDER_MARK)
            if not line.strip():
                continue
            _first_line(lines.carried, number, line, out)
            lines = replace(lines, carried=b"", at_start=False)
        elif taken:
            _after_taken(number, line, out)
        else:
            _json_line(number, line, out)
        taken = False
    return replace(lines, pending=_bounded(lines, rest, out), taken=False, number=number), out


def finish(lines: Lines) -> tuple[Lines, Parsed]:
    """Take the line that has no line break yet, if it is a whole row; `Parsed.dropped` tells if it is not."""
    out = Parsed()
    rest = (lines.carried + lines.pending).strip(b"\0 \t\r\n").removeprefix(BYTE_ORDER_MARK)
    if lines.taken or not rest:
        return lines, out
    if lines.kind == "csv":
        row = _fields(rest, lines.separator)
        if lines.header is None or row is None or len(row) != len(lines.header):
            out.dropped.append("truncated_last_line")
            return lines, out
        _csv_row(lines.header, row, out)
    else:
        found, value = _value(rest)
        if not found:
            out.dropped.append("truncated_last_line")
            return lines, out
        out.value(value)
    return replace(lines, taken=True), out


def ends_whole(lines: Lines) -> bool:
    """Whether the line without a line break is an object to its closing brace: nothing can be missing in it."""
    rest = (lines.carried + lines.pending).strip(b"\0 \t\r\n")
    return lines.kind == "jsonl" and rest[-1:] == b"}" and isinstance(_value(rest)[1], dict)


def _bounded(lines: Lines, rest: bytes, out: Parsed) -> bytes:
    """A line being written, without null bytes at its start; one without an end is given up."""
    if rest[:1] == b"\0":
        rest = rest.lstrip(b"\0")
    if len(rest) <= MAX_PENDING:
        return rest
    out.damaged(lines.number + 1, rest)
    return b""


def _value(line: bytes) -> tuple[bool, object]:
    try:
        return True, json.loads(line.decode())
    except (ValueError, RecursionError):
        return False, None


def _json_line(number: int, line: bytes, out: Parsed) -> None:
    """One line; where a crash left null bytes in it, the parts between them."""
    if not line.strip():
        return
    found, value = _value(line)
    if found:
        out.value(value)
        return
    parts = [part for part in line.split(b"\0") if part.strip()] if b"\0" in line else [line]
    for part in parts:
        found, value = _value(part)
        if found and (isinstance(value, dict) or len(parts) == 1):
            out.value(value)
        else:
            out.damaged(number, part)


def _first_line(carried: bytes, number: int, line: bytes, out: Parsed) -> None:
    """The first line of a file, which may continue the last one of the file before."""
    if carried.strip(b"\0 \t\r\n"):
        whole, value = _value(carried.strip(b"\0 \t\r\n"))
        if whole:
            out.value(value)
        elif not isinstance(_value(line)[1], dict):
            joined, both = _value(carried + line)
            if joined:
                out.value(both)
                return
            out.dropped.append("truncated_last_line")
        else:
            out.dropped.append("truncated_last_line")
    _json_line(number, line, out)


def _after_taken(number: int, line: bytes, out: Parsed) -> None:
    """The end of a line that was taken as a whole row: nothing but another damaged row may have been added."""
    if not isinstance(_value(line.strip(b"\0 \t\r"))[1], dict):
        out.damaged(number, line)


def _feed_csv(lines: Lines, whole: bytes, rest: bytes, out: Parsed) -> Lines:
    block = whole + b"\n"
    if lines.at_start:
        block = block.removeprefix(BYTE_ORDER_MARK).lstrip(b"\0")
        block = _csv_start(lines, block, out)
    count, skip = lines.number, lines.taken
    at_start, header = lines.at_start, lines.header
    used = 0
    for record, raw, length in _records(block, lines.separator):
        count += length
        used += len(raw)
        if record is None:
            out.damaged(count, raw)
            continue
        if not record:
            continue
        if at_start:
            at_start = False
            if header is None or _is_header(record, header):
                header = tuple(record)
                continue
        if skip:
            skip = False
            continue
        _csv_row(header or (), record, out)
    left = block[used:] + rest
    if len(left) > MAX_OPEN and used < len(block):  # a quote that nothing closes
        line, _, left = left.partition(b"\n")
        out.damaged(count + 1, line)
        count += 1
    return replace(lines, header=header, pending=left, taken=False, carried=b"", number=count, at_start=at_start)


def _records(block: bytes, separator: str) -> Iterator[tuple[list[str] | None, bytes, int]]:
    """Records of whole lines, their bytes and the number of these lines; None for a damaged one.

    A record whose quotes are still open is left out with all after it.
    """
    lines = block.split(b"\n")[:-1]
    at = 0
    while at < len(lines):
        raw, length = lines[at] + b"\n", 1
        while True:
            closed = length == 1 or raw.count(b'"') % 2 == 0  # only then a further line can end the record
            state, record = _record(raw, separator) if closed else ("open", None)
            if state != "open" or at + length >= len(lines) or len(raw) > MAX_OPEN:
                break
            raw += lines[at + length] + b"\n"
            length += 1
        if state == "open":
            return
        yield record, raw, length
        at += length


def _record(raw: bytes, separator: str) -> tuple[str, list[str] | None]:
    try:
        text = raw.decode().strip("\0")
        if '"' not in text:
            return "whole", next(csv.reader([text.rstrip("\r\n")], delimiter=separator), [])
        found = list(csv.reader(io.StringIO(text + END + "\n", newline=""), delimiter=separator))
    except (csv.Error, UnicodeDecodeError):
        return "damaged", None
    return ("whole", found[0]) if found[-1] == [END] else ("open", None)


def _fields(line: bytes, separator: str) -> list[str] | None:
    state, record = _record(line + b"\n", separator)
    return record if state == "whole" else None


def _csv_start(lines: Lines, block: bytes, out: Parsed) -> bytes:
    """The lines of a file, with the end of the file before in front where its last record goes on in them."""
    rest = lines.carried.strip(b"\0\r\n")
    if not rest or lines.header is None:
        return block
    first = block.partition(b"\n")[0]
    before, alone, both = (_fields(raw, lines.separator) for raw in (rest, first, rest + first.rstrip(b"\r")))
    size = len(lines.header)
    if before is not None and len(before) == size and (not alone or len(alone) == size):
        _csv_row(lines.header, before, out)
        return block
    starts = alone is not None and len(alone) == size
    if (starts and _is_header(alone or [], lines.header)) or (starts and (both is None or len(both) != size)):
        out.dropped.append("truncated_last_line")
        return block
    return rest + block


def _is_header(record: list[str], header: tuple[str, ...]) -> bool:
    """Whether the first line of a file names columns: those known, or no number at all."""
    return tuple(record) == header or not any(_is_number(cell) for cell in record)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _csv_row(header: tuple[str, ...], record: list[str], out: Parsed) -> None:
    """A record as `csv.DictReader` gives it: short ones without their last values."""
    row: dict[str | None, Any] = dict(zip(header, record, strict=False))
    if len(record) > len(header):
        row[None] = record[len(header) :]
    for name in header[len(record) :]:
        row[name] = None
    out.value(row)
