"""Refill (dynamic sampling): draw prompts until a step has its mixed groups (theory.md, section 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_level, as_positive, require
from grpo_plan.batches.capping import capped_rounds, mixed_held
from grpo_plan.batches.counts import CountSummary
from grpo_plan.batches.waiting import EndlessPrompts, FinitePrompts, Rounds, fewest_prompts, prompts_summary
from grpo_plan.errors import DomainError, InfeasiblePlanError, PilotError
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

MAX_WANTED = 10**9
MAX_GEN_BATCH = 10**12
MAX_DATA_PROMPTS = 10**7
MAX_ROUNDS = 10**9
SURPLUS_GRID = 17
SURE = 0.95  # share of steps, or of runs, for which the smallest sizes are given
NO_CAP = "A trainer's 0 for no cap is max_rounds=None here (no --max-rounds)."


class RefillStatus(Enum):
    """Whether a refill ends. The value is the sentence shown to the user."""

    FILLS = "Every dead fraction in the interval leaves mixed groups to find."
    MAY_NEVER_FILL = (
        "The interval of the dead fraction reaches 1: the pilot does not rule out that no group is ever mixed, so the "
        "number of prompts has no upper limit. Set a cap, and pilot more prompts or more rollouts per prompt."
    )
    MAY_RUN_DRY = (
        "At the upper limit of the dead fraction the data set has fewer mixed groups than one step wants. Use more "
        "prompts, fewer prompts a step, or prompts of middle difficulty."
    )

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RefillAt(Shown):
    """What refilling takes at one dead fraction; quantiles are over steps.

    Attributes:
        dead_fraction: D.
        mixed_prompts: Mixed groups in the data set; None for an endless stream of prompts.
        one_by_one: Prompts of a step if none is drawn after the last one needed.
        rounds: Generation batches that a step draws, at most ``max_rounds``.
        prompts: Prompts that a step draws, whole generation batches.
        rollouts: Rollouts that a step draws.
        mixed_groups: Mean number of mixed groups that a step holds: N, or fewer where a cap leaves some steps short.
        surplus_mixed_groups: Mean number of mixed groups of a step that are rolled out and thrown away.
        cap_probability: Chance that ``max_rounds`` do not fill a step; None without a cap.
        run_cap_probability: Chance that this happens in any step of the run; None without a cap or number of steps.
        safe_max_rounds: Smallest cap that 95 % of runs never hit; None without a number of steps.
        one_round_gen_batch_size: Smallest generation batch that fills 95 % of steps in one round.
        capped_gen_batch_size: Smallest with which ``max_rounds`` rounds suffice in 95 % of runs, or of steps where the
            number of steps is not given; None without a cap.
        rounds_to_fill: Rounds that fill 95 % of steps where no cap stops them.
        steps_per_pass: Steps from one pass over the data set, about; None for an endless stream.
    """

    dead_fraction: float
    mixed_prompts: int | None
    one_by_one: CountSummary
    rounds: CountSummary
    prompts: CountSummary
    rollouts: CountSummary
    mixed_groups: float
    surplus_mixed_groups: float
    cap_probability: float | None
    run_cap_probability: float | None
    safe_max_rounds: int | None
    one_round_gen_batch_size: int
    capped_gen_batch_size: int | None
    rounds_to_fill: int
    steps_per_pass: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Refill(Shown):
    """A refill at the estimated dead fraction and at both of its limits.

    Attributes:
        prompts_per_step: Mixed groups wanted in a step, N.
        group_size: Rollouts per prompt, G.
        gen_batch_size: Prompts of a generation batch, B.
        max_rounds: Generation batches after which the trainer gives up; None for no cap.
        steps: Steps of the run, if given.
        data_prompts: Prompts of the data set, each drawn once a pass; None for an endless stream.
        status: Whether a refill ends at every dead fraction of the interval.
        dead: The dead fraction behind all of it.
        at_value: At the estimate.
        at_low: At the low limit, where refilling is cheapest.
        at_high: At the high limit; None where refilling need not end there (see ``status``).
        surplus_limits: Least and most mean surplus over the interval of the dead fraction, on a grid of it: it is the
            one number here that neither rises nor falls throughout. None where `at_high` is.
    """

    prompts_per_step: int
    group_size: int
    gen_batch_size: int
    max_rounds: int | None
    steps: int | None
    data_prompts: int | None
    status: RefillStatus
    dead: DeadFraction
    at_value: RefillAt = field(repr=False)
    at_low: RefillAt = field(repr=False)
    at_high: RefillAt | None = field(repr=False)
    surplus_limits: tuple[float, float] | None

    @property
    def batch_multiplier(self) -> float:
        """Generation batch over prompts per step, B / N."""
        return self.gen_batch_size / self.prompts_per_step

    def limits(self, number: Callable[[RefillAt], float]) -> tuple[float, float | None]:
        """A number at the limits of the dead fraction; None where it has no upper limit.

        >>> from grpo_plan.fitting import fit_pass_rates
        >>> from grpo_plan.pilot import Pilot
        >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
        >>> low, high = refill(fit, prompts_per_step=16, group_size=4).limits(lambda at: at.prompts.mean)
        >>> round(low), round(high)
        (63, 131)
        """
        return number(self.at_low), None if self.at_high is None else number(self.at_high)


def refill(
    fit: PassRateFit,
    *,
    prompts_per_step: int,
    group_size: int,
    batch_multiplier: float | None = None,
    gen_batch_size: int | None = None,
    max_rounds: int | None = None,
    steps: int | None = None,
    data_prompts: int | None = None,
    level: float = 0.95,
) -> Refill:
    """Prompts, rounds and failures of a step that is refilled until N groups are mixed (theory.md, eq. 52 to 54, 139).

    Args:
        fit: Fitted pass rates of the current policy.
        prompts_per_step: Mixed groups wanted in a step, N.
        group_size: Rollouts per prompt, G, at least 2.
        batch_multiplier: Prompts of a generation batch over N, at least 1; the batch is rounded up.
        gen_batch_size: Prompts of a generation batch instead; N if neither is given.
        max_rounds: Generation batches after which the trainer gives up; None for no cap.
        steps: Steps of the run, for the chance that any of them hits the cap.
        data_prompts: Prompts of a data set drawn without replacement; None for random draws from a large pool.
        level: Confidence level of the dead fraction whose limits are carried through.

    Raises:
        DomainError: A number outside its domain.
        InfeasiblePlanError: No group, or too few of the data set, can be mixed.
        PilotError: The pilot does not determine the dead fraction at this group size.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> plan = refill(fit, prompts_per_step=16, group_size=4, batch_multiplier=2, max_rounds=5)
    >>> round(plan.at_value.rounds.mean, 2), round(plan.at_value.cap_probability, 5)
    (2.99, 0.00021)
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    wanted = as_count(prompts_per_step, "prompts_per_step", maximum=MAX_WANTED)
    g = as_count(group_size, "group_size", minimum=2)
    size = _gen_batch_size(wanted, batch_multiplier, gen_batch_size)
    if max_rounds == 0 and not isinstance(max_rounds, bool):
        raise DomainError(f"max_rounds must be at least 1; got 0. {NO_CAP}")
    cap = None if max_rounds is None else as_count(max_rounds, "max_rounds", maximum=MAX_ROUNDS)
    run = None if steps is None else as_count(steps, "steps")
    pool = None if data_prompts is None else as_count(data_prompts, "data_prompts", maximum=MAX_DATA_PROMPTS)
    dead = fit.dead(g, as_level(level))
    _refuse_hopeless(fit, dead)
    if dead.value is None:
        raise PilotError(f"The dead fraction of groups of {g} is unknown. {fit.status.sentence}")
    if pool is not None and _mixed_prompts(pool, dead.value) < wanted:
        raise InfeasiblePlanError(
            f"No step can be filled: {pool:,} prompts hold {_mixed_prompts(pool, dead.value):,} mixed groups at "
            f"D({g}) = {dead.value:.3f}, fewer than the {wanted:,} wanted. Use more data or fewer prompts a step."
        )
    if pool is not None and size > pool:
        raise DomainError(
            f"a generation batch must not exceed data_prompts; got {size:,} of {pool:,}. Make the batch smaller."
        )

    def at(fraction: float) -> RefillAt:
        return _refill_at(fraction, wanted, g, size, cap, run, pool)

    status = RefillStatus.FILLS
    if dead.high >= 1.0:
        status = RefillStatus.MAY_NEVER_FILL
    elif pool is not None and _mixed_prompts(pool, dead.high) < wanted:
        status = RefillStatus.MAY_RUN_DRY
    ends = at(dead.value), at(dead.low), at(dead.high) if status is RefillStatus.FILLS else None
    surplus = None
    if ends[2] is not None:
        between = np.linspace(dead.low, dead.high, SURPLUS_GRID)[1:-1]
        found = [_drawn(_law(float(d), wanted, pool), size, cap).surplus for d in between]
        found += [end.surplus_mixed_groups for end in ends if end is not None]
        surplus = min(found), max(found)
    return Refill(
        prompts_per_step=wanted,
        group_size=g,
        gen_batch_size=size,
        max_rounds=cap,
        steps=run,
        data_prompts=pool,
        status=status,
        dead=dead,
        at_value=ends[0],
        at_low=ends[1],
        at_high=ends[2],
        surplus_limits=surplus,
    )


