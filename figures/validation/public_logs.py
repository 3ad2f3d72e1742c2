"""Two published training logs, foretold from their own first groups. Needs no torch.

Counts of groups by passes, of the published files; the rewards themselves are not part of the repository.

* Gradient Starvation (arXiv 2605.07689), raw logs of the authors' Dr. GRPO runs: Qwen3.5-9B, GSM8K, 200 steps of 4
  groups of 4 in each of four runs, pooled; three other runs with groups of 2, 800 groups each.
* One-Shot-RLVR (arXiv 2504.20571): Qwen2.5-Math-1.5B, 1,209 prompts of DeepScaleR, groups of 8 at every visit. Groups
  of 16, 32 and 64 are the visits after the first, pooled by prompt: 2, 4 and 8 of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import grpo_plan as gp
from grpo_plan.example import EXAMPLE_PROMPTS_BY_SUCCESSES
from grpo_plan.fitting.intervals import wilson_interval

STARVATION_FOURS = (1792, 417, 282, 255, 454)  # groups of 4 with 0 to 4 passes
STARVATION_PAIRS = (648, 671, 656)  # dead groups of 2 in three runs
PAIRS_EACH = 800
ONE_SHOT_EIGHTS = EXAMPLE_PROMPTS_BY_SUCCESSES  # prompts with 0 to 8 passes at the first visit
ONE_SHOT_LATER = {16: (64, 333), 32: (33, 253), 64: (17, 197)}  # all-pass and all-fail prompts of 1,209


@dataclass(frozen=True)
class Foretold:
    """A share of groups: forecast with limits, and measured later in so many groups."""

    log: str
    share: str
    pilot: str
    group: int
    value: float
    low: float
    high: float
    iid: float | None
    measured: float
    groups: int

    @property
    def inside(self) -> bool:
        """Whether the limits hold what was measured, taken as exact."""
        return self.low <= self.measured <= self.high

    @property
    def difference(self) -> tuple[float, float, float]:
        """Measured less forecast, with 95 % limits from both: distances to limits add as independent errors do."""
        least, most = map(float, wilson_interval(self.measured, float(self.groups), 0.95))
        value = self.measured - self.value
        below = math.hypot(self.measured - least, self.high - self.value)
        above = math.hypot(most - self.measured, self.value - self.low)
        return value, value - below, value + above


def _fit(counts: tuple[int, ...]) -> gp.PassRateFit:
    k = np.arange(len(counts))
    return gp.fit_pass_rates(gp.Pilot.from_histogram(np.full(k.size, k.size - 1), k, np.array(counts)))


def foretold() -> list[Foretold]:
    """Every forecast of the two logs.

    >>> for f in foretold():
    ...     if f.share == "dead":
    ...         print(f.group, f"{f.value:.3f} {f.measured:.3f}", f.inside, [round(d, 3) for d in f.difference])
    2 0.836 0.823 False [-0.013, -0.031, 0.004]
    16 0.332 0.328 True [-0.004, -0.052, 0.054]
    32 0.252 0.237 True [-0.016, -0.113, 0.094]
    64 0.193 0.177 True [-0.016, -0.171, 0.142]
    """
    pairs = _fit(STARVATION_FOURS).dead(2)
    groups = PAIRS_EACH * len(STARVATION_PAIRS)
    measured = sum(STARVATION_PAIRS) / groups
    found = [
        Foretold(
            "Gradient Starvation", "dead", f"{sum(STARVATION_FOURS):,} x 4", 2,
            float(pairs.value or 0.0), pairs.low, pairs.high, pairs.iid, measured, groups,
        )
    ]  # fmt: skip
    fit, prompts = _fit(ONE_SHOT_EIGHTS), sum(ONE_SHOT_EIGHTS)
    for g, (all_pass, all_fail) in ONE_SHOT_LATER.items():
        d = fit.dead(g)
        shares = {
            "dead": (d.value, d.interval, d.iid, all_pass + all_fail),
            "all-pass": (d.all_pass, d.all_pass_interval, None, all_pass),
            "all-fail": (d.all_fail, d.all_fail_interval, None, all_fail),
        }
        for share, (value, limits, iid, count) in shares.items():
            found.append(
                Foretold(
                    "One-Shot-RLVR", share, f"{prompts:,} x 8", g,
                    float(value or 0.0), *limits, iid, count / prompts, prompts,
                )
            )  # fmt: skip
    return found
