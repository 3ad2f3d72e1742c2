"""The largest design that every limit allows: floors of a linear cost (theory.md, eq. 67)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grpo_plan.costs.amounts import Cost
from grpo_plan.costs.budget import Budget
from grpo_plan.costs.content import GroupContent
from grpo_plan.costs.model import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Group size, prompts per step and steps of a run.

    Attributes:
        group_size: Rollouts per prompt, G.
        prompts_per_step: Groups trained on in a step, N.
        steps: Optimiser steps; None when the budget does not say.
    """

    group_size: int
    prompts_per_step: int
    steps: int | None

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of the groups of a step."""
        return self.group_size * self.prompts_per_step

    @property
    def rollouts(self) -> int | None:
        """Rollouts of the groups of the run."""
        return None if self.steps is None else self.rollouts_per_step * self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A limit that even the smallest design breaks: what was given, and what that design needs."""

    limit: str
    given: float
    needed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedDesign:
    """The largest design of one group size within a budget, or why there is none.

    Attributes:
        design: The design; None if none fits.
        cost: Cost of the run, of a step if steps are unknown; of the smallest design if none fits.
        cost_low: The same at the lower limit of the dead fraction; None without an interval.
        cost_high: At the upper limit; None without an interval, or if a refill might never end.
        binding: Limits that one more prompt a step, or one more step, would break: units of the budget or
            ``"rollouts_per_step"``; empty where the design was given in full.
        shortfalls: Limits that the smallest design breaks; empty if a design fits.
        largest_steps: If none fits, the steps that would, at these prompts per step; None if no number does.
        largest_prompts_per_step: If none fits, the prompts per step that would, at these steps; None if no number does.
        advice: If none fits, what to raise and to what, in one sentence; else empty.
    """

    design: Design | None
    cost: Cost
    cost_low: Cost | None
    cost_high: Cost | None
    binding: tuple[str, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    largest_steps: int | None = None
    largest_prompts_per_step: int | None = None
    advice: str = ""


def solve_design(budget: Budget, cost: CostModel, content: GroupContent) -> SolvedDesign:
    """The largest design of this group size that all limits of the budget allow.

    Raises:
        DomainError: The budget is in a unit that the cost model cannot tell; the message names what it needs.
        InfeasiblePlanError: Refill, and no group is mixed.
    """
    raise NotImplementedError


def design_for(group_size: int, budget: Budget, cost: CostModel, content: GroupContent | None = None) -> Design | None:
    """The largest design of this group size that the budget allows; None if there is none.

    ``content`` is needed for budgets in tokens, GPU-hours or USD, and for refill.
    """
    raise NotImplementedError


def largest_group_size(
    budget: Budget, cost: CostModel, content_of: Callable[[int], GroupContent], maximum: int = 512
) -> int | None:
    """Where steps and prompts per step are both fixed, the largest group size up to ``maximum`` that fits; else None."""
    raise NotImplementedError
