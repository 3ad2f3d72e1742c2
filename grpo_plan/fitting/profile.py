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
WIDEST_STEP = 1.5


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

    def upper(self, phi: Floats, threshold: float, near: Bound | None = None) -> Bound:
        """Largest ``E_F phi`` among all F whose likelihood ratio to the best is at most ``threshold``.

        Args:
            phi: Functional at each grid point, shape (m,).
            threshold: Of ``2 (max log-likelihood - log-likelihood)``, above 0.
            near: Bound of a similar functional, to start from.
        """
        least, most = float(phi.min()), float(phi.max())
        if self.mean(phi) >= most:
            return Bound(value=most, state=self.best, tilt=0.0)
        unit = (phi - least) / (most - least)
        found = self._search(unit, threshold, near, LOOSE) or self._search(unit, threshold, None, 0.0)
        if found is None:
            return Bound(value=most, state=self.best, tilt=0.0)
        return Bound(value=least + (most - least) * min(found.value, 1.0), state=found.state, tilt=found.tilt)

    def lower(self, phi: Floats, threshold: float, near: Bound | None = None) -> Bound:
        """Smallest ``E_F phi``; arguments as in `upper`."""
        found = self.upper(-phi, threshold, near)
        return Bound(value=0.0 - found.value, state=found.state, tilt=found.tilt)

    def _search(self, phi: Floats, threshold: float, near: Bound | None, loose: float) -> Bound | None:
        """Find the tilt whose maximiser just meets the threshold; None if a loose search lost its way."""
        prompts, best = self.mixing.prompts, self.best
        floor = best.log_likelihood - threshold / (2.0 * prompts)
        target = 0.5 * math.log(threshold)
        value, state, precision = math.inf, best, loose
        place = math.log(2.0) + target - 0.5 * math.log(prompts)
        if near is not None and near.tilt > 0.0:
            state, place = near.state, math.log(near.tilt)
        low: tuple[float, float, Masses] | None = None
        high: tuple[float, float, Masses] | None = None
        for _ in range(MAX_TILTS):
            tilt = math.exp(place)
            wanted = max(ACCURACY * tilt / 4.0, 1e-13, precision * threshold / prompts)
            state = ascend(self.mixing, phi, tilt, state, wanted)
            short = state.log_likelihood - floor
            value = min(value, (short + max(state.gap, 0.0)) / tilt + state.functional)
            ratio = 2.0 * prompts * (best.log_likelihood - state.log_likelihood)
            miss = target - 0.5 * math.log(ratio) if ratio > LEAST_RATIO else math.inf
            if max(abs(short) * min(abs(miss), 2.0), state.gap) / tilt < ACCURACY:
                return Bound(value=value, state=state, tilt=tilt)
            if miss > 0.0:
                low = (place, miss, state)
            else:
                high = (place, miss, state)
            if low is None or high is None:
                place += min(max(miss, -WIDEST_STEP), WIDEST_STEP)
                precision = min(0.1 * abs(miss), loose)
                continue
            precision = 0.0
            if high[0] - low[0] < 1e-7:  # the frontier is straight here: mix its two ends
                if loose and value - _mixed(self.mixing, low[2], high[2], floor) > 4.0 * ACCURACY:
                    return None
                return Bound(value=value, state=low[2], tilt=tilt)
            share = low[1] / (low[1] - high[1]) if low[1] < math.inf else 0.5
            place = low[0] + (high[0] - low[0]) * min(max(share, 0.05), 0.95)
        return Bound(value=value, state=state, tilt=tilt) if value < math.inf and not loose else None


def _mixed(mixing: Mixing, inside: Masses, outside: Masses, floor: float) -> float:
    """Functional of the mixture of two distributions whose likelihood just meets the floor."""
    low, high = 0.0, 1.0
    for _ in range(40):
        share = 0.5 * (low + high)
        reached = float(mixing.weights @ np.log((1.0 - share) * inside.cells + share * outside.cells))
        low, high = (share, high) if reached >= floor else (low, share)
    return (1.0 - low) * inside.functional + low * outside.functional
