"""The Beta with a given mean and one more aggregate, for one step or many at once (theory.md, eq. 80)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grpo_plan.passrates import BetaPassRates

Floats = NDArray[np.float64]
HALVINGS = 52
ALIKE = 1e-9
BLOCK_ENTRIES = 2_000_000


def beta_dead(mean: Floats, correlation: Floats, group_size: int) -> Floats:
    """D(G) of Betas by mean and correlation, shape (S,): the product of eq. 12 for each.

    >>> beta_dead(np.array([0.5, 0.5]), np.array([0.0, 0.5]), 4).round(4).tolist()
    [0.125, 0.5469]
    """
    if group_size == 1:
        return np.ones(mean.shape)
    out = np.empty(mean.shape)
    block = max(1, BLOCK_ENTRIES // group_size)
    for start in range(0, mean.size, block):
        at = slice(start, start + block)
        out[at] = _dead(mean[at], correlation[at], group_size)
    return np.minimum(out, 1.0)


def _dead(mean: Floats, correlation: Floats, group_size: int) -> Floats:
    j = np.arange(float(group_size))
    rho = correlation[:, None]
    total = 1.0 - rho + j * rho
    total[:, 0] = 1.0  # the first factor is the mean itself
    passes = mean[:, None] * np.where(j == 0.0, 1.0, 1.0 - rho) + j * rho
    fails = (1.0 - mean)[:, None] * np.where(j == 0.0, 1.0, 1.0 - rho) + j * rho
    value: Floats = np.prod(passes / total, axis=1) + np.prod(fails / total, axis=1)
    return value


def matched_correlation(mean: Floats, dead: Floats, group_size: int) -> Floats:
    """Correlation of the Beta with this mean and D(G), shape (S,); 0 and 1 where D lies at or beyond the ends.

    D(G) rises with the correlation, so that halving finds the one root.

    >>> matched_correlation(np.array([0.5, 0.5, 0.5]), np.array([0.5469, 0.1, 1.0]), 4).round(3).tolist()
    [0.5, 0.0, 1.0]
    """
    low, high = np.zeros(mean.shape), np.ones(mean.shape)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        above = beta_dead(mean, middle, group_size) > dead
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    found = (low + high) / 2.0
    found = np.where(dead <= beta_dead(mean, np.zeros(mean.shape), group_size), 0.0, found)
    return np.where(dead >= 1.0, 1.0, found)


def beta_aggregate(beta: BetaPassRates, name: str, g: int) -> float:
    """One aggregate of a Beta: "mean", "dead", "all-pass", "all-fail" or "group-std" (population).

    >>> round(beta_aggregate(BetaPassRates(mean=0.5, correlation=0.0), "group-std", 2), 4)
    0.25
    """
    if name == "mean":
        return beta.mean
    if name == "group-std":
        k = np.arange(g + 1.0)
        return float(beta.group_pmf(g) @ np.sqrt(k * (g - k))) / g
    return float({"dead": beta.dead, "all-pass": beta.all_pass, "all-fail": beta.all_fail}[name](g))


def matched_beta(given: dict[str, float], g: int) -> BetaPassRates | None:
    """The Beta with this mean and, of what else is known, the aggregate that says most about D."""
    mean = given["mean"]
    if len(given) == 1 or g == 1:
        return None
    if mean in (0.0, 1.0):
        return BetaPassRates(mean=mean, correlation=0.0)
    wanted = dict(given)
    if "all-pass" in given and "all-fail" in given:
        wanted.setdefault("dead", given["all-pass"] + given["all-fail"])
    name = next(n for n in ("dead", "all-pass", "all-fail", "group-std") if n in wanted)
    sign = -1.0 if name == "group-std" else 1.0  # the spread of a group falls with the correlation, the others rise
    if sign * (wanted[name] - beta_aggregate(BetaPassRates(mean=mean, correlation=0.0), name, g)) <= ALIKE:
        return BetaPassRates(mean=mean, correlation=0.0)
    if sign * (wanted[name] - beta_aggregate(BetaPassRates(mean=mean, correlation=1.0), name, g)) >= -ALIKE:
        return BetaPassRates(mean=mean, correlation=1.0)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        if sign * (beta_aggregate(BetaPassRates(mean=mean, correlation=middle), name, g) - wanted[name]) > 0.0:
            high = middle
        else:
            low = middle
    return BetaPassRates(mean=mean, correlation=(low + high) / 2.0)
