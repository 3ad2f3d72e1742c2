"""What n rollouts per prompt cannot tell however many prompts there are (theory.md, eq. 38)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array, as_one_group_size
from grpo_plan.errors import DomainError
from grpo_plan.fitting.functionals import Functional, custom, dead
from grpo_plan.fitting.mixing import GRID_POINTS, arcsine_grid, binomial_likelihood, log_coefficients, log_peak
from grpo_plan.passrates.discrete import DiscretePassRates

Floats = NDArray[np.float64]
SMALLEST_FREQUENCY = 1e-10
MOST_CONSTRAINTS = 256  # rollouts taken into account; more narrow the range, but by less than is shown


def identified_range(
    frequencies: ArrayLike, functional: int | Functional | Callable[[Floats], NDArray[Any]]
) -> tuple[float, float]:
    """Smallest and largest mean over all F that give exactly these frequencies of k = 0..n.

    Args:
        frequencies: Share of prompts with k passes, shape (n + 1,), sum 1.
        functional: A group size G for D(G), or a function of an array of pass rates.

    Raises:
        DomainError: No distribution of pass rates gives these frequencies.

    >>> low, high = identified_range([0.5, 0.0, 0.5], 8)
    >>> round(low, 6), round(high, 6)
    (1.0, 1.0)
    """
    shares = as_float_array(frequencies, "frequencies")
    if shares.ndim != 1 or shares.size < 2 or not np.all(shares >= 0.0) or abs(float(shares.sum()) - 1.0) > 1e-9:
        raise DomainError("frequencies must be shares of k = 0..n with a sum of 1, n at least 1.")
    if not isinstance(functional, Functional):
        functional = custom(functional, "mean") if callable(functional) else dead(as_one_group_size(functional))
    p, q = arcsine_grid()
    found = _range(_table(shares.size - 1, p, q), shares, functional.phi(p, q))
    if found is None:
        raise DomainError(
            "No distribution of pass rates gives these frequencies exactly (their moments are out of reach). "
            "Fit the pilot and take the range at the fit."
        )
    return found


def range_at(
    rates: DiscretePassRates, rollouts: int, functional: Functional, *, seen: str = "all"
) -> tuple[float, float]:
    """The same at the frequencies that a fitted distribution gives for ``rollouts`` per prompt.

    Args:
        rates: The fitted distribution.
        rollouts: n.
        functional: The mean.
        seen: What is known of k: ``"all"``; ``"merged"``: k = 0 and k = n in one; ``"mixed"``: the law of k given
            0 < k < n alone (theory.md, eq. 74).
    """
    p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if rollouts <= size))
    masses = _moved_to(p, rates)
    table = _table(min(rollouts, MOST_CONSTRAINTS), p, q)
    phi = functional.phi(p, q)
    if 1 < functional.degree <= rollouts and seen == "all":  # a polynomial of degree at most n: known with the law of k
        value = float(rates.masses @ functional.phi(rates.passing, rates.failing))
        return value, value
    if seen != "all":
        table = np.vstack([table[1:-1], table[0] + table[-1]])
    value = float(phi @ masses)
    if seen == "mixed":
        found = _mixed_range(table[:-1], table[:-1] @ masses, phi)
    else:
        found = _range(table, table @ masses, phi)
    if found is None:  # the solver gave up: what is sure of a mean is that phi bounds it
        return float(phi.min()), float(phi.max())
    return min(found[0], value), max(found[1], value)


def range_given(
    rates: DiscretePassRates, chances: Floats, functional: Functional, grid: tuple[Floats, Floats]
) -> tuple[float, float]:
    """The same where the law of k at each pass rate is another one than the binomial (theory.md, eq. 77).

    Args:
        rates: The fitted distribution.
        chances: Chance of each k at each point of the grid, shape (K, m).
        functional: The mean.
        grid: p and 1 - p, shape (m,) each.
    """
    masses, phi = _moved_to(grid[0], rates), functional.phi(*grid)
    value = float(phi @ masses)
    found = _range(chances[:MOST_CONSTRAINTS], (chances @ masses)[:MOST_CONSTRAINTS], phi)
    low, high = (float(phi.min()), float(phi.max())) if found is None else found
    return min(low, value), max(high, value)


def _table(rollouts: int, p: Floats, q: Floats) -> Floats:
    k = np.arange(rollouts + 1.0)
    n = np.full(k.size, float(rollouts))
    scale = np.exp(log_coefficients(n, k) + log_peak(n, k))
    return binomial_likelihood(n, k, p, q) * scale[:, None]


def _moved_to(grid: Floats, rates: DiscretePassRates) -> Floats:
    """Masses on another grid with the same mean: each is split between its two neighbours."""
    right = np.clip(np.searchsorted(grid, rates.passing), 1, grid.size - 1)
    share = (rates.passing - grid[right - 1]) / (grid[right] - grid[right - 1])
    masses = np.zeros(grid.size)
    np.add.at(masses, right - 1, rates.masses * (1.0 - share))
    np.add.at(masses, right, rates.masses * share)
    return masses


def _mixed_range(table: Floats, chances: Floats, phi: Floats) -> tuple[float, float] | None:
    """Both ends where the chances are known up to a factor only: that factor is one more variable."""
    scale = 1.0 / np.sqrt(np.maximum(chances / float(chances.sum()), SMALLEST_FREQUENCY))
    rows = np.hstack([table * scale[:, None], -(chances * scale)[:, None]])
    total = np.append(np.ones(phi.size), 0.0)
    return _ends(np.vstack([rows, total]), np.append(np.zeros(chances.size), 1.0), np.append(phi, 0.0))


def _range(table: Floats, frequencies: Floats, phi: Floats) -> tuple[float, float] | None:
    """Both linear programs; None if there is no feasible F."""
    scale = 1.0 / np.sqrt(np.maximum(frequencies, SMALLEST_FREQUENCY))  # rare counts must not vanish in the tolerance
    return _ends(table * scale[:, None], frequencies * scale, phi)


def _ends(scaled: Floats, wanted: Floats, phi: Floats) -> tuple[float, float] | None:
    from scipy.optimize import linprog

    ends = []
    for sign in (1.0, -1.0):
        for method in ("highs", "highs-ipm"):
            found = linprog(sign * phi, A_eq=scaled, b_eq=wanted, bounds=(0.0, None), method=method)
            if found.status == 0:
                break
        if found.status != 0:
            return None
        ends.append(sign * float(found.fun))
    return min(ends), max(ends)
