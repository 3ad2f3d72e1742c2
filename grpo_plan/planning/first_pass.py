"""Rollouts until a prompt passes once: after k of n, and at a known pass rate (theory.md, eq. 65)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array, as_positive, as_probability
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
MAX_MORE = 1_000_000


def hit_probability(
    successes: ArrayLike, rollouts: ArrayLike, more: int, *, prior: tuple[float, float] = (1.0, 1.0)
) -> Floats:
    """Chance of at least one pass among m more rollouts, after k of n (theory.md, eq. 65).

    ``1 - B(a + k, b + n - k + m) / B(a + k, b + n - k)`` under a Beta(a, b) prior of the pass rate.

    Args:
        successes: k, any shape.
        rollouts: n, broadcasts with k.
        more: m, at least 1.
        prior: Shapes (a, b); (1, 1) is uniform, as in HORA. The Beta of a fitted pilot is a better one.

    Returns:
        Shape of k and n broadcast, in (0, 1).

    Raises:
        DomainError: k > n, a negative or fractional count, or a shape that is not above 0.

    >>> round(hit_probability(0, 8, 8).item(), 6)
    0.470588
    """
    m = as_count(more, "more", maximum=MAX_MORE)
    a, b = (as_positive(shape, "prior") for shape in prior)
    k, n = np.broadcast_arrays(as_float_array(successes, "successes"), as_float_array(rollouts, "rollouts"))
    bad = ~((k >= 0) & (k <= n) & (k == np.floor(k)) & (n == np.floor(n)) & np.isfinite(n))
    if bad.any():
        i = int(np.flatnonzero(bad.ravel())[0])
        raise DomainError(
            f"successes and rollouts must be whole numbers with 0 <= k <= n; got k = {k.ravel()[i]:g}, "
            f"n = {n.ravel()[i]:g}."
        )
    logs = np.zeros(k.shape)
    for start in range(0, m, 10_000):
        j = np.arange(float(start), float(min(start + 10_000, m)))
        logs += np.log1p(-(a + k[..., None]) / (a + b + n[..., None] + j)).sum(axis=-1)
    found: Floats = -np.expm1(logs)
    return found


def rollouts_to_first_pass(pass_rate: ArrayLike, probability: float = 0.9) -> Floats:
    """Rollouts after which a first pass has come with this probability (theory.md, eq. 65).

    ``log(1 - c) / log(1 - p)``, at least 1.

    Args:
        pass_rate: p, any shape, in (0, 1].
        probability: c, in (0, 1).

    Raises:
        DomainError: Some p is 0 (no number of rollouts is enough) or outside [0, 1], or c is.

    >>> rollouts_to_first_pass(0.01).round(1).item()
    229.1
    """
    p, c = as_probability(pass_rate), float(as_probability(probability, "probability"))
    if not 0.0 < c < 1.0:
        raise DomainError(f"probability must lie strictly between 0 and 1; got {c:g}.")
    if np.any(p == 0.0):
        raise DomainError("pass_rate must be above 0; at 0 no number of rollouts brings a pass.")
    with np.errstate(divide="ignore"):
        found: Floats = np.maximum(np.log1p(-c) / np.log1p(-p), 1.0)
    return found
