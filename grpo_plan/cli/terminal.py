"""What the terminal can show: its width, and whether in colour."""

from __future__ import annotations

import os
import sys
from typing import TextIO

PIPE_WIDTH = 80  # columns of an answer that goes to a file or another program
LEAST_WIDTH = 40
PROSE_WIDTH = 100  # sentences are no wider, however wide the screen
MOST_WIDTH = 400
OFF = ("", "0", "false", "no")


def page_width() -> int:
    """Columns of the page: COLUMNS if set, else those of the terminal; 80 where the answer goes elsewhere."""
    try:
        wanted = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        wanted = 0
    if wanted <= 0:
        try:
            wanted = os.get_terminal_size(sys.stdout.fileno()).columns
        except (AttributeError, OSError, ValueError):
            wanted = PIPE_WIDTH
    return min(max(wanted or PIPE_WIDTH, LEAST_WIDTH), MOST_WIDTH)


def prose_width() -> int:
    """Columns of sentences."""
    return min(page_width(), PROSE_WIDTH)


def colours(stream: TextIO | None) -> bool:
    """Whether a stream is written in colour and bold: on a terminal, unless the environment says otherwise.

    In this order: NO_COLOR (set: no), FORCE_COLOR and CLICOLOR_FORCE (yes, FORCE_COLOR=0: no), TERM=dumb and CLICOLOR=0
    (no).
    """
    environment = os.environ
    if environment.get("NO_COLOR"):
        return False
    if "FORCE_COLOR" in environment and environment["FORCE_COLOR"] != "":
        return environment["FORCE_COLOR"].lower() not in OFF
    if environment.get("CLICOLOR_FORCE", "0").lower() not in OFF:
        return True
    if environment.get("TERM", "") in ("dumb", "unknown") or environment.get("CLICOLOR") == "0":
        return False
    return is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at a stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def moves(stream: TextIO | None) -> bool:
    """Whether a line on a stream can be written over: a terminal that is not dumb."""
    return is_terminal(stream) and os.environ.get("TERM", "") not in ("dumb", "unknown")


def columns_of(stream: TextIO) -> int:
    """Columns of the terminal behind a stream; 80 where there is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    except (AttributeError, OSError, ValueError):
        return PIPE_WIDTH
