"""What the dead groups of a run have cost so far: rollouts, GPU-hours, money."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_one_probability
from grpo_plan.quantities import Quantity, Stage
from grpo_plan.runs.facts import AVERAGED_ROWS, Facts
from grpo_plan.runs.finding import Waste
from grpo_plan.runs.measured import Counts, Floats, Measured

SECONDS = 3600.0
GROUP_SIZE = "the group size: give --group-size (DiagnosisSettings.group_size)"
PROMPTS = "the groups of a step: give --prompts-per-step (DiagnosisSettings.prompts_per_step)"
GPUS = "the number of GPUs: give --gpus (DiagnosisSettings.gpus)"
TIMES = "the time of a step: log step_time_s (TRL step_time, verl timing_s/step, ...)"
PRICE = "a price: give --usd-per-gpu-hour (DiagnosisSettings.usd_per_gpu_hour)"
BOUNDED = "the dead fraction itself: the log only bounds it, so only limits are given"
REFILLED = "the groups drawn in a step before dead ones were thrown away: log the generation batches of each step"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Drawn:
    """Groups behind each row, between bounds; ``high`` infinite where nothing bounds it."""

    low: Floats
    high: Floats
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Rollouts in dead groups, and the steps they are of."""

    rollouts: float
    steps: int


def waste_of(facts: Facts, dead: Measured, *, beyond: float | None = None) -> Waste:
    """Rollouts in dead groups of all rows of a series, and their share of the time of the steps (theory.md, eq. 97).

    Rows that the log lacks are not filled in: ``steps`` says how many steps are counted. The groups of these steps are
    counted, not sampled, so that the limits are apart only where the log bounds the share or the number of groups.

    Args:
        facts: The run.
        dead: Share of groups at each of R rows: the dead fraction, or the all-pass or all-fail part of it.
        beyond: Share in [0, 1] that was expected: only what exceeds it is counted, over all rows together.

    Returns:
        Unknown amounts are None, and ``missing`` says what each needs.

    Raises:
        DomainError: ``beyond`` is no share.
    """
    expected = 0.0 if beyond is None else as_one_probability(beyond, "beyond")
    steps = steps_behind(facts, dead)
    missing: dict[str, str] = {}
    counted = _counted(facts, dead, steps, expected)
    value, low, high = _rollouts(facts, dead, steps, expected, missing) if counted is None else 3 * (counted.rollouts,)
    hours = _gpu_hours(facts, dead, steps, expected, missing)
    usd = None
    if hours is None:
        missing["usd"] = "GPU-hours"
    elif facts.settings.usd_per_gpu_hour is None:
        missing["usd"] = PRICE
    else:
        usd = hours * facts.settings.usd_per_gpu_hour
    return Waste(
        rollouts=value, rollouts_low=low, rollouts_high=high, gpu_hours=hours, usd=usd,
        steps=int(steps.sum()) if counted is None else counted.steps,
        missing=missing,
        beyond=beyond,
    )  # fmt: skip


def steps_behind(facts: Facts, dead: Measured) -> Counts:
    """Steps that each row stands for, shape (R,): more than one only where the tool averages over steps.

    A row is then the mean over the steps since the row before, but never over more than the usual distance of two
    rows: what lies further back is missing from the log.
    """
    if facts.view.tool not in AVERAGED_ROWS or facts.steps_per_row <= 1:
        return np.ones(dead.rows, dtype=np.int64)
    every = facts.measured(dead.name)
    known = np.union1d(every.steps, dead.steps) if isinstance(every, Measured) else dead.steps
    at = np.searchsorted(known, dead.steps)
    before = np.where(at > 0, known[np.maximum(at - 1, 0)], 0)
    steps: Counts = np.clip(dead.steps - before, 1, facts.steps_per_row).astype(np.int64)
    return steps


