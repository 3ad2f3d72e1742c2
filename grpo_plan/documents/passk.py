"""The body of ``passk --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_plan.documents.pilots import model_json, pilot_json

if TYPE_CHECKING:
    from grpo_plan.fitting.intervals import Interval
    from grpo_plan.fitting.paired import Difference
    from grpo_plan.passk import PassComparison, PassCurve, PassDifference, PassPoint, PassTail, Turnover


def curve_json(curve: PassCurve, tail: PassTail | None) -> dict[str, Any]:
    """A curve and its tail."""
    return {
        "points": [_point(point) for point in curve.points],
        "counted_k": curve.counted_k,
        "level": curve.level,
        "tail": None if tail is None else tail_json(tail),
        "pilot": pilot_json(curve.fit, curve.level),
        "model": model_json(curve.fit),
    }


def _point(point: PassPoint) -> dict[str, Any]:
    return {
        "k": point.k,
        "value": point.value,
        "low": point.low,
        "high": point.high,
        "identified": None if point.identified is None else list(point.identified),
        "all_pass": point.all_pass,
        "all_pass_low": point.all_pass_low,
        "all_pass_high": point.all_pass_high,
        "counted": point.counted,
        "prompts_used": point.prompts_used,
        "method": point.method,
        "status": point.status.name,
    }


def tail_json(tail: PassTail) -> dict[str, Any]:
    """How the unsolved share falls."""
    halving = tail.halving_factor
    return {
        "status": tail.status.name,
        "reason": tail.reason or None,
        "exponent": tail.exponent,
        "exponent_low": tail.low,
        "exponent_high": tail.high,
        "halving_factor": None if halving is None else dict(zip(("value", "low", "high"), halving, strict=True)),
        "floor": tail.floor,
        "floor_low": tail.floor_low,
        "floor_high": tail.floor_high,
        "never_high": tail.never_high,
        "likelihood_ratio": tail.likelihood_ratio,
        "local": [
            {"k": e.k, "exponent": e.value, "low": e.low, "high": e.high, "counted": e.counted} for e in tail.local
        ],
    }


def comparison_json(found: PassComparison) -> dict[str, Any]:
    """Two policies."""
    crossing = found.crossing
    return {
        "verdict": found.verdict.name,
        "reason": found.reason,
        "paired": found.paired,
        "prompts": found.prompts,
        "only_before": found.only_before,
        "only_after": found.only_after,
        "level": found.level,
        "margin": found.margin,
        "differences": [_difference(d) for d in found.differences],
        "crossing": {
            "status": crossing.status.name,
            "k": crossing.value,
            "low": crossing.low,
            "high": crossing.high,
        },
        "turnover": None if found.turnover is None else _turnover(found.turnover),
        "before": curve_json(found.before, None),
        "after": curve_json(found.after, None),
        "notes": list(found.notes),
        "assumptions": list(found.assumptions),
    }


def _limits(shown: Interval | Difference) -> dict[str, float]:
    return {"value": shown.value, "low": shown.low, "high": shown.high}


def _difference(d: PassDifference) -> dict[str, Any]:
    return {
        "k": d.k,
        "value": d.value,
        "low": d.low,
        "high": d.high,
        "counted": d.counted,
        "prompts": d.prompts,
        "all_pass": None if d.all_pass is None else _limits(d.all_pass),
        "status": d.status.name,
    }


def _turnover(t: Turnover) -> dict[str, Any]:
    return {
        "k": t.k,
        "gained_seen": _limits(t.gained_seen),
        "lost_seen": _limits(t.lost_seen),
        "by_chance": t.by_chance,
        "gained": _limits(t.gained),
        "gained_shown": t.gained.low > 0.0,
        "lost": _limits(t.lost),
        "lost_shown": t.lost.low > 0.0,
        "zero_before": t.zero_before,
        "zero_before_pass_after": t.zero_before_pass_after,
        "zero_after": t.zero_after,
        "pass_before_zero_after": t.pass_before_zero_after,
    }
