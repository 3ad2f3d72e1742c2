"""Groups of which only the mixed ones were kept: their likelihood and their smooth fits (theory.md, section 16).

The unit that was kept or dropped is the *group*: one visit of a prompt with n rollouts. Cells are therefore groups, and
a prompt that was visited often has several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grpo_plan.fitting.average import DEGREE, AveragedFit, average_on
from grpo_plan.fitting.betabinomial import BetaBinomialFit
from grpo_plan.fitting.mixing import GRID_POINTS, Mixing, arcsine_grid, binomial_likelihood, log_coefficients, log_peak
from grpo_plan.fitting.profile import ProfileLikelihood
from grpo_plan.fitting.tilted import FULL_TABLE, LogitGrid, logit_axis
from grpo_plan.groups import dead_probability, mixed_probability
from grpo_plan.passrates.beta import BetaPassRates
from grpo_plan.pilot import PilotHistogram

Floats = NDArray[np.float64]
SHAPE_PRECISION = 0.25  # of log a and log b where dead groups are unknown: a factor of 7 is one standard deviation
START_CORRELATION = 0.3  # of the Beta from which the search starts


@dataclass(frozen=True, kw_only=True, eq=False)
class Survivors:
    """Mixed groups of one size, and what is known of the dead ones.

    Attributes:
        group_size: n, rollouts of every group, at least 2.
        counts: Groups with k = 1 .. n - 1 passes, shape (n - 1,).
        dropped: Dead groups that were left out, all-pass and all-fail together; None where their number is unknown.
    """

    group_size: int
    counts: NDArray[np.int64]
    dropped: int | None = None

    @property
    def groups(self) -> int:
        """Mixed groups."""
        return int(self.counts.sum())

    @property
    def total(self) -> int:
        """Groups that the likelihood speaks of: the mixed ones, and the dead ones where their number is known."""
        return self.groups + (self.dropped or 0)

    @property
    def shape_known(self) -> bool:
        """Whether a Beta has no more parameters than the cells have free shares."""
        return self.group_size >= (4 if self.dropped is None else 3)

    def cells(self, all_fail: int = 0, all_pass: int = 0) -> PilotHistogram:
        """The mixed groups, and dead ones of either kind, as cells of an ordinary pilot."""
        prompts = np.concatenate([[all_fail], self.counts, [all_pass]]).astype(np.int64)
        k = np.flatnonzero(prompts)
        n = np.full(k.size, self.group_size, dtype=np.int64)
        return PilotHistogram(rollouts=n, successes=k.astype(np.int64), prompts=prompts[k])

    @cached_property
    def profile(self) -> ProfileLikelihood:
        """The likelihood over all distributions: of the mixed groups' own pass rates, or of F if all are counted."""
        return ProfileLikelihood.of(self.mixing)

    @cached_property
    def mixing(self) -> Mixing:
        """Seen cells and their chances on the arcsine grid (theory.md, eq. 73 and 75)."""
        n = self.group_size
        p, q = arcsine_grid(next(points for size, points in GRID_POINTS.items() if n <= size))
        k = 1 + np.flatnonzero(self.counts)
        prompts = self.counts[k - 1].astype(np.float64)
        if self.dropped is None:
            table, log_scale = _scaled(survivor_chance(n, k, p, q))
        else:
            table, log_scale = _binomial(n, k, p, q)
            if self.dropped:
                table = np.vstack([table, dead_probability(np.minimum(p, q), n)])
                log_scale, prompts = np.append(log_scale, 0.0), np.append(prompts, float(self.dropped))
        return Mixing(
            passing=p,
            failing=q,
            likelihood=table,
            weights=prompts / self.total,
            prompts=self.total,
            rollouts=np.full(prompts.size, n, dtype=np.int64),
            log_scale=log_scale,
        )

    @cached_property
    def average(self) -> AveragedFit:
        """The plain and the tilted Betas of all prompts with their weights (theory.md, eq. 76)."""
        n = self.group_size
        p, q, features, spacing = logit_axis(n, DEGREE)
        every = n - 1 <= FULL_TABLE
        k = np.arange(1, n) if every else 1 + np.flatnonzero(self.counts)
        prompts = self.counts[k - 1].astype(np.float64)
        if self.dropped is None:
            table, log_scale = _scaled(survivor_chance(n, k, p, q))
            log_weight: Floats | None = np.log(mixed_probability(np.minimum(p, q), n))
        else:
            table, log_scale = _binomial(n, k, p, q)
            table = np.vstack([table, dead_probability(np.minimum(p, q), n)])
            log_scale, prompts = np.append(log_scale, 0.0), np.append(prompts, float(self.dropped))
            log_weight = None
        grid = LogitGrid(
            passing=p,
            failing=q,
            features=features,
            spacing=spacing,
            table=table,
            log_scale=log_scale,
            prompts=prompts,
            of_size=np.full(prompts.size, float(self.total)) if every else None,
            log_weight=log_weight,
            shape_precision=0.0 if self.dropped is not None else SHAPE_PRECISION,
        )
        mean = float(self.counts @ np.arange(1, n)) / (n * self.groups)
        fits = average_on(grid, BetaPassRates(mean=mean, correlation=START_CORRELATION))
        plain = replace(grid, log_weight=None)
        if log_weight is None:
            return fits
        all_prompts = []
        for fit in fits.fits:  # the same parameters, without the weight: the distribution of all prompts
            mass, derivatives = plain.density(fit.parameters)
            all_prompts.append(replace(fit, mass=mass, derivatives=derivatives))
        return AveragedFit(grid=plain, fits=tuple(all_prompts), weights=fits.weights)

    @cached_property
    def beta(self) -> BetaBinomialFit:
        """The plain Beta of all prompts."""
        if not self.shape_known:
            mean = float(self.counts @ np.arange(1, self.group_size)) / (self.group_size * self.groups)
            return BetaBinomialFit(
                rates=BetaPassRates(mean=mean, correlation=START_CORRELATION),
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


def survivor_chance(group_size: int, passes: NDArray[np.int64], passing: Floats, failing: Floats) -> Floats:
    """Chance of k passes of a mixed group, shape (K, m) (theory.md, eq. 73).

    Args:
        group_size: n, at least 2.
        passes: k, each in 1 .. n - 1, shape (K,).
        passing: p, shape (m,); at 0 and 1 the limits are taken: one pass, or one fail, is then all that is left.
        failing: 1 - p, shape (m,).

    >>> half = np.array([0.0, 0.5])
    >>> survivor_chance(3, np.array([1, 2]), half, 1.0 - half).round(6).tolist()
    [[1.0, 0.5], [0.0, 0.5]]
    """
    n, k = group_size, passes.astype(np.float64)[:, None]
    inner = (passing > 0.0) & (failing > 0.0)
    p, q = passing[inner], failing[inner]
    logs = k * np.log(p) + (n - k) * np.log(q) - np.log(mixed_probability(np.minimum(p, q), n))
    chance = np.zeros((passes.size, passing.size))
    chance[:, inner] = np.exp(logs + log_coefficients(np.full(passes.size, float(n)), k[:, 0])[:, None])
    chance[np.ix_(passes == 1, passing <= 0.0)] = 1.0
    chance[np.ix_(passes == n - 1, failing <= 0.0)] = 1.0
    return chance


def _scaled(chances: Floats) -> tuple[Floats, Floats]:
    """Each row divided by its largest value, and the log of that."""
    largest = chances.max(axis=1)
    return chances / largest[:, None], np.log(largest)


def _binomial(group_size: int, passes: NDArray[np.int64], p: Floats, q: Floats) -> tuple[Floats, Floats]:
    n, k = np.full(passes.size, float(group_size)), passes.astype(np.float64)
    return binomial_likelihood(n, k, p, q), log_coefficients(n, k) + log_peak(n, k)
