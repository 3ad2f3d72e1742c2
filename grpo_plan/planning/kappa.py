"""Kappa measured: squared norms of single-group gradients at two or more group sizes (theory.md, eq. 49)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_float_array, as_level, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.gradients import MeanGradientSquare
from grpo_plan.planning.kappa_lines import PassMoments, refuse_scale
from grpo_plan.planning.kappa_measurement import KappaMeasurement, KappaStatus, Measured

__all__ = ["KappaMeasurement", "KappaStatus", "Measured", "measure_kappa"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FEWEST_RESAMPLES, MOST_RESAMPLES = 100, 1_000_000


def measure_kappa(
    squared_norms_by_group_size: Mapping[int, ArrayLike],
    *,
    rewards: ArrayLike | None = None,
    fit: PassRateFit | None = None,
    mean_gradient_square: MeanGradientSquare | float | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> KappaMeasurement:
    """Measure kappa and the best group size from the gradients of single groups (theory.md, eq. 49).

    Args:
        squared_norms_by_group_size: Group size to the squared norms of RLOO gradient estimates of one group, one a
            prompt (a mean over sub-groups counts as one), shape (M,) each. The same prompts in the same order at every
            size, dead groups as 0; at least two sizes.
        rewards: Rewards of the rollouts they come from, shape (M, n), NaN for failed scoring. 0/1 rewards give kappa;
            without them, or a fit, only the best group size is known.
        fit: Pass rates of a pilot with at least 4 rollouts a prompt, used instead of ``rewards``.
        mean_gradient_square: ``|E g|**2``, from `mean_gradient_square` or a known number: gives the noise of a step.
        level: Confidence level.
        resamples: Bootstrap resamples of prompts.
        seed: Seed of the resamples.

    Raises:
        DomainError: Arguments outside their domain.
        PilotError: Fewer than 2 prompts, or every group is dead.

    >>> rng = np.random.default_rng(0)
    >>> length, noise = rng.gamma(2.0, size=300), 9.0 * rng.gamma(2.0, size=300)
    >>> m = measure_kappa({g: length + noise / (g - 1) for g in (4, 16)})
    >>> print(m.group_size(), m.status.name)
    3.99 [3.8, 4.21] OK
    """
    if not isinstance(squared_norms_by_group_size, Mapping) or len(squared_norms_by_group_size) < 2:
        raise DomainError("squared_norms_by_group_size must map two or more group sizes to numbers, e.g. 4 and 16.")
    table = {
        as_count(g, "group_size", minimum=2): as_float_array(x, f"squared norms at G = {g}")
        for g, x in squared_norms_by_group_size.items()
    }
    sizes = tuple(sorted(table))
    if len(sizes) != len(squared_norms_by_group_size):
        raise DomainError("squared_norms_by_group_size names a group size twice.")
    prompts = table[sizes[0]].size
    for g, norms in table.items():
        if norms.ndim != 1 or norms.size != prompts:
            raise DomainError(
                f"squared norms must be one a prompt, the same prompts at every size; got shape {norms.shape} at "
                f"G = {g} and {table[sizes[0]].shape} at G = {sizes[0]}."
            )
        bad = ~(np.isfinite(norms) & (norms >= 0.0))
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            raise DomainError(
                f"squared norms must be finite and at least 0; got {norms[index]:g} at index {index}, G = {g} "
                f"({int(bad.sum())} of {norms.size} values)."
            )
    passes, scored, notes = counted(rewards, prompts)
    signal = _as_signal(mean_gradient_square)
    if fit is not None:
        require(fit, PassRateFit, "fit", "Make one with fit_pass_rates.")
        if fit.removed is not None:
            fit.require_all_groups("A measured kappa")
    return measured(
        sizes,
        np.stack([table[g] for g in sizes], axis=1),
        passes=passes,
        scored=scored,
        pilot_moments=None if fit is None else PassMoments.of(fit.pilot),
        mean_gradient_square=signal,
        level=as_level(level),
        resamples=as_count(resamples, "resamples", minimum=FEWEST_RESAMPLES, maximum=MOST_RESAMPLES),
        seed=as_count(seed, "seed", minimum=0),
        notes=notes,
    )


def measured(
    group_sizes: tuple[int, ...],
    squared_norms: Floats,
    *,
    passes: Ints | None = None,
    scored: Ints | None = None,
    pilot_moments: PassMoments | None = None,
    mean_gradient_square: MeanGradientSquare | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    notes: tuple[str, ...] = (),
) -> KappaMeasurement:
    """A measurement from checked numbers; unbiased squared norms may be negative here."""
    if squared_norms.shape[0] < 2:
        raise PilotError(f"kappa needs at least 2 prompts, better a few hundred; got {squared_norms.shape[0]}.")
    if not np.any(squared_norms):
        raise PilotError(
            f"All {squared_norms.shape[0]} groups are dead: no gradient to measure. Use prompts that are neither "
            "always right nor always wrong, or larger groups."
        )
    refuse_scale(squared_norms)
    return KappaMeasurement(
        group_sizes=group_sizes,
        squared_norms=squared_norms,
        passes=passes,
        scored=scored,
        pilot_moments=pilot_moments,
        mean_gradient_square=mean_gradient_square,
        level=level,
        resamples=resamples,
        seed=seed,
        notes=notes,
    )


def _as_signal(given: MeanGradientSquare | float | None) -> MeanGradientSquare | None:
    if given is None or isinstance(given, MeanGradientSquare):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise DomainError(f"mean_gradient_square must be a number or a MeanGradientSquare; got {type(given).__name__}.")
    return MeanGradientSquare(value=float(given))


def counted(rewards: ArrayLike | None, prompts: int) -> tuple[Ints | None, Ints | None, tuple[str, ...]]:
    """Passes and scored rollouts of each prompt, and a note where rewards are not 0/1."""
    if rewards is None:
        return None, None, ()
    table = as_float_array(rewards, "rewards")
    if table.ndim != 2 or table.shape[0] != prompts:
        raise DomainError(f"rewards must have shape ({prompts}, rollouts); got {table.shape}.")
    known = ~np.isnan(table)
    if not np.all((table[known] == 0.0) | (table[known] == 1.0)):
        return None, None, ("Rewards are not 0/1: kappa is unknown, the best group size is not affected.",)
    scored = known.sum(axis=1)
    if int((scored >= 4).sum()) < 2:
        return None, None, ("Fewer than 2 prompts have 4 scored rollouts: kappa is unknown.",)
    return np.where(known, table, 0.0).sum(axis=1).astype(np.int64), scored.astype(np.int64), ()
