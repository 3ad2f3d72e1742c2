"""The dead fraction among the groups drawn, from the generation batches that each step took to fill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array, as_level
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
GRID = 2001
MOST_ROUNDS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFromRounds:
    """A dead fraction with limits.

    Attributes:
        value: Most likely dead fraction.
        low: Lower confidence limit.
        high: Upper confidence limit; 1 where every step ended at the cap.
        rows: Steps behind it.
        level: Confidence level.
    """

    value: float
    low: float
    high: float
    rows: int
    level: float


def dead_from_rounds(
    rounds: ArrayLike, prompts_per_step: int, gen_batch_size: int, *, cap: int | None = None, level: float = 0.95
) -> DeadFromRounds:
    """Likelihood of the dead fraction given the generation batches of each step (theory.md, eq. 95).

    Args:
        rounds: Batches that each step took, whole numbers of at least 1, shape (S,), S at least 1.
        prompts_per_step: Mixed groups that a step wants, N.
        gen_batch_size: Prompts of a generation batch, B.
        cap: Batches after which a step ends, filled or not; steps that took so many say only that fewer did not do.
        level: Confidence level.

    Raises:
        DomainError: A number outside its domain.

    >>> found = dead_from_rounds([2, 3, 2, 2, 3, 2], 32, 32)
    >>> round(found.value, 2), found.low < 0.45 < found.high
    (0.48, True)
    """
    from scipy.special import chdtri

    wanted, size = as_count(prompts_per_step, "prompts_per_step"), as_count(gen_batch_size, "gen_batch_size")
    b = as_float_array(rounds, "rounds").ravel()
    if not b.size or bool(np.any(~np.isfinite(b) | (b < 1) | (b != np.round(b)))):
        raise DomainError("rounds must be whole numbers of at least 1, one a step. Leave out rows that are means.")
    most = None if cap is None else as_count(cap, "cap")
    if most is not None:
        b = np.minimum(b, float(most))
    seen, counts = np.unique(b, return_counts=True)
    dead = np.linspace(0.0, 1.0, GRID)[:-1]
    logs = np.zeros(dead.size)
    for r, count in zip(seen, counts, strict=True):
        before = unfilled(dead, int(r - 1) * size, wanted)
        after = np.zeros(dead.size) if most is not None and r >= most else unfilled(dead, int(r) * size, wanted)
        with np.errstate(divide="ignore"):
            logs += count * np.log(np.maximum(before - after, 0.0))
    if not np.isfinite(logs).any():
        raise DomainError(
            "rounds cannot be those of this step: N mixed groups need more prompts. Check gen_batch_size."
        )
    best = int(np.argmax(logs))
    spread = overdispersion(b, float(dead[best]), wanted, size, most)
    inside = np.flatnonzero(logs >= logs[best] - 0.5 * spread * float(chdtri(1.0, 1.0 - as_level(level))))
    low, high = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, dead.size)  # a step of the grid beyond
    return DeadFromRounds(
        value=float(dead[best]),
        low=float(dead[low]),
        high=1.0 if high >= dead.size else float(dead[high]),
        rows=int(b.size),
        level=level,
    )


def overdispersion(rounds: Floats, dead: float, wanted: int, size: int, cap: int | None) -> float:
    """How much more the batches vary than one dead fraction would have them, at least 1 (theory.md, eq. 95).

    >>> round(overdispersion(np.array([2.0, 2.0, 3.0]), 0.5, 32, 32, None), 2)
    1.43
    """
    from scipy.special import betainc

    if rounds.size < 2:
        return 1.0
    longest = MOST_ROUNDS if cap is None else min(cap, MOST_ROUNDS)
    number = np.arange(
        min(longest, int(4.0 * wanted / (1.0 - dead) / size + 40.0 / (1.0 - dead)) + 1), dtype=np.float64
    )
    drawn = number * size
    beyond = np.where(drawn < wanted, 1.0, betainc(np.maximum(drawn, wanted) - wanted + 1.0, float(wanted), dead))
    mean = float(beyond.sum())
    variance = float(((2.0 * number + 1.0) * beyond).sum()) - mean**2
    if variance <= 1e-9:
        return 1.0
    return max(1.0, float(((rounds - mean) ** 2).sum()) / ((rounds.size - 1.0) * variance))


def unfilled(dead: Floats, prompts: int, wanted: int) -> Floats:
    """Chance that so many prompts hold fewer mixed groups than wanted, for each dead fraction.

    >>> unfilled(np.array([0.5]), 2, 1).tolist(), unfilled(np.array([0.5]), 0, 1).tolist()
    ([0.25], [1.0])
    """
    from scipy.special import betainc

    if prompts < wanted:
        return np.ones(dead.shape)
    found: Floats = betainc(prompts - wanted + 1.0, float(wanted), dead)
    return found
