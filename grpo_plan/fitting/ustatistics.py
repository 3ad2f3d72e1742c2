"""Unbiased estimates for G <= n: every subgroup of G among the n rollouts of a prompt (theory.md, section 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_group_size, as_one_group_size
from grpo_plan.errors import DomainError
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
BLOCK_ENTRIES = 1_000_000
USABLE_SHARE = 0.2  # of the prompts must have n >= G for G to count as measured
COUNTED_SHARE = 0.8  # of the prompts must have n >= G for their subgroups to answer for all prompts


def subgroup_all_pass(successes: ArrayLike, rollouts: ArrayLike, group_size: int) -> Floats:
    """``C(k, G) / C(n, G)``: share of the subgroups of G in which all pass (theory.md, eq. 15).

    Args:
        successes: k, shape (C,), whole numbers.
        rollouts: n, shape (C,), each at least G.
        group_size: G, at least 1.

    Returns:
        Shape (C,), in [0, 1]; unbiased for ``p**G``.

    Raises:
        DomainError: Some n is smaller than G (nothing is unbiased there).

    >>> subgroup_all_pass([2, 1], [4, 4], 2).round(6).tolist()
    [0.166667, 0.0]
    """
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(rollouts, dtype=np.float64))
    g = as_one_group_size(group_size)
    if np.any(n < g):
        raise DomainError(f"rollouts must be at least group_size = {g}; got {int(n.min())}. Use a fit beyond n.")
    # prod_{j<G} (k - j)/(n - j), or by symmetry prod_{j<n-k} (n - G - j)/(n - j): the shorter of the two
    value = np.ones(k.shape)
    top, steps = (k, g) if g <= np.max(n - k, initial=0.0) else (n - g, int(np.max(n - k, initial=0.0)))
    limit = np.full(k.shape, g, dtype=np.float64) if top is k else n - k
    block = max(1, BLOCK_ENTRIES // max(1, k.size))
    for start in range(0, steps, block):
        j = np.arange(float(start), float(min(start + block, steps)))
        factors = np.maximum(top[..., None] - j, 0.0) / np.maximum(n[..., None] - j, 1.0)
        value = value * np.prod(np.where(j < limit[..., None], factors, 1.0), axis=-1)
    return value


def subgroup_all_fail(successes: ArrayLike, rollouts: ArrayLike, group_size: int) -> Floats:
    """``C(n - k, G) / C(n, G)``: share of the subgroups of G in which all fail (theory.md, eq. 15).

    Args, returns and errors as in `subgroup_all_pass`.

    >>> subgroup_all_fail([1], [8], 4).tolist()
    [0.5]
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(rollouts, dtype=np.float64)
    return subgroup_all_pass(n - k, n, group_size)


def subgroup_curves(successes: ArrayLike, rollouts: ArrayLike, largest: int) -> tuple[Floats, Floats]:
    """All-pass and all-fail shares of the subgroups of every size from 1 to ``largest`` at once.

    Returns:
        Two arrays of shape (C, largest); entries with G > n are 0 and mean nothing.

    >>> passes, fails = subgroup_curves([2], [4], 3)
    >>> passes.round(4).tolist(), fails.round(4).tolist()
    ([[0.5, 0.1667, 0.0]], [[0.5, 0.1667, 0.0]])
    """
    k, n = np.asarray(successes, dtype=np.float64)[:, None], np.asarray(rollouts, dtype=np.float64)[:, None]
    j = np.arange(float(largest))
    left = np.maximum(n - j, 1.0)
    passes = np.cumprod(np.maximum(k - j, 0.0) / left, axis=1, dtype=np.float64)
    fails = np.cumprod(np.maximum(n - k - j, 0.0) / left, axis=1, dtype=np.float64)
    return np.asarray(passes, dtype=np.float64), np.asarray(fails, dtype=np.float64)


def pass_at_k(successes: ArrayLike, rollouts: ArrayLike, k: int) -> Floats:
    """Unbiased pass@k of each prompt from c passes of n (theory.md, eq. 17; Chen et al. 2021).

    >>> pass_at_k(3, 10, 5).round(6).item()
    0.916667
    """
    return 1.0 - subgroup_all_fail(successes, rollouts, k)


def subgroup_pmf(successes: NDArray[np.int64], rollouts: NDArray[np.int64], group_size: int) -> Floats:
    """Law of the passes among a random subgroup of G of each prompt's n rollouts (theory.md, eq. 16).

    Args:
        successes: k, shape (C,).
        rollouts: n, shape (C,), each at least G.
        group_size: G, at least 1.

    Returns:
        Hypergeometric probabilities, shape (C, G + 1); rows sum to 1.
    """
    g = int(as_group_size(group_size))
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, float(rollouts.max()) + 1.0)))])
    k, n = successes[:, None], rollouts[:, None]
    j = np.arange(g + 1)[None, :]
    possible = (j <= k) & (g - j <= n - k)
    rest, misses = np.where(possible, k - j, 0), np.where(possible, n - k - (g - j), 0)
    log_pmf = (
        log_factorial[k]
        - log_factorial[j]
        - log_factorial[rest]
        + log_factorial[n - k]
        - log_factorial[g - j]
        - log_factorial[misses]
    )
    log_pmf = np.where(possible, log_pmf, -np.inf)
    pmf = np.exp(log_pmf - log_pmf.max(axis=1, keepdims=True))
    normal: Floats = pmf / pmf.sum(axis=1, keepdims=True)
    return normal


def largest_measured_group_size(histogram: PilotHistogram, share: float = USABLE_SHARE) -> int:
    """Largest G for which at least this share of the prompts have G or more rollouts."""
    order = np.argsort(histogram.rollouts)[::-1]
    covered = np.cumsum(histogram.prompts[order]) / histogram.total_prompts
    return int(histogram.rollouts[order][int(np.searchsorted(covered, share - 1e-12))])
