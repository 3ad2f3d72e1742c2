"""(fit, cost, budget) to a plan."""

from grpo_plan.planning.group_size import plan_group_size
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.signal import KappaRange

__all__ = ["KappaRange", "Plan", "plan_group_size"]
