"""A JSON array of objects, streamed: cut between items by its brackets, so that memory follows the block."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import Sample
from grpo_plan.readers.files import BYTE_ORDER_MARK
from grpo_plan.readers.jsonlines import Progress, _array_head, sample_of_rows
from grpo_plan.readers.positions import is_utf8, nonzero
from grpo_plan.readers.rows import RowBatch, RowShape

BLOCK_BYTES = 4 << 20
MAX_ITEM_BYTES = 256 << 20
SPACE = b" \t\r\n"
BETWEEN = re.compile(rb"\}\s*,\s*\{")
GUESS_BYTES = 1 << 18
GUESSES = 3  # failed ones, after which each bracket is looked at
ENDS = 64  # ends of items to try: one of them is followed by a comma already read
QUOTE, BACKSLASH = b'"\\'
CODES = np.zeros(256, dtype=np.int8)
CODES[list(b"[{")], CODES[list(b"]}")] = 1, -1
CODES[[QUOTE, BACKSLASH]] = 2, 3
Decode = Callable[[bytes], list[Any] | None]


class JsonArray:
    """A stream that holds one array: a sample of its items, then all items once, in batches.

    Raises:
        PilotFormatError: Opening or reading it: the array is not closed, something follows it, or an item is no object.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        self._decode: Decode | None = None
        self._pieces = self._cut(stream, name)

    def sample(self) -> Sample:
        """Columns and values of the first items."""
        first, _ = next(self._pieces, (b"", None))
        self._pieces = chain([(first, None)], self._pieces)
        rows = [item for item in _array_head(b"[" + first) if isinstance(item, dict)]
        if not rows:
            raise PilotFormatError(
                f"{self._name}: holds no JSON array of objects. Give rows as objects with named fields."
            )
        return sample_of_rows(rows, self._name)

    def batches(self, shape: RowShape, progress: Progress | None = None) -> Iterator[RowBatch]:
        """Rows of all items."""
        decoder = msgspec.json.Decoder(list[shape.row_type])  # type: ignore[name-defined]
        done, self._decode = 0, lambda piece: _decoded(piece, decoder)
        for piece, rows in self._pieces:
            if rows is None:
                rows = self._rows(piece, decoder, shape, done)
            yield RowBatch(rows=rows, place=self._namer(done))
            done += len(rows)
            if progress is not None:
                progress(len(piece))

    def _namer(self, done: int) -> Callable[[int], str]:
        return lambda index: f"{self._name}, item {done + index + 1:,}"

    def _rows(self, piece: bytes, decoder: msgspec.json.Decoder[Any], shape: RowShape, done: int) -> list[Any]:
        rows = _decoded(piece, decoder)
        if rows is not None:
            return rows
        try:  # the json module also takes NaN and Infinity, which Python writes
            plain = json.loads((b"[" + piece + b"]").decode())
            return msgspec.convert(plain, list[shape.row_type])  # type: ignore[name-defined]
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise self._fault(piece, done, error) from None

    def _fault(self, piece: bytes, done: int, error: Exception) -> PilotFormatError:
        """Which item it is: the first that is no object, or after which the text goes wrong."""
        index, text, decoder = done, piece.decode(errors="replace"), json.JSONDecoder()
        start = len(text) - len(text.lstrip())
        while start < len(text):
            index += 1
            try:
                item, end = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                break
            after = text[end:].lstrip() if len(text) - end < 100 else text[end : end + 100].lstrip()
            if not isinstance(item, dict) or (after and not after.startswith(",")):
                break
            start = text.find(",", end) + 1 or len(text)
            start += len(text[start : start + 100]) - len(text[start : start + 100].lstrip())
        shown = repr(text[start : start + 40]) + "..."
        reason = " ".join(str(error).split())[:100] if not isinstance(error, UnicodeDecodeError) else "not UTF-8"
        return PilotFormatError(
            f"{self._name}, item {index:,}: is not a JSON object ({shown}; {reason}). Repair it, or give one object a "
            "line (JSONL), where bad lines can be skipped."
        )

    def _cut(self, stream: BinaryIO, name: str) -> Iterator[tuple[bytes, list[Any] | None]]:
        """The items of the array in pieces, each some whole items with commas between them; decoded, if that was done.

        Where what stands before a comma decodes as items, the comma is one between items: that is tried first.
        """
        block = (stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)).lstrip(SPACE)[1:]
        scan, closed = _Scan(), False
        pieces, guesses = 0, GUESSES
        while not closed:
            if scan.fresh and len(block) < BLOCK_BYTES:
                block += stream.read(BLOCK_BYTES)
            if scan.fresh and self._decode is not None and guesses and (comma := _guess(block)):
                rows = self._decode(block[:comma])
                if rows:
                    pieces += 1
                    yield block[:comma], rows
                    block = block[comma + 1 :]
                    continue
                guesses -= 1
            try:
                cut, closed = scan.cut(block)
            except ValueError as error:
                found = block[error.args[0] :][:40].decode(errors="replace")
                raise PilotFormatError(
                    f"{name}: {found!r} follows an item, not a comma. Repair it, or give JSONL."
                ) from None
            if cut is None:
                more = stream.read(BLOCK_BYTES)
                if not more:
                    raise PilotFormatError(
                        f"{name}: the array is not closed. Is the file complete? One object a line (JSONL) is read too."
                    )
                block += more
                if len(block) > MAX_ITEM_BYTES:
                    raise PilotFormatError(f"{name}: an item is longer than {MAX_ITEM_BYTES >> 20} MB. Is it complete?")
                continue
            piece = block[:cut]
            if closed and block[cut : cut + 1] != b"]":
                raise PilotFormatError(f"{name}: a bracket is closed that was not opened. Repair it, or give JSONL.")
            if piece.strip(SPACE):
                pieces += 1
                yield piece, None
            elif pieces or not closed:
                raise PilotFormatError(f"{name}: the array has a comma without an item. Repair it, or give JSONL.")
            block = block[cut + 1 :]
            scan = _Scan()
        while block or (block := stream.read(BLOCK_BYTES)):
            if block.strip(SPACE):
                raise PilotFormatError(
                    f"{name}: something follows the array ({block.strip(SPACE)[:40].decode(errors='replace')!r}...). "
                    "Give one array, or one object a line (JSONL)."
                )
            block = b""


