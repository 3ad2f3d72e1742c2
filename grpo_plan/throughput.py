"""Tokens per second of a logged run: a ratio, or a line where the tokens of its steps vary enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_float_array, as_level
from grpo_plan.errors import DomainError

Floats = NDArray[np.float64]
BLOCKS = 16  # consecutive parts of the log that are left out in turn
SLOW_START = 1.5  # times the median seconds per token above which a row at the start is warm-up
TOLD_APART = 0.25  # largest half-width of the overhead's interval, as a share of a step, that counts as known


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Throughput(Shown):
    """Speed of a whole job, from the times and tokens of its steps.

    Attributes:
        tokens_per_s: Tokens per second: of the line if the overhead is told apart, else tokens over time.
        tokens_per_s_low: Lower limit; None with fewer than three rows.
        tokens_per_s_high: Upper limit; None with fewer than three rows, or if the log sets none.
        step_overhead_s: Seconds of a step that do not grow with its tokens; None if the log cannot tell.
        step_overhead_low_s: Lower limit.
        step_overhead_high_s: Upper limit.
        counts_prompts: Whether tokens count the prompt of every rollout, or responses only.
        level: Confidence level.
        steps_used: Optimiser steps that the estimate rests on.
        rows_used: Rows of the log that it rests on.
        dropped: Rows left out, by reason.
        gpus: GPUs of the job, if the log tells.
        notes: How the log was read, one sentence each.
    """

    tokens_per_s: float
    tokens_per_s_low: float | None
    tokens_per_s_high: float | None
    step_overhead_s: float | None
    step_overhead_low_s: float | None
    step_overhead_high_s: float | None
    counts_prompts: bool
    level: float
    steps_used: int
    rows_used: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    gpus: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The speed in words, with its limits."""
        kind = "prompt and response tokens" if self.counts_prompts else "response tokens"
        high = "no limit" if self.tokens_per_s_high is None else _digits(self.tokens_per_s_high)
        limits = "" if self.tokens_per_s_low is None else f" [{_digits(self.tokens_per_s_low)}, {high}]"
        steps = f"{self.steps_used:,} step{'' if self.steps_used == 1 else 's'}"
        text = f"{_digits(self.tokens_per_s)} {kind} a second{limits} over {steps}"
        if self.step_overhead_s is None:
            return f"{text}; the overhead of a step cannot be told apart and is inside this rate."
        low, high_s = self.step_overhead_low_s, self.step_overhead_high_s
        return (
            f"{text}, after {self.step_overhead_s:.3g} s a step that do not grow with them [{low:.3g}, {high_s:.3g}]."
        )


def _digits(value: float) -> str:
    return f"{value:,.0f}" if 1000.0 <= value < 1e12 else f"{value:.4g}"


def estimate_throughput(
    seconds: ArrayLike,
    tokens: ArrayLike,
    steps: ArrayLike | None = None,
    *,
    counts_prompts: bool = True,
    level: float = 0.95,
    dropped: Mapping[str, int] | None = None,
    gpus: int | None = None,
    notes: Sequence[str] = (),
) -> Throughput:
    """Speed from the rows of a log, in order.

    Rows at the start that take more than 1.5 times the median time per token are warm-up and left out, at most a tenth
    of the rows but always up to one. The rest gives ``seconds = overhead * steps + tokens / rate`` by least squares.
    Where the interval of the overhead is wider than a quarter of a step each way, or the rate is not above 0 for sure,
    only total tokens over total time is given. Intervals leave out each of up to 16 consecutive parts of the log in
    turn (jackknife), so that a speed that wanders widens them.

    Args:
        seconds: Time of each row, shape (R,).
        tokens: Tokens of each row.
        steps: Optimiser steps of each row; default one.
        counts_prompts: Whether the tokens count prompts.
        level: Confidence level.
        dropped: Rows already left out, by reason.
        gpus: GPUs of the job.
        notes: How the log was read.

    Raises:
        DomainError: No row, a time or a number of tokens that is not above 0, or arrays of several lengths.

    >>> tokens = [1000, 3000, 2000, 4000, 1500, 3500]
    >>> speed = estimate_throughput([5 + t / 100 for t in tokens], tokens)
    >>> round(speed.tokens_per_s, 6), round(speed.step_overhead_s, 6)
    (100.0, 5.0)
    """
    share = as_level(level)
    y, x = as_float_array(seconds, "seconds"), as_float_array(tokens, "tokens")
    s = np.ones_like(y) if steps is None else as_float_array(steps, "steps")
    if y.ndim != 1 or y.shape != x.shape or y.shape != s.shape or not y.size:
        raise DomainError(
            f"seconds, tokens and steps must be lists of one length, at least 1; got shapes {y.shape}, {x.shape} and "
            f"{s.shape}."
        )
    for name, values in (("seconds", y), ("tokens", x), ("steps", s)):
        if not np.all((values > 0) & np.isfinite(values)):
            raise DomainError(
                f"{name} must be finite and above 0; got {values[~((values > 0) & np.isfinite(values))][0]:g}."
            )
    lost, words = dict(dropped or {}), list(notes)
    warm = _warm_up(y / x)
    if warm:
        lost["warm_up"] = lost.get("warm_up", 0) + warm
        y, x, s = y[warm:], x[warm:], s[warm:]
    line = _line(y, x, s, share)
    if line is None:
        words.append("The overhead of a step cannot be told apart from its tokens, so it is inside the rate.")
    per_token, low, high = _ratio(y, x, share) if line is None else line[:3]
    return Throughput(
        tokens_per_s=1.0 / per_token,
        tokens_per_s_low=None if high is None else 1.0 / high,
        tokens_per_s_high=None if low is None or low <= 0.0 else 1.0 / low,
        step_overhead_s=None if line is None else line[3],
        step_overhead_low_s=None if line is None else line[4],
        step_overhead_high_s=None if line is None else line[5],
        counts_prompts=counts_prompts,
        level=share,
        steps_used=int(s.sum()),
        rows_used=int(y.size),
        dropped=lost,
        gpus=gpus,
        notes=tuple(words),
    )


