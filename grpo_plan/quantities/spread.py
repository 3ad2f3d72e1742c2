"""Standard deviations of rewards and sizes of advantages: of a batch or within a group, which logs do not say."""

from __future__ import annotations

import numpy as np

from grpo_plan.quantities.base import Absent, Cause, Floats, Quantity
from grpo_plan.quantities.versions import BATCH_STD_SINCE, version_range
from grpo_plan.quantities.view import RunView

CLOSE = 1e-5  # relative: metrics are averages of float32
ROWS_TO_TELL = 3
WITHIN, BATCH = "group_reward_std", "reward_std"
IN_WORDS = {WITHIN: "the mean of the groups' own standard deviations", BATCH: "the standard deviation of a whole batch"}


def reward_std(name: str, view: RunView) -> Quantity | Absent | None:
    """``reward_std`` of TRL and its relatives as the one or the other quantity; None where it is not logged."""
    values = view.get("reward_std")
    if values is None or view.tool not in ("trl", "ms-swift", None):
        return None
    meaning, because = std_meaning(view)
    logged = view.logged("reward_std")
    if meaning is None:
        reason = (
            "reward_std is the standard deviation of a whole batch since TRL 0.27 and the mean of the groups' own "
            f"before; {because}. The setting trl_version settles it."
        )
        return Absent(name=name, cause=Cause.MEANING_UNKNOWN, reason=reason, metrics=logged)
    if meaning == name:
        return Quantity(
            name=name, values=values, metrics=logged, notes=(f"reward_std is {IN_WORDS[meaning]}: {because}.",)
        )
    reason = f"reward_std is {IN_WORDS[meaning]} here: {because}."
    return Absent(name=name, cause=Cause.NOT_LOGGED, reason=reason, metrics=logged)


def std_meaning(view: RunView) -> tuple[str | None, str]:
    """Which quantity ``reward_std`` is, or None; and what says so."""
    if view.tool == "ms-swift":
        return WITHIN, "ms-swift logs it so"
    low, high, because = version_range(view)
    if low >= BATCH_STD_SINCE:
        return BATCH, because
    if high < BATCH_STD_SINCE:
        return WITHIN, because
    return _by_values(view)


def _by_values(view: RunView) -> tuple[str | None, str]:
    """One reward function: its own batch-wide std is logged beside. All groups dead: the groups' own are 0."""
    found = view.get("reward_std")
    std = np.zeros(view.size) if found is None else found
    functions = view.matching(r"rewards/.+/std")
    if len(functions) == 1:
        beside = np.asarray(view.get(functions[0]))
        both = np.isfinite(std) & np.isfinite(beside)
        a, b = std[both], beside[both]
        told = (a > 0) | (b > 0)
        a, b = a[told], b[told]
        if a.size >= ROWS_TO_TELL:
            if _proportional(a, b):
                return BATCH, f"it equals {functions[0]} at every step"
            return WITHIN, f"it differs from {functions[0]}, which is of the whole batch"
    dead = view.get("frac_reward_zero_std")
    if dead is not None and bool(np.any((dead == 1.0) & (std > CLOSE))):
        return BATCH, "it is above 0 at steps whose groups are all dead"
    return None, "neither its version nor its values tell"


def _proportional(a: Floats, b: Floats) -> bool:
    """Whether two columns differ by one factor only (the weight of the reward function)."""
    if np.any(b <= 0) or np.any(a <= 0):
        return False
    ratio = a / b
    return bool(ratio.max() - ratio.min() <= CLOSE * ratio.max())


def advantage_abs_max(name: str, view: RunView) -> Quantity | None:
    """From the largest and the smallest advantage."""
    for prefix in ("critic/advantages", "advantages"):
        high, low = view.get(f"{prefix}/max"), view.get(f"{prefix}/min")
        if high is not None and low is not None:
            values = np.maximum(np.abs(high), np.abs(low))
            return Quantity(name=name, values=values, metrics=view.logged(f"{prefix}/max", f"{prefix}/min"))
    return None


def all_advantages_zero(view: RunView) -> tuple[Floats, tuple[str, ...]] | None:
    """1 where every advantage of a step is 0, 0 where one is not, NaN where none is logged; and the metrics used.

    Advantages of at most 0 with mean 0 are all 0, so the mean serves where the smallest is not logged.
    """
    for prefix in ("critic/advantages", "advantages"):
        high = view.get(f"{prefix}/max")
        other = view.first(f"{prefix}/min", f"{prefix}/mean")
        beside = None if other is None else view.get(other)
        if high is None or beside is None or other is None:
            continue
        zero = np.where((high == 0) & (beside == 0), 1.0, 0.0)
        zero = np.where(np.isfinite(high) & np.isfinite(beside), zero, np.nan)
        return zero, view.logged(f"{prefix}/max", other)
    return None
