"""Whether a dump holds only the groups that a filter left: the chance that none of its groups is dead by itself."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

UNLIKELY = 1e-3


def chance_of_no_dead_group(groups: Iterable[NDArray[np.float64]]) -> float | None:
    """Chance that no group would be dead, were all kept; None where one is dead, or there is none.

    Each group is sampled again from its own rewards: a group of G with m rewards of each value is dead with the
    chance ``sum((m / G)**G)``. Prompts whose groups are always dead are not among the survivors, so the true chance is
    smaller.

    Args:
        groups: Rewards of each group, NaN where scoring failed.

    >>> import numpy as np
    >>> half = np.array([0.0, 0.0, 1.0, 1.0])
    >>> chance_of_no_dead_group([half] * 3)  # (1 - 2 / 2**4)**3
    0.669921875
    >>> chance_of_no_dead_group([half, np.ones(4)]) is None
    True
    """
    chance, seen = 1.0, False
    for rewards in groups:
        _, counts = np.unique(rewards[~np.isnan(rewards)], return_counts=True)
        if counts.size < 2:
            return None
        size, seen = int(counts.sum()), True
        chance *= 1.0 - float(((counts / size) ** size).sum())
    return chance if seen else None
