"""A line on stderr where a command takes its time, so that nobody takes it for dead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from grpo_plan.cli.terminal import columns_of, moves

PATIENCE = 3.0  # seconds before the line is shown


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show ``what`` and the seconds so far while the body runs, where somebody looks on; the line is wiped at its end.

    >>> with waiting("computing limits"):
    ...     pass
    """
    if not moves(sys.stderr):
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


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A function that shows how much is done, where somebody looks on, else None; the line is wiped at the end.

    >>> with counting("simulating") as progress:
    ...     progress is None
    True
    """
    if not moves(sys.stderr):
        yield None
        return
    shown, began = "", monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        line = f"{what} {100 * done // max(total, 1):3d} % ({monotonic() - began:.0f} s)"
        if line != shown:
            sys.stderr.write(f"\r{line}")
            sys.stderr.flush()
            shown = line

    try:
        yield show
    finally:
        sys.stderr.write(f"\r{'':{len(shown)}}\r")
        sys.stderr.flush()


def _tell(what: str, done: Event) -> None:
    """Once a second after `PATIENCE`, until it is done."""
    seconds, shown = PATIENCE, 0
    while not done.wait(PATIENCE if not shown else 1.0):
        line = f"{what} ({seconds:.0f} s)"[: max(columns_of(sys.stderr) - 1, 1)]
        sys.stderr.write(f"\r{line}")
        sys.stderr.flush()
        seconds, shown = seconds + 1.0, max(shown, len(line))
    if shown:
        sys.stderr.write("\r" + " " * shown + "\r")
        sys.stderr.flush()
