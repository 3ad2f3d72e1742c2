"""Which files of a source belong to which format: folders are searched, a few files of each kind are looked at."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import BYTE_ORDER_MARK, InputFile, open_sniffed, resolve
from grpo_plan.readers.registry import TABLE, format_named, is_of, recognised
from grpo_plan.readers.source import Format
from grpo_plan.readers.values import shown

MAX_FILES = 200_000
MOST_DAMAGED = 100  # files that are looked at for damage
SKIPPED_SUFFIXES = frozenset(
    (
        ".py .pyc .sh .md .txt .log .yaml .yml .toml .safetensors .bin .lock .html .png .svg .pdf .ipynb .npy .npz "
        ".h5 .so .whl"
    ).split()
)


class SeveralFormatsError(PilotFormatError):
    """A source holds files of several formats, and none was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Files of one format; None is the general reader of tables. ``beside`` holds other formats of the same run.

    ``left_out`` names files that were given among others and are no table: prose, or the source of a program.
    """

    format: Format | None
    files: Sequence[InputFile]
    beside: Mapping[str, Sequence[InputFile]] = field(default_factory=dict)
    damaged: Sequence[str] = ()
    left_out: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in words."""
        return (*self.damaged, *(f"{name} was left out: its lines are no rows of a table." for name in self.left_out))


def discover(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], want: str, name: str | None) -> Found:
    """The files of a source and their format.

    Args:
        source: Path, glob, folder or a list of these; not standard input.
        want: ``pilot`` or ``run``.
        name: Format that the user named, or None.

    Raises:
        PilotFormatError: Nothing is there, or files of several formats are.
        DomainError: No format has this name, or it does not give what is wanted.
    """
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    folders = [Path(item) for item in items if _is_folder(item)]
    others = [item for item in items if not _is_folder(item)]
    files = resolve(others) if others or not folders else []
    closed: list[str] = []
    inside = [file for folder in folders for file in _walk(folder, closed)]
    found = _named(name, want, files, inside, items) if name is not None else _told(want, files, inside, items)
    if not closed:
        return found
    count = "1 folder" if len(closed) == 1 else f"{len(closed):,} folders"
    note = f"{count} could not be opened, and what is in there was not read: {shown(closed, 3)}."
    return replace(found, damaged=[*found.damaged, note])


def _told(want: str, files: list[InputFile], inside: list[InputFile], items: Sequence[str | os.PathLike[str]]) -> Found:
    """Files of the only format that is there."""
    passed_over: list[InputFile] = []
    groups: dict[str, list[InputFile]] = {}
    formats: dict[str, Format | None] = {}
    for alike, lenient in ((_alike(files), False), (_alike(inside), True)):
        for same in alike:
            found, error = _format_of(same, want)
            if error is not None and not lenient and any(_may_be_table(file) for file in same):
                raise error
            if found is None and lenient:
                passed_over += same
                continue  # a folder holds other things too
            key = TABLE if found is None else found.name
            formats[key] = found
            groups.setdefault(key, []).extend(same)
    left_out: tuple[str, ...] = ()
    if len(groups) > 1 and TABLE in groups:  # a shell's pattern takes in everything
        no_table = [file for file in groups[TABLE] if not _may_be_table(file)]
        left_out = tuple(file.name for file in no_table)
        groups[TABLE] = [file for file in groups[TABLE] if file not in no_table]
        if not groups[TABLE]:
            del groups[TABLE]
    beside: dict[str, list[InputFile]] = {}
    if want == "run" and len(groups) > 1:
        order = {key: 0 if f is None else f.preference for key, f in formats.items()}
        first = min(order.values())
        beside = {key: held for key, held in groups.items() if order[key] > first}
        groups = {key: held for key, held in groups.items() if order[key] == first}
    if len(groups) > 1:
        listing = ", ".join(
            f"{key} ({f'1 file: {held[0].name}' if len(held) == 1 else f'{len(held):,} files'})"
            for key, held in groups.items()
        )
        raise SeveralFormatsError(
            f"{_shown(items)}: holds several formats: {listing}. Name one with --format (format=), or give its files."
        )
    if groups:
        key = next(iter(groups))
        chosen = _unique(groups[key])
        damaged = _damaged(passed_over, chosen)
        return Found(format=formats[key], files=chosen, beside=beside, damaged=damaged, left_out=left_out)
    return Found(format=None, files=resolve([os.fspath(item) for item in items]))


def _is_folder(item: str | os.PathLike[str]) -> bool:
    try:
        return bool(os.fspath(item)) and Path(item).is_dir()  # Path("") would be the folder one is in
    except (OSError, ValueError):
        return False  # an impossible name: `resolve` says so


