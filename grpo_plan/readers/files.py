"""Where the bytes are: paths, globs, folders and standard input; what they are, by content; plain bytes of them."""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from grpo_plan.errors import PilotFormatError

HEAD_BYTES = 1 << 18
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
TABLE_SUFFIXES = frozenset(".jsonl .ndjson .json .csv .tsv .parquet .pq .arrow .feather .ipc".split())
BINARY_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy file",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
    b"\x89PNG": "a PNG picture",
    b"BZh": "bzip2-compressed",
    b"\xfd7zXZ": "xz-compressed",
}
READABLE = "JSONL, JSON, CSV, TSV, Parquet or Arrow, plain or gzip or zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file to read; ``path`` is None for standard input."""

    name: str
    path: Path | None

    @property
    def identity(self) -> object:
        """Equal for two names of one file."""
        if self.path is None:
            return "-"
        status = self.path.stat()
        return status.st_dev, status.st_ino


def resolve(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """Files of a path, a glob pattern, a folder, ``-`` or a list of these; each file once.

    Raises:
        PilotFormatError: Nothing is there, or a folder holds no table or tables of several kinds.
    """
    if isinstance(source, str | os.PathLike):
        source = [source]
    files: dict[object, InputFile] = {}
    for item in source:
        try:
            for found in _resolve_one(os.fspath(item)):
                files.setdefault(found.identity, found)
        except (OSError, ValueError) as error:
            if isinstance(error, PilotFormatError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise PilotFormatError(f"{os.fspath(item)[:80]!r}: cannot be opened ({reason}). Check the path.") from None
    if not files:
        raise PilotFormatError("No input file was given. Give a path, a glob, a folder or - for standard input.")
    return list(files.values())


def _resolve_one(item: str) -> list[InputFile]:
    if item == "-":
        return [InputFile(name="standard input", path=None)]
    if not item:
        raise PilotFormatError("An empty path was given. Give a file, a glob, a folder or - for standard input.")
    path = Path(item)
    if path.is_dir():
        return _folder(item, path)
    if path.exists():
        return [InputFile(name=item, path=path)]
    found = sorted(glob.glob(item, recursive=True))
    inside = [InputFile(name=p, path=Path(p)) for p in found if not Path(p).is_dir()]
    if inside:
        return inside
    if glob.has_magic(item):
        raise PilotFormatError(f"{item}: no file matches this pattern. Check the folder and the quotes around it.")
    hint = " Write the packaged example with: grpo-plan example." if item == "pilot.jsonl" else ""
    raise PilotFormatError(f"{item}: no such file. Check the path.{hint}")


def _folder(item: str, path: Path) -> list[InputFile]:
    tables: dict[str, list[Path]] = {}
    for entry in sorted(path.iterdir()):
        kind = _table_suffix(entry)
        if entry.is_file() and kind and not entry.name.startswith("."):
            tables.setdefault(kind, []).append(entry)
    if len(tables) == 1:
        return [InputFile(name=str(p), path=p) for p in next(iter(tables.values()))]
    if not tables:
        raise PilotFormatError(f"{item}: is a folder without a table ({READABLE}). Name a file or a glob.")
    kinds = ", ".join(f"{len(v)} {k}" for k, v in sorted(tables.items()))
    one = next(iter(sorted(tables)))
    raise PilotFormatError(
        f"{item}: is a folder of several kinds of table ({kinds}). Name one, e.g. '{item.rstrip('/')}/*{one}'."
    )


def _table_suffix(path: Path) -> str | None:
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in (".gz", ".zst", ".zstd"):
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in TABLE_SUFFIXES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sniffed:
    """What a stream holds: ``kind`` of table, its plain bytes, the first of them, and the separator of its columns."""

    kind: str
    stream: BinaryIO
    head: bytes
    separator: str = ","
    compressed: bool = False


@contextmanager
def open_sniffed(file: InputFile) -> Iterator[Sniffed]:
    """Open a file, undo its compression, and say what it is by its first bytes.

    Raises:
        PilotFormatError: The file is empty, damaged, binary, not UTF-8, or cannot be opened.
    """
    try:
        if file.path is None and sys.stdin is None:
            raise PilotFormatError("standard input is closed. Give a file, or pipe rows into the command.")
        raw: BinaryIO = file.path.open("rb", HEAD_BYTES) if file.path is not None else sys.stdin.buffer
    except OSError as error:
        raise PilotFormatError(f"{file.name}: cannot be opened ({error.strerror}).") from None
    try:
        stream, head = _peek(raw)
        plain = _decompressed(stream, head)
        compressed = plain is not None
        if plain is not None:
            stream, head = _peek(plain)
        kind, separator = sniff(head, file.name)
        yield Sniffed(kind=kind, stream=stream, head=head, separator=separator, compressed=compressed)
    except PilotFormatError:
        raise
    except UnicodeDecodeError as error:
        raise PilotFormatError(
            f"{file.name}: is not UTF-8 text (byte {error.start:,}). Convert it, e.g. with iconv."
        ) from None
    except Exception as error:
        if _is_compression_error(error):
            raise PilotFormatError(
                f"{file.name}: the compressed data end too early or are damaged ({error}). Compress it again."
            ) from None
        if isinstance(error, OSError):
            raise PilotFormatError(f"{file.name}: cannot be read ({error.strerror or error}).") from None
        raise
    finally:
        if file.path is not None:
            raw.close()


def sniff(head: bytes, name: str) -> tuple[str, str]:
    """Kind of table and column separator, from the first bytes."""
    if not head.removeprefix(BYTE_ORDER_MARK).strip():
        raise PilotFormatError(f"{name}: is empty. Give a file with at least one row.")
    if head.startswith(b"PAR1"):
        return "parquet", ","
    if head.startswith(b"ARROW1"):
        return "arrow", ","
    if head.startswith(b"\xff\xff\xff\xff"):
        return "arrow-stream", ","
    for magic, what in BINARY_MAGIC.items():
        if head.startswith(magic):
            raise PilotFormatError(f"{name}: is {what}, not a table. Give {READABLE}.")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise PilotFormatError(f"{name}: is UTF-16 text. Convert it to UTF-8, e.g. with iconv -f UTF-16 -t UTF-8.")
    if b"\x00" in head:
        raise PilotFormatError(f"{name}: is a binary file of unknown kind. Give {READABLE}.")
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    if text[:1] in (b"{", b"["):
        return ("json-array" if text[:1] == b"[" else "jsonl"), ","
    first_line = re.sub(rb'"[^"]*"', b"", text.split(b"\n", 1)[0])  # separators in quoted names do not count
    separator = max((b"\t", b",", b";"), key=first_line.count)
    if not first_line.count(separator):
        raise PilotFormatError(f"{name}: is no table that can be read (one column of text). Give {READABLE}.")
    return "csv", separator.decode()


@contextmanager
def as_path(sniffed: Sniffed, file: InputFile) -> Iterator[Path]:
    """A path to the plain bytes, for engines that need one: the file itself, or a temporary copy."""
    if file.path is not None and not sniffed.compressed and file.path.is_file():
        yield file.path
        return
    with tempfile.NamedTemporaryFile(prefix="grpo-plan-", suffix=f".{sniffed.kind}") as copy:
        shutil.copyfileobj(sniffed.stream, copy, 1 << 20)
        copy.flush()
        yield Path(copy.name)


class _HeadThenRest(io.RawIOBase):
    """The bytes already read, then the stream they were read from."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        super().__init__()
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(data) :] if self._head else b""
        buffer[: len(data)] = data
        return len(data)


def rejoined(head: bytes, rest: IO[bytes]) -> BinaryIO:
    """A stream of the bytes already read, then of those still unread."""
    return cast(BinaryIO, io.BufferedReader(_HeadThenRest(head, rest), buffer_size=1 << 20))


def _peek(stream: IO[bytes]) -> tuple[BinaryIO, bytes]:
    """The first bytes of a stream, and a stream that still starts with them."""
    if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO) and stream.seekable():
        head = stream.read(HEAD_BYTES)
        stream.seek(0)
        return stream, head
    head = b""
    while len(head) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(head))):
        head += piece
    return rejoined(head, stream), head


def _decompressed(stream: BinaryIO, head: bytes) -> IO[bytes] | None:
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream, mode="rb"))
    if head.startswith(ZSTD_MAGIC):
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd  # type: ignore[no-redef,unused-ignore]
        return cast(IO[bytes], zstd.ZstdFile(stream))
    return None


def _is_compression_error(error: Exception) -> bool:
    return isinstance(error, EOFError | zlib.error | gzip.BadGzipFile) or type(error).__name__ == "ZstdError"
