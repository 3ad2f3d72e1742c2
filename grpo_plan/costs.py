"""What a run may use and what a design uses, in rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from grpo_plan._validate import as_count, as_positive
from grpo_plan.errors import DomainError

MAX_TOTAL_ROLLOUTS = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is fixed before planning; everything left None is solved for.

    Give the total ``rollouts`` and one of ``steps``, ``prompts_per_step`` or ``rollouts_per_step``; or leave the
    total out and give ``rollouts_per_step`` (with ``steps`` if you know them). Any further value is a constraint.

    Attributes:
        rollouts: Rollouts of the whole run.
        steps: Optimiser steps of the run.
        prompts_per_step: Groups in a step.
        rollouts_per_step: Rollouts in a step, groups times group size.

    >>> Budget(rollouts=2_000_000, steps=500).rollouts_in_a_step
    4000.0
    """

    rollouts: int | None = None
    steps: int | None = None
    prompts_per_step: int | None = None
    rollouts_per_step: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and that they fix the size of a step."""
        for name in ("rollouts", "steps", "prompts_per_step", "rollouts_per_step"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_count(value, name, maximum=MAX_TOTAL_ROLLOUTS))
        if self.rollouts_per_step is None and self.rollouts is None:
            raise DomainError(
                "A plan needs the budget in rollouts or the rollouts per step; got neither. "
                "Give rollouts (--budget-rollouts) or rollouts_per_step (--rollouts-per-step)."
            )
        if self.rollouts_per_step is None and self.steps is None and self.prompts_per_step is None:
            raise DomainError(
                "A budget in rollouts needs one more number to size a step; got none. Give steps (--steps), "
                "prompts_per_step (--prompts-per-step) or rollouts_per_step (--rollouts-per-step)."
            )

    @property
    def rollouts_in_a_step(self) -> float | None:
        """Rollouts that a step may use, if the budget says so whatever the group size; else None."""
        if self.rollouts_per_step is not None:
            return float(self.rollouts_per_step)
        if self.rollouts is not None and self.steps is not None:
            return self.rollouts / self.steps
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cost of a group in rollouts: G, plus what a prompt costs whatever G (prefill, environment set-up).

    Attributes:
        prompt_rollouts: Fixed cost of a prompt in units of one rollout, c0; at least 0.
    """

    prompt_rollouts: float = 0.0

    def __post_init__(self) -> None:
        """Check the cost."""
        object.__setattr__(
            self, "prompt_rollouts", as_positive(self.prompt_rollouts, "prompt_rollouts", allow_zero=True)
        )

    def group(self, group_size: int) -> float:
        """Cost of one group, in rollouts."""
        return group_size + self.prompt_rollouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Group size, prompts per step and steps of a run.

    Attributes:
        group_size: Rollouts per prompt, G.
        prompts_per_step: Groups in a step, N.
        steps: Optimiser steps; None when the budget does not say.
    """

    group_size: int
    prompts_per_step: int
    steps: int | None

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts in a step."""
        return self.group_size * self.prompts_per_step

    @property
    def rollouts(self) -> int | None:
        """Rollouts of the run."""
        return None if self.steps is None else self.rollouts_per_step * self.steps


def design_for(group_size: int, budget: Budget, cost: CostModel) -> Design | None:
    """The largest design of this group size that the budget allows; None if there is none."""
    group = cost.group(group_size)
    prompts = budget.prompts_per_step
    if budget.rollouts_per_step is not None:
        whole = floor(budget.rollouts_per_step / group_size)
        if prompts is not None and prompts * group_size > budget.rollouts_per_step:
            return None
        prompts = whole if prompts is None else prompts
    steps = budget.steps
    if prompts is None:
        if budget.rollouts is None or steps is None:
            return None
        prompts = floor(budget.rollouts / (steps * group) * (1.0 + 1e-12))
    if prompts < 1:
        return None
    if budget.rollouts is not None:
        affordable = floor(budget.rollouts / (prompts * group) * (1.0 + 1e-12))
        if affordable < 1 or (steps is not None and affordable < steps):
            return None
        steps = affordable if steps is None else steps
    return Design(group_size=group_size, prompts_per_step=prompts, steps=steps)


def binding_constraint(budget: Budget) -> str:
    """What limits every design, in words."""
    parts = []
    if budget.rollouts is not None:
        parts.append(f"{budget.rollouts:,} rollouts")
    if budget.steps is not None:
        parts.append(f"{budget.steps:,} steps")
    if budget.prompts_per_step is not None:
        parts.append(f"{budget.prompts_per_step:,} prompts a step")
    if budget.rollouts_per_step is not None:
        parts.append(f"{budget.rollouts_per_step:,} rollouts a step")
    text = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    size = budget.rollouts_in_a_step
    if size is not None and budget.rollouts_per_step is None and budget.prompts_per_step is None:
        text += f": {size:,.0f} rollouts a step"
    return text
