"""Which temperature leaves fewer dead groups, from pilots of the same prompts at several (theory.md, section 11)."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_level, as_one_group_size, as_positive
from grpo_plan.errors import DomainError
from grpo_plan.fitting.fit import fit_pass_rates, refuse_filtered
from grpo_plan.fitting.paired import Difference
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pairing import DIGITS, temperature_pilots
from grpo_plan.planning.temperature_compare import Side, compare_temperatures
from grpo_plan.planning.temperature_result import (
    AtTemperature,
    TemperatureDifference,
    TemperaturePlan,
    TemperatureVerdict,
    decide,
    nearest_to_one,
)

SMALLEST = {"dead": 0.03, "signal": 0.015}  # of interest by default; half as large, as E[pq] is (1 - D(2)) / 2
OBJECTIVES = tuple(SMALLEST)
MOST_SMALLEST = 0.5


def plan_temperature(
    pilot: Pilot | Mapping[float, Pilot],
    *,
    group_size: int = 8,
    baseline: float | None = None,
    objective: str = "dead",
    level: float = 0.95,
    smallest_difference: float | None = None,
    power: float = 0.8,
) -> TemperaturePlan:
    """Compare the dead groups of several temperatures, and recommend one only where the pilot can tell.

    Prompts are paired by name (and part): each is compared with itself (theory.md, eq. 56 and 57). Where temperatures
    share less than half of their prompts, or prompts have no names, the comparison is unpaired and wider.

    Args:
        pilot: Counts of one policy with two or more temperatures, or one pilot for each temperature.
        group_size: G, at least 2. A difference is counted only up to the rollouts that four fifths of the prompts
            have; beyond, the fitted difference is shown and decides nothing.
        baseline: Temperature that the others are compared with; by default the one nearest 1, the lower of two.
        objective: What decides. ``"dead"``: fewer dead groups of G. ``"signal"``: larger E[p (1 - p)], the mean signal
            of mean-centred advantages, which does not depend on G. Choose before looking.
        level: Chance that the limits of all differences of one measure hold together (Bonferroni over temperatures).
        smallest_difference: Smallest difference of interest, in the units of the objective; for the size of a pilot
            where the observed one is smaller. Default 0.03 of dead groups, 0.015 of signal.
        power: Chance with which the proposed pilot shall show the difference, in (0, 1).

    Returns:
        A `TemperaturePlan`; its ``recommended`` is None where the pilot cannot tell.

    Raises:
        DomainError: An argument is outside its domain, or the pilot has no rollouts at the baseline.
        PilotError: Fewer than two known temperatures.

    >>> ids = [f"q{i}" for i in range(100)] * 2
    >>> pilot = Pilot.from_counts([8] * 50 + [0] * 50 + [5] * 50 + [0] * 50, 8, prompt_id=ids,
    ...                           temperature=[0.6] * 100 + [1.0] * 100)
    >>> plan = plan_temperature(pilot)
    >>> plan.baseline, plan.verdict.name, plan.recommended, plan.differences[0].dead.value
    (1.0, 'KEEP', 1.0, 0.5)
    """
    parts, unknown = temperature_pilots(pilot)
    for source in pilot.values() if isinstance(pilot, Mapping) else (pilot,):
        refuse_filtered(source, "Temperatures are compared by all their groups")
    g = as_one_group_size(group_size)
    if g < 2:
        raise DomainError("group_size must be at least 2; got 1. One rollout is always a dead group.")
    if objective not in OBJECTIVES:
        raise DomainError(not_one_of("objective", objective, OBJECTIVES))
    temperatures = [part.temperature for part in parts]
    start = _as_baseline(baseline, temperatures)
    every = as_level(level)
    each = 1.0 - (1.0 - every) / (len(parts) - 1)
    smallest = SMALLEST[objective] if smallest_difference is None else smallest_difference
    smallest = as_positive(smallest, "smallest_difference")
    chance = _as_power(power)
    if smallest > MOST_SMALLEST:
        raise DomainError(f"smallest_difference must be at most {MOST_SMALLEST:g}; got {smallest:g}.")
    sides = {part.temperature: Side(part=part, fit=fit_pass_rates(part.pilot), level=each) for part in parts}
    found = [
        compare_temperatures(sides[start], sides[t], g, objective, smallest, chance) for t in temperatures if t != start
    ]
    gains = {d.temperature: gain_of(d, objective) for d in found}
    verdict, recommended = decide(gains, start)
    return TemperaturePlan(
        group_size=g,
        objective=objective,
        baseline=start,
        level=every,
        verdict=verdict,
        recommended=recommended,
        reason=_reason(found, gains, verdict, recommended, objective),
        temperatures=tuple(
            AtTemperature(
                temperature=t,
                fit=side.fit,
                dead=side.fit.dead(g, every),
                pass_rate=side.fit.mean_pass_rate_interval(every),
                pooled_rows=side.part.pooled_rows,
            )
            for t, side in sides.items()
        ),
        differences=tuple(found),
        notes=_notes(sides, found, unknown),
        assumptions=_assumptions(found, every),
    )


def _as_power(power: float) -> float:
    """A power strictly between 0 and 1."""
    value = as_positive(power, "power")
    if value >= 1.0:
        raise DomainError(f"power must lie strictly between 0 and 1; got {value:g}.")
    return value


def gain_of(difference: TemperatureDifference, objective: str) -> Difference | None:
    """What a temperature gains over the baseline, better above 0; None where nothing may decide."""
    if objective == "signal":
        return difference.reward_variance
    return difference.dead.times(-1.0) if difference.dead is not None and difference.counted else None


def _as_baseline(baseline: float | None, temperatures: list[float]) -> float:
    if baseline is None:
        return nearest_to_one(temperatures)
    wanted = round(as_positive(baseline, "baseline", allow_zero=True), DIGITS)
    if wanted not in temperatures:
        shown = ", ".join(f"{t:g}" for t in temperatures)
        raise DomainError(f"baseline must be one of the pilot's temperatures, {shown}; got {baseline:g}.")
    return wanted


def _reason(
    found: list[TemperatureDifference],
    gains: Mapping[float, Difference | None],
    verdict: TemperatureVerdict,
    recommended: float | None,
    objective: str,
) -> str:
    """The verdict in one to three sentences."""
    start, g = found[0].baseline, found[0].group_size
    measure = f"dead groups at G = {g}" if objective == "dead" else "signal E[p(1-p)]"
    good, bad = ("fewer", "more") if objective == "dead" else ("more", "less")
    worse = [t for t, gain in gains.items() if gain is not None and gain.high < 0.0]
    if verdict is TemperatureVerdict.KEEP:
        return f"Every other temperature has {bad} {measure} than T = {start:g}."
    if recommended is not None:
        others = [t for t, gain in gains.items() if gain is not None and gain.low > 0.0 and t != recommended]
        tied = f" {_have(others)} too; which of these is best is not settled." if others else ""
        reason = f"T = {recommended:g} has {good} {measure} than T = {start:g}: the interval excludes 0.{tied}"
        return reason + _against(next(d for d in found if d.temperature == recommended), objective)
    if all(gain is None for gain in gains.values()):
        size = min(d.measured_group_size or 1 for d in found)
        known = f"dead groups are counted up to G = {size} only" if size > 1 else "single rollouts make no group"
        asked = f"G = {g}" if objective == "dead" else "the signal"
        return f"Nothing may decide on {asked}: {known}. Take {max(g, 2)} rollouts per prompt" + (
            ", or ask at a smaller G." if size > 1 else "."
        )
    unsure = _listed([t for t, gain in gains.items() if gain is None or not gain.excludes_zero])
    also = f" {_have(worse)} {bad}." if worse else ""
    return (
        f"{measure[0].upper()}{measure[1:]}: the difference to T = {start:g} may be of either sign at {unsure}.{also}"
    )


def _against(d: TemperatureDifference, objective: str) -> str:
    """What speaks against a recommendation: the measure that did not decide points the other way."""
    if objective == "dead" and d.reward_variance is not None and d.reward_variance.high < 0.0:
        return " But its signal E[p(1-p)] is smaller."
    if objective == "signal" and d.dead is not None and d.counted and d.dead.low > 0.0:
        return f" But more groups of G = {d.group_size} are dead."
    return ""


def _listed(temperatures: list[float]) -> str:
    return "T = " + ", ".join(f"{t:g}" for t in temperatures)


def _have(temperatures: list[float]) -> str:
    return f"{_listed(temperatures)} {'has' if len(temperatures) == 1 else 'have'}"


def _notes(sides: Mapping[float, Side], found: list[TemperatureDifference], unknown: int) -> tuple[str, ...]:
    """What was left out, added up, or is odd."""
    notes = []
    if unknown:
        notes.append(f"{_counted(unknown, 'prompt')} of unknown temperature left out.")
    for t, side in sides.items():
        if side.part.pooled_rows:
            notes.append(
                f"T = {t:g}: {_counted(side.part.pooled_rows, 'row')} of prompts seen before; counts were added up."
            )
    if 0.0 in sides:
        notes.append("T = 0 is greedy decoding: the rollouts of a prompt agree by construction, not by chance.")
    for d in found:
        if not d.paired and any(sides[t].part.pilot.is_histogram for t in (d.temperature, d.baseline)):
            notes.append(
                f"T = {d.temperature:g} and {d.baseline:g} are compared as two separate samples: a histogram has no "
                "names to pair prompts by. Counts a prompt (histogram=False) tell more."
            )
        elif not d.paired:
            notes.append(
                f"T = {d.temperature:g} and {d.baseline:g} share too few named prompts to pair them. Two separate "
                "samples tell less: roll out the same prompts, under the same names, at both."
            )
        elif d.only_baseline or d.only_here:
            notes.append(
                f"T = {d.temperature:g}: the differences speak of {d.prompts:,} common prompts; {d.only_baseline:,} "
                f"only at {d.baseline:g} and {d.only_here:,} only at {d.temperature:g} enter none."
            )
    return tuple(notes)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _assumptions(found: list[TemperatureDifference], level: float) -> tuple[str, ...]:
    """What the comparison takes for granted, gravest first."""
    several = len(found) > 1
    return (
        "Fewer dead groups is not more learning: a rollout's progress also depends on how its signal E[p(1-p)] "
        "changes, on what pass@1 costs, and on entropy and diversity, which rewards do not show.",
        "One policy, one set of prompts, one top-p and length limit: only the temperature differs. Rollouts of a "
        "prompt are independent; prompts are a random sample of those to train on.",
        f"Limits of one column hold for all {len(found)} comparisons at once with {100 * level:.6g} % (Bonferroni)."
        if several
        else f"Limits hold with {100 * level:.6g} %, each for itself.",
        "The effect is that of this policy: training sharpens it, and the best temperature moves. Pilot again.",
    )
