"""Are rollouts of a prompt independent of the one before? Rewards in the order in which they were drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_float_array, as_level
from grpo_plan.errors import DomainError
from grpo_plan.independence.inference import (
    Correlation,
    Floats,
    correlation_of,
    first_alarm,
    in_words,
    interval_in_words,
)
from grpo_plan.independence.sessions import IndependenceCheck, check_independence, largest_shift
from grpo_plan.independence.verdict import MIN_MIXED_PROMPTS, IndependenceVerdict

SORTED_CHANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SequenceCheck(Shown):
    """What the order of rollouts says about Assumption A. A number is None where the pilot does not determine it.

    Attributes:
        verdict: First alarm, or that there is none. All tests together raise a false one with chance ``1 - level``.
        level: Confidence level.
        prompts: M, prompts with a rollout.
        mixed_prompts: Prompts with a pass and a fail among three or more rollouts; only they inform the neighbour test.
        neighbour_correlation: Correlation of a rollout and the next one of its prompt beyond the prompt's pass rate.
        low: Lower limit of it (jackknife over prompts).
        high: Upper limit of it.
        neighbour_z: Standardised sum of the test that it is 0.
        neighbour_p: Its two-sided p-value.
        design_effect: ``1 + 2 (1 - 1/n) rho`` of a list, if only neighbours are correlated.
        halves: First half of each list against the second: drift, and settings that changed on the way.
    """

    verdict: IndependenceVerdict
    level: float
    prompts: int
    mixed_prompts: int
    neighbour_correlation: float | None
    low: float | None
    high: float | None
    neighbour_z: float | None
    neighbour_p: float | None
    design_effect: float | None
    halves: IndependenceCheck

    @property
    def sentence(self) -> str:
        """The verdict and the numbers behind it."""
        parts = [self.verdict.sentence]
        if self.neighbour_correlation is not None and self.neighbour_p is not None:
            parts.append(
                f"Correlation of neighbours {self.neighbour_correlation:.4f}{interval_in_words(self.low, self.high)}, "
                f"{in_words(self.neighbour_p)}, from {self.mixed_prompts:,} mixed of {self.prompts:,} prompts; design "
                f"effect {self.design_effect:.3g}."
            )
        if self.halves.drift_p is not None:
            parts.append(
                f"Pass rate of the second half minus that of the first {self.halves.shifts[1]:+.4f}, "
                f"{in_words(self.halves.drift_p)}."
            )
        return " ".join(parts)


def check_sequences(rewards: Sequence[Sequence[object]], *, level: float = 0.95) -> SequenceCheck:
    """Test whether rewards depend on their place in the list of a prompt (theory.md, eq. 48).

    Two cuts of each list, because each is blind to what the other sees. Neighbours (equal or not) find answers
    that were repeated or cached for a moment; halves find a drift and settings that changed on the way. Parts by
    alternating place (first, third, ...) would see neither.

    Args:
        rewards: One list of 0 and 1 (or False and True) a prompt, in order; None and NaN are left out.
        level: Confidence level; ``1 - level`` is the false-alarm rate of the verdict.

    Raises:
        DomainError: A reward is neither 0 nor 1, or there is none.

    >>> check = check_sequences([[1, 1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 0, 0]] * 30)
    >>> check.verdict.name, round(check.neighbour_correlation, 3)
    ('CORRELATED', 0.571)
    """
    try:
        lengths = np.array([len(r) for r in rewards], dtype=np.int64)
        flat = as_float_array(list(chain.from_iterable(rewards)), "rewards")  # type: ignore[arg-type]
    except TypeError:
        raise DomainError("rewards must be one list of 0 and 1 a prompt; got single values.") from None
    prompts = np.repeat(np.arange(len(lengths)), lengths)
    if flat.ndim != 1:
        raise DomainError(f"rewards must be one list of 0 and 1 a prompt; got shape {flat.shape}.")
    scored = ~np.isnan(flat)
    bad = scored & (flat != 0.0) & (flat != 1.0)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DomainError(
            f"rewards must be 0 or 1; got {flat[i]:g} in list {prompts[i]} ({int(bad.sum())} of {flat.size} values). "
            "Compare them with a threshold first."
        )
    return check_ordered(prompts[scored], flat[scored] == 1.0, level=level)


def check_ordered(prompts: NDArray[np.int64], passed: NDArray[np.bool_], *, level: float = 0.95) -> SequenceCheck:
    """`check_sequences` of one row a rollout: number of its prompt, and whether it passed; rows in order."""
    level = as_level(level)
    if not prompts.size:
        raise DomainError("rewards must hold at least one reward; got none.")
    order = np.argsort(prompts, kind="stable")
    _, index, n = np.unique(prompts[order], return_inverse=True, return_counts=True)
    x = passed[order].astype(float)
    k = np.bincount(index, weights=x).astype(float)
    inside = index[1:] == index[:-1]
    changed = (x[1:] != x[:-1])[inside]
    changes = np.bincount(index[1:][inside], weights=changed, minlength=n.size).astype(float)
    place = np.arange(index.size) - (np.cumsum(n) - n)[index]
    half = (2 * place >= n[index]).astype(np.int64)  # an odd list has its middle in the first half
    cells = 2 * index + half
    halves = check_independence(
        np.bincount(cells, weights=x, minlength=2 * n.size).reshape(-1, 2),
        np.bincount(cells, minlength=2 * n.size).reshape(-1, 2),
        level=level,
        names=("first half", "second half"),
    )
    mixed = (k > 0) & (k < n) & (n >= 3)
    rho = _neighbours(k[mixed], n[mixed].astype(float), changes[mixed], level)
    informed = int(mixed.sum())
    pairs = float((n - 1.0).sum())
    same = Correlation(value=halves.correlation, p=halves.correlation_p)
    if _is_sorted(k[mixed], n[mixed], changes[mixed]):
        verdict = IndependenceVerdict.SORTED
    elif informed < MIN_MIXED_PROMPTS:
        verdict = IndependenceVerdict.TOO_FEW
    else:
        verdict = first_alarm(halves.drift_p, largest_shift(halves.shifts), [rho, same], level)
    return SequenceCheck(
        verdict=verdict,
        level=level,
        prompts=int(n.size),
        mixed_prompts=informed,
        neighbour_correlation=rho.value,
        low=rho.low,
        high=rho.high,
        neighbour_z=rho.z,
        neighbour_p=rho.p,
        design_effect=None if rho.value is None else max(0.0, 1.0 + 2.0 * pairs / float(n.sum()) * rho.value),
        halves=halves,
    )


def change_moments(successes: Floats, rollouts: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the changes along a list with k passes of n in random order (theory.md, eq. 48)."""
    product, n = successes * (rollouts - successes), rollouts
    return 2.0 * product / n, 2.0 * product * (2.0 * product - n) / (n**2 * (n - 1.0))


def _neighbours(k: Floats, n: Floats, changes: Floats, level: float) -> Correlation:
    if not len(k):
        return Correlation()
    mean, variance = change_moments(k, n)
    pairs = (n - 1.0) * (n - 2.0)  # twice the pairs that are no neighbours
    slope = n / (2.0 * pairs)
    spread = (k * (n - k) - changes) / pairs
    return correlation_of(mean - changes, variance, np.zeros_like(mean), slope, spread, 1.0 / (slope**2 * n), level)


def _is_sorted(k: Floats, n: NDArray[np.int64], changes: Floats) -> bool:
    """Every mixed list changes once, and random order would hardly ever do so."""
    if not len(k) or np.any(changes != 1.0):
        return False
    log_chance = sum(
        math.log(2.0) - math.lgamma(b + 1) + math.lgamma(a + 1) + math.lgamma(b - a + 1)
        for a, b in zip(k.tolist(), n.tolist(), strict=True)
    )
    return log_chance < math.log(SORTED_CHANCE)
