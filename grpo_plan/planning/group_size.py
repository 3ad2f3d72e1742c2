"""Group size under a budget: one frontier of designs, and what each objective picks on it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from grpo_plan._validate import as_count, as_probability, require
from grpo_plan.advantages import get_estimator
from grpo_plan.batches import effective_batch
from grpo_plan.costs import Budget, CostModel, Design, binding_constraint, design_for
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Alternative, KappaAnswer, Plan, PlannedDesign
from grpo_plan.planning.signal import (
    DEFAULT_KAPPA,
    FLAT_SHARE,
    GroupMoments,
    KappaRange,
    as_coherence,
    as_kappa_range,
    group_moments,
    progress,
    two_stage_group_size,
)

Floats = NDArray[np.float64]
OBJECTIVES = ("signal", "max-dead")
MIN_GROUP_SIZE, MAX_GROUP_SIZE = 2, 512
ROUND_NUMBER_TOLERANCE = 0.01
DEFAULT_DEAD_LIMIT = 0.4


def plan_group_size(
    fit: PassRateFit,
    *,
    budget: Budget,
    objective: str = "signal",
    estimator: str = "grpo",
    kappa: KappaRange | tuple[float, float] | float = DEFAULT_KAPPA,
    max_dead: float = DEFAULT_DEAD_LIMIT,
    group_sizes: Iterable[int] | None = None,
    cost: CostModel | None = None,
    coherence: float = 0.0,
    level: float = 0.95,
) -> Plan:
    """Choose the group size, and with it the prompts per step, under a budget.

    Args:
        fit: Fitted pass rates of the current policy.
        budget: What is fixed.
        objective: ``"signal"``: least worst-case regret of progress per rollout over the kappa range.
            ``"max-dead"``: smallest group size whose dead fraction is at most ``max_dead``.
        estimator: ``"grpo"``, ``"dr_grpo"`` or ``"rloo"``.
        kappa: Score noise over contrast: a measured value, or a range.
        max_dead: Limit of the ``max-dead`` objective, in [0, 1].
        group_sizes: Candidates; default 2 to 512: powers of two, three times powers of two, the divisors of the
            rollouts of a step, and the largest that fits when steps and prompts per step are both fixed.
        cost: Cost of a group; default G rollouts.
        coherence: Mean cosine between the gradients of two prompts; 0 unless measured.
        level: Confidence level of the dead fractions.

    Raises:
        DomainError: An unknown name or a number outside its domain.
        InfeasiblePlanError: No design fits the budget, none satisfies ``max-dead``, or every group would be dead.
        PilotError: The pilot does not determine groups of this size.
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    require(budget, Budget, "budget", "Give Budget(rollouts=..., steps=...) or the like.")
    if objective not in OBJECTIVES:
        raise DomainError(f"objective must be one of {', '.join(OBJECTIVES)}; got {objective!r}.")
    limit = float(as_probability(max_dead, "max_dead"))
    kappas = as_kappa_range(kappa)
    advantage = get_estimator(estimator)
    cost = cost or CostModel()
    designs = _feasible(budget, cost, group_sizes)
    _refuse_hopeless(fit)
    moments = [group_moments(fit, d.group_size, advantage) for d in designs]
    rho = as_coherence(coherence)
    groups = np.array([_comparable_groups(d, budget, cost) for d in designs])
    table = progress(moments, groups, kappas.grid(), rho)
    if not table.any():
        raise InfeasiblePlanError(
            "No group size can be planned: every group would be dead. "
            f"{FitStatus.ALL_DEAD.sentence} Use other prompts, or more rollouts per prompt."
        )
    frontier = tuple(
        _planned(fit, d, cost, table[i], level, _noise_to_signal(moments[i], d.prompts_per_step, kappas, coherence))
        for i, d in enumerate(designs)
    )
    by_signal = _least_regret(frontier)
    by_dead, comment = _first_below(frontier, limit)
    if objective == "signal":
        chosen, other = by_signal, Alternative(objective="max-dead", planned=by_dead, comment=comment)
    elif by_dead is None:
        raise InfeasiblePlanError(comment)
    else:
        words = "Least worst-case regret over the kappa range."
        chosen, other = by_dead, Alternative(objective="signal", planned=by_signal, comment=words)
    return Plan(
        objective=objective,
        recommended=chosen,
        least_regret=min(frontier, key=lambda p: p.worst_regret),
        frontier=frontier,
        alternatives=(other,),
        flat_range=_flat_range(frontier),
        sensitivity=_sensitivity(fit, frontier, table, kappas, cost, coherence),
        kappa=kappas,
        estimator=estimator,
        binding_constraint=binding_constraint(budget),
        assumptions=_assumptions(fit, kappas, chosen, coherence, cost),
        fit=fit,
    )


