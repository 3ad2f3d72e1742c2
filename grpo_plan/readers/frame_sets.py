"""Dataframes that hold a data set with pass rates: told by their content, and read as its file would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from grpo_plan.errors import DomainError
from grpo_plan.readers.dask_frames import is_dask
from grpo_plan.readers.engines import is_remote
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.frames import _lists, _polars, frame_of
from grpo_plan.readers.registry import TABLE, format_named
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.source import Candidate, Format

PEEK_ROWS = 50


def set_of_frame(native: object, name: str, request: ReadRequest) -> Format | None:
    """The data set that a dataframe is; None for any other table, and for one that another engine holds.

    Raises:
        DomainError: ``format`` names what is read from files only.
    """
    from grpo_plan.readers.formats.solve_rate_sets import FORMATS

    if request.format is not None and request.format.lower() == TABLE:
        return None
    frame = None if is_dask(native) else frame_of(native, name)
    remote = frame is None or is_remote(frame)
    if request.format is not None:
        chosen = format_named(request.format)
        if chosen is None or chosen.name not in {f.name for f in FORMATS}:
            raise DomainError(
                f"format {request.format!r} is read from files, and a dataframe was given. Give the files of the tool, "
                f"or leave out format ({TABLE!r} reads any table)."
            )
        if remote:
            raise DomainError(
                f"format {request.format!r} is read from a dataframe in memory; got one of another engine. Give "
                "frame.to_pandas() or the like, or its files."
            )
        return chosen
    if frame is None or remote or not frame.collect_schema().names():
        return None
    columns = _lists(frame.head(PEEK_ROWS))
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    start = Candidate(file=InputFile(name=name, path=None), kind="jsonl", rows=rows, columns=dict.fromkeys(columns, ""))
    return next((found for found in FORMATS if found.looks_like(start)), None)


@contextmanager
def as_file(native: object, name: str) -> Iterator[InputFile]:
    """A dataframe as a Parquet file for as long as it is read."""
    import polars as pl

    with TemporaryDirectory() as folder:
        path = Path(folder) / "frame.parquet"
        frame = frame_of(native, name)
        if frame.implementation.is_polars():
            table = _polars(frame)
        else:  # text next to NaN, as pandas has it, becomes text
            table = pl.DataFrame([pl.Series(n, values, strict=False) for n, values in _lists(frame).items()])
        table.write_parquet(path)
        yield InputFile(name=name, path=path)
