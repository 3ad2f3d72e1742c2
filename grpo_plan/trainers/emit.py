"""A plan as a trainer's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grpo_plan._validate import as_count, as_positive, require
from grpo_plan.costs import Design
from grpo_plan.errors import DomainError, InfeasiblePlanError, PlanFormatError
from grpo_plan.estimators import get_estimator
from grpo_plan.planning.plan import Plan, PlannedDesign
from grpo_plan.trainers.base import Block, Hardware, Recipe, Refilling, Trainer, offered_estimator
from grpo_plan.trainers.nearest import MIN_GROUP_SIZE, require_accepted
from grpo_plan.trainers.planned import PlannedRecipe, recipe_of, with_refill
from grpo_plan.trainers.refills import require_refill
from grpo_plan.trainers.registry import get_trainer, known_trainers

DEFAULT_ESTIMATOR = "grpo"


def emit(
    plan: Plan | PlannedDesign | Design | Mapping[str, Any],
    *,
    trainer: str | None = None,
    version: str | None = None,
    hardware: Hardware | None = None,
    temperature: float | None = None,
    max_response_tokens: int | None = None,
    refill: Refilling | None = None,
    estimator: str | None = None,
) -> Block:
    """Write a design as configuration of a trainer, checked against the trainer's rules.

    Args:
        plan: A plan, one design of its frontier, a bare design, or the loaded JSON of ``grpo-plan plan --json``.
        trainer: Name of the trainer, e.g. "trl"; default that of the JSON.
        version: Version of the trainer, e.g. "1.16"; default the planned one, else the newest known.
        hardware: GPUs that train and rollouts per GPU in one pass; default those of the plan, else one GPU.
        temperature: Sampling temperature, above 0; default that of the plan or its pilot, else the trainer's own.
        max_response_tokens: Longest response in tokens; default that of the JSON, else the trainer's own.
        refill: Dynamic sampling; default as planned, with a batch multiplier and a cap that fit the pilot, else off.
        estimator: Advantage estimator; default the plan's, else "grpo".

    Returns:
        The block, with the trainer's rules as checks (all satisfied) and what it cannot say as notes.

    Raises:
        DomainError: An unknown trainer or estimator, a version that is too old, a number outside its domain, or a
            refill that the trainer cannot do.
        PlanFormatError: The mapping holds no design.
        InfeasiblePlanError: The trainer refuses the design; the message names the nearest that it takes.

    >>> design = Design(group_size=8, prompts_per_step=64, steps=500)
    >>> block = emit(design, trainer="trl", version="1.16", hardware=Hardware(gpus=4, micro_batch=16))
    >>> block.settings["generation_batch_size"], block.settings["gradient_accumulation_steps"]
    (512, 8)
    """
    planned = recipe_of(plan)
    trainer = planned.trainer if trainer is None else trainer
    if trainer is None:
        raise DomainError(f"emit needs a trainer, one of {', '.join(known_trainers())}. Give --trainer.")
    found = get_trainer(trainer)
    version = planned.version_for(trainer) if version is None else version
    if hardware is None:
        hardware = Hardware(gpus=planned.gpus or 1, micro_batch=planned.micro_batch)
    require(hardware, Hardware, "hardware", "Give Hardware(gpus=..., micro_batch=...).")
    if refill is not None:
        require(refill, Refilling, "refill", "Give Refilling(batch_multiplier=..., max_rounds=...).")
    if refill is not None or planned.refill:
        require_refill(found)
    refill, refill_notes = (refill, ()) if refill is not None else _planned_refill(plan, planned, found, version)
    longest = planned.max_response_tokens if max_response_tokens is None else max_response_tokens
    temperature = planned.temperature if temperature is None else temperature
    recipe = Recipe(
        design=design_of(plan),
        estimator=offered_estimator(found, get_estimator(estimator or _planned_estimator(plan))),
        temperature=None if temperature is None else as_positive(temperature, "temperature"),
        max_response_tokens=None if longest is None else as_count(longest, "max_response_tokens"),
        refill=refill,
    )
    try:
        require_accepted(found.rules(hardware, version), recipe.design)
    except InfeasiblePlanError as error:
        if isinstance(plan, Design):
            raise
        micro = "" if hardware.micro_batch is None else f" --micro-batch {hardware.micro_batch}"
        again = f"plan again with --trainer {found.name} --gpus {hardware.gpus}{micro}"
        raise InfeasiblePlanError(f"{error} Or {again}: then only designs that it accepts are planned.") from None
    block = found.block(recipe, hardware, version)
    return replace(block, notes=(*refill_notes, *block.notes, *_shared_notes(recipe)))


def _planned_refill(
    plan: object, planned: PlannedRecipe, trainer: Trainer, version: str | None
) -> tuple[Refilling | None, tuple[str, ...]]:
    """Dynamic sampling as planned; what there is to know about its numbers."""
    if not planned.refill:
        return None, ()
    if not isinstance(plan, Plan):
        return planned.refilling(trainer.name)
    fitted, notes = with_refill(plan, replace(planned, trainer=trainer.name, trainer_version=version), trainer)
    return fitted.refilling(trainer.name)[0], notes


def design_of(plan: object) -> Design:
    """The design that a plan stands for.

    Raises:
        DomainError: The argument is no plan and no design, or a number of it lies outside its domain.
        PlanFormatError: The mapping holds no design.
    """
    if isinstance(plan, Plan):
        plan = plan.recommended
    if isinstance(plan, PlannedDesign):
        plan = plan.design
    if isinstance(plan, Design):
        return _checked(plan.group_size, plan.prompts_per_step, plan.steps)
    if not isinstance(plan, Mapping):
        raise DomainError(
            f"plan must be a Plan, a design or the loaded JSON of a plan; got {type(plan).__name__}. "
            "Give what plan_group_size returns."
        )
    row, place = (plan["recommended"], "recommended.") if "recommended" in plan else (plan, "")
    if not isinstance(row, Mapping) or not {"group_size", "prompts_per_step"} <= row.keys():
        raise PlanFormatError(
            "plan holds no design (group_size and prompts_per_step, under recommended). "
            "Give the output of: grpo-plan plan --json."
        )
    try:
        return _checked(row["group_size"], row["prompts_per_step"], row.get("steps"), place)
    except DomainError as error:
        raise PlanFormatError(f"plan: {error} Write it again with: grpo-plan plan --json.") from None


def _checked(group_size: object, prompts_per_step: object, steps: object, place: str = "") -> Design:
    return Design(
        group_size=as_count(group_size, f"{place}group_size", minimum=MIN_GROUP_SIZE),
        prompts_per_step=as_count(prompts_per_step, f"{place}prompts_per_step"),
        steps=None if steps is None else as_count(steps, f"{place}steps"),
    )


def _planned_estimator(plan: object) -> str:
    if isinstance(plan, Plan):
        return plan.estimator
    if isinstance(plan, Mapping) and plan.get("estimator") is not None:
        try:
            return get_estimator(plan["estimator"]).label
        except DomainError as error:
            raise PlanFormatError(f"plan: {error}") from None
    return DEFAULT_ESTIMATOR


def _shared_notes(recipe: Recipe) -> list[str]:
    notes = []
    if recipe.temperature is None:
        notes.append("No temperature was given: the trainer's own holds, and the plan is for that of the pilot.")
    if recipe.design.steps is None:
        notes.append("The plan has no number of steps: set it, or the trainer runs for its own default.")
    return notes
