"""`Monitor`: a run watched while it trains, from any training loop."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError
from grpo_plan.planning.plan import Plan
from grpo_plan.run_log import RunLog
from grpo_plan.runs.alerts import Alert, AlertBook
from grpo_plan.runs.collected import Collected, checked_rewards
from grpo_plan.runs.detectors.plan import tested_above
from grpo_plan.runs.diagnosis import Diagnosis, diagnose, expectation_of
from grpo_plan.runs.finding import Severity
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.settings import DiagnosisSettings

EVERY_ROW = 200  # rows up to which each is looked at
GROWTH = 0.05  # later a log is looked at again when it grew by this share
MAX_STEP = 2**53


def due(rows: int, looked: int, every: int = 1) -> bool:
    """Whether a log of so many rows should be looked at again, ``looked`` rows being those at the last look.

    >>> due(2, 1), due(1010, 1000), due(1050, 1000), due(150, 200)
    (True, False, True, True)
    """
    return rows < looked or rows - looked >= max(every, int(GROWTH * looked) if looked >= EVERY_ROW else 1)


class Monitor:
    """Watches a run and tells what is wrong with it, once for each finding.

    Give it each step as it is logged. All checks of `diagnose` look at all rows so far: at every row up to 200, later
    whenever the log grew by 5 %: a run of 10,000 steps is looked at 280 times. A finding
    is told when it held over a fifth more rows, at least ten (`AlertBook`), so that many looks make no false alarms.

    Args:
        plan: What was expected: a plan, the file that ``plan --json`` or ``fit --json`` wrote, or None.
        settings: What the log does not say, and the knobs of the checks.
        tool: Trainer whose names the metrics have; None: told by the names.
        config: Settings of the trainer under its own names, such as ``scale_rewards`` and ``beta``.
        group_size: Rollouts per prompt; None: as in ``config``, ``settings`` or the rewards.
        pass_threshold: Reward from which a rollout passes; None: told by two levels of rewards.
        check_every: Rows between two looks, at least.
        source: Name of the run, for messages.

    Raises:
        DomainError: An argument is outside its domain.
        PlanFormatError: ``plan`` is a file that holds no plan.

    >>> monitor = Monitor(tool="trl", config={"num_generations": 4})
    >>> told = [a for step in range(1, 41) for a in monitor.update(step, {"loss": 0.0}, rewards=[[0, 0, 0, 0]] * 16)]
    >>> [(a.id, a.severity.value, a.step) for a in told if a.id == "STARVED"]
    [('STARVED', 'critical', 15)]
    >>> monitor.diagnosis.worst.value, monitor.run.groups.dead_groups
    ('critical', 640)
    """

    def __init__(
        self,
        plan: Plan | Any | str | PathLike[str] | None = None,
        *,
        settings: DiagnosisSettings | None = None,
        tool: str | None = None,
        config: Mapping[str, object] | None = None,
        group_size: int | None = None,
        pass_threshold: float | None = None,
        check_every: int = 1,
        source: str = "the run",
    ) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise DomainError(f"config must map settings to values; got {str(config)[:40]!r}.")
        self.settings = settings or DiagnosisSettings()
        self._size = None if group_size is None else as_count(group_size, "group_size")
        self.expectation = expectation_of(plan, self._size or self.settings.group_size)
        self._tool, self._config, self._source = tool, dict(config or {}), source
        self._threshold = None if pass_threshold is None else float(pass_threshold)
        self._every = as_count(check_every, "check_every")
        self._rows = Collected(self._threshold)
        self._book = AlertBook()
        self._diagnosis: Diagnosis | None = None
        self._log: RunLog | None = None
        self._looked = 0
        self._alerts: list[Alert] = []

    def update(self, step: int, metrics: Mapping[str, Any] | None = None, *, rewards: Any = None) -> tuple[Alert, ...]:
        """Take a step, and tell what is new.

        The same step again adds to it, and what it says again replaces what it said. An earlier step is that of a run
        taken up at a checkpoint: what was logged from there on is dropped.

        Args:
            step: Training step.
            metrics: Metrics under the names of the trainer; what is no finite number is left out.
            rewards: Rewards of the groups of this step, shape (N, G), NaN or None where scoring failed; all groups are
                counted from them then.

        Returns:
            Alerts, gravest first; often none.

        Raises:
            DomainError: ``step`` is no whole number of at least 0, or ``rewards`` have another shape.
        """
        self.collect(step, metrics, rewards=rewards)
        return self.look() if due(self._rows.rows, self._looked, self._every) else ()

    def collect(self, step: int, metrics: Mapping[str, Any] | None = None, *, rewards: Any = None) -> None:
        """Take a step as `update` does, without looking."""
        if isinstance(step, bool) or not isinstance(step, Integral) or not 0 <= step <= MAX_STEP:
            raise DomainError(f"step must be a whole number of at least 0; got {step!r}. Give the training step.")
        if metrics is not None and not isinstance(metrics, Mapping):
            raise DomainError(f"metrics must map names to numbers; got {str(metrics)[:40]!r}.")
        table = None if rewards is None else checked_rewards(rewards)
        numbers = {str(name): number for name, v in (metrics or {}).items() if (number := _number(v)) is not None}
        self._rows.add(int(step), numbers, table)
        self._log = None

    def look(self, log: RunLog | None = None) -> tuple[Alert, ...]:
        """Look now, however little is new, and tell what is.

        Args:
            log: A log that was read, as a follower gives it, to look at instead of the steps taken here.
        """
        if log is not None:
            self._log = log
        run = self.run
        self._diagnosis = diagnose(run, self.expectation, settings=self.settings, remedies=False)
        self._looked = int(run.steps.size)
        alerts = self._book.take(self._diagnosis)
        self._alerts += alerts
        return alerts

    def look_if_due(self, log: RunLog) -> tuple[Alert, ...]:
        """`look` at a log that was read, if it grew enough."""
        return self.look(log) if due(int(log.steps.size), self._looked, self._every) else ()

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What the last look found; None before the first."""
        return self._diagnosis

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """All alerts so far."""
        return tuple(self._alerts)

    @property
    def standing(self) -> dict[str, Severity]:
        """Findings that were told and are not cleared, with the severity told."""
        return self._book.standing

    @property
    def book(self) -> AlertBook:
        """What was told, to be kept between two processes."""
        return self._book

    @property
    def run(self) -> RunLog:
        """All steps so far."""
        if self._log is None:
            back = {"steps_undone_by_a_resume": self._rows.taken_back} if self._rows.taken_back else {}
            self._log = RunLog(
                steps=self._rows.steps(),
                metrics=self._rows.metrics(),
                format="monitor",
                source=self._source,
                tool=self._tool,
                config=self._config,
                group_size=self._size,
                groups=self._rows.groups.group_log(),
                pass_threshold=self._threshold,
                dropped=back,
            )
        return self._log

    @property
    def log10_evidence_against_plan(self) -> float | None:
        """How strongly the last look speaks against the plan: log10 of the evidence that more groups are dead.

        An alarm needs 2.7 at the default chance of 0.002 of a false alarm; None without a plan or a dead fraction.
        """
        facts = None if self._diagnosis is None else self._diagnosis.facts
        planned = None if facts is None else facts.planned
        if facts is None or planned is None or not isinstance(facts.dead, Measured):
            return None
        found = tested_above(facts, facts.dead, planned.dead).test.log_evidence
        return float(found[-1] / np.log(10.0)) if found.size and np.isfinite(found[-1]) else None


def _number(value: Any) -> float | None:
    """A finite number; None where it is none."""
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if np.isfinite(number) else None
