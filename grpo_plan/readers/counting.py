"""Rollouts to counts per prompt: one small table of cells, whatever the source, that is merged batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotError, PilotFormatError, sentences
from grpo_plan.pilot import Pilot
from grpo_plan.readers.cells import FIRST, merged, single_values, sums_by_key, taken_notes, with_values
from grpo_plan.readers.cells import KEYS as KEYS
from grpo_plan.readers.cells import TOKEN_SUMS as TOKEN_SUMS
from grpo_plan.readers.cells import with_token_sums as with_token_sums
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counts import plain_counts, successes, whole
from grpo_plan.readers.list_groups import ListGroups
from grpo_plan.readers.options import ReadOptions as ReadOptions
from grpo_plan.readers.selection import MOST_STEPS, nothing_counted, whole_steps
from grpo_plan.readers.selection import nonzero as nonzero
from grpo_plan.readers.thresholds import OddRewards, odd_rewards
from grpo_plan.readers.thresholds import needs_threshold as needs_threshold
from grpo_plan.readers.values import (
    NotAReward,
    is_missing,
    numbers_of,
    rewards_of,
    shown,
    text_series,
)

if TYPE_CHECKING:
    import polars as pl

COMPACT_ROWS = 1_000_000
Place = Callable[[int], str]
Observer = Callable[[Mapping[str, Sequence[Any]], ColumnMap, "ReadOptions", Place, "Tally"], None]


class Deferred(Protocol):
    """Files whose rows are counted by other processes meanwhile."""

    def finish(self) -> None:
        """Wait for all of them."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Cells counted so far, and what was left out. Filled by one read, then turned into a Pilot."""

    parts: list[pl.DataFrame] = field(default_factory=list)
    histogram: list[pl.DataFrame] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    rows: int = 0
    added: int = 0
    waiting: int = 0
    compacted: int = 0
    later: Deferred | None = None
    repeated_rows: bool = False
    policy_column: str | None = None
    policies: list[str] = field(default_factory=list)
    where_seen: dict[str, list[object]] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)  # of training, of rows that were kept
    steps_seen: set[int] = field(default_factory=set)  # of all rows
    rewards: tuple[float, float] | None = None  # smallest and largest, where a threshold was given
    row_counts: Counter[tuple[int, int]] = field(default_factory=Counter)  # n and k of rows before they are added up
    lists: ListGroups = field(default_factory=ListGroups)
    observer: Observer | None = None
    odd: OddRewards | None = None
    other_rewards: Sequence[str] = ()
    _scored: int = 0
    _passed: int = 0

    def finish(self) -> None:
        """Take in what was left for later, before anything else is counted."""
        if self.later is not None:
            self.later.finish()

    def add(self, cells: pl.DataFrame) -> None:
        """Take in the cells of one batch; compact now and then, so that memory follows prompts, not rollouts.

        Each time the cells must have doubled, and no batch looks at those before it: the work grows with the rows.
        """
        self.parts.append(cells)
        self.added += cells.height
        self.waiting += cells.height
        self._scored += int(cells["n"].sum())
        self._passed += int(cells["k"].sum())
        if self.waiting > max(COMPACT_ROWS, self.compacted):
            self._compact()

    def take_steps(self, kept: Iterable[object], seen: Iterable[object] = ()) -> None:
        """Note the training steps of rows."""
        for steps, values in ((self.steps, kept), (self.steps_seen, seen)):
            if len(steps) < MOST_STEPS:
                steps |= whole_steps(values)

    def take_rewards(self, rewards: NDArray[np.float64]) -> None:
        """Note the range of rewards."""
        finite = rewards[np.isfinite(rewards)]
        if finite.size:
            both = (float(finite.min()), float(finite.max()), *(self.rewards or ()))
            self.rewards = (min(both), max(both))

    def take_rows(self, n: NDArray[np.int64], k: NDArray[np.int64]) -> None:
        """Note the counts of rows, each a prompt or one visit of it."""
        width = int(k.max()) + 1 if k.size else 1
        cells, counts = np.unique(n * width + k, return_counts=True)
        for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
            self.row_counts[divmod(cell, width)] += count

    def _compact(self) -> None:
        self.parts = [merged(self.parts)]
        self.waiting, self.compacted = 0, self.parts[0].height

    def skip(self, place: Callable[[], str], why: str, options: ReadOptions, offset: int = 0) -> None:
        """Count a malformed row that starts at a byte of its file, or refuse it where no more may be skipped.

        Raises:
            PilotFormatError: With the place of the row.
        """
        if self.dropped["malformed_line"] >= options.skip_limit:
            raise malformed(place(), why, self.dropped["malformed_line"])
        self.dropped["malformed_line"] += 1

    def pilot(self, name: str) -> Pilot:
        """The Pilot of everything added.

        Raises:
            PilotFormatError: Nothing was read, or rollouts of several policies were.
        """
        import polars as pl

        self.finish()
        if self.odd is not None:
            raise self.odd.error(self.other_rewards)
        if not self.added:
            raise nothing_counted(name, self.dropped, self.where_seen, self.steps_seen)
        self._compact()
        only = single_values(self.parts[0])
        cells = merged([with_values(self.parts[0], only)]) if only else self.parts[0]
        policies = cells["policy"].drop_nulls().unique(maintain_order=True).to_list()
        if len(policies) > 1:
            raise PilotFormatError(
                f"{name}: rollouts of {len(policies)} models ({shown(policies)}); a pilot describes one. "
                f"Keep one with --where '{self.policy_column}={policies[0]}'."
            )
        self.policies = policies
        notes = [*self.notes, *taken_notes(name, only)]
        if self.repeated_rows and self.added > cells.height:
            notes.append(f"{name}: {self.added - cells.height:,} rows repeat a prompt; their counts were added up.")
        apart = any(cells[key].null_count() < cells.height for key in KEYS[1:])  # else prompts alone tell cells apart
        several = cells.group_by("prompt").len().filter(pl.col("len") > 1).height if apart else 0
        if several:
            notes.append(f"{name}: {several:,} prompt names occur in several strata or temperatures; counted apart.")
        lengths = {name: _mean_tokens(cells, name) for name in ("tokens", "pass_tokens", "fail_tokens")}
        return self._from_counts(
            name,
            cells["k"].to_numpy(),
            cells["n"].to_numpy(),
            prompt_id=cells["prompt"].to_list(),
            stratum=_unless_null(cells["stratum"]),
            temperature=None if cells["temperature"].null_count() == cells.height else cells["temperature"].to_numpy(),
            response_tokens=lengths["tokens"],
            pass_tokens=lengths["pass_tokens"],
            fail_tokens=lengths["fail_tokens"],
            dropped=dict(self.dropped),
            notes=sentences(*notes),
        )

    def meets_odd_reward(self, rewards: NDArray[np.float64], place: Place, column: str) -> bool:
        """Whether a reward so far is neither 0 nor 1; while their levels are few, reading goes on to know them all."""
        if self.odd is None and not _any_odd(rewards):
            return False
        if self.odd is None:
            passes, fails = self._passed > 0, self._scored > self._passed
            self.odd = odd_rewards(rewards, place, column, passes=passes, fails=fails)
        if self.odd is not None:
            self.odd.take(rewards, self.other_rewards)
        return self.odd is not None

    @staticmethod
    def _from_counts(name: str, *arguments: Any, **options: Any) -> Pilot:
        try:
            return Pilot.from_counts(*arguments, **options)
        except PilotError as error:
            raise PilotFormatError(f"{name}: {error}") from None


