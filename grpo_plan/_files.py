"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(target: Path, content: str | bytes) -> None:
    """Write a file; whoever looks at it, whatever happens, finds the old one or the new one.

    It is written beside its place and then moved there, with the rights of the old file. Where the folder takes no new
    file but the old one can be written to, it is overwritten.

    Args:
        target: Path of the file; a link is followed.
        content: Text, in UTF-8, or bytes.

    Raises:
        OSError: It cannot be written; nothing is left behind.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a.txt", "whole")
    ...     (Path(folder) / "a.txt").read_text(), os.listdir(folder)
    ('whole', ['a.txt'])
    """
    data = content.encode() if isinstance(content, str) else content
    place = Path(os.path.realpath(target))
    beside = place.with_name(f".{place.name[:200]}.{os.getpid()}.part")
    if place.exists() and (not os.access(place, os.W_OK) or not os.access(place.parent, os.W_OK)):
        place.write_bytes(data)
        return
    try:
        beside.write_bytes(data)
        if place.exists():
            beside.chmod(place.stat().st_mode & 0o777)
        beside.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
