"""What is recorded of one seed: exact means at the policy of the moment, and what was drawn since the last record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.groups import all_fail_probability, dead_probability, pass_at
from grpo_plan.simulation.moments import step_moments
from grpo_plan.simulation.pairs import Pairs
from grpo_plan.simulation.policy import Parameters, drift_cost, moved, sigmoid
from grpo_plan.simulation.prompts import PromptSet
from grpo_plan.simulation.settings import SimulatedPolicy, SimulatedTraining
from grpo_plan.simulation.step import Drawn

Floats = NDArray[np.float64]
UNKNOWN = float("nan")
EXACT = (
    "train", "held_out", "train_logit", "held_out_logit", "drift_cost", "kl", "mean_failure", "turned", "turned_back",
    "dead_now", "noise_to_signal", "direction",
)  # fmt: skip
SINCE_LAST = ("dead", "all_fail", "all_pass", "mixed", "dead_expected", "gradient_norm", "cosine")
TOTALS = (
    "steps_done", "generated_groups", "generated_rollouts", "trained_groups", "trained_rollouts", "empty_steps",
)  # fmt: skip
NAMES = (*EXACT, *SINCE_LAST, *TOTALS)


def divergence(start: Floats, change: Floats) -> Floats:
    """KL divergence of a Bernoulli policy from its start, for logits and their changes (theory.md, eq. 127).

    >>> divergence(np.array([-np.inf, 0.0]), np.array([1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    low = start < 0.0
    p, q = sigmoid(start + change)
    side = np.where(low, start, -start)  # of the side that keeps its digits
    turn = np.where(low, change, -change)
    value: Floats = np.where(low, p, q) * turn + np.logaddexp(0.0, side) - np.logaddexp(0.0, side + turn)
    return np.maximum(value, 0.0)


class Recorder:
    """Collects the records of one seed."""

    def __init__(
        self,
        train: PromptSet,
        held_out: PromptSet,
        pairs: Pairs,
        training: SimulatedTraining,
        model: SimulatedPolicy,
        ks: tuple[int, ...],
    ) -> None:
        self._train, self._held_out, self._ks = train, held_out, ks
        self._pairs, self._training, self._model = pairs, training, model
        self._first_pass, self._first_fail = sigmoid(train.start)
        self.rows: list[list[float]] = []
        self.train_pass_at: list[Floats] = []
        self.held_out_pass_at: list[Floats] = []
        self.off_band_draws = 0
        self._totals = dict.fromkeys(TOTALS, 0)
        self._clear()

    def _clear(self) -> None:
        self._kinds = np.zeros(4)  # groups, all-fail, all-pass, expected dead
        self._norms: list[float] = []
        self._angle = UNKNOWN

    @property
    def generated_rollouts(self) -> int:
        """Rollouts so far, those that no step trained on included."""
        return self._totals["generated_rollouts"]

    def add_drawn(self, drawn: Drawn, group_size: int) -> None:
        """Groups that were generated."""
        self._kinds += (drawn.groups, drawn.all_fail, drawn.all_pass, drawn.expected_dead)
        self._totals["generated_groups"] += drawn.groups
        self._totals["generated_rollouts"] += drawn.groups * group_size

    def add_trained(self, groups: int, group_size: int, norm: float, angle: float | None) -> None:
        """A step and its gradient."""
        self._totals["steps_done"] += 1
        self._totals["trained_groups"] += groups
        self._totals["trained_rollouts"] += groups * group_size
        self._norms.append(norm)
        self._angle = UNKNOWN if angle is None else angle

    def add_empty_step(self) -> None:
        """A step whose refill found no mixed group."""
        self._totals["steps_done"] += 1
        self._totals["empty_steps"] += 1

    def record(self, parameters: Parameters, step: int) -> None:
        """One record; ``step`` is that of the next step."""
        found = self._exact(parameters, step) + self._since_last() + [float(v) for v in self._totals.values()]
        self.rows.append(found)
        self._clear()

    def _exact(self, parameters: Parameters, step: int) -> list[float]:
        last = min(step, self._training.steps - 1)
        g, n = self._training.group_size_at(last), self._training.prompts_per_step(last)
        change = moved(self._train, parameters, self._model)
        p, q = sigmoid(self._train.start + change)
        away = moved(self._held_out, parameters, self._model, own=False)
        held, _ = sigmoid(self._held_out.start + away)
        self.train_pass_at.append(np.array([float(pass_at(p, k).mean()) for k in self._ks]))
        self.held_out_pass_at.append(np.array([float(pass_at(held, k).mean()) for k in self._ks]))
        table = self._pairs.table(g, float(p.mean()))
        moments = step_moments(self._train, parameters, self._model, p, q, table, n)
        cost = drift_cost(parameters, self._model)
        ratio, direction = moments.noise_to_signal, moments.direction
        return [
            float(p.mean()),
            float(held.mean()),
            float(change.mean()) + cost,
            float(away.mean()) + cost,
            cost,
            float(divergence(self._train.start, change).mean()),
            float(all_fail_probability(p, g).mean()),
            float((self._first_fail**g * p**g).mean()),
            float((self._first_pass**g * q**g).mean()),
            float(dead_probability(p, g).mean()),
            UNKNOWN if ratio is None else ratio,
            UNKNOWN if direction is None else direction,
        ]

    def _since_last(self) -> list[float]:
        groups, fails, passes, expected = self._kinds
        if not groups:
            return [UNKNOWN] * len(SINCE_LAST)
        dead = groups if self._group_of_one else fails + passes
        shares = [dead / groups, fails / groups, passes / groups, 1.0 - dead / groups, expected / groups]
        norm = float(np.mean(self._norms)) if self._norms else UNKNOWN
        return [*shares, norm, self._angle]

    @property
    def _group_of_one(self) -> bool:
        return all(size == 1 for _, size in self._training.schedule)
