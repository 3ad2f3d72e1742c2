"""A Beta with atoms at 0 and 1: prompts that never pass, prompts that always pass, and the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.passrates.beta import BetaPassRates

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class InflatedBetaPassRates:
    """Shares of prompts at 0 and at 1, and a Beta for the others.

    Attributes:
        never: Share of prompts with pass rate 0.
        always: Share of prompts with pass rate 1.
        rest: Pass rates of the other prompts.

    >>> rates = InflatedBetaPassRates(never=0.3, always=0.2, rest=BetaPassRates.from_shape(1, 1))
    >>> round(rates.all_fail(9), 3), round(rates.all_pass(9), 3)
    (0.35, 0.25)
    """

    never: float
    always: float
    rest: BetaPassRates

    def all_pass(self, group_size: int) -> float:
        """``E[p**G]``."""
        return self.always + (1.0 - self.never - self.always) * float(self.rest.all_pass(group_size))

    def all_fail(self, group_size: int) -> float:
        """``E[(1 - p)**G]``."""
        return self.never + (1.0 - self.never - self.always) * float(self.rest.all_fail(group_size))

    def group_pmf(self, group_size: int) -> Floats:
        """Law of the passes k in a group of G, shape (G + 1,)."""
        pmf = (1.0 - self.never - self.always) * self.rest.group_pmf(group_size)
        pmf[0] += self.never
        pmf[-1] += self.always
        return pmf
