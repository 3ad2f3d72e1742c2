"""The result of a simulation: arrays over seeds and records, and their means with limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_level
from grpo_plan.errors import DomainError
from grpo_plan.fitting.status import FitStatus
from grpo_plan.simulation.recorder import NAMES, SINCE_LAST
from grpo_plan.simulation.settings import SimulatedPolicy, SimulatedTraining

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedMean:
    """A mean over seeds (theory.md, eq. 130).

    Attributes:
        value: Mean over the seeds in which the quantity is known; None where it is known in none.
        standard_error: Of the mean; None with one seed.
        low: Low limit of the t interval; None with one seed.
        high: High limit.
        level: Confidence level.
        seeds: Seeds in which the quantity is known.
    """

    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    level: float
    seeds: int


def seed_mean(values: Floats, level: float = 0.95, *, comparisons: int = 1) -> SeedMean:
    """Mean over seeds with its t interval (theory.md, eq. 130).

    Args:
        values: One a seed, NaN where unknown.
        level: Confidence level.
        comparisons: Intervals that hold at once (Bonferroni).

    >>> m = seed_mean(np.array([1.0, 2.0, 3.0]))
    >>> m.value, round(m.low, 3), round(m.high, 3)
    (2.0, -0.484, 4.484)
    """
    from scipy.special import stdtrit

    level = as_level(level)
    known = values[np.isfinite(values)]
    if known.size < 2:
        value = float(known[0]) if known.size else None
        return SeedMean(value=value, standard_error=None, low=None, high=None, level=level, seeds=known.size)
    mean, error = float(known.mean()), float(known.std(ddof=1)) / known.size**0.5
    reach = float(stdtrit(known.size - 1, 1.0 - (1.0 - level) / (2.0 * comparisons))) * error
    return SeedMean(
        value=mean, standard_error=error, low=mean - reach, high=mean + reach, level=level, seeds=known.size
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Simulation(Shown):
    """A simulated training, several seeds of it. Each seed draws its own prompts, directions, rollouts and noise.

    Arrays have shape (seeds, records); records are made before the steps of `steps`. NaN stands for unknown.

    Attributes:
        estimator: Name of the advantage estimator.
        training: How it was trained.
        model: The policy.
        seeds: Seed of each row.
        steps: Steps before each record, shape (records,).
        pass_at: k of pass@k.
        train: Mean pass rate of the prompts trained on.
        held_out: Mean pass rate of the held-out prompts.
        train_pass_at: Exact mean pass@k, shape (seeds, records, len(pass_at)).
        held_out_pass_at: The same of the held-out prompts.
        train_logit: Mean change of the logit since the start, what drift costs left out.
        held_out_logit: The same of the held-out prompts. Noise alone moves a mean pass rate, for the pass rate is not
            linear in the logit; this mean it leaves where it was.
        drift_cost: What drift in the nuisance parameters has taken off every logit.
        kl: Mean KL divergence from the start of the pass or fail of a rollout.
        mean_failure: Mean of (1 - p)**G: the expected share of all-fail groups.
        turned: Chance that a group of the starting policy is all-fail and one of the present policy all-pass.
        turned_back: The chance of the reverse.
        dead_now: Expected dead fraction of the prompts trained on, each as likely.
        noise_to_signal: Of the next step, for prompts drawn alike; without KL, refill and curriculum.
        direction: Cosine of the expected step to the gradient of the mean pass rate, under the same conditions.
        dead: Share of dead groups among those generated since the last record; unknown at the first.
        all_fail: Share of all-fail groups, likewise.
        all_pass: Share of all-pass groups.
        mixed: Share of mixed groups.
        dead_expected: Expected share of dead groups, given the prompts that were drawn.
        gradient_norm: Mean length of the gradients since the last record, before clipping.
        cosine: Cosine of the last step's gradient to that of the mean pass rate.
        steps_done: Steps up to the record; fewer than `steps` where a budget of rollouts ended the training.
        generated_groups: Groups generated up to the record.
        generated_rollouts: Rollouts generated up to the record.
        trained_groups: Groups trained on up to the record.
        trained_rollouts: Rollouts trained on up to the record.
        empty_steps: Steps whose refill found no mixed group.
        off_band_draws: Draws of a curriculum that found no prompt with a weight, shape (seeds,).
        shuffled: Whether rewards were shuffled over the batch.
        level: Level of the limits.
        statuses: What limits the fit that the prompts were drawn from, gravest first; empty for a list.
    """

    estimator: str
    training: SimulatedTraining
    model: SimulatedPolicy
    seeds: tuple[int, ...]
    steps: NDArray[np.int64] = field(repr=False)
    pass_at: tuple[int, ...]
    train: Floats = field(repr=False)
    held_out: Floats = field(repr=False)
    train_pass_at: Floats = field(repr=False)
    held_out_pass_at: Floats = field(repr=False)
    train_logit: Floats = field(repr=False)
    held_out_logit: Floats = field(repr=False)
    drift_cost: Floats = field(repr=False)
    kl: Floats = field(repr=False)
    mean_failure: Floats = field(repr=False)
    turned: Floats = field(repr=False)
    turned_back: Floats = field(repr=False)
    dead_now: Floats = field(repr=False)
    noise_to_signal: Floats = field(repr=False)
    direction: Floats = field(repr=False)
    dead: Floats = field(repr=False)
    all_fail: Floats = field(repr=False)
    all_pass: Floats = field(repr=False)
    mixed: Floats = field(repr=False)
    dead_expected: Floats = field(repr=False)
    gradient_norm: Floats = field(repr=False)
    cosine: Floats = field(repr=False)
    steps_done: Floats = field(repr=False)
    generated_groups: Floats = field(repr=False)
    generated_rollouts: Floats = field(repr=False)
    trained_groups: Floats = field(repr=False)
    trained_rollouts: Floats = field(repr=False)
    empty_steps: Floats = field(repr=False)
    off_band_draws: Floats = field(repr=False)
    shuffled: bool = False
    level: float = 0.95
    statuses: tuple[FitStatus, ...] = ()

    def at(self, name: str, record: int = -1) -> SeedMean:
        """Mean over seeds of a quantity at a record, by default the last.

        Raises:
            DomainError: No such quantity or record.
        """
        if not -self.steps.size <= record < self.steps.size:
            raise DomainError(f"record must be one of 0 to {self.steps.size - 1}; got {record}.")
        return seed_mean(self._values(name)[:, record], self.level)

    def gain(self, name: str = "held_out") -> SeedMean:
        """Mean over seeds of a quantity's last value less its first."""
        values = self._values(name)
        return seed_mean(values[:, -1] - values[:, 0], self.level)

    def average(self, name: str = "held_out") -> SeedMean:
        """Mean over seeds of a quantity's mean over records (the area under its curve) at which it can be known."""
        values = self._values(name)
        return seed_mean(values[:, 1 if name in SINCE_LAST else 0 :].mean(axis=1), self.level)

    def summary(self) -> tuple[dict[str, SeedMean], ...]:
        """Every quantity at every record, by name: mean over seeds, standard error and t interval."""
        return tuple({name: self.at(name, i) for name in NAMES} for i in range(self.steps.size))

    def _values(self, name: str) -> Floats:
        if name not in NAMES:
            raise DomainError(not_one_of("name", name, NAMES))
        values: Floats = getattr(self, name)
        return values
