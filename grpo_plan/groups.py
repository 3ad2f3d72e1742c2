"""One prompt: closed forms in its pass rate p and the group size G (theory.md, section 1).

Every function is vectorised and broadcasts. Relative error is at most 1e-12 for p from 1e-12 to
1 - 1e-12 and G up to 1e6, as long as the result is a normal double (above 2.3e-308).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._binomial import MAX_CELLS, binomial_window
from grpo_plan._validate import MAX_SUMMED_GROUP_SIZE, as_count, as_group_size, as_probability
from grpo_plan.errors import DomainError, InfeasiblePlanError

Floats = NDArray[np.float64]
LEVEL_SUM_TOLERANCE = 1e-9


def mixed_probability(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``1 - p**G - (1 - p)**G`` that a group is mixed (theory.md, eq. 1).

    Args:
        pass_rate: p of each prompt, any shape, unitless, in [0, 1].
        group_size: Rollouts per prompt G, whole numbers of at least 1; broadcasts with ``pass_rate``.

    Returns:
        Chance of at least one pass and one fail, in the broadcast shape; 0 at p = 0, p = 1 and G = 1.

    Raises:
        DomainError: Some p is NaN or outside [0, 1], or some G is not a whole number of at least 1.

    >>> mixed_probability([0.0, 0.2, 0.5], 4).round(6).tolist()
    [0.0, 0.5888, 0.875]
    """
    p, g = as_probability(pass_rate), as_group_size(group_size)
    rarer = np.minimum(p, 1.0 - p)
    return _positive_binomial_rest(1.0 - rarer, rarer, np.zeros_like(p), g)


