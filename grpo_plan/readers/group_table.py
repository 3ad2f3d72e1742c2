"""The groups of a source as they were read: one row a group, and which of them are dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import PilotFormatError
from grpo_plan.group_log import EQUAL_REWARDS
from grpo_plan.provenance import DeadGroups
from grpo_plan.readers.counting import Place
from grpo_plan.readers.group_details import GroupDetails
from grpo_plan.readers.values import NotAReward, numbers_of, rewards_of, shown, text_series

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True, kw_only=True)
class GroupTable:
    """One row a group: how many rollouts, how many scored, and the range of their rewards.

    Batches may hold ``full_reward``, what the trainer itself compares, where ``reward`` is only a part of it.
    """

    parts: list[pl.DataFrame] = field(default_factory=list)
    other_reward: bool = False
    details: GroupDetails | None = None

    def add(self, columns: Mapping[str, Sequence[Any]], place: Place, reward_name: str) -> None:
        """Take a batch; a group may continue in the next one."""
        import polars as pl

        try:
            rewards = rewards_of(columns["reward"])
        except NotAReward as error:
            raise PilotFormatError(
                f"{place(error.index)}: {reward_name} is {shown([error.value])}, which is neither a number nor a "
                "pass/fail word (true/false, C/I). Name another with --reward-column."
            ) from None
        rewards = np.where(np.isfinite(rewards), rewards, np.nan)
        steps = columns.get("step", [None] * len(rewards))
        if "full_reward" in columns:
            self.other_reward = True
            full = numbers_of(columns["full_reward"])
        else:
            full = rewards
        frame = pl.DataFrame(
            {
                "group": text_series(columns["group"]).fill_null(""),
                "step": pl.Series([-1 if s is None else s for s in steps], dtype=pl.Int64),
                "prompt": text_series(columns["prompt"]),
                "reward": pl.Series(rewards).fill_nan(None),
                "full": pl.Series(np.where(np.isfinite(full), full, np.nan)).fill_nan(None),
            }
        )
        details = self.details
        if details is not None:
            frame = frame.with_columns(details.columns(columns, frame.height))
        reward, full_reward = pl.col("reward"), pl.col("full")
        self.parts.append(
            frame.group_by("step", "group", maintain_order=True).agg(
                pl.col("prompt").first(),
                pl.len().cast(pl.Int64).alias("rollouts"),
                reward.count().cast(pl.Int64).alias("scored"),
                reward.min().alias("low"),
                reward.max().alias("high"),
                reward.sum().alias("total"),
                full_reward.count().cast(pl.Int64).alias("full_scored"),
                full_reward.min().alias("full_low"),
                full_reward.max().alias("full_high"),
                *(() if details is None else details.of_batch()),
            )
        )

    def frame(self) -> pl.DataFrame:
        """Groups in order of first appearance."""
        import polars as pl

        merged = (
            pl.concat(self.parts)
            .group_by("step", "group", maintain_order=True)
            .agg(
                pl.col("prompt").first(),
                pl.col("rollouts", "scored", "full_scored").sum(),
                pl.col("low", "full_low").min(),
                pl.col("high", "full_high").max(),
                pl.col("total").sum(),
                *(() if self.details is None else self.details.of_parts()),
            )
        )
        self.parts = [merged]
        return merged

    def dead(self, threshold: float | None, *, full_known: bool) -> DeadGroups:
        """How many groups are dead, by pass or fail, and by the full reward where that is known."""
        import polars as pl

        level = 1.0 if threshold is None else threshold
        empty = pl.col("scored") == 0
        frame = self.frame().with_columns(
            unscored=empty,
            all_pass=~empty & (pl.col("low") >= level),
            all_fail=~empty & (pl.col("high") < level),
            alike=(pl.col("full_scored") < 2) | (pl.col("full_high") - pl.col("full_low") <= EQUAL_REWARDS),
        )
        known = full_known or self.other_reward
        dead = pl.col("alike") if known else pl.col("unscored") | pl.col("all_pass") | pl.col("all_fail")
        steps = frame.group_by("step").agg(pl.len(), dead.sum().alias("dead")).sort("step")
        return DeadGroups(
            groups=frame.height,
            all_fail=int(frame["all_fail"].sum()),
            all_pass=int(frame["all_pass"].sum()),
            unscored=int(frame["unscored"].sum()),
            by_reward=int(frame["alike"].sum()) if known else None,
            by_step=tuple((int(step), int(size), int(count)) for step, size, count in steps.iter_rows()),
        )
