"""Advantages step by step, and beside those that a dump itself holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grpo_plan.cli.advantages_input import GroupInput
from grpo_plan.errors import DomainError
from grpo_plan.estimators.computing import advantages
from grpo_plan.estimators.preset import Preset
from grpo_plan.estimators.presets import presets
from grpo_plan.estimators.result import Advantages

WITHIN = 1e-3  # single precision and the constants added to standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A dump's own advantages beside those computed.

    Attributes:
        rollouts: Rollouts whose advantage the dump holds.
        agreeing: Those within 0.001 of the one computed (relative to it, where it is above 1).
        largest: Largest difference.
        setting: Settings of the trainer under which they agree, if other than its default; None where they were not
            looked for or not found.
        searched: Settings that were tried.
    """

    rollouts: int
    agreeing: int
    largest: float
    setting: str | None = None
    searched: int = 0

    @property
    def agree(self) -> bool:
        """Whether all do."""
        return self.agreeing == self.rollouts

    @property
    def words(self) -> str:
        """In one sentence."""
        if self.agree:
            under = f" under {self.setting}" if self.setting else ""
            return f"the dump's own advantages are these{under}: all {self.rollouts:,} within {WITHIN:g}"
        tried = f" No setting of the trainer that was read gives them ({self.searched} tried)." if self.searched else ""
        return (
            f"the dump's own advantages are others: {self.rollouts - self.agreeing:,} of {self.rollouts:,} differ, by "
            f"up to {self.largest:.3g}.{tried}"
        )


def by_batch(groups: GroupInput, estimator: str | None, **choices: Any) -> Advantages:
    """Advantages with the groups of each step as one batch."""

    def part(which: list[int]) -> Advantages:
        lengths: dict[str, Any] = {} if groups.lengths is None else {"lengths": [groups.lengths[i] for i in which]}
        return advantages([groups.rewards[i] for i in which], estimator, **choices, **lengths)

    whole = part(list(range(len(groups.rewards))))
    if not whole.convention.needs_lengths and groups.lengths is not None:
        whole = replace(whole, notes=tuple(n for n in whole.notes if not n.startswith("Lengths of responses do not")))
    batches = groups.batches
    if len(batches) == 1:
        return whole
    values = np.array(whole.values)
    for which in batches:
        found = part(which).values
        values[which, : found.shape[1]] = found
    values.setflags(write=False)
    return replace(whole, values=values)


def compared_with_own(result: Advantages, own: list[list[float]]) -> Agreement | None:
    """How far a dump's advantages agree with a result; None where it holds none."""
    given = np.full(result.values.shape, np.nan)
    for i, group in enumerate(own):
        given[i, : len(group)] = group
    known = np.isfinite(given)
    if not known.any():
        return None
    theirs, ours = given[known], np.nan_to_num(result.values)[known]
    apart = np.abs(theirs - ours)
    close = apart <= WITHIN * np.maximum(1.0, np.abs(ours))
    return Agreement(rollouts=int(known.sum()), agreeing=int(close.sum()), largest=float(apart.max()))


def of_the_trainer(groups: GroupInput, trainer: str, **choices: Any) -> tuple[Advantages, Agreement | None]:
    """Advantages by the recognised trainer: under its default setting, or that which gives the dump's own ones."""
    result = by_batch(groups, None, trainer=trainer, **choices)
    found = None if groups.own is None else compared_with_own(result, groups.own)
    if found is None or found.agree or groups.own is None:
        return result, found
    others = [p for p in presets() if p.trainer == trainer]
    for preset in others:
        version, options = _named(preset)
        try:
            other = by_batch(groups, None, trainer=trainer, version=version, **options, **choices)
        except DomainError:
            continue
        same = compared_with_own(other, groups.own)
        if same is not None and same.agree:
            label = preset.setting if version is None else f"{trainer} {version}, {preset.setting}"
            return other, replace(same, setting=label, searched=len(others))
    return result, replace(found, searched=len(others))


def _named(preset: Preset) -> tuple[str | None, dict[str, Any]]:
    """Version (None: the newest) and settings that choose a preset."""
    return (None if preset.until is None else preset.since or None), dict(preset.options)
