"""Beta densities times the exponential of a polynomial, fitted by penalised Fisher scoring (theory.md, eq. 39)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.mixing import Cells, binomial_likelihood, log_coefficients, log_peak
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
EDGE = 36.0  # logit where the grid ends; beyond it the density is a pure exponential
POINTS = 577
LOG_SHAPE_LIMITS = (-4.6, 6.0)  # of a and b
TILT_LIMIT = 80.0
FINEST_N = 20_000  # rollouts up to which the grid resolves the likelihood of one prompt
FULL_TABLE = 400  # rows up to which the expected information sums over every possible k
MAX_ITERATIONS = 60
LARGEST_STEP = 4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogitGrid:
    """Likelihood of a pilot on an even grid of logits, on which integrals over p are exact to rounding.

    Attributes:
        passing: p, shape (m,).
        failing: 1 - p, shape (m,).
        features: log p, log(1 - p), P1(2p - 1), P2(2p - 1), ... (Legendre), shape (2 + degree, m).
        spacing: Step in logit.
        table: P(k of n | p) up to a constant for each row, shape (R, m).
        log_scale: Log of that constant with the binomial coefficient, shape (R,).
        prompts: Prompts in each row, shape (R,); rows of unseen k have 0.
        of_size: Prompts of that n, shape (R,), where every k of each n has a row; else None.
        shape_precision: Of normal priors of log a and log b around 0; 0 for flat ones.
        log_weight: Log of what multiplies every density, shape (m,), or None for 1. It must fall like p and 1 - p at
            the ends of the grid, so that what lies beyond is below rounding (theory.md, eq. 76).
    """

    passing: Floats
    failing: Floats
    features: Floats
    spacing: float
    table: Floats
    log_scale: Floats
    prompts: Floats
    of_size: Floats | None
    log_weight: Floats | None = None
    shape_precision: float = 0.0

    @classmethod
    def of(cls, cells: PilotHistogram | Cells, degree: int) -> LogitGrid:
        """Build it for tilts up to ``degree``; the spacing follows the largest n."""
        n, k = cells.rollouts.astype(np.float64), cells.successes.astype(np.float64)
        p, q, features, spacing = logit_axis(cells.max_rollouts, degree)
        sizes, groups = np.unique(cells.rollouts, return_inverse=True)
        if int(np.sum(sizes + 1)) <= FULL_TABLE:
            offsets = np.concatenate([[0], np.cumsum(sizes + 1)])
            rows_n = np.repeat(sizes, sizes + 1).astype(np.float64)
            rows_k = np.concatenate([np.arange(size + 1) for size in sizes]).astype(np.float64)
            prompts = np.zeros(rows_n.size)
            prompts[offsets[groups] + cells.successes] = cells.prompts
            totals = np.bincount(groups, weights=cells.prompts)
            of_size: Floats | None = np.repeat(totals, sizes + 1).astype(np.float64)
        else:
            few = np.minimum(1.0, FINEST_N / n)  # sharper likelihoods than the grid resolves are tempered
            rows_n, rows_k, prompts, of_size = n * few, k * few, cells.prompts.astype(np.float64), None
        return cls(
            passing=p,
            failing=q,
            features=features,
            spacing=spacing,
            table=binomial_likelihood(rows_n, rows_k, p, q),
            log_scale=log_coefficients(rows_n, rows_k) + log_peak(rows_n, rows_k),
            prompts=prompts,
            of_size=of_size,
        )

    def density(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Masses on the grid, and derivatives of their logs by (log a, log b, tilts), up to constants.

        The grid goes on beyond its ends for ever: the rest of each tail, a geometric series, joins its end point.
        """
        a, b = math.exp(parameters[0]), math.exp(parameters[1])
        used = self.features[: parameters.size]
        log_mass = np.concatenate([[a, b], parameters[2:]]) @ used
        if self.log_weight is not None:
            log_mass = log_mass + self.log_weight
        derivatives = used.copy()
        for end, row, rate in ((0, 0, a), (-1, 1, b)):
            share = -math.expm1(-rate * self.spacing)  # of the end point in point plus tail
            derivatives[row, end] -= self.spacing * (1.0 - share) / share
            log_mass[end] -= math.log(share)
        mass = np.exp(log_mass - log_mass.max())
        mass /= float(mass.sum())
        derivatives[0] *= a
        derivatives[1] *= b
        return mass, derivatives


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TiltedFit:
    """One fitted tilted Beta.

    Attributes:
        parameters: log a, log b and the Legendre coefficients, shape (2 + degree,).
        mass: Probability of each grid point, shape (m,).
        derivatives: Of the log masses by the parameters, shape (2 + degree, m).
        covariance: Inverse of the penalised expected information.
        log_likelihood: At the fit, without the penalty, binomial coefficients included.
        log_evidence: Laplace approximation of the log marginal likelihood, up to a constant common to all fits.
        converged: Whether the ascent ended at a stationary point.
    """

    parameters: Floats
    mass: Floats = field(repr=False)
    derivatives: Floats = field(repr=False)
    covariance: Floats
    log_likelihood: float
    log_evidence: float
    converged: bool

    def mean(self, phi: Floats) -> tuple[float, float]:
        """``E phi`` and its delta-method standard error, for a functional on the grid."""
        value = float(self.mass @ phi)
        slope = self.derivatives @ (self.mass * (phi - value))
        return value, math.sqrt(max(float(slope @ self.covariance @ slope), 0.0))


