"""Advantages that no baseline and scale give: focal weights, a virtual best reward, best of k, weighted signs.

Each takes rewards of shape (N, G) with NaN for failed scoring and gives advantages of the same shape (theory.md,
eq. 108).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from grpo_plan.errors import DomainError
from grpo_plan.estimators.arithmetic import divided, from_lowest, row_mean, row_std
from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.rewards import Floats

Settings = Mapping[str, float]


def _scaling(convention: Convention) -> Scaling:
    """The scaling of a convention that has one, as all have that are used here."""
    return convention.scaling or Scaling(ddof=0, eps=0.0)


def focal(rewards: Floats, unit: Floats, convention: Convention, settings: Settings) -> Floats:
    """Standardised advantages times ``(1 - mean)**gamma``, the mean being that of rewards in [0, 1]."""
    weight = np.maximum(1.0 - row_mean(unit)[:, None], 0.0) ** settings["gamma"]
    scaling = _scaling(convention)
    centred = from_lowest(rewards)
    centred = centred - row_mean(centred)[:, None]
    return np.where(
        np.isnan(rewards), np.nan, weight * divided(centred, row_std(rewards, scaling.ddof)[:, None], scaling)
    )


def virtual_best(rewards: Floats, unit: Floats, convention: Convention, settings: Settings) -> Floats:
    """Standardised advantages, mean and std being those of the group with one more reward, the best there is."""
    best = settings["best_reward"]
    above = rewards > best
    if above.any():
        group, rollout = (int(i) for i in np.argwhere(above)[0])
        value = rewards[group, rollout]
        raise DomainError(
            f"best_reward must be the largest reward there is; got {best:g}, and {value:g} at group {group}, rollout "
            f"{rollout}. Pass best_reward={value:g} or more."
        )
    more = np.concatenate([rewards, np.full((rewards.shape[0], 1), best)], axis=1)
    scaling = _scaling(convention)
    centred = from_lowest(more)
    centred = (centred - row_mean(centred)[:, None])[:, :-1]
    return divided(centred, row_std(more, scaling.ddof)[:, None], scaling)


def best_of_k(rewards: Floats, unit: Floats, convention: Convention, settings: Settings) -> Floats:
    """Standardised best reward of k rollouts, averaged over the choices of k that hold the rollout.

    Mean and std are those of the best reward over all choices of k of the scored rollouts; 0 in a group with fewer.
    """
    k = int(settings["k"])
    size = rewards.shape[1]
    if k >= size:
        raise DomainError(f"passk: k must be below the group size {size}; got {k}. Pass a smaller k.")
    order = np.argsort(rewards, axis=1, kind="stable")  # NaN last
    held = np.take_along_axis(rewards, order, axis=1)
    held = held - held[:, :1]
    n = (~np.isnan(rewards)).sum(axis=1)
    any_choice, own, other = _choices(size, k)
    v = np.nan_to_num(held)
    mean = (any_choice[n] * v).sum(axis=1)[:, None]
    std = np.sqrt((any_choice[n] * (v - mean) ** 2).sum(axis=1))[:, None]
    same = v[:, k - 1 : k] >= v.max(axis=1, keepdims=True)  # no choice of k misses the best: exactly 0
    larger = other[n] * v
    above = larger[:, ::-1].cumsum(axis=1)[:, ::-1] - larger
    gain = np.where(np.isnan(held), np.nan, own[n] * v + above - mean)
    values = divided(gain, np.where(same, 0.0, std), _scaling(convention))
    out = np.empty_like(values)
    np.put_along_axis(out, order, values, axis=1)
    return np.where((n >= k)[:, None] | np.isnan(out), out, 0.0)


def _choices(size: int, k: int) -> tuple[Floats, Floats, Floats]:
    """Chances by number scored n and rank j, each shape (size + 1, size): the j-th smallest is the best of k.

    Of any k; of k that hold it; of k that hold one given smaller one.
    """
    any_choice, own, other = (np.zeros((size + 1, size)) for _ in range(3))
    for n in range(k, size + 1):
        for j in range(n):  # j smaller ones
            any_choice[n, j] = math.comb(j, k - 1) / math.comb(n, k)
            own[n, j] = math.comb(j, k - 1) / math.comb(n - 1, k - 1)
            other[n, j] = math.comb(j - 1, k - 2) / math.comb(n - 1, k - 1) if j and k > 1 else 0.0
    return any_choice, own, other


def weighted_sign(rewards: Floats, unit: Floats, convention: Convention, settings: Settings) -> Floats:
    """``positive_weight`` for a pass and -1 for a fail."""
    return (settings["positive_weight"] + 1.0) * unit - 1.0
