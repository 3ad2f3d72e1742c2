"""Dask tables: each partition is a pandas table, so it is counted by the same code, where it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.cells import KEYS, SUMS, TOKEN_SUMS, single_values, taken_notes, with_token_sums
from grpo_plan.readers.columns import ColumnMap, Sample
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.engines import MOST_PROMPTS, say_too_many
from grpo_plan.readers.frames import count_frame, frame_of, sample_of_frame
from grpo_plan.readers.histograms import CELL_KEYS, cells_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

ROWS = "rows read"  # stands where a reason of rows left out does
MOST_REASONS = 100
SAMPLE_ROWS = 500


def is_dask(source: object) -> bool:
    """Whether a source is a Dask table."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(source, "map_partitions")


def sample_of_dask(table: Any, name: str) -> Sample:
    """Column names and values of the first rows."""
    for part in table.partitions:
        first = part.map_partitions(_head, SAMPLE_ROWS).compute()
        if len(first):
            break
    return sample_of_frame(frame_of(first, name), name)


def _head(part: pd.DataFrame, rows: int) -> pd.DataFrame:
    return part.head(rows)


def count_dask(table: Any, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Count a Dask table into the tally: partitions by `count_frame`, prompts that lie in several by Dask.

    Raises:
        PilotFormatError: A column is missing, a reward or count is none, or rows must be read in order.
    """
    for column in options.where:
        if column not in table.columns:
            listing = ", ".join(map(str, table.columns))
            raise PilotFormatError(
                f"{name}: no column {column!r} (asked for by --where). Columns: {listing}."
                f"{did_you_mean(column, table.columns)}"
            )
    needed = list(dict.fromkeys([*roles.roles().values(), *(c.column for c in options.conditions)]))
    if tally.observer is not None:
        _bring_rows(table[needed], name, roles, options, tally)
        return
    starts = [0]
    if roles.prompt is None or options.groups_apart:  # prompts are named by their row
        starts += np.cumsum(table[needed[0]].map_partitions(len).compute()).tolist()
    parts = table[needed].map_partitions(_counts, name, roles, options, starts, meta=_table([], SUMS))
    if roles.shape == "histogram":
        _take_cells(parts.groupby("key").sum().compute(), tally)
        return
    if not options.histogram:
        sums = parts.groupby("key").sum(split_out=table.npartitions)
        limit = MOST_PROMPTS + MOST_REASONS
        if options.histogram is None:
            sums = sums.map_partitions(_head, limit).repartition(npartitions=1).map_partitions(_head, limit)
        sums = sums.compute()
        if options.histogram is False or len(sums) < limit:
            tally.add(_prompts(sums, tally))
            return
        say_too_many(name, tally)
    cells = _histogram(parts, {}, table.npartitions)
    fill = single_values(_cells(cells, Tally()))
    tally.notes += taken_notes(name, fill)
    _take_cells(_histogram(parts, fill, table.npartitions) if fill else cells, tally)


def _bring_rows(table: Any, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Read every row here, where the rows themselves are looked at; refused if they are many."""
    rows = len(table)
    if rows > MOST_PROMPTS:
        raise PilotFormatError(
            f"{name}: {rows:,} rows are too many to bring here, and rates or single rollouts are looked at row by row. "
            "Write the table to files first, or give counts n and k."
        )
    count_frame(frame_of(table.compute(), name), name, roles, options, tally)


def _table(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> pd.DataFrame:
    """A pandas table of keys (as text) and numbers."""
    import pandas as pd

    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(names) + 1)
    numbers = {
        name: pd.Series(list(values), dtype="float64" if name in TOKEN_SUMS[::2] else "int64")
        for name, values in zip(names, columns[1:], strict=True)
    }
    return pd.DataFrame({"key": pd.Series(list(columns[0]), dtype="object"), **numbers})


def _counts(
    part: pd.DataFrame,
    name: str,
    roles: ColumnMap,
    options: ReadOptions,
    starts: Sequence[int],
    partition_info: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Counts of one partition, its rows and what was left out, each with its key."""
    number = 0 if partition_info is None else int(partition_info["number"])
    start = starts[number] if len(starts) > 1 else 0
    tally = Tally(rows=start)
    if len(part):
        place = f"{name}, partition {number}" if number else name
        count_frame(frame_of(part, place), place, roles, replace(options, histogram=None), tally)
        if tally.odd is not None:
            raise tally.odd.error(())
    zeros = [0] * (len(SUMS) - 1)
    rows: list[list[Any]] = [[json.dumps([ROWS]), tally.rows - start, *zeros]]
    rows += [[json.dumps([reason]), count, *zeros] for reason, count in tally.dropped.items()]
    rows += [[json.dumps([kind, step]), 0, *zeros] for kind in ("steps", "steps_seen") for step in getattr(tally, kind)]
    rows += [[json.dumps([ROWS, n, k]), count, *zeros] for (n, k), count in tally.row_counts.items()]
    for cells in tally.parts:
        rows += [[json.dumps(row[: len(KEYS)]), *row[len(KEYS) :]] for row in with_token_sums(cells).iter_rows()]
    for cells in tally.histogram:
        rows += [[json.dumps(row[:-1]), row[-1], *zeros] for row in cells.select(*CELL_KEYS, "prompts").iter_rows()]
    return _table(rows, SUMS)


def _histogram(parts: Any, fill: Mapping[str, Any], partitions: int) -> pd.DataFrame:
    """Number of prompts of each cell, and what was left out, added up in Dask."""
    if fill:
        parts = parts.map_partitions(_filled, fill, meta=_table([], SUMS))
    sums = parts.groupby("key").sum(split_out=partitions)
    cells = sums.map_partitions(_to_cells, meta=_table([], ("n",)))
    found: pd.DataFrame = cells.groupby("key").sum().compute()
    return found


def _filled(part: pd.DataFrame, fill: Mapping[str, Any]) -> pd.DataFrame:
    """Keys with the only temperature or model where they have none."""
    keys = []
    for key in map(json.loads, part["key"]):
        if len(key) == len(KEYS):
            key = [fill.get(role) if value is None else value for role, value in zip(KEYS, key, strict=True)]
        keys.append(json.dumps(key))
    return part.assign(key=keys)


def _to_cells(sums: pd.DataFrame) -> pd.DataFrame:
    """One prompt in its cell for each row of counts; rows of what was left out as they are."""
    rows = []
    for key, n, k in zip(map(json.loads, sums.index), sums["n"], sums["k"], strict=True):
        counted = len(key) == len(KEYS)
        rows.append([json.dumps([*key[1:], int(n), int(k)] if counted else key), 1 if counted else int(n)])
    return _table(rows, ("n",))


def _read(sums: pd.DataFrame, size: int, tally: Tally) -> list[tuple[list[Any], list[Any]]]:
    """Key and numbers of each row that counts; what was read and left out goes into the tally."""
    rows = []
    for text, *numbers in zip(sums.index, *(sums[c].tolist() for c in sums.columns), strict=True):
        key = json.loads(text)
        if len(key) == size:
            rows.append((key, numbers))
        elif len(key) == 2:
            getattr(tally, key[0]).add(key[1])
        elif len(key) == 3:
            tally.row_counts[key[1], key[2]] += numbers[0]
        elif key == [ROWS]:
            tally.rows += numbers[0]
        else:
            tally.dropped[key[0]] += numbers[0]
    return rows


def _prompts(sums: pd.DataFrame, tally: Tally) -> pl.DataFrame:
    import polars as pl

    rows = [(*key, *numbers) for key, numbers in _read(sums[list(SUMS)], len(KEYS), tally)]
    kinds = {c: pl.Float64 if c in ("temperature", *TOKEN_SUMS[::2]) else pl.Int64 for c in ("temperature", *SUMS)}
    return pl.DataFrame(rows, schema={c: kinds.get(c, pl.String) for c in (*KEYS, *SUMS)}, orient="row").sort(KEYS)


def _cells(sums: pd.DataFrame, tally: Tally) -> pl.DataFrame:
    rows = [(*key, numbers[0]) for key, numbers in _read(sums[["n"]], len(CELL_KEYS), tally)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(CELL_KEYS) + 1)
    return cells_of(dict(zip((*CELL_KEYS, "prompts"), columns, strict=True)))


def _take_cells(sums: pd.DataFrame, tally: Tally) -> None:
    cells = _cells(sums, tally)
    if cells.height:
        tally.histogram.append(cells)
