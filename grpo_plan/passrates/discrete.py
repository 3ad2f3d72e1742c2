"""Pass rates that take finitely many values: mixtures on a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan._validate import as_one_group_size

Floats = NDArray[np.float64]
BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscretePassRates:
    """Pass rates p_j with masses.

    Attributes:
        passing: p, shape (m,).
        failing: 1 - p with its own digits, shape (m,).
        masses: Probabilities, shape (m,), sum 1.

    >>> p = np.array([0.0, 0.5])
    >>> half = DiscretePassRates(passing=p, failing=1 - p, masses=np.array([0.2, 0.8]))
    >>> half.all_fail(2), half.all_pass(2), half.group_pmf(2).round(3).tolist()
    (0.4, 0.2, [0.4, 0.4, 0.2])
    """

    passing: Floats
    failing: Floats
    masses: Floats

    def all_pass(self, group_size: int) -> float:
        """``E[p**G]``."""
        return float(self.masses @ power(self.passing, self.failing, group_size))

    def all_fail(self, group_size: int) -> float:
        """``E[(1 - p)**G]``."""
        return float(self.masses @ power(self.failing, self.passing, group_size))

    def group_pmf(self, group_size: int) -> Floats:
        """Law of the passes k in a group of G, shape (G + 1,)."""
        g = as_one_group_size(group_size)
        keep = self.masses > 0.0
        p, masses = self.passing[keep], self.masses[keep]
        pmf = np.zeros(g + 1)
        block = max(1, BLOCK_CELLS // (g + 1))
        for start in range(0, p.size, block):
            counts, chances = binomial_window(g, p[start : start + block])
            weighted = chances * masses[start : start + block, None]
            pmf += np.bincount(counts.ravel(), weights=weighted.ravel(), minlength=g + 1)
        pmf[0], pmf[-1] = self.all_fail(g), self.all_pass(g)
        return pmf


def power(base: Floats, other: Floats, exponent: float) -> Floats:
    """``base**exponent``, with ``other = 1 - base`` for the digits near 1.

    >>> power(np.array([1.0]), np.array([1e-18]), 1e17).round(4).tolist()
    [0.9048]
    """
    if exponent == 0:
        return np.ones_like(base)
    with np.errstate(divide="ignore"):
        logs = np.where(base < 0.5, np.log(base), np.log1p(-np.minimum(other, 0.5)))
    value: Floats = np.exp(exponent * logs)
    return value
