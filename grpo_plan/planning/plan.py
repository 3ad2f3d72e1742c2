"""What a plan holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from grpo_plan._shown import Shown
from grpo_plan.batches import EffectiveBatch
from grpo_plan.costs import Cost, CostModel, Design
from grpo_plan.estimators import Estimator, parse_estimator
from grpo_plan.fitting.estimates import DeadFraction, Limits
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.live import ByKind, Ranged, live_rollouts
from grpo_plan.planning.precision import TableLimits
from grpo_plan.planning.signal import KappaRange
from grpo_plan.rules import RuleCheck

FAR_BELOW = 0.5  # of the best's progress: not taken for as good


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseToSignal:
    """Variance of a step's gradient over its squared mean, x: progress is near ``1 / (1 + x)`` (theory.md, eq. 26).

    Attributes:
        value: As measured; None where kappa is only a range, or where it cannot be told.
        low: Low end: of the confidence limits, or at the low end of kappa.
        high: High end; None where there is no upper limit.
    """

    value: float | None
    low: float
    high: float | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PlannedDesign(Shown):
    """One design of the frontier and what is expected of it.

    Attributes:
        design: Group size, prompts per step, steps.
        cost: What the run uses (a step, if steps are unknown), in every unit that is known.
        cost_low: The same at the lower limit of the dead fraction; None where the cost does not depend on it.
        cost_high: At the upper limit; None too where a refill might never end.
        binding: Limits of the budget that one more prompt a step, or one more step, would break.
        dead: Dead fraction at this group size.
        batch: Mixed groups per step.
        progress_low: Progress relative to the best design at the low end of kappa, in [0, 1].
        progress_high: The same at the high end.
        worst_regret: Largest shortfall from the best design over the whole range of kappa (at the measured kappa, if
            there is one), in [0, 1].
        noise_to_signal: Variance of a step's gradient over its squared mean (theory.md, eq. 26 and 51); None, unknown,
            unless a probe measured it or the coherence was given.
        mixed_groups_per_cost: Expected mixed groups per unit of cost, relative to the best design, in [0, 1].
        coverage: Chance that a group of a hard prompt holds a pass; None where the pilot cannot tell.
        rare_mode_miss: Share of groups that are mixed but show no answer of a rare mode.
        checks: The trainer's rules on this design; empty without a trainer.
    """

    design: Design
    cost: Cost = field(repr=False)
    cost_low: Cost | None = field(repr=False)
    cost_high: Cost | None = field(repr=False)
    binding: tuple[str, ...]
    dead: DeadFraction
    batch: EffectiveBatch = field(repr=False)
    progress_low: float
    progress_high: float
    worst_regret: float
    noise_to_signal: NoiseToSignal | None
    mixed_groups_per_cost: float
    coverage: float | None
    rare_mode_miss: float
    checks: tuple[RuleCheck, ...] = field(default=(), repr=False)

    @property
    def cost_rollouts(self) -> float:
        """Cost of the run (of a step if steps are unknown) in rollouts, fixed prompt costs included."""
        return self.cost.rollout_equivalents


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
    """What one objective picks.

    Attributes:
        objective: Its name.
        planned: The design that it picks; None when no design of the frontier satisfies it.
        comment: Why this one, and what to think of it.
        flat_range: Group sizes that it holds about as good; None where it has no such thing.
        runner_up: Group size that it would pick next; None if there is no other.
        would_change: What would change its pick.
    """

    objective: str
    planned: PlannedDesign | None
    comment: str
    flat_range: tuple[int, int] | None = None
    runner_up: int | None = None
    would_change: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plan(Shown):
    """A recommended design, the frontier it was chosen from, and what the choice rests on.

    Attributes:
        objective: Name of the objective that chose ``recommended``.
        recommended: The chosen design.
        pick: How the objective came to it.
        least_regret: The design of least worst regret; ``recommended`` may be a rounder one within 1 point of it.
        frontier: Every feasible design, by rising group size.
        alternatives: What the other objectives pick.
        flat_range: Group sizes about as good as the best (theory.md, eq. 28): within 10 % of it at a given kappa; over
            a range of kappa, with a worst regret at most 10 points above the least possible.
        sensitivity: The answer at the ends and the middle of the kappa range, or at a measured kappa and its limits.
        kappa: The range planned for.
        estimator: Advantage estimator planned for.
        coherence: Mean cosine between the gradients of two prompts that was planned with.
        cost_model: What groups cost.
        binding_constraint: What limits every design.
        per_cost: Whether progress is per unit of cost, as nothing limits the run or a step; else it is the design's.
        refused: Group sizes that the trainer's rules leave out, with the reason.
        assumptions: What the plan takes for granted, gravest first.
        trainer: Whose rules the designs obey; None without a trainer.
        fit: The fit that was planned on.
    """

    objective: str
    recommended: PlannedDesign
    pick: Alternative = field(repr=False)
    least_regret: PlannedDesign = field(repr=False)
    frontier: tuple[PlannedDesign, ...] = field(repr=False)
    alternatives: tuple[Alternative, ...] = field(repr=False)
    flat_range: tuple[int, int]
    sensitivity: tuple[KappaAnswer, ...]
    kappa: KappaRange
    estimator: str
    coherence: float
    cost_model: CostModel = field(repr=False)
    binding_constraint: str
    per_cost: bool
    refused: tuple[str, ...] = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    trainer: str | None
    fit: PassRateFit = field(repr=False)
    _groups: tuple[float, ...] = field(repr=False)
    _shares: tuple[tuple[float, ...], ...] = field(repr=False)

    @property
    def level(self) -> float:
        """Confidence level of the limits."""
        return self.recommended.dead.level

    def progress_limits(self, planned: PlannedDesign, kappa: float) -> Limits:
        """Confidence limits of a design's progress relative to the best design at ``kappa`` (theory.md, eq. 71).

        ``(1, 1)`` for the best itself.
        """
        key = self._index[planned.design.group_size], float(kappa)
        if key not in self._limits:
            self._limits[key] = self._table.at(*key)
        return self._limits[key]

    @property
    def advantage(self) -> Estimator:
        """The estimator planned for, in a batch of the pilot's mean pass rate."""
        return parse_estimator(self.estimator).for_mean(self.fit.mean_pass_rate)

    def live(self, planned: PlannedDesign) -> tuple[Ranged, ByKind] | None:
        """Share of a step's rollouts that the estimator gives a non-zero advantage, and its parts by kind of group.

        By theory.md, eq. 117. None with a refill: only mixed groups are trained on then.
        """
        if self.cost_model.refill:
            return None
        return live_rollouts(self.fit, self.advantage, planned.design.group_size, self.level)

    def pushes(self, group_size: int) -> tuple[float, float]:
        """Advantage of each rollout of an all-fail and of an all-pass group; 0 where such a group is silent."""
        passed, failed = self.advantage.pair(group_size)
        return float(failed[0]), float(passed[-1])

    def groups_of(self, planned: PlannedDesign) -> float:
        """Groups of a design that are compared: of the run, of a step, or per unit of cost."""
        return self._groups[self._index[planned.design.group_size]]

    def progress_at(self, planned: PlannedDesign, kappa: float) -> float:
        """A design's progress relative to the best design, in [0, 1], at a kappa of ``sensitivity``."""
        column = [answer.kappa for answer in self.sensitivity].index(float(kappa))
        return self._shares[self._index[planned.design.group_size]][column]

    def not_told_apart(self, answer: KappaAnswer) -> tuple[int, int]:
        """Smallest and largest group size that the pilot cannot tell from the best at one kappa.

        The limits of their progress relative to the best's reach 1. Sizes between may be surely worse, where whole
        prompts a step use the budget worse; sizes that make less than half of the best's progress are not looked at.
        """
        close = [p for p in self.frontier if self.progress_at(p, answer.kappa) >= FAR_BELOW]
        sizes = [p.design.group_size for p in close if self.progress_limits(p, answer.kappa)[1] >= 1.0]
        return min([*sizes, answer.group_size]), max([*sizes, answer.group_size])

    @cached_property
    def _index(self) -> dict[int, int]:
        return {planned.design.group_size: i for i, planned in enumerate(self.frontier)}

    @cached_property
    def _table(self) -> TableLimits:
        return TableLimits(
            fit=self.fit,
            sizes=tuple(p.design.group_size for p in self.frontier),
            groups=self._groups,
            estimator=self.estimator,
            coherence=self.coherence,
            level=self.level,
        )

    @cached_property
    def _limits(self) -> dict[tuple[int, float], Limits]:
        return {}

    def __str__(self) -> str:
        """The verdict in a few lines; the command prints the whole page."""
        best, d = self.recommended, self.recommended.dead
        design, mixed = best.design, best.batch.mixed_groups
        steps = "" if design.steps is None else f", {design.steps:,} steps"
        low, high = self.flat_range
        known = "unknown" if d.value is None else f"{d.value:.3f}"
        ends = (
            f"kappa {self.kappa.value:.3g}"
            if self.kappa.known
            else f"kappa from {self.kappa.low:g} to {self.kappa.high:g}"
        )
        return "\n".join(
            (
                f"G = {design.group_size}, {design.prompts_per_step:,} prompts a step{steps} (by {self.objective})",
                f"dead {known} [{d.low:.3f}, {d.high:.3f}], {d.status.name}; mixed groups a step {mixed.mean:,.0f} "
                f"({mixed.p05:,.0f} to {mixed.p95:,.0f})",
                f"about as good: G = {low} to {high}, for {ends}",
                f"limited by {self.binding_constraint}",
            )
        )
