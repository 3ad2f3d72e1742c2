"""Beta-binomial maximum likelihood on the (n, k) histogram (theory.md, eq. 20).

The likelihood is written in tail counts and in (logit mean, logit correlation): it costs O(max n) however
many prompts there are, has no difference of log-gammas, and is finite on the whole closed square, so that
all-zero, all-one, all-dead and under-dispersed pilots need no special case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import FitError
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
CORRELATION_STARTS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.995)
MEAN_LOGIT_LIMIT = 34.0
CORRELATION_LOGIT_LIMIT = 18.0
MAX_STEP = 4.0
MAX_ITERATIONS = 200
STALLED_GRADIENT = 1e-6  # per rollout
NEGLIGIBLE = 1e-10  # relative gain in likelihood over pass rates without spread


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaBinomialFit:
    """Maximum-likelihood Beta of a pilot.

    Attributes:
        rates: The fitted distribution; correlation exactly 0 or 1 when the maximum lies on that edge.
        log_likelihood: With binomial coefficients, so that fits of one pilot can be compared.
        standard_errors: Of (a, b), from the observed information, if the maximum is inside; else None.
        identified: False when no prompt has two rollouts (then only the mean is known).
    """

    rates: BetaPassRates
    log_likelihood: float
    standard_errors: tuple[float, float] | None
    identified: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TailCounts:
    """Prompts with k > j, n - k > j and n > j, for j = 0..max n - 1; sufficient for mean and correlation."""

    passes: Floats
    fails: Floats
    rollouts: Floats

    @property
    def edge(self) -> float:
        """Exponent of ``1 - correlation``: the number of mixed prompts."""
        return float(self.passes[0] + self.fails[0] - self.rollouts[0])


def fit_beta_binomial(histogram: PilotHistogram) -> BetaBinomialFit:
    """Fit a Beta to the pass rates by maximum likelihood.

    Args:
        histogram: Cells of the pilot; n may differ between prompts.

    Raises:
        FitError: The optimiser stopped away from a stationary point (reported, never returned as an answer).
    """
    tails = _tail_counts(histogram)
    constant = _log_coefficients(histogram)
    total = float(tails.rollouts.sum())
    passes = float(tails.passes.sum())
    mean = passes / total
    if passes in (0.0, total):
        # All rollouts agree: likelihood 1 at mean 0 or 1 whatever the correlation.
        rates = BetaPassRates(mean=mean, correlation=0.0)
        return BetaBinomialFit(rates=rates, log_likelihood=constant, standard_errors=None, identified=False)
    if tails.rollouts.size == 1:
        rates = BetaPassRates(mean=mean, correlation=0.0)
        value = _log_likelihood(tails, mean, 0.0)
        return BetaBinomialFit(rates=rates, log_likelihood=value + constant, standard_errors=None, identified=False)
    if tails.edge == 0.0:
        mean = float(tails.passes[0] / tails.rollouts[0])
        return _on_edge(tails, mean, 1.0, constant)
    flat = _log_likelihood(tails, mean, 0.0)
    starts = _log_likelihoods(tails, mean, np.array(CORRELATION_STARTS))
    if float(starts.max()) <= flat + NEGLIGIBLE * (1.0 + abs(flat)):
        return _on_edge(tails, mean, 0.0, constant)
    x, z = _maximise(tails, mean, starts)
    pooled, mean, correlation = mean, _expit(x), _expit(z)
    inside = _log_likelihood(tails, mean, correlation)
    if inside <= flat + NEGLIGIBLE * (1.0 + abs(flat)):
        return _on_edge(tails, pooled, 0.0, constant)
    return BetaBinomialFit(
        rates=BetaPassRates(mean=mean, correlation=correlation),
        log_likelihood=inside + constant,
        standard_errors=_shape_standard_errors(tails, x, z),
        identified=True,
    )


def _on_edge(tails: _TailCounts, mean: float, correlation: float, constant: float) -> BetaBinomialFit:
    return BetaBinomialFit(
        rates=BetaPassRates(mean=mean, correlation=correlation),
        log_likelihood=_log_likelihood(tails, mean, correlation) + constant,
        standard_errors=None,
        identified=True,
    )


def _tail_counts(histogram: PilotHistogram) -> _TailCounts:
    size = histogram.max_rollouts

    def above(values: NDArray[np.int64]) -> Floats:
        counts = np.bincount(values, weights=histogram.prompts, minlength=size + 1).astype(np.float64)
        return histogram.total_prompts - np.cumsum(counts)[:size]

    k, n = histogram.successes, histogram.rollouts
    return _TailCounts(passes=above(k), fails=above(n - k), rollouts=above(n))


def _log_coefficients(histogram: PilotHistogram) -> float:
    """Sum over prompts of log C(n, k)."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, histogram.max_rollouts + 1.0)))])
    k, n = histogram.successes, histogram.rollouts
    return float(histogram.prompts @ (logs[n] - logs[k] - logs[n - k]))


