"""What the rollouts of each step add up to: quantities of a run that its groups tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import GroupLog

Floats = NDArray[np.float64]
Counted = tuple[Floats, tuple[str, ...]]
COUNTED = frozenset(
    ("truncated_fraction", "failed_fraction", "response_tokens_mean", "group_reward_std", "reward_std", "reward_mean")
)
LOGGED_FIRST = frozenset(("reward_mean", "failed_fraction"))  # a log says it of what the rollouts may not hold
WRITE_FAILURES = frozenset(("trl", "verifiers", "verifiers-v0", "inspect", "slime"))  # a failed reward is no number
BESSEL = "Squares are divided by their number less 1."


def counted_by_step(groups: GroupLog, name: str) -> Counted | None:
    """A quantity at each step that has groups, in rising order of steps.

    Args:
        groups: The groups, all of them.
        name: One of `COUNTED`.

    Returns:
        Values, shape (S,), NaN where the groups of a step do not tell it, and what to know of them; None where no step
        has a value.

    >>> groups = GroupLog(
    ...     step=np.array([1, 1]), prompt_id=np.array(["a", "b"], dtype=object), rollouts=np.array([2, 2]),
    ...     scored=np.array([2, 2]), reward_min=np.zeros(2), reward_max=np.array([1.0, 0.0]),
    ...     reward_mean=np.array([0.5, 0.0]), reward_var=np.array([0.25, 0.0]), truncated=np.array([1, 2]),
    ... )
    >>> counted_by_step(groups, "truncated_fraction"), counted_by_step(groups, "reward_std")[0].tolist()
    ((array([0.75]), ()), [0.5])
    """
    _, index = np.unique(groups.step, return_inverse=True)
    with np.errstate(over="ignore", invalid="ignore"):
        found = _RULES[name](groups, index)
    if found is None or not np.isfinite(found[0]).any():
        return None
    return np.where(np.isfinite(found[0]), found[0], np.nan), found[1]  # not finite: rewards near the largest float


def _sum(index: NDArray[np.intp], weights: NDArray[np.generic]) -> Floats:
    return np.bincount(index, weights=weights.astype(np.float64)).astype(np.float64)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _truncated(groups: GroupLog, index: NDArray[np.intp]) -> Counted | None:
    if groups.truncated is None:
        return None
    unknown = _sum(index, groups.truncated < 0)
    share = _ratio(_sum(index, np.maximum(groups.truncated, 0)), _sum(index, groups.rollouts))
    lost = int((unknown > 0).sum())
    notes = (f"At {lost:,} steps it is not known of every rollout.",) if lost else ()
    return np.where(unknown > 0, np.nan, share), notes


def _failed(groups: GroupLog, index: NDArray[np.intp]) -> Counted | None:
    if not groups.failed.any() and groups.provenance.format not in WRITE_FAILURES:
        return None  # a failed reward may be written as 0
    return _ratio(_sum(index, groups.failed), _sum(index, groups.rollouts)), ("Rollouts without a reward are failed.",)


def _tokens(groups: GroupLog, index: NDArray[np.intp]) -> Counted | None:
    if groups.response_tokens is None or groups.measured is None:
        return None
    lost = int((groups.rollouts - groups.measured).sum())
    notes = (f"{lost:,} rollouts have no length and are left out.",) if lost else ()
    total = np.where(groups.measured > 0, groups.measured * np.nan_to_num(groups.response_tokens), 0.0)
    return _ratio(_sum(index, total), _sum(index, groups.measured)), notes


def _reward_mean(groups: GroupLog, index: NDArray[np.intp]) -> Counted:
    total = np.where(groups.scored > 0, groups.scored * np.nan_to_num(groups.reward_mean), 0.0)
    return _ratio(_sum(index, total), _sum(index, groups.scored)), ()


def _group_std(groups: GroupLog, index: NDArray[np.intp]) -> Counted | None:
    """Mean over groups of the standard deviation within one, of those with two or more scored rollouts."""
    if groups.reward_var is None:
        return None
    several = groups.scored >= 2
    var = np.where(several, groups.reward_var * groups.scored / np.maximum(groups.scored - 1, 1), 0.0)
    lost = int((~several).sum())
    alone = (f"{lost:,} groups with fewer than two scored rollouts are left out.",) if lost else ()
    return _ratio(_sum(index, np.sqrt(var)), _sum(index, several)), (BESSEL, *alone)


def _batch_std(groups: GroupLog, index: NDArray[np.intp]) -> Counted | None:
    """Standard deviation of all rewards of a step: within the groups and between their means."""
    if groups.reward_var is None:
        return None
    mean = _reward_mean(groups, index)[0][index]
    apart = groups.reward_var + (groups.reward_mean - mean) ** 2
    total = _sum(index, np.where(groups.scored > 0, groups.scored * apart, 0.0))
    return np.sqrt(_ratio(total, _sum(index, groups.scored) - 1.0)), (BESSEL,)


_RULES = {
    "truncated_fraction": _truncated,
    "failed_fraction": _failed,
    "response_tokens_mean": _tokens,
    "reward_mean": _reward_mean,
    "group_reward_std": _group_std,
    "reward_std": _batch_std,
}
