"""A count that varies from step to step."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan._shown import Shown

MAX_PROMPTS_PER_STEP = 10**10


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CountSummary(Shown):
    """A count that varies from step to step: mean, standard deviation, and 5, 50 and 95 % quantiles."""

    mean: float
    sd: float
    p05: float
    p50: float
    p95: float

    def times(self, factor: float) -> CountSummary:
        """The same count in another unit."""
        return CountSummary(
            mean=self.mean * factor,
            sd=self.sd * factor,
            p05=self.p05 * factor,
            p50=self.p50 * factor,
            p95=self.p95 * factor,
        )
