"""Tables that live in another engine (Spark, Dask, DuckDB, ...): counted there, and little is brought here.

Polars, pandas and Arrow tables are in this process already; `frames` counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import PilotFormatError
from grpo_plan.pilot import MAX_ROLLOUTS_PER_PROMPT
from grpo_plan.readers.cells import single_values, taken_notes
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import ReadOptions, Tally, needs_threshold, nonzero
from grpo_plan.readers.frames import (
    _by_rows,
    _filtered,
    _height,
    _key,
    _lengths,
    _lists,
    _polars,
    _take,
    steps_of,
    take_range,
)
from grpo_plan.readers.histograms import CELL_KEYS, cells_of
from grpo_plan.readers.selection import Condition
from grpo_plan.readers.values import number_of, reward_of, shown

if TYPE_CHECKING:
    import narwhals as nw

    Lazy = nw.LazyFrame[Any]

MOST_PROMPTS = 1_000_000  # brought here one by one unless asked for; more come as a histogram
MOST_TEXTS = 10_000  # different texts of a reward, temperature or --where column that are looked at here
KEY_ROLES = ("prompt", "stratum", "temperature", "policy")
SUMS = {"long": ("n", "k", "rows", "odd", "infinite"), "wide": ("n", "k", "rows", "missing")}


def is_remote(frame: object) -> bool:
    """Whether the table lives in an engine of its own; polars' lazy tables do not."""
    import narwhals as nw

    return isinstance(frame, nw.LazyFrame) and not frame.implementation.is_polars()


