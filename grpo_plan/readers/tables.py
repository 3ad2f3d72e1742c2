"""The general reader: any table of rollouts or counts whose columns have usual names, or are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.readers.columns import ColumnMap, RatesAlone, Sample, find_columns
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.files import InputFile, Sniffed, as_path, open_sniffed
from grpo_plan.readers.jsonlines import (
    RowShape,
    count_rows,
    read_blocks,
    read_json_array,
    read_json_lines,
    read_whole,
    sample_of,
)
from grpo_plan.readers.rates import RateReading, beyond_one
from grpo_plan.readers.values import distinct


def count_file(
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    """Count a file into the tally."""
    with open_sniffed(file) as sniffed:
        count_sniffed(sniffed, file, given, options, tally, progress)


def count_sniffed(
    sniffed: Sniffed,
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    """Count an opened file into the tally."""
    if sniffed.kind in ("jsonl", "json-array"):
        _count_json(sniffed, file, given, options, tally, progress)
        return
    with as_path(sniffed, file) as path, engine_errors(file.name, sniffed.kind):
        count_native(_scan(sniffed, path), file.name, given, options, tally)


def _count_json(
    sniffed: Sniffed,
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    name, path = file.name, None if sniffed.compressed else file.path
    if path is not None and not path.is_file():
        path = None  # a pipe cannot be read twice
    if sniffed.kind == "json-array":
        data = read_whole(sniffed.stream, name, compressed=sniffed.compressed)
        blocks: Iterator[bytes] = iter(())
    else:
        blocks = read_blocks(sniffed.stream, name)
        data = next(blocks)
    sample = sample_of(data, name, sniffed.kind, path)
    for column in options.where:
        if column not in sample.columns:
            raise PilotFormatError(f"{name}: no column {column!r} (asked for by --where). Columns: {sample.listing}.")
    roles = _roles(sample, given, options, tally)
    shape = RowShape.of([*roles.roles().values(), *options.where])
    if sniffed.kind == "json-array":
        batches = read_json_array(data, name, shape)
    else:
        blocks = chain([data], blocks)
        batches = read_json_lines(blocks, name, shape, options, tally, path=path, progress=progress)
    del data
    count_rows(batches, shape, roles, options, tally)


def _roles(sample: Sample, given: Mapping[str, str | None], options: ReadOptions, tally: Tally) -> ColumnMap:
    """Find the columns, and keep what was noticed."""
    roles, notes = find_columns(sample, given, constant_n=options.rollouts_per_prompt is not None)
    rates = roles.pass_rate or roles.fail_rate
    if rates is not None and options.rate_column is None and options.rates == RateReading():
        if roles.fail_rate is not None or any(beyond_one(v) for v in sample.columns[rates]):
            raise RatesAlone(
                f"{sample.name}: {rates} may hold percentages or rates of failures, which a look at all of it would "
                "tell. Give a file, or pass rates from 0 to 1."
            )
    tally.notes.extend(notes)
    if options.pass_threshold is not None and roles.shape in ("wide", "histogram"):
        tally.notes.append(f"{sample.name}: pass_threshold was given, but counts need none.")
    if options.histogram and roles.response_tokens is not None:
        tally.notes.append(f"{sample.name}: response lengths are left out: a histogram has none.")
    tally.policy_column = roles.policy
    tally.where_seen.update({c: distinct(sample.columns[c]) for c in options.where if c in sample.columns})
    return roles


def count_native(
    native: object, name: str, given: Mapping[str, str | None], options: ReadOptions, tally: Tally
) -> None:
    """Count a frame of any engine into the tally."""
    from grpo_plan.readers.dask_frames import count_dask, is_dask, sample_of_dask
    from grpo_plan.readers.engines import count_remote, is_remote
    from grpo_plan.readers.frames import count_frame, frame_of, sample_of_frame

    if is_dask(native):
        sample = sample_of_dask(native, name)
        _refuse_empty(sample)
        count_dask(native, name, _roles(sample, given, options, tally), options, tally)
        return
    frame = frame_of(native, name)
    sample = sample_of_frame(frame, name)
    _refuse_empty(sample)
    roles = _roles(sample, given, options, tally)
    if is_remote(frame):
        count_remote(frame.lazy(), name, roles, options, tally)
    else:
        count_frame(frame, name, roles, options, tally)


def _refuse_empty(sample: Sample) -> None:
    if not sample.columns or not len(next(iter(sample.columns.values()))):
        raise PilotFormatError(f"{sample.name}: has no rows. A pilot needs at least one.")


def _scan(sniffed: Sniffed, path: Path) -> object:
    import polars as pl

    if sniffed.kind == "parquet":
        return pl.scan_parquet(path, glob=False)
    if sniffed.kind == "arrow":
        return pl.scan_ipc(path, glob=False)
    if sniffed.kind == "arrow-stream":
        return pl.read_ipc_stream(path)
    return pl.scan_csv(path, separator=sniffed.separator, infer_schema=False, glob=False)


@contextmanager
def engine_errors(name: str, kind: str) -> Iterator[None]:
    """Errors of the table engine as one line; its panics too, which are no Exceptions."""
    import narwhals as nw
    import polars as pl

    shown = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow", "arrow-stream": "Arrow"}.get(kind, kind)
    try:
        yield
    except GrpoPlanError:
        raise
    except (pl.exceptions.PolarsError, nw.exceptions.NarwhalsError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:160].rstrip(".")
        if "utf-8" in reason.lower():
            what = "is not UTF-8 text. Convert it, e.g. with iconv -f LATIN1 -t UTF-8."
        elif "more fields" in reason:
            what = "a row has more fields than the header. Check the quotes and the separator."
        else:
            what = f"cannot be read as {shown} ({reason}). Is it complete?"
        raise PilotFormatError(f"{name}: {what}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PilotFormatError(
            f"{name}: the table engine failed on this {shown} file. Convert it, e.g. to CSV."
        ) from None
