"""Temperatures compared by counts of dead groups alone, as training logs give them: unpaired (theory.md, eq. 57)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import MAX_COUNT, as_float_array, as_level
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.intervals import Interval, wilson_interval
from grpo_plan.fitting.paired import Difference, unpaired_difference
from grpo_plan.planning.pairing import DIGITS
from grpo_plan.planning.temperature_result import TemperatureVerdict, decide, nearest_to_one

Floats = NDArray[np.float64]
ASSUMPTIONS = (
    "Each group counted is an independent draw of a prompt, at one policy. Steps of a training run are not: the "
    "policy moves, and runs differ by their seed. A difference found here is one between these logs; pilots of one "
    "policy on the same prompts tell more.",
    "Counts that come a step each widen the limits where steps scatter more than chance; a slow drift is not seen.",
    "Fewer dead groups is not more learning: rewards show neither entropy nor diversity.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadCount:
    """Dead groups of one temperature.

    Attributes:
        temperature: Sampling temperature.
        dead: Dead groups.
        groups: All groups.
        design_effect: Variance of the share over that of independent groups, from the scatter of steps; at least 1.
        share: ``dead / groups`` with Wilson limits.
    """

    temperature: float
    dead: int
    groups: int
    design_effect: float
    share: Interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DeadCountComparison(Shown):
    """Temperatures compared by their counts of dead groups.

    Attributes:
        baseline: The temperature that the others are compared with.
        level: Chance that all limits of ``differences`` hold together.
        verdict: `TemperatureVerdict`.
        recommended: The temperature with fewer dead groups; None where the counts cannot tell.
        counts: Share of dead groups of each temperature.
        differences: Difference to the baseline, by temperature.
        assumptions: What this takes for granted.
    """

    baseline: float
    level: float
    verdict: TemperatureVerdict
    recommended: float | None
    counts: tuple[DeadCount, ...]
    differences: Mapping[float, Difference]
    assumptions: tuple[str, ...] = field(default=ASSUMPTIONS, repr=False)


def compare_dead_counts(
    counts: Mapping[float, ArrayLike], *, baseline: float | None = None, level: float = 0.95
) -> DeadCountComparison:
    """Compare temperatures by counts of dead groups, each a separate sample.

    Args:
        counts: For each temperature ``(dead, groups)``, or one such pair for each step, shape (S, 2).
        baseline: Temperature compared with; by default the one nearest 1, the lower of two.
        level: Chance that all limits hold together (Bonferroni over temperatures).

    Raises:
        DomainError: Counts that are no counts, or a baseline that is not among them.
        PilotError: Fewer than two temperatures.

    >>> found = compare_dead_counts({0.6: (20, 60), 1.0: (18, 60)})
    >>> found.verdict.name, found.recommended
    ('CANNOT_TELL', None)
    """
    if not isinstance(counts, Mapping):
        raise DomainError(f"counts must map temperatures to (dead, groups); got {type(counts).__name__}.")
    tables: dict[float, Floats] = {}
    for key, value in counts.items():
        if isinstance(key, bool) or not isinstance(key, Real) or not math.isfinite(key) or key < 0:
            raise DomainError(f"temperature must be a number of at least 0; got {key!r}.")
        temperature = round(float(key), DIGITS)
        if temperature in tables:
            raise DomainError(f"temperature {temperature:g} is given twice. Add its counts up.")
        tables[temperature] = _table(value, temperature)
    if len(tables) < 2:
        raise PilotError(f"A comparison needs counts of two or more temperatures; got {len(tables)}.")
    order = sorted(tables)
    start = nearest_to_one(order) if baseline is None else baseline
    if start not in tables:
        shown = ", ".join(f"{t:g}" for t in order)
        raise DomainError(f"baseline must be one of the temperatures {shown}; got {start!r}.")
    every = as_level(level)
    each = 1.0 - (1.0 - every) / (len(order) - 1)
    here = {t: _count(t, tables[t], each) for t in order}
    differences = {
        t: unpaired_difference(
            here[start].share,
            here[t].share,
            each,
            prompts=min(here[t].groups, here[start].groups),
            scatter=_scatter(here[start], here[t]),
        )
        for t in order
        if t != start
    }
    verdict, recommended = decide({t: d.times(-1.0) for t, d in differences.items()}, start)
    return DeadCountComparison(
        baseline=start,
        level=every,
        verdict=verdict,
        recommended=recommended,
        counts=tuple(_count(t, tables[t], every) for t in order),
        differences=differences,
    )


def _table(value: ArrayLike | Sequence[object], temperature: float) -> Floats:
    """Rows of (dead, groups), shape (S, 2)."""
    table = np.atleast_2d(as_float_array(value, f"counts at {temperature:g}"))  # type: ignore[arg-type]
    if table.ndim != 2 or table.shape[1] != 2 or not table.size:
        raise DomainError(f"counts at {temperature:g} must be (dead, groups), or one such pair a step.")
    good = (table[:, 0] >= 0) & (table[:, 0] <= table[:, 1]) & (table[:, 1] <= MAX_COUNT)
    good &= (table == np.floor(table)).all(axis=1)
    if not good.all():
        first = table[int(np.flatnonzero(~good)[0])]
        raise DomainError(
            f"counts at {temperature:g} must be whole numbers with 0 <= dead <= groups; got dead = {first[0]:g} of "
            f"{first[1]:g} groups."
        )
    if not table[:, 1].any():
        raise DomainError(f"counts at {temperature:g} must hold at least one group; got 0.")
    return table[table[:, 1] > 0]


def _count(temperature: float, table: Floats, level: float) -> DeadCount:
    dead, groups = table.sum(axis=0)
    effect = design_effect(table)
    share = float(dead / groups)
    low, high = wilson_interval(share, float(groups) / effect, level)
    return DeadCount(
        temperature=temperature,
        dead=int(dead),
        groups=int(groups),
        design_effect=effect,
        share=Interval(value=share, low=low, high=high),
    )


def design_effect(table: Floats) -> float:
    """Scatter of a share between steps over that of independent groups, at least 1; 1 for a single pair.

    >>> design_effect(np.array([[0.0, 4.0], [4.0, 4.0], [0.0, 4.0], [4.0, 4.0]])) > 4.0
    True
    """
    steps, (dead, groups) = len(table), table.sum(axis=0)
    share = dead / groups
    if steps < 2 or not 0.0 < share < 1.0:
        return 1.0
    scatter = float(((table[:, 0] - share * table[:, 1]) ** 2).sum()) * steps / (steps - 1.0)
    return max(1.0, scatter / float(share * (1.0 - share) * groups))


def _scatter(first: DeadCount, second: DeadCount) -> float:
    return sum(c.design_effect * c.share.value * (1.0 - c.share.value) for c in (first, second))
