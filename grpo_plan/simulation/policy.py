"""The policy: parameters, logits, pass rates, and the estimate of a group (theory.md, eq. 123 and 124)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.simulation.prompts import PromptSet
from grpo_plan.simulation.settings import SimulatedPolicy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """Parameters, or a gradient with respect to them.

    Attributes:
        shared: w, shape (d,).
        private: One of each prompt trained on, shape (M,).
        nuisance: Parameters that move no pass rate, but for damage, shape (d,).
    """

    shared: Floats
    private: Floats
    nuisance: Floats

    @classmethod
    def zeros(cls, model: SimulatedPolicy, prompts: int) -> Parameters:
        """All 0."""
        d = model.dimension
        return cls(shared=np.zeros(d), private=np.zeros(prompts), nuisance=np.zeros(d))

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """The three arrays."""
        return self.shared, self.private, self.nuisance

    def dot(self, other: Parameters) -> float:
        """Inner product."""
        return float(sum(a @ b for a, b in zip(self.parts(), other.parts(), strict=True)))

    def scaled(self, factor: float) -> Parameters:
        """All parts times a number."""
        return Parameters(shared=factor * self.shared, private=factor * self.private, nuisance=factor * self.nuisance)


def sigmoid(logits: Floats) -> tuple[Floats, Floats]:
    """``p`` and ``1 - p``, each with its own digits.

    >>> p, q = sigmoid(np.array([-40.0, 40.0, -np.inf]))
    >>> p[0] == q[1] and p.tolist()[2] == 0.0 and q.tolist()[2] == 1.0
    True
    """
    with np.errstate(over="ignore"):
        small = np.exp(-np.abs(logits))
    rare, common = small / (1.0 + small), 1.0 / (1.0 + small)
    return np.where(logits < 0.0, rare, common), np.where(logits < 0.0, common, rare)


def moved(
    prompts: PromptSet, parameters: Parameters, model: SimulatedPolicy, rows: Ints | None = None, *, own: bool = True
) -> Floats:
    """Change of the logits since the start (theory.md, eq. 123).

    Args:
        prompts: Prompts.
        parameters: Parameters.
        model: The policy.
        rows: Prompts asked for; None: all.
        own: Whether the prompts have private parameters (held-out ones have none).
    """
    features = prompts.features if rows is None else prompts.features[rows]
    value: Floats = np.sqrt(model.shared) * (features @ parameters.shared)
    if own:
        private = parameters.private if rows is None else parameters.private[rows]
        value += np.sqrt(1.0 - model.shared) * private
    value -= drift_cost(parameters, model)
    return value


def drift_cost(parameters: Parameters, model: SimulatedPolicy) -> float:
    """What drift in the nuisance parameters takes off every logit (theory.md, eq. 123)."""
    return 0.5 * model.damage * float(parameters.nuisance @ parameters.nuisance)


def weighted_gradient(
    prompts: PromptSet, parameters: Parameters, model: SimulatedPolicy, weights: Floats, rows: Ints | None = None
) -> Parameters:
    """``sum_i weight_i grad z_i`` (theory.md, eq. 123); prompts may occur in ``rows`` more than once."""
    features = prompts.features if rows is None else prompts.features[rows]
    size = prompts.start.size
    private = weights if rows is None else np.bincount(rows, weights=weights, minlength=size)
    return Parameters(
        shared=np.sqrt(model.shared) * (weights @ features),
        private=np.sqrt(1.0 - model.shared) * private,
        nuisance=-model.damage * float(weights.sum()) * parameters.nuisance,
    )


def group_signal(
    kept: Ints, rewarded: Ints, passes: Ints, group_size: int, advantages: tuple[Floats, Floats], pass_rates: Floats
) -> Floats:
    """Estimate of each group along the gradient of its logit (theory.md, eq. 124).

    Args:
        kept: Rollouts that passed and were rewarded, shape (N,).
        rewarded: Rollouts with reward 1; equal to the passes unless rewards were shuffled.
        passes: Rollouts that passed.
        group_size: G.
        advantages: Of a reward of 1 and of 0, each shape (N,).
        pass_rates: p, shape (N,).

    >>> one = np.array([1])
    >>> group_signal(one, one, one, 4, (np.array([1.0]), np.array([-1 / 3])), np.array([0.2])).round(6).tolist()
    [0.25]
    """
    plus, minus = advantages
    p = pass_rates
    value: Floats = plus * (kept - rewarded * p) + minus * (passes - kept - (group_size - rewarded) * p)
    return value / group_size


def group_noise(rewarded: Ints, group_size: int, advantages: tuple[Floats, Floats]) -> Floats:
    """Weight of the score noise in the estimate of each group (theory.md, eq. 124)."""
    plus, minus = advantages
    value: Floats = (rewarded * plus**2 + (group_size - rewarded) * minus**2) / group_size**2
    return value
