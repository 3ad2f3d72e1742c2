"""Tables of which a row is a cell, many prompts with the same n and k, and the pilot of such cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from grpo_plan.errors import PilotError, PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers.cells import single_values, taken_notes, with_values
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import ReadOptions, Tally, wide_cells
from grpo_plan.readers.counts import successes, whole
from grpo_plan.readers.values import is_missing, number_of, shown, text_of

if TYPE_CHECKING:
    import polars as pl

CELL_KEYS = ("stratum", "temperature", "policy", "n", "k")
NO_STRATUM = "(none)"


def take_counts(
    columns: Mapping[str, Sequence[Any]],
    roles: ColumnMap,
    options: ReadOptions,
    place: Callable[[int], str],
    tally: Tally,
) -> None:
    """Add a batch whose rows carry counts: of one prompt, or of many alike."""
    if roles.shape == "histogram":
        if tally.observer is not None and options.rate_column is None:
            raise PilotFormatError(f"{place(0)}: a histogram has no single rollouts to check. Give one row a rollout.")
        tally.histogram.append(histogram_cells(columns, roles, options, place, tally))
    else:
        tally.add(wide_cells(columns, roles, options, place, tally))


def histogram_cells(
    columns: Mapping[str, Sequence[Any]],
    roles: ColumnMap,
    options: ReadOptions,
    place: Callable[[int], str],
    tally: Tally,
) -> pl.DataFrame:
    """Cells of a batch with one row a cell: n, k (or a pass rate) and the number of prompts."""
    size = len(next(iter(columns.values())))
    n = columns["n"] if options.rollouts_per_prompt is None else [options.rollouts_per_prompt] * size
    rates = columns.get("pass_rate", columns.get("fail_rate"))
    given = columns["k"] if rates is None else rates
    names = (
        roles.n or "rollouts per prompt",
        str(roles.pass_rate or roles.fail_rate or roles.k),
        str(roles.prompt_count),
    )
    rows: dict[str, list[Any]] = {key: [] for key in (*CELL_KEYS, "prompts")}
    if options.rate_column is not None and rates is not None:  # only a look at the rates
        options.rate_column.add(rates)
        size = 0
    for i in range(size):
        here = partial(place, i)
        if is_missing(columns["prompt_count"][i]):
            tally.dropped["cells_without_a_number_of_prompts"] += 1
            continue
        prompts = _prompts(columns["prompt_count"][i], here, names[2])
        if is_missing(n[i]) or is_missing(given[i]):
            tally.dropped["prompts_with_missing_counts"] += prompts
            continue
        total = whole(n[i], here, names[0])
        if rates is None:
            passes = whole(given[i], here, names[1])
        else:
            passes = successes(given[i], total, here, names[1], options.rates)
        if passes > total:
            raise PilotFormatError(
                f"{place(i)}: {names[1]} = {passes:,} exceeds {names[0]} = {total:,}. Swapped columns? "
                "Name them with --k-column and --n-column (k=, n=)."
            )
        for role in ("stratum", "policy"):
            rows[role].append(text_of(columns[role][i]) if role in columns else None)
        rows["temperature"].append(number_of(columns["temperature"][i]) if "temperature" in columns else None)
        for key, value in (("n", total), ("k", passes), ("prompts", prompts)):
            rows[key].append(value)
    return cells_of(rows)


def _prompts(value: object, place: Callable[[], str], name: str) -> int:
    number = None if isinstance(value, bool) else number_of(value)
    if number is None or number < 0 or number != int(number):
        raise PilotFormatError(f"{place()}: {name} must be a whole number of at least 0; got {shown([value])}.")
    return int(number)


def cells_of(rows: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """Columns as a table of cells of fixed types."""
    import polars as pl

    kinds = {"stratum": pl.String, "policy": pl.String, "temperature": pl.Float64}
    return pl.DataFrame(
        {key: pl.Series(key, list(rows[key]), dtype=kinds.get(key, pl.Int64)) for key in (*CELL_KEYS, "prompts")}
    )


def histogram_pilot(tally: Tally, name: str) -> Pilot:
    """The Pilot of all cells read.

    Raises:
        PilotFormatError: Some tables hold cells and some prompts, several policies, or nothing was read.
    """
    import polars as pl

    if tally.parts:
        raise PilotFormatError(
            f"{name}: some tables hold a histogram and some single prompts, so prompts of both could not be added up. "
            "Read them apart, and see Pilot.merge."
        )
    cells = pl.concat(tally.histogram)
    only = single_values(cells)
    cells = with_values(cells, only)
    tally.notes += taken_notes(name, only)
    policies = tally.policies = cells["policy"].drop_nulls().unique(maintain_order=True).to_list()
    if len(policies) > 1:
        raise PilotFormatError(
            f"{name}: rollouts of {len(policies)} models ({shown(policies)}); a pilot describes one. "
            f"Keep one with --where '{tally.policy_column}={policies[0]}'."
        )
    keys = list(CELL_KEYS)
    cells = cells.group_by(keys, maintain_order=True).agg(pl.col("prompts").sum())
    named = cells["stratum"].null_count() < cells.height
    known = cells["temperature"].null_count() < cells.height
    try:
        return Pilot.from_histogram(
            cells["n"].to_numpy(),
            cells["k"].to_numpy(),
            cells["prompts"].to_numpy(),
            stratum=cells["stratum"].fill_null(NO_STRATUM).to_list() if named else None,
            temperature=cells["temperature"].to_numpy() if known else None,
            dropped=dict(tally.dropped),
            notes=tuple(tally.notes),
        )
    except PilotError as error:
        raise PilotFormatError(f"{name}: {error}") from None
