"""The line in 1/(G-1), the moments of pass rates that turn its ratio into kappa, and the equations of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError, PilotError
from grpo_plan.pilot import Pilot
from grpo_plan.planning.pivot import Equation

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SAME = 1e-9  # relative differences up to this are rounding
SMALLEST, LARGEST = 1e-100, 1e100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """Least squares on ``intercept + slope / (G - 1)`` (theory.md, eq. 49).

    Attributes:
        design: Shape (K, 2): 1 and ``1 / (G - 1)`` at each size.
        weights: Shape (2, K): intercept and slope are these sums of the values.
        variances: Shape (2, 2): the line through the ``E[t**2]`` of the sizes is this matrix times
            ``(E[pq], E[p**2 q**2])``.
    """

    design: Floats
    weights: Floats
    variances: Floats

    @classmethod
    def through(cls, group_sizes: tuple[int, ...]) -> Line:
        """The line through values at these sizes."""
        g = np.array(group_sizes, dtype=np.float64)
        design = np.stack([np.ones_like(g), 1.0 / (g - 1.0)], axis=1)
        weights = np.asarray(np.linalg.pinv(design), dtype=np.float64)
        of_rewards = np.stack([1.0 / g, (g - 2.0) * (g - 3.0) / (g * (g - 1.0))], axis=1)  # eq. 25, E[t**2 | p]
        return cls(design=design, weights=weights, variances=weights @ of_rewards)

    def intercept_moment(self, moments: Floats) -> Floats:
        """Intercept of the line through ``E[t**2]``, for moments of shape (R, 2)."""
        value: Floats = moments @ self.variances[0]
        return value

    def misfit(self, means: Floats) -> float | None:
        """Largest distance of a mean from the line, relative to the mean; None with two sizes."""
        if means.size < 3:
            return None
        line = self.design @ (self.weights @ means)
        return float(np.max(np.abs(means - line) / np.maximum(np.abs(means), 1e-300)))

    def misfit_p(self, values: Floats) -> float | None:
        """Hotelling's test that the means, over prompts, of the values (M, K) are on the line."""
        prompts, sizes = values.shape
        free = sizes - 2
        if free < 1 or prompts <= sizes:
            return None
        from scipy import stats

        residual = np.linalg.svd(self.design)[0][:, 2:]
        off = values @ residual
        mean, covariance = off.mean(axis=0), np.atleast_2d(np.cov(off, rowvar=False)) / prompts
        rounding = SAME * float(np.abs(values).max())
        if np.sqrt(float(np.max(np.diag(covariance))) * prompts) <= rounding:
            return 1.0 if np.all(np.abs(mean) <= rounding) else 0.0
        square = float(mean @ np.linalg.pinv(covariance) @ mean)
        return float(stats.f.sf(square * (prompts - free) / (free * (prompts - 1)), free, prompts - free))


def proportional(per_prompt: Floats) -> bool:
    """Whether slope and intercept of all prompts stand in one ratio, up to rounding: resamples then cannot differ.

    >>> proportional(np.array([[1.0, 9.0], [2.0, 18.0]])), proportional(np.array([[1.0, 9.0], [2.0, 17.0]]))
    (True, False)
    """
    intercept, slope = per_prompt.T
    left, right = slope * intercept.mean(), intercept * slope.mean()
    return bool(np.max(np.abs(left - right)) <= SAME * (np.abs(left).max() + np.abs(right).max()))


def refuse_scale(squared_norms: Floats) -> None:
    """Squares of the numbers must neither overflow nor vanish.

    Raises:
        DomainError: The largest lies outside 1e-100 to 1e100.
    """
    largest = float(np.abs(squared_norms).max())
    if not SMALLEST <= largest <= LARGEST:
        raise DomainError(
            f"The largest squared norm must lie between {SMALLEST:g} and {LARGEST:g}; got {largest:g}. Give them in "
            "other units: only their ratios count."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMoments:
    """``E[pq]`` and ``E[p**2 q**2]`` of a pilot, without a model.

    Attributes:
        means: The two means.
        covariance: Covariance of the means over prompts, 2 x 2.
        prompts: Prompts with at least 4 rollouts, of which they are the means.
    """

    means: tuple[float, float]
    covariance: tuple[tuple[float, float], tuple[float, float]]
    prompts: int

    @classmethod
    def of(cls, pilot: Pilot) -> PassMoments:
        """Moments of the prompts with at least 4 rollouts."""
        h = pilot.histogram()
        enough = h.rollouts >= 4
        prompts = int(h.prompts[enough].sum())
        if prompts < 2:
            raise PilotError(
                f"kappa needs E[p^2 q^2]: a pilot with at least 4 rollouts a prompt; {prompts} of its "
                f"{h.total_prompts:,} prompts have them. Use the rewards of the probe instead."
            )
        share = h.prompts[enough] / prompts
        values = moments_of_counts(h.successes[enough], h.rollouts[enough])
        mean = share @ values
        centred = values - mean
        covariance = (centred * share[:, None]).T @ centred / (prompts - 1)
        (a, b), (c, d) = covariance.tolist()
        return cls(means=(float(mean[0]), float(mean[1])), covariance=((a, b), (c, d)), prompts=prompts)


def moments_of_counts(passes: Ints, scored: Ints) -> Floats:
    """Unbiased ``pq`` and ``p**2 q**2`` of each prompt, shape (M, 2).

    Prompts with fewer than 4 scored rollouts get the mean of the others: they say nothing and must keep their row.
    """
    k, n = passes.astype(np.float64), scored.astype(np.float64)
    enough = scored >= 4
    values = np.zeros((k.size, 2))
    a, b = k[enough], n[enough]
    values[enough, 0] = a * (b - a) / (b * (b - 1.0))
    values[enough, 1] = a * (a - 1.0) * (b - a) * (b - a - 1.0) / (b * (b - 1.0) * (b - 2.0) * (b - 3.0))
    if not enough.all():
        values[~enough] = values[enough].mean(axis=0)
    return values


def ratio_equation(means: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """``slope - theta intercept = 0`` (theory.md, eq. 49), for means (intercept, slope)."""
    one, zero = np.ones(means.shape[0]), np.zeros(means.shape[0])
    return means[:, 1], -means[:, 0], np.stack([zero, one], axis=1), np.stack([-one, zero], axis=1)


def kappa_equation(line: Line) -> Equation:
    """``slope I - intercept (L + kappa E[pq]) = 0`` (theory.md, eq. 49), for means (intercept, slope, pq, ppqq).

    I and L are intercept and slope of the line through ``E[t**2]``.
    """
    (i1, i2), (l1, l2) = line.variances

    def equation(means: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        c, s, pq, ppqq = means.T
        of_intercept, of_slope = i1 * pq + i2 * ppqq, l1 * pq + l2 * ppqq
        zero = np.zeros_like(c)
        a = s * of_intercept - c * of_slope
        of_a = np.stack([-of_slope, of_intercept, s * i1 - c * l1, s * i2 - c * l2], axis=1)
        return a, -c * pq, of_a, np.stack([-pq, zero, -c, zero], axis=1)

    return equation
