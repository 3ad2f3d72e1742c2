"""Exact moments of a step at a policy: no draws (theory.md, eq. 125 and 126)."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from grpo_plan.simulation.pairs import Table
from grpo_plan.simulation.policy import Parameters, group_noise, group_signal, weighted_gradient
from grpo_plan.simulation.prompts import PromptSet
from grpo_plan.simulation.settings import SimulatedPolicy

Floats = NDArray[np.float64]
BLOCK_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptMoments:
    """Moments of the estimate of one group of each prompt, each shape (M,) (theory.md, eq. 124).

    Attributes:
        signal: E[t | p], along the gradient of the logit.
        signal_square: E[t**2 | p].
        noise: E[v | p].
    """

    signal: Floats
    signal_square: Floats
    noise: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMoments:
    """Moments of a step of N prompts drawn alike and with replacement (theory.md, eq. 125).

    Attributes:
        mean_square: Squared length of the expected step.
        variance: Expected squared distance of a step from it.
        direction: Cosine between the expected step and the gradient of the mean pass rate; None where one of them is 0.
    """

    mean_square: float
    variance: float
    direction: float | None

    @property
    def noise_to_signal(self) -> float | None:
        """``variance / mean_square``; None where the expected step is 0.

        >>> StepMoments(mean_square=0.5, variance=2.0, direction=1.0).noise_to_signal
        4.0
        """
        return self.variance / self.mean_square if self.mean_square > 0.0 else None


def passes_law(passing: Floats, failing: Floats, group_size: int) -> Floats:
    """Binomial law of the passes of each prompt, shape (M, G + 1), for G up to 512.

    >>> passes_law(np.array([0.0, 0.5]), np.array([1.0, 0.5]), 2).tolist()
    [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]]
    """
    k = np.arange(group_size + 1)
    choose = np.array([float(comb(group_size, j)) for j in k])
    law: Floats = choose * passing[:, None] ** k * failing[:, None] ** (group_size - k)
    return law


def prompt_moments(passing: Floats, failing: Floats, table: Table) -> PromptMoments:
    """Moments of one group of each prompt from the advantages at k = 0..G.

    >>> pair = np.array([0.0, 0.5, 0.0]), np.array([0.0, -0.5, 0.0])
    >>> m = prompt_moments(np.array([0.2]), np.array([0.8]), pair)
    >>> m.signal.round(6).tolist(), m.signal_square.round(6).tolist(), m.noise.round(6).tolist()
    ([0.08], [0.02], [0.04])
    """
    size = table[0].size - 1
    k = np.arange(size + 1)
    noise = group_noise(k, size, table)
    out = np.empty((3, passing.size))
    step = max(1, BLOCK_CELLS // (size + 1))
    for first in range(0, passing.size, step):
        rows = slice(first, first + step)
        p = passing[rows]
        law = passes_law(p, failing[rows], size)
        t = group_signal(k, k, k, size, table, p[:, None])
        out[0, rows] = np.sum(law * t, axis=1)
        out[1, rows] = np.sum(law * t**2, axis=1)
        out[2, rows] = law @ noise
    return PromptMoments(signal=out[0], signal_square=out[1], noise=out[2])


def expected_step(
    prompts: PromptSet, parameters: Parameters, model: SimulatedPolicy, moments: PromptMoments
) -> Parameters:
    """Expected estimate of a step over prompts drawn alike (theory.md, eq. 126)."""
    return weighted_gradient(prompts, parameters, model, moments.signal / prompts.start.size)


def true_gradient(
    prompts: PromptSet, parameters: Parameters, model: SimulatedPolicy, passing: Floats, failing: Floats
) -> Parameters:
    """Gradient of the mean pass rate of these prompts."""
    return weighted_gradient(prompts, parameters, model, passing * failing / prompts.start.size)


def cosine(a: Parameters, b: Parameters) -> float | None:
    """Cosine between two directions; None where one of them has no length."""
    lengths = (a.dot(a) * b.dot(b)) ** 0.5
    return a.dot(b) / lengths if lengths > 0.0 else None


def step_moments(
    prompts: PromptSet,
    parameters: Parameters,
    model: SimulatedPolicy,
    passing: Floats,
    failing: Floats,
    table: Table,
    prompts_per_step: int,
) -> StepMoments:
    """Moments of a step of N prompts (theory.md, eq. 125).

    The weight of the KL divergence is left out, and so is what a refill or a curriculum changes.
    """
    moments = prompt_moments(passing, failing, table)
    expected = expected_step(prompts, parameters, model, moments)
    square = expected.dot(expected)
    contrast = 1.0 + model.damage**2 * float(parameters.nuisance @ parameters.nuisance)
    one_group = contrast * float(moments.signal_square.mean()) + model.kappa * float(moments.noise.mean())
    gradient = true_gradient(prompts, parameters, model, passing, failing)
    return StepMoments(
        mean_square=square,
        variance=max(one_group - square, 0.0) / prompts_per_step,
        direction=cosine(expected, gradient),
    )
