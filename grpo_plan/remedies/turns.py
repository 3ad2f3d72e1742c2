"""The kappa at which two designs change places, with its limits (theory.md, eq. 119)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from grpo_plan.estimators import GroupMoments
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.signal import MAX_KAPPA
from grpo_plan.remedies.progress import Judged, log_limit, log_ratio
from grpo_plan.remedies.result import Ranged, Turn

NEGLIGIBLE = 1e-9  # a difference of two products, over either
DOUBLINGS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # of the turning kappa, where its limits are looked for
ACCURACY = 1e-3  # of the logarithm of a limit


def turning_kappa(
    fit: PassRateFit, one: Judged, base: Judged, *, coherence: float, level: float, shown: Iterable[float] = ()
) -> Turn | None:
    """Where the order of two designs at equal rollouts turns; None without a signal (theory.md, eq. 119).

    The limits are the kappas next to the turn at which the limits of the ratio leave 1, so that none lies beyond a
    kappa at which the ratio is known to be above or below 1. A lower limit of 0, or no upper one, says that the pilot
    allows no turn at all.

    Args:
        fit: Fitted pass rates.
        one: The design in question.
        base: The design it is compared with.
        coherence: Mean cosine between the gradients of two prompts.
        level: Confidence level.
        shown: Values of kappa that are looked at first.
    """
    a, b = one.moments, base.moments
    if min(a.signal, b.signal) <= 0.0:
        return None
    sizes = one.group_size / base.group_size, 1.0
    top, bottom = turn_parts(a, b, sizes, coherence)
    small_top = abs(top) <= NEGLIGIBLE * sizes[0] * b.signal**2 * a.signal_square
    small_bottom = abs(bottom) <= NEGLIGIBLE * a.signal**2 * b.noise
    if small_bottom:
        return Turn(better="equal" if small_top else "everywhere" if top < 0.0 else "nowhere")
    kappa = top / bottom
    if kappa <= 0.0 or small_top:
        return Turn(better="everywhere" if bottom > 0.0 else "nowhere")
    above = 1.0 if bottom > 0.0 else -1.0  # the sign of the logarithm of the ratio above the turn

    def open_by(at: float, ahead: float) -> float:
        """By how much the limits at a kappa, where one is ahead (1) or behind (-1), still hold a ratio of 1."""
        found = log_ratio(one, base, at, coherence)
        return (
            math.inf if found is None else log_limit(fit, one, base, at, coherence, level, -ahead) * -ahead - abs(found)
        )

    beyond = sorted(k for k in shown if k > kappa)
    before = sorted((k for k in shown if 0.0 < k < kappa), reverse=True)
    high = _end(lambda k: open_by(k, above), kappa, [*beyond, *(kappa * 2.0**d for d in DOUBLINGS), MAX_KAPPA])
    low = _end(lambda k: open_by(k, -above), kappa, [*before, *(kappa * 2.0**-d for d in DOUBLINGS), 0.0])
    ends = Ranged(value=kappa, low=low or 0.0, high=high)
    return Turn(better="above" if above > 0.0 else "below", kappa=ends)


def _end(open_by: Callable[[float], float], kappa: float, points: Iterable[float]) -> float | None:
    """The kappa between the turn and the first point whose ratio is sure; None if there is no such point."""
    from scipy.optimize import brentq

    inside = kappa
    for point in sorted(points, key=lambda k: abs(math.log(k / kappa)) if k > 0.0 else math.inf):
        if open_by(point) >= 0.0:
            inside = point
            continue
        if point == 0.0 or open_by(inside) <= 0.0:
            return inside
        ends = math.log(inside), math.log(point)
        return math.exp(float(brentq(lambda at: open_by(math.exp(at)), *ends, xtol=ACCURACY)))
    return None


def turn_parts(
    a: GroupMoments, b: GroupMoments, sizes: tuple[float, float] = (1.0, 1.0), coherence: float = 0.0
) -> tuple[float, float]:
    """Numerator and denominator of the turning kappa (theory.md, eq. 119).

    A makes more progress at equal rollouts where kappa times the denominator exceeds the numerator.
    """
    square = [m.signal_square - coherence * m.signal**2 for m in (a, b)]
    top = sizes[0] * b.signal**2 * square[0] - sizes[1] * a.signal**2 * square[1]
    return top, sizes[1] * a.signal**2 * b.noise - sizes[0] * b.signal**2 * a.noise
