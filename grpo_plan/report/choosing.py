"""The what-if section: tables of every preset, and the choice that is the plan."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from grpo_plan.documents.parts import dead_json
from grpo_plan.estimators import get_estimator
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.plan import Plan
from grpo_plan.planning.planned_kappa import planned_kappa
from grpo_plan.planning.signal import KappaRange
from grpo_plan.report.request import EXAMPLE_PROMPTS, ReportRequest, ThresholdPilot
from grpo_plan.report.sections import Missing, fitted
from grpo_plan.report.what_if import RANGES, VERSION, Preset, preset_tables, table_sizes
from grpo_plan.trainers.planned import PlannedRecipe

MOST_CHANCES = 30_000  # numbers of the laws of passes in the tables: under 1 MB


def what_if_section(
    fit: PassRateFit,
    plan: Plan | None,
    recipe: PlannedRecipe,
    asked: ReportRequest,
    body: dict[str, Any],
    missing: Missing,
) -> None:
    """Tables and curve, into the body of a report."""
    advantage, words = get_estimator(asked.estimator), asked.said
    planned_sizes = [] if plan is None else [p.design.group_size for p in plan.frontier]
    every = table_sizes(planned_sizes, advantage.min_group_size, asked.group_sizes)
    sizes = bounded(every, 1 + len(asked.thresholds), None if plan is None else plan.recommended.design.group_size)
    if len(sizes) < len(every):
        left = [size for size in every if size not in set(sizes)]
        missing["what_if of large groups"] = (
            f"{len(left):,} of {len(every):,} group sizes, up to {max(left):,}, are left out of the page's own tables, "
            "which would grow with them; the plan compares them all. Ask for fewer with --group-sizes."
        )
    if not sizes:
        missing.setdefault("curve", missing["what_if of large groups"])
        missing.setdefault("what_if", missing["what_if of large groups"])
        return
    body["curve"] = missing.attempt("curve", lambda: [dead_json(fit.dead(size, asked.level)) for size in sizes])
    found = missing.attempt("what_if", lambda: planned_kappa(asked.kappa, fit) if plan is None else plan.kappa)
    if found is None:
        return
    kappas: KappaRange = found
    measurement = asked.kappa if isinstance(asked.kappa, KappaMeasurement) else None
    label = "rewards as read" if asked.threshold is None else f"reward >= {asked.threshold:g}"
    presets = [
        Preset(label=label, threshold=asked.threshold, fit=fit, cost=asked.cost_of(fit.pilot), arguments=words.pilot)
    ]
    presets += [p for other in asked.thresholds if (p := _preset(other, asked, missing)) is not None]
    tables = [
        table
        for preset in presets
        if (
            table := missing.attempt(
                "what_if" if preset is presets[0] else f"what_if at {preset.label}",
                lambda preset=preset: preset_tables(  # type: ignore[misc]
                    preset, sizes, estimator=asked.estimator, kappas=kappas, measurement=measurement,
                    coherence=asked.coherence, level=asked.level,
                ),
            )
        )
        is not None
    ]  # fmt: skip
    if "what_if" in missing:
        return
    start = _start(plan, recipe, asked, sizes)
    body["what_if"] = {
        "version": VERSION,
        "level": asked.level,
        "estimator": asked.estimator,
        "coherence": asked.coherence,
        "kappa": {
            "low": kappas.low, "high": kappas.high, "value": kappas.value, "measured": kappas.known,
            "shown": [float(k) for k in kappas.shown()],
        },
        "kappa_argument": words.kappa,
        "arguments": list(only(words.plan, ("--estimator", "--coherence", "--population", "--level"))),
        "cost_arguments": list(_costs(words.budget)),
        "refill_arguments": list(common(words.plan)),
        "presets": tables,
        "start": start,
        "ranges": _ranges(plan, start, kappas),
    }  # fmt: skip


def bounded(sizes: list[int], presets: int, chosen: int | None) -> list[int]:
    """The group sizes whose laws fit on a page, the chosen one first; none where it does not fit.

    >>> bounded([2, 4, 90_000], 1, 4), bounded([2, 90_000], 1, 90_000)
    ([2, 4], [])
    """
    room, kept = MOST_CHANCES // presets, []
    for size in sorted(sizes, key=lambda size: (size != chosen, size)):
        room -= size + 1
        if room < 0:
            break
        kept.append(size)
    return sorted(kept)


def _preset(other: ThresholdPilot, asked: ReportRequest, missing: Missing) -> Preset | None:
    label = f"reward >= {other.threshold:g}"
    fit = missing.attempt(f"what_if at {label}", lambda: fitted(other.pilot, asked))
    if fit is None:
        return None
    return Preset(
        label=label, threshold=other.threshold, fit=fit, cost=asked.cost_of(other.pilot), arguments=other.words
    )


def _start(plan: Plan | None, recipe: PlannedRecipe, asked: ReportRequest, sizes: list[int]) -> dict[str, Any]:
    """The plan as a choice: by its budget in rollouts where that alone made it, else by its design."""
    choice: dict[str, Any] = {
        "preset": 0, "group_size": sizes[0], "prompts_per_step": EXAMPLE_PROMPTS, "steps": None,
        "budget_rollouts": None, "refill": False, "batch_multiplier": None, "gen_batch_size": None,
        "max_rounds": None, "kappa": None,
    }  # fmt: skip
    if plan is None:
        return {**choice, "group_size": 8 if 8 in sizes else sizes[0]}
    design, budget = plan.recommended.design, asked.budget
    choice |= {"group_size": design.group_size, "prompts_per_step": design.prompts_per_step, "steps": design.steps}
    if budget is not None and set(budget.totals) == {"rollouts"} and budget.rollouts_per_step is None:
        two = (budget.prompts_per_step is None) != (budget.steps is None)
        if two and plan.trainer is None:
            choice |= {"prompts_per_step": budget.prompts_per_step, "steps": budget.steps}
            choice["budget_rollouts"] = budget.rollouts
    if plan.cost_model.refill:
        choice |= {"refill": True, "batch_multiplier": recipe.batch_multiplier, "max_rounds": recipe.max_rounds}
    return choice


def _ranges(plan: Plan | None, start: dict[str, Any], kappas: KappaRange) -> dict[str, list[float]]:
    """Ranges of the fields; those of the plan lie within."""
    design = None if plan is None else plan.recommended.design
    used: dict[str, list[Any]] = {name: [start.get(name)] for name in RANGES}
    used["kappa"] = [kappas.low, kappas.high]
    if design is not None:
        used["prompts_per_step"].append(design.prompts_per_step)
        used["steps"].append(design.steps)
    return {
        name: [min(low, *found), max(high, *found)]
        if (found := [x for x in used[name] if x is not None])
        else [low, high]
        for name, (low, high) in RANGES.items()
    }


def common(words: tuple[str, ...]) -> tuple[str, ...]:
    """What every command that fits takes."""
    return only(words, ("--population", "--level"))


def only(words: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Options of these names with their values.

    >>> only(("--level", "0.9", "--objective", "max-dead"), ("--level",))
    ('--level', '0.9')
    """
    found: list[str] = []
    for name, value in pairwise(words):
        if name in names:
            found += [name, value]
    return tuple(found)


def _costs(words: tuple[str, ...]) -> tuple[str, ...]:
    """Costs without what fixes the size of the run, and without the refill, which a choice has of its own."""
    fixed: tuple[str, ...] = ("--budget-rollouts", "--budget-tokens", "--budget-gpu-hours", "--budget-usd")
    fixed += ("--steps", "--prompts-per-step", "--rollouts-per-step")
    found, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        if word in fixed:
            rest.pop(0)
        elif word != "--refill":
            found.append(word)
    return tuple(found)
