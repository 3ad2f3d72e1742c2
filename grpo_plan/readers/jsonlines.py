"""JSON lines and JSON arrays, streamed: only the fields that are needed are decoded, in blocks of bounded size."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import ColumnMap, Sample
from grpo_plan.readers.counting import ReadOptions, Tally, long_cells, nonzero
from grpo_plan.readers.histograms import take_counts
from grpo_plan.readers.malformed import malformed
from grpo_plan.readers.values import from_plain, is_missing, list_of, matches

BLOCK_BYTES = 2 << 20
MAX_LINE_BYTES = 256 << 20
MAX_INFLATED_BYTES = 1 << 30
SAMPLE_ROWS = 500
BATCH_ROWS = 200_000
ARRAY_HEAD_BYTES = 1 << 20
WINDOW_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Progress = Callable[[int], None]


@dataclass(slots=True, kw_only=True)
class RowBatch:
    """Decoded rows, and how to name the place of one of them."""

    rows: Sequence[Any]
    place: Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The struct that rows are decoded into: one field a needed column."""

    row_type: type[Any]
    field_of: Mapping[str, str]

    @classmethod
    def of(cls, columns: Sequence[str]) -> RowShape:
        """A struct of these columns, every one optional."""
        names = {column: f"c{i}" for i, column in enumerate(dict.fromkeys(columns))}
        row = msgspec.defstruct(
            "Row", [(f, Any, None) for f in names.values()], rename={f: c for c, f in names.items()}, gc=False
        )
        return cls(row_type=row, field_of=names)

    def values(self, rows: Sequence[Any], column: str) -> list[Any]:
        """One column of the rows."""
        name = self.field_of[column]
        return [getattr(row, name) for row in rows]


def read_blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The stream in blocks of whole lines, without a byte order mark."""
    first = True
    while block := stream.read(BLOCK_BYTES):
        if not block.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES)
            if len(rest) >= MAX_LINE_BYTES:
                raise PilotFormatError(f"{name}: a line is longer than {MAX_LINE_BYTES >> 20} MB. Is this JSON lines?")
            block += rest
        yield block.removeprefix(BYTE_ORDER_MARK) if first else block
        first = False


def sample_of(text: bytes, name: str, kind: str, path: Path | None = None) -> Sample:
    """Column names and values of the first rows; of JSONL also of rows further on: a column may appear late.

    Raises:
        PilotFormatError: No row is a JSON object.
    """
    if kind == "json-array":
        head = text.removeprefix(BYTE_ORDER_MARK)
        items = _array_head(head[:ARRAY_HEAD_BYTES])
        if not items and len(head) > ARRAY_HEAD_BYTES:
            items = _array_head(head)
        rows = [r for r in items if isinstance(r, dict)]
    else:
        rows = _objects(text.split(b"\n", SAMPLE_ROWS)[:SAMPLE_ROWS])
        rows += _objects(text.rsplit(b"\n", SAMPLE_ROWS)[1:]) if text.count(b"\n") > 2 * SAMPLE_ROWS else []
    if not rows:
        raise _not_a_table(text, name, kind)
    if kind == "jsonl" and path is not None and path.stat().st_size > len(text):
        rows += _later_objects(path)
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
    progress: Progress | None = None,
) -> Iterator[RowBatch]:
    """Batches of rows of a JSONL stream.

    A last line without its end (a file still being written) is dropped and counted. Any other malformed line is
    an error that names it, or dropped and counted with ``skip_malformed``.
    """
    decoder = msgspec.json.Decoder(shape.row_type)
    position = _Position(path=path, offset=0, lines=0)
    for block in blocks:
        try:
            rows, lines = decoder.decode_lines(block), None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            rows, lines = _decode_each(block, decoder, name, position.line(), options, tally)
        yield RowBatch(rows=rows, place=_line_namer(name, block, position, lines))
        position = position.after(block)
        if progress is not None:
            progress(len(block))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """Where a block starts. Lines are counted when asked for if the file can be read again, else as blocks pass."""

    path: Path | None
    offset: int
    lines: int

    def after(self, block: bytes) -> _Position:
        lines = self.lines + block.count(b"\n") if self.path is None else 0
        return _Position(path=self.path, offset=self.offset + len(block), lines=lines)

    def line(self) -> int:
        if self.path is None or self.offset == 0:
            return self.lines + 1
        left, lines = self.offset, 1
        with self.path.open("rb") as file:
            while left > 0 and (piece := file.read(min(left, BLOCK_BYTES))):
                lines, left = lines + piece.count(b"\n"), left - len(piece)
        return lines


def read_whole(stream: BinaryIO, name: str, *, compressed: bool) -> bytes:
    """All of a stream that is held in memory; a compressed one may not inflate without limit.

    Raises:
        PilotFormatError: It is compressed and takes more than 1 GB.
    """
    data = stream.read(MAX_INFLATED_BYTES + 1) if compressed else stream.read()
    if compressed and len(data) > MAX_INFLATED_BYTES:
        raise PilotFormatError(f"{name}: is one JSON array of more than 1 GB. Write one object a line (JSONL).")
    return data


def read_json_array(data: bytes, name: str, shape: RowShape) -> Iterator[RowBatch]:
    """Batches of rows of a file that is one JSON array of objects (held in memory as a whole)."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        rows = msgspec.json.decode(data, type=list[shape.row_type])  # type: ignore[name-defined]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        try:
            rows = msgspec.convert(json.loads(data), type=list[shape.row_type])  # type: ignore[name-defined]
        except (ValueError, msgspec.MsgspecError, RecursionError):
            raise PilotFormatError(
                f"{name}: is not a JSON array of objects ({error}). One object a line (JSONL) is read too."
            ) from None

    def namer(start: int) -> Callable[[int], str]:
        return lambda index: f"{name}, item {start + index + 1:,}"

    for start in range(0, len(rows), BATCH_ROWS):
        yield RowBatch(rows=rows[start : start + BATCH_ROWS], place=namer(start))


