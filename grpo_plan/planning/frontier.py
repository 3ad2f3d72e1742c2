"""Every feasible design: the largest of each group size that the budget allows and the trainer accepts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count
from grpo_plan.batches import CountSummary, EffectiveBatch, effective_batch
from grpo_plan.costs import (
    Budget,
    CostModel,
    Design,
    GroupContent,
    SolvedDesign,
    binding_constraint,
    largest_group_size,
    solve_design,
)
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.fitting.curve import LimitsCurve
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.rules import DesignRules

Floats = NDArray[np.float64]
MIN_GROUP_SIZE, MAX_GROUP_SIZE = 2, 512
EVEN, EVEN_COST = 8, 0.02  # a multiple of 8 times the trainer's, if it costs no more of the prompts
LARGEST_GROUP_SIZE = 100_000  # laws of passes are held in full
MANY_SIZES = 64  # above this, limits are exact at some group sizes only


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A feasible design, what it costs, and the law of passes of its groups."""

    design: Design
    solved: SolvedDesign
    content: GroupContent
    law: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasible:
    """All feasible designs by rising group size, and why others are missing, one sentence each."""

    candidates: tuple[Candidate, ...]
    refused: tuple[str, ...]


def candidate_group_sizes(rollouts_in_a_step: float | None) -> tuple[int, ...]:
    """Powers of two, three and five times powers of two, and divisors of a step's rollouts, from 2 to 512."""
    sizes = {2**i for i in range(1, 10)} | {3 * 2**i for i in range(8)} | {5 * 2**i for i in range(7)}
    if rollouts_in_a_step is not None and rollouts_in_a_step == int(rollouts_in_a_step):
        sizes |= {g for g in range(MIN_GROUP_SIZE, MAX_GROUP_SIZE + 1) if int(rollouts_in_a_step) % g == 0}
    return tuple(sorted(sizes))


def feasible_designs(
    fit: PassRateFit,
    budget: Budget,
    cost: CostModel,
    group_sizes: Iterable[int] | None,
    rules: DesignRules | None,
    level: float,
    *,
    smallest: int = MIN_GROUP_SIZE,
) -> Feasible:
    """The largest design of each group size within the budget, rounded down to what the trainer accepts.

    Raises:
        InfeasiblePlanError: There is none; the message names the nearest that would do.
    """
    depends = cost.refill or cost.trained == "mixed"  # then the cost has limits of its own

    def content_of(size: int, law: Floats | None = None) -> GroupContent:
        if depends:
            return GroupContent.of(fit, size, level)
        return GroupContent.from_pmf(np.clip(fit.group_pmf(size) if law is None else law, 0.0, 1.0))

    if group_sizes is None:
        sizes = set(candidate_group_sizes(budget.rollouts_in_a_step))
        largest = largest_group_size(budget, cost, content_of, MAX_GROUP_SIZE)
        sizes |= {largest} if largest is not None else set()
        sizes = {g for g in sizes if g >= smallest}
        if not sizes:
            raise InfeasiblePlanError(
                f"No group of up to {MAX_GROUP_SIZE} rollouts will do: the estimator needs at least {smallest:,}. "
                "Give larger ones with --group-sizes."
            )
    else:
        if isinstance(group_sizes, str) or not isinstance(group_sizes, Iterable):
            raise DomainError(f"group_sizes must be a list of whole numbers; got {group_sizes!r}.")
        sizes = {as_count(g, "group_size", minimum=MIN_GROUP_SIZE, maximum=LARGEST_GROUP_SIZE) for g in group_sizes}
        if not sizes:
            raise DomainError("group_sizes must hold at least one group size; got none.")
    laws = fit.group_pmfs(sizes)
    found, refused, solved = [], [], {}
    for size in sorted(sizes):
        content = content_of(size, laws[size])
        solved[size] = solve_design(budget, cost, content)
        if solved[size].design is None:
            continue
        accepted, reason = _accepted(solved[size], budget, cost, content, rules)
        if reason:
            refused.append(reason)
        if accepted is not None and accepted.design is not None:
            found.append(Candidate(design=accepted.design, solved=accepted, content=content, law=laws[size]))
    if found:
        return Feasible(candidates=tuple(found), refused=tuple(refused))
    if refused:
        offer = _nearest(budget, rules, sorted(sizes)) if rules is not None else ""
        raise InfeasiblePlanError(f"{refused[0]}{offer}")
    cheapest = solved[min(solved)]
    raise InfeasiblePlanError(f"No design fits {binding_constraint(budget)}; {cheapest.advice}")


