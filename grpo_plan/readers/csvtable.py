"""CSV in blocks of whole rows. Blocks that follow RFC 4180 go to the table engine, all others to Python's csv module.

The engine is fast and lenient: it takes a stray quote for the start of a text, and knows no old line ends. Each block
is checked first, by its bytes: where every quote is at the edge of a field, every carriage return before a line feed,
and all is text, both readers see the same rows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.chunks import Chunk, Progress
from grpo_plan.readers.columns import Sample
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.files import BYTE_ORDER_MARK, rejoined
from grpo_plan.readers.positions import is_utf8, positions

if TYPE_CHECKING:
    import polars as pl

BLOCK_BYTES = 32 << 20
MAX_ROW_BYTES = 256 << 20
SAMPLE_ROWS = 500
ODD_ROWS = 50_000
QUOTE, LINE_FEED, RETURN = 34, 10, 13
Bytes = NDArray[np.uint8]


class CsvTable:
    """A CSV stream: its columns, a sample, and then its rows once, in chunks of text columns.

    Raises:
        PilotFormatError: Opening or reading it: no rows, a row with too many fields, bytes that are no UTF-8.
    """

    def __init__(self, stream: BinaryIO, name: str, separator: str) -> None:
        self._stream, self._name, self._separator = stream, name, separator
        first = stream.read(BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
        end = _end_of_header(first)
        self._start = first[end:]
        self._names = _unique(self._parsed_header(first[:end]))
        self._header = ",".join(map(str, range(len(self._names)))).replace(",", separator).encode() + b"\n"
        self._blocks = self._whole_rows()

    def _parsed_header(self, header: bytes) -> list[str]:
        try:
            text = header.decode()
        except UnicodeDecodeError:
            raise PilotFormatError(
                f"{self._name}: the header is not UTF-8 text. Convert it, e.g. with iconv -f LATIN1 -t UTF-8."
            ) from None
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator), [])

    def sample(self) -> Sample:
        """Column names and the first rows; malformed ones are left for later."""
        block, whole = next(self._blocks, (b"", True))
        self._blocks = chain([(block, whole)], self._blocks)
        rows: list[list[str | None]] = []
        with _any_field_length():
            for row in csv.reader(_lines(io.BytesIO(block)), delimiter=self._separator):
                if row and len(row) <= len(self._names):
                    rows.append([field or None for field in row] + [None] * (len(self._names) - len(row)))
                if len(rows) == SAMPLE_ROWS:
                    break
        return Sample(name=self._name, columns={c: [row[i] for row in rows] for i, c in enumerate(self._names)})

    def chunks(
        self, columns: Sequence[str], options: ReadOptions, tally: Tally, progress: Progress | None = None
    ) -> Iterator[Chunk]:
        """These columns as text, null where empty."""
        done = 0
        for block, whole in self._blocks:
            frame = self._by_engine(block, columns) if whole else None
            if frame is not None:
                yield Chunk(frame=frame, number=lambda index, done=done: done + index + 1)  # type: ignore[misc]
                done += frame.height
            else:
                stream = io.BytesIO(block) if whole else rejoined(block, self._stream)
                done = yield from self._by_python(stream, columns, done, options, tally)
            if progress is not None:
                progress(len(block))

    def _whole_rows(self) -> Iterator[tuple[bytes, bool]]:
        """Blocks that end with a row, and whether that is sure; one that is not is followed by the rest unread."""
        block = self._start
        more = self._stream.read(max(0, BLOCK_BYTES - len(block))) if len(block) < BLOCK_BYTES else b""
        block += more
        while block:
            at_end = False
            while (cut := _end_of_rows(block)) == 0:
                more = self._stream.read(BLOCK_BYTES)
                if not more:
                    cut, at_end = len(block), True
                    break
                block += more
                if len(block) > MAX_ROW_BYTES:
                    raise PilotFormatError(
                        f"{self._name}: a row is longer than {MAX_ROW_BYTES >> 20} MB. Does a quote lack its end?"
                    )
            rows = block[:cut]
            if not _well_quoted(np.frombuffer(rows, np.uint8), ord(self._separator)):
                yield block, False
                return
            yield rows, True
            block = b"" if at_end else block[cut:] + self._stream.read(BLOCK_BYTES)

    def _by_engine(self, block: bytes, columns: Sequence[str]) -> pl.DataFrame | None:
        """The rows of a block, or None if it holds a row that is no text or has too many fields."""
        import polars as pl

        raw = np.frombuffer(block, np.uint8)
        returns = positions(raw, RETURN)
        if returns.size and not _before_line_feeds(raw, returns):
            return None
        if not raw.all() or not is_utf8(block):
            return None
        try:  # every column is read: the engine counts fields only as far as it reads them
            end = b"" if block.endswith(b"\n") else b"\n"  # without it an empty field too many at the end goes unseen
            frame = pl.read_csv(b"".join((self._header, block, end)), separator=self._separator, infer_schema=False)
        except pl.exceptions.PolarsError:
            return None
        frame.columns = self._names
        return frame.select(columns)

    def _by_python(
        self, stream: BinaryIO, columns: Sequence[str], done: int, options: ReadOptions, tally: Tally
    ) -> Any:
        """Chunks of the rows of a stream; malformed ones are skipped as far as allowed. Returns the rows seen."""
        index = [self._names.index(column) for column in columns]
        rows: list[list[str | None]] = []
        numbers: list[int] = []
        reader = csv.reader(_lines(stream), delimiter=self._separator)
        while True:
            try:
                with _any_field_length():
                    row = next(reader, None)
            except csv.Error as error:
                row, why = [], f"is no CSV ({error})"
            else:
                why = "" if row is None else self._fault(row)
            if row is None or len(rows) == ODD_ROWS:
                if rows:
                    yield Chunk(frame=_frame(columns, rows), number=numbers.__getitem__)
                rows, numbers = [], []
            if row is None:
                return done
            done += 1
            if why:
                tally.skip(lambda done=done: f"{self._name}, row {done:,}", why, options)  # type: ignore[misc]
            else:
                numbers.append(done)
                rows.append([(row[i] or None) if i < len(row) else None for i in index])

    def _fault(self, row: list[str]) -> str:
        if len(row) > len(self._names):
            return f"has {len(row):,} fields, more fields than the header ({len(self._names):,}): {_shown(row)}"
        if not all(field.isascii() or _is_text(field) for field in row):
            return f"is not UTF-8 text ({_shown(row)})"
        if any("\0" in field for field in row):
            return f"holds NUL bytes ({_shown(row)})"
        return ""


def _frame(columns: Sequence[str], rows: list[list[str | None]]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({c: pl.Series([row[i] for row in rows], dtype=pl.String) for i, c in enumerate(columns)})


def _shown(row: list[str]) -> str:
    text = ",".join(row).encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\\0")
    return repr(text[:40] + ("..." if len(text) > 40 else ""))


def _is_text(field: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in field)


def _lines(stream: BinaryIO) -> io.TextIOWrapper:
    """Text that keeps its line ends; bytes that are no UTF-8 become lone surrogates."""
    return io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")


@contextmanager
def _any_field_length() -> Iterator[None]:
    """No limit to a field but that of a row, for the time of one call."""
    before = csv.field_size_limit(MAX_ROW_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _unique(names: list[str]) -> list[str]:
    """Names made different as the table engine does."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        out.append(f"{name}_duplicated_{seen[name] - 1}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return out


