"""The conventions of trainers by name, version and settings: which one a run used."""

from __future__ import annotations

from grpo_plan._suggest import not_one_of
from grpo_plan.errors import DomainError
from grpo_plan.estimators.preset import Option, Preset, release
from grpo_plan.estimators.presets_others import OTHERS
from grpo_plan.estimators.presets_trl import MS_SWIFT, TRL
from grpo_plan.estimators.presets_verl import OPENRLHF, VERL

__all__ = ["FAMILY", "Preset", "find_preset", "preset_trainers", "presets"]

FAMILY = {"unsloth": "trl", "axolotl": "trl"}
"""Trainers that compute their advantages with another one's code."""


def presets() -> tuple[Preset, ...]:
    """All of them: trainers in order, the default setting of each first, the newest version first."""
    return (*TRL, *VERL, *OPENRLHF, *OTHERS, *MS_SWIFT)


def preset_trainers() -> tuple[str, ...]:
    """Names that `find_preset` takes.

    >>> preset_trainers()[:3]
    ('trl', 'verl', 'openrlhf')
    """
    return (*dict.fromkeys(p.trainer for p in presets()), *FAMILY)


def find_preset(trainer: str, version: str | None = None, **options: Option | None) -> Preset:
    """What a trainer does under given settings.

    Args:
        trainer: Its name, e.g. ``trl`` or ``verl``.
        version: Its version; None for the newest that was read. A newer one is taken as that.
        **options: Its own settings, e.g. ``scale_rewards="batch"`` or ``adv_estimator="rloo"``; what is left out, or
            None, has the trainer's default.

    Raises:
        DomainError: No such trainer, version, setting or value.

    >>> find_preset("trl", scale_rewards="none").convention.words()
    'reward minus group mean'
    >>> find_preset("trl", "1.5").convention.failed
    'as_zero'
    """
    name = trainer.lower() if isinstance(trainer, str) else trainer
    if name not in preset_trainers():
        raise DomainError(not_one_of("trainer", trainer, preset_trainers()))
    if name in FAMILY:
        if version is not None:
            raise DomainError(
                f"{name} takes its advantages from the installed {FAMILY[name]}: "
                f"ask for trainer {FAMILY[name]!r} with the version of {FAMILY[name]}."
            )
        name = FAMILY[name]
    mine = [p for p in presets() if p.trainer == name]
    if version is None:
        here = [p for p in mine if p.until is None]
    else:
        here = [p for p in mine if p.covers(version)]
        if not here:
            first = min((p.since for p in mine), key=lambda s: release(name, s or "0"))
            raise DomainError(f"{name} {version} is older than what was read ({first}): give std and eps yourself.")
    asked = {k: _plain(k, v) for k, v in options.items() if v is not None}
    known = {k for p in mine for k in (*dict(p.options), *p.ignored)}
    for key in asked:
        if key not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise DomainError(f"{name} has no setting {key!r} that changes advantages; its settings: {listed}.")
    values = {k: {dict(p.options)[k] for p in here if k in dict(p.options)} for k in asked}
    found = [
        p for p in here
        if all(dict(p.options).get(k) == v or (k in p.ignored and v in values[k]) for k, v in asked.items())
    ]  # fmt: skip
    if not found:
        wanted = ", ".join(f"{k}={v}" for k, v in asked.items())
        listed = "; ".join(dict.fromkeys(p.setting for p in here))
        raise DomainError(f"{name}{f' {version}' if version else ''} has no {wanted}; it has: {listed}.")
    return found[0]


def _plain(key: str, value: Option) -> Option:
    """TRL's older spelling of a scale."""
    if key == "scale_rewards" and isinstance(value, bool):
        return "group" if value else "none"
    return value