def dead_probability(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``p**G + (1 - p)**G`` that a group is dead (theory.md, eq. 2).

    Args:
        pass_rate: p of each prompt, any shape, unitless, in [0, 1].
        group_size: Rollouts per prompt G, whole numbers of at least 1; broadcasts with ``pass_rate``.

    Returns:
        Chance that all G rewards agree, in the broadcast shape; 1 at p = 0, p = 1 and G = 1.

    Raises:
        DomainError: As in `mixed_probability`.

    >>> dead_probability(0.25, 4).round(12).item()
    0.3203125
    """
    p, g = as_probability(pass_rate), as_group_size(group_size)
    return np.where(g == 1, 1.0, _power(p, g) + _complement_power(p, g))


def all_pass_probability(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``p**G`` that every rollout of a group passes (theory.md, eq. 2).

    Args and errors as in `dead_probability`.

    >>> all_pass_probability(0.5, [2, 3]).tolist()
    [0.25, 0.125]
    """
    return _power(as_probability(pass_rate), as_group_size(group_size))


def all_fail_probability(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``(1 - p)**G`` that every rollout of a group fails (theory.md, eq. 2).

    Args and errors as in `dead_probability`.

    >>> all_fail_probability(0.5, [2, 3]).tolist()
    [0.25, 0.125]
    """
    return _complement_power(as_probability(pass_rate), as_group_size(group_size))


def pass_at(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``1 - (1 - p)**G`` of at least one pass among G rollouts: pass@G (theory.md, eq. 3).

    Args and errors as in `dead_probability`.

    >>> pass_at([0.0, 0.01, 1.0], 100).round(4).tolist()
    [0.0, 0.634, 1.0]
    """
    p, g = as_probability(pass_rate), as_group_size(group_size)
    with np.errstate(divide="ignore"):
        value: Floats = -np.expm1(g * np.log1p(-p))
    return value


def graded_dead_probability(level_probabilities: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance ``sum_l q_l**G`` that all G rewards of a group are the same level (theory.md, eq. 4).

    Args:
        level_probabilities: q of each reward level, shape (..., L); each row sums to 1.
        group_size: Rollouts per prompt G; broadcasts with the leading axes.

    Returns:
        Shape of the leading axes broadcast with ``group_size``.

    Raises:
        DomainError: A probability is outside [0, 1] or a row does not sum to 1 within 1e-9.

    >>> graded_dead_probability([0.5, 0.25, 0.25], 2).item()
    0.375
    """
    q, g = as_probability(level_probabilities, "level_probabilities"), as_group_size(group_size)
    if q.ndim == 0 or q.shape[-1] == 0:
        raise DomainError("level_probabilities must have a last axis of reward levels; got a single number.")
    total = q.sum(axis=-1)
    if np.any(np.abs(total - 1.0) > LEVEL_SUM_TOLERANCE):
        worst = total.ravel()[int(np.argmax(np.abs(total - 1.0)))]
        raise DomainError(f"level_probabilities must sum to 1 over the last axis; got {worst:g}.")
    value: Floats = np.sum(_power(q, g[..., None]), axis=-1)
    return value


def rare_mode_miss_probability(pass_rate: ArrayLike, mode_mass: ArrayLike, group_size: ArrayLike) -> Floats:
    """Chance that a group is mixed and yet misses a rare correct mode (theory.md, eq. 5; F-GRPO lemma 3.1).

    ``(1 - tau)**G - (p - tau)**G - (1 - p)**G``: at least one pass, at least one fail, and none of the
    passes is of the mode of mass tau.

    Args:
        pass_rate: p of each prompt, in [0, 1].
        mode_mass: tau, chance that a rollout is of the rare correct mode, in [0, p].
        group_size: Rollouts per prompt G; all three broadcast.

    Returns:
        Chance in the broadcast shape; equals `mixed_probability` at tau = 0 and 0 at tau = p.

    Raises:
        DomainError: A value is outside its domain, or tau exceeds p.

    >>> rare_mode_miss_probability(0.5, 0.05, [4, 5, 8]).round(4).tolist()
    [0.711, 0.7241, 0.6578]
    """
    p, tau = as_probability(pass_rate), as_probability(mode_mass, "mode_mass")
    g = as_group_size(group_size)
    if np.any(tau > p):
        raise DomainError(
            f"mode_mass must not exceed pass_rate; got {np.max(tau - p):g} more. A mode is part of the passes."
        )
    common, failing = p - tau, 1.0 - p
    larger, smaller = np.maximum(common, failing), np.minimum(common, failing)
    with np.errstate(divide="ignore"):
        log_total = np.log1p(-tau)
    return _positive_binomial_rest(larger, smaller, log_total, g)


def expected_group_variance(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Expected population variance ``p (1 - p) (1 - 1/G)`` of the 0/1 rewards of a group (theory.md, eq. 6).

    Args and errors as in `dead_probability`.

    >>> expected_group_variance(0.2, 8).round(12).item()
    0.14
    """
    p, g = as_probability(pass_rate), as_group_size(group_size)
    value: Floats = p * (1.0 - p) * ((g - 1) / g)
    return value


def expected_group_std(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Expected population standard deviation of the 0/1 rewards of a group (theory.md, eq. 7).

    ``E[sqrt(k (G - k))] / G`` with k binomial: the expected gain of Bay & Yearick (2026), by the exact sum.

    Args and errors as in `dead_probability`.

    >>> expected_group_std([0.0, 0.5], 8).round(4).tolist()
    [0.0, 0.4639]
    """
    sizes = as_group_size(group_size, maximum=MAX_SUMMED_GROUP_SIZE)
    p, g = np.broadcast_arrays(as_probability(pass_rate), sizes)
    out = np.empty(p.shape)
    for size in np.unique(g):
        chosen = g == size
        out[chosen] = _binomial_mean(p[chosen], int(size), lambda k, n: np.sqrt(k * (n - k)) / n)
    return out


def group_std_fidelity(pass_rate: ArrayLike, group_size: ArrayLike) -> Floats:
    """Fidelity phi: expected group std over the true std ``sqrt(p (1 - p))`` (theory.md, eq. 8).

    Args and errors as in `dead_probability`. At p = 0 and p = 1 the limit, 0, is returned.

    >>> group_std_fidelity([0.5, 0.05], 8).round(4).tolist()
    [0.9278, 0.539]
    """
    p = as_probability(pass_rate)
    true_std = np.sqrt(p * (1.0 - p))
    expected = expected_group_std(p, group_size)
    return np.divide(expected, true_std, out=np.zeros_like(expected), where=true_std > 0.0)


def group_size_for_fidelity(pass_rate: float, fidelity: float, *, max_group_size: int = 10**6) -> int:
    """Smallest group size whose fidelity reaches ``fidelity`` (theory.md, eq. 8; exact sum, not the expansion).

    Args:
        pass_rate: One p, strictly between 0 and 1.
        fidelity: Wanted phi, in [0, 1).
        max_group_size: Where to stop looking.

    Returns:
        The smallest G of at least 2 with ``group_std_fidelity(pass_rate, G) >= fidelity``.

    Raises:
        DomainError: A value is outside its domain.
        InfeasiblePlanError: Not even ``max_group_size`` reaches it.

    >>> group_size_for_fidelity(0.1, 0.95)
    36
    """
    p, target = float(as_probability(pass_rate)), float(as_probability(fidelity, "fidelity"))
    limit = as_count(max_group_size, "max_group_size", minimum=2, maximum=MAX_SUMMED_GROUP_SIZE)
    if not 0.0 < p < 1.0:
        raise DomainError(f"pass_rate must lie strictly between 0 and 1; got {p:g}: its group std is always 0.")
    if target >= 1.0:
        raise DomainError("fidelity must be below 1; no finite group reaches 1.")
    low, high = 1, 2  # phi rises with G: double until it is reached, then halve the bracket
    while float(group_std_fidelity(p, high)) < target:
        if high >= limit:
            reached = float(np.floor(1000.0 * group_std_fidelity(p, limit)) / 1000.0)
            raise InfeasiblePlanError(
                f"No group of at most {limit:,} rollouts has fidelity {target:g} at pass rate {p:g}; "
                f"{limit:,} reach {reached:.3f}. Ask for less, or for an easier prompt."
            )
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        if float(group_std_fidelity(p, middle)) < target:
            low = middle
        else:
            high = middle
    return high


def _power(p: Floats, g: NDArray[np.int64]) -> Floats:
    """``p**G``."""
    with np.errstate(under="ignore"):
        value: Floats = np.power(p, g.astype(float))
    return value


def _complement_power(p: Floats, g: NDArray[np.int64]) -> Floats:
    """``(1 - p)**G``; ``1 - p`` is exact for p >= 1/2, and log1p keeps small p."""
    with np.errstate(divide="ignore", under="ignore"):
        value: Floats = np.where(p < 0.5, np.exp(g * np.log1p(-p)), np.power(1.0 - p, g.astype(float)))
    return value


def _positive_binomial_rest(larger: Floats, smaller: Floats, log_total: Floats, g: NDArray[np.int64]) -> Floats:
    """``(a + b)**G - a**G - b**G`` for a >= b >= 0 without cancellation; ``log_total`` is log(a + b).

    Written as ``(a + b)**G (1 - (a / (a + b))**G) - b**G``: the subtracted term is at most a third of the first.
    """
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        ratio = np.where(larger > 0.0, smaller / larger, 0.0)
        first = np.exp(g * log_total) * -np.expm1(-g * np.log1p(ratio))
        value = np.maximum(first - np.power(smaller, g.astype(float)), 0.0)
    return np.where((g == 1) | (larger <= 0.0), 0.0, value)


def _binomial_mean(p: Floats, group_size: int, value_of: Callable[[Floats, int], Floats]) -> Floats:
    """``E[value_of(k, G)]`` for k ~ Binomial(G, p), row by row in bounded memory; p of shape (P,)."""
    out = np.empty(p.size)
    start = 0
    while start < p.size:
        width = 2 * min(group_size, 600 + int(13 * np.sqrt(group_size / 4))) + 1
        stop = min(p.size, start + max(1, MAX_CELLS // width))
        counts, weights = binomial_window(group_size, p[start:stop])
        out[start:stop] = np.sum(weights * value_of(counts.astype(np.float64), group_size), axis=1)
        start = stop
    return out
