"""``simulate``: several seeds of one training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_level, require
from grpo_plan.errors import DomainError
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passrates import DiscretePassRates
from grpo_plan.pilot import Pilot
from grpo_plan.simulation.pairs import EstimatorLike, pairs_of
from grpo_plan.simulation.prompts import Source, as_rates, is_list
from grpo_plan.simulation.recorder import NAMES
from grpo_plan.simulation.result import Simulation
from grpo_plan.simulation.run import SeedRun
from grpo_plan.simulation.settings import Curriculum, SimulatedPolicy, SimulatedTraining

HARMLESS = (FitStatus.OK, FitStatus.EXTRAPOLATED)
MOST_SEEDS = 10**4
MOST_RECORDS = 10**5
Progress = Callable[[int, int], None]


def simulate(
    source: Source,
    *,
    estimator: EstimatorLike = "rloo",
    training: SimulatedTraining | None = None,
    model: SimulatedPolicy | None = None,
    seeds: int = 8,
    seed: int = 0,
    every: int = 10,
    pass_at: Sequence[int] = (1, 8, 64),
    level: float = 0.95,
    shuffled: bool = False,
    progress: Progress | None = None,
) -> Simulation:
    """Train a policy of one logit a prompt, and record how it learns (theory.md, section 25).

    Args:
        source: Where the prompts start: a PassRateFit or a pass-rate distribution, from which every seed draws
            prompts; a Pilot, which is fitted first; or a list of pass rates: the prompts that it trains on.
        estimator: Name of an advantage estimator, an Estimator, or a function ``pair(k, G) -> (A+, A-)`` of arrays.
        training: How it is trained. Default: `SimulatedTraining` as it stands.
        model: The policy. Default: `SimulatedPolicy` as it stands.
        seeds: Number of seeds; two or more give limits.
        seed: First seed; the others follow it.
        every: Steps between records; the last step is recorded too.
        pass_at: k of the recorded pass@k.
        level: Level of the limits.
        shuffled: Shuffle the rewards of each batch: a control that cannot learn (theory.md, eq. 129).
        progress: Called with records done and records in all.

    Returns:
        Arrays of shape (seeds, records).

    Raises:
        DomainError: A number outside its domain.
        PilotError: A pilot without its dead groups.

    >>> training = SimulatedTraining(steps=20, rollouts_per_step=64)
    >>> run = simulate([0.1, 0.5, 0.0], training=training, seeds=2)
    >>> run.train.shape, bool(run.train[0, 0] == run.train[1, 0]), run.steps.tolist()
    ((2, 3), True, [0, 10, 20])
    """
    training = SimulatedTraining() if training is None else training
    model = SimulatedPolicy() if model is None else model
    require(training, SimulatedTraining, "training", "Write training=SimulatedTraining(...).")
    require(model, SimulatedPolicy, "model", "Write model=SimulatedPolicy(...).")
    seeds = as_count(seeds, "seeds", maximum=MOST_SEEDS)
    first = as_count(seed, "seed", minimum=0, maximum=2**53)
    records = record_steps(training.steps, as_count(every, "every"))
    ks = tuple(as_count(k, "k of pass@k", maximum=10**6) for k in pass_at)
    level = as_level(level)
    if shuffled and (training.refill or isinstance(training.sampling, Curriculum)):
        raise DomainError(
            "shuffled rewards need prompts that do not depend on rewards; got a refill or a curriculum. Use sampling "
            "'uniform' or 'epochs', and no refill."
        )
    pairs = pairs_of(estimator)
    for _, size in training.schedule:
        pairs.table(size, 0.5)  # refused before anything is simulated
    if isinstance(source, Pilot):
        source = fit_pass_rates(source)
    rates = as_rates(source)
    if is_list(source) and isinstance(rates, DiscretePassRates):
        model = replace(model, prompts=rates.masses.size)
    total = seeds * (records.size - 1)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    runs = []
    for one in range(first, first + seeds):
        run = SeedRun(source, rates, pairs, training, model, seed=one, pass_at=ks, shuffled=bool(shuffled))
        run.run(records, tell)
        runs.append(run.recorder)
    table = np.array([r.rows for r in runs])
    arrays: dict[str, Any] = {name: _lock(table[:, :, i]) for i, name in enumerate(NAMES)}
    return Simulation(
        estimator=pairs.name,
        training=training,
        model=model,
        seeds=tuple(range(first, first + seeds)),
        steps=_lock(records),
        pass_at=ks,
        train_pass_at=_lock(np.array([r.train_pass_at for r in runs])),
        held_out_pass_at=_lock(np.array([r.held_out_pass_at for r in runs])),
        off_band_draws=_lock(np.array([r.off_band_draws for r in runs], dtype=np.float64)),
        shuffled=bool(shuffled),
        level=level,
        statuses=statuses_of(source, [size for _, size in training.schedule], level),
        **arrays,
    )


def statuses_of(source: Source, group_sizes: Sequence[int], level: float) -> tuple[FitStatus, ...]:
    """What limits a fit, and its dead fraction at these group sizes where the pilot cannot tell it; none for a list."""
    if not isinstance(source, PassRateFit):
        return ()
    found = [*source.statuses, *(source.dead(size, level).status for size in group_sizes)]
    return tuple(dict.fromkeys(s for s in found if s not in HARMLESS))


def record_steps(steps: int, every: int) -> NDArray[np.int64]:
    """Steps before each record: 0, every, 2 every, ..., and the last.

    >>> record_steps(25, 10).tolist()
    [0, 10, 20, 25]
    """
    if steps // every > MOST_RECORDS:
        raise DomainError(f"every must leave at most {MOST_RECORDS:,} records; got {every} of {steps:,} steps.")
    return np.unique(np.append(np.arange(0, steps + 1, every), steps))


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array)
    copy.setflags(write=False)
    return copy