def _decoded(piece: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """Items of a piece, or None if they need another look."""
    text = b"[" + piece + b"]"
    try:
        rows: list[Any] | None = decoder.decode(text) if is_utf8(text) else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return rows


def _guess(block: bytes) -> int:
    """Offset of the last comma between what may be two items; 0 if there is none near the end."""
    start = max(0, len(block) - GUESS_BYTES)
    for found in reversed(list(BETWEEN.finditer(block, start))):
        return block.index(b",", found.start())
    return 0


class _Scan:
    """Finds the last comma between items, or the end of the array; goes on where more bytes are added."""

    def __init__(self) -> None:
        self._seen, self._depth, self._inside, self._escaped = 0, 0, False, False
        self._ends: list[int] = []

    @property
    def fresh(self) -> bool:
        """Whether nothing was looked at yet."""
        return self._seen == 0

    def cut(self, block: bytes) -> tuple[int | None, bool]:
        """Offset of the comma, or of the bracket that closes the array, or None; and whether it is the bracket.

        Raises:
            ValueError: Something else than a comma follows an item; with its offset.
        """
        codes = CODES[np.frombuffer(block, np.uint8)[self._seen :]]
        size = codes.size
        where = nonzero(codes)
        codes = codes[where]
        quotes = self._real_quotes(where, codes, size)
        inside = (np.cumsum(quotes) + self._inside) % 2 == 1
        self._inside = bool(inside[-1]) if inside.size else self._inside
        steps = np.where(inside | (codes > 1), 0, codes)
        depth = np.cumsum(steps) + self._depth
        start = self._seen
        self._seen, self._depth = len(block), int(depth[-1]) if depth.size else self._depth
        end = np.flatnonzero(depth < 0)
        if end.size:
            return start + int(where[end[0]]), True
        self._ends += (start + where[(steps == -1) & (depth == 0)])[-ENDS:].tolist()
        for item in reversed(self._ends):
            after = item + 1
            while after < len(block) and block[after] in SPACE:
                after += 1
            if after < len(block):
                if block[after : after + 1] != b",":
                    raise ValueError(after)
                return after, False
        return None, False

    def _real_quotes(self, where: NDArray[np.intp], codes: NDArray[np.int8], size: int) -> NDArray[np.bool_]:
        """Quotes that no backslash escapes: those after an even run of them."""
        slashes = where[codes == 3]
        escaped = np.zeros(0, dtype=np.intp)
        carried = self._escaped
        self._escaped = False
        if slashes.size:
            starts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
            first, length = slashes[starts], np.diff(np.append(starts, slashes.size))
            if carried and first[0] == 0:
                length[0] += 1
                carried = False
                ends = first + np.diff(np.append(starts, slashes.size))
            else:
                ends = first + length
            escaped = ends[length % 2 == 1]
            if escaped.size and escaped[-1] == size:
                self._escaped = True
        quotes: NDArray[np.bool_] = codes == 2
        if escaped.size:
            marked = np.zeros(size + 1, dtype=bool)
            marked[escaped] = True
            quotes &= ~marked[where]
        if carried and where.size and where[0] == 0:
            quotes[0] = False
        return quotes
