"""The sections of a report: each the exact document of a command, or the reason why it is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from grpo_plan.batches import compare_sampling, refill
from grpo_plan.costs import Budget
from grpo_plan.documents.fit import fit_document, fits_by_stratum
from grpo_plan.documents.mix import mix_document
from grpo_plan.documents.plan import plan_document
from grpo_plan.documents.refill import refill_document, sizes_to_try
from grpo_plan.documents.temperature import temperature_document
from grpo_plan.errors import DomainError, GrpoPlanError
from grpo_plan.fitting.comparison import compare_estimates
from grpo_plan.fitting.fit import fit_pass_rates
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.pilot import Pilot
from grpo_plan.planning.group_size import plan_group_size
from grpo_plan.planning.mix import plan_mix
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.temperature import plan_temperature
from grpo_plan.report.request import ReportRequest
from grpo_plan.run_log import RunLog
from grpo_plan.trainers.planned import PlannedRecipe

if TYPE_CHECKING:
    from grpo_plan.runs.diagnosis import Diagnosis

Made = TypeVar("Made")
SCHEMA = 1
FEWEST_STRATA, MOST_STRATA = 2, 50


class Missing(dict[str, str]):
    """Section to the reason why it is not there."""

    def attempt(self, section: str, make: Callable[[], Made], *, asked: bool = False) -> Made | None:
        """What a section is made of; None, and the reason kept, where it cannot be made.

        Where the section takes what was ``asked`` for as it is, an argument outside its domain is no reason: it raises.
        """
        try:
            return make()
        except GrpoPlanError as error:
            if asked and isinstance(error, DomainError):
                raise
            self.setdefault(section, str(error))
            return None


def command_document(command: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """One answer as the command line prints it."""
    return {"schema": SCHEMA, "command": command, **body}


def fitted(pilot: Pilot, request: ReportRequest) -> PassRateFit:
    """The fit of a pilot of this request."""
    return fit_pass_rates(pilot, population=request.population, **request.missing)


def fit_section(fit: PassRateFit, sizes: list[int], request: ReportRequest) -> dict[str, Any]:
    """``fit --compare --json``."""
    level = request.level
    dead = [fit.dead(size, level) for size in sizes]
    strata = [] if isinstance(request.population, int) else fits_by_stratum(fit, sizes, level, False)
    rows = compare_estimates(fit, sizes, level) if compared(fit) else []
    return command_document("fit", fit_document(fit, dead, strata, rows, None, level))


def compared(fit: PassRateFit) -> bool:
    """Whether the usual estimates can be shown beside a fit: they need the counts of all groups as they stand."""
    return fit.truncation is None and fit.removed is None


def planned(fit: PassRateFit, budget: Budget, request: ReportRequest) -> Plan:
    """The plan of a fit."""
    model = request.cost_of(fit.pilot)
    return plan_group_size(
        fit,
        budget=budget,
        objective=request.objective,
        estimator=request.estimator,
        kappa=request.kappa,
        group_sizes=request.group_sizes,
        cost=model,
        coherence=request.coherence,
        level=request.level,
        rules=request.trainer.rules(model.gpus, request.estimator, refill=model.refill),
        **request.limits,
    )


def plan_section(plan: Plan, request: ReportRequest) -> tuple[dict[str, Any], PlannedRecipe]:
    """``plan --json`` and what carries it out."""
    block, recipe = request.trainer.carry_out(plan)
    return command_document("plan", plan_document(plan, block, recipe)), recipe


def refill_section(plan: Plan, recipe: PlannedRecipe, request: ReportRequest) -> tuple[dict[str, Any], tuple[str, ...]]:
    """``refill --json`` at the plan's design, and the words of its command."""
    design = plan.recommended.design
    options: dict[str, Any] = {
        "prompts_per_step": design.prompts_per_step,
        "group_size": design.group_size,
        "max_rounds": recipe.max_rounds,
        "steps": design.steps,
        "level": request.level,
    }
    multiplier = recipe.batch_multiplier if recipe.refill else None
    made = refill(plan.fit, batch_multiplier=multiplier, **options)
    others = [
        made if size == made.gen_batch_size else refill(plan.fit, gen_batch_size=size, **options)
        for size in sizes_to_try(made)
    ]
    costs = compare_sampling(plan.fit, made, max_group_size=None, round_size=1)
    words = ["--prompts-per-step", str(design.prompts_per_step), "--group-size", str(design.group_size)]
    words += [] if multiplier is None else ["--batch-multiplier", repr(multiplier)]
    words += [] if recipe.max_rounds is None else ["--max-rounds", str(recipe.max_rounds)]
    words += [] if design.steps is None else ["--steps", str(design.steps)]
    return command_document("refill", refill_document(plan.fit, made, others, costs, request.level)), tuple(words)


def temperature_section(pilots: Pilot | Mapping[float, Pilot], group_size: int, level: float) -> dict[str, Any]:
    """``temperature --json`` at the plan's group size."""
    compared = plan_temperature(pilots, group_size=group_size, level=level)
    return command_document("temperature", temperature_document(compared))


def mix_section(pilot: Pilot, plan: Plan, request: ReportRequest) -> dict[str, Any]:
    """``mix --json`` at the plan's design."""
    design = plan.recommended.design
    chosen = plan_mix(
        pilot,
        group_size=design.group_size,
        prompts_per_step=design.prompts_per_step,
        estimator=request.estimator,
        kappa=request.kappa,
        level=request.level,
    )
    return command_document("mix", mix_document(chosen))


def diagnosis_section(run: RunLog, request: ReportRequest) -> tuple[dict[str, Any], Diagnosis]:
    """``diagnose --json``."""
    from grpo_plan.documents.diagnose import diagnosis_json, what_if_json
    from grpo_plan.runs.diagnosis import diagnose
    from grpo_plan.runs.difficulty import difficulty_of

    found = diagnose(run, request.expectation, settings=request.settings)
    sizes = request.aggregates
    elsewhere = what_if_json(difficulty_of(found.facts), sizes, found.facts.group_size) if sizes else None
    return command_document("diagnose", {**diagnosis_json(found), "what_if": elsewhere, "forecast": []}), found
