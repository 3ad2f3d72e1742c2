"""What is fixed before planning."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan._validate import as_count
from grpo_plan.costs.bounds import as_amount
from grpo_plan.errors import DomainError

MAX_TOTAL_ROLLOUTS = 10**12
MAX_TOTAL_TOKENS = 10**18
UNITS = ("rollouts", "tokens", "gpu_hours", "usd")
COUNTS = ("steps", "prompts_per_step", "rollouts_per_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is fixed before planning; everything left None is solved for.

    Totals of the run (``rollouts``, ``tokens``, ``gpu_hours``, ``usd``) are limits, several hold at once. With a total
    give one of ``steps``, ``prompts_per_step`` or ``rollouts_per_step``. Without one, ``rollouts_per_step`` or
    ``prompts_per_step`` sizes a step and the cost is the answer. Any further value is a constraint.

    Attributes:
        rollouts: Rollouts generated in the whole run.
        tokens: Response tokens generated in the whole run.
        gpu_hours: GPU-hours of the whole run, all GPUs together.
        usd: Price of the whole run.
        steps: Optimiser steps of the run.
        prompts_per_step: Groups trained on in a step.
        rollouts_per_step: Rollouts of these groups, groups times group size.

    >>> Budget(rollouts=2_000_000, steps=500).rollouts_in_a_step
    4000.0
    >>> Budget(gpu_hours=64, tokens=2_000_000_000, steps=200).totals
    {'tokens': 2000000000, 'gpu_hours': 64.0}
    """

    rollouts: int | None = None
    tokens: int | None = None
    gpu_hours: float | None = None
    usd: float | None = None
    steps: int | None = None
    prompts_per_step: int | None = None
    rollouts_per_step: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers, and that they fix the size of a step."""
        for name in ("rollouts", "tokens", *COUNTS):
            value = getattr(self, name)
            if value is not None:
                maximum = MAX_TOTAL_TOKENS if name == "tokens" else MAX_TOTAL_ROLLOUTS
                object.__setattr__(self, name, as_count(value, name, maximum=maximum))
        for name in ("gpu_hours", "usd"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_amount(value, name))
        if self.rollouts_per_step is not None or self.prompts_per_step is not None:
            return
        if not self.totals:
            raise DomainError(
                "A plan needs a budget, or the size of a step; got neither. Give a total (--budget-rollouts, "
                "--budget-tokens, --budget-gpu-hours, --budget-usd), or --rollouts-per-step or --prompts-per-step, "
                "e.g. --budget-rollouts 2e6 --steps 500."
            )
        if self.steps is None:
            raise DomainError(
                f"A budget in {LABELS[next(iter(self.totals))]} needs one more number to size a step; got none. Give "
                "steps (--steps), prompts_per_step (--prompts-per-step) or rollouts_per_step (--rollouts-per-step)."
            )

    @property
    def totals(self) -> dict[str, float]:
        """The totals that are given, by unit."""
        return {unit: value for unit in UNITS if (value := getattr(self, unit)) is not None}

    @property
    def rollouts_in_a_step(self) -> float | None:
        """Rollouts that a step may use, if the budget says so whatever the group size; else None."""
        if self.rollouts_per_step is not None:
            return float(self.rollouts_per_step)
        if self.rollouts is not None and self.steps is not None:
            return self.rollouts / self.steps
        return None


LABELS = {"rollouts": "rollouts", "tokens": "tokens", "gpu_hours": "GPU-hours", "usd": "USD"}


def amount_words(unit: str, value: float) -> str:
    """An amount with its unit.

    >>> amount_words("gpu_hours", 64.0), amount_words("usd", 1250), amount_words("tokens", 2e9)
    ('64 GPU-hours', '1,250 USD', '2,000,000,000 tokens')
    """
    return f"{number_words(unit, value)} {LABELS[unit]}"


def number_words(unit: str, value: float) -> str:
    """The same without the unit: whole where it is a count or large, else with four digits."""
    whole = unit in ("rollouts", "tokens") or abs(value) >= 1000 or float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def binding_constraint(budget: Budget) -> str:
    """What limits every design, in words."""
    parts = [amount_words(unit, value) for unit, value in budget.totals.items()]
    names = {"steps": "steps", "prompts_per_step": "prompts a step", "rollouts_per_step": "rollouts a step"}
    parts += [f"{value:,} {words}" for name, words in names.items() if (value := getattr(budget, name)) is not None]
    text = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    size = budget.rollouts_in_a_step
    if size is not None and budget.rollouts_per_step is None and budget.prompts_per_step is None:
        text += f": {size:,.0f} rollouts a step"
    return text