def _comparable_groups(design: Design, budget: Budget, cost: CostModel) -> float:
    """Groups that a design buys: of the run, or of a step; per unit of cost where no total limits the prompt costs."""
    groups = float(design.prompts_per_step * (design.steps or 1))
    if budget.rollouts is None:
        groups *= design.group_size / cost.group(design.group_size)
    return groups


def candidate_group_sizes(rollouts_in_a_step: float | None) -> tuple[int, ...]:
    """Powers of two, three times powers of two, and divisors of a step's rollouts, from 2 to 512."""
    sizes = {2**i for i in range(1, 10)} | {3 * 2**i for i in range(8)}
    if rollouts_in_a_step is not None and rollouts_in_a_step == int(rollouts_in_a_step):
        sizes |= {g for g in range(MIN_GROUP_SIZE, MAX_GROUP_SIZE + 1) if int(rollouts_in_a_step) % g == 0}
    return tuple(sorted(sizes))


def _feasible(budget: Budget, cost: CostModel, group_sizes: Iterable[int] | None) -> list[Design]:
    if group_sizes is None:
        candidates = tuple(
            sorted({*candidate_group_sizes(budget.rollouts_in_a_step), *_largest_that_fits(budget, cost)})
        )
    else:
        candidates = tuple(sorted({as_count(g, "group_size", minimum=MIN_GROUP_SIZE) for g in group_sizes}))
        if not candidates:
            raise DomainError("group_sizes must hold at least one group size; got none.")
    designs = [d for g in candidates if (d := design_for(g, budget, cost)) is not None]
    if not designs:
        smallest = candidates[0]
        need = cost.group(smallest) * (budget.prompts_per_step or 1) * (budget.steps or 1)
        raise InfeasiblePlanError(
            f"No design fits {binding_constraint(budget)}; the smallest, {budget.prompts_per_step or 1:,} prompts x "
            f"{smallest} rollouts a step, needs {need:,.0f} rollouts. Raise the budget, or cut steps or prompts a step."
        )
    return designs


def _largest_that_fits(budget: Budget, cost: CostModel) -> set[int]:
    """Where prompts per step and the cost of a step are fixed, the group size that uses all of it."""
    step = budget.rollouts_in_a_step
    if budget.prompts_per_step is None or step is None:
        return set()
    fixed = cost.prompt_rollouts if budget.rollouts_per_step is None else 0.0
    largest = int(step / budget.prompts_per_step - fixed)
    return {largest} if MIN_GROUP_SIZE <= largest <= MAX_GROUP_SIZE else set()


def _refuse_hopeless(fit: PassRateFit) -> None:
    for status in (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD):
        if status in fit.statuses:
            d = fit.dead(max(2, fit.max_measured_group_size))
            shown = f" D({d.group_size}) is at least {d.low:.3f} (95 %)."
            raise InfeasiblePlanError(
                f"No group size can be planned: no prompt of the pilot is mixed.{shown} {status.sentence} "
                "Pilot other prompts, or give each prompt more rollouts."
            )


def _planned(
    fit: PassRateFit,
    design: Design,
    cost: CostModel,
    row: Floats,
    level: float,
    noise_to_signal: tuple[float, float] | None,
) -> PlannedDesign:
    batch = effective_batch(fit, prompts_per_step=design.prompts_per_step, group_size=design.group_size, level=level)
    return PlannedDesign(
        design=design,
        cost_rollouts=cost.group(design.group_size) * design.prompts_per_step * (design.steps or 1),
        dead=batch.dead or fit.dead(design.group_size, level),
        batch=batch,
        progress_low=float(row[0]),
        progress_high=float(row[-1]),
        worst_regret=float(1.0 - row.min()),
        noise_to_signal=noise_to_signal,
    )


def _noise_to_signal(
    moments: GroupMoments, groups: int, kappas: KappaRange, coherence: float
) -> tuple[float, float] | None:
    if coherence == 0.0 or moments.signal == 0.0:
        return None
    variance = moments.variance(np.array([kappas.low, kappas.high]), coherence)
    with np.errstate(over="ignore", divide="ignore"):
        low, high = variance / (groups * coherence * moments.signal**2)
    return (float(low), float(high)) if np.isfinite(high) else None


