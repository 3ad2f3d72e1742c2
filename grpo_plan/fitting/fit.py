"""Pilot to fit: which estimator answers at which group size, and what limits the answer."""

from __future__ import annotations

import numpy as np

from grpo_plan._validate import require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.betabinomial import fit_beta_binomial
from grpo_plan.fitting.result import PassRateFit, largest_measured_group_size
from grpo_plan.fitting.status import FitStatus
from grpo_plan.pilot import Pilot, PilotHistogram

FAMILIES = ("auto", "beta")
MIN_PROMPTS = 30
UNDERDISPERSION_Z = -3.0
UNEVEN_Z = 4.0


def fit_pass_rates(pilot: Pilot, family: str = "auto") -> PassRateFit:
    """Fit the distribution of pass rates over prompts.

    Args:
        pilot: Counts of one policy at one temperature.
        family: ``"auto"``: the unbiased subgroup count (U-statistic) for every G that at least a fifth of the
            prompts have rollouts for, and a Beta fit beyond. ``"beta"``: the Beta fit at every G.

    Returns:
        A `PassRateFit`. Pilots that determine little are fitted all the same; ``statuses`` says what is missing.

    Raises:
        DomainError: No such family.
        PilotError: The pilot mixes temperatures.
        FitError: The optimiser failed.

    >>> fit = fit_pass_rates(Pilot.from_counts([439 * [0] + 151 * [1] + 619 * [5]][0], 8))
    >>> fit.status.name, fit.max_measured_group_size
    ('OK', 8)
    """
    require(pilot, Pilot, "pilot", "Read one with read_pilot(...) or Pilot.from_counts(...).")
    if family not in FAMILIES:
        raise DomainError(f"family must be one of {', '.join(FAMILIES)}; got {family!r}.")
    if len(pilot.temperatures) > 1:
        shown = ", ".join(f"{t:g}" for t in pilot.temperatures)
        raise PilotError(
            f"A fit describes one temperature; the pilot has {len(pilot.temperatures)} ({shown}). "
            f"Keep one, e.g. --where temperature={pilot.temperatures[0]:g} or pilot.select(temperature=...)."
        )
    histogram = pilot.histogram()
    return PassRateFit(
        family=family,
        pilot=pilot,
        beta=fit_beta_binomial(histogram),
        statuses=_statuses(histogram),
        max_measured_group_size=largest_measured_group_size(histogram),
        _histogram=histogram,
    )


def _statuses(h: PilotHistogram) -> tuple[FitStatus, ...]:
    found = []
    successes, rollouts = int(h.prompts @ h.successes), int(h.prompts @ h.rollouts)
    if h.max_rollouts == 1:
        found.append(FitStatus.SINGLE_ROLLOUT)
    if successes == 0:
        found.append(FitStatus.NO_SUCCESS)
    elif successes == rollouts:
        found.append(FitStatus.NO_FAILURE)
    elif h.max_rollouts > 1 and not np.any((h.successes > 0) & (h.successes < h.rollouts)):
        found.append(FitStatus.ALL_DEAD)
    if h.total_prompts < MIN_PROMPTS:
        found.append(FitStatus.TOO_FEW_PROMPTS)
    if abs(_uneven_z(h)) > UNEVEN_Z:
        found.append(FitStatus.UNEVEN_ROLLOUTS)
    if _underdispersion_z(h) < UNDERDISPERSION_Z:
        found.append(FitStatus.UNDERDISPERSED)
    return tuple(found) or (FitStatus.OK,)


def _uneven_z(h: PilotHistogram) -> float:
    """Standardised difference in mean pass rate between prompts with the most rollouts usable and those with fewer."""
    many = h.rollouts >= largest_measured_group_size(h)
    means, variances = [], []
    for side in (many, ~many):
        prompts, rates = h.prompts[side].astype(float), h.successes[side] / h.rollouts[side]
        total = prompts.sum()
        if total < 2:
            return 0.0
        mean = float(prompts @ rates) / total
        spread = float(prompts @ (rates - mean) ** 2) + mean * (1.0 - mean)  # never 0 by chance
        means.append(mean)
        variances.append(spread / (total - 1.0) / total)
    error = float(np.sqrt(sum(variances)))
    return 0.0 if error == 0.0 else float((means[0] - means[1]) / error)


def _underdispersion_z(h: PilotHistogram) -> float:
    """Standardised excess of the between-prompt covariance of two rollouts; far below 0 is impossible for any F.

    ``C = mean of k(k-1)/(n(n-1)) - pbar**2`` estimates the variance of p, which is never negative.
    """
    two = h.rollouts >= 2
    prompts, n, k = (
        h.prompts[two].astype(float),
        h.rollouts[two].astype(float),
        h.successes[two].astype(float),
    )
    total = prompts.sum()
    if total < 2:
        return 0.0
    mean = float(prompts @ (k / n)) / total
    influence = k * (k - 1.0) / (n * (n - 1.0)) - 2.0 * mean * (k / n) + mean**2
    centre = float(prompts @ influence) / total
    variance = float(prompts @ (influence - centre) ** 2) / (total - 1.0) / total
    if variance <= 0.0:
        # All prompts alike. Binomial counts would differ: 30 prompts of one count are evidence, 3 are not.
        return float(-np.sqrt(total) if centre < -1e-12 else 0.0)
    return float(centre / np.sqrt(variance))
