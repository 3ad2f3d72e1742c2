"""The variance of noise that lasts over several rows, where it matters for a trend (theory.md, eq. 89)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.runs.series import Floats

Ints = NDArray[np.int64]
FEWEST, MOST = 3, 8  # waves that the noise is measured by
MOST_OF_THIRD = 4
SMALLEST_WAVE = 0.1  # part of the largest below which a wave is taken to lie in what is kept
MOST_LASTING = 0.95  # correlation of neighbouring rows beyond which noise and trend are one


def line_noise(values: Floats, root: Floats, time: Floats) -> tuple[float, int]:
    """Variance of the noise at the speed of a line, and the number of waves that tell it (theory.md, eq. 89).

    Args:
        values: Residuals of a line, in units of their standard deviation, shape (S,).
        root: Roots of the weights, shape (S,).
        time: When, shape (S,).
    """
    order = np.argsort(time, kind="stable")
    rows = values.size
    halves = np.arange(2, int(np.clip(rows // 4, FEWEST, MOST)) + 2)
    root = root[order]
    kept = np.column_stack([root, root * time[order]])
    square, waves, rest = _waves(values[order], kept, root[:, None] * _cosines(rows, halves))
    return square * slowness(correlation(rest, 2), halves, rows), waves


def thirds_noise(values: Floats, root: Floats, third: int) -> tuple[float, int]:
    """The same within the first and the last third, whatever happens between them; a slope may be common to both."""
    halves = np.arange(1, min(third - 1, MOST_OF_THIRD) + 1)
    parts = [values[:third], values[values.size - third :]]
    roots = np.concatenate([root[:third], root[values.size - third :]])[:, None]
    level = np.kron(np.eye(2), np.ones((third, 1)))
    slope = np.tile(np.linspace(-0.5, 0.5, third), 2)[:, None]
    waves = np.kron(np.eye(2), _cosines(third, halves))
    kept = np.column_stack([level, slope]) if third > FEWEST else level
    square, told, rest = _waves(np.concatenate(parts), roots * kept, roots * waves)
    lasting = correlation(np.insert(rest, third, 0.0), kept.shape[1])
    return square * slowness(lasting, halves * values.size / third, values.size), told


def _cosines(rows: int, halves: Ints) -> Floats:
    """Half waves over so many rows, shape (rows, waves)."""
    return np.cos(np.pi * (np.arange(rows)[:, None] + 0.5) / rows * halves)


def _waves(values: Floats, kept: Floats, waves: Floats) -> tuple[float, int, Floats]:
    """Mean square along waves made orthogonal to the columns kept, how many are left, and the values without these."""
    flat, _ = np.linalg.qr(kept)
    rest = values - flat @ (flat.T @ values)
    basis, singular, _ = np.linalg.svd(waves - flat @ (flat.T @ waves), full_matrices=False)
    basis = basis[:, singular > SMALLEST_WAVE * singular[0]]
    heights = basis.T @ rest
    return float(heights @ heights) / basis.shape[1], basis.shape[1], rest


def slowness(lasting: float, halves: Floats | Ints, rows: int) -> float:
    """Power of lasting noise at half a wave over the log, as a multiple of its mean power at others (eq. 89)."""
    power = 1.0 / (1.0 - 2.0 * lasting * np.cos(np.pi * np.append(1.0, halves) / rows) + lasting**2)
    return float(power[0] / power[1:].mean())


def correlation(residuals: Floats, fitted: int) -> float:
    """Correlation of neighbouring rows, from residuals of a fit, its bias of about ``-(1 + fitted r) / S`` put back."""
    raw = float(residuals[1:] @ residuals[:-1]) / max(float(residuals @ residuals), 1e-300)
    rows = residuals.size
    return float(np.clip((rows * raw + fitted) / max(rows - 2.0 * fitted, 1.0), 0.0, MOST_LASTING))
