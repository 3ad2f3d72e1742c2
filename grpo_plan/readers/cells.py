"""Cells: counts by prompt, part, temperature and model. Rows are grouped by a hash of their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl

KEYS = ("prompt", "stratum", "temperature", "policy")
COUNTS = ("n", "k")
TOKEN_SUMS = ("tokens", "token_rows", "pass_tokens", "pass_token_rows", "fail_tokens", "fail_token_rows")
SUMS = (*COUNTS, *TOKEN_SUMS)
KEY, FIRST = "__key__", "__first__"
HALF = 1 << 31
EXACT = 2.0**53


def sums_by_key(frame: pl.DataFrame, keys: Sequence[str], sums: Sequence[str]) -> pl.DataFrame:
    """Sums of the rows with equal keys, in order of first appearance; `FIRST` is the first of these rows.

    Keys are compared by a 64-bit hash (two of a million prompts share one with a chance of 3e-8), so that only numbers
    pass through the group-by. Whole numbers are added on every core; others in the order of rows, since their sum
    depends on the order, and one input must always give one result.
    """
    import polars as pl

    key = pl.col(keys[0]).hash(0)
    for seed, column in enumerate(keys[1:], start=1):
        key = key ^ pl.col(column).hash(seed)
    row = pl.int_range(pl.len(), dtype=pl.UInt32).alias(FIRST)
    if set(sums) == set(COUNTS) and int(frame["n"].sum()) < HALF:  # both counts in one number: half the work
        both = frame.lazy().select(key.alias(KEY), row, pl.col("n") + pl.col("k") * HALF)
        grouped = both.group_by(KEY).agg(pl.col(FIRST).min(), pl.col("n").sum()).collect(engine="streaming")
        return grouped.sort(FIRST).select(FIRST, n=pl.col("n") % HALF, k=pl.col("n") // HALF)
    rows = frame.lazy().select(key.alias(KEY), row, *sums)
    if all(_whole(frame[s]) for s in sums):
        added = [pl.col(FIRST).min(), *(pl.col(s).sum() for s in sums)]
        return rows.group_by(KEY).agg(added).collect(engine="streaming").sort(FIRST).drop(KEY)
    numbers = rows.collect()
    _, first, group = np.unique(numbers[KEY].to_numpy(), return_index=True, return_inverse=True)
    totals = {s: np.bincount(group, weights=numbers[s].to_numpy()) for s in sums}
    typed = (pl.Series(s, total).cast(frame.schema[s]) for s, total in totals.items())
    return pl.DataFrame([pl.Series(FIRST, first, dtype=pl.UInt32), *typed]).sort(FIRST)


def _whole(column: pl.Series) -> bool:
    """Whether the sum of a column is exact in any order."""
    if not column.dtype.is_float():
        return True
    return bool((column == column.floor()).all()) and float(column.abs().sum()) < EXACT


def merged(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Cells of several parts as one, in order of first appearance."""
    import polars as pl

    lengths = any(TOKEN_SUMS[0] in part.columns for part in parts)
    sums = SUMS if lengths else COUNTS
    whole = pl.concat([with_token_sums(p) if lengths else p.select(*KEYS, *sums) for p in parts])
    keys = [k for k in KEYS if k == KEYS[0] or whole[k].null_count() < whole.height]
    small = sums_by_key(whole, keys, sums)
    names = whole.select(pl.col(KEYS).gather(small[FIRST]))
    return names.with_columns(_compact(names[KEYS[0]])).hstack(small.drop(FIRST))


def single_values(cells: pl.DataFrame) -> dict[str, Any]:
    """The only known temperature or model, where some rows lack it: they take it."""
    found = {}
    for column in ("temperature", "policy"):
        known = cells[column].drop_nulls().unique()
        if known.len() == 1 and cells[column].null_count():
            found[column] = known[0]
    return found


def with_values(cells: pl.DataFrame, values: Mapping[str, Any]) -> pl.DataFrame:
    """Cells whose missing temperature or model is filled."""
    import polars as pl

    return cells.with_columns(pl.col(column).fill_null(value) for column, value in values.items())


def taken_notes(name: str, values: Mapping[str, Any]) -> list[str]:
    """What is said of rows that took the only temperature."""
    if "temperature" not in values:
        return []
    only = f"{values['temperature']:g}"
    return [
        f"{name}: some rows name no temperature and are taken to be at {only}, as all others. If they are not, keep "
        f"the others alone with --where temperature={only}, by the name of that column."
    ]


def _compact(names: pl.Series) -> pl.Series:
    """The same texts in memory of their own: a view would keep all the texts that they were taken from."""
    return (names + "").alias(names.name)


def with_token_sums(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells with every sum of lengths, 0 where there is none."""
    import polars as pl

    kinds = {c: pl.Int64 if c.endswith("rows") else pl.Float64 for c in TOKEN_SUMS}
    sums = (
        (pl.col(c).cast(kind) if c in cells.columns else pl.lit(0, dtype=kind).alias(c)) for c, kind in kinds.items()
    )
    return cells.select(*KEYS, *COUNTS, *sums)
