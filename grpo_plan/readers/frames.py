"""Tables of any engine, through narwhals: the group-by runs where the data are, only counts come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import ColumnMap, Sample
from grpo_plan.readers.counting import KEYS, TOKEN_SUMS, ReadOptions, Tally, needs_threshold, nonzero, with_token_sums
from grpo_plan.readers.jsonlines import BATCH_ROWS, SAMPLE_ROWS, count_columns
from grpo_plan.readers.selection import MOST_STEPS, Condition
from grpo_plan.readers.values import (
    FAIL_WORDS,
    MISSING_WORDS,
    PASS_WORDS,
    RELATIVE_CLOSENESS,
    number_of,
    text_of,
)

if TYPE_CHECKING:
    import narwhals as nw
    import polars as pl

    Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

REWARD, ODD_TEXT = "__grpo_plan_reward__", "__grpo_plan_odd_text__"


def frame_of(source: object, name: str) -> Frame:
    """A narwhals frame of any dataframe it accepts.

    Raises:
        PilotFormatError: The object is no dataframe, or a column name is no text.
    """
    import narwhals as nw

    try:
        frame: Frame = nw.from_native(source)
    except TypeError:
        raise PilotFormatError(
            f"source must be a path, a list of paths, '-' or a dataframe; got {type(source).__name__}."
        ) from None
    for column in frame.collect_schema().names():
        if not isinstance(column, str):
            raise PilotFormatError(f"{name}: column names must be text; got {column!r}. Rename the columns.")
    return frame


def sample_of_frame(frame: Frame, name: str) -> Sample:
    """Column names and values of the first rows."""
    return Sample(name=name, columns=_lists(frame.head(SAMPLE_ROWS)))


def count_frame(frame: Frame, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Count a whole frame into the tally: by expressions in its own engine where its types allow, else by rows."""
    for column in options.where:
        if column not in frame.collect_schema().names():
            listing = ", ".join(frame.collect_schema().names())
            raise PilotFormatError(
                f"{name}: no column {column!r} (asked for by --where). Columns: {listing}."
                f"{did_you_mean(column, frame.collect_schema().names())}"
            )
    prepared = (
        _prepare(frame, roles)
        if roles.shape == "long" and tally.observer is None and not options.groups_apart
        else None
    )
    if prepared is not None and _by_expressions(prepared, name, roles, options, tally):
        return
    needed = list(dict.fromkeys([*roles.roles().values(), *(c.column for c in options.conditions)]))
    _by_rows(frame.select(needed), name, roles, options, tally)


