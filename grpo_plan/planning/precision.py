"""How sure a pilot is of the progress of one design beside another (theory.md, eq. 71 and 102)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from grpo_plan._binomial import binomial_window
from grpo_plan.estimators import Estimator, GroupMoments, get_estimator
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
) -> tuple[float, float]:
    """Confidence limits of a design's progress relative to the best one's at one kappa.

    The logarithm of the ratio is replaced by its tangent in F at the fitted law; the limits of that linear mean are
    those over all F that the pilot leaves possible. All designs are judged by one law (theory.md, eq. 28).

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
    advantage = get_estimator(estimator)
    known = estimator, *sizes
    laws = fit.remembered(
        ("progress laws", *known), lambda: laws_of_one(fit, {advantage.law_size(size) for size in sizes})
    )
    moments = fit.remembered(
        ("progress moments", *known), lambda: [advantage.moments(laws.__getitem__, size) for size in sizes]
    )
    worth = np.array([_worth(m, kappa, coherence) for m in moments]) * np.asarray(groups)
    best = int(np.argmax(worth))
    if which == best or worth[which] <= 0.0:
        share = 1.0 if which == best else 0.0
        return share, share
    ratio = float(worth[which] / worth[best])

    def influence(i: int, p: Floats) -> Floats:
        law = laws[advantage.law_size(sizes[i])]
        return fit.remembered(
            ("influence", known, i, kappa, coherence, p.tobytes()),
            lambda: _influence(advantage, sizes[i], moments[i], kappa, coherence, p, law),
        )

    def tangent(p: Floats) -> Floats:
        return influence(which, p) - influence(best, p)

    functional = custom(tangent, "progress ratio")
    low, high = fit.limits_of(functional, level)
    low, high = max(min(low, 0.0), -WIDEST), min(max(high, 0.0), WIDEST)
    return ratio * float(np.exp(low)), ratio * float(np.exp(high))


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
) -> Floats:
    """Derivative of ``log(E[t]**2 / V)`` in the mass of F at each pass rate; its mean under the fitted F is 0.

    An estimator that subtracts the batch's mean pass rate changes with it: one more term, which needs the law of passes
    that the moments are of (theory.md, eq. 102).
    """
    mean = 0.0 if law is None else float(law @ np.arange(law.size)) / (law.size - 1)
    size, signal, square, noise = advantage.for_mean(mean).weights(group_size)
    counts, chances = binomial_window(size, p)
    t, scatter = ((chances * weight[counts]).sum(axis=1) for weight in (signal, square + kappa * noise))
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
