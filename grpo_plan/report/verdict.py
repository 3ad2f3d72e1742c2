"""What a report says first: a few sentences, and what to do first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Plan
from grpo_plan.report.first import counted, doubtful, first_step, whole

if TYPE_CHECKING:
    from grpo_plan.runs.diagnosis import Diagnosis

NOT_READ = "No pilot was read: the pass rates of the prompts are not known."
TOO_WIDE = 0.5  # an interval wider than this says more than the value in it
SMALL = 1e-9  # shares below it are said to be below it


def verdict_document(
    fit: PassRateFit | None,
    plan: Plan | None,
    diagnosis: Diagnosis | None,
    missing: Mapping[str, str],
    level: float,
    refused: str | None = None,
) -> dict[str, Any]:
    """Status, sentences, and the first thing to do; ``refused``: why a pilot that was read cannot be fitted."""
    sentences: list[str] = []
    status, meaning = "UNKNOWN", whole(refused or missing.get("pilot", NOT_READ))
    if fit is not None:
        status, meaning = fit.status.name, fit.status.sentence
        sentences += _of_plan(plan) if plan is not None else _of_fit(fit, missing, level)
    if diagnosis is not None:
        sentences.append(f"The run: {diagnosis.verdict}")
    return {
        "status": status,
        "status_sentence": meaning,
        "sentences": sentences,
        "first": first_step(fit, plan, diagnosis, missing, refused),
    }


def _of_plan(plan: Plan) -> list[str]:
    design, dead = plan.recommended.design, plan.recommended.dead
    steps = "" if design.steps is None else f" for {counted(design.steps, 'step')}"
    doubt = doubtful(plan.fit)
    before = "" if doubt is None else f"Provisional ({doubt.name}): "
    groups = f"{'g' if before else 'G'}roups of {design.group_size}"
    setting = f"{before}{groups}, {counted(design.prompts_per_step, 'prompt')} a step{steps}"
    return [
        f"{setting}{_choice(plan)}.",
        _brings(plan),
        *([_usual(plan.fit, dead)] if plan.fit.fitted_prompts > 1 else []),
    ]


def _choice(plan: Plan) -> str:
    """Why this group size, after the design."""
    if len(plan.frontier) == 1:
        return ", the only group size that was compared"
    if plan.objective != "signal":
        return f": picked by {plan.objective}"
    low, high = plan.flat_range
    ends = (
        f"kappa = {plan.kappa.value:.3g}"
        if plan.kappa.value is not None
        else f"any kappa from {plan.kappa.low:g} to {plan.kappa.high:g}"
    )
    if low == high:
        return f": no other group size of the table comes near, for {ends}"
    best = f"at {ends} it makes at least {1.0 - plan.recommended.worst_regret:.0%} of the best G's progress"
    worst = max(p.worst_regret for p in plan.frontier if low <= p.design.group_size <= high)
    return f": {best}, any G from {low} to {high} at least {1.0 - worst:.0%}"


def _brings(plan: Plan) -> str:
    """Dead and mixed groups of a step; by their limits alone where the value says little."""
    dead, batch, prompts = plan.recommended.dead, plan.recommended.batch, plan.recommended.design.prompts_per_step
    vague = dead.value is None or dead.high - dead.low > TOO_WIDE or doubtful(plan.fit) is FitStatus.TOO_FEW_PROMPTS
    if plan.cost_model.refill:
        share = f"Between {_percent(dead.low)} and {_percent(dead.high)}" if vague else _share(dead)
        return f"{share} of the groups drawn are expected to be dead and are replaced."
    if vague:
        low, high = (prompts * (1.0 - end) for end in (dead.high, dead.low))
        return (
            f"Between {_percent(dead.low)} and {_percent(dead.high)} of the groups are expected to be dead, so between "
            f"{low:,.0f} and {high:,.0f} of {prompts:,} groups a step carry signal on average: the pilot tells no more."
        )
    mixed = batch.mixed_groups
    return (
        f"{_share(dead)} of the groups are expected to be dead, so about {mixed.mean:,.0f} of {prompts:,} groups a "
        f"step carry signal ({mixed.p05:,.0f} to {mixed.p95:,.0f} in 9 of 10 steps)."
    )


def _of_fit(fit: PassRateFit, missing: Mapping[str, str], level: float) -> list[str]:
    d = fit.dead(max(2, fit.max_measured_group_size), level)
    said = [f"{_share(d)} of groups of {d.group_size} are expected to be dead."]
    if "plan" in missing:
        said.append(f"No plan: {whole(missing['plan'])}")
    return said


def _usual(fit: PassRateFit, dead: DeadFraction) -> str:
    """What the formula at the mean pass rate says; whether prompts differ is told by groups that were seen."""
    reach = max(2, fit.max_measured_group_size)
    seen = dead if dead.group_size <= reach else fit.dead(reach, dead.level)
    if seen.iid < seen.low:
        told = "it does not see that prompts differ in difficulty"
    elif seen.iid > seen.high:
        told = "that lies above the interval"
    else:
        told = "this pilot does not show that prompts differ in difficulty"
    return f"The formula at the mean pass rate alone says {_percent(dead.iid)}: {told}."


def _share(d: DeadFraction) -> str:
    value = "An unknown share" if d.value is None else _percent(d.value)
    return f"{value} [{_percent(d.low)}, {_percent(d.high)}]"


def _percent(share: float) -> str:
    """A share in percent with the digits it needs.

    >>> _percent(0.4392), _percent(0.0004), _percent(0.9999), _percent(8e-128)
    ('44 %', '0.04 %', '99.99 %', '<1e-9')
    """
    if 0.0 < share < SMALL:
        return f"<{SMALL:.0e}".replace("e-0", "e-")
    percent = 100.0 * share
    if 1.0 <= percent <= 99.0 or percent in (0.0, 100.0):
        return f"{percent:.0f} %"
    if percent < 1.0:
        return f"{percent:.1g} %"
    return f"{percent:.2f} %" if percent < 99.995 else "over 99.99 %"
