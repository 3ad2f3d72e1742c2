"""One setting of one trainer: the convention it leads to, and where that was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grpo_plan.errors import DomainError
from grpo_plan.estimators.conventions import Convention

Option = str | bool


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
