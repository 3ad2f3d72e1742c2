"""What a plan holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from grpo_plan.batches import EffectiveBatch
from grpo_plan.costs import Design
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.signal import KappaRange


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedDesign:
    """One design of the frontier and what is expected of it.

    Attributes:
        design: Group size, prompts per step, steps.
        cost_rollouts: Cost of the run (of a step if steps are unknown) in rollouts, fixed prompt costs included.
        dead: Dead fraction at this group size.
        batch: Mixed groups per step.
        progress_low: Progress relative to the best design at the low end of kappa, in [0, 1].
        progress_high: The same at the high end.
        worst_regret: Largest shortfall from the best design over the whole range of kappa, in [0, 1].
        noise_to_signal: Variance of a step's gradient over its squared mean at the low and the high end of kappa
            (theory.md, eq. 26); None unless the coherence was given.
    """

    design: Design
    cost_rollouts: float
    dead: DeadFraction
    batch: EffectiveBatch = field(repr=False)
    progress_low: float
    progress_high: float
    worst_regret: float
    noise_to_signal: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KappaAnswer:
    """Best group size at one kappa, and every group size within 10 % of it.

    ``two_stage`` is the closed form of theory.md, eq. 27 (mean-centred advantages), a check on the exact search;
    None where the pilot has under 4 rollouts a prompt.
    """

    kappa: float
    group_size: int
    flat_low: int
    flat_high: int
    two_stage: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """What another objective picks; ``planned`` is None when no design of the frontier satisfies it."""

    objective: str
    planned: PlannedDesign | None
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """A recommended design, the frontier it was chosen from, and what the choice rests on.

    Attributes:
        objective: Name of the objective that chose ``recommended``.
        recommended: The chosen design.
        least_regret: The design of least worst regret; ``recommended`` may be a rounder one within 1 point of it.
        frontier: Every feasible design, by rising group size.
        alternatives: What the other objectives pick.
        flat_range: Group sizes about as good as the best (theory.md, eq. 28): within 10 % of it at a given kappa; over
            a range of kappa, with a worst regret at most 10 points above the least possible.
        sensitivity: The answer at the ends and the middle of the kappa range.
        kappa: The range planned for.
        estimator: Advantage estimator planned for.
        binding_constraint: What limits every design.
        assumptions: What the plan takes for granted, gravest first.
        fit: The fit that was planned on.
    """

    objective: str
    recommended: PlannedDesign
    least_regret: PlannedDesign
    frontier: tuple[PlannedDesign, ...] = field(repr=False)
    alternatives: tuple[Alternative, ...]
    flat_range: tuple[int, int]
    sensitivity: tuple[KappaAnswer, ...]
    kappa: KappaRange
    estimator: str
    binding_constraint: str
    assumptions: tuple[str, ...]
    fit: PassRateFit = field(repr=False)
