"""A file that is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(target: Path, text: str) -> None:
    """Write a file whole or not at all: beside its place, then renamed; nothing is left behind.

    Raises:
        OSError: It cannot be written.
    """
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".grpo-plan-", suffix=target.suffix)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        with contextlib.suppress(OSError):
            os.chmod(name, _mode(target))
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