def _named(name: str, want: str, files: list[InputFile], inside: list[InputFile], items: Sequence[object]) -> Found:
    """Files of the format that the user named: those given, and those inside folders that look like it."""
    found = format_named(name)
    if found is None:
        return Found(format=None, files=[*files, *(f for f in resolve([str(i) for i in items]) if f not in files)])
    if getattr(found, want) is None:
        other = "a pilot, not a log of metrics" if want == "run" else "a log of metrics, not a pilot"
        raise PilotFormatError(f"{_shown(items)}: format {name!r} gives {other}. See grpo-plan formats.")
    chosen = [*files]
    for same in _alike(inside):
        if any(_fits(found, file) for file in _some_of(same)):
            chosen += same
    if not chosen:
        raise PilotFormatError(f"{_shown(items)}: holds no file of format {name!r} ({found.files}). Name a file.")
    return Found(format=found, files=_unique(chosen))


def _fits(format: Format, file: InputFile) -> bool:
    try:
        return is_of(format, look(file))
    except PilotFormatError:
        return False


def _some_of(same: Sequence[InputFile]) -> list[InputFile]:
    """A few files of one kind, the first first: any of them may be empty or damaged."""
    return list(dict.fromkeys((same[0], same[-1], same[len(same) // 2], same[len(same) // 4])))


def _format_of(same: Sequence[InputFile], want: str) -> tuple[Format | None, PilotFormatError | None]:
    """Format of files of one kind: that of the first; where it is none, or damaged, of the last or one between.

    Where none can be looked into, what is wrong with the first.
    """
    errors: list[PilotFormatError] = []
    looked = 0
    for file in _some_of(same):
        if file.path is None or not file.path.is_file():
            continue  # a pipe can be read once only
        looked += 1
        try:
            found = recognised(look(file), want)
        except PilotFormatError as error:
            errors.append(error)
            continue  # the reader says what is wrong
        if found is not None:
            return found, None
    return None, errors[0] if errors and len(errors) == looked else None


def _damaged(passed_over: Sequence[InputFile], chosen: Sequence[InputFile]) -> list[str]:
    """A note on files named like those of the format that cannot be looked into."""
    suffixes = {file.path.suffix for file in chosen if file.path is not None}
    names = []
    for file in passed_over[:MOST_DAMAGED]:
        if file.path is None or file.path.suffix not in suffixes:
            continue
        try:
            candidate = look(file)
        except PilotFormatError:
            names.append(file.name)
        else:
            names += [] if candidate.columns else [file.name]
    if not names:
        return []
    files = "1 file in the folder cannot" if len(names) == 1 else f"{len(names):,} files in the folder cannot"
    return [f"{files} be looked into and {'was' if len(names) == 1 else 'were'} passed over: {shown(names, 3)}."]


def _may_be_table(file: InputFile) -> bool:
    """Whether most lines of a file of separated values have as many fields as its first; other kinds pass."""
    try:
        with open_sniffed(file) as sniffed:
            if sniffed.kind != "csv":
                return True
            text = sniffed.head.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=sniffed.separator) if row]
    except csv.Error:
        return True
    except PilotFormatError:
        return file.path is None or file.path.suffix.lower() not in SKIPPED_SUFFIXES
    alike = sum(len(row) == len(rows[0]) for row in rows)
    return 2 * alike > len(rows)


def _alike(files: Sequence[InputFile]) -> list[list[InputFile]]:
    """Files whose folder and name differ in digits only: they are of one kind, and a few are looked at."""
    groups: dict[str, list[InputFile]] = {}
    for file in files:
        groups.setdefault(re.sub(r"[0-9a-f]{6,}|\d+", "#", str(file.path)), []).append(file)
    return list(groups.values())


def _walk(folder: Path, closed: list[str]) -> Iterator[InputFile]:
    """Files in and under a folder, in order of name, numbers by their value; links to folders are not followed.

    Folders that cannot be opened go to ``closed``.
    """
    found = 0
    for base, names, files in os.walk(folder, onerror=lambda error: closed.append(str(error.filename))):
        names[:] = sorted((n for n in names if not n.startswith(".")), key=natural)
        for name in sorted(files, key=natural):
            path = Path(base) / name
            if name.startswith(".") or path.suffix.lower() in SKIPPED_SUFFIXES or not path.is_file():
                continue
            found += 1
            if found > MAX_FILES:
                raise PilotFormatError(f"{folder}: holds more than {MAX_FILES:,} files. Name a glob.")
            if path.stat().st_size:
                yield InputFile(name=str(path), path=path)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Key that orders ``2.jsonl`` before ``10.jsonl``.

    >>> sorted(["10.jsonl", "2.jsonl"], key=natural)
    ['2.jsonl', '10.jsonl']
    """
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    ]


def _unique(files: Sequence[InputFile]) -> list[InputFile]:
    return list({file.identity: file for file in reversed(files)}.values())[::-1]


def _shown(items: Sequence[object]) -> str:
    return str(items[0]) if len(items) == 1 else f"{len(items)} sources"
