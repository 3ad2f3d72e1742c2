"""One temperature against another: counted, fitted, and what it would take to tell (theory.md, eq. 56 to 58)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.intervals import PSEUDO_PROMPTS, Interval, mean_interval
from grpo_plan.fitting.paired import Difference, paired_difference, prompts_to_detect, unpaired_difference
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.ustatistics import COUNTED_SHARE, subgroup_all_fail, subgroup_all_pass
from grpo_plan.groups import dead_probability
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pairing import CommonPrompts, TemperaturePilot, common_prompts
from grpo_plan.planning.temperature_result import Movement, NeededPilot, TemperatureDifference

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Weights = tuple[Counts, Counts]  # prompts behind each value, at the baseline and at the other temperature


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One temperature, and the level at which its differences are stated."""

    part: TemperaturePilot
    fit: PassRateFit
    level: float

    def mean(self, values: Floats, weights: Counts | None = None) -> Interval:
        """Mean over prompts with limits; ``weights`` are the prompts behind each value."""
        return mean_interval(values, _ones(values) if weights is None else weights, self.level)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """Shares of dead subgroups of one size of each prompt, at the baseline and at the other temperature."""

    group_size: int
    baseline: tuple[Floats, Floats]  # all-pass, all-fail
    other: tuple[Floats, Floats]
    weights: Weights  # prompts behind each

    def dead(self) -> tuple[Floats, Floats]:
        """Dead shares of both."""
        return np.minimum(self.baseline[0] + self.baseline[1], 1.0), np.minimum(self.other[0] + self.other[1], 1.0)


def _parts(successes: Counts, rollouts: Counts, group_size: int) -> tuple[Floats, Floats]:
    enough = rollouts >= group_size
    k, n = successes[enough], rollouts[enough]
    return subgroup_all_pass(k, n, group_size), subgroup_all_fail(k, n, group_size)


