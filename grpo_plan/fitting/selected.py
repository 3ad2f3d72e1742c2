"""Prompts that were kept by their own count: the law of their counts, and their likelihood (theory.md, section 17).

A data set may hold the passes of every prompt and lack those with n of n, or 0 of n. What is asked is the dead fraction
of the prompts that are left, when they are rolled out anew. Their counts decided which are left, and are biased for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.average import DEGREE, AveragedFit, average_on
from grpo_plan.fitting.betabinomial import BetaBinomialFit
from grpo_plan.fitting.mixing import GRID_POINTS, Mixing, arcsine_grid, log_coefficients
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.tilted import FULL_TABLE, LogitGrid, logit_axis
from grpo_plan.fitting.truncated import SHAPE_PRECISION, START_CORRELATION
from grpo_plan.groups import mixed_probability
from grpo_plan.passrates.beta import BetaPassRates

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """Prompts that were kept because of their count.

    Attributes:
        rollouts: n of every prompt, at least 2.
        removed: Which prompts were taken out, one of `REMOVED`.
        counts: Prompts with k = 0 .. n passes, 0 where they were taken out, shape (n + 1,).
    """

    rollouts: int
    removed: str
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Prompts."""
        return int(self.counts.sum())

    @property
    def kept(self) -> NDArray[np.int64]:
        """K of the prompts that were kept."""
        return kept_passes(self.rollouts, self.removed)

    @property
    def shape_known(self) -> bool:
        """Whether a Beta has no more parameters than the cells have free shares."""
        return self.kept.size >= 3

    @property
    def mean_count(self) -> float:
        """Mean of k/n."""
        return float(self.counts @ np.arange(self.rollouts + 1)) / (self.rollouts * self.total)

    @cached_property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all distributions of the kept prompts' pass rates (theory.md, eq. 77)."""
        n = self.rollouts
        p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if n <= size))
        k = np.flatnonzero(self.counts)
        table, log_scale = _scaled(kept_chance(n, k, p, q, self.removed))
        mixing = Mixing(
            passing=p,
            failing=q,
            likelihood=table,
            weights=self.counts[k] / self.total,
            prompts=self.total,
            rollouts=np.full(k.size, n, dtype=np.int64),
            log_scale=log_scale,
        )
        return ProfileLikelihood.of(mixing)

    @cached_property
    def average(self) -> AveragedFit:
        """Smooth distributions of the kept prompts: Betas, plain and tilted, times the chance to be kept (eq. 78)."""
        n = self.rollouts
        p, q, features, spacing = logit_axis(n, DEGREE)
        every = self.kept.size <= FULL_TABLE
        k = self.kept if every else np.flatnonzero(self.counts)
        table, log_scale = _scaled(kept_chance(n, k, p, q, self.removed))
        grid = LogitGrid(
            passing=p,
            failing=q,
            features=features,
            spacing=spacing,
            table=table,
            log_scale=log_scale,
            prompts=self.counts[k].astype(np.float64),
            of_size=np.full(k.size, float(self.total)) if every else None,
            log_weight=np.log(kept_probability(n, p, q, self.removed)),
            shape_precision=SHAPE_PRECISION,
        )
        return average_on(grid, self._start)

    @property
    def _start(self) -> BetaPassRates:
        edge = 0.5 / self.rollouts
        return BetaPassRates(mean=min(max(self.mean_count, edge), 1.0 - edge), correlation=START_CORRELATION)

    @cached_property
    def beta(self) -> BetaBinomialFit:
        """The plain Beta of all prompts, those that were taken out included."""
        if not self.shape_known:
            return BetaBinomialFit(
                rates=self._start,
                log_likelihood=self.profile.log_likelihood,
                standard_errors=None,
                identified=False,
            )
        fit = self.average.fits[0]
        a, b = (float(shape) for shape in np.exp(fit.parameters[:2]))
        errors = np.sqrt(np.maximum(np.diag(fit.covariance)[:2], 0.0))
        return BetaBinomialFit(
            rates=BetaPassRates.from_shape(a, b),
            log_likelihood=fit.log_likelihood,
            standard_errors=(a * float(errors[0]), b * float(errors[1])),
            identified=True,
        )


def kept_passes(rollouts: int, removed: str) -> NDArray[np.int64]:
    """K of the prompts that are kept.

    >>> kept_passes(4, "all-pass").tolist(), kept_passes(4, "dead").tolist()
    ([0, 1, 2, 3], [1, 2, 3])
    """
    return np.arange(0 if removed == "all-pass" else 1, rollouts + (removed == "all-fail"), dtype=np.int64)


def kept_probability(rollouts: int, passing: Floats, failing: Floats, removed: str) -> Floats:
    """Chance that a prompt of pass rate p is kept, without cancellation near 0 and 1, shape (m,).

    >>> kept_probability(2, np.array([0.25, 1.0]), np.array([0.75, 0.0]), "all-pass").tolist()
    [0.9375, 0.0]
    """
    if removed == "dead":
        return np.asarray(mixed_probability(np.minimum(passing, failing), rollouts))
    p, q = (passing, failing) if removed == "all-pass" else (failing, passing)
    with np.errstate(divide="ignore"):
        log_p = np.where(q < 0.5, np.log1p(-q), np.log(p))
    kept: Floats = -np.expm1(rollouts * log_p)
    return kept


def kept_chance(rollouts: int, passes: NDArray[np.int64], passing: Floats, failing: Floats, removed: str) -> Floats:
    """Chance of k passes of a prompt that is kept, shape (K, m); at 0 and 1 the limits (theory.md, eq. 77).

    Args:
        rollouts: n, at least 2.
        passes: k, each in `kept_passes`, shape (K,).
        passing: p, shape (m,).
        failing: 1 - p, shape (m,).
        removed: Which prompts are not kept.

    >>> ends = np.array([0.0, 0.5, 1.0])
    >>> kept_chance(2, np.array([0, 1]), ends, ends[::-1], "all-pass").round(3).tolist()
    [[1.0, 0.333, 0.0], [0.0, 0.667, 1.0]]
    """
    n, k = rollouts, passes.astype(np.float64)[:, None]
    kept = kept_probability(n, passing, failing, removed)
    some = kept > 0.0
    p, q = passing[some], failing[some]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(k > 0.0, k * np.log(p), 0.0) + np.where(k < n, (n - k) * np.log(q), 0.0) - np.log(kept[some])
    chance = np.zeros((passes.size, passing.size))
    chance[:, some] = np.exp(logs + log_coefficients(np.full(passes.size, float(n)), k[:, 0])[:, None])
    chance[np.ix_(passes == 1, ~some & (passing <= 0.0))] = 1.0
    chance[np.ix_(passes == n - 1, ~some & (failing <= 0.0))] = 1.0
    return chance


def _scaled(chances: Floats) -> tuple[Floats, Floats]:
    largest = chances.max(axis=1)
    return chances / largest[:, None], np.log(largest)
