"""A refill from the numbers in a report's tables (theory.md, eq. 52, 53 and 139)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from grpo_plan.report.laws import Waiting

SURE = 0.95
SURPLUS_GRID = 17
Numbers = dict[str, Any]


def refilled(
    dead: Mapping[str, Any], wanted: int, group_size: int, size: int, cap: int | None, steps: int | None
) -> Numbers | None:
    """Rounds, prompts, rollouts, surplus and the chance to hit the cap; None where no step can be filled."""
    if dead["value"] is None or dead["value"] >= 1.0 or dead["low"] >= 1.0:
        return None
    value, low = (_at(end, wanted, group_size, size, cap, steps) for end in (dead["value"], dead["low"]))
    ends = dead["high"] < 1.0
    high = _at(dead["high"], wanted, group_size, size, cap, steps) if ends else None
    least = most = None
    if high is not None:
        width = (dead["high"] - dead["low"]) / (SURPLUS_GRID - 1)
        found = [value["surplus"], low["surplus"], high["surplus"]]
        for i in range(1, SURPLUS_GRID - 1):
            found.append(_surplus(Waiting(wanted, dead["low"] + i * width), size, cap))
        least, most = min(found), max(found)

    def spread(name: str) -> Numbers:
        return {
            **value[name],
            "mean_low": low[name]["mean"], "mean_high": None if high is None else high[name]["mean"],
            "p95_low": low[name]["p95"], "p95_high": None if high is None else high[name]["p95"],
        }  # fmt: skip

    def ends_of(of: Callable[[Numbers], float | None]) -> Numbers | None:
        if of(value) is None:
            return None
        return {"value": of(value), "low": of(low), "high": None if high is None else of(high)}

    one_round = ends_of(lambda at: at["one_by_one"]["p95"])
    return {
        "gen_batch_size": size,
        "batch_multiplier": size / wanted,
        "max_rounds": cap,
        "status": "FILLS" if ends else "MAY_NEVER_FILL",
        "one_by_one": spread("one_by_one"),
        "rounds": spread("rounds"),
        "prompts": spread("prompts"),
        "rollouts": spread("rollouts"),
        "mixed_groups": {
            "value": value["held"], "low": None if high is None else high["held"], "high": low["held"],
        },
        "surplus_mixed_groups": {"value": value["surplus"], "low": least, "high": most},
        "rounds_to_fill": ends_of(lambda at: at["to_fill"]),
        "cap_probability": ends_of(lambda at: at["cap"]),
        "run_cap_probability": ends_of(lambda at: at["run_cap"]),
        "safe_max_rounds": ends_of(lambda at: at["safe"]),
        "one_round": {
            "gen_batch_size": one_round,
            "batch_multiplier": None if one_round is None
            else {end: None if n is None else multiplier_for(int(n), wanted) for end, n in one_round.items()},
        },
    }  # fmt: skip


def multiplier_for(size: int, wanted: int) -> float:
    """Smallest multiplier of two decimals that gives at least this generation batch.

    >>> multiplier_for(246, 128), multiplier_for(60, 128)
    (1.93, 1.0)
    """
    hundredths = max(100, -(-100 * size // wanted))
    while math.floor(hundredths / 100 * wanted) < size:
        hundredths += 1
    return hundredths / 100


def batch_size(wanted: int, multiplier: float | None, size: int | None) -> int:
    """Prompts of a generation batch."""
    if size is not None:
        return size
    return wanted if multiplier is None else math.ceil(multiplier * wanted * (1.0 - 1e-12))


def _drawn(law: Waiting, size: int, cap: int | None) -> tuple[float, float, float, float]:
    """Mean and variance of the rounds, mixed groups held, and surplus."""
    mean, variance = law.rounds(size) if cap is None else law.within(size, cap)
    held = float(law.wanted) if cap is None else law.held(cap * size)
    return mean, variance, held, max(0.0, (1.0 - law.dead) * mean * size - held)


def _surplus(law: Waiting, size: int, cap: int | None) -> float:
    return _drawn(law, size, cap)[3]


def _at(dead: float, wanted: int, group_size: int, size: int, cap: int | None, steps: int | None) -> Numbers:
    law = Waiting(wanted, dead)
    mean, variance, held, surplus = _drawn(law, size, cap)
    most = math.inf if cap is None else float(cap)
    single = {name: float(law.fewest(tail)) for name, tail in (("p05", 0.95), ("p50", 0.5), ("p95", 0.05))}
    rounds = {name: min(most, float(-(-int(t) // size))) for name, t in single.items()}
    tail = 1.0 - SURE if steps is None else -math.expm1(math.log(SURE) / steps)
    fails = None if cap is None else law.beyond(cap * size)
    run_fails = None
    if fails is not None and steps is not None:
        run_fails = 1.0 if fails >= 1.0 else -math.expm1(steps * math.log1p(-fails))
    counts = {"mean": mean, "sd": math.sqrt(variance), **rounds}
    return {
        "one_by_one": {"mean": law.mean, "sd": math.sqrt(law.variance), **single},
        "rounds": counts,
        "prompts": {name: number * size for name, number in counts.items()},
        "rollouts": {name: number * size * group_size for name, number in counts.items()},
        "held": held,
        "surplus": surplus,
        "to_fill": -(-int(single["p95"]) // size),
        "cap": fails,
        "run_cap": run_fails,
        "safe": None if steps is None else -(-law.fewest(tail) // size),
    }
