"""The kappa below which sign beats mean-centred advantages on a pilot, with limits (theory.md, eq. 104)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_level
from grpo_plan.estimators.thresholds import sign_lead_parts, sign_threshold_kappa
from grpo_plan.fitting.functionals import custom
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.signal import KappaRange, as_kappa_range

Floats = NDArray[np.float64]
SMALLEST, LARGEST = -9.0, 6.0  # powers of ten that kappa is looked for between
CLOSE = 1e-4  # of the power of ten


@dataclass(frozen=True, slots=True, kw_only=True)
class SignThreshold:
    """Kappa below which `sign` makes more progress than `rloo`, at equal groups of one size.

    Attributes:
        group_size: G.
        kappa: The threshold under the fitted pass rates; infinite if sign makes more at every kappa.
        low: Below it sign makes more for every distribution that the pilot leaves possible.
        high: Above it rloo does.
        level: Confidence level of the limits.
    """

    group_size: int
    kappa: float
    low: float
    high: float
    level: float

    def better(self, kappa: KappaRange | tuple[float, float] | float) -> str | None:
        """``"sign"`` or ``"rloo"`` if one makes more progress over the whole range of kappa; None: cannot tell."""
        asked = as_kappa_range(kappa)
        if asked.high < self.low:
            return "sign"
        return "rloo" if asked.low > self.high else None


def sign_threshold(fit: PassRateFit, group_size: int, level: float = 0.95) -> SignThreshold:
    """Kappa below which `sign` makes more progress than `rloo`, with limits (theory.md, eq. 104).

    At one kappa, sign's lead is a mean over F; its limits over all F that the pilot leaves possible are inverted.

    Args:
        fit: Fitted pass rates.
        group_size: G, at least 2.
        level: Confidence level of the limits.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> found = sign_threshold(fit_pass_rates(Pilot.from_counts([0] * 60 + [1] * 25 + [4] * 15, 8)), 8)
    >>> found.low < found.kappa < found.high, found.better((1.0, 300.0))
    (True, 'rloo')
    """
    share = as_level(level)
    c, d = sign_lead_parts(group_size)
    value = sign_threshold_kappa(fit, group_size)

    def surely(side: int, power: float) -> bool:
        """Whether sign's lead at kappa ``10**power`` is above 0 (side 1) or below (side -1) for all F left."""
        kappa = 10.0**power

        def lead(p: Floats) -> Floats:
            pq = p * (1.0 - p)
            values: Floats = -side * (3.0 * pq - c * pq**2 - kappa * (1.0 - d * pq)) / (1.0 + kappa)
            return values

        return fit.upper_limit_of(custom(lead, "lead of sign"), share) < 0.0

    low = _edge(lambda power: surely(1, power))
    high = _edge(lambda power: not surely(-1, power))
    return SignThreshold(group_size=group_size, kappa=value, low=min(low, value), high=max(high, value), level=share)


def _edge(holds: Callable[[float], bool]) -> float:
    """Largest kappa up to which something holds; 0 or infinite where it never or always does."""
    if not holds(SMALLEST):
        return 0.0
    if holds(LARGEST):
        return math.inf
    inside, outside = SMALLEST, LARGEST
    while outside - inside > CLOSE:
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return float(10.0**outside)
