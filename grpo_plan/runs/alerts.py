"""Alerts of a run that is watched: each finding once, when it has held, and again when it changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from grpo_plan._shown import Shown
from grpo_plan.errors import DomainError
from grpo_plan.runs.detectors.plan import tested_above
from grpo_plan.runs.diagnosis import Diagnosis
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Finding, Severity
from grpo_plan.runs.measured import Measured

WAIT_ROWS = 10  # as the published late window is long at least
WAIT_SHARE = 0.2  # and a part of the rows: the late windows at both ends of the wait hardly overlap
WHOLE_LOG = 20  # rows from which a first look counts as a diagnosis of a log that was there already
BY_CONSTRUCTION = frozenset(("FILTERED_METRIC", "BATCH_SCALED_METRIC"))  # told by settings and names, not by chance
FLAT_ROWS = 150  # a run that learns slowly looks flat for so long; until then this alone is no warning
THRESHOLD, PLANNED = "DEGENERATE_GROUPS", "DEAD_ABOVE_PLAN"
GONE = "This is no longer found."


class News(StrEnum):
    """What an alert says of its finding."""

    RAISED = "raised"  # told for the first time
    GRAVER = "graver"  # graver than told
    MILDER = "milder"  # less grave than told
    CLEARED = "cleared"  # no longer found


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Alert(Shown):
    """One change of what is wrong with a run.

    Attributes:
        step: Last training step of the log when it was told.
        id: Name of the finding.
        severity: How grave it is; of one that is cleared, how grave it was.
        says: What was found, one sentence with numbers.
        remedy: What to do first.
        new: Whether it is new, graver, milder or gone.
        onset_step: Training step from which on it shows; None where it cannot be dated.
    """

    step: int
    id: str
    severity: Severity
    says: str
    remedy: str
    new: News
    onset_step: int | None = None

    def at_least(self, severity: Severity | str) -> bool:
        """Whether it stands, and is at least so grave."""
        return self.new is not News.CLEARED and self.severity.rank >= Severity(severity).rank

    def document(self) -> dict[str, Any]:
        """As an object of JSON."""
        return {
            "step": self.step, "id": self.id, "severity": self.severity.value, "new": self.new.value,
            "says": self.says, "remedy": self.remedy, "onset_step": self.onset_step,
        }  # fmt: skip

    def __str__(self) -> str:
        """One line."""
        return f"step {self.step:,}: {self.severity.value} {self.new.value}: {self.id}: {self.says}"


@dataclass(slots=True, kw_only=True)
class _Held:
    """What is known of one finding: since how many rows it is at least so grave, and what was told of it."""

    since: dict[int, int] = field(default_factory=dict)  # rank to rows of the log
    below: int | None = None  # rows since which it is less grave than told, or gone
    told: int | None = None  # rank


class AlertBook:
    """Turns looks at a growing log into alerts.

    A check that reads a fixed window is looked at many times while a log grows, and would sooner or later fire by
    chance. So a finding is told only when it was found at every look while the log grew by ``wait_rows`` rows and by
    ``wait_share`` of its rows; the same holds before it is called graver, milder or gone. What settings and names tell
    is told at once, and so is what a first look at a log of 20 rows or more finds, which is one look. A warning that
    would be none if the reward improved (`rests_on_flatness`) is one from row 150 on.
    """

    def __init__(self, *, wait_rows: int = WAIT_ROWS, wait_share: float = WAIT_SHARE) -> None:
        self._wait_rows, self._wait_share = wait_rows, wait_share
        self._known: dict[str, _Held] = {}
        self._rows: int | None = None

    def take(self, diagnosis: Diagnosis) -> tuple[Alert, ...]:
        """What is new in a diagnosis, gravest first; an empty log tells nothing."""
        rows = int(diagnosis.run.steps.size)
        if not rows:
            return ()
        step, at_once = int(diagnosis.run.steps[-1]), self._rows is None and rows >= WHOLE_LOG
        if self._rows is not None and rows < self._rows:  # steps were taken back
            self._cut(rows)
        self._rows = rows
        alerts = []
        found = {finding.id: finding for finding in diagnosis.findings}
        for finding in diagnosis.findings:
            held = self._known.setdefault(finding.id, _Held())
            alert = self._seen(held, finding, diagnosis.facts, step, at_once or finding.id in BY_CONSTRUCTION)
            if alert is not None:
                alerts.append(alert)
        for id, held in list(self._known.items()):
            if id in found:
                continue
            held.since.clear()
            if held.told is None or self._lasts(held.below, rows):
                del self._known[id]
                if held.told is not None:
                    severity = _severity(held.told)
                    alerts.append(Alert(step=step, id=id, severity=severity, says=GONE, remedy="", new=News.CLEARED))
            else:
                held.below = rows if held.below is None else held.below
        return tuple(alerts)

    def _seen(self, held: _Held, finding: Finding, facts: Facts, step: int, at_once: bool) -> Alert | None:
        now, rows = finding.severity.rank, int(facts.run.steps.size)
        if rows < FLAT_ROWS and not at_once and rests_on_flatness(finding, facts):
            now = Severity.INFO.rank
        for rank in range(now + 1):
            held.since.setdefault(rank, rows)
        for rank in range(now + 1, len(Severity)):
            held.since.pop(rank, None)
        sure = now if at_once else max((r for r, since in held.since.items() if self._lasts(since, rows)), default=None)
        told = held.told
        if told is None or now >= told:
            held.below = None
        elif held.below is None:
            held.below = rows
        settled = sure is not None and (sure == now or self._lasts(held.since[sure], rows, times=2))
        if sure is not None and settled and (told is None or sure > told):
            held.told, news = sure, News.RAISED if told is None else News.GRAVER
        elif told is not None and now < told and self._lasts(held.below, rows):
            held.told, held.below, news = now, None, News.MILDER
        else:
            return None
        return Alert(
            step=step, id=finding.id, severity=_severity(held.told), says=finding.says, remedy=finding.remedy, new=news,
            onset_step=finding.onset_step,
        )  # fmt: skip

    def _lasts(self, since: int | None, rows: int, times: int = 1) -> bool:
        wait = 0 if since is None else max(self._wait_rows, math.ceil(self._wait_share * since))
        return since is not None and rows - since >= times * wait

    def _cut(self, rows: int) -> None:
        for held in self._known.values():
            held.since = {rank: min(since, rows) for rank, since in held.since.items()}
            held.below = None if held.below is None else min(held.below, rows)

    @property
    def standing(self) -> dict[str, Severity]:
        """Findings that were told and not cleared since, with the severity told."""
        return {id: _severity(held.told) for id, held in self._known.items() if held.told is not None}

    def state(self) -> dict[str, Any]:
        """All of it, as an object of JSON."""
        return {
            "rows": self._rows,
            "known": {
                id: {"since": {str(r): n for r, n in held.since.items()}, "below": held.below, "told": held.told}
                for id, held in self._known.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`.

        Raises:
            DomainError: It is none.
        """
        try:
            rows = None if state["rows"] is None else int(state["rows"])
            known = {
                str(id): _Held(
                    since={_rank(r): int(n) for r, n in held["since"].items()},
                    below=None if held["below"] is None else int(held["below"]),
                    told=None if held["told"] is None else _rank(held["told"]),
                )
                for id, held in state["known"].items()
            }
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise DomainError(f"state of alerts is damaged ({type(error).__name__}: {error}). Start anew.") from None
        self._rows, self._known = rows, known


def rests_on_flatness(finding: Finding, facts: Facts) -> bool:
    """Whether a finding is a warning only because no improvement shows so far, which a slow run looks like at first.

    That is so of dead groups above the published threshold, and of more dead groups than planned that came later and
    are not all-fail.
    """
    if finding.severity is not Severity.WARNING:
        return False
    if finding.id != PLANNED:
        return finding.id == THRESHOLD
    steps, planned, fail = facts.run.steps, facts.planned, facts.all_fail
    start = int(steps[min(max(2, steps.size // 20), steps.size - 1)])
    if finding.onset_step is None or finding.onset_step <= start:
        return False
    if planned is None or planned.all_fail is None or not isinstance(fail, Measured):
        return True
    return not tested_above(facts, fail, planned.all_fail).test.crossed


def _rank(value: Any) -> int:
    rank = int(value)
    if not 0 <= rank < len(Severity):
        raise ValueError(value)
    return rank


def _severity(rank: int) -> Severity:
    return list(Severity)[rank]
