"""Quantity: values of a run with their meaning; Absent: why a run does not tell it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown

Floats = NDArray[np.float64]


class Scope(StrEnum):
    """What one number is a statement about."""

    GROUP = "group"  # a share or mean over the groups of a step
    ROLLOUT = "rollout"  # a share or mean over the rollouts of a step
    BATCH = "batch"  # the whole batch of a step as one
    STEP = "step"  # a count or a duration of a step


class Stage(StrEnum):
    """Whether dead groups that a trainer throws away are still counted."""

    UNFILTERED = "nothing was filtered"
    BEFORE = "before filtering"
    AFTER = "after filtering"
    UNKNOWN = "unknown whether before or after filtering"


class Cause(StrEnum):
    """Why a quantity is absent."""

    NOT_LOGGED = "not logged"
    SURVIVORS_ONLY = "counts survivors only"
    BATCH_FLAG = "a flag of the whole batch"
    MEANING_UNKNOWN = "meaning unknown"
    NEEDS_SETTING = "needs a setting that the log does not hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a quantity is.

    Attributes:
        unit: Unit of its values; shares are fractions in [0, 1].
        scope: What one number is a statement about.
        meaning: One sentence.
    """

    unit: str
    scope: Scope
    meaning: str


def _share(meaning: str, scope: Scope = Scope.GROUP) -> Definition:
    return Definition(unit="fraction", scope=scope, meaning=meaning)


DEFINITIONS: dict[str, Definition] = {
    "dead_fraction": _share("groups whose rewards are all equal"),
    "mixed_fraction": _share("groups that are not dead"),
    "all_pass_fraction": _share("groups in which every rollout passes"),
    "all_fail_fraction": _share("groups in which no rollout passes"),
    "dead_batch": _share("1 where all rewards of a batch are equal, else 0", Scope.BATCH),
    "pass_rate_mean": _share("rollouts that pass", Scope.ROLLOUT),
    "pass_rate_std": _share("standard deviation of the pass rates of groups"),
    "reward_mean": Definition(unit="reward", scope=Scope.ROLLOUT, meaning="mean reward of a rollout"),
    "reward_std": Definition(
        unit="reward", scope=Scope.BATCH, meaning="standard deviation of the rewards of a whole batch"
    ),
    "group_reward_std": Definition(
        unit="reward", scope=Scope.GROUP, meaning="standard deviation of rewards within a group, mean over groups"
    ),
    "advantage_std": Definition(unit="advantage", scope=Scope.BATCH, meaning="standard deviation of advantages"),
    "advantage_abs_max": Definition(unit="advantage", scope=Scope.BATCH, meaning="largest advantage without its sign"),
    "response_tokens_mean": Definition(unit="tokens", scope=Scope.ROLLOUT, meaning="mean length of a response"),
    "response_tokens_max": Definition(unit="tokens", scope=Scope.BATCH, meaning="longest response"),
    "truncated_fraction": _share("responses cut off at the length limit", Scope.ROLLOUT),
    "failed_fraction": _share("rollouts that ended in an error", Scope.ROLLOUT),
    "entropy": Definition(unit="nats a token", scope=Scope.ROLLOUT, meaning="entropy of the policy"),
    "kl": Definition(unit="nats", scope=Scope.ROLLOUT, meaning="distance of the policy to the reference"),
    "grad_norm": Definition(unit="gradient", scope=Scope.BATCH, meaning="norm of the gradient"),
    "step_time_s": Definition(unit="s", scope=Scope.STEP, meaning="time of a step"),
    "tokens": Definition(unit="tokens", scope=Scope.STEP, meaning="prompt and response tokens of a step"),
    "evicted_groups": Definition(unit="groups", scope=Scope.STEP, meaning="dead groups thrown away in a step"),
    "generation_batches": Definition(unit="batches", scope=Scope.STEP, meaning="batches generated for a step"),
    "prompts_per_step": Definition(unit="groups", scope=Scope.STEP, meaning="groups trained on in a step"),
    "group_size": Definition(unit="rollouts", scope=Scope.GROUP, meaning="rollouts per prompt"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Quantity(Shown):
    """Values of a quantity, step by step, and what they mean.

    Attributes:
        name: Name of the quantity, a key of ``DEFINITIONS``.
        values: Values in the unit of its definition, shape (S,), NaN where a step has none.
        metrics: Names, as logged, that it was worked out from; empty if it was counted from rollouts or settings.
        stage: Whether groups that were thrown away are counted.
        cumulative: Whether values count from the start of the run.
        notes: What was assumed, and what the values leave out, one sentence each.
    """

    name: str
    values: Floats
    metrics: tuple[str, ...] = ()
    stage: Stage = Stage.UNFILTERED
    cumulative: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: name, how many steps have a value, their range and stage.

        >>> Quantity(name="dead_fraction", values=np.array([0.25, np.nan, 0.5]))
        <Quantity dead_fraction: 2 of 3 steps, 0.25 to 0.5 (fraction; nothing was filtered)>
        """
        known = self.values[np.isfinite(self.values)]
        span = f", {known.min():.4g} to {known.max():.4g}" if known.size else ""
        about = f"{self.unit}; {self.stage.value}"
        return f"<Quantity {self.name}: {known.size:,} of {self.values.size:,} steps{span} ({about})>"

    @property
    def definition(self) -> Definition:
        """Unit, scope and meaning."""
        return DEFINITIONS[self.name]

    @property
    def unit(self) -> str:
        """Unit of the values."""
        return self.definition.unit

    @property
    def scope(self) -> Scope:
        """What one number is a statement about."""
        return self.definition.scope

    @property
    def mean(self) -> float | None:
        """Mean over the steps that have a value; None if none has."""
        known = self.values[np.isfinite(self.values)]
        return float(known.mean()) if known.size else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Absent(Shown):
    """A quantity that a run does not tell; false in a condition.

    Attributes:
        name: Name of the quantity.
        cause: Kind of reason.
        reason: What is missing, and what would settle it, in one sentence.
        metrics: Metrics that look like it but do not say it, as logged.
        lower: What it is at least, shape (S,), where the log says so much; else None.
        upper: What it is at most, shape (S,), or None.
    """

    name: str
    cause: Cause
    reason: str
    metrics: tuple[str, ...] = ()
    lower: Floats | None = None
    upper: Floats | None = None

    def __bool__(self) -> bool:
        return False
