"""What a diagnosis says: findings with evidence and remedies, and checks that could not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from grpo_plan._shown import Shown

Evidence = Mapping[str, float | int | str | bool | None]


class Severity(StrEnum):
    """How grave a finding is; they compare in this order."""

    INFO = "info"  # worth knowing; nothing is wrong by itself
    WARNING = "warning"  # not as planned, or nothing is learnt: something should change
    CRITICAL = "critical"  # the run learns nothing, or what it learns from is broken

    @property
    def rank(self) -> int:
        """0, 1 or 2."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Remedy(Shown):
    """One thing to change.

    Attributes:
        action: What to do, in the imperative.
        expected: What would change, with numbers and their limits; "unknown" with the reason where nothing tells it.
        price: What it costs.
        numbers: The numbers behind both by name; None where unknown.
    """

    action: str
    expected: str
    price: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Waste(Shown):
    """What the dead groups of a run have cost so far.

    Attributes:
        rollouts: Rollouts in dead groups; None if unknown.
        rollouts_low: Lower confidence limit.
        rollouts_high: Upper confidence limit.
        gpu_hours: Their share of the time of the steps, in GPU-hours: an upper estimate, as dead groups are generated
            but need not be trained on.
        usd: Price of these.
        steps: Steps counted.
        missing: What each unknown amount needs.
        beyond: Share of dead groups that was planned: only what exceeds it is counted; None where all is.
    """

    rollouts: float | None
    rollouts_low: float | None
    rollouts_high: float | None
    gpu_hours: float | None
    usd: float | None
    steps: int
    missing: Mapping[str, str] = field(default_factory=dict)
    beyond: float | None = None

    @property
    def what(self) -> str:
        """What is counted, in words."""
        if self.beyond is None:
            return "in dead groups"
        return f"in dead groups beyond the {100.0 * self.beyond:.3g} % planned"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Shown):
    """Something that a log shows.

    Attributes:
        id: Its name, fixed: scripts rely on it.
        severity: How grave it is.
        says: What was found, one sentence with numbers.
        onset_step: Training step from which on it shows; None where it cannot be dated.
        evidence: Numbers by name, finite, None where unknown.
        waste: What it has cost; None where it costs nothing by itself.
        remedy: What to do first, one sentence.
        remedies: What could be done, with numbers.
        reference: Where the rule comes from.
    """

    id: str
    severity: Severity
    says: str
    onset_step: int | None
    evidence: Evidence
    remedy: str
    reference: str
    waste: Waste | None = None
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A check that could not run.

    Attributes:
        id: The finding that it looks for.
        needs: What is missing, one sentence that says how to give it.
    """

    id: str
    needs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    """A check that ran and found nothing.

    Attributes:
        id: The finding that it looked for.
        because: What it saw, one sentence with numbers.
    """

    id: str
    because: str


Outcome = Finding | Skipped | Clear
