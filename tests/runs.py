"""Runs and plans made by hand, for tests of the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grpo_plan.run_log import RunLog
from grpo_plan.runs.expectation import Expectation

TINKER = {
    "mixed": "env/all/by_group/frac_mixed",
    "all_pass": "env/all/by_group/frac_all_good",
    "all_fail": "env/all/by_group/frac_all_bad",
    "reward": "env/all/reward/total",
}
TRL = {"dead": "frac_reward_zero_std", "reward": "reward", "reward_std": "reward_std"}


def run_of(tool: str, columns: Mapping[str, Any], *, steps: Any = None, **more: Any) -> RunLog:
    """A run with the names of a tool; columns by our short names or by theirs."""
    names = {"tinker": TINKER, "trl": TRL}.get(tool, {})
    metrics = {names.get(name, name): np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    size = len(next(iter(metrics.values())))
    given = np.arange(1, size + 1) if steps is None else np.asarray(steps)
    return RunLog(steps=given, metrics=metrics, format="table", source="made by hand", tool=tool, **more)


def composed(fail: Any, passes: Any, *, group_size: int = 8, reward: Any = None, **more: Any) -> RunLog:
    """A run of tinker with these shares of groups that all fail and all pass; half of the others passes."""
    fail, passes = np.asarray(fail, dtype=float), np.asarray(passes, dtype=float)
    mean = passes + 0.5 * (1.0 - fail - passes) if reward is None else reward
    columns = {"mixed": 1.0 - fail - passes, "all_pass": passes, "all_fail": fail, "reward": mean}
    return run_of("tinker", columns, group_size=group_size, **more)


def plan_body(
    group_size: int = 8,
    dead: tuple[float, float, float] = (0.5, 0.45, 0.55),
    fail: Any = (0.3, 0.26, 0.34),
    passes: Any = (0.2, 0.17, 0.24),
    level: float = 0.95,
    prompts_per_step: int = 32,
) -> dict[str, Any]:
    """What ``plan --json`` prints, as far as a diagnosis reads it."""
    row = {"group_size": group_size, "value": dead[0], "low": dead[1], "high": dead[2], "level": level}
    for name, part in (("all_fail", fail), ("all_pass", passes)):
        row |= {name: part[0], f"{name}_low": part[1], f"{name}_high": part[2]}
    design = {
        "group_size": group_size, "prompts_per_step": prompts_per_step, "dead": row,
        "effective_batch": {"mixed_groups": {"p05": 12.0, "p95": 20.0}},
    }  # fmt: skip
    mean = {"value": 0.45, "low": 0.42, "high": 0.48, "level": level}
    return {
        "schema": 1, "command": "plan", "recommended": design, "frontier": [design], "pilot": {"mean_pass_rate": mean}
    }  # fmt: skip


def expectation(**given: Any) -> Expectation:
    """A plan for groups of 8: half of them dead, three fifths of those all-fail."""
    return Expectation.from_json(plan_body(**given))