def compare_temperatures(
    base: Side, side: Side, group_size: int, objective: str, smallest: float, power: float
) -> TemperatureDifference:
    """Compare one temperature with the baseline, by prompt where enough prompts are common."""
    common = common_prompts(base.part, side.part)
    compare = Pairs(common) if common.pairs else Apart(base.part.pilot, side.part.pilot)
    size = min(group_size, compare.largest())
    counted = compare.counts(size) if size > 1 else None
    pairs = compare.counts(2) if compare.largest() > 1 else None
    shown = None if counted is None else compare.difference(*counted.dead(), base, counted.weights)
    measured = size == group_size
    fitted = shown if measured else _fitted(base, side, group_size)
    variance = None if pairs is None else compare.difference(*pairs.dead(), base, pairs.weights).times(-0.5)
    decisive = (shown if measured else None) if objective == "dead" else variance
    paired = isinstance(compare, Pairs)
    return TemperatureDifference(
        temperature=side.part.temperature,
        baseline=base.part.temperature,
        paired=paired,
        prompts=common.prompts if paired else 0,
        only_baseline=common.only_baseline if paired else base.part.pilot.prompts,
        only_here=common.only_other if paired else side.part.pilot.prompts,
        group_size=group_size,
        measured_group_size=size if size > 1 else None,
        dead=fitted,
        counted=measured,
        measured_dead=shown,
        all_pass=None if counted is None else _kind(compare, counted, 0, base),
        all_fail=None if counted is None else _kind(compare, counted, 1, base),
        pass_rate=compare.difference(*compare.rates(), base, compare.weights()),
        reward_variance=variance,
        movement=None if counted is None or not paired else _movement(counted, base),
        unpaired_width=None
        if counted is None or shown is None or not paired
        else _unpaired_width(counted, shown, base),
        paired_width=None if counted is None or paired else _paired_width(counted, base, side),
        needed=_needed(decisive, fitted, compare, base, side, group_size, objective, smallest, power),
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """The same prompts at both temperatures."""

    common: CommonPrompts

    def largest(self) -> int:
        """Largest size that four fifths of the prompts have rollouts for at both."""
        fewest = np.minimum(self.common.baseline_rollouts, self.common.rollouts)
        return _largest(fewest, _ones(fewest))

    def rollouts(self) -> int:
        """Rollouts of a usual prompt."""
        return int(np.median(np.maximum(self.common.baseline_rollouts, self.common.rollouts)))

    def counts(self, size: int) -> Counted:
        """Dead subgroups of each prompt with enough rollouts."""
        c = self.common
        both = np.minimum(c.baseline_rollouts, c.rollouts) >= size
        return Counted(
            group_size=size,
            baseline=_parts(c.baseline_successes[both], c.baseline_rollouts[both], size),
            other=_parts(c.successes[both], c.rollouts[both], size),
            weights=(_ones(both[both]), _ones(both[both])),
        )

    def weights(self) -> Weights:
        """Prompts behind each rate: one."""
        return _ones(self.common.successes), _ones(self.common.successes)

    def rates(self) -> tuple[Floats, Floats]:
        """Share of passes of each prompt."""
        c = self.common
        return c.baseline_successes / c.baseline_rollouts, c.successes / c.rollouts

    def difference(self, first: Floats, second: Floats, base: Side, weights: Weights) -> Difference:
        """Second minus first, each prompt once."""
        return paired_difference(second - first, base.level)


@dataclass(frozen=True, slots=True)
class Apart:
    """Prompts that are not known to be the same."""

    baseline: Pilot
    other: Pilot

    def largest(self) -> int:
        """Largest size that four fifths of the prompts of each have rollouts for."""
        return min(_largest(p.rollouts, p.prompts_per_row) for p in (self.baseline, self.other))

    def rollouts(self) -> int:
        """Rollouts of a usual prompt."""
        return int(max(self.baseline.median_rollouts, self.other.median_rollouts))

    def counts(self, size: int) -> Counted:
        """Dead subgroups of each prompt with enough rollouts."""
        b, o = self.baseline, self.other
        return Counted(
            group_size=size,
            baseline=_parts(b.successes, b.rollouts, size),
            other=_parts(o.successes, o.rollouts, size),
            weights=(b.prompts_per_row[b.rollouts >= size], o.prompts_per_row[o.rollouts >= size]),
        )

    def weights(self) -> Weights:
        """Prompts behind each rate."""
        return self.baseline.prompts_per_row, self.other.prompts_per_row

    def rates(self) -> tuple[Floats, Floats]:
        """Share of passes of each prompt."""
        return self.baseline.successes / self.baseline.rollouts, self.other.successes / self.other.rollouts

    def difference(self, first: Floats, second: Floats, base: Side, weights: Weights) -> Difference:
        """Second minus first."""
        here, there = weights
        return unpaired_difference(
            base.mean(first, here),
            base.mean(second, there),
            base.level,
            prompts=min(int(here.sum()), int(there.sum())),
            scatter=_variance(first, here) + _variance(second, there),
        )


def _kind(compare: Pairs | Apart, counted: Counted, kind: int, base: Side) -> Difference:
    return compare.difference(counted.baseline[kind], counted.other[kind], base, counted.weights)


def _ones(like: NDArray[np.generic]) -> Counts:
    return np.ones(like.size, dtype=np.int64)


def _largest(rollouts: Counts, weights: Counts) -> int:
    order = np.argsort(rollouts)[::-1]
    covered = np.cumsum(weights[order])
    wanted = max(int(np.ceil(COUNTED_SHARE * float(covered[-1]) - 1e-9)), 1)
    return int(rollouts[order][np.searchsorted(covered, wanted)])


def _variance(values: Floats, weights: Counts) -> float:
    """Variance of a prompt's value, drawn to the largest possible by pseudo-prompts (theory.md, eq. 19)."""
    prompts = float(weights.sum())
    mean = float(values @ weights) / prompts
    spread = float(weights @ (values - mean) ** 2) + PSEUDO_PROMPTS * mean * (1.0 - mean)
    return spread / (prompts - 1.0 + PSEUDO_PROMPTS)


def _fitted(base: Side, side: Side, group_size: int) -> Difference | None:
    """Difference of D(G) beyond the counted sizes, as if the two fits were independent."""
    first, second = base.fit.dead(group_size, base.level), side.fit.dead(group_size, side.level)
    if first.value is None or second.value is None:
        return None
    here, there = (Interval(value=d.value or 0.0, low=d.low, high=d.high) for d in (first, second))
    return unpaired_difference(
        here,
        there,
        base.level,
        prompts=min(base.part.pilot.prompts, side.part.pilot.prompts),
        scatter=sum(i.value * (1.0 - i.value) for i in (here, there)),
    )


def _movement(counted: Counted, base: Side) -> Movement:
    """Shares of groups by what they are at either temperature: products of kernels (theory.md, eq. 56)."""
    (passes, fails), (passes_there, fails_there) = counted.baseline, counted.other
    mixed, mixed_there = 1.0 - np.minimum(passes + fails, 1.0), 1.0 - np.minimum(passes_there + fails_there, 1.0)
    return Movement(
        all_pass_to_mixed=base.mean(passes * mixed_there),
        mixed_to_all_pass=base.mean(mixed * passes_there),
        all_fail_to_mixed=base.mean(fails * mixed_there),
        mixed_to_all_fail=base.mean(mixed * fails_there),
        all_pass_to_all_fail=base.mean(passes * fails_there),
        all_fail_to_all_pass=base.mean(fails * passes_there),
    )


def _unpaired_width(counted: Counted, paired: Difference, base: Side) -> float:
    """Width without the pairing over the width with it, of the same prompts."""
    first, second = counted.dead()
    return unpaired_difference(base.mean(first), base.mean(second), base.level, prompts=first.size).width / paired.width


def _paired_width(counted: Counted, base: Side, side: Side) -> float:
    """Share of the width that would remain on common prompts, if both temperatures rank prompts alike."""
    first, second = counted.dead()
    total = _variance(first, counted.weights[0]) + _variance(second, counted.weights[1])
    between = []
    for one in (base, side):
        rates = one.fit.smooth_rates
        dead = dead_probability(rates.passing, counted.group_size)
        mean = float(rates.masses @ dead)
        between.append(float(rates.masses @ (dead - mean) ** 2))
    shared = 2.0 * sqrt(between[0] * between[1])
    return sqrt(max(total - shared, 0.0) / total) if total > 0.0 else 1.0


def _needed(
    decisive: Difference | None,
    fitted: Difference | None,
    compare: Pairs | Apart,
    base: Side,
    side: Side,
    group_size: int,
    objective: str,
    smallest: float,
    power: float,
) -> NeededPilot | None:
    """A pilot that could tell (theory.md, eq. 58); None where this one does, or nothing is known."""
    if decisive is not None:
        if decisive.excludes_zero:
            return None
        value, rollouts = decisive.value, compare.rollouts()
        scatter = decisive.scatter + (value**2 if isinstance(compare, Apart) else 0.0)
    elif (
        fitted is not None and objective == "dead"
    ):  # with n = G each prompt gives 0 or 1: they differ at most so often
        first, second = base.fit.dead(group_size).value or 0.0, side.fit.dead(group_size).value or 0.0
        value, rollouts, scatter = fitted.value, group_size, first + second - 2.0 * first * second
    else:
        return None
    observed = abs(value) >= smallest
    wanted = value if observed else (smallest if value >= 0.0 else -smallest)
    prompts = prompts_to_detect(wanted, max(scatter, wanted**2), level=base.level, power=power)
    return NeededPilot(
        difference=wanted,
        rollouts_per_prompt=rollouts,
        prompts=prompts,
        rollouts=2 * prompts * rollouts,
        power=power,
        observed=observed,
    )
