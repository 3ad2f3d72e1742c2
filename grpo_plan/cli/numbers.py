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
from grpo_plan.batches import CountSummary, EffectiveBatch
from grpo_plan.fitting.comparison import ERRORS, Comparison
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.status import FitStatus
from grpo_plan.readers.independence_reader import IndependenceReport

__all__ = [
    "HUGE",
    "amount",
    "chance",
    "few",
    "few_at_least",
    "plural",
    "rate",
    "short_count",
    "with_interval",
]  # fmt: skip  (words that all commands use)


def marked(text: str, dead: DeadFraction) -> str:
    """A dead fraction with the mark of its status: ``*`` extrapolated, ``!`` beyond reach."""
    marks = {FitStatus.EXTRAPOLATED: "*", FitStatus.BEYOND_REACH: "!"}
    return text + marks.get(dead.status, "")


def dead_json(dead: DeadFraction) -> dict[str, Any]:
    """A dead fraction as in the contract."""
    passes, fails, smooth = dead.all_pass_interval, dead.all_fail_interval, dead.smooth_interval
    return {
        "group_size": dead.group_size,
        "value": dead.value,
        "low": dead.low,
        "high": dead.high,
        "level": dead.level,
        "all_pass": dead.all_pass,
        "all_pass_low": passes[0],
        "all_pass_high": passes[1],
        "all_fail": dead.all_fail,
        "all_fail_low": fails[0],
        "all_fail_high": fails[1],
        "mixed": dead.mixed,
        "iid": dead.iid,
        "plug_in": dead.plug_in,
        "jensen_gap": dead.jensen_gap,
        "identified": list(dead.identified) if dead.identified else None,
        "smooth": list(smooth) if smooth else None,
        "simultaneous": dead.simultaneous,
        "method": dead.method,
        "prompts_used": dead.prompts_used,
        "status": dead.status.name,
    }


def comparison_json(rows: list[Comparison]) -> dict[str, Any]:
    """The usual estimates side by side."""
    return {
        "rows": [
            {
                "group_size": row.group_size,
                "iid": row.iid,
                "plug_in": row.plug_in,
                "jeffreys": row.jeffreys,
                "beta": row.beta,
                "u_statistic": row.u_statistic,
                "default": row.default.value,
                "low": row.default.low,
                "high": row.default.high,
            }
            for row in rows
        ],
        "errors": dict(ERRORS),
    }


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


def summary_json(summary: CountSummary) -> dict[str, float]:
    """A count that varies from step to step."""
    return {
        "mean": summary.mean,
        "sd": summary.sd,
        "p05": summary.p05,
        "p50": summary.p50,
        "p95": summary.p95,
    }


def batch_json(batch: EffectiveBatch) -> dict[str, Any]:
    """An effective batch as in the contract."""
    low, high = batch.mixed_groups_mean_interval or (None, None)
    return {
        "mixed_groups": {**summary_json(batch.mixed_groups), "mean_low": low, "mean_high": high},
        "live_rollouts": summary_json(batch.live_rollouts),
        "dead_batch_probability": batch.dead_batch_probability,
    }
