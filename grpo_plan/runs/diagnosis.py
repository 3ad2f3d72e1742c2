"""`diagnose`: every check on a run, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike

from grpo_plan._shown import Shown
from grpo_plan._validate import require
from grpo_plan.planning.plan import Plan
from grpo_plan.run_log import RunLog
from grpo_plan.runs.advice import advise
from grpo_plan.runs.detectors.published import BY_COMPOSITION
from grpo_plan.runs.detectors.registry import detectors
from grpo_plan.runs.expectation import Expectation
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Severity, Skipped
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.runs.tame import tamed
from grpo_plan.runs.verdict import LEAST_SPECIFIC, verdict_of


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Diagnosis(Shown):
    """What a run is doing.

    Attributes:
        verdict: One line.
        findings: What was found, gravest first.
        skipped: Checks that could not run, and what each needs.
        clear: Checks that ran and found nothing.
        facts: The run as the checks saw it.
    """

    verdict: str
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    clear: tuple[Clear, ...]
    facts: Facts = field(repr=False)

    @property
    def run(self) -> RunLog:
        """The log."""
        return self.facts.run

    @property
    def worst(self) -> Severity | None:
        """The gravest severity found; None without a finding."""
        return max((f.severity for f in self.findings), key=lambda s: s.rank, default=None)

    def finding(self, id: str) -> Finding | None:
        """The finding of this id, or None."""
        return next((f for f in self.findings if f.id == id), None)

    def at_least(self, severity: Severity | str) -> tuple[Finding, ...]:
        """Findings of this severity or a graver one."""
        least = Severity(severity).rank
        return tuple(f for f in self.findings if f.severity.rank >= least)

    def __str__(self) -> str:
        """The verdict and one line for each finding."""
        return "\n".join((self.verdict, *(f"{f.severity.value}: {f.id}: {f.says}" for f in self.findings)))


def diagnose(
    run: RunLog,
    plan: Plan | Expectation | str | PathLike[str] | None = None,
    *,
    settings: DiagnosisSettings | None = None,
    remedies: bool = True,
) -> Diagnosis:
    """What a run is doing, measured against its plan.

    Args:
        run: The log, of `read_run`.
        plan: What was expected: a plan, the file that ``plan --json`` or ``fit --json`` wrote, or None.
        settings: What the log does not say, and the knobs of the checks.
        remedies: Whether to work out what the findings cost and what could be done, which takes most of the time.

    Raises:
        DomainError: ``run`` is no run.
        PlanFormatError: ``plan`` is a file that holds no plan.
    """
    require(run, RunLog, "run", "Read it with read_run.")
    chosen = settings or DiagnosisSettings()
    facts = Facts(tamed(run), chosen, expectation_of(plan, chosen.group_size or run.rollouts_per_prompt))
    outcomes = [detect(facts) for detect in detectors().values()]
    findings = sorted(
        (o for o in outcomes if isinstance(o, Finding)), key=lambda f: -f.severity.rank
    )  # stable: the order of the checks within a severity
    findings = list(advise(facts, findings)) if remedies else findings
    findings = _by_reason(findings)
    skipped = tuple(o for o in outcomes if isinstance(o, Skipped))
    return Diagnosis(
        verdict=verdict_of(facts, findings, len(skipped)),
        findings=tuple(findings),
        skipped=skipped,
        clear=tuple(o for o in outcomes if isinstance(o, Clear)),
        facts=facts,
    )


def _by_reason(findings: Sequence[Finding]) -> list[Finding]:
    """The published rule says to look for the reason; where another check has found it, that one's remedy is said."""
    told = []
    for finding in findings:
        others = [f for f in findings if f.severity.rank >= finding.severity.rank and f.id not in LEAST_SPECIFIC]
        if finding.remedy == BY_COMPOSITION and others and finding.severity is not Severity.INFO:
            told.append(replace(finding, remedy=f"As for {others[0].id}: {others[0].remedy}"))
        else:
            told.append(finding)
    return told


def expectation_of(plan: Plan | Expectation | str | PathLike[str] | None, group_size: int | None) -> Expectation | None:
    """What was expected, of whatever `diagnose` takes as a plan."""
    if plan is None or isinstance(plan, Expectation):
        return plan
    if isinstance(plan, str | PathLike):
        return Expectation.load(plan)
    require(plan, Plan, "plan", "Give a plan of plan_group_size, or the file that plan --json wrote.")
    return Expectation.from_plan(plan, group_size=group_size)
