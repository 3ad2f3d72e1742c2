"""Pilots at several temperatures, and the prompts that two of them share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from grpo_plan._pooling import has_row_names
from grpo_plan._validate import require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.pilot import Pilot

Counts = NDArray[np.int64]
Key = tuple[str, str]
DIGITS = 6  # temperatures that agree to so many decimals are one: 0.7 is not told from its 32-bit form
PAIRED_SHARE = 0.5  # of the smaller side's prompts must be common for a paired comparison


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TemperaturePilot:
    """The pilot of one temperature, each named prompt once.

    Attributes:
        temperature: Sampling temperature.
        pilot: Its prompts; rows that repeat a prompt are added up.
        rows: Place of each named prompt in ``pilot``, by part and name.
        pooled_rows: Rows that repeated a prompt.
    """

    temperature: float
    pilot: Pilot
    rows: Mapping[Key, int] = field(repr=False)
    pooled_rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommonPrompts:
    """Counts of the prompts that two temperatures share, in one order.

    Attributes:
        baseline_successes: k at the baseline, shape (M,).
        baseline_rollouts: n at the baseline, shape (M,).
        successes: k at the other temperature, shape (M,).
        rollouts: n there, shape (M,).
        only_baseline: Prompts that only the baseline has.
        only_other: Prompts that only the other temperature has.
    """

    baseline_successes: Counts
    baseline_rollouts: Counts
    successes: Counts
    rollouts: Counts
    only_baseline: int
    only_other: int

    @property
    def prompts(self) -> int:
        """Number of common prompts M."""
        return int(self.successes.size)

    @property
    def pairs(self) -> bool:
        """Whether enough prompts are common to compare by prompt."""
        return self.prompts > 0 and self.prompts >= PAIRED_SHARE * (
            self.prompts + min(self.only_baseline, self.only_other)
        )


def temperature_pilots(source: Pilot | Mapping[float, Pilot]) -> tuple[tuple[TemperaturePilot, ...], int]:
    """Split a pilot by temperature, or take one pilot a temperature.

    Returns:
        The pilots by rising temperature, and the prompts left out because their temperature is unknown.

    Raises:
        DomainError: Another type of source, or a key that is no temperature.
        PilotError: Fewer than two temperatures, or a pilot whose own temperature is not that of its key.
    """
    if isinstance(source, Mapping):
        return _from_mapping(source), 0
    require(source, Pilot, "pilot", "Read one with read_pilot(...), or give {temperature: pilot}.")
    if source.temperature is None or not np.isfinite(source.temperature).any():
        raise PilotError(
            "A temperature plan needs the temperature of each rollout; the pilot names none. Name its column with "
            "--temperature-column (temperature=), or give one file a temperature with --pilot T=FILE "
            "(a mapping {temperature: pilot})."
        )
    known = np.isfinite(source.temperature)
    rounded = np.round(source.temperature, DIGITS)
    values = np.unique(rounded[known])
    _check_temperatures([float(t) for t in values])
    parts = tuple(pooled_prompts(float(t), source._subset(np.flatnonzero(rounded == t))) for t in values)
    return parts, int(source.prompts_per_row[~known].sum())


def _from_mapping(source: Mapping[float, Pilot]) -> tuple[TemperaturePilot, ...]:
    parts: dict[float, Pilot] = {}
    for key, pilot in source.items():
        if isinstance(key, bool) or not isinstance(key, Real) or not math.isfinite(key):
            raise DomainError(f"temperature must be a finite number, the key of its pilot; got {key!r}.")
        require(pilot, Pilot, f"the pilot at temperature {key:g}", "Read one with read_pilot(...).")
        temperature = round(float(key), DIGITS)
        if temperature in parts:
            raise DomainError(f"temperature {temperature:g} is given twice. Read its files as one pilot.")
        own = {round(t, DIGITS) for t in pilot.temperatures}
        if own - {temperature}:
            shown = ", ".join(f"{t:g}" for t in sorted(own))
            raise PilotError(
                f"The pilot given for temperature {temperature:g} holds rollouts at {shown}. Give each temperature "
                "its own rollouts, e.g. with --where, or pass the one pilot without a mapping."
            )
        parts[temperature] = pilot
    _check_temperatures(list(parts))
    unnamed = all(has_row_names(pilot.prompt_id) for pilot in parts.values())
    return tuple(pooled_prompts(t, parts[t], named=not unnamed) for t in sorted(parts))


def _check_temperatures(temperatures: list[float]) -> None:
    bad = [t for t in temperatures if t < 0.0]
    if bad:
        raise PilotError(f"temperature must be at least 0; got {bad[0]:g}. Is it the right column?")
    if len(temperatures) < 2:
        shown = f"{temperatures[0]:g}" if temperatures else "none"
        raise PilotError(
            f"A temperature plan needs rollouts at two or more temperatures; got {len(temperatures)} ({shown}). "
            "Roll out the same prompts at another one."
        )


def pooled_prompts(temperature: float, pilot: Pilot, *, named: bool = True) -> TemperaturePilot:
    """The pilot with rows of one prompt added up; prompts without a name, or all if not ``named``, stay apart."""
    pilot = replace(pilot, temperature=np.full(pilot.successes.size, temperature))  # those that are rounded to it agree
    if pilot.prompt_id is None or not named:
        return TemperaturePilot(temperature=temperature, pilot=pilot, rows={}, pooled_rows=0)
    strata = [""] * pilot.prompts if pilot.stratum is None else [str(s) for s in pilot.stratum]
    rows: dict[Key, int] = {}
    place = np.empty(pilot.prompts, dtype=np.int64)
    size = 0
    for i, (stratum, name) in enumerate(zip(strata, pilot.prompt_id, strict=True)):
        if name is None or name != name:  # a missing name
            place[i] = size
        else:
            place[i] = rows.setdefault((stratum, str(name)), size)
        size = max(size, int(place[i]) + 1)
    if size == pilot.prompts:
        return TemperaturePilot(temperature=temperature, pilot=pilot, rows=rows, pooled_rows=0)
    totals = [np.zeros(size, dtype=np.int64) for _ in range(2)]
    np.add.at(totals[0], place, pilot.successes)
    np.add.at(totals[1], place, pilot.rollouts)
    pooled = Pilot.from_counts(*totals, temperature=temperature, dropped=pilot.dropped, notes=pilot.notes)
    return TemperaturePilot(temperature=temperature, pilot=pooled, rows=rows, pooled_rows=pilot.prompts - size)


def common_prompts(baseline: TemperaturePilot, other: TemperaturePilot) -> CommonPrompts:
    """The prompts that both temperatures have, matched by part and name."""
    keys = [key for key in baseline.rows if key in other.rows]
    here = np.array([baseline.rows[key] for key in keys], dtype=np.int64)
    there = np.array([other.rows[key] for key in keys], dtype=np.int64)
    return CommonPrompts(
        baseline_successes=baseline.pilot.successes[here],
        baseline_rollouts=baseline.pilot.rollouts[here],
        successes=other.pilot.successes[there],
        rollouts=other.pilot.rollouts[there],
        only_baseline=baseline.pilot.prompts - here.size,
        only_other=other.pilot.prompts - there.size,
    )
