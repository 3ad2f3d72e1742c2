"""What is simulated: the policy, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import did_you_mean, not_one_of
from grpo_plan._validate import as_count, as_one_probability, as_positive
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
MOST_ROLLOUTS = 512  # of a group: laws of k are held for every prompt
MOST_STEP_ROLLOUTS = 10**6
MOST_PROMPTS = 10**6
MOST_KAPPA, MOST_RATE = 1e12, 1e6
MOST_PARAMETERS = 10**8  # features of all prompts
OPTIMIZERS = ("sgd", "adam", "adam-norm")
SAMPLINGS = ("uniform", "epochs")
TRACKINGS = ("current", "tracked")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPolicy:
    """A policy with one logit a prompt, which the prompts share in part (theory.md, eq. 123).

    The gradient of every logit has length 1, so that h = 1 and kappa is the squared size of the score noise.

    Attributes:
        prompts: Prompts to train on, drawn from the pass rates; a list of pass rates is its own number of prompts.
        held_out: Prompts that are never trained on; they move with the shared parameters alone.
        shared: Share of the squared gradient of a logit that lies in shared parameters, in [0, 1].
        coherence: Mean inner product of the shared directions of two prompts, in [0, 1]. The coherence of whole
            gradients is ``shared * coherence``; about 0.01 was measured in a small transformer.
        dimension: Number of shared parameters, and of nuisance ones, at least 2.
        kappa: Score noise over contrast, ``S**2 / h**2``, at least 0.
        harmful: Share of the squared score noise that lies in the shared parameters; the rest is in parameters that
            move no pass rate.
        damage: How much drift in the nuisance parameters lowers every logit: ``damage / 2`` times its squared length.
            At 0 only noise in the shared parameters makes a learning rate too high; above 0 it ruins the policy.
        end_logit: Logit given to prompts that never (minus) or always (plus) pass; None leaves them as they are.

    Raises:
        DomainError: A number outside its domain.

    >>> SimulatedPolicy(shared=0.5, coherence=0.02).gradient_coherence
    0.01
    """

    prompts: int = 1000
    held_out: int = 1000
    shared: float = 0.5
    coherence: float = 0.02
    dimension: int = 64
    kappa: float = 10.0
    harmful: float = 0.5
    damage: float = 0.1
    end_logit: float | None = None

    def __post_init__(self) -> None:
        """Check all numbers."""
        for name in ("prompts", "held_out"):
            _set(self, name, as_count(getattr(self, name), name, maximum=MOST_PROMPTS))
        _set(self, "dimension", as_count(self.dimension, "dimension", minimum=2, maximum=10**5))
        for name in ("shared", "coherence", "harmful"):
            _set(self, name, as_one_probability(getattr(self, name), name))
        for name, most in (("kappa", MOST_KAPPA), ("damage", MOST_RATE)):
            _set(self, name, _as_bounded(getattr(self, name), name, most))
        if self.end_logit is not None:
            _set(self, "end_logit", as_positive(self.end_logit, "end_logit"))
        if (self.prompts + self.held_out) * self.dimension > MOST_PARAMETERS:
            raise DomainError(
                f"prompts times dimension must be at most {MOST_PARAMETERS:,}; got "
                f"{(self.prompts + self.held_out) * self.dimension:,}. Take fewer prompts or a smaller dimension."
            )

    @property
    def gradient_coherence(self) -> float:
        """Mean cosine of the gradients of two prompts, rho of theory.md, eq. 26."""
        return self.shared * self.coherence


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Prompts drawn by their pass rate, with replacement.

    Attributes:
        low: Low end of the band, in [0, 1].
        high: High end.
        outside: Weight of a prompt outside the band; 1 inside. Where all weights are 0, all prompts are drawn alike,
            and the steps are counted.
        by: ``"current"``: the true pass rate of the moment, which no trainer knows. ``"tracked"``: passes seen so far,
            older ones halved at each visit, and a first guess of 1/2 with the weight of one rollout.
        weight: Another weight instead of the band: from pass rates, shape (M,), to as many numbers of at least 0.
    """

    low: float = 0.0
    high: float = 1.0
    outside: float = 0.0
    by: str = "current"
    weight: Callable[[Floats], Floats] | None = None

    def __post_init__(self) -> None:
        """Check the band."""
        _set(self, "low", as_one_probability(self.low, "low"))
        _set(self, "high", as_one_probability(self.high, "high"))
        _set(self, "outside", as_positive(self.outside, "outside", allow_zero=True))
        if self.low > self.high:
            raise DomainError(f"A curriculum needs low <= high; got {self.low:g} and {self.high:g}.")
        if self.by not in TRACKINGS:
            raise DomainError(not_one_of("by", self.by, TRACKINGS))
        if self.weight is not None and not callable(self.weight):
            raise DomainError("weight must be a function of an array of pass rates, or None.")

    def weights(self, rates: Floats) -> Floats:
        """Weight of each prompt, shape (M,)."""
        if self.weight is None:
            return np.where((rates >= self.low) & (rates <= self.high), 1.0, self.outside)
        weights = np.asarray(self.weight(rates), dtype=np.float64)
        if weights.shape != rates.shape or not np.all(np.isfinite(weights) & (weights >= 0.0)):
            raise DomainError(
                f"weight must give {rates.size} finite numbers of at least 0; got shape {weights.shape}. Check it at "
                "pass rates 0 and 1."
            )
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTraining:
    """How the policy is trained.

    Attributes:
        group_size: G, or a schedule: pairs (first step, G), the first of them at step 0. At most 512.
        rollouts_per_step: Rollouts of a step; it trains on the whole part of this over G groups, at least one.
        steps: Optimiser steps.
        learning_rate: Of the optimiser. For ``"adam-norm"`` it is the length of a step when the gradient is steady.
        optimizer: ``"sgd"``; ``"adam"`` with a second moment for each parameter; or ``"adam-norm"``, with one for all
            parameters, which is what Adam does in a random basis of many dimensions (theory.md, eq. 127).
        warmup_steps: Steps over which the learning rate rises from 0, in equal parts.
        kl_coefficient: Weight of the KL divergence to the start, at least 0.
        max_gradient_norm: Length at which a gradient is clipped; None: not at all.
        sampling: ``"uniform"`` with replacement; ``"epochs"``, each prompt once a pass; or a Curriculum.
        refill: Draw groups until the step has all its groups mixed (dynamic sampling).
        max_rounds: Most rounds of groups that a refilled step draws; then it trains on what it has.
        budget_rollouts: Rollouts generated at which training stops, before ``steps``; None: no such limit.

    >>> SimulatedTraining(group_size=8, rollouts_per_step=512).prompts_per_step(0)
    64
    """

    group_size: int | tuple[tuple[int, int], ...] = 8
    rollouts_per_step: int = 512
    steps: int = 200
    learning_rate: float = 0.3
    optimizer: str = "adam-norm"
    warmup_steps: int = 0
    kl_coefficient: float = 0.0
    max_gradient_norm: float | None = None
    sampling: str | Curriculum = "uniform"
    refill: bool = False
    max_rounds: int = 10
    budget_rollouts: int | None = None

    def __post_init__(self) -> None:
        """Check all numbers."""
        _set(self, "group_size", _as_schedule(self.group_size))
        for name, most in (("rollouts_per_step", MOST_STEP_ROLLOUTS), ("steps", 10**7), ("max_rounds", 10**4)):
            _set(self, name, as_count(getattr(self, name), name, maximum=most))
        _set(self, "warmup_steps", as_count(self.warmup_steps, "warmup_steps", minimum=0))
        for name in ("learning_rate", "kl_coefficient"):
            _set(self, name, _as_bounded(getattr(self, name), name, MOST_RATE))
        if self.max_gradient_norm is not None:
            _set(self, "max_gradient_norm", as_positive(self.max_gradient_norm, "max_gradient_norm"))
        if self.budget_rollouts is not None:
            _set(self, "budget_rollouts", as_count(self.budget_rollouts, "budget_rollouts", maximum=10**15))
        if self.optimizer not in OPTIMIZERS:
            raise DomainError(not_one_of("optimizer", self.optimizer, OPTIMIZERS))
        if not isinstance(self.sampling, Curriculum) and self.sampling not in SAMPLINGS:
            known = ", ".join(SAMPLINGS)
            raise DomainError(
                f"sampling must be one of {known} or a Curriculum; got {str(self.sampling)[:40]!r}."
                f"{did_you_mean(self.sampling, SAMPLINGS)}"
            )
        if not isinstance(self.refill, bool):
            raise DomainError(f"refill must be True or False; got {str(self.refill)[:40]!r}.")
        largest = max(size for _, size in self.schedule)
        if largest > self.rollouts_per_step:
            raise DomainError(
                f"rollouts_per_step must hold a group of {largest}; got {self.rollouts_per_step}. Raise it, or lower "
                "the group size."
            )

    @property
    def schedule(self) -> tuple[tuple[int, int], ...]:
        """Pairs (first step, G)."""
        return self.group_size if isinstance(self.group_size, tuple) else ((0, self.group_size),)

    def group_size_at(self, step: int) -> int:
        """G of a step, counted from 0."""
        return next(size for first, size in reversed(self.schedule) if first <= step)

    def prompts_per_step(self, step: int) -> int:
        """Groups that a step trains on."""
        return self.rollouts_per_step // self.group_size_at(step)

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        return self.learning_rate * min(1.0, (step + 1) / max(self.warmup_steps, 1))


def _as_schedule(value: object) -> int | tuple[tuple[int, int], ...]:
    if not isinstance(value, tuple | list):
        return as_count(value, "group_size", maximum=MOST_ROLLOUTS)
    pairs = []
    for pair in value:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DomainError(f"A schedule is made of pairs (first step, group size); got {str(pair)[:40]!r}.")
        first = as_count(pair[0], "first step of a schedule", minimum=0)
        pairs.append((first, as_count(pair[1], "group_size", maximum=MOST_ROLLOUTS)))
    starts = [first for first, _ in pairs]
    if not starts or starts[0] != 0 or starts != sorted(set(starts)):
        raise DomainError(f"A schedule needs rising first steps, the first of them 0; got {starts}.")
    return tuple(pairs)


def _as_bounded(value: object, name: str, most: float) -> float:
    number = as_positive(value, name, allow_zero=True)
    if number > most:
        raise DomainError(f"{name} must be at most {most:g}; got {number:g}.")
    return number


def _set(record: object, name: str, value: object) -> None:
    object.__setattr__(record, name, value)
