"""What a killed watch needs to go on, in one file that is always whole; and stdout where it is a file."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from grpo_plan.cli.watch_rows import Told
from grpo_plan.errors import DomainError
from grpo_plan.readers.follow import RunFollower
from grpo_plan.runs.alerts import AlertBook

VERSION = 1
ANOTHER = "Give another file, or remove it to start anew."


class Stdout:
    """Lines on stdout; where it is a file that is appended to, those after the saved state are not written twice."""

    def __init__(self) -> None:
        self._there: Counter[str] = Counter()

    def write(self, lines: list[str]) -> None:
        """Write whole lines and hand them over."""
        new = []
        for line in lines:
            key = _key(line) if self._there else line
            if self._there[key] > 0:
                self._there[key] -= 1
            else:
                new.append(line)
        if new:
            sys.stdout.write("".join(new))
        sys.stdout.flush()

    def place(self) -> list[int] | None:
        """Device, file and size, where stdout is a file; None elsewhere."""
        try:
            found = os.fstat(sys.stdout.fileno())
        except (OSError, ValueError, AttributeError):
            return None
        return [found.st_dev, found.st_ino, found.st_size] if stat.S_ISREG(found.st_mode) else None

    def go_on(self, place: object) -> None:
        """Learn what was written to the same file after a saved place."""
        now = self.place()
        if now is None or not isinstance(place, list) or place[:2] != now[:2] or not place[2] < now[2]:
            return
        try:
            with open(f"/proc/self/fd/{sys.stdout.fileno()}", "rb") as file:
                file.seek(place[2])
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return
        self._there = Counter(map(_key, text.splitlines(keepends=True)))
        if text and not text.endswith("\n"):
            sys.stdout.write("\n")  # a line that was cut off stays the only broken one


def _key(line: str) -> str:
    """What makes a line the same: of a step, that it is of this step, since what is said of it may become sharper."""
    if '"event": "row"' in line:
        try:
            row = json.loads(line)
        except ValueError:
            return line
        return f"{row.get('step')} {row.get('again')}"
    return line


def save_state(path: Path, follower: RunFollower, book: AlertBook, told: Told, place: list[int] | None) -> None:
    """Write all of it; the file is the old or the new one at any time.

    Raises:
        DomainError: It cannot be written.
    """
    body = {
        "grpo_plan_watch": VERSION, "follow": follower.state(), "alerts": book.state(), "told": told.state(),
        "stdout": place,
    }  # fmt: skip
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(json.dumps(body))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise DomainError(f"--state {path} cannot be written ({error.strerror or error}). Choose another.") from None


def load_state(path: Path, source: str) -> dict[str, Any] | None:
    """What was saved; None where nothing was yet.

    Raises:
        DomainError: The file is no state, or that of another log.
    """
    if not path.exists():
        if not path.parent.is_dir():
            raise DomainError(f"--state {path} cannot be written (no such folder). Choose another place.")
        return None
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or body.get("grpo_plan_watch") != VERSION or not isinstance(body["follow"], dict):
        raise DomainError(f"--state {path} holds no state of grpo-plan watch. {ANOTHER}")
    if body["follow"].get("path") != str(Path(source)):
        raise DomainError(f"--state {path} is that of {body['follow'].get('path')}, not of {source}. {ANOTHER}")
    return body