def logit_axis(rollouts: int, degree: int) -> tuple[Floats, Floats, Floats, float]:
    """p, 1 - p, features and spacing of a grid that resolves the likelihood of ``rollouts`` a prompt."""
    points = max(POINTS, 2 * math.ceil(EDGE * math.sqrt(min(rollouts, FINEST_N)) / 2.0) + 1)
    logit = np.linspace(-EDGE, EDGE, points)
    p, q = 1.0 / (1.0 + np.exp(-logit)), 1.0 / (1.0 + np.exp(logit))
    log_p, log_q = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    features = np.vstack([log_p, log_q, *_legendre(p - q, degree)])
    return p, q, features, float(logit[1] - logit[0])


def fit_tilted(grid: LogitGrid, precisions: Floats, start: Floats) -> TiltedFit:
    """Fit ``p**(a-1) (1-p)**(b-1) exp(sum c_d P_d(2p-1))`` with normal priors on the c_d.

    Args:
        grid: The pilot.
        precisions: Of the prior of each c_d: its variance is ``1 / precision``; none for the plain Beta.
        start: Parameters to start from, shape (2 + degree,).
    """
    degree = precisions.size
    size = 2 + degree
    penalty = np.concatenate([np.full(2, grid.shape_precision), precisions])
    low = np.concatenate([np.full(2, LOG_SHAPE_LIMITS[0]), np.full(degree, -TILT_LIMIT)])
    high = np.concatenate([np.full(2, LOG_SHAPE_LIMITS[1]), np.full(degree, TILT_LIMIT)])
    seen = grid.prompts > 0.0
    prompts = grid.prompts[seen]
    total = float(prompts.sum())
    t = np.clip(start, low, high)
    mass, derivatives = grid.density(t)
    cells = grid.table @ mass
    value = float(prompts @ np.log(cells[seen])) - 0.5 * float(penalty @ t**2)
    damping, converged = 1e-3, False
    information = np.eye(size)
    for _ in range(MAX_ITERATIONS):
        weighted = derivatives * mass
        scores = (grid.table @ weighted.T) / cells[:, None] - weighted.sum(axis=1)
        gradient = prompts @ scores[seen] - penalty * t
        counts = grid.prompts if grid.of_size is None else grid.of_size * cells * np.exp(grid.log_scale)
        information = (scores.T * counts) @ scores + np.diag(penalty)
        free = ~(((t <= low) & (gradient < 0.0)) | ((t >= high) & (gradient > 0.0)))
        if not free.any() or float(np.abs(gradient[free]).max()) <= 1e-7 * (1.0 + total):
            converged = True
            break
        moved = False
        for _ in range(14):
            matrix = information + np.diag(damping * np.diag(information) + 1e-10 * float(np.trace(information)))
            rows = np.flatnonzero(free)
            step = np.zeros(size)
            step[rows] = np.linalg.solve(matrix[rows[:, None], rows], gradient[rows])
            step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            proposal = np.clip(t + step, low, high)
            new_mass, new_derivatives = grid.density(proposal)
            new_cells = grid.table @ new_mass
            new_value = float(prompts @ np.log(new_cells[seen])) - 0.5 * float(penalty @ proposal**2)
            if new_value >= value - 1e-12 * abs(value):
                moved = True
                break
            damping = max(8.0 * damping, 1e-4)
        if not moved:
            break
        gain, change = new_value - value, float(np.abs(proposal - t).max())
        t, mass, derivatives, cells, value = proposal, new_mass, new_derivatives, new_cells, new_value
        damping /= 6.0
        if gain < 1e-9 * max(1.0, 1e-3 * total) and change < 1e-3:
            converged = True
            break
    ridge = 1e-12 * float(np.trace(information)) * np.eye(size)
    covariance = np.asarray(np.linalg.pinv(information + ridge, rcond=1e-12, hermitian=True), dtype=np.float64)
    log_likelihood = float(prompts @ np.log(cells[seen]))
    _, log_determinant = np.linalg.slogdet(covariance)
    evidence = log_likelihood + 0.5 * float(log_determinant)
    evidence -= 0.5 * grid.shape_precision * float(t[:2] @ t[:2])
    if degree:
        evidence += 0.5 * (float(np.log(precisions).sum()) - float(precisions @ t[2:] ** 2))
    return TiltedFit(
        parameters=t,
        mass=mass,
        derivatives=derivatives,
        covariance=covariance,
        log_likelihood=log_likelihood + float(grid.prompts @ grid.log_scale),
        log_evidence=evidence,
        converged=converged,
    )


def _legendre(x: Floats, degree: int) -> list[Floats]:
    """P_1 to P_degree at x, by the three-term recurrence."""
    values = [np.ones_like(x), x]
    for d in range(1, degree):
        values.append(((2 * d + 1) * x * values[d] - d * values[d - 1]) / (d + 1))
    return values[1 : degree + 1]
