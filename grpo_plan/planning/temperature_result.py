"""What a temperature plan holds, and the rule that turns intervals into a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from grpo_plan._shown import Shown
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.paired import Difference
from grpo_plan.fitting.result import PassRateFit


class TemperatureVerdict(Enum):
    """Answer of a comparison of temperatures. The value is the sentence behind it."""

    CHANGE = "Another temperature does better than the baseline: the interval of the difference excludes 0."
    KEEP = "Every other temperature does worse than the baseline: the intervals of all differences exclude 0."
    CANNOT_TELL = "No other temperature is known to do better, and not all are known to do worse."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Groups of G of the same prompts at both temperatures, by what they are at each: shares with limits.

    Independent groups of one prompt differ by chance too: read a way together with the way back.
    """

    all_pass_to_mixed: Interval
    mixed_to_all_pass: Interval
    all_fail_to_mixed: Interval
    mixed_to_all_fail: Interval
    all_pass_to_all_fail: Interval
    all_fail_to_all_pass: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededPilot:
    """A pilot that would show a difference.

    Attributes:
        difference: The difference that it would show, if it is the true one.
        rollouts_per_prompt: n of each prompt at each temperature.
        prompts: Prompts, each at both temperatures (so many at each where they are not paired).
        rollouts: Rollouts of both temperatures together.
        power: Chance that the interval excludes 0.
        observed: Whether ``difference`` was observed; otherwise it is the smallest one of interest.
    """

    difference: float
    rollouts_per_prompt: int
    prompts: int
    rollouts: int
    power: float
    observed: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AtTemperature:
    """What the pilot says of one temperature.

    Attributes:
        temperature: Sampling temperature.
        fit: Fit of its pilot.
        dead: Dead fraction at the plan's group size with its parts; ``dead.mixed`` is the mixed share.
        pass_rate: Mean pass rate (pass@1) with limits.
        pooled_rows: Rows that repeated a prompt and were added up.
    """

    temperature: float
    fit: PassRateFit = field(repr=False)
    dead: DeadFraction
    pass_rate: Interval
    pooled_rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemperatureDifference:
    """A temperature minus the baseline; limits of each measure hold for all temperatures at once.

    Attributes:
        temperature: The temperature compared.
        baseline: The temperature compared with.
        paired: Whether prompts are compared with themselves.
        prompts: Common prompts, if paired.
        only_baseline: Prompts that only the baseline has.
        only_here: Prompts that only this temperature has.
        group_size: The plan's G.
        measured_group_size: Largest size up to G whose dead groups both pilots count; None if there is none above 1.
        dead: Difference of D(G); beyond the counted sizes it rests on the fits. None if unknown.
        counted: Whether ``dead`` is counted; only then it may decide.
        measured_dead: Difference of D at ``measured_group_size``.
        all_pass: Its all-pass part.
        all_fail: Its all-fail part.
        pass_rate: Difference of the mean pass rates: the price in pass@1.
        reward_variance: Difference of E[p (1 - p)], the mean-centred signal; None with single rollouts.
        movement: Shares of groups that move, at ``measured_group_size``; None unless paired.
        unpaired_width: Width of the interval of ``measured_dead`` without the pairing, over its own; None unless
            paired.
        paired_width: What pairing would make of the width if both temperatures rank prompts alike, as a share of it;
            None if paired.
        needed: A pilot that could tell; None where this one does, or where it cannot be said.
    """

    temperature: float
    baseline: float
    paired: bool
    prompts: int
    only_baseline: int
    only_here: int
    group_size: int
    measured_group_size: int | None
    dead: Difference | None
    counted: bool
    measured_dead: Difference | None
    all_pass: Difference | None
    all_fail: Difference | None
    pass_rate: Difference
    reward_variance: Difference | None
    movement: Movement | None
    unpaired_width: float | None
    paired_width: float | None
    needed: NeededPilot | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TemperaturePlan(Shown):
    """A temperature, or the statement that the pilot cannot tell, and what it rests on.

    Attributes:
        group_size: G.
        objective: ``"dead"`` (fewer dead groups) or ``"signal"`` (larger E[p (1 - p)]).
        baseline: The temperature that the others are compared with.
        level: Chance that the limits of all differences of one measure hold together.
        verdict: `TemperatureVerdict`.
        recommended: The temperature to take; None where the pilot cannot tell.
        reason: The verdict in words.
        temperatures: What the pilot says of each, by rising temperature.
        differences: Each other temperature minus the baseline.
        notes: What was left out or added up.
        assumptions: What the plan takes for granted, gravest first.
    """

    group_size: int
    objective: str
    baseline: float
    level: float
    verdict: TemperatureVerdict
    recommended: float | None
    reason: str
    temperatures: tuple[AtTemperature, ...] = field(repr=False)
    differences: tuple[TemperatureDifference, ...] = field(repr=False)
    notes: tuple[str, ...]
    assumptions: tuple[str, ...] = field(repr=False)


def decide(gains: Mapping[float, Difference | None], baseline: float) -> tuple[TemperatureVerdict, float | None]:
    """Verdict and temperature from gains over the baseline, whose limits hold together.

    Args:
        gains: Better is above 0; None where nothing may decide.
        baseline: The temperature compared with.

    Returns:
        Of the temperatures whose interval lies above 0, the one with the largest gain; the baseline if every interval
        lies below 0; else `CANNOT_TELL` and None.
    """
    better = {t: gain.value for t, gain in gains.items() if gain is not None and gain.low > 0.0}
    if better:
        return TemperatureVerdict.CHANGE, max(better, key=lambda t: better[t])
    if all(gain is not None and gain.high < 0.0 for gain in gains.values()):
        return TemperatureVerdict.KEEP, baseline
    return TemperatureVerdict.CANNOT_TELL, None


def nearest_to_one(temperatures: list[float]) -> float:
    """The default baseline: the temperature nearest 1, at which trainers sample by default; the lower of two.

    >>> nearest_to_one([0.6, 0.8, 1.2]), nearest_to_one([1.2, 0.2])
    (0.8, 1.2)
    """
    return min(temperatures, key=lambda t: (round(abs(t - 1.0), 9), t))
