"""Groups pooled over variants of a prompt (theory.md, eq. 121)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.functionals import Functional
from grpo_plan.passrates.discrete import power
from grpo_plan.remedies.hints import no_kernel

Floats = NDArray[np.float64]
Z_REACH, Z_POINTS = 9.0, 145
MAX_SPREAD = 10.0  # of the logit, more than which says nothing


@lru_cache(maxsize=1)
def _normal() -> tuple[Floats, Floats]:
    """Points and weights of a standard normal: the trapezium rule, which is exact to 1e-13 for smooth functions."""
    z = np.linspace(-Z_REACH, Z_REACH, Z_POINTS)
    weights = np.exp(-0.5 * z**2)
    return z, weights / weights.sum()


def variant_agreement(p: Floats, q: Floats, group_size: int, spread: float) -> tuple[Floats, Floats]:
    """Chance that the G rollouts of one variant all pass, and that all fail: ``E_z[p_z**G]`` and ``E_z[q_z**G]``.

    The logit of p_z is that of p plus ``spread`` times a standard normal.

    >>> variant_agreement(np.array([0.5]), np.array([0.5]), 2, 0.0)[0].round(6).tolist()
    [0.25]
    """
    z, weights = _normal()
    passes, fails = np.zeros_like(p), np.zeros_like(p)
    for factor, weight in zip(np.exp(spread * z), weights, strict=True):
        whole = q + p * factor
        up, down = p * factor / whole, q / whole
        passes += weight * power(up, down, group_size)
        fails += weight * power(down, up, group_size)
    return passes, fails


def pooled_parts(group_size: int, variants: int, spread: float) -> dict[str, Functional]:
    """Dead share of a group pooled over the prompt and m - 1 variants, G rollouts each, and its two parts."""
    g, others = group_size, variants - 1

    def passes(p: Floats, q: Floats) -> Floats:
        return power(p, q, g) * variant_agreement(p, q, g, spread)[0] ** others

    def fails(p: Floats, q: Floats) -> Floats:
        return power(q, p, g) * variant_agreement(p, q, g, spread)[1] ** others

    def either(p: Floats, q: Floats) -> Floats:
        agree = variant_agreement(p, q, g, spread)
        return power(p, q, g) * agree[0] ** others + power(q, p, g) * agree[1] ** others

    return {
        name: Functional(
            name=f"{name} of pooled groups", degree=g * variants, phi=phi, kernel=no_kernel, pushed_up_by=name
        )
        for name, phi in (("dead", either), ("all-fail", fails), ("all-pass", passes))
    }