def _rollouts(
    facts: Facts, dead: Measured, steps: Counts, expected: float, missing: dict[str, str]
) -> tuple[float | None, float | None, float | None]:
    size = facts.group_size
    if size is None:
        missing["rollouts"] = GROUP_SIZE
        return None, None, None
    drawn = _drawn(facts, dead, steps)
    least, most = ((np.clip(share, 0.0, 1.0) - expected) * size for share in (dead.lower, dead.upper))
    if not np.isfinite(drawn.high).all():
        missing["rollouts"] = REFILLED if dead.stage is Stage.BEFORE else PROMPTS
        return None, float(drawn.low @ least) if expected == 0.0 else None, None
    low = max(float(np.sum(np.where(least > 0.0, drawn.low, drawn.high) * least)), 0.0)
    high = max(float(np.sum(np.where(most > 0.0, drawn.high, drawn.low) * most)), 0.0)
    if dead.exact and drawn.known:
        return low, low, high
    missing["rollouts"] = BOUNDED
    return None, low, high


def _drawn(facts: Facts, dead: Measured, steps: Counts) -> _Drawn:
    """Groups that were drawn for each row. Before a filter there are more than are trained on."""
    planned = facts.prompts_per_step
    if planned is None:
        least = dead.groups.astype(np.float64)
        known = dead.groups_known
        return _Drawn(low=least, high=least if known else np.full(dead.rows, np.inf), known=known)
    groups = planned * steps.astype(np.float64)
    if dead.stage is not Stage.BEFORE:
        return _Drawn(low=groups, high=groups, known=True)
    at = np.searchsorted(facts.run.steps, dead.steps)
    batches, evicted = (facts.run.quantity(name) for name in ("generation_batches", "evicted_groups"))
    made = np.full(dead.rows, np.nan)
    if isinstance(batches, Quantity):
        made = groups * np.maximum(batches.values[at], 1.0)
    elif isinstance(evicted, Quantity) and dead.exact:
        made = np.where(dead.values > 0.0, evicted.values[at] / np.where(dead.values > 0.0, dead.values, 1.0), groups)
    if bool(np.isfinite(made).all()):
        return _Drawn(low=made, high=made, known=True)
    return _Drawn(low=groups, high=np.full(dead.rows, np.inf), known=False)


def _counted(facts: Facts, dead: Measured, steps: Counts, expected: float) -> _Counted | None:
    """From the rollouts of the steps of all rows, where the series was counted from rollouts; None elsewhere."""
    groups, found = facts.run.groups, facts.run.quantity(dead.name)
    if groups is None or not isinstance(found, Quantity) or found.metrics or not dead.rows:
        return None
    flags = {"dead_fraction": groups.dead, "all_pass_fraction": groups.all_pass, "all_fail_fraction": groups.all_fail}
    chosen: NDArray[np.bool_] | None = flags.get(dead.name)
    if chosen is None:
        return None
    row = np.minimum(np.searchsorted(dead.steps, groups.step), dead.rows - 1)
    here = (groups.step <= dead.steps[row]) & (groups.step > dead.steps[row] - steps[row])
    spent = float(groups.rollouts[here & chosen].sum()) - expected * float(groups.rollouts[here].sum())
    return _Counted(rollouts=max(spent, 0.0), steps=int(np.unique(groups.step[here]).size))


def _gpu_hours(facts: Facts, dead: Measured, steps: Counts, expected: float, missing: dict[str, str]) -> float | None:
    time, gpus = facts.run.quantity("step_time_s"), facts.settings.gpus
    if not isinstance(time, Quantity):
        missing["gpu_hours"] = TIMES if gpus is not None else f"{TIMES}; and {GPUS}"
        return None
    seconds = time.values[np.searchsorted(facts.run.steps, dead.steps)]
    timed = np.isfinite(seconds) & (seconds >= 0.0)
    if not timed.any() or gpus is None:
        missing["gpu_hours"] = GPUS if timed.any() else TIMES
        return None
    if not timed.all():
        missing["gpu_hours"] = f"the times of {int((~timed).sum()):,} of {dead.rows:,} rows, which are left out"
    share = np.clip(dead.upper[timed], 0.0, 1.0) - expected
    return max(float(share @ (seconds[timed] * steps[timed])), 0.0) * gpus / SECONDS
