"""What a report is asked for, beside the pilot and the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from grpo_plan.costs import Budget, CostModel
from grpo_plan.pilot import Pilot
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.signal import DEFAULT_KAPPA, KappaRange
from grpo_plan.runs.expectation import Expectation
from grpo_plan.runs.settings import DiagnosisSettings
from grpo_plan.trainers.choice import TrainerRequest

EXAMPLE_PROMPTS = 128
PLAIN_KAPPA = "1:300"
FIT_SIZES = (2, 4, 8, 16, 32, 64)


def assumed_step(prompts: int, trainer: str | None = None) -> str:
    """What is said of a step whose size nothing tells."""
    near = "" if trainer is None or prompts == EXAMPLE_PROMPTS else f" ({trainer} does not take {EXAMPLE_PROMPTS} here)"
    return (
        f"No budget was given: the plan is of one step of {prompts:,} prompts{near}, as an example. Give "
        "--budget-rollouts (or tokens, GPU-hours, USD) and --steps, or --prompts-per-step."
    )


ASSUMED_STEP = assumed_step(EXAMPLE_PROMPTS)


def installed_version() -> str:
    """Version of the package that is installed; "unknown" where it is not."""
    try:
        return metadata.version("grpo-plan")
    except metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, kw_only=True)
class Words:
    """The command line that reads and plans the same, word by word; placeholders where there was none.

    Attributes:
        pilot: Source of the pilot and how to read it.
        several: The same for all temperatures together, for ``temperature``; None where there is one.
        run: Source of the run and how to read it; None without one.
        budget: Budget and costs.
        plan: What else ``plan`` was told, but kappa.
        kappa: As given.
        trainer: Trainer and what its block needs.
        report: The whole command of the report.
    """

    pilot: tuple[str, ...] = ("PILOT",)
    several: tuple[str, ...] | None = None
    run: tuple[str, ...] | None = None
    budget: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    kappa: str = PLAIN_KAPPA
    trainer: tuple[str, ...] = ()
    report: tuple[str, ...] = ("report", "PILOT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input of a report, as provenance shows it; see docs/report.md."""

    name: str
    role: str
    temperature: float | None = None
    files: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    modified: str | None = None
    reader: str | None = None
    rows: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ThresholdPilot:
    """The pilot that another pass threshold gives, and the words that read it."""

    threshold: float
    pilot: Pilot
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReportRequest:
    """Everything that shapes a report; see `build_report` for the meaning of each."""

    main: Pilot | None = None
    budget: Budget | None = None
    cost_of: Callable[[Pilot], CostModel] = field(default=lambda pilot: CostModel())
    objective: str = "signal"
    estimator: str = "grpo"
    kappa: KappaMeasurement | KappaRange | tuple[float, float] | float = DEFAULT_KAPPA
    group_sizes: tuple[int, ...] | None = None
    coherence: float = 0.0
    limits: Mapping[str, float] = field(default_factory=dict)
    level: float = 0.95
    population: str | int = "sample"
    missing: Mapping[str, Any] = field(default_factory=dict)
    trainer: TrainerRequest = field(default_factory=TrainerRequest)
    expectation: Expectation | None = None
    settings: DiagnosisSettings | None = None
    threshold: float | None = None
    thresholds: tuple[ThresholdPilot, ...] = ()
    words: Words | None = None
    sources: tuple[Source, ...] = ()
    version: str = field(default_factory=lambda: installed_version())
    made: datetime = field(default_factory=lambda: datetime.now(UTC))
    title: str | None = None
    aggregates: tuple[int, ...] = ()
    example: bool = False
    own_pilot: bool = False
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> Words:
        """The words of this request."""
        return self.words or Words()
