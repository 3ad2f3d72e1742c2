"""`Advantages`: what an estimator made of the rewards of a batch, of dead groups and of failed rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.estimators.conventions import Convention
from grpo_plan.estimators.rewards import ALL_FAIL, ALL_PASS, DEAD, KINDS, MIXED, UNSCORED, Flags, Floats, spreads

SMALLEST_ADVANTAGE = 1e-8  # what is smaller counts as zero
KIND_WORDS = {
    MIXED: "mixed",
    ALL_PASS: "all-pass",
    ALL_FAIL: "all-fail",
    DEAD: "dead, pass or fail not known",
    UNSCORED: "unscored, fewer than two scored rollouts",
}
FAILED_WORDS = {
    "left_out": "left out of means and spreads, advantage 0",
    "as_zero": "counted as reward 0",
    "spreads": "their NaN spreads to the means and spreads they enter",
    "refused": "refused",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Advantages(Shown):
    """Advantages of a batch of groups; `numpy.asarray` gives its values.

    Attributes:
        values: Advantage of each rollout, shape (N, G): 0 for a failed rollout, NaN only where the convention gives NaN
            and where a shorter group has no rollout.
        rewards: Reward of each rollout as given, all reward functions together, shape (N, G); NaN for failed scoring.
        present: Which rollouts there are, shape (N, G); False pads a shorter group.
        kinds: Kind of each group, shape (N,): mixed, all_pass, all_fail, dead (equal rewards, but whether they pass is
            not known or they lie between; or rewards of several functions that cancel), unscored (fewer than two scored
            rollouts).
        estimator: Name of the estimator, or of the trainer's family of it; None where only a convention was given.
        trainer: Trainer and version that the convention is of, or None.
        convention: Every choice that was made.
        description: The advantage in words.
        tolerance: Rewards at most this far apart count as equal.
        notes: What else to know.
    """

    values: Floats
    rewards: Floats
    present: Flags
    kinds: NDArray[np.str_]
    estimator: str | None
    trainer: str | None
    convention: Convention
    description: str
    tolerance: float
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: the groups by kind and the estimator."""
        kinds = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        return f"<Advantages: {self.trainer or self.estimator or self.convention.name}, groups: {kinds}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The values."""
        return np.array(self.values, dtype=dtype, copy=True) if copy else np.asarray(self.values, dtype=dtype)

    @property
    def counts(self) -> dict[str, int]:
        """Number of groups of each kind, all kinds named."""
        return {kind: int((self.kinds == kind).sum()) for kind in KINDS}

    @property
    def rollouts(self) -> int:
        """Number of rollouts, failed ones included."""
        return int(self.present.sum())

    @property
    def failed(self) -> NDArray[np.int64]:
        """Failed rollouts of each group, shape (N,)."""
        found: NDArray[np.int64] = (np.isnan(self.rewards) & self.present).sum(axis=1)
        return found

    @property
    def live(self) -> Flags:
        """Which rollouts have an advantage other than 0, shape (N, G); above 1e-8 in size, NaN is none."""
        found: Flags = np.abs(np.nan_to_num(self.values)) > min(SMALLEST_ADVANTAGE, self.tolerance)
        return found

    @property
    def live_share(self) -> float:
        """Share of the rollouts with an advantage other than 0."""
        return float(self.live.sum() / self.rollouts)

    @property
    def largest(self) -> float | None:
        """Largest advantage in size; None where all are NaN."""
        known = self.values[~np.isnan(self.values)]
        return float(np.abs(known).max()) if known.size else None

    @property
    def done_with_dead(self) -> str:
        """What became of dead groups, in words.

        >>> from grpo_plan.estimators import advantages
        >>> advantages([[1, 0], [0, 0]], "sign").done_with_dead
        'all-fail: -1'
        """
        parts = []
        for kind in (ALL_PASS, ALL_FAIL, DEAD, UNSCORED):
            of = self.kinds == kind
            if of.any():
                counted = self.present[of] & ~np.isnan(self.rewards[of])
                counted = counted if counted.any() else self.present[of]
                parts.append(f"{KIND_WORDS[kind]}: {_range_words(self.values[of][counted])}")
        return "; ".join(parts) or "there are none"

    @property
    def done_with_failed(self) -> str:
        """What became of failed rollouts, in words."""
        n = int(self.failed.sum())
        return f"{n} failed: {FAILED_WORDS[self.convention.failed]}" if n else "there are none"


def _range_words(values: Floats) -> str:
    """The advantages of some groups: one number, a range, or NaN."""
    known = values[~np.isnan(values)]
    if not known.size:
        return "NaN" if values.size else "no rollouts"
    low, high = (float(f"{v:.4g}") for v in (known.min(), known.max()))
    text = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return text + (", some NaN" if known.size < values.size else "")


def cancelled(values: Floats, combined: Floats, dead: Flags) -> Flags:
    """Groups without an advantage though a reward function differs in them, shape (N,) (theory.md, eq. 109).

    Args:
        values: Advantages, shape (N, G).
        combined: Rewards, NaN for failed scoring, shape (N, G).
        dead: Groups in which no reward function differs, shape (N,).
    """
    scored = ~np.isnan(combined)
    with np.errstate(invalid="ignore"):
        none: Flags = spreads(np.where(scored, values, np.nan)) <= SMALLEST_ADVANTAGE
    found: Flags = none & ~dead & (scored.sum(axis=1) > 1) & ~(np.isnan(values) & scored).any(axis=1)
    return found