def _expit(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def _xlogy(x: Floats | float, y: Floats | float) -> Floats:
    """Element by element x log y, with 0 log 0 = 0."""
    zero = np.equal(x, 0.0)
    value: Floats = np.where(zero, 0.0, x * np.log(np.where(zero, 1.0, y)))
    return value


def _log_likelihoods(tails: _TailCounts, mean: float, correlations: Floats) -> Floats:
    """Log-likelihood without coefficients, on the closed square, at each correlation (theory.md, eq. 20)."""
    j = np.arange(1.0, tails.rollouts.size)
    rho = correlations[:, None]
    s = 1.0 - rho
    with np.errstate(divide="ignore", invalid="ignore"):
        first = _xlogy(tails.passes[0], mean) + _xlogy(tails.fails[0], 1.0 - mean) + _xlogy(tails.edge, s[:, 0])
        rest = (
            _xlogy(tails.passes[1:], mean * s + j * rho)
            + _xlogy(tails.fails[1:], (1.0 - mean) * s + j * rho)
            - _xlogy(tails.rollouts[1:], s + j * rho)
        )
        total: Floats = first + rest.sum(axis=1)
    return total


def _log_likelihood(tails: _TailCounts, mean: float, rho: float) -> float:
    """The same at one correlation."""
    return float(_log_likelihoods(tails, mean, np.array([rho]))[0])


def _derivatives(tails: _TailCounts, x: float, z: float) -> tuple[Floats, Floats]:
    """Gradient (2,) and Hessian (2, 2) of the log-likelihood in (logit mean, logit correlation)."""
    j = np.arange(float(tails.rollouts.size))
    mean, fail, rho, s = _expit(x), _expit(-x), _expit(z), _expit(-z)
    u, v, w = mean * s + j * rho, fail * s + j * rho, s + j * rho
    a, b, c = tails.passes / u, tails.fails / v, tails.rollouts / w
    du, dv, dw = j - mean, j - fail, j - 1.0  # derivatives in rho; in the mean they are s, -s, 0
    g_mean = s * float(np.sum(a - b))
    g_rho = float(np.sum(a * du + b * dv - c * dw))
    h_mean = -(s**2) * float(np.sum(a / u + b / v))
    h_rho = float(np.sum(-(a / u) * du**2 - (b / v) * dv**2 + (c / w) * dw**2))
    h_cross = float(np.sum(-(a / u) * s * du - a + (b / v) * s * dv + b))
    m, r = mean * fail, rho * s
    gradient = np.array([g_mean * m, g_rho * r])
    hessian = np.array(
        [
            [h_mean * m**2 + g_mean * m * (fail - mean), h_cross * m * r],
            [h_cross * m * r, h_rho * r**2 + g_rho * r * (s - rho)],
        ]
    )
    return gradient, hessian


def _maximise(tails: _TailCounts, mean: float, values: Floats) -> tuple[float, float]:
    """Damped Newton ascent from the best of the starts; returns (logit mean, logit correlation)."""
    start = CORRELATION_STARTS[int(np.argmax(values))]
    point = np.array([math.log(mean / (1.0 - mean)), math.log(start / (1.0 - start))])
    limits = np.array([MEAN_LOGIT_LIMIT, CORRELATION_LOGIT_LIMIT])
    value, damping = float(values.max()), 0.0
    scale = float(tails.rollouts[0])
    for _ in range(MAX_ITERATIONS):
        gradient, hessian = _derivatives(tails, float(point[0]), float(point[1]))
        free = ~((np.abs(point) >= limits) & (np.sign(gradient) == np.sign(point)))
        if np.all(np.abs(gradient[free]) <= 1e-9 * scale):
            return float(point[0]), float(point[1])
        eigenvalues, vectors = np.linalg.eigh(-hessian)
        floor = 1e-10 * scale + damping * max(float(np.max(np.abs(eigenvalues))), 1e-10 * scale)
        step = vectors @ ((vectors.T @ gradient) / (np.abs(eigenvalues) + floor))
        step = np.clip(step, -MAX_STEP, MAX_STEP)
        proposal = np.clip(point + step, -limits, limits)
        proposed = _log_likelihood(tails, _expit(float(proposal[0])), _expit(float(proposal[1])))
        if proposed >= value - 1e-13 * abs(value):
            if np.array_equal(proposal, point) or (
                abs(proposed - value) <= 1e-14 * abs(value) and np.all(np.abs(step) < 1e-7)
            ):
                return float(point[0]), float(point[1])
            point, value, damping = proposal, proposed, damping / 10.0 if damping > 1e-12 else 0.0
        else:
            damping = max(10.0 * damping, 1e-3)
            if damping > 1e12:
                break
    gradient, _ = _derivatives(tails, float(point[0]), float(point[1]))
    free = ~((np.abs(point) >= limits) & (np.sign(gradient) == np.sign(point)))
    if np.all(
        np.abs(gradient[free]) <= STALLED_GRADIENT * float(tails.rollouts.sum())
    ):  # rounding of the likelihood stops the ascent
        return float(point[0]), float(point[1])
    raise FitError(
        f"The Beta fit did not converge in {MAX_ITERATIONS} steps (mean {_expit(float(point[0])):.4g}, correlation "
        f"{_expit(float(point[1])):.4g}, gradient {np.abs(gradient).max():.2g}). Please report the histogram."
    )


def _shape_standard_errors(tails: _TailCounts, x: float, z: float) -> tuple[float, float] | None:
    """Delta-method standard errors of (a, b); None where the information is not positive definite."""
    _, hessian = _derivatives(tails, x, z)
    information = -hessian
    if information[0, 0] <= 0.0 or float(np.linalg.det(information)) <= 0.0:
        return None
    covariance = np.linalg.inv(information)
    mean, fail, total = _expit(x), _expit(-x), math.exp(-z)  # total = a + b = (1 - rho) / rho
    jacobian = np.array([[mean * fail * total, -mean * total], [-mean * fail * total, -fail * total]])
    variances = np.diag(jacobian @ covariance @ jacobian.T)
    return float(np.sqrt(variances[0])), float(np.sqrt(variances[1]))
