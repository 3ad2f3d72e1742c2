"""Does a share or a reward rise or fall over a run, with limits that allow for noise that lasts over several rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan._validate import as_level
from grpo_plan.errors import DomainError
from grpo_plan.runs.lasting import line_noise, thirds_noise
from grpo_plan.runs.series import Floats, as_groups, as_row, as_shares, as_steps

Scale = Literal["logit", "linear"]
LEAST_ROWS = 8
WIDEST = 20.0  # standard deviation of the prior of the change in logits from the first row to the last
ITERATIONS = 60
STEEPEST = 30.0  # logits beyond which nothing changes


class TrendStatus(Enum):
    """Whether a change over a run can be told. The value is the sentence shown to the user."""

    OK = "The change and its limits."
    CONSTANT = "Every row has the same value: there is no change to measure, and no noise to measure it by."
    TOO_SHORT = "Fewer than eight rows, or all at one step: too few to tell a change from noise."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A line through a series, in logits for values in [0, 1].

    Attributes:
        status: What the numbers below can say.
        slope: Slope per step, on the scale; None where the status is not OK.
        slope_low: Its lower limit.
        slope_high: Its upper limit.
        start: Value of the line at the first row.
        end: Value of the line at the last row.
        difference: ``end - start``.
        low: Its lower limit, the line's middle held.
        high: Its upper limit.
        p_value: Two-sided, of no slope.
        rows: Rows with a value.
        level: Confidence level.
        scale: ``logit`` or ``linear``.
    """

    status: TrendStatus
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
    start: float | None = None
    end: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    rows: int
    level: float
    scale: Scale

    @property
    def rising(self) -> bool:
        """Whether the limits of the difference lie above 0."""
        return self.low is not None and self.low > 0.0

    @property
    def falling(self) -> bool:
        """Whether the limits of the difference lie below 0."""
        return self.high is not None and self.high < 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The mean of the last third of the rows less that of the first third.

    Attributes:
        status: What the numbers below can say.
        first: Mean of the first third, weighted by groups; None without rows.
        last: Mean of the last third.
        difference: ``last - first``; None where too short.
        low: Its lower limit.
        high: Its upper limit.
        p_value: Two-sided, of no difference.
        rows: Rows with a value.
        level: Confidence level.
    """

    status: TrendStatus
    first: float | None = None
    last: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    rows: int
    level: float


def trend(
    steps: ArrayLike,
    values: ArrayLike,
    groups: ArrayLike | None = None,
    *,
    level: float = 0.95,
    scale: Scale | None = None,
) -> Trend:
    """Slope of a series over the steps, and the change that it means from first row to last (theory.md, eq. 89).

    Args:
        steps: Steps of the rows, shape (S,).
        values: Shares or rewards, shape (S,), NaN where a row has none.
        groups: Groups behind each row of a share; the noise is then at least binomial. None: measured noise alone.
        level: Confidence level.
        scale: ``logit`` for values in [0, 1], ``linear`` for any; None: logit where all values lie in [0, 1].

    Raises:
        DomainError: An argument is outside its domain, or steps and values differ in number.

    >>> line = trend(range(40), [0.5 + 0.005 * t + 0.02 * (-1) ** t for t in range(40)], groups=64)
    >>> line.rising, round(line.difference, 2), line.low < 0.2 < line.high
    (True, 0.19, True)
    >>> trend([1, 2], [0.1, 0.2]).status.name
    'TOO_SHORT'
    """
    (at, _), y = as_steps(steps), as_row(values)
    if at.size != y.size:
        raise DomainError(f"steps and values must be as many; got {at.size:,} and {y.size:,}.")
    n = as_groups(groups, y.size)
    known = np.isfinite(y) & np.isfinite(at)
    if scale not in (None, "logit", "linear"):
        raise DomainError(f"scale must be logit or linear; got {scale!r}.")
    chosen: Scale = scale or ("logit" if np.all((y[known] >= 0.0) & (y[known] <= 1.0)) else "linear")
    y = (as_shares(y) if chosen == "logit" else y)[known]
    at, n = at[known], n[known]
    empty = Trend(status=TrendStatus.TOO_SHORT, rows=int(y.size), level=as_level(level), scale=chosen)
    if y.size < LEAST_ROWS or at.min() == at.max():
        return empty
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        value = float(y[0])
        return replace(empty, status=TrendStatus.CONSTANT, start=value, end=value, difference=0.0)
    first, last = float(at[0]), float(at[-1])
    span = float(np.ptp(at))
    time = (at - at.min()) / span - 0.5
    floor = 1.0 if groups is not None and chosen == "logit" else 0.0
    if chosen == "logit":
        height, tilt, weight = _logit_line(time, y, n)
        noise = n * (y - _expit(height + tilt * time)) / np.sqrt(weight)
    else:
        weight = n
        centre = float(n @ time / n.sum())
        tilt = float(n @ ((time - centre) * y) / (n @ (time - centre) ** 2))
        height = float(n @ y / n.sum()) - tilt * centre
        noise = np.sqrt(n) * (y - height - tilt * time)
    middle = float(weight @ time / weight.sum())
    spread = float(weight @ (time - middle) ** 2)
    variance, waves = line_noise(noise, np.sqrt(weight), time)
    error = float(np.sqrt(max(variance, floor) / spread))
    at_middle = height + tilt * middle
    begin, finish = float(time[0]) - middle, float(time[-1]) - middle

    def ends(slope: float) -> tuple[float, float]:
        line = at_middle + slope * np.array([begin, finish])
        low, high = _expit(line) if chosen == "logit" else line
        return float(low), float(high)

    half = _quantile(waves, level) * error
    start, end = ends(tilt)
    low, high = (b - a for a, b in (ends(tilt - half), ends(tilt + half)))
    return replace(
        empty,
        status=TrendStatus.OK,
        slope=tilt / span,
        slope_low=(tilt - half) / span,
        slope_high=(tilt + half) / span,
        start=start,
        end=end,
        difference=end - start,
        low=min(low, high) if last >= first else high,
        high=max(low, high) if last >= first else low,
        p_value=_p_value(tilt, error, waves),
    )


def changed(values: ArrayLike, groups: ArrayLike | None = None, *, level: float = 0.95) -> Change:
    """Mean of the last third of the rows less that of the first third, for any shape in between (theory.md, eq. 89).

    Args:
        values: Shares or rewards, shape (S,), NaN where a row has none.
        groups: Groups behind each row of a share; the noise is then at least binomial. None: measured noise alone.
        level: Confidence level.

    Raises:
        DomainError: An argument is outside its domain.

    >>> change = changed([0.2, 0.22, 0.18, 0.2] * 3 + [0.2, 0.6, 0.5, 0.4] + [0.7, 0.72, 0.68, 0.7] * 3, groups=128)
    >>> round(change.difference, 3), change.low > 0.3, change.status.name
    (0.5, True, 'OK')
    """
    y = as_row(values)
    n = as_groups(groups, y.size)
    known = np.isfinite(y)
    y, n = y[known], n[known]
    empty = Change(status=TrendStatus.TOO_SHORT, rows=int(y.size), level=as_level(level))
    third = y.size // 3
    if third == 0:
        return empty
    first, last = float(n[:third] @ y[:third] / n[:third].sum()), float(n[-third:] @ y[-third:] / n[-third:].sum())
    empty = replace(empty, first=first, last=last)
    if y.size < LEAST_ROWS:
        return empty
    if np.ptp(y) <= 1e-12 * np.abs(y).max():
        return replace(empty, status=TrendStatus.CONSTANT, difference=0.0)
    contrast = np.zeros(y.size)
    contrast[:third] = -n[:third] / n[:third].sum()
    contrast[-third:] = n[-third:] / n[-third:].sum()
    variance, waves = thirds_noise(np.sqrt(n) * y, np.sqrt(n), third)
    floor = 0.0
    if groups is not None and y.min() >= 0.0 and y.max() <= 1.0:
        floor = float(n @ y / n.sum()) * (1.0 - float(n @ y / n.sum()))
    error = float(np.sqrt(max(variance, floor) * (contrast**2 @ (1.0 / n))))
    half = _quantile(waves, level) * error
    return replace(
        empty,
        status=TrendStatus.OK,
        difference=last - first,
        low=last - first - half,
        high=last - first + half,
        p_value=_p_value(last - first, error, waves),
    )


def _logit_line(time: Floats, y: Floats, n: Floats) -> tuple[float, float, Floats]:
    """Height at time 0 and slope of a logit line by penalised quasi-likelihood, and its weights."""
    mean = float(np.clip(n @ y / n.sum(), 1e-6, 1.0 - 1e-6))
    line = np.array([np.log(mean / (1.0 - mean)), 0.0])
    design = np.column_stack([np.ones(time.size), time])
    prior = np.diag([0.0, 1.0 / WIDEST**2])

    def fit(at: Floats) -> float:
        eta = design @ at
        return float(n @ (y * eta - np.logaddexp(0.0, eta)) - 0.5 * at @ prior @ at)

    best = fit(line)
    for _ in range(ITERATIONS):
        mu = _expit(design @ line)
        weight = np.maximum(n * mu * (1.0 - mu), 1e-12)
        step = np.linalg.solve(design.T @ (weight[:, None] * design) + prior, design.T @ (n * (y - mu)) - prior @ line)
        while (found := fit(line + step)) < best and float(np.abs(step).max()) > 1e-12:
            step = step / 2.0
        if found >= best:
            line, best = line + step, found
        if float(np.abs(step).max()) < 1e-10:
            break
    mu = _expit(design @ line)
    return float(line[0]), float(line[1]), np.maximum(n * mu * (1.0 - mu), 1e-12)


def _quantile(degrees: int, level: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + 0.5 * level))


def _p_value(value: float, error: float, degrees: int) -> float:
    from scipy.special import stdtr

    return float(2.0 * stdtr(degrees, -abs(value) / error)) if error > 0.0 else float(value == 0.0)


def _expit(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -STEEPEST, STEEPEST)))