def _least_regret(frontier: tuple[PlannedDesign, ...]) -> PlannedDesign:
    """Least worst regret; among designs within 1 point of it, the roundest group size (power of two first)."""
    least = min(p.worst_regret for p in frontier)
    close = [p for p in frontier if p.worst_regret <= least + ROUND_NUMBER_TOLERANCE]
    return max(close, key=lambda p: (_roundness(p.design.group_size), -p.worst_regret))


def _roundness(group_size: int) -> int:
    if group_size & (group_size - 1) == 0:
        return 2
    return 1 if group_size % 4 == 0 else 0


def _first_below(frontier: tuple[PlannedDesign, ...], limit: float) -> tuple[PlannedDesign | None, str]:
    before = ""
    for planned in frontier:
        d = planned.dead
        if d.value is None:
            continue
        if d.value <= limit:
            doubt = "" if d.high <= limit else f" The pilot does not make sure of it (up to {d.high:.3f})."
            return planned, (
                f"Smallest of these group sizes with D(G) <= {limit:g}{before}.{doubt} A low dead fraction is not a "
                "goal in itself: in measured training of a small model the first G below 0.4 learned less than half as "
                "much per rollout (docs/choosing.md, section 4)."
            )
        before = f" (D({d.group_size}) is {d.value:.4f})"
    last = frontier[-1].dead
    reached = "unknown" if last.value is None else f"{last.value:.3f}"
    return None, (
        f"No feasible group size has D(G) <= {limit:g}; D({last.group_size}) is {reached}. "
        "Raise the limit or the budget, or pick prompts of middle difficulty."
    )


def _flat_range(frontier: tuple[PlannedDesign, ...]) -> tuple[int, int]:
    least = min(p.worst_regret for p in frontier)
    close = [p.design.group_size for p in frontier if p.worst_regret <= least + (1.0 - FLAT_SHARE)]
    return min(close), max(close)


def _sensitivity(
    fit: PassRateFit,
    frontier: tuple[PlannedDesign, ...],
    table: Floats,
    kappas: KappaRange,
    cost: CostModel,
    coherence: float,
) -> tuple[KappaAnswer, ...]:
    grid = kappas.grid()
    columns = [0] if grid.size == 1 else [0, grid.size // 2, grid.size - 1]
    answers = []
    for column in columns:
        share = table[:, column]
        flat = [p.design.group_size for p, s in zip(frontier, share, strict=True) if s >= FLAT_SHARE]
        best = frontier[int(np.argmax(share))].design.group_size
        kappa = float(grid[column])
        closed = two_stage_group_size(fit, kappa, prompt_rollouts=cost.prompt_rollouts, coherence=coherence)
        answers.append(
            KappaAnswer(kappa=kappa, group_size=best, flat_low=min(flat), flat_high=max(flat), two_stage=closed)
        )
    return tuple(answers)


def _assumptions(
    fit: PassRateFit, kappas: KappaRange, chosen: PlannedDesign, coherence: float, cost: CostModel
) -> tuple[str, ...]:
    notes = []
    if not kappas.measured:
        notes.append(
            f"kappa, taken between {kappas.low:g} and {kappas.high:g}. To measure it, compare the mean squared norm of "
            "single-group gradients at two group sizes (docs/choosing.md, section 3)."
        )
    if chosen.dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        notes.append(
            f"D({chosen.dead.group_size}) lies far beyond the pilot's {fit.max_measured_group_size} rollouts per "
            "prompt: trust its interval, not its value."
        )
    for status in fit.statuses:
        if status is not FitStatus.OK:
            notes.append(status.sentence)
    notes.append(
        "The upper end of the flat range is optimistic: in measured training of a small model large G did worse than "
        "predicted."
    )
    notes.append("The plan is for the current policy: pass rates move, so pilot again every 100 steps or so.")
    notes.append(
        "Prompts of a step are drawn at random from the pilot's population; rollouts of a prompt are independent."
    )
    notes.append(
        "Steps are noise-dominated: more steps and more prompts a step count alike, and gradients of different "
        + (f"prompts have cosine {coherence:g}." if coherence else "prompts are unaligned.")
    )
    if cost.prompt_rollouts:
        notes.append(f"A prompt costs {cost.prompt_rollouts:g} rollouts before its first rollout.")
    return tuple(notes)
