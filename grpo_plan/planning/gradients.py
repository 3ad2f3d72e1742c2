"""The squared norm of the mean gradient over prompts, and the noise-to-signal ratio of a step that it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array, as_positive
from grpo_plan.errors import DomainError, PilotError

Floats = NDArray[np.float64]
FEWEST_BLOCKS = 4
LARGEST = 1e100  # its square does not overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanGradientSquare:
    """``|E g|**2``: squared norm of the mean over prompts of their gradients (theory.md, eq. 51).

    Attributes:
        value: Unbiased estimate; it can be negative by chance where the gradients of prompts hardly agree.
        standard_error: Of the value; 0 for one that is known exactly.
        degrees_of_freedom: Of the standard error; None for the normal law.
    """

    value: float
    standard_error: float = 0.0
    degrees_of_freedom: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if isinstance(self.value, bool) or not math.isfinite(self.value):
            raise DomainError(f"mean_gradient_square must be finite; got {self.value}.")
        if max(abs(self.value), self.standard_error) > LARGEST:
            raise DomainError(f"mean_gradient_square must be at most {LARGEST:g} in size; got {self.value:g}.")
        as_positive(self.standard_error, "standard_error of mean_gradient_square", allow_zero=True)
        if self.degrees_of_freedom is not None and self.degrees_of_freedom < 1:
            raise DomainError(f"degrees_of_freedom must be at least 1; got {self.degrees_of_freedom}.")

    def quantile(self, level: float) -> float:
        """Two-sided quantile of Student's t, or of the normal law."""
        from scipy import stats

        tail = (1.0 + level) / 2.0
        df = self.degrees_of_freedom
        return float(stats.norm.ppf(tail) if df is None else stats.t.ppf(tail, df))


def mean_gradient_square(
    block_gram: ArrayLike, block_squares: ArrayLike, block_prompts: ArrayLike
) -> MeanGradientSquare:
    """Unbiased ``|E g|**2`` from sums of gradients over blocks of prompts (theory.md, eq. 51).

    Args:
        block_gram: Inner products of the B sums, shape (B, B).
        block_squares: Sum of squared norms of the gradients of the prompts in each block, shape (B,).
        block_prompts: Prompts of each block, shape (B,), each at least 1.

    Raises:
        DomainError: Other shapes, a block without a prompt, or numbers that are not finite.
        PilotError: Fewer than 4 blocks: no standard error.

    >>> gradients = np.eye(6) + 1.0          # six prompts, one a block
    >>> round(mean_gradient_square(gradients @ gradients.T, (gradients**2).sum(axis=1), np.ones(6)).value, 6)
    8.0
    """
    gram, squares, prompts = (
        as_float_array(x, n)
        for x, n in ((block_gram, "block_gram"), (block_squares, "block_squares"), (block_prompts, "block_prompts"))
    )
    blocks = prompts.size
    if blocks < FEWEST_BLOCKS:
        raise PilotError(f"|E g|^2 needs at least {FEWEST_BLOCKS} blocks of prompts; got {blocks}. Use more prompts.")
    if prompts.ndim != 1 or squares.shape != (blocks,) or gram.shape != (blocks, blocks):
        raise DomainError(
            f"block_gram, block_squares and block_prompts must be of shape (B, B), (B,) and (B,); got {gram.shape}, "
            f"{squares.shape} and {prompts.shape}."
        )
    if not np.all((prompts >= 1.0) & np.isfinite(prompts)):
        raise DomainError("block_prompts must be at least 1 in each block.")
    if not (np.isfinite(gram).all() and np.isfinite(squares).all()) or np.abs(gram).max() > LARGEST:
        raise DomainError(f"block_gram and block_squares must be finite and at most {LARGEST:g}.")

    def estimate(kept: NDArray[np.bool_]) -> float:
        count = float(prompts[kept].sum())
        return float((gram[np.ix_(kept, kept)].sum() - squares[kept].sum()) / (count * (count - 1.0)))

    left_out = np.array([estimate(np.arange(blocks) != b) for b in range(blocks)])
    spread = (blocks - 1) / blocks * float(((left_out - left_out.mean()) ** 2).sum())
    return MeanGradientSquare(
        value=estimate(np.ones(blocks, dtype=bool)), standard_error=math.sqrt(spread), degrees_of_freedom=blocks - 1
    )


def noise_to_signal(
    group_square: float, group_error: float, signal: MeanGradientSquare, prompts_per_step: int, level: float
) -> tuple[float | None, float, float | None]:
    """``(E|ghat|**2 - |E g|**2) / (N |E g|**2)`` with Fieller limits (theory.md, eq. 51).

    Args:
        group_square: Mean squared norm of the gradient of one group.
        group_error: Its standard error.
        signal: ``|E g|**2``.
        prompts_per_step: N.
        level: Confidence level of the limits.

    Returns:
        ``(value, low, high)``: value is None where the estimate of ``|E g|**2`` is not above 0, high is None where
        0 is not excluded for it.
    """
    a, b, n = group_square, signal.value, prompts_per_step
    t = signal.quantile(level)
    va, vb = (t * group_error) ** 2, (t * signal.standard_error) ** 2
    value = max(a / b - 1.0, 0.0) / n if b > 0.0 else None
    if value is not None and not math.isfinite(value):
        value = None
    # (a - x b)^2 <= va + x^2 vb for the ratio x = a / b
    lead, middle, rest = b * b - vb, a * b, a * a - va
    root = math.sqrt(max(middle * middle - lead * rest, 0.0))
    if b > 0.0 and lead > 0.0:
        low, high = (middle - root) / lead, (middle + root) / lead
        return value, max(low - 1.0, 0.0) / n, max(high - 1.0, 0.0) / n
    if rest <= 0.0:  # not even E|ghat|^2 is told from 0
        return value, 0.0, None
    low = rest / (middle + root) if middle + root > 0.0 else 1.0
    return value, max(low - 1.0, 0.0) / n, None
