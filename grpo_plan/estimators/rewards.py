"""Rewards of groups as they come, checked: ragged groups, several reward functions, failed scoring, and the kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import MAX_COUNT, as_float_array, as_positive
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
LARGEST_REWARD = 1e100
MIXED, ALL_PASS, ALL_FAIL, DEAD, UNSCORED = KINDS = ("mixed", "all_pass", "all_fail", "dead", "unscored")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupRewards:
    """Checked rewards.

    Attributes:
        by_function: Shape (N, G, R): group, rollout, reward function; NaN where it gave none.
        present: Which rollouts there are, shape (N, G); False is padding of a shorter group.
    """

    by_function: Floats
    present: Flags

    def combined(self, weights: Floats, *, ignored: bool) -> Floats:
        """Weighted sum over the reward functions, shape (N, G); NaN for a failed rollout and for padding.

        Args:
            weights: One a reward function.
            ignored: Whether a function without a reward counts 0 while another one has a reward.
        """
        if self.by_function.shape[2] == 1:
            alone: Floats = self.by_function[:, :, 0] * weights[0]
            return alone
        weighted = self.by_function * weights
        if not ignored:
            summed: Floats = weighted.sum(axis=2)
            return summed
        unscored = np.isnan(weighted).all(axis=2)
        return np.where(unscored, np.nan, np.nansum(weighted, axis=2))


def as_group_rewards(rewards: Any) -> GroupRewards:
    """Rewards of shape (N, G) or (N, G, R), of one group (G,), or groups of several sizes as a list of lists.

    Raises:
        DomainError: They have another shape, are no numbers, infinite, or there are none.

    >>> as_group_rewards([[1, 0, None], [0, 1]]).present.tolist()
    [[True, True, True], [True, True, False]]
    """
    array, present = _stacked(rewards)
    if array.ndim == 1:
        array, present = array[None], present[None]
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise DomainError(
            f"rewards must have shape (N, G) or (N, G, R); got {array.ndim} axes. "
            "One row a group, one column a rollout."
        )
    if array.size == 0:
        raise DomainError("rewards must hold at least one rollout; got none. Give one row a group.")
    bad = ~np.isnan(array) & ~(np.abs(array) <= LARGEST_REWARD)
    if bad.any():
        group, rollout, _ = (int(i) for i in np.argwhere(bad)[0])
        value = array[bad][0]
        rule = "finite" if np.isinf(value) else f"at most {LARGEST_REWARD:g} in size"
        raise DomainError(
            f"rewards must be {rule}; got {value:g} at group {group}, rollout {rollout}. "
            "NaN or None marks failed scoring."
        )
    return GroupRewards(by_function=array, present=present)


def _stacked(rewards: Any, name: str = "rewards") -> tuple[Floats, Flags]:
    """One array, and which rollouts there are: shorter groups are padded with NaN."""
    if isinstance(rewards, list | tuple) and rewards and all(hasattr(g, "__len__") for g in rewards):
        try:
            sizes = {len(group) for group in rewards}
        except TypeError:  # arrays without an axis
            sizes = set()
        if len(sizes) > 1:
            return _padded([as_float_array(group, name) for group in rewards], name)
    array = as_float_array(rewards, name)
    return array, np.ones(array.shape[:2], dtype=bool)


def _padded(groups: list[Floats], name: str) -> tuple[Floats, Flags]:
    filled = [g for g in groups if g.size]
    shapes = {g.shape[1:] for g in filled}
    if len(shapes) > 1 or any(g.ndim not in (1, 2) for g in filled):
        raise DomainError(
            f"{name}: each group must be a list of numbers, or of equally many numbers for each rollout. Write nan or "
            "None where one is missing."
        )
    rest = shapes.pop() if shapes else ()
    size = max(g.shape[0] for g in groups)
    array = np.full((len(groups), size, *rest), np.nan)
    present = np.zeros((len(groups), size), dtype=bool)
    for i, group in enumerate(groups):
        if group.size:
            array[i, : group.shape[0]] = group
            present[i, : group.shape[0]] = True
    return array, present


def as_weights(weights: Any, functions: int) -> Floats:
    """Weights of the reward functions, shape (R,); 1 each if not given."""
    if weights is None:
        return np.ones(functions)
    array = np.atleast_1d(as_float_array(weights, "weights"))
    if array.shape != (functions,):
        raise DomainError(
            f"weights must be one number for each of the {functions} reward functions; got shape {array.shape}. "
            "Leave weights= out for 1 each."
        )
    for i, weight in enumerate(array.tolist()):
        if not abs(weight) <= LARGEST_REWARD:
            rule = f"at most {LARGEST_REWARD:g} in size" if np.isfinite(weight) else "finite"
            raise DomainError(f"weights must be {rule}; got {weight:g} at reward function {i}. Scale all weights down.")
    return array


def as_response_lengths(lengths: Any, present: Flags) -> Floats:
    """Tokens of each response, shape (N, G): numbers from 0 to 1e12 where there is a rollout, 0 elsewhere.

    Raises:
        DomainError: They are no such numbers, or have another shape than the rewards.
    """
    array, _ = _stacked(lengths, "lengths")
    if array.ndim == 1:
        array = array[None]
    if array.shape != present.shape:
        raise DomainError(
            f"lengths must be one number for each rollout, shape {present.shape}; got shape {array.shape}. "
            "Give them in the shape of the rewards."
        )
    with np.errstate(invalid="ignore"):
        bad = present & ~((array >= 0) & (array <= MAX_COUNT))
    if bad.any():
        group, rollout = (int(i) for i in np.argwhere(bad)[0])
        raise DomainError(
            f"lengths must be numbers of tokens from 0 to {MAX_COUNT:.0e}; got {array[group, rollout]:g} at group "
            f"{group}, rollout {rollout}. Leave out a response of unknown length, or leave lengths= out."
        )
    return np.where(present, array, 0.0)


def spreads(values: Floats) -> Floats:
    """Largest minus smallest value along the last axis, NaN left out; NaN where nothing is left."""
    found: Floats = np.fmax.reduce(values, axis=-1) - np.fmin.reduce(values, axis=-1)
    return found


def equalised(values: Floats, tolerance: float) -> Floats:
    """Values of shape (N, G, R) where those of a group that lie within the tolerance are all its lowest one."""
    if values.shape[2] == 1:  # the same along the last axis, which is far quicker
        with np.errstate(invalid="ignore"):
            apart = spreads(values[:, :, 0]) > tolerance
        low = np.fmin.reduce(values[:, :, 0], axis=1)
        same = np.where(np.isnan(values[:, :, 0]), np.nan, low[:, None])
        return np.where(apart[:, None], values[:, :, 0], same)[:, :, None]
    known = ~np.isnan(values)
    low = np.where(known, values, np.inf).min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        equal = np.where(known, values, -np.inf).max(axis=1, keepdims=True) - low <= tolerance
    return np.where(known & equal, low, values)


def as_tolerance(tolerance: object) -> float:
    """Distance at which two rewards count as equal."""
    return as_positive(tolerance, "tolerance", allow_zero=True)


def passes(combined: Floats, tolerance: float, pass_threshold: float | None) -> Flags | None:
    """Which scored rollouts pass, shape (N, G); None where it is not known: not all are 0 or 1 and no threshold."""
    if pass_threshold is not None:
        above: Flags = np.asarray(combined >= pass_threshold)
        return above
    known = combined[~np.isnan(combined)]
    zero_one = np.minimum(np.abs(known), np.abs(known - 1.0)) <= min(tolerance, 0.25)
    return np.asarray(combined > 0.5) if zero_one.all() else None


def group_kinds(combined: Floats, dead: Flags, passed: Flags | None) -> NDArray[np.str_]:
    """Kind of each group, shape (N,): mixed, all_pass, all_fail, dead (equal rewards, neither) or unscored.

    Args:
        combined: Rewards, NaN for failed scoring, shape (N, G).
        dead: Which groups have equal rewards, or rewards of several functions that cancel, shape (N,).
        passed: Which rollouts pass, shape (N, G), or None.
    """
    scored = ~np.isnan(combined)
    n = scored.sum(axis=1)
    kinds = np.where(dead, DEAD, MIXED).astype(f"<U{max(map(len, KINDS))}")
    if passed is not None:
        k = (passed & scored).sum(axis=1)
        kinds[dead & (k == n)] = ALL_PASS
        kinds[dead & (k == 0)] = ALL_FAIL
    kinds[n < 2] = UNSCORED
    return kinds
