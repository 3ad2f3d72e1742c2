"""A source that is read anew as a whole when it has changed: documents, event files, databases, rollouts."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from grpo_plan.errors import DomainError, GrpoPlanError, MissingExtraError
from grpo_plan.readers.follow_events import FollowEvent, Happened

T = TypeVar("T")
MAX_FILES = 200_000
SMALL = 8 << 20  # bytes of a source whose content is compared, not only its sizes
RESTLESS = 5  # looks at a source that keeps changing, before it is read all the same
RETRY = 5  # looks after which a source that could not be read is tried again
Signature = tuple[tuple[str, int, int, int, int], ...]


class WholeFollower(Generic[T]):
    """Reads a source again when its files have changed and then stayed as they are for one look.

    Files are compared by name, size, inode and time of change, small ones by their content too: a file system over a
    network may tell an old time or size.
    """

    def __init__(self, path: Path, read: Callable[[], T]) -> None:
        self._path = path
        self._read = read
        self._done: Signature | None = None
        self._seen: Signature | None = None
        self._restless = 0
        self._failed = 0
        self._said = ""
        self.value: T | None = None

    def poll(self, *, now: bool = False) -> tuple[bool, list[FollowEvent]]:
        """Whether the source was read anew, and what happened; ``now`` does not wait until it rests.

        Raises:
            MissingExtraError: An optional dependency is needed.
            DomainError: An argument does not fit the source.
        """
        events: list[FollowEvent] = []
        signature = signature_of(self._path)
        if not signature:
            if self.value is not None:
                self._say(events, Happened.GONE, f"{self._path}: is not there any more. It is waited for.")
            return False, events
        rests = signature == self._seen
        self._seen = signature
        if signature == self._done:
            self._restless = 0
            return False, events
        self._restless += 1
        if self._failed and rests:
            self._failed += 1
            if not now and self._failed <= RETRY:
                return False, events
        elif not (rests or now or self._done is None or self._restless >= RESTLESS):
            return False, events
        return self._try(signature, events), events

    def _try(self, signature: Signature, events: list[FollowEvent]) -> bool:
        try:
            value = self._read()
        except (MissingExtraError, DomainError):  # nothing that passes
            raise
        except GrpoPlanError as error:
            self._failed = 1
            self._say(events, Happened.UNREADABLE, f"{error} It is tried again.")
            return False
        if self._said:
            events.append(FollowEvent.of(Happened.BACK, f"{self._path}: can be read again."))
        self._said, self._failed, self._restless = "", 0, 0
        self.value, self._done = value, signature
        return True

    def _say(self, events: list[FollowEvent], kind: Happened, message: str) -> None:
        if self._said != message:
            events.append(FollowEvent.of(kind, message))
            self._said = message


def signature_of(path: Path) -> Signature:
    """Name, size, inode, time of change and checksum (of small sources, else 0) of the files of a path."""
    found = []
    for file in _files(path):
        try:
            status = file.stat()
        except OSError:
            continue
        found.append((str(file), status.st_size, status.st_ino, status.st_mtime_ns))
    if sum(entry[1] for entry in found) > SMALL:
        return tuple((*entry, 0) for entry in found)
    return tuple((*entry, _checksum(entry[0])) for entry in found)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [p for p in (path, path.with_name(f"{path.name}-wal")) if p.is_file()]
    files: list[Path] = []
    for base, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(base, name) for name in sorted(names) if not name.startswith(".")]
        if len(files) > MAX_FILES:
            break
    return files


def _checksum(name: str) -> int:
    try:
        return zlib.crc32(Path(name).read_bytes())
    except OSError:
        return 0
