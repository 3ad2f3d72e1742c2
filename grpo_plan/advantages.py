"""One group: the advantages of an estimator at 0/1 rewards, and their closed-form signal and noise.

All but ``sign`` are centred: the advantages of a group sum to 0, so a dead group has none. Then the estimate of one
group has signal ``t(k)`` and noise ``v(k)`` that depend on the passes k alone, and their means over prompts need
only the law of k (theory.md, eq. 24 and 25). ``sign`` also needs the law of k in groups of 4 (theory.md, eq. 68).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
PAIRS_OF_FOUR = np.array([0.0, 1 / 4, 1 / 3, 1 / 4, 0.0])  # k (4 - k) / (4 * 3): unbiased for p (1 - p)
TWO_PAIRS_OF_FOUR = np.array([0.0, 0.0, 1 / 6, 0.0, 0.0])  # unbiased for p**2 (1 - p)**2


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMoments:
    """Means over prompts of one group's estimate, in units of h and S (theory.md, eq. 25).

    Attributes:
        signal: E[t], in [0, 1].
        signal_square: E[t**2]; contains the chance that the group is dead.
        noise: E[v].
    """

    signal: float
    signal_square: float
    noise: float

    def variance(self, kappa: Floats, coherence: float) -> Floats:
        """Variance of one group's gradient over ``h**2``: ``E[t**2] + kappa E[v] - rho E[t]**2``."""
        value: Floats = self.signal_square + kappa * self.noise - coherence * self.signal**2
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """An advantage estimator for 0/1 rewards.

    Attributes:
        name: How it is asked for.
        pass_advantage: Advantage of a pass in a mixed group, from k (array) and G.
        description: The advantage in words.
        centred: Whether the advantages of a group sum to 0, so that dead groups count for nothing.
    """

    name: str
    pass_advantage: Callable[[Floats, int], Floats]
    description: str
    centred: bool = True

    def signal(self, group_size: int) -> Floats:
        """``t(k) = k A+(k) / G`` for k = 0..G, shape (G + 1,): estimate along the true gradient, in units of h.

        Raises:
            DomainError: The estimator is not centred: its signal depends on p as well as on k.
        """
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

    def weights(self, group_size: int) -> tuple[int, Floats, Floats, Floats]:
        """Moments as linear functions of one law: its group size, and weights of E[t], E[t**2] and E[v].

        Each array has shape (size + 1,): the moment is its product with the law of k in groups of that size.
        """
        if self.centred:
            t = self.signal(group_size)
            return group_size, t, t**2, self.noise(group_size)
        g = as_count(group_size, "group_size", minimum=2)
        square = 4.0 * TWO_PAIRS_OF_FOUR + (PAIRS_OF_FOUR - 4.0 * TWO_PAIRS_OF_FOUR) / g
        return 4, 2.0 * PAIRS_OF_FOUR, square, np.full(5, 1.0 / g)

    def moments(self, law: Callable[[int], Floats], group_size: int) -> GroupMoments:
        """Moments of the estimate of one group.

        Args:
            law: Law of the passes k in groups of any size, shape (size + 1,).
            group_size: G, at least 2.

        >>> even = lambda g: np.full(g + 1, 1 / (g + 1))  # pass rates uniform on [0, 1]
        >>> round(get_estimator("sign").moments(even, 8).signal, 6)  # 2 E[p (1 - p)]
        0.333333
        """
        size, *weights = self.weights(group_size)
        pmf = law(size)
        signal, square, noise = (float(pmf @ weight) for weight in weights)
        return GroupMoments(signal=signal, signal_square=square, noise=noise)

    def _mixed(self, group_size: int) -> tuple[Floats, slice, Floats]:
        if not self.centred:
            raise DomainError(f"{self.name} is not centred: ask for its moments, which need the pass rate.")
        g = as_count(group_size, "group_size", minimum=2)
        k = np.arange(1.0, g)
        return k, slice(1, g), self.pass_advantage(k, g)


ESTIMATORS: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator(
            name="grpo",
            pass_advantage=lambda k, g: np.sqrt((g - k) / k),
            description="reward minus group mean, over the group's population std",
        ),
        Estimator(
            name="grpo_sample",
            pass_advantage=lambda k, g: np.sqrt((g - k) / k * (g - 1.0) / g),
            description="reward minus group mean, over the group's sample std (same plan as grpo)",
        ),
        Estimator(
            name="grpo_batch",
            pass_advantage=lambda k, g: 1.0 - k / g,
            description="reward minus group mean, over one std for the whole batch (same plan as dr_grpo)",
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
        Estimator(
            name="maxrl",
            pass_advantage=lambda k, g: (g - k) / k,
            description="reward minus group mean, over the group mean",
        ),
        Estimator(
            name="sign",
            pass_advantage=lambda k, g: np.ones_like(k),
            description="+1 for a pass, -1 for a fail, dead groups included",
            centred=False,
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
    except (KeyError, TypeError):
        known = ", ".join(ESTIMATORS)
        raise DomainError(f"estimator must be one of {known}; got {name!r}.") from None