def _accepted(
    solved: SolvedDesign, budget: Budget, cost: CostModel, content: GroupContent, rules: DesignRules | None
) -> tuple[SolvedDesign | None, str]:
    """The design that the trainer accepts, or None and the reason."""
    design = solved.design
    if rules is None or design is None:
        return solved, ""
    size, multiple = design.group_size, rules.prompt_multiple(design.group_size)
    if multiple is None:
        return None, f"{rules.name} accepts no groups of {size} here."
    prompts = floor(design.prompts_per_step / multiple) * multiple
    if budget.prompts_per_step is None and budget.rollouts_per_step is None:
        even = (
            prompts // (EVEN * multiple) * EVEN * multiple
        )  # so that the rollouts of a GPU have divisors to choose from
        prompts = even if prompts - even <= EVEN_COST * prompts else prompts
    if budget.prompts_per_step is not None and prompts != design.prompts_per_step:
        wanted = f"G = {size} needs a multiple of {multiple:,} prompts a step; got {design.prompts_per_step:,}."
        return None, f"{rules.name}: {wanted}"
    if prompts == 0:
        most = f"the budget allows {design.prompts_per_step:,}."
        return None, f"{rules.name}: G = {size} needs a multiple of {multiple:,} prompts a step; {most}"
    if prompts != design.prompts_per_step:
        binding = solved.binding  # what one more step of the trainer's multiple would break
        solved = solve_design(replace(budget, prompts_per_step=prompts), cost, content)
        if solved.design is None:
            return None, f"{rules.name}: {solved.advice}"
        solved = replace(solved, binding=solved.binding or binding)
    failed = [check for check in rules.checks(solved.design or design) if not check.satisfied]
    if failed:
        return None, f"{rules.name}: G = {size} breaks {failed[0].rule} ({failed[0].detail})."
    return solved, ""


def _nearest(budget: Budget, rules: DesignRules, sizes: list[int]) -> str:
    """The nearest designs that the trainer accepts, as an offer."""
    size = sizes[0]
    wanted, offers = budget.prompts_per_step, []
    if wanted is None and budget.rollouts_in_a_step is not None:
        wanted = int(budget.rollouts_in_a_step / size)
    multiple = rules.prompt_multiple(size)
    if multiple is not None and wanted is not None:
        near = sorted({max(multiple, wanted // multiple * multiple), (wanted // multiple + 1) * multiple})
        offers.append(f"G = {size} with {' or '.join(f'{n:,}' for n in near)} prompts a step")
    if wanted is not None:
        others = sorted(range(MIN_GROUP_SIZE, MAX_GROUP_SIZE + 1), key=lambda g: (abs(g - size), g))
        for other in others:
            step = rules.prompt_multiple(other)
            if other != size and step is not None and wanted % step == 0 and wanted:
                offers.append(f"G = {other} with {wanted:,} prompts a step")
                break
    return f" Nearest that it accepts: {', or '.join(offers)}." if offers else ""


def per_cost(budget: Budget) -> bool:
    """Whether nothing limits the run or a step, so that designs are compared per unit of cost."""
    return not budget.totals and budget.rollouts_per_step is None


def comparable_groups(candidate: Candidate, budget: Budget, cost: CostModel) -> float:
    """Groups that a design samples within the budget; per unit of cost where no total limits it.

    With refill they are the groups drawn, dead ones included: the dead add nothing, so both counts make one progress.
    """
    design = candidate.design
    groups = candidate.solved.cost.groups
    if not budget.totals:
        spent = candidate.solved.cost
        unit = next((u for u in ("usd", "gpu_hours", "tokens") if spent.of(u) is not None), "rollouts")
        amount = spent.of(unit)
        fixed = 1.0 if per_cost(budget) else design.rollouts_per_step
        groups *= fixed / amount if amount else 1.0
    return groups


def fixed_cost(budget: Budget, cost: CostModel, mean_pass_rate: float) -> float:
    """What a prompt costs whatever G, in rollouts, in the unit that limits the run: c0 of theory.md, eq. 27.

    >>> fixed_cost(Budget(rollouts=1000, steps=10), CostModel(prompt_rollouts=2.0), 0.5)
    2.0
    """
    plain = replace(cost, refill=False, trained="all")

    def each(size: int) -> float | None:
        passes = size * mean_pass_rate
        content = GroupContent(group_size=size, passes=passes, mixed_fraction=1.0, mixed_passes=passes)
        spent = plain.prompt(content)
        units = [*budget.totals, "usd", "gpu_hours", "tokens"] if not budget.totals else list(budget.totals)
        return next((value for unit in units if (value := spent.of(unit)) is not None), spent.of("rollouts"))

    two, four = each(2), each(4)
    if two is None or four is None or four <= two:
        return cost.prompt_rollouts
    return max(0.0, 2.0 * two / (four - two) - 2.0)


def dead_fractions(fit: PassRateFit, sizes: list[int], level: float) -> list[DeadFraction]:
    """D(G) at each size; of very many sizes the limits are interpolated between exact ones (theory.md, eq. 72)."""
    if len(sizes) <= MANY_SIZES:
        return [fit.dead(size, level) for size in sizes]
    curve = LimitsCurve.of(fit, max(sizes))
    return [curve.dead(size, level) for size in sizes]


def batch_of(fit: PassRateFit, candidate: Candidate, dead: DeadFraction, refill: bool) -> EffectiveBatch:
    """Mixed groups of a step: binomial, or exactly as many as wanted where dead groups are refilled."""
    design = candidate.design
    if not refill:
        batch = effective_batch(
            fit, prompts_per_step=design.prompts_per_step, group_size=design.group_size, level=dead.level
        )
        return replace(batch, dead=dead)
    n = float(design.prompts_per_step)
    full = CountSummary(mean=n, sd=0.0, p05=n, p50=n, p95=n)
    return EffectiveBatch(
        prompts_per_step=design.prompts_per_step,
        group_size=design.group_size,
        dead_fraction=0.0,
        mixed_groups=full,
        live_rollouts=full.times(design.group_size),
        dead_batch_probability=0.0,
        dead=None,
        _counts=np.array([design.prompts_per_step]),
        _weights=np.ones(1),
    )
