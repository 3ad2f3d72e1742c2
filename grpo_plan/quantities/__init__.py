"""What the metrics of a run mean: names of every tool to quantities with unit, scope and stage, or why not."""

from grpo_plan.quantities.base import DEFINITIONS, Absent, Cause, Definition, Quantity, Scope, Stage
from grpo_plan.quantities.names import tool_of
from grpo_plan.quantities.resolve import drops_groups, quantity_of, recognised_names
from grpo_plan.quantities.view import RunView

__all__ = [
    "DEFINITIONS",
    "Absent",
    "Cause",
    "Definition",
    "Quantity",
    "RunView",
    "Scope",
    "Stage",
    "drops_groups",
    "quantity_of",
    "recognised_names",
    "tool_of",
]
