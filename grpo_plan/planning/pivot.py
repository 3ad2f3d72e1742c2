"""Intervals for ratios of means over prompts: bootstrap-t of the equation that the ratio solves.

The ratio ``theta`` solves ``F(theta) = a + theta b = 0``, where a and b are functions of means over prompts and F falls
with theta. For each theta, F is studentised by the delta method, and the law of the studentised F is taken from
resampled prompts. The interval holds every theta whose F lies between the quantiles (theory.md, eq. 49). It needs no
division by a mean that may be near 0: where the data do not exclude ``b = 0`` it is open upwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Equation = Callable[[Floats], tuple[Floats, Floats, Floats, Floats]]
GRID_POINTS = 61
DECADES = 5.0
BISECTIONS = 25
CHUNK = 4_000_000
MORE_OF_THE_EXTREME = 2
ROUNDING = 1e-14  # of the largest value of a column
FAR = 1e9  # times the scale: beyond it the interval counts as open


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampled:
    """Means over prompts and their covariance, observed (row 0) and in each resample.

    Attributes:
        means: Shape (1 + R, k).
        covariances: Of the means, shape (1 + R, k, k).
    """

    means: Floats
    covariances: Floats

    def beside(self, means: Floats, covariance: Floats, rng: np.random.Generator) -> Resampled:
        """With further means that other prompts gave, drawn from their normal law; their covariance stays fixed."""
        rows, k, m = self.means.shape[0], self.means.shape[1], means.size
        drawn = rng.multivariate_normal(means, covariance, size=rows - 1, method="eigh")
        both = np.zeros((rows, k + m, k + m))
        both[:, :k, :k], both[:, k:, k:] = self.covariances, covariance
        return Resampled(means=np.hstack([self.means, np.vstack([means, drawn])]), covariances=both)


def resample(values: Floats, resamples: int, rng: np.random.Generator) -> Resampled:
    """Means and covariances of resampled prompts; ``values`` has one row a prompt, shape (M, k), M at least 2."""
    count, width = values.shape
    centre = values.mean(axis=0)
    centred = values - centre
    centred[np.abs(centred) <= ROUNDING * np.abs(values).max(axis=0)] = 0.0  # prompts that agree have no spread at all
    products = (centred[:, :, None] * centred[:, None, :]).reshape(count, width * width)
    means, seconds = [np.zeros((1, width))], [products.mean(axis=0)[None]]
    left = resamples
    while left > 0:
        rows = min(left, max(1, CHUNK // count))
        drawn = rng.integers(0, count, size=(rows, count)) + count * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count) / count
        means.append(weights @ centred)
        seconds.append(weights @ products)
        left -= rows
    mean = np.concatenate(means)
    second = np.concatenate(seconds).reshape(-1, width, width)
    covariance = (second - mean[:, :, None] * mean[:, None, :]) / (count - 1)
    diagonal = np.arange(width)
    covariance[:, diagonal, diagonal] = np.maximum(covariance[:, diagonal, diagonal], 0.0)  # rounding
    return Resampled(means=mean + centre, covariances=covariance)


def pivot_interval(
    data: Resampled, equation: Equation, level: float, *, estimate: float | None, scale: float
) -> tuple[float, float | None]:
    """Limits of the theta of at least 0 that solves ``a + theta b = 0`` (theory.md, eq. 49).

    Args:
        data: Observed and resampled means.
        equation: From means (R, k) to a (R,), b (R,) and their gradients in the means, (R, k) each.
        level: Confidence level.
        estimate: The solution at the observed means, which the interval always holds; None if that is infinite.
        scale: Size of theta, above 0: limits are sought between 1e-5 and 1e9 times it.

    Returns:
        ``(low, high)``; high is None where the interval is open upwards.
    """
    a, b, of_a, of_b = equation(data.means)
    aa, ab, bb = (
        np.einsum("ri,rij,rj->r", x, data.covariances, y) for x, y in ((of_a, of_a), (of_a, of_b), (of_b, of_b))
    )

    def accepted(theta: float) -> bool:
        value = a + theta * b
        error = np.sqrt(np.maximum(aa + theta * (2.0 * ab + theta * bb), 0.0))
        if error[0] == 0.0:
            return bool(value[0] == 0.0)
        moved = value[1:] - value[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            studentised = np.where(moved == 0.0, 0.0, moved / error[1:])
        low, high = quantiles(studentised, level)
        return bool(low <= value[0] / error[0] <= high)

    known = [] if estimate is None else [estimate]
    steps = scale * np.logspace(-DECADES, DECADES, GRID_POINTS)
    grid = np.unique(np.concatenate([[0.0], known, steps, [scale * FAR]]))
    inside = np.array([accepted(float(theta)) or theta == estimate for theta in grid])
    if estimate is None:
        inside[-1] = True
    first, last = int(np.argmax(inside)), int(grid.size - 1 - np.argmax(inside[::-1]))
    low = 0.0 if first == 0 else _edge(accepted, float(grid[first]), float(grid[first - 1]))
    high = None if last == grid.size - 1 else _edge(accepted, float(grid[last]), float(grid[last + 1]))
    return low, high


def prompt_interval(
    values: Floats,
    equation: Equation,
    level: float,
    *,
    estimate: float | None,
    scale: float,
    resamples: int,
    rng: np.random.Generator,
    beside: tuple[Floats, Floats] | None = None,
) -> tuple[float, float | None]:
    """`pivot_interval` over prompts, granting that the most extreme prompt may be met again (theory.md, eq. 49).

    Squared norms have long tails, and a sample mostly lacks the longest part: the plain bootstrap-t then excludes the
    truth too often on the side of that tail. So each limit is computed with the prompt that pulls most towards it
    counted two more times.

    Args:
        values: One row a prompt, shape (M, k).
        equation: As in `pivot_interval`, of the means of the columns and then of ``beside``.
        level: Confidence level.
        estimate: Solution at the observed means, or None.
        scale: Size of theta.
        resamples: Bootstrap resamples.
        rng: Source of the resamples.
        beside: Further means that other prompts gave, and their covariance.
    """
    means = values.mean(axis=0)
    everything = means if beside is None else np.concatenate([means, beside[0]])
    _, _, of_a, of_b = equation(everything[None])
    theta = 10.0 * scale if estimate is None else estimate
    pull = (values - means) @ (of_a[0] + theta * of_b[0])[: means.size]
    limits = []
    for extreme in (int(np.argmin(pull)), int(np.argmax(pull))):
        data = resample(np.vstack([values, *[values[extreme]] * MORE_OF_THE_EXTREME]), resamples, rng)
        if beside is not None:
            data = data.beside(*beside, rng)
        limits.append(pivot_interval(data, equation, level, estimate=estimate, scale=scale))
    return limits[0][0], limits[1][1]


def quantiles(values: Floats, level: float) -> tuple[float, float]:
    """The two values that leave ``(1 - level) / 2`` of the others outside, on each side.

    >>> quantiles(np.arange(1.0, 101.0), 0.9)
    (5.0, 95.0)
    """
    ordered, tail = np.sort(values), (1.0 - level) / 2.0
    places = (int(np.ceil(ordered.size * share - 1e-9)) - 1 for share in (tail, 1.0 - tail))
    low, high = (float(ordered[max(place, 0)]) for place in places)
    return low, high


def _edge(accepted: Callable[[float], bool], inner: float, outer: float) -> float:
    """Where acceptance ends, between a theta inside and one outside."""
    for _ in range(BISECTIONS):
        middle = (inner + outer) / 2.0
        if accepted(middle):
            inner = middle
        else:
            outer = middle
    return inner
