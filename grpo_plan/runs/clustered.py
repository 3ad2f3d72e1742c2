"""A share of units that come in clusters, such as the rollouts of a step, which fail together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_float_array, as_level
from grpo_plan.errors import DomainError
from grpo_plan.group_log import GroupLog
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import Share

Floats = NDArray[np.float64]
ONE_CLUSTER = 2  # fewer steps than this say nothing of how steps differ: the groups are the clusters then


def clustered_share(hits: ArrayLike, totals: ArrayLike, *, level: float = 0.95) -> Share:
    """The share of units that are hit, with limits that allow for clusters (theory.md, eq. 94).

    Clopper-Pearson limits at the number of independent units that would vary as the clusters do, after Korn and
    Graubard; never more than the units there are. Where no cluster differs from the others at 0 or 1, each counts as
    one unit.

    Args:
        hits: Units hit in each cluster, shape (C,), from 0 to ``totals``.
        totals: Units of each cluster, shape (C,); clusters without any are left out.
        level: Confidence level of the two limits together.

    Returns:
        The share; its ``rows`` are clusters and its ``groups`` units.

    Raises:
        DomainError: Hits below 0 or above the totals, or shapes that differ.

    >>> share = clustered_share([0, 0, 8, 0, 8, 0], [8] * 6)
    >>> round(share.value, 3), round(share.low, 3), round(share.high, 3)
    (0.333, 0.008, 0.911)
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    tail = (1.0 - as_level(level)) / 2.0
    h, t = as_float_array(hits, "hits").ravel(), as_float_array(totals, "totals").ravel()
    if h.shape != t.shape:
        raise DomainError(
            f"hits and totals must have one length; got {h.size:,} and {t.size:,}. Give both per cluster."
        )
    known = t > 0
    h, t = h[known], t[known]
    if bool(np.any((h < -1e-9 * t) | (h > t * (1.0 + 1e-9)))):
        raise DomainError("hits must lie between 0 and the total of each cluster; some do not. Count them again.")
    units, clusters = float(t.sum()), int(t.size)
    if clusters == 0:
        return Share(value=None, low=0.0, high=1.0, rows=0, groups=0.0, level=level)
    share = min(max(float(h.sum()) / units, 0.0), 1.0)
    count = effective_units(h, t, share)
    if clusters > 1 and 0.0 < share < 1.0:
        wider = float(stdtrit(clusters - 1, tail))
        count *= float(ndtri(tail) / wider) ** 2 if wider else 1.0  # few clusters: their spread is uncertain too
    x = share * count
    low = float(betaincinv(x, count - x + 1.0, tail)) if share > 0.0 else 0.0
    high = float(betaincinv(x + 1.0, count - x, 1.0 - tail)) if share < 1.0 else 1.0
    return Share(value=share, low=min(low, share), high=max(high, share), rows=clusters, groups=units, level=level)


def effective_units(hits: Floats, totals: Floats, share: float) -> float:
    """Independent units whose share varies as that of the clusters does; at most those there are.

    >>> effective_units(np.array([0.0, 4.0]), np.array([4.0, 4.0]), 0.5)
    1.0
    """
    units, clusters = float(totals.sum()), totals.size
    if clusters < 2 or not 0.0 < share < 1.0:
        return float(clusters)
    apart = hits - share * totals
    variance = clusters / (clusters - 1.0) * float(apart @ apart) / units**2
    if variance <= 0.0:
        return units
    return min(units, share * (1.0 - share) / variance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clusters:
    """Units that are hit, step by step (or group by group in a log of one step).

    Attributes:
        steps: Training step of each cluster, rising, shape (C,).
        hits: Units hit, shape (C,).
        totals: Units, above 0, shape (C,).
        unit: What is counted, in the plural.
    """

    steps: NDArray[np.int64]
    hits: Floats
    totals: Floats
    unit: str

    @staticmethod
    def of_groups(groups: GroupLog, hits: ArrayLike, totals: ArrayLike, unit: str) -> Clusters:
        """Summed over the groups of each step."""
        h, t = np.asarray(hits, dtype=np.float64), np.asarray(totals, dtype=np.float64)
        steps, index = np.unique(groups.step, return_inverse=True)
        if steps.size < ONE_CLUSTER:
            order = np.arange(groups.groups)
            steps, index = groups.step, order
        found, total = (np.bincount(index, weights=w, minlength=steps.size).astype(np.float64) for w in (h, t))
        known = total > 0
        return Clusters(steps=steps[known], hits=found[known], totals=total[known], unit=unit)

    @staticmethod
    def of_rows(series: Measured, size: int | None, unit: str) -> Clusters:
        """Rows of a share of rollouts; ``size`` is the group size, where it is known."""
        totals = (series.groups * (size or 1)).astype(np.float64)
        shares = np.clip(series.values, 0.0, 1.0)
        return Clusters(steps=series.steps, hits=shares * totals, totals=totals, unit=unit)

    @property
    def rows(self) -> int:
        """Steps; groups of one step are one row."""
        return int(np.unique(self.steps).size)

    @property
    def shares(self) -> Floats:
        """Share of each cluster, shape (C,)."""
        return self.hits / self.totals

    def share(self, level: float) -> Share:
        """The share over all of them, with limits."""
        return clustered_share(self.hits, self.totals, level=level)

    def late(self, share: float, least: int) -> Clusters:
        """The clusters of the last steps: a share of all steps, but at least ``least``."""
        steps = np.unique(self.steps)
        first = steps[max(steps.size - max(least, int(share * steps.size)), 0)] if steps.size else 0
        at = self.steps >= first
        return Clusters(steps=self.steps[at], hits=self.hits[at], totals=self.totals[at], unit=self.unit)

    @property
    def span(self) -> str:
        """Its steps in words; empty where no step is known."""
        if not self.steps.size or self.steps[-1] < 0:
            return "the log"
        if self.steps[0] == self.steps[-1]:
            return f"step {self.steps[0]:,}"
        return f"steps {self.steps[0]:,} to {self.steps[-1]:,}"
