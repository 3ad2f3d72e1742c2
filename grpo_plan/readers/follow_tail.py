"""The bytes of a file that grows, each once: renamed, emptied, replaced or gone while they are read.

A file is known by its device and inode, and by the bytes read of it; times of change are not looked at. It is opened
anew at each look, since a file system over a network tells its true size on opening only, and it is kept open between
looks, so that the rest of a renamed file can still be read and its inode is not used again.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

from grpo_plan.readers.discovery import natural
from grpo_plan.readers.follow_events import FollowEvent, Happened

HEAD = 4096  # first bytes by which a file is known again
LAST = 512  # and last ones before the place that was reached
PIECE = 4 << 20
PATIENCE = 3  # looks at a file that is shorter than what was read of it, before it is taken for another
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
Identity = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a file was read.

    Attributes:
        identity: Device and inode; None before the first file.
        offset: Bytes read.
        head: The first of them, at most ``HEAD``.
        last: The last of them, at most ``LAST``.
    """

    identity: Identity | None = None
    offset: int = 0
    head: bytes = b""
    last: bytes = b""

    def after(self, data: bytes) -> Cursor:
        """The place after further bytes.

        >>> Cursor(identity=(1, 2)).after(b"ab").after(b"c")
        Cursor(identity=(1, 2), offset=3, head=b'abc', last=b'abc')
        """
        return replace(
            self,
            offset=self.offset + len(data),
            head=self.head if len(self.head) == HEAD else (self.head + data[:HEAD])[:HEAD],
            last=data[-LAST:] if len(data) >= LAST else (self.last + data)[-LAST:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at the file found.

    Attributes:
        cursor: Where reading goes on.
        data: Bytes found, of one file.
        fresh: Whether they start a file: ``next`` after another, ``anew`` where a file was written over; else empty.
        more: Whether another look now would find more.
        events: What happened.
    """

    cursor: Cursor
    data: bytes = b""
    fresh: str = ""
    more: bool = False
    events: tuple[FollowEvent, ...] = ()


class FileTail:
    """Follows one path; where it stands is kept by the caller, as a `Cursor`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: FileIO | None = None
        self._said: str = ""
        self._short = 0
        self._missed = False

    def close(self) -> None:
        """Let go of the file."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def start_at(self, path: Path) -> Cursor:
        """Begin with another file, after which that of the path follows."""
        file = _opened(path)
        self._hold(file)
        return Cursor(identity=_identity(file))

    def look(self, cursor: Cursor, size: int = PIECE) -> Look:
        """One piece of what is new; errors of the system are told as events."""
        events: list[FollowEvent] = []
        current = self._current(events)
        try:
            found = self._look(cursor, current, size, events)
        except OSError as error:  # a stale handle of a file system over a network, or a disk that fails
            self._say(events, Happened.UNREADABLE, f"{self.path}: cannot be read now ({error.strerror or error}).")
            self.close()
            found = Look(cursor=cursor)
        finally:
            if current is not None and current is not self._held:
                current.close()
        return replace(found, events=tuple(events))

    def _current(self, events: list[FollowEvent]) -> FileIO | None:
        """The file that has the name now; None, and an event, where it cannot be opened."""
        try:
            return _opened(self.path)
        except FileNotFoundError:
            if self._held is not None or self._said:
                self._say(events, Happened.GONE, f"{self.path}: is not there any more. It is waited for.")
        except OSError as error:
            self._say(events, Happened.UNREADABLE, f"{self.path}: cannot be opened now ({error.strerror or error}).")
        return None

    def _look(self, cursor: Cursor, current: FileIO | None, size: int, events: list[FollowEvent]) -> Look:
        if current is not None:
            if cursor.identity is None:
                cursor = replace(cursor, identity=_identity(current))
            same = _identity(current) == cursor.identity
            agreement = _agreement(current, cursor)
            self._readable(events)
            if same and agreement == "same":
                self._hold(current)
                self._short, self._missed, self._said = 0, False, ""
                return self._read(cursor, current, size)
        else:
            same, agreement = False, "none"
        old, cursor = self._old(cursor, same, events)
        if old is not None:
            rest = self._read(cursor, old, size)
            if rest.data:
                return replace(rest, more=True)
        elif not self._missed and cursor.offset and current is not None:
            self._missed = True
            self._cut_off(events, same)
        if current is None:
            between = self._between(cursor, events) if cursor.offset else None
            return Look(cursor=cursor) if between is None else self._next(between)
        if same and agreement == "shorter" and not self._short:
            words = "was emptied" if not _size(current) else "is shorter than what was read of it"
            self._say(events, Happened.TRUNCATED, f"{self.path}: {words}. What is written from now on is read.")
        return self._go_on(cursor, current, agreement, same, events)

    def _go_on(self, cursor: Cursor, current: FileIO, agreement: str, same: bool, events: list[FollowEvent]) -> Look:
        """To the file that has the name now, all that was written before being read."""
        if agreement == "same" and cursor.offset:
            self._hold(current)
            self._say(events, Happened.COPIED, f"{self.path}: is another file with the same beginning. Going on in it.")
            return Look(cursor=replace(cursor, identity=_identity(current)), more=_size(current) > cursor.offset)
        if not _size(current):
            return Look(cursor=cursor)
        if agreement == "shorter" and self._short < PATIENCE:
            self._short += 1
            return Look(cursor=cursor)
        shrunk = _size(current) < cursor.offset
        between = None if same else self._between(cursor, events)
        following = current if between is None else between
        if between is None and self._said != Happened.TRUNCATED:
            if same:
                words = "was written over" if not shrunk else "was emptied and written again"
                kind = Happened.TRUNCATED
            else:
                words, kind = "is a new file, the one before having been renamed or replaced", Happened.ROTATED
            self._say(events, kind, f"{self.path}: {words}. It is read from its start.")
        self._said = ""
        return self._next(following, "anew" if same and not shrunk else "next")

    def _next(self, file: FileIO, fresh: str = "next") -> Look:
        """Begin with a file."""
        self._hold(file)
        self._short, self._missed = 0, False
        return Look(cursor=Cursor(identity=_identity(file)), fresh=fresh, more=True)

    def _old(self, cursor: Cursor, same: bool, events: list[FollowEvent]) -> tuple[FileIO | None, Cursor]:
        """The file that was read before: kept open, or under another name; or a copy of it made before it was cut."""
        if self._held is not None and _identity(self._held) == cursor.identity and not same:
            if _agreement(self._held, cursor) == "same":
                return self._held, cursor
        copy, name = None, self.path
        for path in self._siblings():
            try:
                file = _opened(path)
            except OSError:
                continue
            alike = _agreement(file, cursor) == "same" and cursor.offset > 0
            if alike and _identity(file) == cursor.identity and not same:
                if copy is not None:
                    copy.close()
                self._hold(file)
                return file, cursor
            if alike and copy is None and _size(file) >= cursor.offset:
                copy, name = file, path
            else:
                file.close()
        if copy is None:
            return None, cursor
        self._hold(copy)
        words = "was cut" if same else "is another file"
        self._say(events, Happened.TRUNCATED, f"{self.path}: {words}. Its copy {name.name} is read to the end first.")
        return copy, replace(cursor, identity=_identity(copy))

    def _between(self, cursor: Cursor, events: list[FollowEvent]) -> FileIO | None:
        """The file written after the one that was read and before the one that has the name now; None without one."""
        known = []
        for path in self._siblings():
            try:
                status = path.stat()
            except OSError:
                continue
            known.append((path, (status.st_dev, status.st_ino)))
        at = next((i for i, (_, identity) in enumerate(known) if identity == cursor.identity), None)
        if at is None:
            return None
        pattern = _pattern(known[at][0])
        for path in (path for path, _ in known[at + 1 :] if _pattern(path) == pattern):
            if path.suffix in COMPRESSED:
                message = f"{path}: is compressed already, and its rows are not read."
                events.append(FollowEvent.of(Happened.LOST, message))
                continue
            try:
                file = _opened(path)
            except OSError as error:
                message = f"{path}: cannot be opened ({error.strerror or error}), and its rows are not read."
                events.append(FollowEvent.of(Happened.LOST, message))
                continue
            if _size(file):
                return file
            file.close()
        return None

    def _siblings(self) -> list[Path]:
        """Files beside the path whose name begins with its own, the oldest first: ``.2`` before ``.1``."""
        name = self.path.name
        try:
            found = [p for p in self.path.parent.iterdir() if p.name != name and p.name.startswith(name)]
        except OSError:
            return []
        numbered = [p for p in found if re.fullmatch(r"\.\d{1,4}(\.\w+)?", p.name[len(name) :])]
        others = sorted((p for p in found if p not in numbered), key=lambda p: natural(p.name))
        return [*others, *sorted(numbered, key=lambda p: natural(p.name), reverse=True)]

    def _read(self, cursor: Cursor, file: FileIO, size: int) -> Look:
        file.seek(cursor.offset)
        data = file.read(size)
        if not data:
            return Look(cursor=cursor)
        after = cursor.after(data)
        return Look(cursor=after, data=data, more=_size(file) > after.offset)

    def _cut_off(self, events: list[FollowEvent], same: bool) -> None:
        what = "was cut" if same else "is another file, and the one read before was not found"
        message = f"{self.path}: {what}. Rows written between the last look and then are not known."
        events.append(FollowEvent.of(Happened.LOST, message))

    def _hold(self, file: FileIO) -> None:
        if self._held is not None and self._held is not file:
            self._held.close()
        self._held = file

    def _say(self, events: list[FollowEvent], kind: Happened, message: str) -> None:
        """Tell what lasts once."""
        if self._said != kind:
            events.append(FollowEvent.of(kind, message))
            self._said = kind

    def _readable(self, events: list[FollowEvent]) -> None:
        if self._said in (Happened.GONE, Happened.UNREADABLE):
            events.append(FollowEvent.of(Happened.BACK, f"{self.path}: can be read again."))
            self._said = ""


def _opened(path: Path) -> FileIO:
    """A plain file, opened; not a pipe, at which opening waits.

    Raises:
        OSError: It cannot be opened, or is no plain file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "it is no plain file")
    return FileIO(os.fspath(path), "rb")


def _pattern(path: Path) -> str:
    """A name without its numbers and its compression: equal for the files of one rotation."""
    name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED else path.name
    return re.sub(r"\d+", "#", name)


def _identity(file: FileIO) -> Identity:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


def _size(file: FileIO) -> int:
    return file.seek(0, os.SEEK_END)


def _agreement(file: FileIO, cursor: Cursor) -> str:
    """Whether a file begins with what was read: ``same``, ``shorter`` (as far as it goes) or ``other``."""
    if not cursor.offset:
        return "same"
    file.seek(0)
    head = file.read(len(cursor.head))
    if head != cursor.head[: len(head)]:
        return "other"
    if _size(file) < cursor.offset:
        return "shorter"
    file.seek(cursor.offset - len(cursor.last))
    return "same" if file.read(len(cursor.last)) == cursor.last else "other"
