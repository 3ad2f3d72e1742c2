"""Profile-likelihood bounds of a mean over all distributions of pass rates (theory.md, eq. 33 and 34)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.mixing import Mixing
from grpo_plan.fitting.npmle import Masses, ascend, even_start

Floats = NDArray[np.float64]
ACCURACY = 2e-6  # of a bound, in units of the range of the functional
LOOSE = 0.05  # error of the likelihood ratio, relative to its threshold, while the tilt is far off
MAX_TILTS = 60
LEAST_RATIO = 1e-12
LEAST_THRESHOLD = 1e-6  # a smaller one is below the accuracy; its limits are those of this
WIDEST_STEP = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """One end of an interval.

    Attributes:
        value: The bound; by weak duality never inside the exact one on the grid.
        state: Distribution that comes close to it within the likelihood threshold.
        tilt: Multiplier of the functional there.
    """

    value: float
    state: Masses
    tilt: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfileLikelihood:
    """A pilot's likelihood over all distributions F on the grid.

    Attributes:
        mixing: Cells and grid.
        best: The maximum-likelihood distribution.
    """

    mixing: Mixing = field(repr=False)
    best: Masses = field(repr=False)
    _known: dict[tuple[bytes, float, float], Bound] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, mixing: Mixing) -> ProfileLikelihood:
        """Fit the maximum; everything else starts from it."""
        tolerance = min(1e-7, 1e-4 / mixing.prompts)
        nothing = np.zeros(mixing.passing.size)
        return cls(mixing=mixing, best=ascend(mixing, nothing, 0.0, even_start(mixing), tolerance))

    @property
    def log_likelihood(self) -> float:
        """Maximum over all F on the grid, binomial coefficients included."""
        return self.mixing.prompts * self.best.log_likelihood + self.mixing.log_constant

    @property
    def certificate(self) -> float:
        """Upper bound of what any other F could add to the log-likelihood."""
        return self.mixing.prompts * max(self.best.gap, 0.0)

    def mean(self, phi: Floats) -> float:
        """Mean of a functional under the maximum-likelihood distribution."""
        return float(phi[self.best.points] @ self.best.masses)

    def upper(self, phi: Floats, threshold: float, accuracy: float = ACCURACY) -> Bound:
        """Largest ``E_F phi`` among all F whose likelihood ratio to the best is at most ``threshold``.

        Args:
            phi: Functional at each grid point, shape (m,).
            threshold: Of ``2 (max log-likelihood - log-likelihood)``, above 0.
            accuracy: Of the bound, in units of the range of ``phi``.
        """
        threshold = max(threshold, LEAST_THRESHOLD)
        key = phi.tobytes(), threshold, accuracy
        if key not in self._known:
            self._known[key] = self._upper(phi, threshold, accuracy)
        return self._known[key]

    def _upper(self, phi: Floats, threshold: float, accuracy: float) -> Bound:
        least, most = float(phi.min()), float(phi.max())
        if self.mean(phi) >= most or most - least <= 1e-9 * (abs(most) + abs(least)):
            return Bound(value=most, state=self.best, tilt=0.0)
        unit = (phi - least) / (most - least)
        found = self._search(unit, threshold, LOOSE, accuracy) or self._search(unit, threshold, 0.0, accuracy)
        if found is None:
            return Bound(value=most, state=self.best, tilt=0.0)
        return Bound(value=least + (most - least) * min(found.value, 1.0), state=found.state, tilt=found.tilt)

    def lower(self, phi: Floats, threshold: float, accuracy: float = ACCURACY) -> Bound:
        """Smallest ``E_F phi``; arguments as in `upper`."""
        found = self.upper(-phi, threshold, accuracy)
        return Bound(value=0.0 - found.value, state=found.state, tilt=found.tilt)

    def _search(self, phi: Floats, threshold: float, loose: float, accuracy: float) -> Bound | None:
        """Find the tilt whose maximiser just meets the threshold; None if a loose search lost its way.

        The maximisers trace the largest likelihood at each value of the functional, a concave curve whose slope is
        minus the tilt. The next tilt is the slope where a cubic through the nearest two points meets the threshold.
        """
        prompts, best = self.mixing.prompts, self.best
        floor = best.log_likelihood - threshold / (2.0 * prompts)
        value, state, precision = math.inf, best, loose
        tilt = 2.0 * math.sqrt(threshold / prompts)
        low = _Point(
            tilt=0.0, excess=best.log_likelihood - floor, state=best, value=float(phi[best.points] @ best.masses)
        )
        high: _Point | None = None
        for _ in range(MAX_TILTS):
            wanted = max(accuracy * tilt / 4.0, 1e-13, precision * threshold / prompts)
            state = ascend(self.mixing, phi, tilt, state, wanted)
            excess = state.log_likelihood - floor
            value = min(value, (excess + max(state.gap, 0.0)) / tilt + state.functional)
            ratio = 2.0 * prompts * (best.log_likelihood - state.log_likelihood)
            miss = 0.5 * math.log(threshold / ratio) if ratio > LEAST_RATIO else 2.0
            if max(abs(excess) * min(abs(miss), 2.0), state.gap) / tilt < accuracy:
                return Bound(value=value, state=state, tilt=tilt)
            point = _Point(tilt=tilt, excess=excess, state=state, value=state.functional)
            if excess > 0.0:
                previous, low = low, point
            else:
                previous, high = low, point
            if high is None:
                step = _crossing(previous, low)
                tilt *= min(max(step / tilt if step else math.exp(miss), 1.1), WIDEST_STEP)
                precision = min(0.1 * abs(miss), loose)
                continue
            precision = 0.0
            if low.tilt > 0.0 and high.tilt < low.tilt * (1.0 + 1e-7):  # the frontier is straight here: mix its ends
                if loose and value - _mixed(self.mixing, low.state, high.state, floor) > 4.0 * accuracy:
                    return None
                return Bound(value=value, state=low.state, tilt=tilt)
            least = max(low.tilt, 0.01 * high.tilt)
            edge = 0.02 * math.log(high.tilt / least)
            step = _crossing(low, high) or math.sqrt(least * high.tilt)
            tilt = min(max(step, least * math.exp(edge)), high.tilt * math.exp(-edge))
        return Bound(value=value, state=state, tilt=tilt) if value < math.inf and not loose else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A point of the curve: functional, log-likelihood above the floor, and minus the slope."""

    tilt: float
    excess: float
    state: Masses
    value: float


