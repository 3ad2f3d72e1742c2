"""Progress of one estimator or group size beside another (theory.md, eq. 119)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.estimators import Estimator, GroupMoments
from grpo_plan.fitting.functionals import custom
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.live import Ranged, at_rates
from grpo_plan.remedies.result import AtKappa, Effect

Floats = NDArray[np.float64]
WIDEST = 50.0  # of the logarithm of a ratio
STEP = 1e-4  # in the mean pass rate, for the derivative of estimators that use it
SAME_LOW, SAME_HIGH = 0.9, 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An estimator at one group size, with its moments and their derivatives in F at the fitted law.

    Attributes:
        estimator: The estimator.
        group_size: G.
        moments: Means over prompts.
        mean_pass_rate: Of the law that the moments are of.
    """

    estimator: Estimator
    group_size: int
    moments: GroupMoments
    mean_pass_rate: float
    _law: Floats

    @classmethod
    def of(cls, fit: PassRateFit, estimator: Estimator, group_size: int) -> Judged:
        """Judge an estimator on a pilot, by itself; `side_by_side` is for ratios.

        Raises:
            PilotError: The pilot does not determine the law of passes.
            DomainError: The estimator refuses the group size.
        """
        return cls.under(fit.group_pmf(estimator.law_size(group_size)), estimator, group_size)

    @classmethod
    def under(cls, law: Floats, estimator: Estimator, group_size: int) -> Judged:
        """Judge an estimator by a law of the passes in groups of its `law_size`."""
        mean = float(law @ np.arange(law.size)) / (law.size - 1)
        moments = estimator.moments(lambda _: law, group_size)
        return cls(estimator=estimator, group_size=group_size, moments=moments, mean_pass_rate=mean, _law=law)

    def variance(self, kappa: float, coherence: float) -> float:
        """Variance of one group's gradient over h**2."""
        return float(self.moments.variance(np.array(kappa), coherence))

    def worth(self, kappa: float, coherence: float) -> float:
        """Progress per group (theory.md, eq. 71)."""
        signal, variance = self.moments.signal, self.variance(kappa, coherence)
        return signal**2 / variance if signal > 0.0 and variance > 0.0 else 0.0

    def at_rates(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        """``E[t | p]``, ``E[t**2 | p]`` and ``E[v | p]``, plus what p adds through the mean of the batch."""
        here = self.estimator.for_mean(self.mean_pass_rate)
        _, *weights = here.weights(self.group_size)
        parts = [at_rates(w, p) for w in weights]
        if self.estimator.batch:
            mean = self.mean_pass_rate
            ends = [min(max(mean + side * STEP, 0.0), 1.0) for side in (-1.0, 1.0)]
            below, above = (self.estimator.for_mean(end).weights(self.group_size)[1:] for end in ends)
            for i, (low, high) in enumerate(zip(below, above, strict=True)):
                parts[i] = parts[i] + float(self._law @ (high - low)) / (ends[1] - ends[0]) * (p - mean)
        return parts[0], parts[1], parts[2]

    def changes(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        """`at_rates` less the moments: the derivative in the mass of F at each pass rate."""
        t, square, noise = self.at_rates(p)
        m = self.moments
        return t - m.signal, square - m.signal_square, noise - m.noise

    def influence(self, kappa: float, coherence: float, p: Floats) -> Floats:
        """Influence on the logarithm of `worth`; its mean under the fitted law is 0 (theory.md, eq. 71)."""
        t, square, noise = self.changes(p)
        fall = (square + kappa * noise - 2.0 * coherence * self.moments.signal * t) / self.variance(kappa, coherence)
        value: Floats = 2.0 * t / self.moments.signal - fall
        return value

    def step_noise(self, kappa: float, coherence: float, prompts: int | None) -> float | None:
        """Noise to signal of a step (theory.md, eq. 26); None where it is not known or there is no signal."""
        shared = coherence * self.moments.signal**2 * (prompts or 0)
        return self.variance(kappa, coherence) / shared if shared > 0.0 else None


def side_by_side(fit: PassRateFit, *designs: tuple[Estimator, int]) -> tuple[Judged, ...]:
    """Estimators at group sizes, all by one law of the pass rates (theory.md, eq. 119).

    Counts up to the largest group size that they answer; beyond it the likely law, for small groups too: the difference
    of two laws would be taken for one of designs.
    """
    sizes = [estimator.law_size(group_size) for estimator, group_size in designs]
    laws = laws_of_one(fit, sizes)
    return tuple(Judged.under(laws[n], *design) for n, design in zip(sizes, designs, strict=True))


def same_plan(one: Estimator, other: Estimator, group_size: int, mean_pass_rate: float) -> bool:
    """Whether the advantages are one positive constant times those of the other: then all ratios are 1."""
    pairs = [np.concatenate(e.for_mean(mean_pass_rate).pair(group_size)) for e in (one, other)]
    largest = int(np.argmax(np.abs(pairs[0])))
    if pairs[0][largest] * pairs[1][largest] <= 0.0:
        return False
    factor = pairs[1][largest] / pairs[0][largest]
    return bool(np.allclose(pairs[0] * factor, pairs[1], rtol=1e-12, atol=1e-12))


def progress_ratio(
    fit: PassRateFit, one: Judged, base: Judged, *, kappa: float, coherence: float, level: float
) -> Ranged:
    """Progress at equal rollouts over that of the base, with limits by the tangent (theory.md, eq. 119)."""
    found = log_ratio(one, base, kappa, coherence)
    if found is None:
        return Ranged(value=None, low=0.0, high=None)
    low, high = (log_limit(fit, one, base, kappa, coherence, level, side) for side in (-1.0, 1.0))
    return Ranged(value=float(np.exp(found)), low=float(np.exp(found + low)), high=float(np.exp(found + high)))


def log_ratio(one: Judged, base: Judged, kappa: float, coherence: float) -> float | None:
    """Logarithm of the progress at equal rollouts over that of the base; None without a signal."""
    mine, other = (j.worth(kappa, coherence) / j.group_size for j in (one, base))
    return float(np.log(mine / other)) if min(mine, other) > 0.0 else None


def log_limit(
    fit: PassRateFit, one: Judged, base: Judged, kappa: float, coherence: float, level: float, side: float
) -> float:
    """How far the `log_ratio` may lie above (side 1) or below (side -1) its value, by the tangent."""

    def tangent(p: Floats) -> Floats:
        value: Floats = side * (one.influence(kappa, coherence, p) - base.influence(kappa, coherence, p))
        return value

    return side * min(max(fit.upper_limit_of(custom(tangent, "progress ratio"), level), 0.0), WIDEST)


def effect_of(fit: PassRateFit, group_sizes: Iterable[int], progress: Sequence[AtKappa], level: float) -> Effect:
    """What the limits of the ratios say together.

    Nothing where the pilot has under 30 prompts, or cannot tell the dead fraction at one of the group sizes: a tangent
    does not reach that far.
    """
    if FitStatus.TOO_FEW_PROMPTS in fit.statuses:
        return Effect.CANNOT_TELL
    if any(fit.dead(size, level).status is FitStatus.BEYOND_REACH for size in group_sizes):
        return Effect.CANNOT_TELL
    lows = [at.ratio.low for at in progress]
    highs = [np.inf if at.ratio.high is None else at.ratio.high for at in progress]
    if not progress or any(at.ratio.value is None for at in progress):
        return Effect.CANNOT_TELL
    if min(lows) >= SAME_LOW and max(highs) <= SAME_HIGH:
        return Effect.ABOUT_THE_SAME
    if min(lows) > 1.0:
        return Effect.HELPS
    if max(highs) < 1.0:
        return Effect.DOES_NOT_HELP
    if max(lows) > 1.0 and min(highs) < 1.0:
        return Effect.DEPENDS_ON_KAPPA
    return Effect.CANNOT_TELL
