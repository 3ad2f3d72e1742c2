"""JSON lines, streamed: only the fields that are needed are decoded, in blocks of bounded size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import Sample
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.malformed import fault_of, shown_bytes
from grpo_plan.readers.positions import is_utf8, positions
from grpo_plan.readers.rows import BATCH_ROWS as BATCH_ROWS
from grpo_plan.readers.rows import RowBatch as RowBatch
from grpo_plan.readers.rows import RowShape as RowShape
from grpo_plan.readers.rows import count_columns as count_columns
from grpo_plan.readers.rows import count_rows as count_rows
from grpo_plan.readers.rows import flatten_lists as flatten_lists
from grpo_plan.readers.rows import refuse_other_lengths as refuse_other_lengths
from grpo_plan.readers.rows import spread as spread
from grpo_plan.readers.values import from_plain

BLOCK_BYTES = 2 << 20
MAX_LINE_BYTES = 256 << 20
SAMPLE_ROWS = 500
WINDOW_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_FEED, RETURN, OPEN, CLOSE = b"\n\r{}"
Progress = Callable[[int], None]


class Overlong(bytes):
    """The start of a line that is too long to be held; ``size`` is the length of all of it."""

    size: int


def read_blocks(stream: BinaryIO, name: str, size: float = float("inf")) -> Iterator[bytes]:
    """The stream in blocks of whole lines, without a byte order mark; of the lines that start in its first bytes.

    A line of more than `MAX_LINE_BYTES` is read past, and comes as `Overlong`.
    """
    first = True
    while size > 0 and (block := stream.read(int(min(BLOCK_BYTES, size)))):
        excess = None
        if not block.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES)
            if len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
                cut = block.rfind(b"\n") + 1
                excess = Overlong(block[cut : cut + 80])
                excess.size = len(block) - cut + len(rest) + _rest_of_line(stream)
                block = block[:cut]
            else:
                block += rest
            del rest
        size -= len(block) + (0 if excess is None else excess.size)
        if block:
            yield block.removeprefix(BYTE_ORDER_MARK) if first else block
        if excess is not None:
            yield excess
        first = False


def _rest_of_line(stream: BinaryIO) -> int:
    """Read up to the next line, and say how many bytes that took."""
    size = 0
    while piece := stream.readline(BLOCK_BYTES):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def sample_of(text: bytes, name: str, path: Path | None = None) -> Sample:
    """Column names and values of the first rows, and of rows further on: a column may appear late.

    Raises:
        PilotFormatError: No row is a JSON object.
    """
    rows = _objects(text.split(b"\n", SAMPLE_ROWS)[:SAMPLE_ROWS])
    rows += _objects(text.rsplit(b"\n", SAMPLE_ROWS)[1:]) if text.count(b"\n") > 2 * SAMPLE_ROWS else []
    if not rows:
        raise _not_a_table(text, name)
    if path is not None and path.stat().st_size > len(text):
        rows += _later_objects(path)
    return sample_of_rows(rows, name)


def sample_of_rows(rows: Sequence[dict[str, Any]], name: str) -> Sample:
    """Columns of objects; what an object lacks is None."""
    columns = dict.fromkeys(key for row in rows for key in row)
    return Sample(name=name, columns={c: [row.get(c) for row in rows] for c in columns})


def _objects(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    values = (_loads(line) for line in lines if line.strip())
    return [value for value in values if isinstance(value, dict)]


def _later_objects(path: Path) -> list[dict[str, Any]]:
    """Rows from four windows further on: a column may appear late, or take another model's name there."""
    size, found = path.stat().st_size, []
    with path.open("rb") as file:
        for part in (0.25, 0.5, 0.75, 1.0):
            file.seek(max(0, int(size * part) - WINDOW_BYTES))
            found += _objects(file.read(WINDOW_BYTES).split(b"\n")[1:-1])
    return found


def read_json_lines(
    blocks: Iterable[bytes],
    name: str,
    shape: RowShape,
    options: ReadOptions,
    tally: Tally,
    *,
    path: Path | None = None,
    offset: int = 0,
    progress: Progress | None = None,
) -> Iterator[RowBatch]:
    """Batches of rows of a JSONL stream, which starts at ``offset`` of the file ``path``, if that can be read again.

    A last line without its end (a file still being written) is dropped and counted. Any other malformed line (no JSON,
    no object, not UTF-8, too long) is an error that names it, or dropped and counted as far as ``skip_malformed`` says.
    """
    decoder = msgspec.json.Decoder(shape.row_type)
    position = _Position(path=path, offset=offset, lines=0)
    for block in blocks:
        if isinstance(block, Overlong):
            why = f"is longer than {MAX_LINE_BYTES >> 20} MB ({shown_bytes(block)})"
            tally.skip(_line_namer(name, position, None), why, options, position.offset)
        elif (rows := _decoded(block, decoder)) is not None:
            yield RowBatch(rows=rows, place=_line_namer(name, position, None))
        else:
            rows, lines = _decode_each(block, decoder, name, position, options, tally)
            yield RowBatch(rows=rows, place=_line_namer(name, position, lines))
        position = position.after(block)
        if progress is not None:
            progress(block.size if isinstance(block, Overlong) else len(block))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """Where a block starts. Lines are counted when asked for if the file can be read again, else as blocks pass."""

    path: Path | None
    offset: int
    lines: int

    def after(self, block: bytes) -> _Position:
        if isinstance(block, Overlong):
            return _Position(path=self.path, offset=self.offset + block.size, lines=self.lines + 1)
        lines = self.lines + block.count(b"\n") if self.path is None else 0
        return _Position(path=self.path, offset=self.offset + len(block), lines=lines)

    def line(self) -> int:
        return self.lines + 1 if self.path is None else line_at(self.path, self.offset)


