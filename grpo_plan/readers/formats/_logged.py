"""Generation batches as TRL and its family log them: rows in groups of G, some logged twice, some of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.formats._run_facts import RunFacts
from grpo_plan.readers.group_details import hashes_of, responses
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.values import NotAReward, rewards_of, shown, text_of, text_series

if TYPE_CHECKING:
    import polars as pl

Names = dict[int, str | None]
ROLES = ("prompt", "stratum", "temperature", "response_tokens", "policy")


@dataclass(slots=True, kw_only=True)
class LoggedBatch:
    """One table of a log: N rows of one step, each a rollout.

    Attributes:
        name: File (and line) for messages.
        place: Names a row, for errors.
        step: Training step, or None.
        keys: Hash of the prompt of each row, shape (N,).
        content: Hash of prompt, completion and rewards of each row, shape (N,).
        rewards: Reward function (or another column of numbers) to its values, shape (N,), NaN where there is none.
        advantage: Shape (N,), or None.
        texts: Hash of the completion of each row, None where it is missing; empty unless asked for.
        asked: Further columns that the user named.
    """

    name: str
    place: Callable[[int], str]
    step: int | None
    keys: NDArray[np.uint64]
    content: NDArray[np.uint64]
    rewards: Mapping[str, NDArray[np.float64]]
    advantage: NDArray[np.float64] | None = None
    asked: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    texts: Sequence[int | None] = ()

    @property
    def rows(self) -> int:
        """Number of rows N."""
        return int(self.keys.size)


@dataclass(slots=True, kw_only=True)
class LoggedRun:
    """The tables of one run in the order in which they were written, and what else is known of it.

    Attributes:
        name: Folder, for messages.
        facts: What lies beside the tables.
        appended: Whether a later table of a step stands beside an earlier one; else it replaced it.
        rewards: Columns that are reward functions, where the tables themselves tell.
        batches: The tables.
    """

    name: str
    facts: RunFacts
    appended: bool
    rewards: list[str] = field(default_factory=list)
    batches: list[LoggedBatch] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Rows ``start`` to ``stop`` of a table, all of one split; ``cut`` if the first group may lack its beginning."""

    batch: LoggedBatch
    start: int
    stop: int
    split: str
    cut: bool = False

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hash of the prompt of each row."""
        return self.batch.keys[self.start : self.stop]

    @property
    def advantage(self) -> NDArray[np.float64] | None:
        """Advantage of each row, or None if it is not known of all."""
        values = self.batch.advantage
        if values is None or np.isnan(values[self.start : self.stop]).any():
            return None
        return values[self.start : self.stop]

    def runs(self) -> NDArray[np.int64]:
        """Lengths of the runs of equal prompts."""
        ends = np.flatnonzero(np.append(self.keys[1:] != self.keys[:-1], True))
        return np.diff(ends, prepend=-1)


def asked_columns(sink: RolloutSink) -> list[str]:
    """Columns that the user named for a role or a filter, but for the reward."""
    given = sink.request.given
    roles = [name for role in (*ROLES, "session", "text") if (name := given.get(role)) is not None]
    return list(dict.fromkeys([*roles, *sink.request.options.where]))


def rewards_asked(sink: RolloutSink) -> set[str]:
    """Columns that the user named as rewards."""
    named = sink.request.given.get("reward")
    return {*sink.request.reward_weights, *([] if named is None else [named])}


def batches_of_frame(
    frame: pl.DataFrame, rewards: Sequence[str], asked: Mapping[str, Sequence[Any]], name: str,
    place: Callable[[int], str], names: Names, *, details: bool = False,
) -> list[LoggedBatch]:  # fmt: skip
    """The tables in a frame with ``step``, ``prompt``, ``completion``, rewards and perhaps ``advantage``: one a step.

    ``names`` takes the text of every prompt under its hash; with ``details`` completions are hashed apart too.
    """
    import polars as pl

    if not frame.height:
        return []
    floats = [pl.col(c).cast(pl.Float64).fill_null(float("nan")) for c in rewards]
    frame = frame.with_columns(
        pl.col("prompt").hash().alias("__key__"),
        pl.struct("prompt", "completion", *rewards).hash().alias("__content__"),
        *floats,
    )
    keys = frame["__key__"].to_numpy()
    fresh, first = np.unique(keys, return_index=True)
    new = [(int(k), int(i)) for k, i in zip(fresh, first, strict=True) if int(k) not in names]
    prompts = frame["prompt"].gather([i for _, i in new]).to_list()
    names.update({key: text_of(prompt) for (key, _), prompt in zip(new, prompts, strict=True)})
    steps = [None if s is None else int(s) for s in frame["step"].to_list()]
    ends = [i for i in range(1, len(steps) + 1) if i == len(steps) or steps[i] != steps[i - 1]]
    numbers = {c: decimals(frame[c].to_numpy()) for c in rewards}
    texts = hashes_of(frame["completion"]).to_list() if details else []
    out, start = [], 0
    for stop in ends:
        part, at = slice(start, stop), start
        advantage = (
            frame["advantage"].cast(pl.Float64).fill_null(float("nan")) if "advantage" in frame.columns else None
        )
        out.append(
            LoggedBatch(
                name=name,
                place=_moved(place, at),
                step=steps[start],
                keys=keys[part],
                content=frame["__content__"].to_numpy()[part],
                rewards={c: values[part] for c, values in numbers.items()},
                advantage=None if advantage is None else advantage.to_numpy()[part],
                asked={c: values[part] for c, values in asked.items()},
                texts=texts[part],
            )
        )
        start = stop
    return out


def _moved(place: Callable[[int], str], by: int) -> Callable[[int], str]:
    return lambda i: place(by + i)


def decimals(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of single precision as the decimals that they stand for; others as they are.

    Trainers hold rewards in single precision: 0.7 comes back as 0.699999988, below a threshold of 0.7.

    >>> import numpy as np
    >>> decimals(np.float64(np.float32([0.7, 1.0])))
    array([0.7, 1. ])
    """
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    if not np.array_equal(single.astype(np.float64), values, equal_nan=True):
        return values
    found, index = np.unique(single, return_inverse=True)
    out: NDArray[np.float64] = np.array([float(str(v)) for v in found])[index]
    return out


def frame_of_lists(
    columns: Mapping[str, Sequence[Any]], rewards: Sequence[str], place: Callable[[int], str]
) -> pl.DataFrame:
    """Such a frame from lists of values as JSON has them.

    Raises:
        PilotFormatError: A reward, an advantage or a step is no number.
    """
    import polars as pl

    out: dict[str, pl.Series] = {}
    out["prompt"], out["completion"] = text_series(columns["prompt"]), responses(columns["completion"])
    for column in ("step", *rewards, *(["advantage"] if "advantage" in columns else [])):
        try:
            values = rewards_of(columns[column])
        except NotAReward as error:
            raise PilotFormatError(
                f"{place(error.index)}: {column} is {shown([error.value])}, which is no number."
                + (" Choose another with --reward-column." if column in rewards else " Is the file damaged?")
            ) from None
        series = pl.Series(values).fill_nan(None)
        out[column] = series.cast(pl.Int64, strict=False) if column == "step" else series
    return pl.DataFrame(out)
