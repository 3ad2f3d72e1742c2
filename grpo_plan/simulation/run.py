"""One seed of a simulation: the loop over steps, and what is recorded on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from grpo_plan.passrates import BetaPassRates, DiscretePassRates
from grpo_plan.simulation.drawing import SET, Sampler, Streams
from grpo_plan.simulation.moments import cosine, true_gradient
from grpo_plan.simulation.optimizers import Optimizer
from grpo_plan.simulation.pairs import Pairs
from grpo_plan.simulation.policy import Parameters, moved, sigmoid
from grpo_plan.simulation.prompts import Source, draw_prompts
from grpo_plan.simulation.recorder import Recorder
from grpo_plan.simulation.settings import SimulatedPolicy, SimulatedTraining
from grpo_plan.simulation.step import Groups, draw_groups, estimate, is_mixed, joined, tally

Floats = NDArray[np.float64]


class SeedRun:
    """One simulated training.

    Args of the constructor are those of `simulate`, with one seed.
    """

    def __init__(
        self,
        source: Source,
        rates: DiscretePassRates | BetaPassRates,
        pairs: Pairs,
        training: SimulatedTraining,
        model: SimulatedPolicy,
        *,
        seed: int,
        pass_at: tuple[int, ...],
        shuffled: bool,
    ) -> None:
        self._pairs, self._training, self._model, self._shuffled = pairs, training, model, shuffled
        self._streams = Streams(seed)
        self._train, held = draw_prompts(source, rates, model, self._streams.at(SET, 0))
        size = self._train.start.size
        self._parameters = Parameters.zeros(model, size)
        self._optimizer = Optimizer(training.optimizer, self._parameters)
        self._sampler = Sampler(training.sampling, size, self._streams)
        self.recorder = Recorder(self._train, held, pairs, training, model, pass_at)

    def run(self, records: NDArray[np.int64], progress: Callable[[int], None]) -> None:
        """Train, and record at these steps, which rise from 0."""
        self.recorder.record(self._parameters, 0)
        step, spent = 0, False
        for stop in records[1:]:
            while step < stop and not spent:
                self._step(step, look=step == stop - 1)
                step += 1
                budget = self._training.budget_rollouts
                spent = budget is not None and self.recorder.generated_rollouts >= budget
            self.recorder.record(self._parameters, step)
            progress(1)
        self.recorder.off_band_draws = self._sampler.off_band

    def _step(self, step: int, *, look: bool) -> None:
        training, g = self._training, self._training.group_size_at(step)
        groups = self._collect(step, training.prompts_per_step(step), g)
        if groups.rows.size == 0:
            self.recorder.add_empty_step()
            return
        gradient = estimate(
            self._train, self._parameters, self._model, self._pairs, groups, g, self._streams,
            step=step, kl_coefficient=training.kl_coefficient, shuffled=self._shuffled,
        )  # fmt: skip
        norm = gradient.dot(gradient) ** 0.5
        angle = self._angle(gradient) if look else None
        self.recorder.add_trained(groups.rows.size, g, norm, angle)
        limit = training.max_gradient_norm
        if limit is not None and norm > limit:
            gradient = gradient.scaled(limit / norm)
        self._optimizer.move(self._parameters, gradient, training.rate_at(step))

    def _collect(self, step: int, count: int, group_size: int) -> Groups:
        """Groups to train on; with refill, mixed ones only, round by round."""
        found: list[Groups] = []
        kept = 0
        for turn in range(self._training.max_rounds if self._training.refill else 1):
            groups = draw_groups(
                self._train, self._parameters, self._model, self._sampler, self._streams,
                step=step, turn=turn, count=count, group_size=group_size,
            )  # fmt: skip
            self.recorder.add_drawn(tally(groups, group_size), group_size)
            if not self._training.refill:
                return groups
            found.append(groups.some(is_mixed(groups, group_size)))
            kept += found[-1].rows.size
            if kept >= count:
                break
        return joined(found).some(slice(count))

    def _angle(self, gradient: Parameters) -> float | None:
        p, q = sigmoid(self._train.start + moved(self._train, self._parameters, self._model))
        return cosine(gradient, true_gradient(self._train, self._parameters, self._model, p, q))
