"""Speed of the simulator: 10,000 prompts, 500 steps of 128 groups of 8, 64 shared parameters; one thread is enough.

``python -m tests.benchmarks.simulation [STEPS]`` prints three lines, each our time over that of a peer, measured in turns:

* bare NumPy: only what no simulation of this kind can do without, the draws of prompts and rollouts and the two products
  with the features of the drawn prompts (ratio above 1: prompts, records, optimiser, noise and streams are the rest);
* a plain loop over groups that does the same training step, one group at a time (below 1);
* a limit of 60 s for the whole, a record every 10 steps (below 1).

Nothing here asserts: tests never depend on the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from grpo_plan.passrates import BetaPassRates
from grpo_plan.simulation import SimulatedPolicy, SimulatedTraining, simulate
from tests.benchmarks.run import report

RATES = BetaPassRates.from_shape(0.19, 0.5)
MODEL = SimulatedPolicy(prompts=10_000, held_out=1_000, dimension=64)
GROUPS, SIZE = 128, 8


def ours(steps: int, every: int) -> Callable[[], object]:
    """The simulator, with records of all it records."""
    training = SimulatedTraining(group_size=SIZE, rollouts_per_step=GROUPS * SIZE, steps=steps)
    return lambda: simulate(RATES, training=training, model=MODEL, seeds=1, every=every)


def features() -> NDArray[np.float64]:
    """Directions of the prompts."""
    x = np.random.default_rng(0).standard_normal((MODEL.prompts, MODEL.dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


def bare(steps: int) -> Callable[[], object]:
    """Draws and products alone."""
    x, w = features(), np.zeros(MODEL.dimension)
    rng = np.random.default_rng(1)

    def job() -> NDArray[np.float64]:
        total = np.zeros_like(w)
        for _ in range(steps):
            drawn = x[rng.integers(0, MODEL.prompts, GROUPS)]
            p = 1.0 / (1.0 + np.exp(-(drawn @ w)))
            k = np.count_nonzero(rng.random((GROUPS, SIZE)) < p[:, None], axis=1)
            total += (k / SIZE - p) @ drawn
        return total

    return job


def by_group(steps: int) -> Callable[[], object]:
    """The same step of rloo, group by group and rollout by rollout, without records."""
    x, w = features(), np.zeros(MODEL.dimension)
    u = np.zeros(MODEL.prompts)
    rng = np.random.default_rng(1)

    def job() -> NDArray[np.float64]:
        for _ in range(steps):
            shared, private = np.zeros_like(w), np.zeros_like(u)
            for i in rng.integers(0, MODEL.prompts, GROUPS):
                p = 1.0 / (1.0 + np.exp(-(0.5**0.5 * (x[i] @ w) + 0.5**0.5 * u[i])))
                rewards = [float(rng.random() < p) for _ in range(SIZE)]
                mean = sum(rewards) / SIZE
                for reward in rewards:
                    score = (reward - mean) * SIZE / (SIZE - 1) * (reward - p) / (SIZE * GROUPS)
                    shared += score * 0.5**0.5 * x[i]
                    private[i] += score * 0.5**0.5
            w[:] += 0.1 * shared
            u[:] += 0.1 * private
        return w

    return job


def main() -> None:
    """Print the three ratios."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    name = f"simulate, {steps} steps"
    report(f"{name}, first and last record", ours(steps, steps), "bare numpy draws and products", bare(steps), runs=3)
    report(f"{name}, first and last record", ours(steps, steps), "a plain loop over groups", by_group(steps), runs=3)
    _limit(steps, f"{name}, 51 records")


def _limit(steps: int, name: str) -> None:
    start = time.perf_counter()
    ours(steps, 10)()
    took = time.perf_counter() - start
    print(f"{name:46} {took * 1e3:10.2f} ms   {'limit 60 s':34} {60e3:10.2f} ms   ratio {took / 60:.3g}")


if __name__ == "__main__":
    main()
