"""A line on stderr where a command takes its time, so that nobody takes it for dead."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

PATIENCE = 3.0  # seconds before the line is shown


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show ``what`` and the seconds so far while the body runs, where somebody looks on; the line is wiped at its end.

    >>> with waiting("computing limits"):
    ...     pass
    """
    if not sys.stderr.isatty():
        yield
        return
    done = Event()
    teller = Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: Event) -> None:
    """Once a second after `PATIENCE`, until it is done."""
    seconds, shown = PATIENCE, 0
    while not done.wait(PATIENCE if not shown else 1.0):
        line = f"{what} ({seconds:.0f} s)"
        sys.stderr.write(f"\r{line}")
        sys.stderr.flush()
        seconds, shown = seconds + 1.0, max(shown, len(line))
    if shown:
        sys.stderr.write("\r" + " " * shown + "\r")
        sys.stderr.flush()
