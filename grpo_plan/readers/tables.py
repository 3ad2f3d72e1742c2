"""The general reader: any table of rollouts or counts whose columns have usual names, or are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.readers.addresses import address_errors, scan_address
from grpo_plan.readers.chunks import count_chunks, sample_of_scan, scan_chunks
from grpo_plan.readers.columns import ColumnMap, RatesAlone, Sample, find_columns
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.csvtable import CsvTable
from grpo_plan.readers.files import InputFile, Sniffed, as_path, open_sniffed
from grpo_plan.readers.jsonarray import JsonArray
from grpo_plan.readers.jsonlines import RowShape, count_rows, read_blocks, read_json_lines, sample_of
from grpo_plan.readers.jsontasks import count_later
from grpo_plan.readers.rates import RateReading, beyond_one
from grpo_plan.readers.selection import selected, step_column
from grpo_plan.readers.values import distinct, is_missing, number_of, shown

if TYPE_CHECKING:
    import polars as pl


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
    if sniffed.kind != "jsonl":
        tally.finish()
    if sniffed.kind in ("jsonl", "json-array"):
        _count_json(sniffed, file, given, options, tally, progress)
        return
    with engine_errors(file.name, sniffed.kind):
        if sniffed.kind == "csv":
            table = CsvTable(sniffed.stream, file.name, sniffed.separator)
            roles, needed, options = _needed(table.sample(), given, options, tally)
            count_chunks(table.chunks(needed, options, tally, progress), file.name, roles, options, tally)
            return
        with as_path(sniffed, file) as path:
            scan = _scan(sniffed, path)
            roles, needed, options = _needed(sample_of_scan(scan, file.name), given, options, tally)
            chunks = scan_chunks(scan, needed, file.name, path.stat().st_size, progress)
            count_chunks(chunks, file.name, roles, options, tally)


def _count_json(
    sniffed: Sniffed,
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    name = file.name
    if sniffed.kind == "json-array":
        array = JsonArray(sniffed.stream, name)
        roles, needed, options = _needed(array.sample(), given, options, tally)
        shape = RowShape.of(needed)
        count_rows(array.batches(shape, progress), shape, roles, options, tally)
        return
    path = None if sniffed.compressed or file.path is None or not file.path.is_file() else file.path
    blocks = read_blocks(sniffed.stream, name)
    first = list(islice(blocks, 1))
    roles, needed, options = _needed(sample_of(b"".join(first), name, path), given, options, tally)
    if count_later(file, sniffed, needed, roles, options, tally, progress):
        return
    shape = RowShape.of(needed)
    batches = read_json_lines(chain(first, blocks), name, shape, options, tally, path=path, progress=progress)
    count_rows(batches, shape, roles, options, tally)


def _refuse_two_sizes(sample: Sample, roles: ColumnMap, constant: int | None) -> None:
    """One line where a column of rollouts and the number that was given for all prompts disagree."""
    if constant is None or roles.n is None or roles.shape not in ("wide", "histogram"):
        return
    other = next((v for v in sample.columns[roles.n] if not is_missing(v) and number_of(v) != constant), None)
    if other is not None:
        raise PilotFormatError(
            f"{sample.name}: column {roles.n!r} gives the rollouts of a prompt, e.g. {shown([other])}, and "
            f"--rollouts-per-prompt (rollouts_per_prompt=) says {constant:,}. Leave that out, or name another column "
            "with --n-column (n=)."
        )


def _roles(
    sample: Sample, given: Mapping[str, str | None], options: ReadOptions, tally: Tally
) -> tuple[ColumnMap, ReadOptions]:
    """Find the columns, and which rows to keep by them; keep what was noticed."""
    roles, notes = find_columns(sample, given, constant_n=options.rollouts_per_prompt is not None)
    _refuse_two_sizes(sample, roles, options.rollouts_per_prompt)
    step, step_notes = step_column(sample, roles, asked=options.steps is not None)
    roles = replace(roles, step=step)
    rates = roles.pass_rate or roles.fail_rate
    if rates is not None and options.rate_column is None and options.rates == RateReading():
        if roles.fail_rate is not None or any(beyond_one(v) for v in sample.columns[rates]):
            raise RatesAlone(
                f"{sample.name}: {rates} may hold percentages or rates of failures, which a look at all of it would "
                "tell. Give a file, or pass rates from 0 to 1."
            )
    tally.notes.extend([*notes, *(n for n in step_notes if not any(f"column {c!r}" in n for c in options.where))])
    if options.pass_threshold is not None and roles.shape in ("wide", "histogram"):
        tally.notes.append(f"{sample.name}: pass_threshold was given, but counts need none.")
    if options.histogram and roles.response_tokens is not None:
        tally.notes.append(f"{sample.name}: response lengths are left out: a histogram has none.")
    tally.policy_column = roles.policy
    tally.where_seen.update({c: distinct(sample.columns[c]) for c in options.where if c in sample.columns})
    return roles, replace(options, selected=selected(sample, roles, options.steps, options.split))


def count_address(address: str, given: Mapping[str, str | None], options: ReadOptions, tally: Tally) -> None:
    """Count the table at an address into the tally."""
    tally.finish()
    with address_errors(address):
        scan, in_parts = scan_address(address, options.storage_options)
        if not in_parts:
            count_native(scan, address, given, options, tally)
            return
        roles, needed, options = _needed(sample_of_scan(scan, address), given, options, tally)
        count_chunks(scan_chunks(scan, needed, address), address, roles, options, tally)


def _needed(
    sample: Sample, given: Mapping[str, str | None], options: ReadOptions, tally: Tally
) -> tuple[ColumnMap, list[str], ReadOptions]:
    """Roles of the columns of a file's table, the columns that reading it needs, and the rows to keep."""
    if not sample.columns or not len(next(iter(sample.columns.values()))):
        raise PilotFormatError(f"{sample.name}: has no rows. A pilot needs at least one.")
    for column in options.where:
        if column not in sample.columns:
            raise PilotFormatError(
                f"{sample.name}: no column {column!r} (asked for by --where). Columns: {sample.listing}."
                f"{did_you_mean(column, sample.columns)}"
            )
    roles, options = _roles(sample, given, options, tally)
    return roles, list(dict.fromkeys([*roles.roles().values(), *(c.column for c in options.conditions)])), options


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
        roles, options = _roles(sample, given, options, tally)
        count_dask(native, name, roles, options, tally)
        return
    frame = frame_of(native, name)
    sample = sample_of_frame(frame, name)
    _refuse_empty(sample)
    roles, options = _roles(sample, given, options, tally)
    if is_remote(frame):
        count_remote(frame.lazy(), name, roles, options, tally)
    else:
        count_frame(frame, name, roles, options, tally)


def _refuse_empty(sample: Sample) -> None:
    if not sample.columns or not len(next(iter(sample.columns.values()))):
        raise PilotFormatError(f"{sample.name}: has no rows. A pilot needs at least one.")


def _scan(sniffed: Sniffed, path: Path) -> pl.LazyFrame:
    import polars as pl

    if sniffed.kind == "parquet":
        return pl.scan_parquet(path, glob=False)
    if sniffed.kind == "arrow":
        return pl.scan_ipc(path, glob=False)
    return pl.read_ipc_stream(path).lazy()


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
