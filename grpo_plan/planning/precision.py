"""How sure a pilot is of the progress of one design beside another (theory.md, eq. 71 and 102)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan.estimators import Estimator, GroupMoments, get_estimator
from grpo_plan.fitting.estimates import Limits
from grpo_plan.fitting.functionals import custom
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit

Floats = NDArray[np.float64]
WIDEST = 50.0  # of the logarithm of a ratio
STEP = 1e-4  # of the mean pass rate, times m (1 - m), for a derivative


def progress_limits(
    fit: PassRateFit,
    *,
    sizes: Sequence[int],
    groups: Sequence[float],
    which: int,
    estimator: str,
    kappa: float,
    coherence: float,
    level: float,
) -> Limits:
    """Confidence limits of a design's progress relative to the best one's at one kappa: see `TableLimits`.

    Args:
        fit: Fitted pass rates.
        sizes: Group size of each design.
        groups: Groups that each design buys with the same budget.
        which: Index of the design in question.
        estimator: Name of the advantage estimator.
        kappa: Score noise over contrast.
        coherence: Mean cosine between the gradients of two prompts.
        level: Confidence level.
    """
    table = TableLimits(
        fit=fit, sizes=tuple(sizes), groups=tuple(groups), estimator=estimator, coherence=coherence, level=level
    )
    return table.at(which, kappa)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableLimits:
    """Limits of the progress of designs beside the best one's, all by one law (theory.md, eq. 28 and 71).

    The logarithm of the ratio is replaced by its tangent in F at that law; the limits of that linear mean are those
    over all F that the pilot leaves possible. What does not depend on kappa is kept.
    """

    fit: PassRateFit
    sizes: tuple[int, ...]
    groups: tuple[float, ...]
    estimator: str
    coherence: float
    level: float
    _known: dict[tuple[int, bytes], tuple[Floats, Floats, Floats]] = field(default_factory=dict, repr=False)

    def at(self, which: int, kappa: float) -> Limits:
        """Limits of one design at one kappa; ``(1, 1)`` for the best, ``(0, 0)`` without progress."""
        worth = np.array([_worth(m, kappa, self.coherence) for m in self._moments]) * np.asarray(self.groups)
        best = int(np.argmax(worth))
        if which == best or worth[which] <= 0.0:
            share = 1.0 if which == best else 0.0
            return share, share
        ratio = float(worth[which] / worth[best])

        def tangent(p: Floats) -> Floats:
            return self._influence(which, kappa, p) - self._influence(best, kappa, p)

        low, high = self.fit.limits_of(custom(tangent, "progress ratio"), self.level)
        low, high = max(min(low, 0.0), -WIDEST), min(max(high, 0.0), WIDEST)
        return ratio * float(np.exp(low)), ratio * float(np.exp(high))

    @property
    def _advantage(self) -> Estimator:  # not kept: it holds functions, and a plan can be pickled
        return get_estimator(self.estimator)

    @cached_property
    def _laws(self) -> dict[int, Floats]:
        return laws_of_one(self.fit, {self._advantage.law_size(size) for size in self.sizes})

    @cached_property
    def _moments(self) -> list[GroupMoments]:
        return [self._advantage.moments(self._laws.__getitem__, size) for size in self.sizes]

    def _influence(self, index: int, kappa: float, p: Floats) -> Floats:
        size, law = self.sizes[index], self._laws[self._advantage.law_size(self.sizes[index])]
        key = size, p.tobytes()
        if key not in self._known:
            self._known[key] = _at_rates(self._advantage.for_mean(_mean_of(law)), size, p)
        return _influence(self._advantage, size, self._moments[index], kappa, self.coherence, p, law, self._known[key])


def _mean_of(law: Floats) -> float:
    """Mean pass rate behind a law of passes."""
    return float(law @ np.arange(law.size)) / (law.size - 1)


def _at_rates(advantage: Estimator, group_size: int, p: Floats) -> tuple[Floats, Floats, Floats]:
    """``E[t | p]``, ``E[t**2 | p]`` and ``E[v | p]`` of an estimator in a batch of a known mean."""
    size, *weights = advantage.weights(group_size)
    counts, chances = binomial_window(size, p)
    t, square, noise = ((chances * weight[counts]).sum(axis=1) for weight in weights)
    return t, square, noise


def _worth(moments: GroupMoments, kappa: float, coherence: float) -> float:
    if moments.signal == 0.0:
        return 0.0
    return moments.signal**2 / float(moments.variance(np.array(kappa), coherence))


def _influence(
    advantage: Estimator,
    group_size: int,
    moments: GroupMoments,
    kappa: float,
    coherence: float,
    p: Floats,
    law: Floats | None = None,
    at_rates: tuple[Floats, Floats, Floats] | None = None,
) -> Floats:
    """Derivative of ``log(E[t]**2 / V)`` in the mass of F at each pass rate; its mean under the fitted F is 0.

    An estimator that subtracts the batch's mean pass rate changes with it: one more term, which needs the law of passes
    that the moments are of (theory.md, eq. 102).
    """
    mean = 0.0 if law is None else _mean_of(law)
    t, square, noise = at_rates or _at_rates(advantage.for_mean(mean), group_size, p)
    scatter = square + kappa * noise
    variance = float(moments.variance(np.array(kappa), coherence))
    relative = t / moments.signal
    fall = (scatter - 2.0 * coherence * moments.signal * t) / variance
    floor = (moments.signal_square + kappa * moments.noise - 2.0 * coherence * moments.signal**2) / variance
    influence: Floats = 2.0 * (relative - 1.0) - (fall - floor)
    if advantage.batch and law is not None:
        influence += (p - mean) * _slope_in_mean(advantage, group_size, law, kappa, coherence, mean)
    return influence


def _slope_in_mean(
    advantage: Estimator, group_size: int, law: Floats, kappa: float, coherence: float, mean: float
) -> float:
    """Derivative of ``log(E[t]**2 / V)`` in the mean that the estimator subtracts, at a fixed law of passes."""
    step = STEP * mean * (1.0 - mean)
    if step == 0.0:
        return 0.0
    ends = []
    for there in (mean + step, mean - step):
        _, *weights = advantage.for_mean(there).weights(group_size)
        signal, square, noise = (float(law @ weight) for weight in weights)
        ends.append(np.log(_worth(GroupMoments(signal=signal, signal_square=square, noise=noise), kappa, coherence)))
    return float(ends[0] - ends[1]) / (2.0 * step)