def batch_multiplier_for(gen_batch_size: int, prompts_per_step: int) -> float:
    """Smallest multiplier of two decimals that gives at least this generation batch, rounded down or not.

    >>> batch_multiplier_for(246, 128), batch_multiplier_for(115, 100), batch_multiplier_for(60, 128)
    (1.93, 1.16, 1.0)
    """
    hundredths = max(100, -(-100 * gen_batch_size // prompts_per_step))
    while int(hundredths / 100 * prompts_per_step) < gen_batch_size:
        hundredths += 1
    return hundredths / 100


def _gen_batch_size(wanted: int, multiplier: float | None, size: int | None) -> int:
    if multiplier is not None and size is not None:
        raise DomainError(
            f"give batch_multiplier or gen_batch_size, not both; got {multiplier:g} and {size:,}. Leave one out."
        )
    if size is not None:
        return as_count(size, "gen_batch_size", maximum=MAX_GEN_BATCH)
    if multiplier is None:
        return wanted
    factor = as_positive(multiplier, "batch_multiplier")
    if factor < 1.0:
        raise DomainError(
            f"batch_multiplier must be at least 1; got {factor:g}. For smaller generation batches give gen_batch_size."
        )
    rounded_up = math.ceil(factor * wanted * (1.0 - 1e-12))
    return as_count(rounded_up, "batch_multiplier x prompts_per_step", maximum=MAX_GEN_BATCH)


def _refuse_hopeless(fit: PassRateFit, dead: DeadFraction) -> None:
    agreeing = [s for s in (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD) if s in fit.statuses]
    if agreeing or dead.low >= 1.0 or dead.value == 1.0:
        why = f"no prompt of the pilot is mixed (D({dead.group_size}) at least {dead.low:.3f})"
        sentence = agreeing[0].sentence if agreeing else "Every group is dead."
        raise InfeasiblePlanError(
            f"No refill can be planned: {why}, so a step may never fill. {sentence} Refilling cannot help: pilot other "
            "prompts, or give each prompt more rollouts."
        )


def _mixed_prompts(data_prompts: int, dead: float) -> int:
    return round(data_prompts * (1.0 - dead))


def _law(dead: float, wanted: int, pool: int | None) -> EndlessPrompts | FinitePrompts:
    if pool is None:
        return EndlessPrompts(wanted=wanted, dead=dead)
    return FinitePrompts(wanted=wanted, prompts=pool, mixed=_mixed_prompts(pool, dead))


def _drawn(law: EndlessPrompts | FinitePrompts, size: int, cap: int | None) -> Rounds:
    return law.rounds(size) if cap is None else capped_rounds(law, size, cap)


def _refill_at(
    dead: float, wanted: int, group_size: int, size: int, cap: int | None, steps: int | None, pool: int | None
) -> RefillAt:
    law = _law(dead, wanted, pool)
    single = prompts_summary(law)
    moments = _drawn(law, size, cap)
    most = math.inf if cap is None else float(cap)
    quantiles = [min(most, float(-(-int(t) // size))) for t in (single.p05, single.p50, single.p95)]
    drawn = [q * size if pool is None else min(q * size, float(pool)) for q in quantiles]
    rounds = CountSummary(
        mean=moments.mean, sd=moments.variance**0.5, p05=quantiles[0], p50=quantiles[1], p95=quantiles[2]
    )
    prompts = CountSummary(
        mean=moments.prompts_mean, sd=moments.prompts_variance**0.5, p05=drawn[0], p50=drawn[1], p95=drawn[2]
    )
    fails = None if cap is None else law.beyond(cap * size)
    tail = 1.0 - SURE if steps is None else -math.expm1(math.log(SURE) / steps)
    longest = fewest_prompts(law, tail)
    return RefillAt(
        dead_fraction=dead,
        mixed_prompts=None if pool is None else _mixed_prompts(pool, dead),
        one_by_one=single,
        rounds=rounds,
        prompts=prompts,
        rollouts=prompts.times(group_size),
        mixed_groups=float(wanted) if cap is None else mixed_held(law, cap * size),
        surplus_mixed_groups=moments.surplus,
        cap_probability=fails,
        run_cap_probability=None if fails is None or steps is None else any_of(fails, steps),
        safe_max_rounds=None if steps is None else -(-longest // size),
        one_round_gen_batch_size=int(single.p95),
        capped_gen_batch_size=None if cap is None else -(-longest // cap),
        rounds_to_fill=-(-int(single.p95) // size),
        steps_per_pass=None if pool is None else pool / moments.prompts_mean,
    )


def any_of(chance: float, times: int) -> float:
    """Chance that something of this chance happens at least once in so many independent tries.

    >>> round(any_of(0.1, 2), 12), any_of(1.0, 3)
    (0.19, 1.0)
    """
    return 1.0 if chance >= 1.0 else -math.expm1(times * math.log1p(-chance))
