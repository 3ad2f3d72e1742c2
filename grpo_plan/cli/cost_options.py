"""Options of a command that plans within a budget: totals, lengths, rates, prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grpo_plan.costs import Budget, CostModel
    from grpo_plan.pilot import Pilot


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """What the options say; `build` turns it into a budget and a cost model."""

    budget: Budget
    values: dict[str, object]
    calibrate: str | None

    def build(self, pilot: Pilot) -> tuple[Budget, CostModel, tuple[str, ...]]:
        """Budget, cost model, and notes on what they rest on; lengths not given are taken from the pilot."""
        raise NotImplementedError


def takes_costs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of budgets and costs; it receives them as the keyword argument ``costs``.

    The command's own signature names ``costs: CostRequest``, which is replaced by --budget-rollouts, --budget-tokens,
    --budget-gpu-hours, --budget-usd, --steps, --prompts-per-step, --rollouts-per-step, --prompt-cost and the rest.
    Compose as ``app.command()(reads_pilot(takes_costs(plan)))``.
    """
    raise NotImplementedError
