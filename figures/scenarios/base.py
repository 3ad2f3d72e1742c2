"""What a scenario is, and how its draw becomes a run, a plan and groups of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator

from figures.scenarios.draws import Floats, Groups, Ints
from grpo_plan.costs import Budget
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.group_log import GroupLog
from grpo_plan.pilot import Pilot
from grpo_plan.planning.group_size import plan_group_size
from grpo_plan.planning.plan import Plan
from grpo_plan.provenance import Provenance
from grpo_plan.readers.run_reader import read_run
from grpo_plan.run_log import RunLog

SEED = 20261202
PILOT_PROMPTS, PILOT_ROLLOUTS = 1000, 8
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """One run as it would lie in a folder.

    Attributes:
        tool: Trainer whose names the rows have.
        rows: Rows of its log, in the order in which they are written.
        config: Settings.
        groups: The rollouts beside the log, one row a step; None where they were not dumped.
        pilot: Passes of each prompt of the pilot behind the plan; None without a plan.
        design: Group size, prompts a step, steps.
    """

    tool: str
    rows: list[Row]
    config: Mapping[str, object]
    design: tuple[int, int, int]
    groups: Groups | None = None
    pilot: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A kind of run and what is true of it.

    Attributes:
        name: Short name.
        about: One sentence.
        draw: A run from a generator.
        healthy: Nothing may be said of it at warning or above.
        warns: Findings that must be there at warning or above; alternatives are divided by ``|``.
        tells: Findings that must be there at any severity.
        onset: First and last step at which the first finding of ``warns`` may begin; None where it is not checked.
    """

    name: str
    about: str
    draw: Callable[[Generator], Simulated]
    healthy: bool
    warns: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()
    onset: tuple[int, int] | None = None

    def simulate(self, seed: int) -> Simulated:
        """The run of a seed."""
        return self.draw(np.random.default_rng([SEED, crc32(self.name.encode()), seed]))


def run_log(simulated: Simulated) -> RunLog:
    """The run as it is read."""
    log = read_run(simulated.rows, config=dict(simulated.config))
    groups = group_log(simulated)
    return log if groups is None else replace(log, groups=groups)


def group_log(simulated: Simulated) -> GroupLog | None:
    """The rollouts as they are read from the dump of the tool; None without one."""
    groups = simulated.groups
    if groups is None:
        return None
    levels = groups.levels
    two = levels.size <= 2
    mean, size = groups.mean.ravel(), groups.size
    scored, passes = groups.scored.ravel(), groups.passes.ravel()
    if groups.rewards is None:
        kinds = (passes > 0).astype(np.int64) + (passes < scored)
    else:
        kinds = 1 + (np.diff(np.sort(groups.rewards, axis=-1), axis=-1) > 1e-8).sum(axis=-1).ravel()
    return GroupLog(
        step=np.repeat(np.arange(1, groups.steps + 1), groups.per_step),
        prompt_id=np.array([f"prompt {i}" for i in groups.prompt.ravel()], dtype=object),
        rollouts=np.full(mean.size, size),
        scored=scored,
        reward_min=groups.low.ravel(),
        reward_max=groups.high.ravel(),
        reward_mean=mean,
        reward_var=np.maximum(groups.squares.ravel() - mean**2, 0.0),
        pass_threshold=float(levels[-1]) if two else None,
        passes=passes if two else None,
        truncated=groups.truncated.ravel() if simulated.tool == "prime-rl" else None,  # the others do not dump it
        distinct=groups.distinct.ravel(),
        distinct_rewards=kinds,
        provenance=Provenance(
            format="simulated", groups=mean.size, group_size=(size, size), policy_steps=(1, groups.steps),
            step_count=groups.steps,
        ),
    )  # fmt: skip


def pilot_of(rng: Generator, rates: Floats) -> Ints:
    """Passes of a pilot of prompts with these pass rates, ``PILOT_ROLLOUTS`` each."""
    return rng.binomial(PILOT_ROLLOUTS, rates)


def plan_of(simulated: Simulated) -> Plan | None:
    """The plan that was made from the pilot for the design of the run; None without a pilot."""
    if simulated.pilot is None:
        return None
    size, per_step, steps = simulated.design
    fit = fit_pass_rates(Pilot.from_counts(simulated.pilot, PILOT_ROLLOUTS))
    budget = Budget(steps=steps, prompts_per_step=per_step)
    return plan_group_size(fit, budget=budget, group_sizes=[size], kappa=5.0)
