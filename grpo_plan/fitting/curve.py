"""Limits of D(G) at very many group sizes: exact at some, in between by the convexity of log D (theory.md, eq. 72)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

from grpo_plan.fitting.estimates import DeadFraction, Limits
from grpo_plan.fitting.functionals import Functional
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.thresholds import FAR

EXACT_TO = 10  # every group size up to here is a knot
KNOT_RATIO = 1.13
LEAST = 1e-300


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitsCurve:
    """Where a fit's estimates find their limits when they are asked at very many group sizes.

    Attributes:
        fit: The fit.
        knots: Group sizes with exact limits, rising; the first and last enclose all that will be asked.
    """

    fit: PassRateFit
    knots: tuple[int, ...]

    @classmethod
    def of(cls, fit: PassRateFit, largest: int) -> LimitsCurve:
        """Knots that are 13 % apart from 10 on, and meet the kinks at n and at 4n.

        >>> from grpo_plan.fitting.fit import fit_pass_rates
        >>> from grpo_plan.pilot import Pilot
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> LimitsCurve.of(fit, 20).knots
        (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20)
        """
        n = fit.max_measured_group_size
        sizes = set(range(2, min(EXACT_TO, largest) + 1)) | {2, largest}
        size = EXACT_TO
        while size < largest:
            size = max(size + 1, int(size * KNOT_RATIO))
            sizes.add(min(size, largest))
        kinks = {n - 1, n, n + 1, FAR * n, FAR * n + 1, fit.max_counted_group_size, fit.max_counted_group_size + 1}
        return cls(fit=fit, knots=tuple(sorted(sizes | {k for k in kinks if 2 <= k <= largest})))

    def dead(self, group_size: int, level: float) -> DeadFraction:
        """`PassRateFit.dead` with limits from this curve."""
        return replace(self.fit.dead(group_size, level), _source=self)

    def group_limits(self, kind: str, group_size: int, level: float, simultaneous: bool) -> Limits:
        """Limits of "dead", "all-pass" or "all-fail": exact at a knot, interpolated between knots."""
        knots = self.knots
        if group_size in knots or not knots[0] < group_size < knots[-1]:
            return self.fit.group_limits(kind, group_size, level, simultaneous)
        right = next(i for i, knot in enumerate(knots) if knot > group_size)
        near = [i for i in range(right - 2, right + 2) if 0 <= i < len(knots)]
        limits = {knots[i]: self.fit.group_limits(kind, knots[i], level, simultaneous) for i in near}
        before, after = knots[right - 1], knots[right]
        high = _line({g: limits[g][1] for g in (before, after)}, group_size)
        lines = [_line({g: limits[g][0] for g in (before, after)}, group_size)]
        if right >= 2:  # a convex curve lies above its chords' extensions
            lines.append(_line({g: limits[g][0] for g in (knots[right - 2], before)}, group_size))
        if right + 1 < len(knots):
            lines.append(_line({g: limits[g][0] for g in (after, knots[right + 1])}, group_size))
        low = min(lines[0], max(lines[1:])) if len(lines) > 1 else limits[after][0]
        held = self.fit.group_value(kind, group_size)
        low, high = max(low, limits[after][0]), min(high, limits[before][1])
        return (low, high) if held is None else (min(low, held), max(high, held))

    def limits_of(self, functional: Functional, level: float) -> Limits:
        """As the fit."""
        return self.fit.limits_of(functional, level)

    def identified_of(self, functional: Functional) -> Limits | None:
        """As the fit."""
        return self.fit.identified_of(functional)

    def smooth_limits(self, group_size: int, level: float) -> Limits | None:
        """As the fit."""
        return self.fit.smooth_limits(group_size, level)

    def dead_functional(self, group_size: int) -> Functional:
        """As the fit."""
        return self.fit.dead_functional(group_size)

    def status_at(self, group_size: int, value: float | None, limits: Limits) -> FitStatus:
        """As the fit."""
        return self.fit.status_at(group_size, value, limits)


def _line(points: dict[int, float], group_size: int) -> float:
    """The line through two points of the logarithm, at a group size."""
    (g, a), (h, b) = ((size, log(max(value, LEAST))) for size, value in points.items())
    return exp(a + (b - a) * (group_size - g) / (h - g))
