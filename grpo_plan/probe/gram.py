"""Squared norms of RLOO gradients of all sub-groups, from the inner products of the scores of one group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
SMALLEST_GROUP = 4  # two pairs without a rollout in common


def rloo_weights(rewards: ArrayLike) -> Floats:
    """Weights ``w`` with which the scores add up to the RLOO estimate: ``sum_i w_i s_i``, shape as the rewards.

    ``w_i = (r_i - mean of the others) / G = (r_i - rbar) / (G - 1)``.

    >>> rloo_weights([1.0, 0.0, 0.0]).round(3).tolist()
    [0.333, -0.167, -0.167]
    """
    r = as_float_array(rewards, "rewards")
    weights: Floats = (r - r.mean(axis=-1, keepdims=True)) / (r.shape[-1] - 1)
    return weights


def pair_products(gram: ArrayLike, rewards: ArrayLike) -> Floats:
    """Mean inner products of two pair estimates with 0, 1 and 2 rollouts in common (theory.md, eq. 50).

    Args:
        gram: Inner products of the score gradients of the rollouts of one prompt, shape (..., n, n).
        rewards: Their rewards, shape (..., n), n at least 4.

    Returns:
        Shape (..., 3). The first is unbiased for the squared norm of the prompt's own gradient.

    >>> pair_products(np.eye(4), [1.0, 1.0, 0.0, 0.0]).round(4).tolist()
    [0.0, 0.0833, 0.3333]
    """
    k, r = as_float_array(gram, "gram"), as_float_array(rewards, "rewards")
    n = r.shape[-1] if r.ndim else 0
    if n < SMALLEST_GROUP:
        raise DomainError(f"a group needs at least {SMALLEST_GROUP} rollouts; got {n}.")
    if k.shape[-2:] != (n, n):
        raise DomainError(f"gram must have shape (..., {n}, {n}) to go with {n} rewards; got {k.shape}.")
    r = r - r.mean(axis=-1, keepdims=True)
    diagonal = np.diagonal(k, axis1=-2, axis2=-1)
    towards = np.einsum("...ij,...j->...i", k, r)  # <s_i, sum_j r_j s_j>
    total = np.einsum("...i,...i->...", r, towards)  # |sum_j r_j s_j|^2
    rows = k.sum(axis=-1)  # <s_i, sum_j s_j>
    everything = rows.sum(axis=-1)
    crossed = towards.sum(axis=-1)  # <sum_j s_j, sum_j r_j s_j>
    # H_i = sum_j (r_i - r_j)(s_i - s_j) / 2 = (n r_i s_i - r_i S + V) / 2, with the r_j adding up to 0
    per_rollout = (
        n * n * r**2 * diagonal
        + r**2 * everything[..., None]
        + total[..., None]
        - 2 * n * r**2 * rows
        + 2 * n * r * towards
        - 2 * r * crossed[..., None]
    ) / 4.0
    squares = per_rollout.sum(axis=-1)
    gaps = (r[..., :, None] - r[..., None, :]) ** 2
    lengths = diagonal[..., :, None] + diagonal[..., None, :] - 2 * k
    same = (gaps * lengths).sum(axis=(-2, -1)) / 4.0  # sum over ordered pairs of |h_ij|^2
    pairs = n * (n - 1)
    two = same / pairs
    one = (squares - same) / (pairs * (n - 2))
    whole = n * n * total  # |sum over ordered pairs of h_ij|^2 = |n V|^2
    none = (whole - 4 * pairs * (n - 2) * one - 2 * same) / (pairs * (n - 2) * (n - 3))
    return np.stack([none, one, two], axis=-1)


def subgroup_squared_norms(gram: ArrayLike, rewards: ArrayLike, group_sizes: Sequence[int]) -> Floats:
    """Mean squared norm of the RLOO estimate over all sub-groups of each size (theory.md, eq. 50).

    No sub-group is drawn: the mean over all ``C(n, m)`` of them is a sum over the Gram matrix. It is unbiased for the
    mean squared norm of a fresh group of m rollouts.

    Args:
        gram: Inner products of the score gradients, shape (..., n, n).
        rewards: Rewards, shape (..., n); any finite numbers.
        group_sizes: Sizes m, each at least 2. Above n the value is still unbiased, but can be negative.

    Returns:
        Shape (..., number of sizes), in squared units of the gradient of a log-probability times the reward.

    >>> subgroup_squared_norms(np.eye(4), [1.0, 1.0, 0.0, 0.0], (2, 4)).round(4).tolist()
    [0.3333, 0.1111]
    """
    products = pair_products(gram, rewards)
    values = []
    for size in group_sizes:
        m = as_count(size, "group_size", minimum=2)
        shares = np.array([(m - 2) * (m - 3), 4 * (m - 2), 2]) / (m * (m - 1))
        values.append(products @ shares)
    return np.stack(values, axis=-1)
