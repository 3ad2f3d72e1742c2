"""Several estimators, group sizes and learning rates on the same prompts and the same random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, as_level
from grpo_plan.errors import DomainError
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot
from grpo_plan.simulation.engine import Progress, record_steps, simulate
from grpo_plan.simulation.pairs import EstimatorLike, pairs_of
from grpo_plan.simulation.prompts import Source
from grpo_plan.simulation.result import SeedMean, Simulation, seed_mean
from grpo_plan.simulation.settings import SimulatedPolicy, SimulatedTraining

MEASURES = ("held_out", "train")
MOST_RUNS = 1000
LEFT_OUT = (
    "It is a model, not a language model: each prompt has one logit, all gradients have one length, and the score "
    "noise is equally large for passes and fails.",
    "Intervals are over seeds of the simulation. They leave out how unsure the pilot and the assumptions are.",
    "Left out: response lengths, exploration of new answers, reward hacking, staleness and clipping of ratios, and any "
    "link between how hard prompts are and how much they share.",
    "Noise moves logits both ways alike, which by itself raises the mean pass rate of hard prompts and lowers that of "
    "easy ones. The rest of the noise lowers all logits, the more the larger damage is.",
    "kappa, the shared share, the coherence and what noise harms are assumed, not fitted: rewards do not show them. "
    "Measure kappa with a probe, and look at several values.",
    "Its size of a step is not that of your trainer: compare estimators at the best rate of each, not rates.",
)


class Verdict(Enum):
    """What a paired difference says."""

    REFERENCE = "the run compared with"
    HIGHER = "ends higher"
    LOWER = "ends lower"
    EQUAL = "ends exactly alike, seed by seed"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedRate:
    """A learning rate of a sweep and the final pass rate of its own seeds."""

    learning_rate: float
    final: SeedMean


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompetingRun:
    """One of the trainings compared.

    Attributes:
        estimator: Name of its estimator.
        group_size: Its G.
        learning_rate: Its learning rate; the best of those tried.
        tried: The rates tried, on other seeds than those compared; empty if one was given.
        rate_at_end: Whether the best rate is the lowest or the highest tried, so that a better one may lie beyond.
        simulation: Its records.
        final: Final pass rate.
        difference: Final pass rate less that of the first run, seed by seed; None for the first.
        verdict: What the difference says.
    """

    estimator: str
    group_size: int
    learning_rate: float
    tried: tuple[TriedRate, ...]
    rate_at_end: bool
    simulation: Simulation
    final: SeedMean
    difference: SeedMean | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SimulationComparison(Shown):
    """Trainings compared on the same prompts and random numbers.

    Attributes:
        runs: One for each estimator and group size; all are compared with the first.
        measure: ``"held_out"`` or ``"train"``: whose final pass rate is compared.
        level: Level of the limits; those of the differences hold for all runs at once.
        tuning_seeds: Seeds on which learning rates were chosen; empty if one was given.
        notes: What is odd about this comparison.
        left_out: What the model leaves out.
    """

    runs: tuple[CompetingRun, ...]
    measure: str
    level: float
    tuning_seeds: tuple[int, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = LEFT_OUT

    @property
    def statuses(self) -> tuple[FitStatus, ...]:
        """What limits the fit that the prompts were drawn from; none for a list."""
        return tuple(dict.fromkeys(s for run in self.runs for s in run.simulation.statuses))


def compare_simulations(
    source: Source,
    *,
    estimators: Sequence[EstimatorLike] = ("rloo", "sign"),
    group_sizes: Sequence[int] = (8,),
    learning_rates: Sequence[float] | None = None,
    training: SimulatedTraining | None = None,
    model: SimulatedPolicy | None = None,
    seeds: int = 8,
    seed: int = 0,
    measure: str = "held_out",
    every: int = 10,
    pass_at: Sequence[int] = (1, 8, 64),
    level: float = 0.95,
    shuffled: bool = False,
    progress: Progress | None = None,
) -> SimulationComparison:
    """Simulate each estimator at each group size, all at the same rollouts a step, and compare final pass rates.

    All runs of a seed start from the same prompts and use the same random numbers, so that their differences are
    paired; at one group size they also draw the same prompts in each step. The limits of the differences hold for all
    of them at once (theory.md, eq. 130).

    Args:
        source: As for `simulate`.
        estimators: Names, Estimators or functions.
        group_sizes: G of the runs, in place of that of ``training``.
        learning_rates: Rates to choose from for each run, by final pass rate on as many other seeds; None: that of
            ``training`` for all.
        training: What the runs share.
        model: The policy.
        seeds: Seeds compared; two or more, or nothing can be told.
        seed: First seed.
        measure: ``"held_out"`` or ``"train"``.
        every: Steps between records.
        pass_at: k of the recorded pass@k.
        level: Level of the limits.
        shuffled: Shuffle rewards, as in `simulate`.
        progress: Called with records done and records in all.

    Raises:
        DomainError: A number outside its domain, or nothing to compare.

    >>> short = SimulatedTraining(steps=10, rollouts_per_step=64)
    >>> both = compare_simulations([0.1, 0.5], estimators=["rloo", "dr_grpo"], training=short, seeds=2)
    >>> [run.verdict.name for run in both.runs]  # a constant factor does not matter to adam-norm
    ['REFERENCE', 'CANNOT_TELL']
    """
    training = SimulatedTraining() if training is None else training
    seeds, seed, level = as_count(seeds, "seeds"), as_count(seed, "seed", minimum=0), as_level(level)
    if measure not in MEASURES:
        raise DomainError(not_one_of("measure", measure, MEASURES))
    rates = [training.learning_rate] if learning_rates is None else list(learning_rates)
    designs = [(e, replace(training, group_size=g)) for e in estimators for g in group_sizes]
    plans = [[replace(t, learning_rate=rate) for rate in sorted(set(rates))] for _, t in designs]
    if not designs or not rates or len(designs) * len(rates) > MOST_RUNS:
        raise DomainError(
            f"Estimators, group sizes and learning rates must make 1 to {MOST_RUNS:,} runs; got "
            f"{len(designs) * len(rates):,}."
        )
    for estimator, one in designs:
        pairs_of(estimator).table(one.group_size_at(0), 0.5)
    if isinstance(source, Pilot):
        source = fit_pass_rates(source)
    sweep = learning_rates is not None and len(plans[0]) > 1
    shared: dict[str, Any] = {
        "model": model, "seeds": seeds, "level": level, "every": every, "pass_at": pass_at, "shuffled": shuffled,
    }  # fmt: skip
    records = seeds * (record_steps(training.steps, as_count(every, "every")).size - 1)
    total = records * len(designs) * (1 + sweep * len(plans[0]))
    done = 0

    def one_run(estimator: EstimatorLike, plan: SimulatedTraining, first: int) -> Simulation:
        nonlocal done

        def tell(count: int, _: int) -> None:
            if progress is not None:
                progress(done + count, total)

        found = simulate(source, estimator=estimator, training=plan, seed=first, progress=tell, **shared)
        done += records
        return found

    chosen: list[tuple[Simulation, tuple[TriedRate, ...]]] = []
    for (estimator, _), choices in zip(designs, plans, strict=True):
        tried: tuple[TriedRate, ...] = ()
        best = choices[0]
        if sweep:
            finals = [one_run(estimator, plan, seed + seeds).at(measure) for plan in choices]
            tried = tuple(
                TriedRate(learning_rate=plan.learning_rate, final=f) for plan, f in zip(choices, finals, strict=True)
            )
            best = choices[max(range(len(choices)), key=lambda i: finals[i].value or 0.0)]
        chosen.append((one_run(estimator, best, seed), tried))
    return _compared(chosen, measure, level, tuple(range(seed + seeds, seed + 2 * seeds)) if sweep else ())


def _compared(
    chosen: list[tuple[Simulation, tuple[TriedRate, ...]]], measure: str, level: float, tuning_seeds: tuple[int, ...]
) -> SimulationComparison:
    reference = getattr(chosen[0][0], measure)[:, -1]
    runs = []
    for i, (simulation, tried) in enumerate(chosen):
        difference, verdict = None, Verdict.REFERENCE
        if i:
            values = getattr(simulation, measure)[:, -1] - reference
            difference = seed_mean(values, level, comparisons=len(chosen) - 1)
            verdict = verdict_of(difference) if np.any(values != 0.0) else Verdict.EQUAL
        rate = simulation.training.learning_rate
        differ = len({t.final.value for t in tried}) > 1  # where none moves anything, no end is better
        ends = {tried[0].learning_rate, tried[-1].learning_rate} if differ else set()
        runs.append(
            CompetingRun(
                estimator=simulation.estimator,
                group_size=simulation.training.group_size_at(0),
                learning_rate=rate,
                tried=tried,
                rate_at_end=rate in ends,
                simulation=simulation,
                final=simulation.at(measure),
                difference=difference,
                verdict=verdict,
            )
        )
    return SimulationComparison(
        runs=tuple(runs), measure=measure, level=level, tuning_seeds=tuning_seeds, notes=tuple(_notes(runs))
    )


def verdict_of(difference: SeedMean) -> Verdict:
    """Higher or lower where the interval leaves out 0.

    >>> verdict_of(SeedMean(value=0.1, standard_error=0.01, low=0.05, high=0.15, level=0.95, seeds=4)).value
    'ends higher'
    """
    if difference.low is None or difference.high is None or difference.low <= 0.0 <= difference.high:
        return Verdict.CANNOT_TELL
    return Verdict.HIGHER if difference.low > 0.0 else Verdict.LOWER


def _notes(runs: list[CompetingRun]) -> list[str]:
    notes = []
    if len(runs[0].simulation.seeds) < 2:
        notes.append("One seed gives no interval, so nothing can be told. Use --seeds 8.")
    unequal = {r.group_size for r in runs if r.simulation.training.rollouts_per_step % r.group_size}
    if unequal:
        sizes = ", ".join(map(str, sorted(unequal)))
        notes.append(f"The rollouts of a step are no multiple of G = {sizes}: those runs use a few rollouts fewer.")
    for run in runs:
        if run.rate_at_end:
            notes.append(
                f"{run.estimator} at G = {run.group_size} did best at {run.learning_rate:g}, an end of the learning "
                "rates tried. Widen the list."
            )
    for run in runs:
        if run.group_size == 1 and not run.simulation.gradient_norm[:, 1:].any():
            notes.append(
                f"{run.estimator} at G = 1 gives every rollout the advantage 0: a group of one has no other rollout to "
                "compare with. Take at least 2."
            )
    if (
        len(runs) > 1
        and all(r.verdict in (Verdict.REFERENCE, Verdict.EQUAL) for r in runs)
        and all(not r.simulation.mixed[:, 1:].any() for r in runs)
    ):
        notes.append("No group was mixed in any run, for all prompts always pass or never pass: nothing can change.")
    capped = [r for r in runs if r.simulation.training.refill and r.simulation.at("empty_steps").value]
    notes += [f"{r.estimator} at G = {r.group_size}: some steps found no mixed group, and none moved." for r in capped]
    if any(r.simulation.off_band_draws.any() for r in runs):
        notes.append("Some draws found no prompt in the band of the curriculum, and drew all prompts alike.")
    return notes
