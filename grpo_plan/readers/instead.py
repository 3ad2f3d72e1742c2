"""What to say of a source that no reader can use as asked for, but that is known: a log, a dump, data in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpo_plan.errors import DomainError, GrpoPlanError, PilotFormatError
from grpo_plan.readers.discovery import SeveralFormatsError, discover
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import flat

ANY_LOG = "metrics"  # told by names of columns only: weak evidence


def not_a_log(
    error: PilotFormatError, source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], request: ReadRequest
) -> PilotFormatError:
    """The error to raise where a source could not be read as rollouts: that it is a log of metrics, where it is one."""
    if request.format is not None or isinstance(error, SeveralFormatsError):
        return error
    try:
        if discover(source, "pilot", None).format is not None:
            return error
    except GrpoPlanError:
        pass  # the error says why
    try:
        found = discover(source, "run", None)
    except GrpoPlanError:
        return error
    named = any(value is not None for value in request.given.values())
    if found.format is None or (found.format.name == ANY_LOG and named):
        return error
    name = found.files[0].name if len(found.files) == 1 else f"{len(found.files):,} files"
    return PilotFormatError(
        f"{name}: is a log of metrics ({found.format.name}), not rollouts. Look at it with grpo-plan diagnose (in "
        "Python read_run), or give it to plan with --calibrate beside a pilot; a pilot needs rollouts or counts."
    )


def is_paths(source: object) -> bool:
    """Whether a source is a path, or a list of them."""
    if isinstance(source, str | os.PathLike):
        return True
    return isinstance(source, list | tuple) and all(isinstance(item, str | os.PathLike) for item in source)


def rows_of_memory(source: object) -> list[dict[str, Any]]:
    """Rows of a log held in memory: a dataframe, or a list or another iterable of mappings.

    Raises:
        DomainError: It is neither, or holds no row.

    >>> rows_of_memory([{"step": 1, "critic": {"score/mean": 0.5}}])
    [{'step': 1, 'critic/score/mean': 0.5}]
    """
    what = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}".removeprefix("builtins.")
    wanted = "read_run takes a path, paths, a dataframe, or rows as mappings (e.g. list(run.scan_history()) of W&B)"
    rows: list[object]
    if isinstance(source, Mapping):
        raise DomainError(f"{wanted}; got one mapping. Put it into a list.")
    if isinstance(source, list | tuple):
        rows = list(source)
    else:
        import narwhals as nw

        frame = nw.from_native(source, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        if isinstance(frame, nw.DataFrame):
            rows = list(frame.rows(named=True))
        elif isinstance(source, Iterable):
            rows = list(source)
        else:
            raise DomainError(f"{wanted}; got {what}.")
    if not rows:
        raise DomainError(f"{wanted}; got {what} without rows.")
    odd = next((row for row in rows if not isinstance(row, Mapping)), None)
    if odd is not None:
        raise DomainError(f"{wanted}; got {what} that holds {str(odd)[:40]!r}.")
    return [dict(flat(row)) for row in rows if isinstance(row, Mapping)]


def refuse_memory(source: object) -> None:
    """One line where groups are wanted from what is no path.

    Raises:
        DomainError: The source is in memory.
    """
    if not is_paths(source):
        raise DomainError(
            f"read_groups reads the files of a trainer's dump, by path; got {type(source).__name__}. Rollouts in "
            "memory: read_pilot(source) counts them by prompt."
        )
