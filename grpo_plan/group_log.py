"""GroupLog: the groups of a run as they were sampled, one row a group, with what tells a dead one from a mixed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan.provenance import Provenance

EQUAL_REWARDS = 1e-8  # rewards closer than this are equal, as in TRL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupLog:
    """Groups in the order in which they were read; N groups.

    Attributes:
        step: Training step of each group, shape (N,), -1 where the source has none.
        prompt_id: Name of its prompt, shape (N,).
        rollouts: Rollouts of each group, failed scoring included, shape (N,).
        scored: Rollouts with a reward, shape (N,).
        reward_min: Smallest reward, shape (N,), NaN where none was scored.
        reward_max: Largest reward, shape (N,), NaN where none was scored.
        reward_mean: Mean reward, shape (N,), NaN where none was scored.
        dropped: What was read and left out, by reason.
        notes: How the source was read.
        provenance: What was read.
        pass_threshold: Reward from which a rollout passes: as given, else the upper one of two levels; None where what
            passes is not known.
        passes: Scored rollouts that pass, shape (N,); None where what passes is not known.
        truncated: Rollouts cut off at a limit of length, shape (N,), -1 where it is not known of each rollout of the
            group; None where the source never says it.
        distinct: Different response texts among the scored rollouts, shape (N,), -1 where one of these has no text;
            None where the source holds no texts.
        distinct_rewards: Different rewards, shape (N,), 0 where none was scored; rewards closer than 1e-8 to the next
            are one. None where they were not counted.
        reward_var: Population variance of the rewards (divided by their number), shape (N,), NaN where none was
            scored; None where it was not counted.
        response_tokens: Mean response length over the rollouts of which it is known, shape (N,), NaN where of none;
            None where the source never says it.
        measured: Rollouts of which the response length is known, shape (N,); None with ``response_tokens``.
    """

    step: NDArray[np.int64]
    prompt_id: NDArray[np.object_]
    rollouts: NDArray[np.int64]
    scored: NDArray[np.int64]
    reward_min: NDArray[np.float64]
    reward_max: NDArray[np.float64]
    reward_mean: NDArray[np.float64]
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    pass_threshold: float | None = None
    passes: NDArray[np.int64] | None = None
    truncated: NDArray[np.int64] | None = None
    distinct: NDArray[np.int64] | None = None
    distinct_rewards: NDArray[np.int64] | None = None
    reward_var: NDArray[np.float64] | None = None
    response_tokens: NDArray[np.float64] | None = None
    measured: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        """One line: how many groups, of which steps, and how many are dead."""
        steps = np.unique(self.step)
        span = f", steps {steps[0]} to {steps[-1]}" if steps.size and steps[0] >= 0 else ""
        return f"<GroupLog: {self.groups:,} groups, {self.dead_groups:,} dead{span}>"

    @property
    def groups(self) -> int:
        """Number of groups N."""
        return int(self.step.size)

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Which groups are dead: all scored rewards equal, or fewer than two scored; shape (N,)."""
        with np.errstate(invalid="ignore"):
            return (self.scored < 2) | (self.reward_max - self.reward_min <= EQUAL_REWARDS)

    @property
    def dead_groups(self) -> int:
        """Number of dead groups."""
        return int(self.dead.sum())

    def dead_by_step(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Steps in rising order, groups of each, and dead groups of each; three arrays of shape (S,)."""
        steps, index = np.unique(self.step, return_inverse=True)
        groups = np.bincount(index, minlength=steps.size)
        dead = np.bincount(index, weights=self.dead, minlength=steps.size)
        return steps, groups.astype(np.int64), dead.astype(np.int64)
