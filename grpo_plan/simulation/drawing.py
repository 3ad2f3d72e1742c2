"""Random numbers of a step, and the prompts that it draws.

Each step, and each round of a refill, has streams of its own, one for prompts, one for rollouts and one for noise, made
from the seed and the numbers of step and round alone. So two simulations of one seed draw the same prompts and the same
random numbers for their rollouts, whatever their estimators did before: their differences are paired.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.simulation.settings import Curriculum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PROMPTS, ROLLOUTS, NOISE, SHUFFLE, EPOCH, SET = range(6)
FIRST_GUESS = 0.5
KEPT_AT_VISIT = 0.5


class Streams:
    """Generators of one seed by purpose, step and round.

    >>> Streams(1).at(NOISE, 3).random() == Streams(1).at(NOISE, 3).random()
    True
    """

    def __init__(self, seed: int) -> None:
        self._key = np.random.SeedSequence(seed).generate_state(2, np.uint64)

    def at(self, purpose: int, step: int, turn: int = 0) -> np.random.Generator:
        """The generator of a purpose at a step."""
        return np.random.Generator(np.random.Philox(key=self._key, counter=[0, turn, step, purpose]))


class Sampler:
    """Which prompts a step draws.

    Attributes:
        off_band: Draws that found no prompt with a weight and so took all alike.
    """

    def __init__(self, sampling: str | Curriculum, prompts: int, streams: Streams) -> None:
        self._sampling = sampling
        self._prompts = prompts
        self._streams = streams
        self._epoch = 0
        self._order = np.zeros(0, dtype=np.int64)
        self._passes = np.full(prompts, FIRST_GUESS)
        self._seen = np.ones(prompts)
        self.off_band = 0

    @property
    def needs_rates(self) -> bool:
        """Whether the pass rates of the moment decide."""
        return isinstance(self._sampling, Curriculum) and self._sampling.by == "current"

    def draw(self, count: int, step: int, turn: int, rates: Floats | None) -> Ints:
        """Prompts of a round, shape (count,)."""
        rng = self._streams.at(PROMPTS, step, turn)
        if self._sampling == "uniform":
            return rng.integers(0, self._prompts, count)
        if isinstance(self._sampling, Curriculum):
            weights = self._sampling.weights(self._passes / self._seen if rates is None else rates)
            total = np.cumsum(weights)
            if total[-1] > 0.0:
                found: Ints = np.searchsorted(total, rng.random(count) * total[-1], side="right")
                last: int = np.flatnonzero(weights)[-1]
                return np.minimum(found, last)
            self.off_band += 1
            return rng.integers(0, self._prompts, count)
        while self._order.size < count:
            shuffled = self._streams.at(EPOCH, self._epoch).permutation(self._prompts)
            self._order = np.concatenate([self._order, shuffled])
            self._epoch += 1
        drawn, self._order = self._order[:count], self._order[count:]
        return drawn

    def tell(self, rows: Ints, passes: Ints, group_size: int) -> None:
        """What the drawn groups gave; older passes count half at each visit."""
        if not isinstance(self._sampling, Curriculum) or self._sampling.by != "tracked":
            return
        visits = np.bincount(rows, minlength=self._prompts)
        kept = KEPT_AT_VISIT**visits
        self._passes = kept * self._passes + np.bincount(rows, weights=passes, minlength=self._prompts)
        self._seen = kept * self._seen + group_size * visits


def shuffled_rewards(passes: Ints, group_size: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Rewards of a batch in random order (theory.md, eq. 129).

    Args:
        passes: Passes of each group, shape (N,).
        group_size: G.
        rng: Random numbers.

    Returns:
        Rewards of 1 that each group gets, and how many of them fall on a pass; the exact law of a random permutation.

    >>> shuffled_rewards(np.array([2, 0]), 1 + 1, np.random.default_rng(0))[0].sum().item()
    2
    """
    groups = np.full(passes.size, group_size)
    rewarded = rng.multivariate_hypergeometric(groups, int(passes.sum()), method="marginals")
    return rewarded, rng.hypergeometric(passes, group_size - passes, rewarded)
