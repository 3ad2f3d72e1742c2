"""A trainer as asked for: its rules while planning, and the block that carries a plan out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.planning.plan import Plan
    from grpo_plan.rules import DesignRules
    from grpo_plan.trainers.base import Block, Hardware
    from grpo_plan.trainers.planned import PlannedRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerRequest:
    """A trainer and what its block shall say.

    Attributes:
        trainer: Name, or None.
        version: Its version, or None for the newest known.
        micro_batch: Rollouts per GPU in one pass, or None.
        temperature: Sampling temperature, or None.
        max_response_tokens: Longest response, or None.
    """

    trainer: str | None = None
    version: str | None = None
    micro_batch: int | None = None
    temperature: float | None = None
    max_response_tokens: int | None = None

    def rules(self, gpus: int | None, estimator: str, *, refill: bool = False) -> DesignRules | None:
        """What the trainer accepts; None without a trainer."""
        if self.trainer is None:
            for name in ("version", "micro_batch", "temperature", "max_response_tokens"):
                if getattr(self, name) is not None:
                    option = {"version": "trainer-version"}.get(name, name.replace("_", "-"))
                    raise DomainError(f"--{option} needs a trainer; got none. Give --trainer, e.g. --trainer trl.")
            return None
        from grpo_plan.estimators import get_estimator
        from grpo_plan.trainers.base import offered_estimator
        from grpo_plan.trainers.refills import require_refill
        from grpo_plan.trainers.registry import get_trainer

        found = get_trainer(self.trainer)
        offered_estimator(found, get_estimator(estimator))
        if refill:
            require_refill(found)
        return found.rules(self._hardware(gpus), self.version)

    def carry_out(self, chosen: Plan) -> tuple[Block | None, PlannedRecipe]:
        """The block that carries the plan out, None without a trainer; and what the plan was made with."""
        from grpo_plan.trainers.emit import emit
        from grpo_plan.trainers.planned import recipe_of, with_refill
        from grpo_plan.trainers.registry import get_trainer

        made = recipe_of(chosen)
        recipe, notes = with_refill(
            chosen,
            replace(
                made,
                micro_batch=self.micro_batch,
                temperature=made.temperature if self.temperature is None else self.temperature,
                max_response_tokens=self.max_response_tokens,
                trainer=self.trainer,
                trainer_version=self.version,
            ),
            None if self.trainer is None else get_trainer(self.trainer),
        )
        if self.trainer is None:
            return None, recipe
        block = emit(
            chosen,
            trainer=self.trainer,
            version=self.version,
            hardware=self._hardware(chosen.cost_model.gpus),
            temperature=recipe.temperature,
            max_response_tokens=self.max_response_tokens,
            refill=recipe.refilling(self.trainer)[0] if recipe.refill else None,
        )
        return replace(block, notes=(*notes, *block.notes)), recipe

    def _hardware(self, gpus: int | None) -> Hardware:
        from grpo_plan.trainers.base import Hardware

        return Hardware(gpus=gpus or 1, micro_batch=self.micro_batch)
