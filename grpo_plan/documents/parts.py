"""Parts that several documents share: dead fractions, counts, comparisons."""

from __future__ import annotations

from typing import Any

from grpo_plan.batches import CountSummary, EffectiveBatch
from grpo_plan.fitting.comparison import ERRORS, Comparison
from grpo_plan.fitting.estimates import DeadFraction


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
