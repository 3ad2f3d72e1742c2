"""Pilot to fit: which estimator answers at which group size, and what limits the answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_count, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.fitting.betabinomial import fit_beta_binomial
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.selected_fit import fit_selected, looks_selected
from grpo_plan.fitting.status import FitStatus
from grpo_plan.fitting.truncated_fit import DroppedGroups, fit_truncated, looks_filtered, parse_dropped, restored
from grpo_plan.fitting.ustatistics import largest_measured_group_size
from grpo_plan.independence.verdict import IndependenceVerdict
from grpo_plan.pilot import Pilot, PilotHistogram

FAMILIES = ("auto", "beta", "tilted-beta", "inflated-beta", "nonparametric")
MIN_INFLATED_ROLLOUTS = 8
MIN_PROMPTS = 30
UNDERDISPERSION_Z = -3.0
UNEVEN_Z = 4.0
MIN_PAIRS = 20.0


def fit_pass_rates(
    pilot: Pilot,
    family: str = "auto",
    *,
    population: str | int = "sample",
    independence: IndependenceVerdict | None = None,
    truncated: bool = False,
    dropped_groups: DroppedGroups | None = None,
    removed: str | None = None,
) -> PassRateFit:
    """Fit the distribution of pass rates over prompts.

    Args:
        pilot: Counts of one policy at one temperature.
        family: Where the values come from. ``"auto"``: the unbiased subgroup count (U-statistic) for every G that
            four fifths of the prompts have rollouts for, and beyond an average of a Beta and tilted Betas, joined
            to the count. The others answer at every G: ``"beta"``, ``"tilted-beta"``, ``"inflated-beta"`` (atoms at
            0 and 1; needs 8 rollouts per prompt) and ``"nonparametric"``. The limits never depend on it: they hold
            for any distribution.
        population: What the limits speak of. ``"sample"``: a large pool from which the prompts were drawn.
            ``"census"``: exactly these prompts. A number: a finite set of that many prompts, these among them.
        independence: Verdict of a check of this pilot's rollouts; an alarm becomes the gravest status.
        truncated: Whether the pilot holds only groups with passes and fails, as the dumps of trainers that drop dead
            groups do (theory.md, section 16). Each row must then be one *group*, one visit of a prompt: visits that
            are merged into one row were not kept or dropped as one. Needed where ``pilot.filtered`` says so.
        dropped_groups: How many dead groups such a source dropped, over the same visits: a number, or a pair
            (all-fail, all-pass) or mapping ``{"all_fail": ..., "all_pass": ...}``, which makes the pilot an ordinary
            one. Implies ``truncated``; 0 says that all groups are there. Without it D(G) has no upper limit below 1.
        removed: Which *prompts* were taken out of the source for good, by the same count that the pilot holds:
            ``"all-pass"`` (n of n), ``"all-fail"`` (0 of n) or ``"dead"`` (both). The answers are then those of the
            prompts that are left (theory.md, section 17). Default: what ``pilot.provenance.removed`` says.

    Returns:
        A `PassRateFit`. Pilots that determine little are fitted all the same; ``statuses`` says what is missing.

    Raises:
        DomainError: No such family, population or number of dropped groups.
        PilotError: The pilot mixes temperatures, has too few rollouts for the family, or lacks its dead groups and
            ``truncated`` was not asked for (or the other way round).
        FitError: The optimiser failed.

    >>> fit = fit_pass_rates(Pilot.from_counts(439 * [0] + 151 * [1] + 619 * [5], 8))
    >>> fit.status.name, fit.max_measured_group_size
    ('OK', 8)
    >>> survivors = Pilot.from_counts(40 * [1] + 30 * [2] + 30 * [3], 4)
    >>> print(fit_pass_rates(survivors, dropped_groups=100).dead(4))
    D(4) = 0.5 [0.431, 0.569] (95 %), OK
    >>> unknown = fit_pass_rates(survivors, truncated=True).dead(4)
    >>> round(unknown.low, 2), unknown.high, unknown.status.name
    (0.14, 1.0, 'TRUNCATED')
    """
    require(pilot, Pilot, "pilot", "Read one with read_pilot(...) or Pilot.from_counts(...).")
    if family not in FAMILIES:
        raise DomainError(not_one_of("family", family, FAMILIES))
    size = _population(population, pilot.prompts)
    if len(pilot.temperatures) > 1:
        shown = ", ".join(f"{t:g}" for t in pilot.temperatures)
        raise PilotError(
            f"A fit describes one temperature; the pilot has {len(pilot.temperatures)} ({shown}). "
            f"Keep one, e.g. --where temperature={pilot.temperatures[0]:g} or pilot.select(temperature=...)."
        )
    removed = pilot.provenance.removed if removed is None else removed
    if removed is not None and (truncated or dropped_groups is not None):
        raise DomainError(
            "truncated and dropped_groups speak of groups that were dropped, removed of prompts that were taken out by "
            "their count: a pilot is one or the other."
        )
    dropped = None if dropped_groups is None else parse_dropped(dropped_groups)
    complete = dropped in (0, (0, 0))  # all groups are there, whatever the source looks like
    if complete:
        pilot = replace(pilot, provenance=replace(pilot.provenance, filtered=None))
    truncated = not complete and (truncated or dropped is not None)
    if truncated:
        if not isinstance(dropped, tuple):
            found = fit_truncated(pilot, dropped, family, population)
            return replace(
                found, statuses=_with_verdict(_with_source(found.statuses, pilot, merged=False), independence)
            )
        pilot = restored(pilot, *dropped)
        size = _population(population, pilot.prompts)
    if not truncated and pilot.filtered is not None:
        raise PilotError(
            f"The pilot holds only mixed groups ({pilot.filtered}), so D(G) cannot be counted. Fit it as such with "
            "--truncated (truncated=True), best with --dropped-groups N, or read a source with all groups."
        )
    if removed is not None:
        chosen = fit_selected(pilot, removed, family, population)
        return replace(chosen, statuses=_with_verdict(_with_source(chosen.statuses, pilot, merged=True), independence))
    histogram = pilot.histogram()
    largest = largest_measured_group_size(histogram)
    if family == "inflated-beta" and largest < MIN_INFLATED_ROLLOUTS:
        raise PilotError(
            f"family inflated-beta needs at least {MIN_INFLATED_ROLLOUTS} rollouts per prompt; got {largest}. "
            "With fewer it finds atoms that are not there. Take family auto."
        )
    return PassRateFit(
        family=family,
        pilot=pilot,
        beta=fit_beta_binomial(histogram),
        statuses=_with_verdict(
            _with_source(_statuses(histogram, pilot, complete), pilot, merged=not truncated), independence
        ),
        max_measured_group_size=largest,
        population=size,
        _histogram=histogram,
    )


def refuse_filtered(pilot: Pilot, why: str) -> None:
    """One line where a pilot without its dead groups cannot answer, whatever is known of them.

    Raises:
        PilotError: ``pilot.filtered`` says that they are missing, or prompts were removed by their count.
    """
    if pilot.provenance.removed is not None:
        raise PilotError(
            f"{why}, counted as they came; {pilot.provenance.removed} prompts were removed from the source by their "
            "count. Roll out a pilot on the prompts that are left."
        )
    if pilot.filtered is not None:
        raise PilotError(f"{why}; the pilot holds only mixed ones ({pilot.filtered}). Read a source with all groups.")


def _with_verdict(statuses: tuple[FitStatus, ...], verdict: IndependenceVerdict | None) -> tuple[FitStatus, ...]:
    if verdict is None or not verdict.alarm:
        return statuses
    return (FitStatus.DEPENDENT, *(s for s in statuses if s is not FitStatus.OK))


def _with_source(statuses: tuple[FitStatus, ...], pilot: Pilot, *, merged: bool) -> tuple[FitStatus, ...]:
    """What the source says comes first, but for an alarm of the rollouts themselves."""
    source = pilot.provenance
    found = [FitStatus.WEAK_PRIOR] if source.weak_prior is not None else []
    if merged and source.mixed_policies:
        found.append(FitStatus.POOLED_POLICIES)
    if not found:
        return statuses
    return (*found, *(s for s in statuses if s is not FitStatus.OK))


def _population(population: object, prompts: int) -> int | None:
    """Size of the finite set that the numbers speak of; None for a large pool."""
    if isinstance(population, str) and population in ("sample", "census"):
        return None if population == "sample" else prompts
    if isinstance(population, str):
        raise DomainError(f"population must be sample, census or a number of prompts, e.g. 5000; got {population!r}.")
    size = as_count(population, "population")
    if size < prompts:
        raise DomainError(f"population must be at least the pilot's {prompts:,} prompts; got {size:,}.")
    return size


def _statuses(h: PilotHistogram, pilot: Pilot, complete: bool) -> tuple[FitStatus, ...]:
    found = []
    successes, rollouts = int(h.prompts @ h.successes), int(h.prompts @ h.rollouts)
    if h.max_rollouts == 1:
        found.append(FitStatus.SINGLE_ROLLOUT)
    elif largest_measured_group_size(h) == 1:
        found.append(FitStatus.FEW_ROLLOUTS)
    if successes == 0:
        found.append(FitStatus.NO_SUCCESS)
    elif successes == rollouts:
        found.append(FitStatus.NO_FAILURE)
    elif h.max_rollouts > 1 and not np.any((h.successes > 0) & (h.successes < h.rollouts)):
        found.append(FitStatus.ALL_DEAD)
    if looks_filtered(h) or _rows_look_filtered(pilot):
        found.append(FitStatus.DROPPED_COUNT_DOUBTFUL if complete else FitStatus.LOOKS_FILTERED)
    if looks_selected(h):
        found.append(FitStatus.LOOKS_SELECTED)
    if abs(unevenness(h)) > UNEVEN_Z:
        found.append(FitStatus.UNEVEN_ROLLOUTS)
    if underdispersion(h) < UNDERDISPERSION_Z:
        found.append(FitStatus.UNDERDISPERSED)
    if h.total_prompts < MIN_PROMPTS:
        found.append(FitStatus.TOO_FEW_PROMPTS)
    return tuple(found) or (FitStatus.OK,)


def _rows_look_filtered(pilot: Pilot) -> bool:
    """`looks_filtered` of the rows before those of one prompt were added up, which hides what was dropped."""
    if not pilot.provenance.merged_rows:
        return False
    n, k, rows = (np.array(column, dtype=np.int64) for column in zip(*pilot.provenance.merged_rows, strict=True))
    return looks_filtered(PilotHistogram(rollouts=n, successes=k, prompts=rows))


def unevenness(h: PilotHistogram) -> float:
    """Standardised covariance of a prompt's rollouts with its share of passes (theory.md, eq. 30); 0 at equal n.

    The larger of the sandwich and the pooled standard error is used, so that few prompts with other n raise no alarm.
    """
    prompts, n, rates = h.prompts.astype(float), h.rollouts.astype(float), h.successes / h.rollouts
    total = prompts.sum()
    n_centred = n - float(prompts @ n) / total
    mean = float(prompts @ rates) / total
    sandwich = float(prompts @ (n_centred * (rates - mean)) ** 2)
    pooled = float(prompts @ n_centred**2) * max(
        float(prompts @ (rates - mean) ** 2) / total, mean * (1 - mean) / total
    )
    error = float(np.sqrt(max(sandwich, pooled)))
    return 0.0 if error == 0.0 else float(prompts @ (n_centred * (rates - mean))) / error


def underdispersion(h: PilotHistogram) -> float:
    """Standardised covariance of two rollouts of a prompt (theory.md, eq. 29); far below 0 is impossible for any F.

    ``C = mean of k(k-1)/(n(n-1)) - pbar**2`` estimates the variance of p, which is never negative. Its standard
    error is that of prompts of one pass rate, ``2 p**2 q**2 / (n (n-1))`` a prompt. Where fewer than `MIN_PAIRS`
    pairs of passes (or of fails) are expected, C is far from normal, and 0 is returned: no evidence.
    """
    two = h.rollouts >= 2
    prompts, n, k = h.prompts[two].astype(float), h.rollouts[two].astype(float), h.successes[two].astype(float)
    total = float(prompts.sum())
    if total == 0.0:
        return 0.0
    mean = float(prompts @ (k / n)) / total
    pairs = float(prompts @ (n * (n - 1.0) / 2.0)) * min(mean, 1.0 - mean) ** 2
    if pairs < MIN_PAIRS:
        return 0.0
    covariance = float(prompts @ (k * (k - 1.0) / (n * (n - 1.0)))) / total - mean**2
    variance = float(prompts @ (2.0 * (mean * (1.0 - mean)) ** 2 / (n * (n - 1.0)))) / total**2
    return float(covariance / np.sqrt(variance))
