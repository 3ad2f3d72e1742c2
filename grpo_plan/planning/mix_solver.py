"""The best mix under bounds, found with a certificate (theory.md, eq. 60 and 61). NumPy alone.

Progress of a mix is convex in its shares, so local search can stop at a wrong mix. It is the maximum over one
number t of problems that are linear in the shares, and these bound it from above between any two values of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GAP = 1e-6  # relative, at which the global search stops
MOST_SPLITS = 400
SMALLEST_LAMBDA, LARGEST_LAMBDA = 1e-9, 1e9  # against the range of the objective
BOX_SLACK = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MixBounds:
    """What a mix may be: ``low <= w <= high``, sum 1, and KL(w || base) at most ``max_kl`` (inf: no bound).

    Attributes:
        base: Shares now, shape (B,), positive, sum 1.
        low: Smallest share of each stratum, shape (B,).
        high: Largest share of each stratum, shape (B,).
        max_kl: Nats.
    """

    base: Floats
    low: Floats
    high: Floats
    max_kl: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BestMix:
    """A mix and how much better any other could be.

    Attributes:
        shares: w, shape (B,).
        value: Its objective.
        bound: No mix within the bounds has a larger one.
    """

    shares: Floats
    value: float
    bound: float


def divergence(shares: Floats, base: Floats) -> float:
    """KL(w || base) in nats.

    >>> round(divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])), 4)
    0.6931
    """
    some = shares > 0.0
    return max(0.0, float(shares[some] @ np.log(shares[some] / base[some])))


def clipped_exponential(logits: Floats, low: Floats, high: Floats) -> Floats:
    """``clip(exp(logits + y), low, high)`` with the y at which it sums to 1.

    >>> clipped_exponential(np.log([0.7, 0.2, 0.1]), np.zeros(3), np.array([0.4, 1.0, 1.0])).round(6).tolist()
    [0.4, 0.4, 0.2]
    """
    free: Floats = np.exp(logits - logits.max())
    free /= free.sum()
    if np.all(free >= low) and np.all(free <= high):
        return free
    with np.errstate(divide="ignore"):
        enter, leave = np.log(low) - logits, np.log(high) - logits
    stops = np.unique(np.concatenate([enter[np.isfinite(enter)], leave[np.isfinite(leave)]]))
    with np.errstate(over="ignore"):
        totals = np.clip(np.exp(logits + stops[:, None]), low, high).sum(axis=1)
    place = int(np.searchsorted(totals, 1.0))
    if place == stops.size:
        full: Floats = high / high.sum()
        return full
    before = stops[place - 1] if place else -np.inf
    inside = (enter <= before) & (leave >= stops[place])
    fixed = np.where(leave <= before, high, np.where(enter >= stops[place], low, 0.0))
    shares = np.where(inside, 0.0, fixed)
    left = 1.0 - float(shares.sum())
    if inside.any():
        part = np.exp(logits[inside] - logits[inside].max())
        shares[inside] = np.clip(left * part / part.sum(), low[inside], high[inside])
    return shares


def nearest_mix(bounds: MixBounds) -> Floats:
    """The mix within floors and caps that is nearest the base in KL."""
    return clipped_exponential(np.log(bounds.base), bounds.low, bounds.high)


def greedy_mix(direction: Floats, bounds: MixBounds) -> Floats:
    """The mix of largest ``direction @ w`` within floors and caps alone: fill the best stratum, then the next."""
    shares = bounds.low.copy()
    for i in np.argsort(-direction, kind="stable"):
        shares[i] += min(bounds.high[i] - bounds.low[i], max(0.0, 1.0 - float(shares.sum())))
    return shares


def linear_mix(direction: Floats, bounds: MixBounds) -> Floats:
    """The mix of largest ``direction @ w`` within all bounds (theory.md, eq. 61).

    ``w = clip(base exp((direction - mu) / lambda), low, high)``; mu makes it sum to 1, lambda meets the KL bound.
    """
    spread = float(direction.max() - direction.min())
    if spread == 0.0 or bounds.max_kl == 0.0:
        return nearest_mix(bounds)
    corner = greedy_mix(direction, bounds)
    if divergence(corner, bounds.base) <= bounds.max_kl:
        return corner
    scaled, log_base = (direction - direction.max()) / spread, np.log(bounds.base)

    def at(log_lambda: float) -> tuple[Floats, float]:
        shares = clipped_exponential(log_base + scaled * math.exp(-log_lambda), bounds.low, bounds.high)
        return shares, math.log(max(divergence(shares, bounds.base), 1e-300) / bounds.max_kl)

    left, right = math.log(SMALLEST_LAMBDA), math.log(LARGEST_LAMBDA)
    shares, at_left = at(left)
    if at_left <= 0.0:
        return shares
    shares, at_right = at(right)
    last, met = 0.0, at_right
    for _ in range(200):
        if met > -1e-10 or right - left < 1e-12:
            break
        middle = left + (right - left) * at_left / (at_left - at_right)
        middle = min(max(middle, left + 0.02 * (right - left)), right - 0.02 * (right - left))
        candidate, found = at(middle)  # false position; an end that stays is halved (Illinois)
        if found > 0.0:
            at_right *= 0.5 if last > 0.0 else 1.0
            left, at_left = middle, found
        else:
            at_left *= 0.5 if last < 0.0 else 1.0
            right, at_right, shares, met = middle, found, candidate, found
        last = found
    return shares


def best_progress(signal: Floats, second_moment: Floats, bounds: MixBounds, gap: float = GAP) -> BestMix:
    """The mix of largest ``(signal @ w)**2 / (second_moment @ w)`` (theory.md, eq. 60 and 61).

    Args:
        signal: Mean signal of a group of each stratum, shape (B,), at least 0, not all 0.
        second_moment: Mean squared estimate of a group of each stratum, shape (B,), at least 0.
        bounds: What a mix may be; some mix must satisfy it.
        gap: Relative gap between value and bound at which to stop.
    """
    best = BestMix(shares=nearest_mix(bounds), value=0.0, bound=math.inf)

    def support(t: float) -> float:
        """``max_w (2 signal - t second_moment) @ w``; the mix found is also climbed from."""
        nonlocal best
        shares = linear_mix(2.0 * signal - t * second_moment, bounds)
        x, y = float(signal @ shares), float(second_moment @ shares)
        value = x * x / y if y > 0.0 else 0.0
        if value > best.value:
            best = BestMix(shares=shares, value=value, bound=math.inf)
        return 2.0 * x - t * y

    usable = second_moment > 0.0
    ratios = signal[usable] / second_moment[usable]
    ends = float(ratios.min()), float(ratios.max())
    pieces = [(ends[0], support(ends[0]), ends[1], support(ends[1]))]
    bound = _upper_bound(*pieces[0])
    for _ in range(MOST_SPLITS):
        if bound <= best.value * (1.0 + gap):
            break
        worst = max(range(len(pieces)), key=lambda i: _upper_bound(*pieces[i]))
        t1, h1, t2, h2 = pieces.pop(worst)
        x, y = float(signal @ best.shares), float(second_moment @ best.shares)
        t = x / y if t1 < x / y < t2 and len(pieces) < 8 else 0.5 * (t1 + t2)
        h = support(t)
        pieces += [(t1, h1, t, h), (t, h, t2, h2)]
        bound = max(_upper_bound(*piece) for piece in pieces)
    return BestMix(shares=best.shares, value=best.value, bound=max(bound, best.value))


def _upper_bound(t1: float, h1: float, t2: float, h2: float) -> float:
    """Largest ``t H(t)`` on [t1, t2] for a convex H with these ends: H lies below its chord."""
    ends = max(t1 * h1, t2 * h2)
    if t2 <= t1:
        return ends
    slope = (h2 - h1) / (t2 - t1)
    level = h1 - slope * t1
    if slope >= 0.0:
        return ends
    top = -level / (2.0 * slope)
    return max(ends, top * (level + slope * top)) if t1 < top < t2 else ends
