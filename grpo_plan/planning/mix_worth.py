"""What a mix is worth: progress per group, its gain with limits, what other bounds would give (theory.md, eq. 60)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import InfeasiblePlanError
from grpo_plan.estimators import Estimator
from grpo_plan.fitting.intervals import Interval
from grpo_plan.planning.mix_plan import MixCorner, MixPoint
from grpo_plan.planning.mix_solver import (
    BestMix,
    MixBounds,
    best_progress,
    divergence,
    greedy_mix,
    linear_mix,
    nearest_mix,
)
from grpo_plan.planning.signal import KappaRange
from grpo_plan.planning.strata import StratumLaw

Floats = NDArray[np.float64]
FRONTIER_KL = (0.01, 0.03, 0.1, 0.3, 1.0)
KAPPA_POINTS = 5
FAST_GAP = 1e-5
CLIMBS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MixWorth:
    """Worth of a mix: progress per group (theory.md, eq. 60), or its share of mixed groups."""

    estimator: Estimator
    group_size: int
    objective: str

    def moments(self, laws: Floats, kappa: float) -> tuple[Floats, Floats]:
        """Signal and second moment of a group of each stratum, from laws of shape (..., B, G + 1)."""
        signal, noise = self.estimator.signal(self.group_size), self.estimator.noise(self.group_size)
        return laws @ signal, laws @ (signal**2 + kappa * noise)

    def worth(self, laws: Floats, shares: Floats, kappa: float) -> Floats:
        """Progress per group of a mix, over the leading axes of ``laws``."""
        signal, second = self.moments(laws, kappa)
        x, y = signal @ shares, second @ shares
        value: Floats = np.divide(x**2, y, out=np.zeros_like(x), where=y > 0.0)
        return value

    def best(self, laws: Floats, bounds: MixBounds, kappa: float, gap: float = FAST_GAP) -> BestMix:
        """The best mix within the bounds, by the objective."""
        if self.objective == "signal":
            return best_progress(*self.moments(laws, kappa), bounds, gap)
        mixed = 1.0 - laws[:, 0] - laws[:, -1]
        shares = linear_mix(mixed, bounds)
        value = float(mixed @ shares)
        return BestMix(shares=shares, value=value, bound=value)

    def climbed(self, laws: Floats, shares: Floats, bounds: MixBounds, kappa: float) -> Floats:
        """A mix that is better by these laws, by steps that never lose; near enough to the best one for a half."""
        if self.objective != "signal":
            return linear_mix(1.0 - laws[:, 0] - laws[:, -1], bounds)
        signal, second = self.moments(laws, kappa)
        for _ in range(CLIMBS):
            ratio = float(signal @ shares) / max(float(second @ shares), 1e-300)
            shares = linear_mix(2.0 * signal - ratio * second, bounds)
        return shares


def gain_of(
    judge: MixWorth, laws: Floats, draws: Floats, chosen: Floats, base: Floats, kappa: float, level: float
) -> Interval:
    """Gain of a fixed mix, with the spread of its logarithm over resampled pilots."""

    def gain(of: Floats) -> Floats:
        return judge.worth(of, chosen, kappa) / np.maximum(judge.worth(of, base, kappa), 1e-300)

    value, logs = float(gain(laws)), np.log(np.maximum(gain(draws), 1e-300))
    half = NormalDist().inv_cdf(0.5 + level / 2.0) * float(logs.std(ddof=1))
    return Interval(value=value, low=value * float(np.exp(-half)), high=value * float(np.exp(half)))


def dead_of(strata: tuple[StratumLaw, ...], shares: Floats) -> Interval:
    """Dead fraction of a mix, its limits from those of the strata (theory.md, eq. 60).

    Distances to the limits add as independent errors do: ``D - low = sqrt(sum w_b**2 (D_b - low_b)**2)``.
    """
    value, low, high = np.array([[s.dead, s.dead_low, s.dead_high] for s in strata]).T
    middle = float(shares @ value)
    below = float(np.sqrt(np.sum((shares * (value - low)) ** 2)))
    above = float(np.sqrt(np.sum((shares * (high - value)) ** 2)))
    return Interval(value=middle, low=max(0.0, middle - below), high=min(1.0, middle + above))


def optimism_of(judge: MixWorth, gain: float, pairs: Floats, chosen: Floats, bounds: MixBounds, kappa: float) -> float:
    """What a gain owes to choosing and judging on the same prompts (theory.md, eq. 60).

    The gain less the mean gain of mixes that are chosen on half of the prompts and judged on the other half.

    Args:
        judge: What a mix is worth.
        gain: Of ``chosen``, on all prompts.
        pairs: Laws of two halves, shape (S, 2, B, G + 1).
        chosen: Where the choice on a half starts to climb.
        bounds: Of the mix.
        kappa: Score noise over contrast.
    """
    found = []
    for pair in pairs:
        for choosing, judging in (pair, pair[::-1]):
            now = float(judge.worth(judging, bounds.base, kappa))
            if now <= 0.0 or float(judge.worth(choosing, bounds.base, kappa)) <= 0.0:
                continue
            shares = judge.climbed(choosing, chosen, bounds, kappa)
            found.append(float(judge.worth(judging, shares, kappa)) / now)
    return gain - float(np.mean(found)) if found else 0.0


def frontier(judge: MixWorth, laws: Floats, bounds: MixBounds, kappa: float, chosen: Floats) -> tuple[MixPoint, ...]:
    """The best mix at several KL bounds, those that floors, caps and epochs allow; at its own bound the chosen one."""
    now = float(judge.worth(laws, bounds.base, kappa))
    least = divergence(nearest_mix(bounds), bounds.base)
    allowed = sorted({k for k in (*FRONTIER_KL, bounds.max_kl, np.inf) if k >= least})
    points = []
    for limit in allowed:
        own = limit == bounds.max_kl
        shares = chosen if own else judge.best(laws, replace(bounds, max_kl=limit), kappa).shares
        points.append(
            MixPoint(
                max_kl=limit if np.isfinite(limit) else None,
                kl=divergence(shares, bounds.base),
                gain=float(judge.worth(laws, shares, kappa)) / now,
                shares=tuple(float(s) for s in shares),
            )
        )
    return tuple(points)


def corner_of(judge: MixWorth, laws: Floats, names: tuple[str, ...], base: Floats, kappa: float) -> MixCorner:
    """The best stratum alone: what the objective picks if nothing bounds it (theory.md, eq. 60)."""
    alone = [float(judge.worth(laws, row, kappa)) for row in np.eye(base.size)]
    if judge.objective == "signal":
        best = int(np.argmax(alone))
    else:
        free = MixBounds(base=base, low=np.zeros(base.size), high=np.ones(base.size), max_kl=np.inf)
        best = int(np.argmax(greedy_mix(1.0 - laws[:, 0] - laws[:, -1], free)))
    return MixCorner(
        stratum=names[best], gain=alone[best] / float(judge.worth(laws, base, kappa)), kl=-float(np.log(base[best]))
    )


def least_regret(judge: MixWorth, laws: Floats, bounds: MixBounds, kappas: KappaRange) -> tuple[Floats, float, float]:
    """Of the mixes that are best at some kappa of the range, the one of least worst regret (theory.md, eq. 28).

    Returns:
        Shares, their worst regret, and the kappa at which they are best; the middle one where kappa plays no part.
    """
    grid = np.unique(kappas.grid()[:: max(1, (kappas.grid().size - 1) // (KAPPA_POINTS - 1))])
    if judge.objective != "signal":
        grid = grid[:1]
    candidates = [judge.best(laws, bounds, float(k)) for k in grid]
    if candidates[0].value <= 0.0:
        raise InfeasiblePlanError(
            "No mix can be planned: every group of every stratum would be dead. Use other prompts, or a larger G."
        )
    if judge.objective != "signal":
        return candidates[0].shares, 0.0, kappas.middle
    worth = np.array([[float(judge.worth(laws, c.shares, float(k))) for k in grid] for c in candidates])
    regret = (1.0 - worth / np.array([c.value for c in candidates])).max(axis=1)
    best = int(np.argmin(regret))
    return candidates[best].shares, max(0.0, float(regret[best])), float(grid[best])
