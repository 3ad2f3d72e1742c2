"""The conventions of trainers by name, version and settings: which one a run used, and where that was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grpo_plan.errors import DomainError
from grpo_plan.estimators.conventions import Convention

Option = str | bool
FAMILY = {"unsloth": "trl", "axolotl": "trl"}
"""Trainers that compute their advantages with another one's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a convention stands.

    Attributes:
        repository: Package or public repository.
        file: Path in it.
        function: Function or method.
        version: Version or commit that was read.
    """

    repository: str
    file: str
    function: str
    version: str

    def words(self) -> str:
        """In one phrase."""
        return f"{self.repository} {self.version}, {self.file}, {self.function}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What one trainer does under one setting.

    Attributes:
        trainer: Its name, as `grpo_plan.trainers` spells it.
        since: First version that was read and does so; empty where the trainer has no releases.
        until: First version that does otherwise, or None.
        options: Its own settings that lead here, by its own names.
        ignored: Settings that it takes here and does not use.
        method: The estimator's family, e.g. ``grpo``.
        convention: What it computes.
        filters: What drops dead groups before they are trained on, in words; empty: nothing does.
        note: What else to know.
        source: Where this was read.
        evidence: ``run``: its own code, taken from its package, gives the same numbers in the tests. ``excerpt``: so
            does the function as its repository publishes it, run alone. ``read``: derived from its source.
    """

    trainer: str
    since: str
    until: str | None = None
    options: tuple[tuple[str, Option], ...] = ()
    ignored: tuple[str, ...] = ()
    method: str
    convention: Convention
    filters: str = ""
    note: str = ""
    source: Source
    evidence: Literal["run", "excerpt", "read"]

    @property
    def setting(self) -> str:
        """The settings in words, e.g. ``scale_rewards=batch``."""
        return ", ".join(f"{key}={value}" for key, value in self.options) or "(no setting)"

    def covers(self, version: str) -> bool:
        """Whether a version lies in its range."""
        asked = release(self.trainer, version)
        return not (
            (self.since and asked < release(self.trainer, self.since))
            or (self.until is not None and asked >= release(self.trainer, self.until))
        )


def release(trainer: str, version: object) -> tuple[int, ...]:
    """Release numbers of a version, without pre- and post-releases.

    Raises:
        DomainError: It is no version.

    >>> release("trl", "0.9.1.post2")
    (0, 9, 1)
    """
    from packaging.version import InvalidVersion, Version

    try:
        found = Version(str(version)).release
    except InvalidVersion:
        raise DomainError(
            f"version of {trainer} must be like 1.16 or 0.9.1; got {str(version)[:40]!r}. Leave it out for the newest."
        ) from None
    while len(found) > 1 and found[-1] == 0:
        found = found[:-1]
    return found


def presets() -> tuple[Preset, ...]:
    """All of them: trainers in order, the default setting of each first, the newest version first."""
    from grpo_plan.estimators.presets_others import OTHERS
    from grpo_plan.estimators.presets_trl import MS_SWIFT, TRL
    from grpo_plan.estimators.presets_verl import OPENRLHF, VERL

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
        raise DomainError(f"trainer must be one of {', '.join(preset_trainers())}; got {str(trainer)[:40]!r}.")
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
