"""Whether a run learns: the trend of its mean pass rate, or of its mean reward."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from grpo_plan.quantities import Absent
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.trend import Trend, TrendStatus, trend

FLAT = 0.05  # a pass rate that surely moved by less than this has not moved
TREND_LEVEL, FLAT_LEVEL = 0.99, 0.95


class Learning(StrEnum):
    """What the mean pass rate or reward does."""

    IMPROVING = "improving"
    FALLING = "falling"
    FLAT = "flat"
    UNCLEAR = "unclear"  # it may have moved or not: too few rows, or too noisy
    UNKNOWN = "unknown"  # nothing tells the mean reward


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearningCurve:
    """The trend of the mean pass rate or reward.

    Attributes:
        learning: What it does.
        trend: The trend; None where nothing is logged.
        series: What it was taken from; None where nothing is logged.
        says: One clause with numbers.
    """

    learning: Learning
    trend: Trend | None
    series: Measured | None
    says: str

    @property
    def improving(self) -> bool:
        """Whether it surely rises."""
        return self.learning is Learning.IMPROVING


def learning_curve(facts: Facts) -> LearningCurve:
    """The trend over the whole run: it moved at 99 % confidence, it did not by more than 0.05 at 95 %, or neither."""
    series = facts.pass_rate if isinstance(facts.pass_rate, Measured) else facts.reward
    if isinstance(series, Absent):
        return LearningCurve(learning=Learning.UNKNOWN, trend=None, series=None, says="the mean reward is not logged")
    found = trend(series.steps, series.values, level=TREND_LEVEL)
    name = "mean pass rate" if series is facts.pass_rate else "mean reward"
    if found.status is TrendStatus.CONSTANT:
        says = f"the {name} is {series.mean:.3g} in all of {series.span}"
        return LearningCurve(learning=Learning.FLAT, trend=found, series=series, says=says)
    if found.start is None or found.end is None or found.low is None or found.high is None:
        says = f"{series.rows:,} rows are too few to tell a trend of the {name} ({series.mean:.3g})"
        return LearningCurve(learning=Learning.UNCLEAR, trend=found, series=series, says=says)
    moved = f"{name} {found.start:.3g} to {found.end:.3g} over {series.span}"
    if found.rising:
        kind, how = Learning.IMPROVING, "improving"
    elif found.falling:
        kind, how = Learning.FALLING, "falling"
    elif _flat(series):
        kind, how = Learning.FLAT, "flat"
    else:
        kind, how = Learning.UNCLEAR, "no clear trend"
    says = f"{moved} ({how}: change {found.low:+.3f} to {found.high:+.3f})"
    return LearningCurve(learning=kind, trend=found, series=series, says=says)


def _flat(series: Measured) -> bool:
    """Whether a pass rate surely moved by less than 0.05."""
    found = trend(series.steps, series.values, level=FLAT_LEVEL)
    if found.scale != "logit" or found.low is None or found.high is None:
        return False
    return -FLAT < found.low and found.high < FLAT