def _end_of_header(block: bytes) -> int:
    """Where the first record ends: at the first line end outside quotes."""
    quotes, start = 0, 0
    for found in re.finditer(rb"\r\n|\n|\r", block):
        quotes += block.count(b'"', start, found.start())
        start = found.end()
        if quotes % 2 == 0:
            return start
    return len(block)


def _end_of_rows(block: bytes) -> int:
    """Where the last line feed outside quotes ends; 0 if there is none."""
    quotes = positions(np.frombuffer(block, np.uint8), QUOTE)
    end = block.rfind(b"\n")
    while end >= 0 and np.searchsorted(quotes, end) % 2:
        before = int(np.searchsorted(quotes, end))
        end = block.rfind(b"\n", 0, int(quotes[before - 1]))
    return end + 1


def _well_quoted(raw: Bytes, separator: int) -> bool:
    """Whether every quote opens a field, closes one, or is one of a pair within one."""
    quotes = positions(raw, QUOTE)
    if not quotes.size:
        return True
    if quotes.size % 2:
        return False
    opens, closes = quotes[0::2], quotes[1::2]
    edges = np.zeros(256, dtype=bool)
    edges[[separator, LINE_FEED, RETURN]] = True
    before = edges[raw[opens - 1]] | (opens == 0)
    before[1:] |= opens[1:] == closes[:-1] + 1
    after = edges[raw[np.minimum(closes + 1, raw.size - 1)]] | (closes == raw.size - 1)
    after[:-1] |= opens[1:] == closes[:-1] + 1
    return bool(before.all() and after.all())


def _before_line_feeds(raw: Bytes, returns: NDArray[np.intp]) -> bool:
    """Whether each carriage return outside quotes stands before a line feed."""
    following = raw[np.minimum(returns + 1, raw.size - 1)]
    lone = returns[(following != LINE_FEED) | (returns == raw.size - 1)]
    quotes = positions(raw, QUOTE)
    return bool((np.searchsorted(quotes, lone) % 2 == 1).all())