def count_rows(
    batches: Iterable[RowBatch], shape: RowShape, roles: ColumnMap, options: ReadOptions, tally: Tally
) -> None:
    """Count batches of rows into the tally, many small ones at a time."""
    columns: dict[str, list[Any]] = {role: [] for role in roles.roles()}
    starts: list[int] = []
    places: list[Callable[[int], str]] = []
    size = 0
    for batch in batches:
        rows, place = _kept(batch, shape, options, tally)
        if rows:
            for role, column in roles.roles().items():
                columns[role] += shape.values(rows, column)
            starts.append(size)
            places.append(place)
            size += len(rows)
        if size >= BATCH_ROWS:
            count_columns(columns, roles, options, _joined(starts, places), tally)
            columns, starts, places, size = {role: [] for role in roles.roles()}, [], [], 0
    if size:
        count_columns(columns, roles, options, _joined(starts, places), tally)


def _joined(starts: Sequence[int], places: Sequence[Callable[[int], str]]) -> Callable[[int], str]:
    def place(index: int) -> str:
        part = bisect_right(starts, index) - 1
        return places[part](index - starts[part])

    return place


def _kept(
    batch: RowBatch, shape: RowShape, options: ReadOptions, tally: Tally
) -> tuple[Sequence[Any], Callable[[int], str]]:
    """The rows that ``where`` keeps."""
    if not options.where:
        return batch.rows, batch.place
    kept = list(range(len(batch.rows)))
    for column, wanted in options.where.items():
        values = shape.values(batch.rows, column)
        kept = [i for i in kept if matches(values[i], wanted)]
    tally.dropped.update(nonzero(rows_outside_where=len(batch.rows) - len(kept)))
    return [batch.rows[i] for i in kept], _through(batch.place, kept)


def count_columns(
    columns: Mapping[str, Sequence[Any]],
    roles: ColumnMap,
    options: ReadOptions,
    place: Callable[[int], str],
    tally: Tally,
) -> None:
    """Count a batch of columns (one list of values a role) of any shape into the tally."""
    size, given = len(next(iter(columns.values()))), columns
    if roles.shape in ("wide", "histogram"):
        take_counts(columns, roles, options, place, tally)
    elif roles.shape == "long":
        tally.add(long_cells(columns, roles, options, place, tally))
    else:
        columns, row_of = flatten_lists(columns, roles, place, tally)
        tally.repeated_rows = True
        if row_of:
            tally.add(long_cells(columns, roles, options, _through(place, row_of), tally))
    if tally.observer is not None and tally.odd is None:
        tally.observer(given, roles, options, place, tally)
    tally.rows += size


