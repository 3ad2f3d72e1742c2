"""Rollouts: single rollouts with their group, outcome and length; what a Pilot's counts no longer hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan.errors import DomainError
from grpo_plan.pilot import Pilot

Floats = NDArray[np.float64]
MOST_ROLLOUTS = 50_000_000


class RolloutLengths(Enum):
    """What is known of the lengths of rollouts; the value is a sentence."""

    EACH = "The length of each rollout is known."
    MEANS = "Only mean lengths of right and of wrong rollouts of a prompt are known, not that of each rollout."
    REPEATED = "There is one length a group, such as a mean, and none of each rollout: they cannot be told apart."
    ABSENT = "No lengths: name their column with --tokens-column, or give them."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Rollouts(Shown):
    """N rollouts in groups.

    Attributes:
        group: Group of each rollout, shape (N,), numbers from 0; rollouts that were sampled together for one prompt.
        cluster: Prompt of each group, shape (groups,), numbers from 0: what is independent of each other.
        scored: Which rollouts have a finite reward, shape (N,).
        passed: Which of them passed, shape (N,); False where not scored.
        tokens: Response length, shape (N,), NaN where unknown.
        lengths: What is known of lengths.
        dropped: What was read and left out, by reason.
        notes: How the source was read.
        rewards: Reward of each rollout, shape (N,), NaN where not scored; of counts 1 for a pass and 0 for a fail.
        advantages: Advantage that the source itself holds, shape (N,), NaN where it has none.
        step: Training step of each group, shape (groups,), -1 where the source has none; None: never.
        format: Name of the reader; None for arrays and tables.
        counts: Whether the source held counts of passes, not single rollouts.
    """

    group: NDArray[np.int64]
    cluster: NDArray[np.int64]
    scored: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    tokens: Floats
    lengths: RolloutLengths
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rewards: Floats
    advantages: Floats | None = None
    step: NDArray[np.int64] | None = None
    format: str | None = None
    counts: bool = False

    def __repr__(self) -> str:
        """One line."""
        return f"<Rollouts: {self.group.size:,} in {self.groups:,} groups, lengths {self.lengths.name}>"

    @property
    def groups(self) -> int:
        """Number of groups."""
        return int(self.cluster.size)

    @property
    def group_scored(self) -> NDArray[np.int64]:
        """Scored rollouts of each group, shape (groups,)."""
        return np.bincount(self.group[self.scored], minlength=self.groups)

    @property
    def group_passes(self) -> NDArray[np.int64]:
        """Passes of each group, shape (groups,)."""
        return np.bincount(self.group[self.passed], minlength=self.groups)

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """Which groups hold a pass and a fail, shape (groups,)."""
        found: NDArray[np.bool_] = (self.group_passes > 0) & (self.group_passes < self.group_scored)
        return found

    @property
    def kinds(self) -> dict[str, int]:
        """Groups by kind: mixed, all_pass, all_fail, and unscored, fewer than two scored rollouts."""
        n, k = self.group_scored, self.group_passes
        two = n >= 2
        return {
            "mixed": int((two & self.mixed).sum()),
            "all_pass": int((two & (k == n)).sum()),
            "all_fail": int((two & (k == 0)).sum()),
            "unscored": int((~two).sum()),
        }

    @classmethod
    def from_arrays(
        cls, group: ArrayLike, reward: ArrayLike, tokens: ArrayLike | None = None, *, pass_threshold: float = 1.0
    ) -> Rollouts:
        """Rollouts of arrays with one value a rollout; each group is a prompt of its own.

        Args:
            group: Name of the group of each rollout, shape (N,).
            reward: Rewards, shape (N,); NaN and infinities are failed scoring.
            tokens: Response lengths, shape (N,), NaN where unknown.
            pass_threshold: Reward from which a rollout passes.

        Raises:
            DomainError: Shapes that differ, rewards that are no numbers, or a negative length.

        >>> Rollouts.from_arrays(["a", "a", "b", "b"], [1, 0, 0, float("nan")], [2, 8, 5, 5]).kinds
        {'mixed': 1, 'all_pass': 0, 'all_fail': 0, 'unscored': 1}
        """
        try:
            rewards = np.asarray(reward, dtype=np.float64)
            known = np.full(rewards.shape, np.nan) if tokens is None else np.asarray(tokens, dtype=np.float64)
            names, codes = np.unique(np.asarray(group), return_inverse=True)
        except (TypeError, ValueError):
            raise DomainError(
                "group, reward and tokens must be lists of one length, the last two of numbers; got others."
            ) from None
        if rewards.ndim != 1 or not rewards.size or known.shape != rewards.shape or codes.shape != rewards.shape:
            raise DomainError(
                f"group, reward and tokens must be lists of one length; got shapes {codes.shape}, {rewards.shape}, "
                f"{known.shape}."
            )
        scored = np.isfinite(rewards)
        with np.errstate(invalid="ignore"):
            passed = scored & (rewards >= pass_threshold)
        return cls(
            group=codes.astype(np.int64), cluster=np.arange(names.size), scored=scored, passed=passed,
            tokens=checked_tokens(known), lengths=_lengths(known), rewards=np.where(scored, rewards, np.nan),
        )  # fmt: skip

    @classmethod
    def from_pilot(cls, pilot: Pilot) -> Rollouts:
        """Rollouts of a pilot's counts: right and wrong ones of a row have its mean lengths, if it has these.

        >>> pilot = Pilot.from_counts([1], 4, pass_tokens=[100], fail_tokens=[300])
        >>> Rollouts.from_pilot(pilot).tokens.tolist()
        [100.0, 300.0, 300.0, 300.0]
        """
        total = int(pilot.rollouts @ pilot.prompts_per_row)
        if total > MOST_ROLLOUTS:
            raise DomainError(f"at most {MOST_ROLLOUTS:,} rollouts can be taken one by one; the pilot has {total:,}.")
        rows = np.repeat(np.arange(pilot.rollouts.size), pilot.prompts_per_row)
        n, k = pilot.rollouts[rows], pilot.successes[rows]
        group = np.repeat(np.arange(rows.size), n)
        place = np.arange(group.size) - np.repeat(np.cumsum(n) - n, n)
        passed = place < k[group]
        split = pilot.pass_tokens is not None and pilot.fail_tokens is not None
        tokens = np.full(group.size, np.nan)
        if pilot.pass_tokens is not None and pilot.fail_tokens is not None:
            row = rows[group]
            tokens = np.where(passed, pilot.pass_tokens[row], pilot.fail_tokens[row])
        known = split and bool(np.isfinite(tokens).any())
        other = RolloutLengths.ABSENT if pilot.response_tokens is None else RolloutLengths.REPEATED
        return cls(
            group=group, cluster=np.arange(rows.size), scored=np.ones(group.size, dtype=bool), passed=passed,
            tokens=tokens, lengths=RolloutLengths.MEANS if known else other,
            dropped=pilot.dropped, notes=pilot.notes, rewards=passed.astype(np.float64),
            format=pilot.provenance.format, counts=True,
        )  # fmt: skip


def checked_tokens(tokens: Floats) -> Floats:
    """Lengths of at least 0, NaN where unknown.

    Raises:
        DomainError: A negative or infinite one.
    """
    bad = (tokens < 0.0) | np.isinf(tokens)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DomainError(f"tokens must be at least 0 and finite; got {tokens[i]:g} at index {i}.")
    return tokens


def _lengths(tokens: Floats) -> RolloutLengths:
    return RolloutLengths.EACH if bool(np.isfinite(tokens).any()) else RolloutLengths.ABSENT
