"""Cells of the study of simulated learning: what is trained, the sweep of its learning rates, and its numbers.

A cell is one training: prompts, noise, batch, group size, optimiser and estimator. Its learning rate is swept on seeds
of its own; what is reported is measured on other seeds, which all cells share, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

import grpo_plan as gp
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES, EXAMPLE_ROLLOUTS
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.simulation.result import SeedMean, seed_mean

Floats = NDArray[np.float64]
SEEDS = 8
FIRST_TUNING_SEED, TUNING_SEEDS, CHECKING_SEEDS = 1000, 3, 5
STEPS, RECORDS = 60, 3
PROMPTS = 1000
COHERENCE = {"low": (0.5, 0.02), "high": (0.9, 0.5 / 0.9)}  # shared share, coherence of the shared directions
NOISE = {"costs": (0.0, 1.0), "spreads": (1.0, 0.0), "both": (0.5, 0.5)}  # harmful share, damage
COARSE, FINER, FINEST = 4.0, 2.0, 2.0**0.5
SAFETY = 2.0  # standard errors that a rate's mean gain is lowered by in a sweep
LEAST_RATES, MOST_RATES, HIGHEST_RATE = 4, 14, 1e6
SETS = ("hard", "mixed", "example", "middling", "testbed")


@cache
def example_fit() -> gp.PassRateFit:
    """The fit of the packaged example."""
    counts = np.array(EXAMPLE_PROMPTS_BY_SUCCESSES)
    return gp.fit_pass_rates(gp.Pilot.from_counts(np.repeat(np.arange(counts.size), counts), EXAMPLE_ROLLOUTS))


def pass_rates(name: str) -> BetaPassRates | gp.PassRateFit:
    """Where the prompts start.

    >>> [round(pass_rates(name).mean, 3) for name in ("hard", "mixed", "middling", "testbed")]
    [0.03, 0.275, 0.5, 0.024]
    """
    if name == "example":
        return example_fit()
    shapes = {"hard": (0.6, 19.4), "mixed": (0.19, 0.5), "middling": (20.0, 20.0), "testbed": (0.67, 27.6)}
    return BetaPassRates.from_shape(*shapes[name])


def law_of(name: str) -> Callable[[int], Floats]:
    """Law of the passes of a group of a size."""
    return pass_rates(name).group_pmf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One training, but for its learning rate.

    Attributes:
        study: Part of the study.
        rates: Name of the pass rates, see `pass_rates`.
        kappa: Score noise over contrast.
        coherence: ``"low"`` (mean cosine of two gradients .01) or ``"high"`` (.5).
        prompts: Prompts of a step.
        group_size: G.
        optimizer: Of the simulation.
        noise: What score noise does: see NOISE.
        estimator: Name of the estimator.
        how: What else is done: ``""``, ``"refill"``, ``"band"`` (tracked pass rate .2 to .8) or ``"band-true"``.
        steps: Optimiser steps.
        damage: Damage of drift, if not that of the noise.
        shuffled: Whether rewards are shuffled.
    """

    study: str
    rates: str
    kappa: float
    coherence: str = "low"
    prompts: int = 128
    group_size: int = 4
    optimizer: str = "adam-norm"
    noise: str = "costs"
    estimator: str = "rloo"
    how: str = ""
    steps: int = STEPS
    damage: float | None = None
    shuffled: bool = False

    def simulate(self, learning_rate: float, *, seeds: int = SEEDS, first: int = 0) -> gp.Simulation:
        """Train it at a learning rate."""
        shared, direction = COHERENCE[self.coherence]
        harmful, damage = NOISE[self.noise]
        model = gp.SimulatedPolicy(
            prompts=PROMPTS, held_out=PROMPTS, shared=shared, coherence=direction, kappa=self.kappa, harmful=harmful,
            damage=damage if self.damage is None else self.damage,
        )  # fmt: skip
        sampling: str | gp.Curriculum = "uniform"
        if self.how.startswith("band"):
            by = "current" if self.how == "band-true" else "tracked"
            sampling = gp.Curriculum(low=0.2, high=0.8, outside=0.02, by=by)
        rollouts = self.prompts * self.group_size
        training = gp.SimulatedTraining(
            group_size=self.group_size, rollouts_per_step=rollouts, steps=self.steps, learning_rate=learning_rate,
            optimizer=self.optimizer, sampling=sampling, refill=self.how == "refill",
            budget_rollouts=rollouts * self.steps if self.how == "refill" else None,
        )  # fmt: skip
        return gp.simulate(
            pass_rates(self.rates), estimator=self.estimator, training=training, model=model, seeds=seeds, seed=first,
            every=max(1, self.steps // RECORDS), pass_at=(1,), shuffled=self.shuffled,
        )  # fmt: skip


def gains(simulation: gp.Simulation, measure: str) -> Floats:
    """Gain in the mean pass rate of held-out prompts, one a seed: at the end, or on average over the run."""
    held = simulation.held_out
    values: Floats = (held[:, -1] if measure == "final" else held[:, 1:].mean(axis=1)) - held[:, 0]
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The sweep of a cell.

    Attributes:
        rate: Its best learning rate, on the tuning seeds.
        tried: Score of each rate tried.
        inside: Whether the best rate is neither the lowest nor the highest tried.
    """

    rate: float
    tried: dict[float, float]
    inside: bool


def sweep(cell: Cell, start: float, measure: str) -> Swept:
    """Climb in factors of 4 until the best rate lies inside, then look closer; the last ones on more seeds.

    A rate is scored by its mean gain less two standard errors: rates just below those that ruin a run ruin some.
    """
    found: dict[float, Floats] = {}

    def look(rate: float, *, check: bool = False) -> None:
        old = found.get(rate, np.zeros(0))
        wanted = TUNING_SEEDS + (CHECKING_SEEDS if check else 0) - old.size
        if wanted > 0 and rate <= HIGHEST_RATE and (check or len(found) < MOST_RATES):
            run = cell.simulate(rate, seeds=wanted, first=FIRST_TUNING_SEED + old.size)
            found[rate] = np.append(old, gains(run, measure))

    def scores(rates: Iterable[float]) -> dict[float, float]:
        return {r: float(found[r].mean() - SAFETY * found[r].std(ddof=1) / found[r].size ** 0.5) for r in rates}

    for factor in (1.0, 1.0 / COARSE, COARSE):
        look(start * factor)
    while True:
        best, low, high = best_of(scores(found)), min(found), max(found)
        nothing = scores([best])[best] <= 0.0  # where all rates ruin the run, lower ones may not
        count = len(found)
        if nothing or not low < best < high:
            look(low / COARSE if nothing or best == low else high * COARSE)
        if len(found) == count:
            break
    look(best / FINER)
    look(best * FINER)
    best = best_of(scores(found))
    last = [best, best / FINEST, best / FINER]
    for rate in last:
        look(rate, check=True)
    while True:
        best = best_of(scores(last))
        beyond = best / FINER if best == min(found) else best * FINER
        if min(found) < best < max(found) or len(last) >= MOST_RATES or beyond > HIGHEST_RATE:
            break
        look(beyond, check=True)
        last.append(beyond)
    return Swept(rate=best, tried=scores(found), inside=min(found) < best < max(found) and len(found) >= LEAST_RATES)


def best_of(tried: dict[float, float]) -> float:
    """The rate with the greatest gain; of equal ones the lowest.

    >>> best_of({0.1: 0.2, 0.4: 0.3, 1.6: 0.3})
    0.4
    """
    return min(tried, key=lambda rate: (-tried[rate], rate))


def mean_of(values: Floats, comparisons: int = 1) -> SeedMean:
    """Mean over seeds with its t interval."""
    return seed_mean(values, 0.95, comparisons=comparisons)


def like(cell: Cell, **changes: object) -> Cell:
    """A cell with other settings."""
    return replace(cell, **changes)  # type: ignore[arg-type]
