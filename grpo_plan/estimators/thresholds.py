"""When the sign advantage makes more progress than mean-centred ones (theory.md, eq. 104)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count
from grpo_plan.estimators.moments import PAIRS_OF_FOUR, TWO_PAIRS_OF_FOUR

Floats = NDArray[np.float64]


class HasLaw(Protocol):
    """Anything with a law of the passes in groups of any size, such as a fit."""

    def group_pmf(self, group_size: int, /) -> Floats:
        """Law of k = 0..G, shape (G + 1,)."""
        ...


def sign_lead_parts(group_size: int) -> tuple[float, float]:
    """Factors c and d of the lead of sign over rloo, ``3 pq - c (pq)**2 - kappa (1 - d pq)``."""
    g = as_count(group_size, "group_size", minimum=2)
    return 4.0 * (3.0 * g - 5.0) / (g - 1.0), 4.0 * g / (g - 1.0)


def sign_threshold_kappa(law: HasLaw | Callable[[int], Floats], group_size: int) -> float:
    """Kappa below which `sign` makes more progress than `rloo`, at equal groups of this size (theory.md, eq. 104).

    Args:
        law: A fit, or the law of passes in groups of a size; that in groups of 4 is all that is asked for.
        group_size: G, at least 2.

    Returns:
        The threshold, above 0; infinite if sign makes more at every kappa; 0 if no group is ever mixed (then neither
        makes any). Coherence does not matter.

    >>> even_prompts = lambda g: np.array([math.comb(g, k) / 2**g for k in range(g + 1)])  # all at p = 1/2
    >>> sign_threshold_kappa(even_prompts, 8)
    inf
    >>> hard = lambda g: np.array([math.comb(g, k) * 0.02**k * 0.98 ** (g - k) for k in range(g + 1)])
    >>> round(sign_threshold_kappa(hard, 8), 4)
    0.06
    """
    pmf = (law if callable(law) else law.group_pmf)(4)
    pq, ppqq = float(pmf @ PAIRS_OF_FOUR), float(pmf @ TWO_PAIRS_OF_FOUR)
    c, d = sign_lead_parts(group_size)
    price = 1.0 - d * pq
    if pq <= 0.0:
        return 0.0
    return math.inf if price <= 0.0 else max(0.0, 3.0 * pq - c * ppqq) / price
