"""What a report says first: a few sentences, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Plan
from grpo_plan.runs.finding import Severity

if TYPE_CHECKING:
    from grpo_plan.runs.diagnosis import Diagnosis

FAR = (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH, FitStatus.UNKNOWN)


def verdict_document(
    fit: PassRateFit | None, plan: Plan | None, diagnosis: Diagnosis | None, missing: Mapping[str, str], level: float
) -> dict[str, Any]:
    """Status, sentences, and the first thing to do."""
    sentences: list[str] = []
    status, meaning = "UNKNOWN", "No pilot was read: the pass rates of the prompts are not known."
    if fit is not None:
        status, meaning = fit.status.name, fit.status.sentence
        sentences += _of_plan(plan) if plan is not None else _of_fit(fit, missing, level)
    if diagnosis is not None:
        sentences.append(f"The run: {diagnosis.verdict}")
    return {
        "status": status,
        "status_sentence": meaning,
        "sentences": sentences,
        "first": _first(fit, plan, diagnosis, missing),
    }


def _of_plan(plan: Plan) -> list[str]:
    best, d = plan.recommended, plan.recommended.dead
    design, mixed = best.design, best.batch.mixed_groups
    low, high = plan.flat_range
    steps = "" if design.steps is None else f" for {_count(design.steps, 'step')}"
    ends = (
        f"kappa = {plan.kappa.value:.3g}"
        if plan.kappa.value is not None
        else f"kappa from {plan.kappa.low:g} to {plan.kappa.high:g}"
    )
    good = f"about as good are group sizes from {low} to {high}, for {ends}" if low != high else f"for {ends}"
    said = [f"Groups of {design.group_size}, {_count(design.prompts_per_step, 'prompt')} a step{steps}: {good}."]
    if plan.cost_model.refill:
        said.append(f"{_share(d)} of the groups drawn are expected to be dead and are replaced.")
    else:
        said.append(
            f"{_share(d)} of the groups are expected to be dead, so about {mixed.mean:,.0f} of "
            f"{design.prompts_per_step:,} groups a step carry signal ({mixed.p05:,.0f} to {mixed.p95:,.0f} in 9 of 10 "
            "steps)."
        )
    said.append(_usual(d))
    return said


def _of_fit(fit: PassRateFit, missing: Mapping[str, str], level: float) -> list[str]:
    d = fit.dead(max(2, fit.max_measured_group_size), level)
    said = [f"{_share(d)} of groups of {d.group_size} are expected to be dead."]
    if "plan" in missing:
        said.append(f"No plan: {missing['plan']}")
    return said


def _usual(d: DeadFraction) -> str:
    """What the formula at the mean pass rate would have said."""
    if d.iid < d.low:
        told = "it does not see that prompts differ in difficulty"
    else:
        told = "prompts may be alike in difficulty" if d.iid <= d.high else "that lies above the interval"
    return f"The formula at the mean pass rate alone says {_percent(d.iid)}: {told}."


def _first(fit: PassRateFit | None, plan: Plan | None, diagnosis: Diagnosis | None, missing: Mapping[str, str]) -> str:
    if diagnosis is not None:
        grave = diagnosis.at_least(Severity.WARNING)
        if grave:
            return grave[0].remedy
    if plan is None:
        return _last_sentence(missing.get("plan", "")) or "Roll out a pilot: 8 rollouts of a few hundred prompts."
    if fit is not None and plan.recommended.dead.status in FAR:
        return (
            f"Check before the run: the pilot shows groups of up to {fit.max_measured_group_size}, and the plan rests "
            f"on what lies beyond. {plan.recommended.dead.status.sentence}"
        )
    design = plan.recommended.design
    setting = f"Train with groups of {design.group_size} and {_count(design.prompts_per_step, 'prompt')} a step"
    if plan.kappa.value is None and plan.flat_range[0] != plan.flat_range[1]:
        return (
            f"{setting}, and measure kappa in the first step: it decides between {plan.flat_range[0]} and "
            f"{plan.flat_range[1]} (docs/choosing.md)."
        )
    return f"{setting}, and plan again after some hundred steps: pass rates move."


def _last_sentence(text: str) -> str:
    return text.rstrip().rpartition(". ")[2]


def _share(d: DeadFraction) -> str:
    value = "An unknown share" if d.value is None else _percent(d.value)
    return f"{value} [{_percent(d.low)}, {_percent(d.high)}]"


def _percent(share: float) -> str:
    """A share in percent with the digits it needs.

    >>> _percent(0.4392), _percent(0.0004), _percent(0.9999)
    ('44 %', '0.04 %', '99.99 %')
    """
    percent = 100.0 * share
    if 1.0 <= percent <= 99.0 or percent in (0.0, 100.0):
        return f"{percent:.0f} %"
    if percent < 1.0:
        return f"{percent:.1g} %"
    return f"{percent:.2f} %" if percent < 99.995 else "over 99.99 %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
