"""Numbers for the screen and for JSON."""

from __future__ import annotations

import math
from typing import Any

from grpo_plan._words import (
    HUGE,
    amount,
    chance,
    few,
    few_at_least,
    plural,
    rate,
    short_count,
    with_interval,
)
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.status import FitStatus
from grpo_plan.readers.independence_reader import IndependenceReport

__all__ = [
    "HUGE", "amount", "chance", "checks_json", "few", "few_at_least", "marked", "plural", "rate", "short_count",
    "with_interval",
]  # fmt: skip


def marked(text: str, dead: DeadFraction) -> str:
    """A dead fraction with the mark of its status: ``*`` extrapolated, ``!`` beyond reach."""
    marks = {FitStatus.EXTRAPOLATED: "*", FitStatus.BEYOND_REACH: "!"}
    return text + marks.get(dead.status, "")


def checks_json(report: IndependenceReport) -> dict[str, Any]:
    """The checks of independence."""
    sessions, sequence, duplicates = report.sessions, report.sequence, report.duplicates
    found: dict[str, Any] = {"verdict": report.verdict.name, "sentences": list(report.sentences)}
    made = sessions if sessions is not None else None if sequence is None else sequence.halves
    if made is not None:
        found["sessions"] = {
            "names": list(made.names),
            "correlation": made.correlation,
            "low": made.low,
            "high": made.high,
            "correlation_p": made.correlation_p,
            "design_effect": made.design_effect,
            "effective_rollouts": float(made.effective_rollouts.mean()) if made.effective_rollouts.size else None,
            "drift_p": made.drift_p,
            "shifts": [float(shift) if math.isfinite(shift) else None for shift in made.shifts],
        }
    if sequence is not None:
        found["order"] = {
            "neighbour_correlation": sequence.neighbour_correlation,
            "low": sequence.low,
            "high": sequence.high,
            "neighbour_p": sequence.neighbour_p,
            "design_effect": sequence.design_effect,
        }
    if duplicates is not None:
        found["duplicates"] = {
            "rollouts": duplicates.rollouts,
            "repeats": duplicates.repeats,
            "prompts": duplicates.prompts,
            "prompts_with_repeats": duplicates.prompts_with_repeats,
        }
    return found
