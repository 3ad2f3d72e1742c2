"""What a plan was made with, so that its block needs nothing else: from a plan, and through its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from grpo_plan._validate import as_count, as_positive
from grpo_plan.errors import DomainError, PlanFormatError
from grpo_plan.planning.plan import Plan
from grpo_plan.trainers.base import Refilling, Trainer
from grpo_plan.trainers.refills import fitting_refill

COUNTS = ("max_rounds", "gpus", "micro_batch", "max_response_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRecipe:
    """What a plan was made with; None where that was not given.

    Attributes:
        refill: Whether dead groups are replaced until every group of a step is mixed.
        batch_multiplier: Prompts of a generation batch over the prompts per step.
        max_rounds: Generation batches after which the trainer gives up.
        gpus: Data-parallel GPUs that train.
        micro_batch: Rollouts per GPU in one pass.
        temperature: Sampling temperature, that of the pilot unless another was asked for.
        max_response_tokens: Longest response.
        trainer: Name of the trainer.
        trainer_version: Its version.
    """

    refill: bool = False
    batch_multiplier: float | None = None
    max_rounds: int | None = None
    gpus: int | None = None
    micro_batch: int | None = None
    temperature: float | None = None
    max_response_tokens: int | None = None
    trainer: str | None = None
    trainer_version: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    def version_for(self, trainer: str) -> str | None:
        """The planned version, where the trainer is the planned one."""
        return self.trainer_version if trainer == self.trainer else None

    def refilling(
        self, trainer: str, *, batch_multiplier: float | None = None, max_rounds: int | None = None
    ) -> tuple[Refilling, tuple[str, ...]]:
        """Dynamic sampling for a trainer, given numbers first; and what was left out, in words.

        A planned cap counts rounds of the planned trainer at the planned multiplier, so it holds for those alone.

        >>> recipe = PlannedRecipe(refill=True, batch_multiplier=2.2, max_rounds=3, trainer="nemo-rl")
        >>> recipe.refilling("nemo-rl")[0]
        Refilling(batch_multiplier=2.2, max_rounds=3)
        >>> recipe.refilling("skyrl")[0]
        Refilling(batch_multiplier=2.2, max_rounds=None)
        """
        planned = self.batch_multiplier or 1.0
        asked = planned if batch_multiplier is None else batch_multiplier
        notes: tuple[str, ...] = ()
        if max_rounds is None and self.max_rounds is not None:
            if trainer == self.trainer and asked == planned:
                max_rounds = self.max_rounds
            else:
                notes = (
                    f"The planned cap of {self.max_rounds} rounds is left out: it is for {self.trainer} at "
                    f"batch_multiplier {planned:g}. Give another with --max-rounds, or plan again.",
                )
        return Refilling(batch_multiplier=asked, max_rounds=max_rounds), notes


def recipe_of(plan: object) -> PlannedRecipe:
    """What a plan, or its loaded JSON, was made with; nothing of a bare design.

    Raises:
        PlanFormatError: The mapping is no plan's, or holds what no plan writes.
    """
    if isinstance(plan, Plan):
        pilot = plan.fit.pilot.temperatures
        known = pilot[0] if len(pilot) == 1 and pilot[0] > 0.0 else None
        return PlannedRecipe(refill=plan.cost_model.refill, gpus=plan.cost_model.gpus, temperature=known)
    if not isinstance(plan, Mapping):
        return PlannedRecipe()
    if (command := plan.get("command", "plan")) != "plan":
        name = repr(command)[:40].strip("'")
        raise PlanFormatError(
            f"plan is the answer of grpo-plan {name}, not of plan: it recommends no design to train. Give the "
            "output of: grpo-plan plan --json."
        )
    row = plan.get("recipe")
    if row is None:
        return PlannedRecipe()
    if not isinstance(row, Mapping):
        raise _broken("recipe must be an object")
    return _checked(row)


def with_refill(plan: Plan, recipe: PlannedRecipe, trainer: Trainer | None) -> tuple[PlannedRecipe, tuple[str, ...]]:
    """The recipe with a batch multiplier and a cap that fit the pilot, and both with their limits, in words."""
    if not recipe.refill:
        return recipe, ()
    version = None if trainer is None else recipe.trainer_version
    found = fitting_refill(plan, None if trainer is None else trainer.refill_keys(version))
    filled = replace(recipe, batch_multiplier=found.batch_multiplier, max_rounds=found.max_rounds)
    return filled, found.notes


def _checked(row: Mapping[str, Any]) -> PlannedRecipe:
    """The object of a file: known keys, each in its domain."""
    values = {f.name: row[f.name] for f in fields(PlannedRecipe) if row.get(f.name) is not None}
    try:
        for name in values.keys() & set(COUNTS):
            values[name] = as_count(values[name], f"recipe.{name}")
        for name in values.keys() & {"temperature", "batch_multiplier"}:
            values[name] = as_positive(values[name], f"recipe.{name}")
    except DomainError as error:
        raise _broken(str(error).rstrip(".")) from None
    if not isinstance(values.get("refill", False), bool):
        raise _broken("recipe.refill must be true or false")
    for name in values.keys() & {"trainer", "trainer_version"}:
        if not isinstance(values[name], str):
            raise _broken(f"recipe.{name} must be a string")
    return PlannedRecipe(**values)


def _broken(what: str) -> PlanFormatError:
    return PlanFormatError(f"plan: {what}. Write it again with: grpo-plan plan --json.")
