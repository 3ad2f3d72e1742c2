"""How rewards become passes and which rows of a table count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grpo_plan.readers.rates import RateColumn, RateReading
from grpo_plan.readers.selection import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How rewards become passes and which rows count.

    ``selected`` is what ``steps`` and ``split`` mean for the columns of one table.
    """

    pass_threshold: float | None = None
    rollouts_per_prompt: int | None = None
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    steps: tuple[int, int] | None = None
    split: str = "train"
    selected: tuple[Condition, ...] = ()
    groups_apart: bool = False  # rows of one prompt, or its steps, are groups that must not be added up
    skip_malformed: bool | int = False
    workers: int | None = None
    storage_options: Mapping[str, str] | None = None
    histogram: bool | None = None
    rates: RateReading = field(default_factory=RateReading)
    rate_column: RateColumn | None = None  # where given, rates are looked at and nothing is counted

    @property
    def skip_limit(self) -> float:
        """How many malformed rows may be skipped."""
        if isinstance(self.skip_malformed, bool):
            return float("inf") if self.skip_malformed else 0
        return self.skip_malformed

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What a row must fulfil to be kept, one after the other."""
        return (*(Condition(column=c, wanted=tuple(w)) for c, w in self.where.items()), *self.selected)
