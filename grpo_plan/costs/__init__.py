"""What a run may use and what a design uses: rollouts, tokens, GPU-hours, USD."""

from grpo_plan.costs.amounts import Cost
from grpo_plan.costs.budget import UNITS, Budget, binding_constraint
from grpo_plan.costs.content import GroupContent
from grpo_plan.costs.design import Design, Shortfall, SolvedDesign, design_for, largest_group_size, solve_design
from grpo_plan.costs.lengths import LengthStatus, TokenLengths, token_lengths
from grpo_plan.costs.model import CostModel

__all__ = [
    "UNITS",
    "Budget",
    "Cost",
    "CostModel",
    "Design",
    "GroupContent",
    "LengthStatus",
    "Shortfall",
    "SolvedDesign",
    "TokenLengths",
    "binding_constraint",
    "design_for",
    "largest_group_size",
    "solve_design",
    "token_lengths",
]
