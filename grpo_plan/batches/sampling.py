"""What a mixed group costs in rollouts: with groups kept as they fall, refilled, or sampled until mixed."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, require
from grpo_plan.batches.refilling import Refill
from grpo_plan.batches.stopping import MAX_ADAPTIVE, Bounded, adaptive_sampling
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus

DEFAULT_FACTOR = 2  # largest group of adaptive sampling over the group size


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SamplingCost(Shown):
    """One way to sample.

    Attributes:
        scheme: ``"fixed"``, ``"refill"``, ``"adaptive"`` (until a pass and a fail) or ``"until-pass"``.
        group_size: Rollouts of a prompt, at most.
        round_size: Rollouts of a prompt drawn at a time; the group size where all are drawn at once.
        rollouts_per_prompt: Mean number of rollouts of a prompt.
        dropped_fraction: Share of the prompts that give no group of the kind.
        rollouts_per_group: Mean number of rollouts spent for one mixed group (``"until-pass"``: for one prompt with a
            pass); None where the estimate says that none comes.
        status: What the pilot can say at this group size.
    """

    scheme: str
    group_size: int
    round_size: int
    rollouts_per_prompt: Bounded
    dropped_fraction: Bounded
    rollouts_per_group: Bounded | None
    status: FitStatus


def compare_sampling(
    fit: PassRateFit, plan: Refill, *, max_group_size: int | None = None, round_size: int = 1
) -> tuple[SamplingCost, ...]:
    """Rollouts per mixed group of a fixed group size, of a refill, and of adaptive sampling (theory.md, eq. 55).

    Args:
        fit: The fit that ``plan`` was made from.
        plan: A refill; its level, group size and generation batch are used.
        max_group_size: Most rollouts of a prompt in adaptive sampling, a multiple of ``round_size``; default 2 G, at
            most 4,096.
        round_size: Rollouts that adaptive sampling draws at a time.

    >>> from grpo_plan.batches.refilling import refill
    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> rows = compare_sampling(fit, refill(fit, prompts_per_step=16, group_size=4), max_group_size=4)
    >>> [(row.scheme, round(row.rollouts_per_group.value, 1)) for row in rows]
    [('fixed', 20.0), ('refill', 21.9), ('adaptive', 18.3), ('until-pass', 3.9)]
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    require(plan, Refill, "plan", "Plan a refill first: refill(fit, ...).")
    g, dead = plan.group_size, plan.dead
    default = min(DEFAULT_FACTOR * g, MAX_ADAPTIVE)
    most = as_count(default if max_group_size is None else max_group_size, "max_group_size", minimum=2)
    whole = Bounded(value=float(g), low=float(g), high=float(g))
    value = plan.at_value.dead_fraction
    dropped = Bounded(value=value, low=dead.low, high=dead.high)
    once = Bounded(
        value=g / (1.0 - value), low=g / (1.0 - dead.low), high=None if dead.high >= 1.0 else g / (1.0 - dead.high)
    )
    low, high = plan.limits(lambda at: at.rollouts.mean / at.mixed_groups)
    refilled = Bounded(value=plan.at_value.rollouts.mean / plan.at_value.mixed_groups, low=low, high=high)
    rows = [
        SamplingCost(
            scheme=scheme,
            group_size=g,
            round_size=g,
            rollouts_per_prompt=whole,
            dropped_fraction=dropped,
            rollouts_per_group=cost,
            status=dead.status,
        )
        for scheme, cost in (("fixed", once), ("refill", refilled))
    ]
    for scheme, fails in (("adaptive", 1), ("until-pass", 0)):
        rule = adaptive_sampling(fit, max_group_size=most, round_size=round_size, fails=fails, level=dead.level)
        rows.append(
            SamplingCost(
                scheme=scheme,
                group_size=most,
                round_size=rule.round_size,
                rollouts_per_prompt=rule.rollouts_per_prompt,
                dropped_fraction=rule.unmet_fraction,
                rollouts_per_group=rule.rollouts_per_kept_prompt,
                status=rule.status,
            )
        )
    return tuple(rows)