def flatten_lists(
    columns: Mapping[str, Sequence[Any]], roles: ColumnMap, place: Callable[[int], str], tally: Tally
) -> tuple[dict[str, list[Any]], list[int]]:
    """One row a rollout from one row a prompt with a list of rewards; also the row each rollout came from."""
    rewards: list[Any] = []
    row_of: list[int] = []
    for i, value in enumerate(columns["reward"]):
        items = list_of(value)
        if items is None and not is_missing(value):
            raise PilotFormatError(f"{place(i)}: {roles.reward} must be a list of rewards; got {str(value)[:40]!r}.")
        if not items:
            tally.dropped["prompts_without_scored_rollouts"] += 1
            continue
        rewards.extend(items)
        row_of.extend([i] * len(items))
    prompts = columns.get("prompt") or [f"row {tally.rows + i + 1}" for i in range(len(columns["reward"]))]
    flat: dict[str, list[Any]] = {"reward": rewards, "prompt": [prompts[i] for i in row_of]}
    for role in ("stratum", "temperature", "policy"):
        if role in columns:
            flat[role] = [columns[role][i] for i in row_of]
    if "response_tokens" in columns:
        refuse_other_lengths(columns, "response_tokens", place, str(roles.response_tokens))
        flat["response_tokens"] = spread(columns["response_tokens"], row_of)
        lists = [list_of(value) is not None for value in columns["response_tokens"]]
        flat["split_tokens"] = [
            value if lists[i] else None for i, value in zip(row_of, flat["response_tokens"], strict=True)
        ]
    return flat, row_of


def spread(beside: Sequence[Any], row_of: Sequence[int]) -> list[Any]:
    """Values beside the rewards: a list of them goes item by item, a single value to every rollout."""
    out, seen, last = [], 0, -1
    for i in row_of:
        seen = seen + 1 if i == last else 0
        last = i
        items = list_of(beside[i])
        out.append(beside[i] if items is None else items[seen] if seen < len(items) else None)
    return out


def refuse_other_lengths(
    columns: Mapping[str, Sequence[Any]], role: str, place: Callable[[int], str], what: str
) -> None:
    """A list beside the rewards must have one item a reward."""
    for i, (rewards, beside) in enumerate(zip(columns["reward"], columns[role], strict=True)):
        items, wanted = list_of(beside), list_of(rewards)
        if items is not None and wanted and len(items) != len(wanted):
            raise PilotFormatError(
                f"{place(i)}: {what} has {len(items)} items for {len(wanted)} rewards. Give one a reward, or a single "
                "value for all."
            )


def _decode_each(
    block: bytes,
    decoder: msgspec.json.Decoder[Any],
    name: str,
    first_line: int,
    options: ReadOptions,
    tally: Tally,
) -> tuple[list[Any], list[int]]:
    rows, numbers = [], []
    lines = block.split(b"\n")
    for offset, line in enumerate(lines):
        if not line.strip():
            continue
        row = _decode_one(line, decoder)
        if row is not None:
            rows.append(row)
            numbers.append(first_line + offset)
        elif offset == len(lines) - 1 and not _is_json(line):  # no newline after it: cut off while being written
            tally.dropped["truncated_last_line"] += 1
        elif options.skip_malformed:
            tally.dropped["malformed_line"] += 1
        else:
            raise malformed(line, f"{name}:{first_line + offset}", decoder)
    return rows, numbers


def _decode_one(line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        value = _loads(line)  # json.loads also takes NaN and Infinity, which Python writes
        try:
            return from_plain(value, decoder.type) if isinstance(value, dict) else None
        except (msgspec.MsgspecError, RecursionError):
            return None


def _loads(line: bytes) -> Any | None:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _not_a_table(text: bytes, name: str, kind: str) -> PilotFormatError:
    if kind == "jsonl" and text.lstrip()[:1] == b"{" and len(text.strip().split(b"\n")) > 1:
        return PilotFormatError(
            f"{name}: is one JSON object over several lines, not a table. Give one object a line (JSONL) or an array."
        )
    what = "array of objects" if kind == "json-array" else "object on its first lines"
    return PilotFormatError(f"{name}: holds no JSON {what}. Give rows as objects with named fields.")


def _array_head(text: bytes) -> list[Any]:
    """First items of a JSON array, from its first bytes only."""
    decoder = json.JSONDecoder()
    body = text.decode(errors="ignore").lstrip()[1:]
    items: list[Any] = []
    while len(items) < SAMPLE_ROWS:
        body = body.lstrip().removeprefix(",").lstrip()
        try:
            item, end = decoder.raw_decode(body)
        except (ValueError, RecursionError):
            break
        items.append(item)
        body = body[end:]
    return items


def _line_namer(name: str, block: bytes, position: _Position, lines: list[int] | None) -> Callable[[int], str]:
    def place(index: int) -> str:
        if lines is not None:
            return f"{name}:{lines[index]}"
        full = [i for i, line in enumerate(block.split(b"\n")) if line.strip()]
        return f"{name}:{position.line() + full[index]}"

    return place


def _through(place: Callable[[int], str], index_of: Sequence[int]) -> Callable[[int], str]:
    return lambda index: place(index_of[index])
