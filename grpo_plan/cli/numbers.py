"""Numbers for the screen and for JSON."""

from __future__ import annotations

import math
from typing import Any

from grpo_plan.batches import CountSummary, EffectiveBatch
from grpo_plan.fitting.comparison import ERRORS, Comparison
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.status import FitStatus
from grpo_plan.readers.independence_reader import IndependenceReport

HUGE = 10_000_000


def rate(value: float | None) -> str:
    """A share with three decimals; small ones in scientific form; unknown in words.

    >>> rate(0.43921), rate(2e-5), rate(None), rate(0.0)
    ('0.439', '2e-05', 'unknown', '0.000')
    """
    if value is None:
        return "unknown"
    return f"{value:.0e}" if 0.0 < value < 0.0005 else f"{value:.3f}"


def chance(value: float) -> str:
    """A chance; below one in a billion it is only said to be so.

    >>> chance(3e-203), chance(0.25)
    ('<1e-9', '0.250')
    """
    return "<1e-9" if value < 1e-9 else rate(value)


def with_interval(value: float | None, low: float, high: float) -> str:
    """A share with its limits.

    >>> with_interval(0.4392, 0.4113, 0.4674), with_interval(None, 0.2, 1.0)
    ('0.439 [0.411, 0.467]', 'unknown [0.200, 1.000]')
    """
    return f"{rate(value)} [{low:.3f}, {high:.3f}]"


def marked(text: str, dead: DeadFraction) -> str:
    """A dead fraction with the mark of its status: ``*`` extrapolated, ``!`` beyond reach."""
    marks = {FitStatus.EXTRAPOLATED: "*", FitStatus.BEYOND_REACH: "!"}
    return text + marks.get(dead.status, "")


def few(value: float) -> str:
    """A mean count: one decimal below 100, none above.

    >>> few(3.78), few(74.36), few(335.7)
    ('3.8', '74.4', '336')
    """
    return f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"


def short_count(value: float) -> str:
    """A whole number for a table column: in full, or with three digits where it is huge.

    >>> short_count(2000), short_count(7_812_500_000)
    ('2,000', '7.81e9')
    """
    return f"{value:,.0f}" if value < HUGE else f"{value:.2e}".replace("e+0", "e").replace("e+", "e")


def amount(value: float) -> str:
    """A cost: three digits, in full up to ten million.

    >>> amount(23.456), amount(1234.5), amount(2.5e9)
    ('23.5', '1,234', '2.50e9')
    """
    return f"{value:.3g}" if value < 999.5 else short_count(value)


def few_at_least(value: float) -> str:
    """A lower limit of a count, rounded down to the digits shown.

    >>> few_at_least(3.78), few_at_least(335.7)
    ('3.7', '335')
    """
    return f"{math.floor(10 * value) / 10:,.1f}" if value < 100 else f"{math.floor(value):,}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "prompt"), plural(1209, "prompt"), plural(2, "remedy", "remedies")
    ('1 prompt', '1,209 prompts', '2 remedies')
    """
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


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
