"""A share or a mean of a run, row by row, with the number of groups behind each value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grpo_plan.quantities import Stage

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Measured:
    """Values of R rows, none missing.

    Attributes:
        name: Name of the quantity.
        steps: Training step of each row, rising, shape (R,).
        values: Values, shape (R,); the middle of its bounds where only these are known.
        groups: Groups behind each row, shape (R,): exactly, or at least.
        groups_known: Whether ``groups`` is exact.
        stage: Whether groups that were thrown away are counted.
        words: Where it comes from, for the reader of a report.
        low: What each value is at least, shape (R,); None where values are exact.
        high: What each is at most, shape (R,); None where values are exact.
    """

    name: str
    steps: Counts
    values: Floats
    groups: Counts
    groups_known: bool
    stage: Stage
    words: str
    low: Floats | None = None
    high: Floats | None = None

    def __repr__(self) -> str:
        """Name, rows, mean and source in one line."""
        return f"<Measured {self.name}: {self.rows:,} rows, mean {self.mean:.4g}; {self.words}>"

    @property
    def rows(self) -> int:
        """Number of rows R."""
        return int(self.steps.size)

    @property
    def exact(self) -> bool:
        """Whether the values are known, not only bounded."""
        return self.low is None or self.high is None

    @property
    def mean(self) -> float:
        """Mean over rows, each weighted by its groups; NaN without rows."""
        return float(np.average(self.values, weights=self.groups)) if self.rows else float("nan")

    @property
    def lower(self) -> Floats:
        """Lower bounds, or the values."""
        return self.values if self.low is None else self.low

    @property
    def upper(self) -> Floats:
        """Upper bounds, or the values."""
        return self.values if self.high is None else self.high

    def take(self, rows: Iterable[int] | NDArray[np.bool_] | slice) -> Measured:
        """Some rows, in their order."""
        at = rows if isinstance(rows, slice | np.ndarray) else np.fromiter(rows, dtype=np.int64)
        return replace(
            self,
            steps=self.steps[at],
            values=self.values[at],
            groups=self.groups[at],
            low=None if self.low is None else self.low[at],
            high=None if self.high is None else self.high[at],
        )

    def late(self, share: float = 0.2, least: int = 10) -> Measured:
        """Its last rows: a share of all, but at least ``least``; all where there are fewer."""
        return self.take(slice(max(self.rows - max(least, int(share * self.rows)), 0), None))

    @property
    def span(self) -> str:
        """Its steps in words.

        >>> m = Measured(name="dead_fraction", steps=np.array([1, 5]), values=np.array([0.5, 0.5]),
        ...              groups=np.array([1, 1]), groups_known=False, stage=Stage.UNFILTERED, words="logged")
        >>> m.span
        'steps 1 to 5 (2 rows)'
        """
        if not self.rows:
            return "no step"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        if self.steps[0] == self.steps[-1]:
            return f"step {self.steps[0]:,} ({rows})"
        return f"steps {self.steps[0]:,} to {self.steps[-1]:,} ({rows})"