def count_remote(frame: Lazy, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Count a table of another engine into the tally.

    Raises:
        PilotFormatError: It is large, and what is asked for needs every row here.
    """
    import narwhals as nw

    schema = frame.collect_schema()
    for column in options.where:
        if column not in schema.names():
            listing = ", ".join(schema.names())
            raise PilotFormatError(
                f"{name}: no column {column!r} (asked for by --where). Columns: {listing}."
                f"{did_you_mean(column, schema.names())}"
            )
    lost: dict[str, int] = {}
    height = _height(frame) if options.conditions else 0
    for condition in options.conditions:
        if condition.span is not None:
            tally.take_steps((), steps_of(frame, condition.column))
        frame = _kept(frame, condition, name, tally)
        before, height = height, _height(frame)
        lost[condition.reason] = lost.get(condition.reason, 0) + before - height
    reason = needs_rows(schema, roles, tally)
    if reason is None and options.groups_apart:
        reason = "groups are told apart row by row"
    if reason is None and roles.shape == "wide" and not options.histogram:
        few = options.histogram is False or _height(frame) <= MOST_PROMPTS
        reason = "" if few else None  # a row is a prompt: the rows are the counts
    if reason is not None:
        _bring_rows(frame, name, roles, options, tally, reason, lost)
        return
    if roles.step is not None:
        tally.take_steps(steps_of(frame, roles.step))
    frame = _with_counts(frame, name, roles, options)
    if roles.shape == "long" and not options.histogram:
        cells = _polars(_limited(_per_prompt(frame, roles, lengths=True), options))
        if options.histogram is False or cells.height <= MOST_PROMPTS:
            _refuse_odd(frame, int(cells["odd"].sum()), name, roles, options, tally)
            if options.pass_threshold is not None and int(cells["k"].sum()) in (0, int(cells["n"].sum())):
                take_range(frame.filter(nw.col("scored")), "reward", tally)
            _take(cells, lost, tally)
            return
    if options.histogram is None:
        say_too_many(name, tally)
    _take_histogram(frame, name, roles, options, lost, tally)


def say_too_many(name: str, tally: Tally) -> None:
    """A note that prompts came without their names, since they are many."""
    tally.notes.append(
        f"{name}: more than {MOST_PROMPTS:,} prompts, so only the histogram of (n, k) was brought here, without names "
        "of prompts and lengths. histogram=False brings counts a prompt."
    )


def _limited(frame: Lazy, options: ReadOptions) -> Lazy:
    return frame if options.histogram is False else frame.head(MOST_PROMPTS + 1)


def _kept(frame: Lazy, condition: Condition, name: str, tally: Tally) -> Lazy:
    """The rows that fulfil a condition."""
    import narwhals as nw

    column = condition.column
    text = frame.collect_schema()[column] == nw.String and condition.span is None
    if text and _texts(frame, column) is None:
        tally.notes.append(f"{name}: column {column!r} has many values; --where compares them as plain text.")
        return frame.filter(nw.col(column).is_in(list(condition.wanted)))
    return _filtered(frame, condition).lazy()


def _texts(frame: Lazy, column: str) -> list[str] | None:
    """Different values of a column as text; None if they are too many to look at."""
    import narwhals as nw

    texts = frame.select(nw.col(column).cast(nw.String)).unique().head(MOST_TEXTS + 1)
    seen = _lists(texts)[column]
    return None if len(seen) > MOST_TEXTS else sorted(v for v in seen if v is not None)


def needs_rows(schema: Mapping[str, Any], roles: ColumnMap, tally: Tally) -> str | None:
    """Why rows must be read here and not counted there, in words; None if they need not."""
    import narwhals as nw

    if roles.shape == "histogram":
        return ""
    rates = roles.pass_rate or roles.fail_rate
    if rates is not None:
        return f"the passes behind the rates of column {rates!r} are found row by row"
    if tally.observer is not None:
        return "checks of single rollouts read every row"
    if roles.shape == "lists":
        return f"column {roles.reward!r} holds lists"
    texts = (nw.String, nw.Categorical, nw.Enum)
    for role, column in roles.roles().items():
        if role == "step":
            continue
        kind = schema[column]
        number = kind.is_numeric()
        plain = number or (role not in ("n", "k", "response_tokens") and kind in texts)
        plain = plain or (role in ("prompt", "reward") and kind == nw.Boolean)
        plain = plain or (role in ("stratum", "policy") and kind.is_temporal())
        if not plain:
            return f"column {column!r} is of type {kind}"
    return None


def _bring_rows(
    frame: Lazy, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally, reason: str, lost: Mapping[str, int]
) -> None:
    """Read the needed columns of every row here; refused if they are many."""
    rows = _height(frame)
    asked = roles.shape == "wide" and options.histogram is False
    if rows > MOST_PROMPTS and not asked:
        raise PilotFormatError(
            f"{name}: {rows:,} rows are too many to bring here, and {reason or 'a histogram has few'}. In the engine, "
            "write one row a rollout with a numeric reward, or one row a prompt with counts n and k."
        )
    tally.dropped.update(nonzero(**lost))
    if reason:
        tally.notes.append(f"{name}: {rows:,} rows were brought here, because {reason}.")
    needed = list(dict.fromkeys(roles.roles().values()))
    if rows:
        _by_rows(frame.select(needed), name, roles, replace(options, where={}, selected=()), tally)


def _with_counts(frame: Lazy, name: str, roles: ColumnMap, options: ReadOptions) -> Lazy:
    """The columns that count: one a role of the keys, `SUMS`, and for rollouts reward, ``scored`` and ``passed``."""
    import narwhals as nw

    keys = []
    for role in KEY_ROLES:
        column = getattr(roles, role)
        if column is None:
            continue
        key = nw.col(column) if role == "prompt" else _key(column, number=False)
        keys.append((_temperature(frame, column) if role == "temperature" else key).alias(role))
    if roles.shape == "wide":
        return frame.select(*keys, *_counts(frame, name, roles, options))
    value, scored = nw.col("reward"), nw.col("scored")
    passed = (value == 1.0) if options.pass_threshold is None else (value >= options.pass_threshold)
    tokens = [] if roles.response_tokens is None else [nw.col(roles.response_tokens).cast(nw.Float64).alias("tokens")]
    flat = frame.select(*keys, *tokens, _reward(frame, name, str(roles.reward)).alias("reward"))
    flat = flat.with_columns(value.is_finite().fill_null(False).alias("scored"))
    flat = flat.with_columns((scored & passed).fill_null(False).alias("passed"))
    infinite = value.is_in([float("inf"), float("-inf")]).fill_null(False)
    odd = scored & (value != 0.0) & (value != 1.0)
    flags = {"n": scored, "k": nw.col("passed"), "infinite": infinite, "odd": odd.fill_null(False)}
    return flat.with_columns(
        *(flag.cast(nw.Int64).alias(flag_name) for flag_name, flag in flags.items()),
        nw.lit(1).cast(nw.Int64).alias("rows"),
    )


def _reward(frame: Lazy, name: str, column: str) -> Any:
    """The reward as a number; each different text is understood here, once.

    Raises:
        PilotFormatError: A text is no reward, or the texts are many.
    """
    import narwhals as nw

    kind = frame.collect_schema()[column]
    if kind == nw.Boolean or kind.is_numeric():
        return nw.col(column).cast(nw.Float64)
    texts = _texts(frame, column)
    if texts is None:
        raise PilotFormatError(
            f"{name}: {column} is text with more than {MOST_TEXTS:,} different values. Cast it to a number in the "
            "engine, or name another column with reward=."
        )
    values = {}
    for text in texts:
        try:
            values[text] = reward_of(text)
        except (ValueError, OverflowError):
            raise PilotFormatError(
                f"{name}: {column} is {shown([text])!r}, which is neither a number nor a pass/fail word (true/false, "
                "C/I). Name another column with --reward-column."
            ) from None
    return _by_text(column, values)


def _by_text(column: str, values: Mapping[str, float | None]) -> Any:
    """A number for each text."""
    import narwhals as nw

    known = {text: value for text, value in values.items() if value is not None}
    if not known:
        return nw.lit(None).cast(nw.Float64)
    return nw.col(column).cast(nw.String).replace_strict(known, default=None, return_dtype=nw.Float64)


def _temperature(frame: Lazy, column: str) -> Any:
    """The temperature as a finite number, or missing."""
    import narwhals as nw

    if frame.collect_schema()[column].is_numeric():
        number = nw.col(column).cast(nw.Float64)
        return nw.when(number.is_finite()).then(number)
    return _by_text(column, {text: number_of(text) for text in _texts(frame, column) or []})


def _counts(frame: Lazy, name: str, roles: ColumnMap, options: ReadOptions) -> list[Any]:
    """Counts of one row a prompt.

    Raises:
        PilotFormatError: A count is negative or no whole number, or k exceeds n.
    """
    import narwhals as nw

    n = nw.lit(options.rollouts_per_prompt).cast(nw.Float64)
    n = n if options.rollouts_per_prompt is not None else nw.col(str(roles.n)).cast(nw.Float64)
    k = nw.col(str(roles.k)).cast(nw.Float64)
    known = n.is_finite().fill_null(False) & k.is_finite().fill_null(False)
    fits = (k >= 0.0) & (k <= n) & (n <= float(MAX_ROLLOUTS_PER_PROMPT)) & (n % 1 == 0.0) & (k % 1 == 0.0)
    bad = _lists(frame.filter(known & ~fits).select(n.alias("n"), k.alias("k")).head(1))
    if bad["n"]:
        raise PilotFormatError(
            f"{name}: counts must be whole numbers with 0 <= k <= n <= {MAX_ROLLOUTS_PER_PROMPT:,}; got "
            f"{roles.k} = {bad['k'][0]:g} and {roles.n or 'rollouts per prompt'} = {bad['n'][0]:g}. Swapped columns? "
            "Name them with k= and n=."
        )
    return [
        *(nw.when(known).then(x).otherwise(nw.lit(0.0)).cast(nw.Int64).alias(s) for s, x in (("n", n), ("k", k))),
        nw.lit(1).cast(nw.Int64).alias("rows"),
        (~known).cast(nw.Int64).alias("missing"),
    ]


def _keys(roles: ColumnMap) -> list[str]:
    return [role for role in KEY_ROLES if getattr(roles, role) is not None]


def _per_prompt(frame: Lazy, roles: ColumnMap, *, lengths: bool) -> Lazy:
    """Counts of each prompt, stratum, temperature and policy."""
    import narwhals as nw

    column = "tokens" if lengths and roles.response_tokens is not None else None
    tokens = _lengths(column, nw.col("scored"), nw.col("passed"))
    flat = frame.select(*_keys(roles), *SUMS[roles.shape], *tokens)
    sums = [c for c in flat.collect_schema().names() if c not in KEY_ROLES]
    return flat.group_by(_keys(roles)).agg(*(nw.col(c).sum() for c in sums))


def _cells(frame: Lazy, roles: ColumnMap) -> dict[str, list[Any]]:
    """The histogram: prompts and sums of each (stratum, temperature, policy, n, k) and kind of row.

    Kind 0 counts; kind 1 has no name of its prompt; kind 2 has no counts.
    """
    import narwhals as nw

    whole = roles.shape == "wide" and roles.prompt is None  # each row is its own prompt
    per = frame.select(*_keys(roles), *SUMS[roles.shape]) if whole else _per_prompt(frame, roles, lengths=False)
    unnamed = nw.lit(False)
    if roles.prompt is not None:
        prompt, types = nw.col("prompt"), per.collect_schema()["prompt"]
        unnamed = prompt.is_null()
        if types.is_float():
            unnamed = unnamed | prompt.is_nan().fill_null(False)
        elif not types.is_numeric() and types != nw.Boolean:
            unnamed = unnamed | (prompt.cast(nw.String) == "").fill_null(False)
    named = nw.when(unnamed).then(nw.lit(1)).otherwise(nw.lit(0))
    kind = named
    if roles.shape == "wide":
        kind = nw.when(nw.col("missing") == nw.col("rows")).then(nw.lit(2)).otherwise(named)
    keys = [role for role in CELL_KEYS if role in ("n", "k") or getattr(roles, role) is not None]
    sums = [c for c in SUMS[roles.shape] if c not in CELL_KEYS]
    per = per.with_columns(kind.alias("kind"), nw.lit(1).cast(nw.Int64).alias("prompts"))
    return _lists(per.group_by([*keys, "kind"]).agg(*(nw.col(c).sum() for c in (*sums, "prompts"))))


def _take_histogram(
    frame: Lazy, name: str, roles: ColumnMap, options: ReadOptions, lost: Mapping[str, int], tally: Tally
) -> None:
    """Add the histogram, and count what was left out."""
    import narwhals as nw
    import polars as pl

    def query() -> tuple[pl.DataFrame, pl.DataFrame]:
        lists = _cells(frame, roles)
        whole = [c for c in lists if c not in ("stratum", "temperature", "policy")]
        size = len(lists["n"])
        lists |= {c: [int(v) for v in lists[c]] for c in whole}
        lists |= {c: [None] * size for c in CELL_KEYS if c not in lists}
        lists["temperature"] = [number_of(t) for t in lists["temperature"]]
        return cells_of(lists), pl.DataFrame({c: lists[c] for c in whole}, schema=dict.fromkeys(whole, pl.Int64))

    cells, sums = query()
    fill = single_values(cells)
    tally.notes += taken_notes(name, fill)
    if fill:  # rows without a temperature take the only one there is: their prompts are counted again with it
        frame = frame.with_columns(nw.col(column).fill_null(value) for column, value in fill.items())
        cells, sums = query()
    sums = sums.with_columns(pl.lit(0).alias(c) for c in ("odd", "infinite", "missing") if c not in sums.columns)
    _refuse_odd(frame, int(sums["odd"].sum()), name, roles, options, tally)
    counts = sums["kind"] == 0
    unnamed, known = sums.filter(sums["kind"] == 1), sums.filter(counts)
    rows = int(sums["rows"].sum())
    tally.rows += rows
    infinite, missing = int(known["infinite"].sum()), int(sums["missing"].sum())
    scored = int((known["n"] * known["prompts"]).sum())
    tally.dropped.update(
        nonzero(
            missing_prompt=int((unnamed["rows"] - unnamed["missing"]).sum()),
            **lost,
            non_finite_reward=infinite,
            missing_reward=int(known["rows"].sum()) - scored - infinite if roles.shape == "long" else 0,
            prompts_with_missing_counts=missing,
        )
    )
    if counts.any():
        tally.histogram.append(cells.filter(counts))


def _refuse_odd(frame: Lazy, odd: int, name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Raise PilotFormatError where rewards are neither 0 nor 1 and no threshold was given."""
    import narwhals as nw

    if not odd or options.pass_threshold is not None:
        return
    value, scored = nw.col("reward"), nw.col("scored")
    some = _lists(frame.filter(scored).select("reward").head(100_000))["reward"]
    one = _lists(frame.filter(scored & (value != 0.0) & (value != 1.0)).select("reward").head(1))["reward"]
    seen = sorted(set(some) | set(one))
    first = next(v for v in seen if v not in (0.0, 1.0))
    raise needs_threshold(name, str(roles.reward), first, seen, tally.other_rewards)
