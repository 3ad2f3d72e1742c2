"""RunLog: the metrics of a run, step by step, under the names that the log gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunLog:
    """Metrics of one run.

    Attributes:
        steps: Training steps in rising order, shape (S,).
        metrics: Name as logged to its values, shape (S,), NaN where a step has none.
        format: Name of the reader.
        source: What was read, for messages.
        group_size: Rollouts per prompt, where the source tells it.
        config: What the source says of its configuration, as logged.
        dropped: What was read and left out, by reason.
        notes: How the source was read, one sentence each.
    """

    steps: NDArray[np.int64]
    metrics: Mapping[str, NDArray[np.float64]]
    format: str
    source: str
    group_size: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
