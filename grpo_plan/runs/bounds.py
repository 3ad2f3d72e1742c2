"""What a log that does not say the dead fraction says of it all the same: bounds, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
SLACK = 1e-6  # metrics are averages of float32


def dead_bounds_from_spread(group_std: ArrayLike, group_size: int, *, std: str = "sample") -> tuple[Floats, Floats]:
    """Dead fraction from the mean of the groups' own standard deviations of 0/1 rewards (theory.md, eq. 92).

    A mixed group of G rollouts has a standard deviation between that of one pass (or one fail) and that of G / 2
    passes, a dead one has 0.

    Args:
        group_std: Mean over the groups of each row, at least 0, any shape.
        group_size: G, at least 2.
        std: ``"sample"`` (G - 1 in the denominator, as TRL) or ``"population"`` (G).

    Returns:
        Lower and upper bounds in [0, 1], of that shape.

    >>> low, high = dead_bounds_from_spread(0.1338, 8)
    >>> round(float(low), 3), round(float(high), 3)
    (0.622, 0.75)
    """
    size, spread = as_count(group_size, "group_size", minimum=2), as_float_array(group_std, "group_std")
    if std not in ("sample", "population"):
        raise DomainError(f"std must be 'sample' or 'population'; got {std!r}.")
    unit = 1.0 if std == "population" else np.sqrt(size / (size - 1.0))
    half = size // 2
    largest = unit * np.sqrt(half * (size - half)) / size
    smallest = unit * np.sqrt(size - 1.0) / size
    return np.clip(1.0 - spread / smallest, 0.0, 1.0), np.clip(1.0 - spread / largest, 0.0, 1.0)


def dead_bounds_from_batches(batches: ArrayLike) -> tuple[Floats, Floats]:
    """Share of dead groups among those drawn, from the batches that a refill needed (theory.md, eq. 93).

    ``b`` batches, each of N prompts as a step is, held at least N mixed groups, and the first ``b - 1`` fewer.

    Args:
        batches: Batches generated for each step, at least 1, any shape.

    Returns:
        Lower and upper bounds in [0, 1], of that shape.

    >>> low, high = dead_bounds_from_batches([1, 5])
    >>> low.tolist(), high.tolist()
    ([0.0, 0.6], [0.0, 0.8])
    """
    b = np.maximum(as_float_array(batches, "batches"), 1.0)
    return np.maximum(1.0 - 2.0 / b, 0.0), 1.0 - 1.0 / b