def _crossing(first: _Point, second: _Point) -> float | None:
    """Tilt where the cubic through two points and their slopes meets the floor; None if it makes no sense."""
    width = second.value - first.value
    if width <= 0.0:
        return None
    rise, start, end = second.excess - first.excess, -first.tilt * width, -second.tilt * width
    a, b = start + end - 2.0 * rise, 3.0 * rise - 2.0 * start - end
    t = 1.0 if second.excess > 0.0 else 0.5
    for _ in range(30):
        height = first.excess + t * (start + t * (b + t * a))
        slope = start + t * (2.0 * b + 3.0 * a * t)
        if slope >= 0.0:
            return None
        change = height / slope
        t -= change
        if not 0.0 < t < 4.0:
            return None
        if abs(change) < 1e-9:
            return -(start + t * (2.0 * b + 3.0 * a * t)) / width
    return None


def _mixed(mixing: Mixing, inside: Masses, outside: Masses, floor: float) -> float:
    """Functional of the mixture of two distributions whose likelihood just meets the floor."""
    low, high = 0.0, 1.0
    for _ in range(40):
        share = 0.5 * (low + high)
        reached = float(mixing.weights @ np.log((1.0 - share) * inside.cells + share * outside.cells))
        low, high = (share, high) if reached >= floor else (low, share)
    return (1.0 - low) * inside.functional + low * outside.functional
