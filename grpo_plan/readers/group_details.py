"""What groups tell beyond the range of their rewards: passes, spread, texts, lengths, and what was cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import EQUAL_REWARDS
from grpo_plan.readers.values import numbers_of, text_of, writable

if TYPE_CHECKING:
    import polars as pl

TEXT = "response text"  # columns made by readers: the text of a response (or its hash), None where it is missing
CUT = "cut off"  # whether a limit of length ended a rollout, None where it is not known
LENGTH = "response_tokens"


@dataclass(slots=True, kw_only=True)
class GroupDetails:
    """Further columns of a table of groups: texts are kept as hashes, equal rewards once.

    Attributes:
        threshold: Reward from which a rollout passes; None where it is to be told from two levels.
        told: Which of the columns that a source need not have it has.
    """

    threshold: float | None = None
    told: set[str] = field(default_factory=set)

    def columns(self, columns: Mapping[str, Sequence[Any]], size: int) -> list[pl.Series]:
        """The columns of a batch, one value a rollout, null where it is not known."""
        import polars as pl

        nothing = [None] * size
        texts = digests(columns.get(TEXT, nothing)).alias("text")
        cut = pl.Series("cut", [None if c is None else bool(c) for c in columns.get(CUT, nothing)], dtype=pl.Boolean)
        numbers = numbers_of(columns.get(LENGTH, nothing))
        lengths = pl.Series("length", np.where(numbers >= 0, numbers, np.nan)).fill_nan(None)
        self.told |= {s.name for s in (texts, cut, lengths) if s.null_count() < size}
        return [texts, cut, lengths]

    def of_batch(self) -> list[pl.Expr]:
        """One value a group, from the rollouts of a batch."""
        import polars as pl

        reward, text, cut, length = (pl.col(name) for name in ("reward", "text", "cut", "length"))
        passing = pl.lit(0, pl.Int64) if self.threshold is None else (reward >= self.threshold).sum().cast(pl.Int64)
        return [
            passing.alias("passing"),
            (reward == reward.max()).sum().cast(pl.Int64).alias("at_high"),
            ((reward - reward.mean()) ** 2).sum().alias("squares"),
            reward.drop_nulls().unique().alias("levels"),
            text.filter(reward.is_not_null()).drop_nulls().unique().alias("texts"),
            (text.is_null() & reward.is_not_null()).sum().cast(pl.Int64).alias("textless"),
            cut.sum().cast(pl.Int64).alias("cut"),
            cut.is_null().sum().cast(pl.Int64).alias("cut_unknown"),
            length.sum().alias("tokens"),
            length.count().cast(pl.Int64).alias("measured"),
        ]

    def of_parts(self) -> list[pl.Expr]:
        """The same from parts of a group in several batches."""
        import polars as pl

        scored, total = pl.col("scored"), pl.col("total")
        mean = pl.when(scored > 0).then(total / scored)
        apart = scored * (mean - total.sum() / scored.sum()) ** 2
        return [
            pl.col("at_high").filter(pl.col("high") == pl.col("high").max()).sum(),
            (pl.col("squares").sum() + apart.sum()).alias("squares"),
            pl.col("levels", "texts").explode().drop_nulls().unique(),
            pl.col("passing", "textless", "cut", "cut_unknown", "tokens", "measured").sum(),
        ]

    def of_groups(self, table: pl.DataFrame) -> dict[str, Any]:
        """Columns of a `GroupLog`."""
        import polars as pl

        scored, measured = table["scored"].to_numpy(), table["measured"].to_numpy()
        levels = table["levels"].explode().drop_nulls().unique().sort().to_numpy()
        threshold = self.threshold if self.threshold is not None else two_levels(levels)
        high, at_high = table["high"].fill_null(float("nan")).to_numpy(), table["at_high"].to_numpy()
        passes: NDArray[np.int64] | None
        if self.threshold is not None:
            passes = table["passing"].to_numpy()
        else:
            passes = None if threshold is None else np.where(high >= threshold, at_high, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            equal = high - table["low"].fill_null(float("nan")).to_numpy() <= EQUAL_REWARDS
            tokens = np.where(measured > 0, table["tokens"].to_numpy() / np.maximum(measured, 1), np.nan)
            var = np.where(scored > 0, table["squares"].to_numpy() / np.maximum(scored, 1), np.nan)
        texts = table.select(
            pl.when(pl.col("textless") > 0).then(-1).otherwise(pl.col("texts").list.len()).cast(pl.Int64)
        )
        cut = table.select(pl.when(pl.col("cut_unknown") > 0).then(-1).otherwise(pl.col("cut")).cast(pl.Int64))
        lengths = "length" in self.told
        return {
            "pass_threshold": threshold,
            "passes": passes,
            "truncated": cut.to_series().to_numpy() if "cut" in self.told else None,
            "distinct": texts.to_series().to_numpy() if "text" in self.told else None,
            "distinct_rewards": _distinct_rewards(table["levels"], scored, equal),
            "reward_var": np.where(equal, 0.0, np.where(np.isfinite(var), var, np.nan)),
            "response_tokens": tokens if lengths else None,
            "measured": measured if lengths else None,
        }


def two_levels(levels: NDArray[np.float64]) -> float | None:
    """Reward from which a rollout passes, of the levels that rewards have; None where these do not tell it.

    >>> two_levels(np.array([0.0])), two_levels(np.array([-1.0, 1.0])), two_levels(np.array([0.0, 0.5, 1.0]))
    (1.0, 1.0, None)
    """
    if np.isin(levels, (0.0, 1.0)).all():
        return 1.0
    return float(levels.max()) if levels.size == 2 else None


def digests(values: Sequence[Any]) -> pl.Series:
    """A hash of each text, null where it is missing; whole numbers are taken as hashes."""
    import polars as pl

    kinds = {type(v) for v in values} - {type(None)}
    if kinds <= {int} and all(v is None or 0 <= v < 1 << 64 for v in values):
        return pl.Series(values, dtype=pl.UInt64)
    return hashes_of(responses(values))


def hashes_of(texts: pl.Series) -> pl.Series:
    """Hash of each text or list of messages, null where it is missing."""
    return texts.hash().set(texts.is_null(), None)


def responses(values: Sequence[Any]) -> pl.Series:
    """Texts of responses; an empty one is a text, as where the policy ends at once."""
    import polars as pl

    plain = {type(v) for v in values} <= {str, type(None)}
    texts = list(values) if plain else [v if isinstance(v, str) else text_of(v) for v in values]
    try:
        return pl.Series(texts, dtype=pl.String)
    except UnicodeEncodeError:
        return pl.Series(writable(texts), dtype=pl.String)


def _distinct_rewards(levels: pl.Series, scored: NDArray[np.int64], equal: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Different rewards of each group: a reward within the tolerance of the next smaller one is the same."""
    sizes = levels.list.len().to_numpy().astype(np.int64)
    values = levels.list.sort().explode().drop_nulls().to_numpy()
    group = np.repeat(np.arange(sizes.size), sizes)
    with np.errstate(over="ignore"):
        gaps = (np.diff(values) > EQUAL_REWARDS) & (group[1:] == group[:-1])
    found = 1 + np.bincount(group[1:][gaps], minlength=sizes.size)
    found = np.where(equal, 1, np.maximum(found, 2))
    return np.where(scored > 0, found, 0).astype(np.int64)
