"""One group: the advantages of an estimator at 0/1 rewards, and their closed-form signal and noise.

Every estimator here is centred: the advantages of a group sum to 0, so a dead group has none. Then the
estimate of one group has signal ``t(k)`` and noise ``v(k)`` that depend on the passes k alone, and their
means over prompts need only the law of k (theory.md, eq. 24 and 25).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """An advantage estimator for 0/1 rewards.

    Attributes:
        name: How it is asked for.
        pass_advantage: Advantage of a pass in a mixed group, from k (array) and G.
        description: The advantage in words.
    """

    name: str
    pass_advantage: Callable[[Floats, int], Floats]
    description: str

    def signal(self, group_size: int) -> Floats:
        """``t(k) = k A+(k) / G`` for k = 0..G, shape (G + 1,): estimate along the true gradient, in units of h."""
        k, mixed, advantage = self._mixed(group_size)
        out = np.zeros(group_size + 1)
        out[mixed] = k * advantage / group_size
        return out

    def noise(self, group_size: int) -> Floats:
        """``v(k) = (k A+**2 + (G - k) A-**2) / G**2`` for k = 0..G, shape (G + 1,): weight of the score noise."""
        k, mixed, advantage = self._mixed(group_size)
        fail_advantage = -k * advantage / (group_size - k)
        out = np.zeros(group_size + 1)
        out[mixed] = (k * advantage**2 + (group_size - k) * fail_advantage**2) / group_size**2
        return out

    def _mixed(self, group_size: int) -> tuple[Floats, slice, Floats]:
        g = as_count(group_size, "group_size", minimum=2)
        k = np.arange(1.0, g)
        return k, slice(1, g), self.pass_advantage(k, g)


ESTIMATORS: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator(
            name="grpo",
            pass_advantage=lambda k, g: np.sqrt((g - k) / k),
            description="reward minus group mean, over the group std (population or sample std: the same plan)",
        ),
        Estimator(
            name="dr_grpo",
            pass_advantage=lambda k, g: 1.0 - k / g,
            description="reward minus group mean",
        ),
        Estimator(
            name="rloo",
            pass_advantage=lambda k, g: (g - k) / (g - 1.0),
            description="reward minus the mean of the other rollouts (same plan as dr_grpo: a constant factor)",
        ),
    )
}


def get_estimator(name: str) -> Estimator:
    """The estimator of that name.

    Raises:
        DomainError: No such estimator.

    >>> get_estimator("rloo").signal(4).round(4).tolist()
    [0.0, 0.25, 0.3333, 0.25, 0.0]
    """
    try:
        return ESTIMATORS[name]
    except KeyError:
        known = ", ".join(ESTIMATORS)
        raise DomainError(f"estimator must be one of {known}; got {name!r}.") from None
