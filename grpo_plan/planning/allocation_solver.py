"""Whole numbers of rollouts of largest total worth, and the water-filling answer (theory.md, eq. 63 and 64)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError, InfeasiblePlanError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
MAX_STATES = 50_000_000
SMALLEST_SHARE = 1e-12  # of the largest spread, below which a prompt counts as silent for certain


def best_counts(worth: Floats, sizes: Counts, of_prompt: NDArray[np.intp], total: int, low: int) -> Counts:
    """Counts of largest total worth, exact where worth is concave in the count (theory.md, eq. 63).

    Args:
        worth: Of ``low``, ``low + 1``, ... rollouts for each class, shape (C, W), concave along the last axis.
        sizes: Prompts of each class, shape (C,).
        of_prompt: Class of each prompt, shape (Q,).
        total: Rollouts in all.
        low: Fewest rollouts.

    Returns:
        Rollouts of each prompt, shape (Q,).
    """
    gains = np.minimum.accumulate(np.diff(worth, axis=1), axis=1)  # rounding may break a tie the wrong way
    left = total - low * of_prompt.size
    order = np.argsort(-gains, axis=None, kind="stable")
    rows = order // gains.shape[1] if gains.shape[1] else order
    spent = np.cumsum(sizes[rows])
    whole = int(np.searchsorted(spent, left, side="right"))
    extra = np.bincount(rows[:whole], minlength=sizes.size).astype(np.int64)
    counts: Counts = (low + extra)[of_prompt]
    rest = left - (int(spent[whole - 1]) if whole else 0)
    if rest:
        members = np.flatnonzero(of_prompt == rows[whole])
        counts[members[:rest]] += 1
    return counts


def every_combination(worth: Floats, of_prompt: NDArray[np.intp], total: int) -> Counts:
    """Counts of largest total worth when 0 is allowed and 1 is not: exact by dynamic programming.

    Worth is not concave at 0, where the first rollout alone gains nothing (theory.md, eq. 64).

    Args:
        worth: Of 0, 1, ... rollouts for each class, shape (C, W).
        of_prompt: Class of each prompt, shape (Q,).
        total: Rollouts in all.
    """
    prompts, width = of_prompt.size, worth.shape[1]
    if prompts * (total + 1) > MAX_STATES:
        raise DomainError(
            f"low = 0 is solved exactly up to {MAX_STATES:,} prompts times rollouts; got {prompts * (total + 1):,}. "
            "Take low = 2."
        )
    best = np.full(total + 1, -np.inf)
    best[0] = 0.0
    choice = np.zeros((prompts, total + 1), dtype=np.int16)
    for i, row in enumerate(of_prompt):
        found, chosen = best.copy(), np.zeros(total + 1, dtype=np.int16)
        for n in range(2, min(width, total + 1)):
            candidate = best[: total + 1 - n] + worth[row, n]
            better = candidate > found[n:]
            found[n:][better] = candidate[better]
            chosen[n:][better] = n
        best, choice[i] = found, chosen
    if not np.isfinite(best[total]):
        raise InfeasiblePlanError(
            f"{total:,} rollouts cannot be spread in lots of 2 to {width - 1} each. Change the total."
        )
    counts, left = np.zeros(prompts, dtype=np.int64), total
    for i in range(prompts - 1, -1, -1):
        counts[i] = choice[i, left]
        left -= int(counts[i])
    return counts


def water_filling(
    spread: Floats, sizes: Counts, total: int, low: int, high: int, estimator: str
) -> tuple[Floats, float]:
    """Rollouts of each class before rounding, and the multiplier lambda (theory.md, eq. 63).

    Args:
        spread: a of each class, shape (C,).
        sizes: Prompts of each class, shape (C,).
        total: Rollouts in all, between the bounds.
        low: Fewest rollouts.
        high: Most rollouts.
        estimator: ``"rloo"``: ``clip(1 + sqrt(a / lambda), low, high)``; ``"dr_grpo"``: root of ``a (n - 2) / n**3``.
    """
    top = float(spread.max())
    live = spread > SMALLEST_SHARE * top
    answer = np.full(spread.size, float(low))
    if top <= 0.0 or float(sizes[live].sum() * high + sizes[~live].sum() * low) <= total:
        answer[live] = high if top > 0.0 else low  # what is left goes to prompts that no rollout helps
        rest = total - float(sizes @ answer)
        answer[~live] += rest / max(float(sizes[~live].sum()), 1.0)
        return answer, 0.0

    def at(multiplier: float) -> Floats:
        wanted = np.zeros(spread.size)
        if estimator == "rloo":
            wanted = 1.0 + np.sqrt(spread / multiplier)
        else:
            wanted = _cubic_root(spread / multiplier)
        clipped: Floats = np.clip(wanted, low, high)
        return clipped

    left, right = np.log(top) - 3.0 * np.log(high) - 40.0, np.log(top) + 1.0
    for _ in range(200):
        middle = 0.5 * (left + right)
        if float(sizes @ at(float(np.exp(middle)))) > total:
            left = middle
        else:
            right = middle
    multiplier = float(np.exp(0.5 * (left + right)))
    return at(multiplier), multiplier


def _cubic_root(ratio: Floats) -> Floats:
    """Largest n with ``n**3 = ratio (n - 2)``, where that n is at least 3; else 3 (theory.md, eq. 63).

    ``(n - 2) / n**3`` falls from 1/27 at n = 3, so there is one root above 3 when ratio exceeds 27.
    """
    reach = np.sqrt(np.maximum(ratio, 27.0))  # n**3 = r (n - 2) < r n
    angle = np.arccos(np.clip(-np.sqrt(27.0) / reach, -1.0, 1.0))  # trigonometric root of n**3 - r n + 2 r = 0
    roots: Floats = np.where(ratio > 27.0, 2.0 * reach / np.sqrt(3.0) * np.cos(angle / 3.0), 3.0)
    return roots
