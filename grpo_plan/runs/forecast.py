"""Where a share of groups is heading: a band for the rows to come, and when it passes a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, as_one_probability, as_positive
from grpo_plan.errors import DomainError
from grpo_plan.runs.sequential import Direction
from grpo_plan.runs.series import Floats, as_groups, as_shares, as_steps, groups_at_least

LEAST_ROWS = 8
MOST_ROWS = 200  # longer logs are pooled into so many rows
MOST_STEPS = 400  # of a band
LOOSE = 1.0  # standard deviation of the half-normal prior of how far, in logits, it wanders over the whole log
WANDERING = np.geomspace(1e-3, 8.0, 16)  # variance in logits that a share wanders by over the whole log
NOISE = np.geomspace(0.25, 4.0, 5)  # variance of a row's noise, as a multiple of the binomial one
NOISE_UNCOUNTED = np.geomspace(1e-3, 8.0, 14)  # the same where only a lower bound of the groups is known
STEEPEST = 3.0  # standard deviation of the prior of the change in logits over the whole log
SMOOTH = 5  # rows whose mean share gives a row's binomial variance
LEAST_SHARE = 0.01  # taken for 0 where nothing else was seen and the number of groups is not known
LEAST_TOLD = 1e-4  # share that is not told from a smaller one
LEFT_OUT = 1e-3  # probability of the pairs that are not looked at
NODES = 7
HALVINGS = 40
PARTS = 16  # of a span that holds a crossing, looked at at once
FINE = 16.0  # parts of the usual distance of two rows to which a crossing is told where steps are not whole
STEEP = 30.0


class ForecastStatus(Enum):
    """Whether a share passes its limit within the horizon. The value is the sentence shown to the user."""

    ALREADY_BEYOND = "The share is beyond the limit already."
    WITHIN = "The share is more likely than not to pass the limit within the horizon."
    NOT_WITHIN_HORIZON = "The share is not expected to pass the limit within the horizon, at the level given."
    CANNOT_TELL = "The rows so far do not tell whether the share passes the limit within the horizon."
    TOO_SHORT = "Fewer than eight rows, or all at one step: too few to look ahead."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return str(self.value)


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast(Shown):
    """A share looked at from its last row on.

    Attributes:
        status: Whether it passes the limit.
        limit: The limit.
        direction: On which side of it is beyond.
        horizon_steps: Steps looked ahead.
        level: Level of the band and of the range of the crossing.
        rows: Rows with a value.
        chance: Probability that it passes the limit within the horizon; 1 if it has; None where too short.
        crossing: First whole step by which it has passed with probability one half, whatever the horizon; None: not
            within it.
        crossing_low: Step by which it has passed with probability ``(1 - level) / 2``.
        crossing_high: Step by which it has passed with probability ``(1 + level) / 2``.
        steps: Steps of the band, shape (H,); whole ones where those of the log and the horizon are.
        mid: Median of the share that a row shows there.
        low: Lower end of the band: of one row's share, its own noise with it.
        high: Upper end.
    """

    status: ForecastStatus
    limit: float
    direction: Direction
    horizon_steps: float
    level: float
    rows: int
    chance: float | None = None
    crossing: float | None = None
    crossing_low: float | None = None
    crossing_high: float | None = None
    steps: Floats = field(default_factory=_nothing)
    mid: Floats = field(default_factory=_nothing)
    low: Floats = field(default_factory=_nothing)
    high: Floats = field(default_factory=_nothing)


class Posterior(NamedTuple):
    """Level and slope at the last row for every pair of wandering and noise, and the probability of the pair."""

    weight: Floats  # (C,)
    mean: Floats  # (C, 2): logit now, slope per step
    covariance: Floats  # (C, 2, 2)
    wandering: Floats  # (C,): variance per step
    noise: Floats  # (C,): multiple of the binomial variance


def forecast(
    steps: ArrayLike,
    values: ArrayLike,
    limit: float,
    *,
    groups: ArrayLike | None = None,
    horizon_steps: float | None = None,
    level: float = 0.95,
    below: bool = False,
) -> Forecast:
    """Look ahead of a share: a random walk with drift in logits, seen through noise of its rows (theory.md, eq. 90).

    How much it wanders, how noisy a row is and the drift are averaged over, not fitted and then taken as known.

    Args:
        steps: Steps of the rows in rising order, shape (S,).
        values: Shares, shape (S,), NaN where a row has none.
        limit: Limit strictly between 0 and 1.
        groups: Groups behind each row (one number, or shape (S,)), or a lower bound; None: not known.
        horizon_steps: Steps to look ahead; None: as many as the log has.
        level: Level of the band.
        below: Whether below the limit is beyond it.

    Raises:
        DomainError: An argument is outside its domain, or steps do not rise.

    >>> rising = [0.3, 0.32, 0.33, 0.36, 0.37, 0.38, 0.42, 0.43, 0.44, 0.46]
    >>> ahead = forecast(range(10), rising, 0.6, groups=512, horizon_steps=30)
    >>> ahead.status.name, ahead.crossing_low < 18 < ahead.crossing_high, bool(0.46 < ahead.mid[0] < 0.5)
    ('WITHIN', True, True)
    """
    (at, base), x = as_steps(steps), as_shares(values)
    if at.size != x.size:
        raise DomainError(f"steps and values must be as many; got {at.size:,} and {x.size:,}.")
    bound = as_one_probability(limit, "limit")
    if not 0.0 < bound < 1.0:
        raise DomainError(f"limit must lie strictly between 0 and 1; got {bound:g}. A share never passes 0 or 1.")
    known = np.isfinite(x) & np.isfinite(at)
    n = as_groups(groups_at_least(x) if groups is None else groups, x.size)[known]
    at, x = at[known], x[known]
    if (np.diff(at) <= 0.0).any():
        where = int(np.argmax(np.diff(at) <= 0.0)) + 1
        raise DomainError(
            f"steps must rise; got {at[where]:g} after {at[where - 1]:g}. Keep the last row of each step."
        )
    span = float(at[-1] - at[0]) if at.size else 0.0
    empty = Forecast(
        status=ForecastStatus.TOO_SHORT,
        limit=bound,
        direction="below" if below else "above",
        horizon_steps=span if horizon_steps is None else as_positive(horizon_steps, "horizon_steps"),
        level=as_level(level),
        rows=int(x.size),
    )
    if x.size < LEAST_ROWS:
        return empty
    row_noise = float(np.median(n))  # the band is for rows like those logged
    spacing = float(np.median(np.diff(at)))
    last, logged = float(at[-1]), at
    at, x, n = _pooled(at, x, n)
    seen = _likely(posterior(at, x, n, counted=groups is not None))
    count = int(np.clip(round(empty.horizon_steps / spacing), 1, MOST_STEPS))
    ahead = np.linspace(empty.horizon_steps / count, empty.horizon_steps, count)
    whole = empty.horizon_steps >= 1.0 and bool((np.append(logged, empty.horizon_steps) % 1.0 == 0.0).all())
    if whole:
        ahead = np.unique(np.maximum(np.round(ahead), 1.0))
    since = ahead + (last - float(at[-1]))
    lows, mids, highs = _band(seen, since, row_noise, empty.level)
    if groups is None:
        row_noise /= min(1.0, float(seen.weight @ seen.noise))
    lows, highs = _outwards(lows, row_noise, x), 1.0 - _outwards(1.0 - highs, row_noise, 1.0 - x)
    sign = -1.0 if below else 1.0
    edge = float(np.log(bound / (1.0 - bound)))
    beyond, chance = _passed(seen, since, edge, sign)
    tail = (1.0 - empty.level) / 2.0
    lag = last - float(at[-1])
    unit = 1.0 if whole else spacing / FINE
    when = [
        _crossing(lambda t: _passed(seen, t + lag, edge, sign)[1], ahead, chance, q, unit)
        for q in (tail, 0.5, 1.0 - tail)
    ]
    when = [None if found is None else float(base + last + found) for found in when]
    if beyond >= 1.0 - tail:
        status = ForecastStatus.ALREADY_BEYOND
    elif chance[-1] >= 0.5:
        status = ForecastStatus.WITHIN
    else:
        status = ForecastStatus.NOT_WITHIN_HORIZON if chance[-1] < tail else ForecastStatus.CANNOT_TELL
    already = status is ForecastStatus.ALREADY_BEYOND
    return replace(
        empty,
        status=status,
        chance=1.0 if already else float(chance[-1]),
        crossing_low=None if already else when[0],
        crossing=None if already else when[1],
        crossing_high=None if already else when[2],
        steps=base + last + ahead,
        mid=mids,
        low=lows,
        high=highs,
    )


def _crossing(
    passed: Callable[[Floats], Floats], ahead: Floats, chance: Floats, level: float, unit: float
) -> float | None:
    """First time ahead, in whole units, at which a chance that never falls reaches a level; None: not within."""
    if chance[-1] < level:
        return None
    i = int(np.argmax(chance >= level))
    low, high = (float(ahead[i - 1]) if i else 0.0), float(ahead[i])
    while high - low > unit * (1.0 + 1e-9):
        parts = int(np.clip(np.ceil((high - low) / unit - 1e-9), 2, PARTS))
        between = low + np.ceil(np.arange(1, parts) * ((high - low) / unit / parts) - 1e-9) * unit
        between = np.unique(between[between < high])
        beyond = np.flatnonzero(passed(between) >= level)
        j = int(beyond[0]) if beyond.size else between.size
        high = high if j == between.size else float(between[j])
        low = float(between[j - 1]) if j else low
    return high


def posterior(at: Floats, x: Floats, n: Floats, *, counted: bool) -> Posterior:
    """Kalman filter for every pair of wandering and noise at once (theory.md, eq. 90)."""
    span = float(at[-1] - at[0])
    noises = NOISE if counted else NOISE_UNCOUNTED
    wandering = np.repeat(WANDERING / span, noises.size)
    noise = np.tile(noises, WANDERING.size)
    height, variance = _logits(x, n)
    mean = np.zeros((wandering.size, 2))
    mean[:, 0] = height[0]
    covariance = np.zeros((wandering.size, 2, 2))
    covariance[:, 0, 0] = noise * variance[0]  # a flat prior of the level, after its first row
    covariance[:, 1, 1] = (STEEPEST / span) ** 2
    log_likelihood = 0.5 * np.log(wandering) - 0.5 * wandering * span / LOOSE**2  # of the prior, then of the rows
    for gap, seen, own in zip(np.diff(at), height[1:], variance[1:], strict=True):
        mean[:, 0] += gap * mean[:, 1]
        covariance[:, 0, 0] += gap * (2.0 * covariance[:, 0, 1] + gap * covariance[:, 1, 1]) + wandering * gap
        covariance[:, 0, 1] += gap * covariance[:, 1, 1]
        total = covariance[:, 0, 0] + noise * own
        error = seen - mean[:, 0]
        log_likelihood -= 0.5 * (np.log(total) + error**2 / total)
        level, slope = covariance[:, 0, 0] / total, covariance[:, 0, 1] / total
        mean[:, 0] += level * error
        mean[:, 1] += slope * error
        covariance[:, 1, 1] -= slope * covariance[:, 0, 1]
        covariance[:, 0, 1] *= 1.0 - level
        covariance[:, 0, 0] *= 1.0 - level
    covariance[:, 1, 0] = covariance[:, 0, 1]
    weight = np.exp(log_likelihood - log_likelihood.max())
    return Posterior(weight / weight.sum(), mean, covariance, wandering, noise)


def first_passage(distance: Floats, drift: Floats, variance: Floats, time: Floats) -> Floats:
    """Chance that a random walk has gone up by a distance at some time so far (theory.md, eq. 90).

    Args:
        distance: How far it has to go; at most 0: it is there.
        drift: Mean change per step.
        variance: Variance of the change per step, above 0.
        time: Steps, above 0.
    """
    from scipy.special import log_ndtr, ndtr

    spread = np.sqrt(variance * time)
    direct = ndtr((drift * time - distance) / spread)
    back = np.exp(np.minimum(2.0 * drift * distance / variance + log_ndtr((-drift * time - distance) / spread), 0.0))
    chance: Floats = np.where(distance <= 0.0, 1.0, np.minimum(direct + back, 1.0))
    return chance


def _logits(x: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Logits of the rows and their binomial variance, both finite where a row is 0 or 1."""
    if n.max() > 1.0:
        shares = (n * x + 0.5) / (n + 1.0)
    else:
        inside = np.minimum(x, 1.0 - x)
        least = max(float(inside[inside > 0.0].min(initial=2.0 * LEAST_SHARE)) / 2.0, LEAST_TOLD)
        shares = np.clip(x, least, 1.0 - least)
    width = min(SMOOTH, x.size)
    padded = np.pad(shares, (width // 2, width - 1 - width // 2), mode="edge")
    smooth = np.convolve(padded, np.full(width, 1.0 / width), mode="valid")
    return np.log(shares / (1.0 - shares)), 1.0 / (n * smooth * (1.0 - smooth))


def _outwards(low: Floats, groups: float, x: Floats) -> Floats:
    """Lower ends moved down to a share that a row can show, or to 0 where only that was seen below the rest."""
    least = float(x[x > 0.0].min(initial=1.0))
    seen: Floats = np.where((low < least) & (x.min() == 0.0), 0.0, low)
    return np.floor(seen * groups) / groups


def _pooled(at: Floats, x: Floats, n: Floats) -> tuple[Floats, Floats, Floats]:
    """A long log as so many rows, each the mean of neighbours."""
    if x.size <= MOST_ROWS:
        return at, x, n
    starts = np.linspace(0, x.size, MOST_ROWS, endpoint=False).astype(np.int64)
    total = np.add.reduceat(n, starts)
    return np.add.reduceat(n * at, starts) / total, np.add.reduceat(n * x, starts) / total, total


def _likely(seen: Posterior) -> Posterior:
    """The pairs that matter, heaviest first."""
    order = np.argsort(-seen.weight)
    kept = order[: int(np.searchsorted(np.cumsum(seen.weight[order]), 1.0 - LEFT_OUT)) + 1]
    weight = seen.weight[kept] / seen.weight[kept].sum()
    return Posterior(weight, seen.mean[kept], seen.covariance[kept], seen.wandering[kept], seen.noise[kept])


def _band(seen: Posterior, ahead: Floats, groups: float, level: float) -> tuple[Floats, Floats, Floats]:
    """Quantiles of a row's share at each time ahead: of a mixture of normal laws in logits, shape (H,) each."""
    from scipy.special import ndtr, ndtri

    h = ahead[:, None]
    cov = seen.covariance
    mean = seen.mean[:, 0] + h * seen.mean[:, 1]
    share = 1.0 / (1.0 + np.exp(-np.clip(mean, -STEEP, STEEP)))
    walk = cov[:, 0, 0] + h * (2.0 * cov[:, 0, 1] + h * cov[:, 1, 1]) + seen.wandering * h
    spread = np.sqrt(walk + seen.noise / (groups * share * (1.0 - share)))
    found = []
    for q in ((1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0):
        each = mean + spread * float(ndtri(q))
        low, high = each.min(axis=1), each.max(axis=1)  # the mixture's quantile lies between those of its parts
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            less = ndtr((middle[:, None] - mean) / spread) @ seen.weight < q
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        found.append(1.0 / (1.0 + np.exp(-np.clip((low + high) / 2.0, -STEEP, STEEP))))
    return found[0], found[1], found[2]


def _passed(seen: Posterior, ahead: Floats, bound: float, sign: float) -> tuple[float, Floats]:
    """Chance that the share is beyond the bound (in logits) now, and that it has passed it by each time, shape (H,)."""
    from scipy.special import ndtr

    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    cov = seen.covariance
    sd = np.sqrt(cov[:, 0, 0])
    now = float(seen.weight @ ndtr(sign * (seen.mean[:, 0] - bound) / sd))
    tilt = cov[:, 0, 1] / sd
    rest = np.sqrt(np.maximum(cov[:, 1, 1] - tilt**2, 0.0))
    level = seen.mean[:, :1] + sd[:, None] * nodes
    slope = seen.mean[:, 1, None, None] + tilt[:, None, None] * nodes[:, None] + rest[:, None, None] * nodes
    distance = (sign * (bound - level))[:, :, None, None]
    passed = first_passage(distance, sign * slope[..., None], seen.wandering[:, None, None, None], ahead)
    chance: Floats = np.einsum("c,i,j,cijh->h", seen.weight, weights, weights, passed)
    return now, np.minimum(np.maximum.accumulate(chance), 1.0)