def _by_rows(frame: Frame, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    import narwhals as nw

    whole = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    for start in range(0, len(whole), BATCH_ROWS):
        lists = _lists(whole[start : start + BATCH_ROWS])
        index = list(range(len(next(iter(lists.values())))))
        for condition in options.conditions:
            before, values = len(index), lists[condition.column]
            if condition.span is not None:
                tally.take_steps((), values)
            index = [i for i in index if condition.holds(values[i], text=True)]
            tally.dropped.update(nonzero(**{condition.reason: before - len(index)}))
        if index:
            columns = {role: [lists[column][i] for i in index] for role, column in roles.roles().items()}
            rows = [start + i for i in index]
            count_columns(columns, roles, options, lambda i, rows=rows: f"{name}, row {rows[i] + 1:,}", tally)  # type: ignore[misc]


def _prepare(frame: Frame, roles: ColumnMap) -> Frame | None:
    """The frame with its reward as a number and text that is no reward marked; None if its types need Python."""
    import narwhals as nw

    schema = frame.collect_schema()
    reward, prompt = str(roles.reward), str(roles.prompt)
    native = nw.to_native(frame)
    polars = nw.get_native_namespace(frame).__name__ == "polars"
    if polars:
        native = _numbers_from_text(native, schema, roles)
        if schema[prompt].is_nested():
            native = _named_by_hash(native, prompt)
        frame = nw.from_native(native)
        schema = frame.collect_schema()
    plain = schema[prompt].is_integer() or schema[prompt] in (nw.String, nw.Categorical)
    keys = [c for c in (roles.stratum, roles.policy) if c is not None]
    if not plain or any(schema[c].is_nested() or schema[c] == nw.Object for c in keys):
        return None
    if any(not schema[c].is_numeric() for c in (roles.temperature, roles.response_tokens) if c is not None):
        return None
    if REWARD in schema.names():
        return frame
    kind, column = schema[reward], nw.col(reward)
    if kind == nw.Boolean or kind.is_numeric():
        return frame.with_columns(column.cast(nw.Float64).alias(REWARD), nw.lit(False).alias(ODD_TEXT))
    if kind != nw.String:
        return None
    word = column.str.strip_chars().str.to_lowercase()
    known = [*PASS_WORDS, *FAIL_WORDS, *MISSING_WORDS, "0", "1"]
    passes, fails = word.is_in([*PASS_WORDS, "1"]), word.is_in([*FAIL_WORDS, "0"])
    value = nw.when(passes).then(nw.lit(1.0)).otherwise(nw.when(fails).then(nw.lit(0.0)))
    return frame.with_columns(value.alias(REWARD), (~word.is_in(known)).alias(ODD_TEXT))


def _named_by_hash(native: Any, prompt: str) -> Any:
    """Polars only: chat prompts and other structures replaced by their canonical text, each converted once."""
    import polars as pl

    key = pl.col(prompt).hash()
    names = native.lazy().select(key.alias("key"), pl.col(prompt)).unique("key").collect(engine="streaming")
    texts = [text_of(v.to_list() if isinstance(v, pl.Series) else v) for v in names[prompt]]
    named = pl.when(pl.col(prompt).is_not_null()).then(
        key.replace_strict(names["key"], pl.Series(texts, dtype=pl.String), return_dtype=pl.String)
    )
    return native.with_columns(named.alias(prompt))


def _numbers_from_text(native: Any, schema: Mapping[str, Any], roles: ColumnMap) -> Any:
    """Polars only: text columns (a CSV is read as text) to numbers, words of pass and fail included."""
    import narwhals as nw
    import polars as pl

    extra = []
    if schema[str(roles.reward)] == nw.String:
        word = pl.col(str(roles.reward)).str.strip_chars().str.to_lowercase()
        value = (
            pl.when(word.is_in(list(PASS_WORDS)))
            .then(1.0)
            .when(word.is_in(list(FAIL_WORDS)))
            .then(0.0)
            .otherwise(word.cast(pl.Float64, strict=False))
        )
        odd = value.is_null() & ~word.is_in(list(MISSING_WORDS)) & word.is_not_null()
        extra += [value.alias(REWARD), odd.alias(ODD_TEXT)]
    for column in (roles.temperature, roles.response_tokens):
        if column is not None and schema[column] == nw.String:
            extra.append(pl.col(column).cast(pl.Float64, strict=False))
    return native.with_columns(extra) if extra else native


def _by_expressions(frame: Frame, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> bool:
    """Count in the frame's engine; False if text rewards need Python to be understood."""
    import narwhals as nw

    frame, lost = conditioned(frame, options, tally)
    value = nw.col(REWARD)
    scored = value.is_finite().fill_null(False)
    infinite = value.is_in([float("inf"), float("-inf")]).fill_null(False)
    passed = (value == 1.0) if options.pass_threshold is None else (value >= options.pass_threshold)
    odd = scored & (value != 0.0) & (value != 1.0)
    keys = {
        "prompt": roles.prompt,
        "stratum": roles.stratum,
        "temperature": roles.temperature,
        "policy": roles.policy,
    }
    used = {role: column for role, column in keys.items() if column is not None}
    flat = frame.select(
        *(_key(column, number=role == "temperature").alias(role) for role, column in used.items()),
        scored.cast(nw.Int64).alias("n"),
        (scored & passed).fill_null(False).cast(nw.Int64).alias("k"),
        odd.fill_null(False).cast(nw.Int64).alias("odd"),
        nw.col(ODD_TEXT).fill_null(False).cast(nw.Int64).alias("odd_text"),
        infinite.cast(nw.Int64).alias("infinite"),
        nw.lit(1).cast(nw.Int64).alias("rows"),
        *_lengths(roles.response_tokens, scored, passed),
    )
    sums = ["n", "k", "odd", "odd_text", "infinite", "rows", *(TOKEN_SUMS if roles.response_tokens else ())]
    cells = _polars(flat.group_by(list(used)).agg(*(nw.col(c).sum() for c in sums)))
    if int(cells["odd_text"].sum()):
        if roles.reward is not None and isinstance(frame, nw.LazyFrame):
            seen = _lists(frame.filter(nw.col(ODD_TEXT)).select(roles.reward).head(1))[roles.reward]
            raise PilotFormatError(
                f"{name}: {roles.reward} is {seen[0]!r} in {int(cells['odd_text'].sum()):,} rows, which is neither a "
                "number nor a pass/fail word (true/false, C/I). Name another column with --reward-column."
            )
        return False
    if options.pass_threshold is None and int(cells["odd"].sum()):
        rewards = frame.filter(scored).select(REWARD).head(100_000)
        seen = sorted(set(_lists(rewards)[REWARD]) | set(_lists(frame.filter(odd).select(REWARD).head(1))[REWARD]))
        first = next(v for v in seen if v not in (0.0, 1.0))
        raise needs_threshold(name, str(roles.reward), first, seen)
    if options.pass_threshold is not None and int(cells["k"].sum()) in (0, int(cells["n"].sum())):
        take_range(frame.filter(scored), REWARD, tally)
    if roles.step is not None:
        tally.take_steps(steps_of(frame, roles.step))
    _take(cells, lost, tally)
    return True


def _lengths(column: str | None, scored: Any, passed: Any) -> list[Any]:
    """Length of each rollout and whether it has one: of all, of right and of wrong ones; nothing without a column."""
    import narwhals as nw

    if column is None:
        return []
    length = nw.col(column).cast(nw.Float64)
    known = length.is_finite().fill_null(False)
    right = (known & scored & passed).fill_null(False)
    kinds = {"token": known, "pass_token": right, "fail_token": known & scored & ~right}
    sums = [nw.when(kind).then(length).otherwise(nw.lit(0.0)).alias(f"{name}s") for name, kind in kinds.items()]
    return sums + [kind.cast(nw.Int64).alias(f"{name}_rows") for name, kind in kinds.items()]


def _key(column: str, *, number: bool) -> Any:
    """A grouping column as number or text; what is missing, or an empty text, stays missing."""
    import narwhals as nw

    if number:
        return nw.col(column).cast(nw.Float64)
    text = nw.col(column).cast(nw.String)
    return nw.when(~nw.col(column).is_null() & (text != "")).then(text)


def _take(cells: pl.DataFrame, lost: Mapping[str, int], tally: Tally) -> None:
    """Add the cells, and count what was left out."""
    import polars as pl

    rows = int(cells["rows"].sum())
    tally.rows += rows
    unnamed = cells["prompt"].is_null()
    tally.dropped.update(
        nonzero(
            missing_prompt=int(cells.filter(unnamed)["rows"].sum()),
            **lost,
        )
    )
    cells = cells.filter(~unnamed)
    infinite = int(cells["infinite"].sum())
    missing = int(cells["rows"].sum()) - int(cells["n"].sum()) - infinite
    tally.dropped.update(nonzero(non_finite_reward=infinite, missing_reward=missing))
    types = {"temperature": pl.Float64}
    absent = [pl.lit(None, dtype=types.get(key, pl.String)).alias(key) for key in KEYS if key not in cells.columns]
    # engines return groups in any order: sort, so that one input always gives one Pilot
    cells = cells.with_columns(absent).with_columns(pl.col("temperature").fill_nan(None)).sort(KEYS)
    if cells.height:
        tally.add(with_token_sums(cells))


def kept_rows(frame: pl.DataFrame, options: ReadOptions, tally: Tally) -> pl.DataFrame:
    """The rows of a polars frame that the conditions keep; the others are counted."""
    import narwhals as nw

    kept, lost = conditioned(nw.from_native(frame), options, tally)
    tally.dropped.update(nonzero(**lost))
    native: pl.DataFrame = nw.to_native(kept)
    return native


def conditioned(frame: Frame, options: ReadOptions, tally: Tally) -> tuple[Frame, dict[str, int]]:
    """The rows that the conditions keep, and how many do not fulfil each."""
    lost: dict[str, int] = {}
    height = _height(frame) if options.conditions else 0
    for condition in options.conditions:
        if condition.span is not None:
            tally.take_steps((), steps_of(frame, condition.column))
        frame = _filtered(frame, condition)
        before, height = height, _height(frame)
        lost[condition.reason] = lost.get(condition.reason, 0) + before - height
    return frame, lost


def take_range(frame: Frame, column: str, tally: Tally) -> None:
    """Note the smallest and the largest reward."""
    import narwhals as nw

    ends = _lists(frame.select(nw.col(column).min().alias("low"), nw.col(column).max().alias("high")))
    tally.take_rewards(np.array([x for x in (*ends["low"], *ends["high"]) if x is not None], dtype=np.float64))


def steps_of(frame: Frame, column: str) -> list[Any]:
    """Different values of a column of steps."""
    return _lists(frame.select(column).unique().head(MOST_STEPS))[column]


def _filtered(frame: Frame, condition: Condition) -> Frame:
    """The rows that fulfil a condition. Text is compared value by value, each distinct one once."""
    import narwhals as nw

    column = condition.column
    kind = frame.collect_schema()[column]
    if kind == nw.String or (condition.span is not None and not kind.is_numeric()):
        present = _lists(frame.select(column).unique())[column]
        return frame.filter(nw.col(column).is_in([v for v in present if condition.holds(v, text=True)]))
    if condition.span is not None:
        return frame.filter((nw.col(column) >= condition.span[0]) & (nw.col(column) <= condition.span[1]))
    return frame.filter(_wanted(kind, column, condition.wanted))


def _wanted(kind: Any, column: str, wanted: Sequence[str]) -> Any:
    """Filter expression of one ``--where`` column: as `matches` compares single values."""
    import narwhals as nw

    value = nw.col(column)
    if kind == nw.Boolean:
        truths = {"true": True, "false": False}
        return value.is_in([truths[w.lower()] for w in wanted if w.lower() in truths])
    if kind.is_integer():
        whole = [int(w) if w.lstrip("+-").isdigit() else x for w in wanted if (x := number_of(w)) is not None]
        return value.is_in([int(w) for w in whole if w == int(w) and abs(w) < 2**63])
    if kind.is_numeric():
        keep = nw.lit(False)
        for number in (x for w in wanted if (x := number_of(w)) is not None):
            slack = 0.0 if float(number).is_integer() else RELATIVE_CLOSENESS * max(1.0, abs(number))
            keep = keep | ((value.cast(nw.Float64) - number).abs() <= slack)
        return keep
    return value.cast(nw.String).is_in(list(wanted))


def _height(frame: Frame) -> int:
    import narwhals as nw

    if isinstance(frame, nw.DataFrame):
        return len(frame)
    return int(_lists(frame.select(nw.len().alias("rows")))["rows"][0])


def _lists(frame: Frame) -> dict[str, list[Any]]:
    import narwhals as nw

    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return {name: eager[name].to_list() for name in eager.columns}


def _polars(frame: Frame) -> pl.DataFrame:
    """The counts as a polars frame, whatever engine they come from; polars itself streams."""
    import narwhals as nw
    import polars as pl

    native = nw.to_native(frame)
    if isinstance(native, pl.LazyFrame):
        return native.collect(engine="streaming")
    if isinstance(native, pl.DataFrame):
        return native
    lists = _lists(frame)
    columns = {}
    for column, values in lists.items():
        if column == "temperature":
            columns[column] = pl.Series([number_of(v) for v in values], dtype=pl.Float64)
        elif column in KEYS:
            columns[column] = pl.Series([text_of(v) for v in values], dtype=pl.String)
        else:
            columns[column] = pl.Series(values, dtype=None if values else pl.Int64)
    return pl.DataFrame(columns)
