"""Average over how strongly a Beta is tilted, weighted by evidence (theory.md, eq. 40)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.mixing import Cells
from grpo_plan.fitting.tilted import LOG_SHAPE_LIMITS, LogitGrid, TiltedFit, fit_tilted
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
DEGREE = 6
# prior precisions of the tilts, from strong to weak; those of degree 6 grow with the square of the degree
QUADRATIC = (6.0, 0.6, 0.06)
SEXTIC = (0.6, 0.06)
MISFIT_OFFSET = 1.0
MISFIT_PER_ROLLOUT = 0.5
LEAST_SHARE = 0.1  # below it the weight is 0: data that a smooth F fits are answered by the smooth F alone
NO_SPREAD = 1e-3  # correlation below which the start is that of nearly equal pass rates


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AveragedFit:
    """Plain and tilted Betas with their weights.

    Attributes:
        grid: The logit grid that all share.
        fits: The fits, the plain Beta first.
        weights: Their weights, sum 1.
    """

    grid: LogitGrid = field(repr=False)
    fits: tuple[TiltedFit, ...] = field(repr=False)
    weights: Floats

    @property
    def rates(self) -> DiscretePassRates:
        """The averaged distribution."""
        masses: Floats = self.weights @ np.array([fit.mass for fit in self.fits])
        return DiscretePassRates(passing=self.grid.passing, failing=self.grid.failing, masses=masses)

    @property
    def log_likelihood(self) -> float:
        """Weighted mean of the fits' maxima."""
        return float(self.weights @ np.array([fit.log_likelihood for fit in self.fits]))

    @property
    def tilted(self) -> AveragedFit:
        """The same without the plain Beta."""
        return AveragedFit(grid=self.grid, fits=self.fits[1:], weights=self.weights[1:] / float(self.weights[1:].sum()))

    @property
    def plain(self) -> AveragedFit:
        """The plain Beta alone."""
        return AveragedFit(grid=self.grid, fits=self.fits[:1], weights=np.ones(1))

    def mean(self, phi: Floats) -> tuple[float, float]:
        """``E phi`` and its standard error, within and between the fits."""
        found = np.array([fit.mean(phi) for fit in self.fits])
        value = float(self.weights @ found[:, 0])
        variance = float(self.weights @ (found[:, 1] ** 2 + (found[:, 0] - value) ** 2))
        return value, math.sqrt(variance)


def priors() -> list[Floats]:
    """Prior precisions of the tilts of each model but the plain Beta."""
    growing = np.arange(1.0, DEGREE + 1.0) ** 2
    return [np.full(2, value) for value in QUADRATIC] + [value * growing for value in SEXTIC]


def nonparametric_share(log_likelihood_lost: float, rollouts: int) -> float:
    """Weight of the nonparametric answer, 0 unless no smooth F fits (theory.md, eq. 40).

    Args:
        log_likelihood_lost: What the best F of all gains over the averaged fits.
        rollouts: n; with more rollouts more is gained by chance.

    >>> nonparametric_share(2.0, 8), round(nonparametric_share(5.0, 8), 3), round(nonparametric_share(50.0, 8), 3)
    (0.0, 0.444, 1.0)
    """
    excess = log_likelihood_lost - MISFIT_OFFSET - MISFIT_PER_ROLLOUT * rollouts
    share = 1.0 / (1.0 + math.exp(-excess)) if excess > -700.0 else 0.0
    return max(0.0, (share - LEAST_SHARE) / (1.0 - LEAST_SHARE))


def fit_average(cells: PilotHistogram | Cells, start: BetaPassRates) -> AveragedFit:
    """Fit the plain Beta and the tilted ones from weak to strong tilt, and weigh them.

    Args:
        cells: Cells of the pilot; some prompt is mixed.
        start: The Beta fit.
    """
    return average_on(LogitGrid.of(cells, DEGREE), start)


def average_on(grid: LogitGrid, start: BetaPassRates) -> AveragedFit:
    """`fit_average` on a grid that is there already, made for tilts up to `DEGREE`."""
    correlation = min(max(start.correlation, NO_SPREAD), 1.0 - NO_SPREAD)
    total = (1.0 - correlation) / correlation
    shape: Floats = np.log(np.maximum([start.mean * total, (1.0 - start.mean) * total], math.exp(LOG_SHAPE_LIMITS[0])))
    fits = [fit_tilted(grid, np.zeros(0), shape)]
    for precisions in priors():
        known = fits[-1].parameters
        padded: Floats = np.concatenate([known, np.zeros(max(0, 2 + precisions.size - known.size))])
        fits.append(fit_tilted(grid, precisions, padded))
    evidence = np.array([fit.log_evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    return AveragedFit(grid=grid, fits=tuple(fits), weights=weights / weights.sum())
