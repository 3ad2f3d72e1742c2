"""What logged aggregates of 0/1 rewards say about the distribution of pass rates (theory.md, section 18)."""

from __future__ import annotations

import numpy as np

from grpo_plan._validate import as_count, as_level, as_one_probability, as_positive
from grpo_plan.errors import DomainError
from grpo_plan.passrates import BetaPassRates
from grpo_plan.runs.beta_matching import beta_aggregate, matched_beta
from grpo_plan.runs.composition import MAX_GROUP_SIZE, largest_std, population_std
from grpo_plan.runs.dead_range import dead_inflation
from grpo_plan.runs.moment_range import LP_ERROR, Known, rates_grid, smallest_inflation
from grpo_plan.runs.recovered import Recovered
from grpo_plan.runs.recovery_status import RecoveryStatus
from grpo_plan.runs.sampling_error import mean_limits

TOLERANCE = 0.05  # as far as aggregates of a few hundred groups may lie from those of an F


def recover(
    *,
    mean: float,
    group_size: int,
    dead: float | None = None,
    all_pass: float | None = None,
    all_fail: float | None = None,
    group_std: float | None = None,
    std: str = "population",
    groups: int | None = None,
    level: float = 0.95,
) -> Recovered:
    """Pass rates from the mean reward and further aggregates of groups of one size, rewards 0 or 1.

    Args:
        mean: Mean reward, in [0, 1].
        group_size: G, from 1 to 100,000; with 1 rollout per prompt only the mean says anything.
        dead: Share of dead groups.
        all_pass: Share of groups in which every rollout passes.
        all_fail: Share of groups in which no rollout passes.
        group_std: Mean over all groups, dead ones included, of the standard deviation of their own rewards.
        std: "population" (divided by G) or "sample" (by G - 1).
        groups: Number of groups behind the aggregates, each of a prompt drawn from F (where prompts come back, the
            number of prompts). Without it the aggregates are taken as exact.
        level: Level at which the limits of all aggregates hold at once, if ``groups`` is given.

    Raises:
        DomainError: An aggregate is outside what 0/1 rewards can give, or another argument outside its domain.

    >>> found = recover(mean=0.3348, group_size=8, dead=0.4392)
    >>> print(found.dead(4), found.status.name, sep="; ")
    dead(4) = 0.5832 in [0.5054, 0.6628]; OK
    >>> print(recover(mean=0.3348, group_size=8).dead(4))
    dead(4) = unknown in [0.2084, 1.0000]
    >>> print(recover(mean=0.3348, group_size=8, dead=0.4392, groups=64).dead(4))
    dead(4) = 0.5832 in [0.3823, 0.7656]
    """
    g = as_count(group_size, "group_size", minimum=1, maximum=MAX_GROUP_SIZE)
    given = {"mean": as_one_probability(mean, "mean")}
    for name, share in (("dead", dead), ("all-pass", all_pass), ("all-fail", all_fail)):
        if share is not None:
            given[name] = as_one_probability(share, name.replace("-", "_"))
    if group_std is not None:
        given["group-std"] = _checked_std(group_std, g, std)
    count = None if groups is None else as_count(groups, "groups")
    level = as_level(level)
    known = tuple(_known(name, value, g, count, level, len(given)) for name, value in given.items())
    only_dead = set(given) <= {"mean", "dead"}
    inflation = _inflation(known, g, only_dead)
    too_far = inflation > (LP_ERROR if count is not None else TOLERANCE)
    beta = None if too_far else matched_beta(given, g)
    status = _status(given, g, beta, too_far, inflation)
    misfit = None if beta is None else max(abs(beta_aggregate(beta, name, g) - value) for name, value in given.items())
    return Recovered(
        group_size=g,
        known=known[:1] if g == 1 and not too_far else known,
        groups=count,
        level=None if count is None else level,
        beta=beta,
        status=status,
        inflation=inflation,
        misfit=misfit,
        _only_dead=only_dead or g == 1,
    )


def _checked_std(group_std: object, g: int, std: str) -> float:
    value = float(population_std(as_positive(group_std, "group_std", allow_zero=True), g, std))
    most = largest_std(g)
    if value > most + LP_ERROR:
        raise DomainError(
            f'group_std of {g} rewards that are 0 or 1 is at most {most:.4g} as a "population" standard deviation; got '
            f"{value:.4g}. Is it a sample standard deviation (std), or of the whole batch, or are rewards not 0 or 1?"
        )
    return min(value, most)


def _known(name: str, value: float, g: int, groups: int | None, level: float, together: int) -> Known:
    low = high = value
    if groups is not None:
        top = (largest_std(g) or 1.0) if name == "group-std" else 1.0
        ends = mean_limits(np.array([value / top]), np.array([float(groups)]), level, together)
        low, high = top * float(ends[0][0]), top * float(ends[1][0])
    return Known(name=name, value=value, low=low, high=high, group_size=g)


def _inflation(known: tuple[Known, ...], g: int, only_dead: bool) -> float:
    if len(known) == 1:
        return 0.0
    mean = known[0]
    if only_dead and g > 1:
        low, high, most = np.array([[mean.low], [mean.high], [known[1].high]])
        return float(dead_inflation(low, high, most, g)[0])
    found = smallest_inflation(known, rates_grid(g, [mean.low, mean.value, mean.high]))
    return found if found > LP_ERROR else 0.0


def _status(
    given: dict[str, float], g: int, beta: BetaPassRates | None, too_far: bool, inflation: float
) -> RecoveryStatus:
    if too_far:
        return RecoveryStatus.INCONSISTENT
    if beta is None:
        return RecoveryStatus.MEAN_ONLY
    if given["mean"] in (0.0, 1.0):
        return RecoveryStatus.ONE_OUTCOME
    if beta.correlation == 1.0:
        return RecoveryStatus.POINT_MASSES
    if beta.correlation == 0.0:
        return RecoveryStatus.IID
    return RecoveryStatus.PROJECTED if inflation > 0.0 else RecoveryStatus.OK
