"""Numbers for the screen and for JSON."""

from __future__ import annotations

from typing import Any

from grpo_plan.batches import CountSummary, EffectiveBatch
from grpo_plan.fitting.result import METHODS, DeadFraction


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


def with_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A share with its limits where they are known."""
    return rate(value) if low is None or high is None else f"{rate(value)} [{low:.3f}, {high:.3f}]"


def dead_json(dead: DeadFraction) -> dict[str, Any]:
    """A dead fraction as in the contract."""
    passes, fails = dead.all_pass_interval or (None, None), dead.all_fail_interval or (None, None)
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
        "method": METHODS[dead.method],
        "prompts_used": dead.prompts_used,
        "status": dead.status.name,
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
