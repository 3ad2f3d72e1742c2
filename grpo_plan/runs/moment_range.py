"""Range of a mean over all F whose aggregates lie between limits (theory.md, eq. 82)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.functionals import GROUP_FAMILIES
from grpo_plan.fitting.mixing import GRID_POINTS, NEAR_ENDS, arcsine_grid
from grpo_plan.groups import expected_group_std

Floats = NDArray[np.float64]
Phi = Callable[[Floats, Floats], Floats]
LP_ERROR = 1e-6  # of the solver: smaller inflations are none, and limits are met to within it


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An aggregate that is known: the mean over F of a function of the pass rate.

    Attributes:
        name: "mean", "dead", "all-pass", "all-fail" or "group-std".
        value: As logged.
        low: Lower limit of the mean over F; the value itself where no sampling error is allowed for.
        high: Upper limit.
        group_size: G of the groups.
    """

    name: str
    value: float
    low: float
    high: float
    group_size: int

    def phi(self, p: Floats, q: Floats) -> Floats:
        """Its mean in a group of a prompt with pass rate p, at each p."""
        if self.name == "mean":
            return p
        if self.name == "group-std":
            return expected_group_std(p, self.group_size)
        return GROUP_FAMILIES[self.name](self.group_size).phi(p, q)


def rates_grid(largest: int, extra: Sequence[float] = ()) -> tuple[Floats, Floats]:
    """The arcsine grid with points near 0 and 1 for groups of ``largest``, and further points of one's own."""
    p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if largest <= size))
    ends, own = NEAR_ENDS / max(largest, 100), np.asarray(extra, dtype=np.float64)
    all_p, all_q = np.concatenate([p, ends, 1.0 - ends, own]), np.concatenate([q, 1.0 - ends, ends, 1.0 - own])
    order = np.lexsort((-all_q, all_p))
    return all_p[order], all_q[order]


def smallest_inflation(known: Sequence[Known], grid: tuple[Floats, Floats]) -> float:
    """How far all limits must move outwards, by one and the same amount, until some F lies within; 0 if one does."""
    from scipy.optimize import linprog

    table, limits = _rows(known, grid)
    rows = np.hstack([table, -np.ones((limits.size, 1))])
    cost = np.append(np.zeros(grid[0].size), 1.0)
    total = np.append(np.ones(grid[0].size), 0.0)[None, :]
    found = linprog(cost, A_ub=rows, b_ub=limits, A_eq=total, b_eq=[1.0], bounds=(0.0, None), method="highs")
    return max(0.0, float(found.fun)) if found.status == 0 else 1.0


def moment_range(
    known: Sequence[Known], phi: Phi, grid: tuple[Floats, Floats], inflation: float = 0.0
) -> tuple[float, float] | None:
    """Ends of the mean of ``phi``, all limits moved outwards by ``inflation``; None if no F lies within."""
    from scipy.optimize import linprog

    table, limits = _rows(known, grid)
    values, ends = phi(*grid), []
    for sign in (1.0, -1.0):
        for method in ("highs", "highs-ipm"):
            found = linprog(
                sign * values,
                A_ub=table,
                b_ub=limits + inflation + LP_ERROR,
                A_eq=np.ones((1, values.size)),
                b_eq=[1.0],
                bounds=(0.0, None),
                method=method,
            )
            if found.status == 0:
                break
        if found.status != 0:
            return None
        ends.append(sign * float(found.fun))
    return min(ends), max(ends)


def _rows(known: Sequence[Known], grid: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """``table @ masses <= limits``: the upper limits, then the lower ones with their signs turned."""
    table = np.array([k.phi(*grid) for k in known])
    limits = np.array([*(k.high for k in known), *(-k.low for k in known)])
    return np.vstack([table, -table]), limits