def _warm_up(seconds_per_token: Floats) -> int:
    """Rows at the start that are slower than 1.5 medians."""
    if seconds_per_token.size < 3:
        return 0
    most = max(1, seconds_per_token.size // 10)
    slow = seconds_per_token[: most + 1] > SLOW_START * float(np.median(seconds_per_token))
    count = int(np.argmin(slow)) if not slow.all() else most
    return min(count, most)


def _ratio(seconds: Floats, tokens: Floats, level: float) -> tuple[float, float | None, float | None]:
    """Seconds per token: total over total, with limits."""
    value = float(seconds.sum() / tokens.sum())
    half = _half_width(seconds.size, lambda keep: np.array([seconds[keep].sum() / tokens[keep].sum()]), level)
    return (value, None, None) if half is None else (value, value - float(half[0]), value + float(half[0]))


def _line(
    seconds: Floats, tokens: Floats, steps: Floats, level: float
) -> tuple[float, float, float, float, float, float] | None:
    """Seconds per token and overhead of a step with limits; None if they cannot be told apart."""
    scale = float(tokens.sum() / steps.sum())  # so that both columns are of one size
    design = np.column_stack([tokens / scale, steps])

    def fit(keep: NDArray[np.bool_]) -> Floats:
        slope, overhead = np.linalg.lstsq(design[keep], seconds[keep], rcond=None)[0]
        return np.array([slope / scale, overhead])

    if seconds.size < 4 or np.linalg.matrix_rank(design, tol=1e-9 * float(np.linalg.norm(design))) < 2:
        return None
    slope, overhead = (float(v) for v in fit(np.ones(seconds.size, dtype=bool)))
    half = _half_width(seconds.size, fit, level)
    if half is None or not slope - half[0] > 0.0:
        return None
    step_s = float(seconds.sum() / steps.sum())
    if half[1] > TOLD_APART * step_s or overhead < -half[1]:
        return None
    if overhead < 0.0:  # not below 0 for sure: the line through 0
        value, low, high = _ratio(seconds, tokens, level)
        low, high = value if low is None else low, value if high is None else high
        return value, low, high, 0.0, 0.0, max(0.0, overhead + float(half[1]))
    wide = float(half[1])
    return slope, slope - float(half[0]), slope + float(half[0]), overhead, max(0.0, overhead - wide), overhead + wide


def _half_width(rows: int, fit: Callable[[NDArray[np.bool_]], Floats], level: float) -> Floats | None:
    """Half-width of the interval of every parameter by leaving out consecutive blocks; None with under three rows."""
    from scipy.special import stdtrit

    blocks = min(rows, BLOCKS)
    if blocks < 3:
        return None
    block_of = np.arange(rows) * blocks // rows
    left_out = np.array([fit(block_of != block) for block in range(blocks)])
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0) * (blocks - 1.0) / blocks
    half: Floats = np.sqrt(spread) * float(stdtrit(blocks - 1, 0.5 + 0.5 * level))
    return half
