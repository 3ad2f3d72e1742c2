"""Advantages that no baseline and scale give: focal weights, a virtual best reward, best of k, weighted signs.

Each takes rewards of shape (N, G) with NaN for failed scoring and gives advantages of the same shape (theory.md,
eq. 108).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from grpo_plan._binomial import choose_ratio
from grpo_plan.errors import DomainError
from grpo_plan.estimators.arithmetic import divided, from_lowest, row_mean, row_std
from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.rewards import Floats

Settings = Mapping[str, float]
BLOCK = 1 << 18  # rollouts at a time: what is held beside them stays small


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
    n = (~np.isnan(rewards)).sum(axis=1)
    out = np.where(np.isnan(rewards), np.nan, 0.0)
    for scored in (int(x) for x in np.unique(n[n >= k])):
        weights = _choices(scored, k)
        of_size = np.flatnonzero(n == scored)
        step = max(1, BLOCK // size)
        for start in range(0, of_size.size, step):
            rows = of_size[start : start + step]
            out[rows] = _best_of_block(rewards[rows], scored, k, weights, _scaling(convention))
    return out


def _best_of_block(x: Floats, n: int, k: int, weights: tuple[Floats, Floats, Floats], scaling: Scaling) -> Floats:
    """Groups with n scored rollouts each, at least k."""
    any_choice, own, other = weights
    order = np.argsort(x, axis=1, kind="stable")  # NaN last
    v = np.take_along_axis(x, order, axis=1)[:, :n]
    v = v - v[:, -1:]  # from the best, so that a tiny chance to miss it is not lost in 1
    mean = (any_choice * v).sum(axis=1)[:, None]
    std = np.sqrt((any_choice * (v - mean) ** 2).sum(axis=1))[:, None]
    same = v[:, k - 1 : k] >= 0.0  # no choice of k misses the best: exactly 0
    larger = other * v
    above = larger[:, ::-1].cumsum(axis=1)[:, ::-1] - larger
    out = np.full(x.shape, np.nan)
    gain = divided(own * v + above - mean, np.where(same, 0.0, std), scaling)
    np.put_along_axis(out, order[:, :n], gain, axis=1)
    return out


def _choices(n: int, k: int) -> tuple[Floats, Floats, Floats]:
    """Chances by rank j of n rollouts, each shape (n,): the j-th smallest is the best of k.

    Of any k; of k that hold it; of k that hold one given smaller one. They are C(j, k - 1) / C(n, k),
    C(j, k - 1) / C(n - 1, k - 1) and C(j - 1, k - 2) / C(n - 1, k - 1), as products of ratios that cannot overflow.

    >>> [x.round(4).tolist() for x in _choices(3, 2)]
    [[0.0, 0.3333, 0.6667], [0.0, 0.5, 1.0], [0.0, 0.5, 0.5]]
    """
    j = np.arange(n, dtype=np.float64)
    own = choose_ratio(j, n - 1, k - 1)
    other = own * (k - 1.0) / np.maximum(j, 1.0)
    return own * k / n, own, other


def weighted_sign(rewards: Floats, unit: Floats, convention: Convention, settings: Settings) -> Floats:
    """``positive_weight`` for a pass and -1 for a fail."""
    return (settings["positive_weight"] + 1.0) * unit - 1.0
