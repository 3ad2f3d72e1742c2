"""Average over how strongly a Beta is tilted, weighted by evidence (theory.md, eq. 40)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.tilted import LOG_SHAPE_LIMITS, LogitGrid, TiltedFit, fit_tilted
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.passrates.discrete import DiscretePassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
DEGREE = 2
PRECISIONS = (6.0, 2.0, 0.6, 0.2, 0.06, 0.02)  # of the tilts: prior variances 1/6 to 50
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


def fit_average(histogram: PilotHistogram, start: BetaPassRates) -> AveragedFit:
    """Fit the plain Beta and the tilted ones from weak to strong tilt, and weigh them.

    Args:
        histogram: Cells of the pilot, with spread: some prompts differ.
        start: The Beta fit.
    """
    grid = LogitGrid.of(histogram, DEGREE)
    correlation = min(max(start.correlation, NO_SPREAD), 1.0 - NO_SPREAD)
    total = (1.0 - correlation) / correlation
    shape = np.log(np.maximum([start.mean * total, (1.0 - start.mean) * total], math.exp(LOG_SHAPE_LIMITS[0])))
    fits = [fit_tilted(grid, 0, 1.0, shape)]
    parameters = np.concatenate([fits[0].parameters, np.zeros(DEGREE)])
    for precision in PRECISIONS:
        fits.append(fit_tilted(grid, DEGREE, precision, parameters))
        parameters = fits[-1].parameters
    evidence = np.array([fit.log_evidence for fit in fits])
    weights = np.exp(evidence - evidence.max())
    return AveragedFit(grid=grid, fits=tuple(fits), weights=weights / weights.sum())
