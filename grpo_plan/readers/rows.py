"""Rows as Python objects to counts: batches of structs or of columns, of any shape, counted many at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import ReadOptions, Tally, long_cells, nonzero
from grpo_plan.readers.histograms import take_counts
from grpo_plan.readers.selection import apart
from grpo_plan.readers.values import is_missing, list_of, rewards_of

BATCH_ROWS = 200_000


@dataclass(slots=True, kw_only=True)
class RowBatch:
    """Decoded rows, and how to name the place of one of them."""

    rows: Sequence[Any]
    place: Callable[[int], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The struct that rows are decoded into: one field a needed column."""

    row_type: type[Any]
    field_of: Mapping[str, str]

    @classmethod
    def of(cls, columns: Sequence[str]) -> RowShape:
        """A struct of these columns, every one optional."""
        names = {column: f"c{i}" for i, column in enumerate(dict.fromkeys(columns))}
        row = msgspec.defstruct(
            "Row", [(f, Any, None) for f in names.values()], rename={f: c for c, f in names.items()}, gc=False
        )
        return cls(row_type=row, field_of=names)

    def values(self, rows: Sequence[Any], column: str) -> list[Any]:
        """One column of the rows."""
        return list(map(attrgetter(self.field_of[column]), rows))


def count_rows(
    batches: Iterable[RowBatch], shape: RowShape, roles: ColumnMap, options: ReadOptions, tally: Tally
) -> None:
    """Count batches of rows into the tally, many small ones at a time."""
    columns: dict[str, list[Any]] = {role: [] for role in roles.roles()}
    starts: list[int] = []
    places: list[Callable[[int], str]] = []
    size = 0
    for batch in batches:
        rows, place = _kept(batch, shape, options, tally)
        if rows:
            for role, column in roles.roles().items():
                columns[role] += shape.values(rows, column)
            starts.append(size)
            places.append(place)
            size += len(rows)
        if size >= BATCH_ROWS:
            count_columns(columns, roles, options, _joined(starts, places), tally)
            columns, starts, places, size = {role: [] for role in roles.roles()}, [], [], 0
    if size:
        count_columns(columns, roles, options, _joined(starts, places), tally)


def _joined(starts: Sequence[int], places: Sequence[Callable[[int], str]]) -> Callable[[int], str]:
    def place(index: int) -> str:
        part = bisect_right(starts, index) - 1
        return places[part](index - starts[part])

    return place


def _kept(
    batch: RowBatch, shape: RowShape, options: ReadOptions, tally: Tally
) -> tuple[Sequence[Any], Callable[[int], str]]:
    """The rows that the conditions keep."""
    if not options.conditions:
        return batch.rows, batch.place
    kept = list(range(len(batch.rows)))
    for condition in options.conditions:
        before, values = len(kept), shape.values(batch.rows, condition.column)
        if condition.span is not None:
            tally.take_steps((), values)
        kept = [i for i in kept if condition.holds(values[i])]
        tally.dropped.update(nonzero(**{condition.reason: before - len(kept)}))
    return [batch.rows[i] for i in kept], _through(batch.place, kept)


def count_columns(
    columns: Mapping[str, Sequence[Any]],
    roles: ColumnMap,
    options: ReadOptions,
    place: Callable[[int], str],
    tally: Tally,
) -> None:
    """Count a batch of columns (one list of values a role) of any shape into the tally."""
    size, given = len(next(iter(columns.values()))), columns
    if "step" in columns:
        tally.take_steps(columns["step"])
    if options.groups_apart and roles.shape != "histogram":
        columns = apart(columns, roles, tally.rows)
    if roles.shape in ("wide", "histogram"):
        take_counts(columns, roles, options, place, tally)
    elif roles.shape == "long":
        tally.add(long_cells(columns, roles, options, place, tally))
    else:
        columns, row_of = flatten_lists(columns, roles, place, tally)
        tally.repeated_rows = True
        if row_of:
            tally.add(long_cells(columns, roles, options, _through(place, row_of), tally))
            if options.pass_threshold is not None and tally.odd is None:
                tally.lists.take(rewards_of(columns["reward"]), row_of, options.pass_threshold)
            if roles.prompt is not None and tally.odd is None:
                _take_rows(columns["reward"], row_of, options, tally)
    if tally.observer is not None and tally.odd is None:
        tally.observer(given, roles, options, place, tally)
    tally.rows += size


def _take_rows(rewards: Sequence[Any], row_of: Sequence[int], options: ReadOptions, tally: Tally) -> None:
    """Note the counts of rows that hold lists."""
    values = rewards_of(rewards)
    scored = np.isfinite(values)
    n = np.bincount(row_of, weights=scored).astype(np.int64)
    with np.errstate(invalid="ignore"):
        passed = scored & (values >= (1.0 if options.pass_threshold is None else options.pass_threshold))
    k = np.bincount(row_of, weights=passed).astype(np.int64)
    tally.take_rows(n[n > 0], k[n > 0])


def flatten_lists(
    columns: Mapping[str, Sequence[Any]], roles: ColumnMap, place: Callable[[int], str], tally: Tally
) -> tuple[dict[str, list[Any]], list[int]]:
    """One row a rollout from one row a prompt with a list of rewards; also the row each rollout came from."""
    rewards: list[Any] = []
    row_of: list[int] = []
    for i, value in enumerate(columns["reward"]):
        items = list_of(value)
        if items is None and not is_missing(value):
            raise PilotFormatError(f"{place(i)}: {roles.reward} must be a list of rewards; got {str(value)[:40]!r}.")
        if not items:
            tally.dropped["prompts_without_scored_rollouts"] += 1
            continue
        rewards.extend(items)
        row_of.extend([i] * len(items))
    prompts = columns.get("prompt") or [f"row {tally.rows + i + 1}" for i in range(len(columns["reward"]))]
    flat: dict[str, list[Any]] = {"reward": rewards, "prompt": [prompts[i] for i in row_of]}
    for role in ("stratum", "temperature", "policy"):
        if role in columns:
            flat[role] = [columns[role][i] for i in row_of]
    if "response_tokens" in columns:
        refuse_other_lengths(columns, "response_tokens", place, str(roles.response_tokens))
        flat["response_tokens"] = spread(columns["response_tokens"], row_of)
        lists = [list_of(value) is not None for value in columns["response_tokens"]]
        flat["split_tokens"] = [
            value if lists[i] else None for i, value in zip(row_of, flat["response_tokens"], strict=True)
        ]
    return flat, row_of


def spread(beside: Sequence[Any], row_of: Sequence[int]) -> list[Any]:
    """Values beside the rewards: a list of them goes item by item, a single value to every rollout."""
    out, seen, last = [], 0, -1
    for i in row_of:
        seen = seen + 1 if i == last else 0
        last = i
        items = list_of(beside[i])
        out.append(beside[i] if items is None else items[seen] if seen < len(items) else None)
    return out


def refuse_other_lengths(
    columns: Mapping[str, Sequence[Any]], role: str, place: Callable[[int], str], what: str
) -> None:
    """A list beside the rewards must have one item a reward."""
    for i, (rewards, beside) in enumerate(zip(columns["reward"], columns[role], strict=True)):
        items, wanted = list_of(beside), list_of(rewards)
        if items is not None and wanted and len(items) != len(wanted):
            raise PilotFormatError(
                f"{place(i)}: {what} has {len(items)} items for {len(wanted)} rewards. Give one a reward, or a single "
                "value for all."
            )


def _through(place: Callable[[int], str], index_of: Sequence[int]) -> Callable[[int], str]:
    return lambda index: place(index_of[index])
