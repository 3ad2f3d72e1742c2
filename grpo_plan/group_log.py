"""GroupLog: the groups of a run as they were sampled, one row a group, with what tells a dead one from a mixed one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.errors import DomainError, PilotError, sentences
from grpo_plan.pilot import Pilot
from grpo_plan.provenance import Provenance

EQUAL_REWARDS = 1e-8  # rewards closer than this are equal, as in TRL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupLog(Shown):
    """Groups in the order in which they were read; N groups.

    With ``passes`` known every dead group is one of ``unscored``, ``all_pass``, ``all_fail`` and ``flat``.

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
        truncated: Rollouts that a limit cut off (of tokens; in an environment of turns, where the source counts these
            too), shape (N,), -1 where it is not known of each rollout of the group; None where the source never says
            it.
        distinct: Different response texts among the scored rollouts, shape (N,), -1 where one of these has no text;
            None where the source holds no texts.
        distinct_rewards: Different rewards, shape (N,), 0 where none was scored; rewards closer than 1e-8 to the next
            are one. None where they were not counted.
        reward_var: Population variance of the rewards (divided by their number), shape (N,), NaN where none was
            scored or it is beyond every float; None where it was not counted.
        response_tokens: Mean response length over the rollouts of which it is known, shape (N,), NaN where of none;
            None where the source never says it.
        measured: Rollouts of which the response length is known, shape (N,); None with ``response_tokens``.

    >>> groups = GroupLog(
    ...     step=np.array([1, 1, 2]), prompt_id=np.array(["a", "b", "a"], dtype=object), rollouts=np.array([4, 4, 4]),
    ...     scored=np.array([4, 4, 4]), reward_min=np.array([0.0, 0.0, 1.0]), reward_max=np.array([1.0, 0.0, 1.0]),
    ...     reward_mean=np.array([0.25, 0.0, 1.0]), passes=np.array([1, 0, 4]), distinct=np.array([4, 1, 4]),
    ... )
    >>> groups.dead.tolist(), groups.all_pass.tolist(), groups.all_fail.tolist(), groups.identical.tolist()
    ([False, True, True], [False, False, True], [False, True, False], [False, True, False])
    >>> groups.to_pilot(steps=(2, 2)).successes.tolist(), groups.truncated is None
    ([4], True)
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
        with np.errstate(invalid="ignore", over="ignore"):
            return (self.scored < 2) | (self.reward_max - self.reward_min <= EQUAL_REWARDS)

    @property
    def unscored(self) -> NDArray[np.bool_]:
        """Which groups have fewer than two scored rollouts: dead, whatever their rewards; shape (N,)."""
        return self.scored < 2

    @property
    def failed(self) -> NDArray[np.int64]:
        """Rollouts without a reward, shape (N,)."""
        return self.rollouts - self.scored

    @property
    def all_pass(self) -> NDArray[np.bool_] | None:
        """Which dead groups have two or more scored rollouts and all pass, shape (N,); None where passes are not known.

        Graded rewards that all pass but differ are no dead group.
        """
        if self.passes is None:
            return None
        found: NDArray[np.bool_] = self.dead & ~self.unscored & (self.passes == self.scored)
        return found

    @property
    def all_fail(self) -> NDArray[np.bool_] | None:
        """Which dead groups have two or more scored rollouts, none passes, and nothing scores lower, shape (N,).

        Their reward is the lowest of the log, for 0/1 rewards 0. None where passes are not known.
        """
        if self.passes is None:
            return None
        found: NDArray[np.bool_] = self.dead & ~self.unscored & (self.passes == 0) & ~self._above_lowest
        return found

    @property
    def flat(self) -> NDArray[np.bool_]:
        """Which dead groups are dead at a reward between the ends, shape (N,).

        All their two or more scored rollouts fail, but with a reward above the lowest of the log: each earned the same
        part, such as that for the format. Where passes are not known: rewards equal, above the lowest of the log and
        below the highest.
        """
        equal = self.dead & ~self.unscored
        if self.passes is not None:  # rewards within the tolerance on both sides of the threshold count here too
            low = (self.passes == 0) & ~self._above_lowest
            between: NDArray[np.bool_] = equal & ~low & (self.passes < self.scored)
            return between
        highest = np.nanmax(self.reward_max, initial=-np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return equal & self._above_lowest & (highest - self.reward_max > EQUAL_REWARDS)

    @property
    def _above_lowest(self) -> NDArray[np.bool_]:
        lowest = np.nanmin(self.reward_min, initial=np.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.reward_min - lowest > EQUAL_REWARDS

    @property
    def identical(self) -> NDArray[np.bool_] | None:
        """Which groups have two or more scored rollouts, all of one text, shape (N,); None where texts are not known.

        False where a text is missing, which ``distinct`` says.
        """
        return None if self.distinct is None else (self.scored >= 2) & (self.distinct == 1)

    @property
    def repeated(self) -> NDArray[np.float64] | None:
        """Share of each group's scored rollouts that repeat a text of another one, shape (N,); None without texts.

        NaN where a text is missing or no rollout was scored.
        """
        if self.distinct is None:
            return None
        known = (self.distinct >= 0) & (self.scored > 0)
        return np.where(known, 1.0 - self.distinct / np.maximum(self.scored, 1), np.nan)

    @property
    def dead_groups(self) -> int:
        """Number of dead groups."""
        return int(self.dead.sum())

    def dead_by_step(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Steps in rising order, groups of each, and dead groups of each; three arrays of shape (S,)."""
        return self.count_by_step(self.dead)

    def count_by_step(self, flags: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Steps in rising order, groups of each, and those among them with a flag; three arrays of shape (S,).

        Args:
            flags: One truth value a group, shape (N,), such as ``flat`` or ``identical``.
        """
        steps, index = np.unique(self.step, return_inverse=True)
        groups = np.bincount(index, minlength=steps.size)
        flagged = np.bincount(index, weights=flags, minlength=steps.size)
        return steps, groups.astype(np.int64), flagged.astype(np.int64)

    def window(self, first: int | None = None, last: int | None = None) -> GroupLog:
        """The groups of the steps from ``first`` to ``last``, both included; None leaves an end open.

        ``all_fail`` and ``flat`` compare with the rewards of these steps then. Provenance and ``dropped`` stay those of
        the whole log.

        Raises:
            DomainError: No group has a step among these, or an end is no whole number.
        """
        for end in (first, last):
            if end is not None and (isinstance(end, bool) or not isinstance(end, Integral)):
                raise DomainError(f"steps must be whole numbers or None; got {end!r}.")
        kept = np.ones(self.groups, dtype=bool)
        if first is not None:
            kept &= self.step >= first
        if last is not None:
            kept &= self.step <= last
        if first is not None or last is not None:
            kept &= self.step >= 0
        if not kept.any():
            raise DomainError(f"steps {_span(first, last)}: no group has such a step; {self._steps_in_words()}.")
        columns: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        part: dict[str, Any] = {n: column[kept] for n, column in columns.items() if isinstance(column, np.ndarray)}
        return replace(self, **part)

    def to_pilot(self, steps: tuple[int | None, int | None] | None = None) -> Pilot:
        """The groups as a pilot of the run's own policy, one row a group: k of n scored rollouts pass.

        Groups of several steps are of changing policies: their pass rates are averages over these, which the pilot's
        provenance says. Keep a few steps.

        Args:
            steps: First and last step, both included; None leaves an end open, or keeps all.

        Raises:
            PilotError: Only mixed groups were kept, what passes is not known, or no rollout was scored.
            DomainError: ``steps`` is no pair, or no group has a step among these.
        """
        if steps is not None and not (isinstance(steps, tuple | list) and len(steps) == 2):
            raise DomainError(f"steps must be a pair (first, last); got {steps!r}.")
        found = self if steps is None else self.window(*steps)
        passes = found.passes
        if found.provenance.filtered is not None:
            raise PilotError(
                f"The groups are only mixed ones ({found.provenance.filtered}), so D(G) cannot be counted. Fit their "
                "source with --truncated (truncated=True), best with --dropped-groups N, or read one with all groups."
            )
        if passes is None:
            why = "the rewards have several levels" if found.distinct_rewards is not None else "passes were not read"
            raise PilotError(
                f"What passes is not known: {why}. Read the groups with pass_threshold= (read_groups, read_run)."
            )
        known = found.step[found.step >= 0]
        failed = int(found.failed.sum())
        provenance = replace(
            found.provenance,
            rows=int(found.rollouts.sum()),
            groups=found.groups,
            group_size=(int(found.rollouts.min()), int(found.rollouts.max())) if found.groups else None,
            policy_steps=(int(known.min()), int(known.max())) if known.size else None,
            step_count=int(np.unique(known).size),
            dead_groups=None,
        )
        passing = (
            f"A rollout passes from a reward of {found.pass_threshold:g}." if found.pass_threshold is not None else ""
        )
        return Pilot.from_counts(
            passes,
            found.scored,
            prompt_id=found.prompt_id,
            response_tokens=found.response_tokens,
            dropped={"missing_reward": failed} if failed else {},
            notes=sentences(*provenance.sentences, *([passing] if passing else [])),
            provenance=provenance,
        )

    def _steps_in_words(self) -> str:
        known = self.step[self.step >= 0]
        return f"the steps are {known.min():,} to {known.max():,}" if known.size else "the source has no steps"


def _span(first: int | None, last: int | None) -> str:
    return f"{'the first' if first is None else f'{first:,}'} to {'the last' if last is None else f'{last:,}'}"
