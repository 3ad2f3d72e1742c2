"""A cost, and a measured speed, as JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from grpo_plan.costs import Cost
from grpo_plan.throughput import Throughput


def cost_json(cost: Cost, *, of: str, low: Cost | None = None, high: Cost | None = None) -> dict[str, Any]:
    """A cost for JSON: every amount (null where unknown, with the reason), and its ends where the dead fraction enters.

    Args:
        cost: The cost at the value of the dead fraction.
        of: ``"step"`` or ``"run"``.
        low: The same at its lower limit.
        high: At its upper limit.
    """
    names = [f.name for f in fields(cost) if f.name != "missing"]

    def amounts(one: Cost | None) -> dict[str, float | None] | None:
        return None if one is None else {name: getattr(one, name) for name in names}

    return {
        "of": of,
        **{name: getattr(cost, name) for name in names},
        "missing": dict(cost.missing),
        "at_dead_low": amounts(low),
        "at_dead_high": amounts(high),
    }


def throughput_json(speed: Throughput) -> dict[str, Any]:
    """The speed of a logged run for JSON."""
    return {f.name: getattr(speed, f.name) for f in fields(speed)} | {
        "dropped": dict(speed.dropped),
        "notes": list(speed.notes),
    }