def line_at(path: Path, offset: int) -> int:
    """Number of the line that starts at a byte of a file; its line feeds are counted in blocks."""
    lines = 1
    with path.open("rb") as file:
        while offset > 0 and (piece := file.read(min(offset, BLOCK_BYTES))):
            lines, offset = lines + piece.count(b"\n"), offset - len(piece)
    return lines


def _decoded(block: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """Rows of a block, or None where not every line surely is one object.

    The decoder takes two objects on a line and one on two lines alike. Where each line feed stands between two objects,
    and there are as many objects as lines, each line is one. It also skips texts without a look at their encoding.
    """
    raw = np.frombuffer(block, np.uint8)
    ends = positions(raw, LINE_FEED)
    inner = ends[:-1] if ends.size and ends[-1] == raw.size - 1 else ends
    last = raw[inner - 1]
    if inner.size and not (np.all(raw[inner + 1] == OPEN) and (last == CLOSE).all()):
        if not (np.all(raw[inner + 1] == OPEN) and np.all((last == CLOSE) | (last == RETURN))):
            return None
        if not np.all(raw[inner[last == RETURN] - 2] == CLOSE):
            return None
    if not is_utf8(block):
        return None
    try:
        rows: list[Any] = decoder.decode_lines(block)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return rows if len(rows) == inner.size + 1 else None


def _decode_each(
    block: bytes,
    decoder: msgspec.json.Decoder[Any],
    name: str,
    position: _Position,
    options: ReadOptions,
    tally: Tally,
) -> tuple[list[Any], list[int]]:
    """Rows of a block line by line, and the line of each within the block."""
    rows, numbers = [], []
    lines = block.split(b"\n")
    start = 0
    for number, line in enumerate(lines):
        if line.strip():
            row = _decode_one(line, decoder)
            if row is not None:
                rows.append(row)
                numbers.append(number)
            elif number == len(lines) - 1 and not _is_json(line):  # no line end: cut off while being written
                tally.dropped["truncated_last_line"] += 1
            else:
                place = _line_namer(name, position, [number])
                tally.skip(place, fault_of(line, decoder), options, position.offset + start)
        start += len(line) + 1
    return rows, numbers


def _decode_one(line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any | None:
    try:
        if not line.isascii():
            line.decode()
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _loads(line)  # the json module also takes NaN and Infinity, which Python writes
        try:
            return from_plain(value, decoder.type) if isinstance(value, dict) else None
        except (msgspec.MsgspecError, RecursionError):
            return None


def _loads(line: bytes) -> Any | None:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode())
    except (ValueError, RecursionError):
        return False
    return True


def refuse_other_encoding(text: bytes, name: str) -> None:
    """One line where the first bytes are not UTF-8.

    Raises:
        PilotFormatError: They are not.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":  # what was read may end within a character
            raise PilotFormatError(
                f"{name}: is not UTF-8 text (byte {error.start + 1:,}). Convert it, e.g. with iconv -f LATIN1 -t UTF-8."
            ) from None


def _not_a_table(text: bytes, name: str) -> PilotFormatError:
    refuse_other_encoding(text, name)
    if text.lstrip()[:1] == b"{" and len(text.strip().split(b"\n")) > 1:
        return PilotFormatError(
            f"{name}: is one JSON object over several lines, not a table. Give one object a line (JSONL) or an array."
        )
    return PilotFormatError(f"{name}: holds no JSON object on its first lines. Give rows as objects with named fields.")


def _array_head(text: bytes) -> list[Any]:
    """First items of a JSON array, from its first bytes only."""
    decoder = json.JSONDecoder()
    body = text.decode(errors="ignore")
    start = body.find("[") + 1
    items: list[Any] = []
    while len(items) < SAMPLE_ROWS:
        while start < len(body) and body[start] in " \t\r\n,":
            start += 1
        try:
            item, start = decoder.raw_decode(body, start)
        except (ValueError, RecursionError):
            break
        items.append(item)
    return items


def _line_namer(name: str, position: _Position, lines: list[int] | None) -> Callable[..., str]:
    """Name of the line of a row: that of its number in the block, or of its own place in ``lines``."""

    def place(index: int = 0) -> str:
        return f"{name}:{position.line() + (index if lines is None else lines[index])}"

    return place