def _mean_tokens(cells: pl.DataFrame, name: str) -> NDArray[np.float64] | None:
    """Mean length of each cell, NaN where there is none; None if no cell has one."""
    if name not in cells.columns:
        return None
    rows = cells[f"{name.removesuffix('s')}_rows"].to_numpy()
    if not rows.any():
        return None
    return np.where(rows > 0, cells[name].to_numpy() / np.maximum(rows, 1), np.nan)


def _unless_null(series: pl.Series) -> list[str] | None:
    return None if series.null_count() == series.len() else series.fill_null("(none)").to_list()


def _any_odd(rewards: NDArray[np.float64]) -> bool:
    return not bool(np.all((rewards == 0.0) | (rewards == 1.0) | ~np.isfinite(rewards)))


def count_rewards(
    rewards: NDArray[np.float64], threshold: float | None, place: Place, column: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Which rollouts are scored, which pass, and how many rewards are infinite.

    Raises:
        PilotFormatError: A reward is neither 0 nor 1 and no threshold was given.
    """
    scored = np.isfinite(rewards)
    infinite = int(np.isinf(rewards).sum())
    if threshold is not None:
        with np.errstate(invalid="ignore"):
            return scored, scored & (rewards >= threshold), infinite
    odd = scored & (rewards != 0.0) & (rewards != 1.0)
    if odd.any():
        index = int(np.flatnonzero(odd)[0])
        raise needs_threshold(place(index), column, float(rewards[index]), np.unique(rewards[scored]).tolist())
    return scored, rewards == 1.0, infinite


def not_a_reward(place: str, column: str, value: object) -> PilotFormatError:
    """The error for a reward that is neither a number nor a word of pass or fail."""
    return PilotFormatError(
        f"{place}: {column} is {shown([value])}, which is neither a number nor a pass/fail word (true/false, C/I). "
        "Name another column with --reward-column."
    )


def long_cells(
    columns: Mapping[str, Sequence[Any]], roles: ColumnMap, options: ReadOptions, place: Place, tally: Tally
) -> pl.DataFrame:
    """Cells of a batch with one row a rollout; ``columns`` holds the values of each role."""
    import polars as pl

    try:
        rewards = rewards_of(columns["reward"])
    except NotAReward as error:
        raise not_a_reward(place(error.index), str(roles.reward), error.value) from None
    threshold = options.pass_threshold
    if threshold is not None:
        tally.take_rewards(rewards)
    if threshold is None and tally.meets_odd_reward(rewards, place, str(roles.reward)):
        threshold = 1.0  # of no matter: the pilot will be refused
    scored, passed, infinite = count_rewards(rewards, threshold, place, str(roles.reward))
    lengths: dict[str, pl.Series] = {}
    if "response_tokens" in columns:
        lengths["tokens"] = _number_series(columns["response_tokens"], len(rewards))
        single = columns.get("split_tokens")  # of rows whose length is that of the rollout, not of the prompt
        lengths["own"] = lengths["tokens"] if single is None else _number_series(single, len(rewards))
    frame = pl.DataFrame(
        {
            "prompt": _text_series(columns["prompt"], len(rewards)),
            "stratum": _text_series(columns.get("stratum"), len(rewards)),
            "temperature": _number_series(columns.get("temperature"), len(rewards)),
            "policy": _text_series(columns.get("policy"), len(rewards)),
            "scored": scored,
            "passed": passed,
            **lengths,
        }
    )
    unnamed = frame["prompt"].is_null()
    if unnamed.any():
        lost = unnamed.to_numpy()
        tally.dropped.update(missing_prompt=int(lost.sum()))
        infinite = int((np.isinf(rewards) & ~lost).sum())
        scored = scored[~lost]
        frame = frame.filter(~unnamed)
    missing = int((~scored).sum()) - infinite
    tally.dropped.update(nonzero(non_finite_reward=infinite, missing_reward=missing))
    return group_rollouts(frame)


def group_rollouts(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells of rollouts: columns of `KEYS` (some may lack), scored, passed, and tokens with own where known."""
    import polars as pl

    sums = [pl.col("scored").cast(pl.Int64).alias("n"), pl.col("passed").cast(pl.Int64).alias("k")]
    if "tokens" in frame.columns:
        right = pl.when(pl.col("passed")).then(pl.col("own"))
        wrong = pl.when(pl.col("scored") & ~pl.col("passed")).then(pl.col("own"))
        for kind, length in {"token": pl.col("tokens"), "pass_token": right, "fail_token": wrong}.items():
            sums += [length.fill_null(0.0).alias(f"{kind}s"), length.is_not_null().cast(pl.Int64).alias(f"{kind}_rows")]
    keys = [k for k in KEYS if k in frame.columns and (k == KEYS[0] or frame[k].null_count() < frame.height)]
    rows = frame.select(*keys, *sums)
    small = sums_by_key(rows, keys, [c for c in rows.columns if c not in keys])
    types = {"temperature": pl.Float64}
    absent = [pl.lit(None, dtype=types.get(k, pl.String)).alias(k) for k in KEYS if k not in keys]
    names = rows.select(pl.col(keys).gather(small[FIRST]))
    return names.with_columns(absent).select(KEYS).hstack(small.drop(FIRST))


def wide_cells(
    columns: Mapping[str, Sequence[Any]], roles: ColumnMap, options: ReadOptions, place: Place, tally: Tally
) -> pl.DataFrame:
    """Cells of a batch with one row a prompt and its counts."""
    import polars as pl

    first_column = next(iter(columns.values()))
    size = len(first_column)
    constant = options.rollouts_per_prompt
    n = columns["n"] if constant is None else [constant] * size
    numbers_n, numbers_k = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    keep = np.ones(size, dtype=bool)
    rates = columns.get("pass_rate", columns.get("fail_rate"))
    n_name, k_name = roles.n or "rollouts per prompt", str(roles.pass_rate or roles.fail_rate or roles.k)
    plain = None if rates is not None else plain_counts(n, columns["k"])
    if plain is not None:
        numbers_n, numbers_k = plain
    if options.rate_column is not None and rates is not None:
        options.rate_column.add(rates)
        keep[:] = False
    known: dict[tuple[type, str, int], int] = {}  # few different rates: each is worked out once
    for i in range(size if plain is None and keep.any() else 0):
        given = rates[i] if rates is not None else columns["k"][i]
        if is_missing(n[i]) or is_missing(given):
            keep[i] = False
            tally.dropped["prompts_with_missing_counts"] += 1
            continue
        here = partial(place, i)  # naming a place reads the file again: only for an error
        total = whole(n[i], here, n_name)
        if rates is None:
            passes = whole(given, here, k_name)
        elif (key := (type(given), str(given), total)) in known:
            passes = known[key]
        else:
            passes = known[key] = successes(given, total, here, k_name, options.rates)
        if passes > total:
            raise PilotFormatError(
                f"{place(i)}: {k_name} = {passes:,} exceeds {n_name} = {total:,}. Swapped columns? "
                "Name them with --k-column and --n-column (k=, n=)."
            )
        numbers_n[i], numbers_k[i] = total, passes
    tokens = _number_series(columns.get("response_tokens"), size)
    prompts = columns.get("prompt") or [f"row {tally.rows + i + 1}" for i in range(size)]
    frame = pl.DataFrame(
        {
            "prompt": _text_series(prompts, size),
            "stratum": _text_series(columns.get("stratum"), size),
            "temperature": _number_series(columns.get("temperature"), size),
            "policy": _text_series(columns.get("policy"), size),
            "n": numbers_n,
            "k": numbers_k,
            "tokens": tokens * pl.Series(numbers_n),
            "token_rows": pl.Series(numbers_n) * tokens.is_not_null().cast(pl.Int64),
        }
    ).filter(keep)
    unnamed = frame["prompt"].null_count()
    if unnamed:
        tally.dropped.update(missing_prompt=unnamed)
        frame = frame.filter(pl.col("prompt").is_not_null())
    tally.repeated_rows = True
    if frame.height:
        tally.take_rows(frame["n"].to_numpy(), frame["k"].to_numpy())
    return with_token_sums(frame.with_columns(pl.col("tokens").fill_null(0.0)))


def _text_series(values: Sequence[Any] | None, size: int) -> pl.Series:
    return text_series([None] * size if values is None else values)


def _number_series(values: Sequence[Any] | None, size: int) -> pl.Series:
    import polars as pl

    if values is None:
        return pl.Series([None] * size, dtype=pl.Float64)
    return pl.Series(numbers_of(values)).fill_nan(None)


def malformed(place: str, why: str, skipped: int) -> PilotFormatError:
    """The error for a row that cannot be read."""
    if skipped:
        return PilotFormatError(
            f"{place}: {why}; {skipped:,} bad lines were skipped before it, as many as allowed. Repair the file, or "
            "raise --skip-bad (skip_malformed=)."
        )
    repair = "Convert the file, e.g. with iconv -f LATIN1 -t UTF-8" if "UTF-8" in why else "Repair the line"
    return PilotFormatError(f"{place}: {why}. {repair}, or drop such lines with --skip-malformed.")
