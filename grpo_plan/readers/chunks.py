"""Tables of a file as polars frames, chunk by chunk: memory follows the chunk and the prompts, not the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.columns import ColumnMap, Sample
from grpo_plan.readers.counting import ReadOptions, Tally, count_rewards, group_rollouts, nonzero, not_a_reward
from grpo_plan.readers.frames import kept_rows
from grpo_plan.readers.jsonlines import BATCH_ROWS, SAMPLE_ROWS, count_columns
from grpo_plan.readers.values import number_of, reward_of, text_of
from grpo_plan.readers.wide_frames import count_wide

if TYPE_CHECKING:
    import polars as pl

FIRST_ROWS = 250_000
MAX_ROWS = 4_000_000
CHUNK_BYTES = 128 << 20
ROW = "__grpo_plan_row__"
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows of a table: a frame, and the number of each of its rows in the file, counted from 1."""

    frame: pl.DataFrame
    number: Callable[[int], int]


def scan_chunks(
    scan: pl.LazyFrame, columns: Sequence[str], name: str, size: int = 0, progress: Progress | None = None
) -> Iterator[Chunk]:
    """The columns of a scan in chunks of about `CHUNK_BYTES`; ``size`` bytes are told to ``progress`` on the way.

    Raises:
        PilotFormatError: Rows further on cannot be read; the message says which.
    """
    import polars as pl

    selected = scan.select(columns)
    total = 0 if progress is None else int(scan.select(pl.len()).collect().item())
    start, rows, told = 0, FIRST_ROWS, 0
    while True:
        try:
            frame = selected.slice(start, rows).collect(engine="streaming")
        except pl.exceptions.PolarsError as error:
            if start == 0:
                raise
            reason = " ".join(str(error).split())[:160].rstrip(".")
            raise PilotFormatError(
                f"{name}: rows {start + 1:,} to {start + rows:,} cannot be read ({reason}). Is the file complete?"
            ) from None
        if frame.height:
            yield Chunk(frame=frame, number=lambda index, start=start: start + index + 1)  # type: ignore[misc]
        start += frame.height
        if progress is not None and total:
            now = size * start // total
            progress(now - told)
            told = now
        if frame.height < rows:
            return
        rows = min(MAX_ROWS, max(1, int(CHUNK_BYTES * frame.height // max(1, frame.estimated_size()))))


def sample_of_scan(scan: pl.LazyFrame, name: str) -> Sample:
    """Column names and values of the first rows."""
    return Sample(name=name, columns=scan.head(SAMPLE_ROWS).collect().to_dict(as_series=False))


def count_chunks(chunks: Iterable[Chunk], name: str, roles: ColumnMap, options: ReadOptions, tally: Tally) -> None:
    """Count the chunks of a table into the tally."""
    for chunk in chunks:
        frame = chunk.frame
        if options.conditions:
            frame = kept_rows(frame.with_row_index(ROW), options, tally)
        if not frame.height:
            continue
        place = _namer(chunk, frame, name)
        plain = roles.shape == "long" and tally.observer is None and not options.groups_apart
        if plain and _count_long(frame, roles, options, place, tally):
            tally.rows += frame.height
            if roles.step is not None:
                tally.take_steps(frame[roles.step].unique().to_list())
            continue
        for start in range(0, frame.height, BATCH_ROWS):
            part = frame.slice(start, BATCH_ROWS)
            if count_wide(part, roles, options, tally):
                continue
            columns = {role: _plain(part[column], role).to_list() for role, column in roles.roles().items()}
            count_columns(columns, roles, options, lambda i, start=start, place=place: place(start + i), tally)  # type: ignore[misc]


def _plain(column: pl.Series, role: str) -> pl.Series:
    """Counts and lengths that a CSV holds as text, as numbers where every one is plain."""
    import polars as pl

    if column.dtype == pl.String and role in ("n", "k", "pass_rate", "response_tokens"):
        numbers = column.cast(pl.Float64 if role == "pass_rate" else pl.Int64, strict=False)
        if numbers.null_count() == column.null_count():
            return numbers
    return column


def _namer(chunk: Chunk, frame: pl.DataFrame, name: str) -> Callable[[int], str]:
    def place(index: int) -> str:
        row = frame[ROW][index] if ROW in frame.columns else index
        return f"{name}, row {chunk.number(int(row)):,}"

    return place


def _count_long(
    frame: pl.DataFrame, roles: ColumnMap, options: ReadOptions, place: Callable[[int], str], tally: Tally
) -> bool:
    """Count rollouts by expressions; False if a column's type needs Python."""
    import polars as pl

    passes = _passes(frame[str(roles.reward)], str(roles.reward), options, place, tally)
    numbers = {
        role: _numbers(frame[column])
        for role in ("temperature", "response_tokens")
        if (column := getattr(roles, role)) is not None
    }
    if passes is None or any(column is None for column in numbers.values()):
        return False
    scored, passed, infinite = passes
    keys = {role: frame[column] for role in ("prompt", "stratum", "policy") if (column := getattr(roles, role))}
    if any(column.dtype == pl.Object for column in keys.values()):
        return False
    rows = pl.DataFrame({**keys, "scored": scored, "passed": passed, "infinite": infinite})
    if numbers.get("temperature") is not None:
        rows = rows.with_columns(temperature=numbers["temperature"])
    if numbers.get("response_tokens") is not None:
        rows = rows.with_columns(tokens=numbers["response_tokens"], own=numbers["response_tokens"])
    unnamed = rows["prompt"].is_null()
    if rows.schema["prompt"] == pl.String:
        unnamed |= (rows["prompt"] == "").fill_null(False)
    elif rows.schema["prompt"].is_float():
        unnamed |= rows["prompt"].is_nan().fill_null(False)
    if unnamed.any():
        tally.dropped.update(missing_prompt=int(unnamed.sum()))
        rows = rows.filter(~unnamed)
    without, lost = int(rows["scored"].len() - rows["scored"].sum()), int(rows["infinite"].sum())
    tally.dropped.update(nonzero(non_finite_reward=lost, missing_reward=without - lost))
    if rows.height:
        cells = group_rollouts(rows.drop("infinite"))
        tally.add(cells.with_columns(_texts(cells[key]) for key in keys))
    return True


def _passes(
    reward: pl.Series, column: str, options: ReadOptions, place: Callable[[int], str], tally: Tally
) -> tuple[pl.Series, pl.Series, pl.Series] | None:
    """Which rollouts are scored, which pass, and whose reward is infinite; None if the type needs Python."""
    import polars as pl

    whole = reward.dtype == pl.Boolean or reward.dtype.is_integer()
    if whole and options.pass_threshold is None and tally.odd is None and reward.null_count() < reward.len():
        low, high = int(reward.min()), int(reward.max())  # type: ignore[arg-type]
        if 0 <= low and high <= 1:
            passed = reward if reward.dtype == pl.Boolean else reward == 1
            return reward.is_not_null(), passed.fill_null(False), pl.repeat(False, reward.len(), eager=True)
    if reward.dtype == pl.String:
        values = _rewards(reward, column, place)
    elif whole or reward.dtype.is_numeric():
        values = reward.cast(pl.Float64)
    elif reward.dtype == pl.Null:
        values = reward.cast(pl.Float64)
    else:
        return None
    rewards = values.fill_null(float("nan")).to_numpy()
    threshold = options.pass_threshold
    if threshold is not None:
        tally.take_rewards(rewards)
    if threshold is None and tally.meets_odd_reward(rewards, place, column):
        threshold = 1.0  # of no matter: the pilot will be refused
    scored, passed_rows, _ = count_rewards(rewards, threshold, place, column)
    return pl.Series(scored), pl.Series(passed_rows), values.is_infinite().fill_null(False)


def _rewards(reward: pl.Series, column: str, place: Callable[[int], str]) -> pl.Series:
    """Rewards written as text, each distinct one read once."""
    odd: list[str] = []

    def read(text: str) -> float | None:
        try:
            return reward_of(text)
        except (ValueError, OverflowError):
            odd.append(text)
            return None

    values = _mapped(reward, read)
    if odd:
        first = int(reward.is_in(odd).arg_true()[0])
        raise not_a_reward(place(first), column, reward[first])
    return values


def _numbers(column: pl.Series) -> pl.Series | None:
    """Plain numbers, null where missing or no number; None if the type needs Python."""
    import polars as pl

    if column.dtype == pl.String:
        return _mapped(column, number_of)
    if not column.dtype.is_numeric() and column.dtype not in (pl.Boolean, pl.Null):
        return None
    values = column.cast(pl.Float64)
    return pl.select(pl.when(values.is_finite()).then(values)).to_series()


def _mapped(texts: pl.Series, read: Callable[[Any], float | None]) -> pl.Series:
    import polars as pl

    easy = pl.select(pl.when(texts == "1").then(1.0).when(texts == "0").then(0.0)).to_series()
    rest = texts.filter(easy.is_null() & texts.is_not_null()).unique(maintain_order=True)
    if not rest.len():
        return easy
    values = pl.Series([read(text) for text in rest], dtype=pl.Float64)
    known = texts.replace_strict(rest, values, default=None, return_dtype=pl.Float64)
    return easy.fill_null(known)


def _texts(names: pl.Series) -> pl.Series:
    """Distinct names as text, null where missing."""
    import polars as pl

    if names.dtype == pl.String:
        return pl.select(pl.when(names != "").then(names).alias(names.name)).to_series()
    if names.dtype.is_integer() or names.dtype in (pl.Categorical, pl.Enum):
        return names.cast(pl.String)
    values = (v.to_list() if isinstance(v, pl.Series) else v for v in names)
    return pl.Series(names.name, [text_of(v) for v in values], dtype=pl.String)
