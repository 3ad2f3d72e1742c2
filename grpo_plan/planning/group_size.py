"""Group size under a budget: one frontier of designs, and what each objective picks on it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from grpo_plan._suggest import not_one_of
from grpo_plan._validate import as_level, require
from grpo_plan.costs import Budget, CostModel, binding_constraint
from grpo_plan.errors import DomainError, InfeasiblePlanError
from grpo_plan.estimators import Estimator, GroupMoments, get_estimator
from grpo_plan.fitting.one_law import laws_of_one
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.assumptions import assumptions
from grpo_plan.planning.frontier import (
    batch_of,
    comparable_groups,
    dead_fractions,
    feasible_designs,
    fixed_cost,
    per_cost,
)
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.objectives import (
    OBJECTIVES,
    Limitings,
    flat_range,
    hard_coverage,
    pick,
    rare_mode_miss,
)
from grpo_plan.planning.plan import KappaAnswer, NoiseToSignal, Plan, PlannedDesign
from grpo_plan.planning.planned_kappa import planned_kappa
from grpo_plan.planning.signal import (
    DEFAULT_KAPPA,
    FLAT_SHARE,
    KappaRange,
    as_coherence,
    group_moments,
    progress,
    two_stage_group_size,
)
from grpo_plan.rules import DesignRules

Floats = NDArray[np.float64]


def plan_group_size(
    fit: PassRateFit,
    *,
    budget: Budget,
    objective: str = "signal",
    estimator: str = "grpo",
    kappa: KappaMeasurement | KappaRange | tuple[float, float] | float = DEFAULT_KAPPA,
    max_dead: float = 0.4,
    group_sizes: Iterable[int] | None = None,
    cost: CostModel | None = None,
    coherence: float = 0.0,
    level: float = 0.95,
    rules: DesignRules | None = None,
    hard_below: float = 0.25,
    min_coverage: float = 0.5,
    rare_share: float = 0.1,
) -> Plan:
    """Choose the group size, and with it what the budget leaves open: prompts per step, steps, or the cost.

    Args:
        fit: Fitted pass rates of the current policy.
        budget: What is fixed.
        objective: ``"signal"``: least worst-case regret of progress per cost over the kappa range; the smallest size
            that is about as good, where it is within 10 % of the best at every kappa (theory.md, eq. 28).
            ``"max-dead"``: smallest group size whose dead fraction is at most ``max_dead``.
            ``"mixed-groups"``: most mixed groups per cost. ``"coverage"``: smallest group size at which a hard prompt
            shows a pass. ``"rare-mode"``: fewest mixed groups that miss a rare kind of right answer.
        estimator: A name of `grpo_plan.estimators.ESTIMATORS`, settings behind a colon, e.g. ``"passk:4"``.
        kappa: Score noise over contrast: what `measure_kappa` or a probe found, a value, or a range.
        max_dead: Limit of the ``max-dead`` objective, in [0, 1].
        group_sizes: Candidates; default 2 to 512: powers of two, three and five times powers of two, the divisors of
            the rollouts of a step, and the largest that fits when steps and prompts per step are both fixed.
        cost: Cost of a group, and whether dead groups are refilled; default G rollouts, no refill.
        coherence: Mean cosine between the gradients of two prompts; 0 unless measured.
        level: Confidence level of the limits.
        rules: What the trainer accepts; prompts per step are rounded down to it. See `rules_for`.
        hard_below: Pass rate under which ``coverage`` calls a prompt hard.
        min_coverage: Chance of a pass that ``coverage`` asks for.
        rare_share: Share of the right answers that ``rare-mode`` takes a rare mode to be.

    Raises:
        DomainError: An unknown name or a number outside its domain.
        InfeasiblePlanError: No design fits the budget and the trainer, none satisfies the objective, or every group
            would be dead.
        PilotError: The pilot does not determine groups of this size.

    >>> from grpo_plan.fitting import fit_pass_rates
    >>> from grpo_plan.pilot import Pilot
    >>> fit = fit_pass_rates(Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4))
    >>> plan = plan_group_size(fit, budget=Budget(rollouts=100_000, steps=100), kappa=2.0, group_sizes=[2, 4, 8])
    >>> plan.recommended.design.group_size, plan.recommended.design.prompts_per_step
    (4, 250)
    """
    require(fit, PassRateFit, "fit", "Fit a pilot first: fit_pass_rates(read_pilot(...)).")
    require(budget, Budget, "budget", "Give Budget(rollouts=..., steps=...) or the like.")
    if cost is not None:
        require(cost, CostModel, "cost", "Give CostModel(...), or leave it out.")
    if rules is not None and not hasattr(rules, "prompt_multiple"):
        raise DomainError(
            f"rules must be a trainer's rules; got {type(rules).__name__}. Use rules_for(trainer, hardware)."
        )
    if objective not in OBJECTIVES:
        raise DomainError(not_one_of("objective", objective, OBJECTIVES))
    limits = Limitings(max_dead=max_dead, hard_below=hard_below, min_coverage=min_coverage, rare_share=rare_share)
    measurement = kappa if isinstance(kappa, KappaMeasurement) else None
    kappas, rho, share = planned_kappa(kappa, fit), as_coherence(coherence), as_level(level)
    advantage, cost = get_estimator(estimator), cost or CostModel()
    _refuse_hopeless(fit)
    feasible = feasible_designs(fit, budget, cost, group_sizes, rules, share, smallest=advantage.min_group_size)
    candidates = feasible.candidates
    sizes = [c.design.group_size for c in candidates]
    moments = group_moments(fit, sizes, advantage)
    noisier = [1.0] * len(sizes) if measurement is None else noise_over_probed(fit, sizes, advantage, kappas.middle)
    groups = np.array([comparable_groups(c, budget, cost) for c in candidates])
    table = progress(moments, groups, kappas.grid(), rho)
    if not table.any():
        raise InfeasiblePlanError(
            "No group size can be planned: every group would be dead. "
            f"{FitStatus.ALL_DEAD.sentence} Use other prompts, or more rollouts per prompt."
        )
    ends = progress(moments, groups, kappas.shown(), rho)
    dead = dead_fractions(fit, sizes, share)
    mixed = groups * np.array([c.content.mixed_fraction for c in candidates])
    frontier = tuple(
        PlannedDesign(
            design=c.design,
            cost=c.solved.cost,
            cost_low=c.solved.cost_low,
            cost_high=c.solved.cost_high,
            binding=c.solved.binding,
            dead=dead[i],
            batch=batch_of(fit, c, dead[i], cost.refill),
            progress_low=float(ends[i, 0]),
            progress_high=float(ends[i, -1]),
            worst_regret=float(1.0 - table[i].min()),
            noise_to_signal=_noise_to_signal(
                measurement,
                sizes[i],
                moments[i],
                noisier[i],
                c.solved.cost.groups / (c.design.steps or 1),
                kappas,
                rho,
            ),
            mixed_groups_per_cost=float(mixed[i] / mixed.max()) if mixed.max() > 0.0 else 0.0,
            coverage=hard_coverage(fit, c.design.group_size, limits.hard_below),
            rare_mode_miss=rare_mode_miss(c.law, limits.rare_share),
            checks=() if rules is None else rules.checks(c.design),
        )
        for i, c in enumerate(candidates)
    )
    prompt_cost = fixed_cost(budget, cost, fit.mean_pass_rate)
    picks = {
        name: pick(
            name,
            frontier,
            limits=limits,
            kappas=kappas,
            table=table,
            prompt_cost=prompt_cost,
            limited=not per_cost(budget),
        )
        for name in OBJECTIVES
    }
    chosen = picks.pop(objective)
    if chosen.planned is None:
        raise InfeasiblePlanError(chosen.comment)
    return Plan(
        objective=objective,
        recommended=chosen.planned,
        pick=chosen,
        least_regret=min(frontier, key=lambda p: p.worst_regret),
        frontier=frontier,
        alternatives=tuple(picks.values()),
        flat_range=flat_range(frontier),
        sensitivity=_sensitivity(fit, sizes, ends, kappas, prompt_cost, rho),
        kappa=kappas,
        estimator=advantage.label,
        coherence=rho,
        cost_model=cost,
        binding_constraint=binding_constraint(budget),
        per_cost=per_cost(budget),
        refused=feasible.refused,
        assumptions=assumptions(fit, kappas, chosen.planned, rho, cost, measurement),
        trainer=None if rules is None else rules.name,
        fit=fit,
        _groups=tuple(float(g) for g in groups),
        _shares=tuple(tuple(float(share) for share in row) for row in ends),
    )


def _refuse_hopeless(fit: PassRateFit) -> None:
    for status in (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD):
        if status in fit.statuses:
            d = fit.dead(max(2, fit.max_measured_group_size))
            shown = f" D({d.group_size}) is at least {d.low:.3f} (95 %)."
            raise InfeasiblePlanError(
                f"No group size can be planned: no prompt of the pilot is mixed.{shown} {status.sentence} "
                "Pilot other prompts, or give each prompt more rollouts."
            )


def noise_over_probed(fit: PassRateFit, sizes: list[int], advantage: Estimator, kappa: float) -> list[float]:
    """Noise to signal of an estimator over that of RLOO, whose gradients a probe measures (theory.md, eq. 25)."""
    probed = get_estimator("rloo")
    ratios = []
    for size in sizes:  # each ratio by one law
        laws = laws_of_one(fit, {advantage.law_size(size), probed.law_size(size)})
        own, theirs = (e.moments(laws.__getitem__, size) for e in (advantage, probed))
        noise, least = (
            float(m.variance(np.array(kappa), 0.0)) * o.signal**2 for m, o in ((own, theirs), (theirs, own))
        )
        ratios.append(noise / least if least > 0.0 else 1.0)
    return ratios


def _noise_to_signal(
    measurement: KappaMeasurement | None,
    group_size: int,
    moments: GroupMoments,
    noisier: float,
    groups: float,
    kappas: KappaRange,
    coherence: float,
) -> NoiseToSignal | None:
    """Of a step: as measured, or from the coherence and the range of kappa (theory.md, eq. 26 and 51).

    A probe measures RLOO gradients; those of another estimator have ``noisier`` times their noise to signal.
    """
    if measurement is not None:
        found = measurement.noise_to_signal(max(1, round(groups)), group_size)
        if found is not None and moments.signal > 0.0:
            value, high = (None if x is None else noisier * x for x in (found.value, found.high))
            return NoiseToSignal(value=value, low=noisier * found.low, high=high)
    if coherence == 0.0 or moments.signal == 0.0:
        return None
    with np.errstate(over="ignore", divide="ignore"):
        ends = moments.variance(np.array([kappas.low, kappas.value or kappas.low, kappas.high]), coherence) / (
            groups * coherence * moments.signal**2
        )
    low, value, high = (float(end) if np.isfinite(end) else None for end in ends)
    if low is None:
        return None
    return NoiseToSignal(value=value if kappas.known else None, low=low, high=high)


def _sensitivity(
    fit: PassRateFit, sizes: list[int], shares: Floats, kappas: KappaRange, prompt_cost: float, coherence: float
) -> tuple[KappaAnswer, ...]:
    answers = []
    for column, kappa in enumerate(kappas.shown()):
        share = shares[:, column]
        flat = [size for size, s in zip(sizes, share, strict=True) if s >= FLAT_SHARE]
        closed = two_stage_group_size(fit, float(kappa), prompt_rollouts=prompt_cost, coherence=coherence)
        answers.append(
            KappaAnswer(
                kappa=float(kappa),
                group_size=sizes[int(np.argmax(share))],
                flat_low=min(flat),
                flat_high=max(flat),
                two_stage=closed,
            )
        )
    return tuple(answers)
