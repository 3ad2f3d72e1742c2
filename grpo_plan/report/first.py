"""The first thing to do, by one table from the statuses of a fit, or by what a run shows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.plan import Plan

if TYPE_CHECKING:
    from grpo_plan.runs.diagnosis import Diagnosis

ENOUGH = "8 rollouts each of a few hundred prompts"
NO_MEND = ""  # the numbers can be acted on: the plan comes first
# What to do before the numbers are acted on. {n}: rollouts a prompt that the pilot shows; {size}: the plan's group
# size; {half}: rollouts a prompt that would reach it.
MEND: Mapping[FitStatus, str] = MappingProxyType(
    {
        FitStatus.DEPENDENT: "Mend the pilot before you act on it: remove repeats and cached answers, or roll it out "
        "again with every rollout drawn anew.",
        FitStatus.TRUNCATED: "Mend the pilot before you act on it: give the number of dropped groups "
        "(--dropped-groups N), or roll out a pilot that keeps every group.",
        FitStatus.DROPPED_COUNT_DOUBTFUL: "Mend the pilot before you act on it: check the number of dropped groups "
        "(--dropped-groups), which is too small for what the mixed groups show.",
        FitStatus.LOOKS_FILTERED: "Mend the pilot before you act on it: find out what was left out of it. If dead "
        "groups, read it with --truncated and --dropped-groups N; if prompts, with --removed dead; or roll out a pilot "
        "that keeps every group.",
        FitStatus.SELECTED: "Mend the pilot before you act on it: roll out the prompts that were kept once more, as "
        "the counts that chose them are biased.",
        FitStatus.LOOKS_SELECTED: "Mend the pilot before you act on it: find out whether prompts were removed by their "
        "own count. If so, read it with --removed all-pass (or all-fail) or add those prompts again.",
        FitStatus.WEAK_PRIOR: "Mend the pilot before you act on it: roll out the policy that you will train, "
        f"{ENOUGH}, and report on that. These pass rates are of another model.",
        FitStatus.POOLED_POLICIES: "Mend the pilot before you act on it: keep one training step (--policy-steps N), or "
        f"roll out the policy of now, {ENOUGH}. These rollouts are of several policies.",
        FitStatus.OK: NO_MEND,
        FitStatus.NO_SUCCESS: "Pilot easier prompts, or give each of these more rollouts: none has passed.",
        FitStatus.NO_FAILURE: "Pilot harder prompts, or give each of these more rollouts: none has failed.",
        FitStatus.SINGLE_ROLLOUT: "Mend the pilot before you act on it: roll out every prompt at least twice, better 8 "
        "times. One rollout a prompt shows the mean pass rate alone.",
        FitStatus.FEW_ROLLOUTS: "Mend the pilot before you act on it: roll out every prompt at least twice, better 8 "
        "times. Few prompts of it have two rollouts.",
        FitStatus.ALL_DEAD: "Pilot prompts that pass at times and fail at times, or give each of these more rollouts: "
        "no prompt of the pilot is mixed.",
        FitStatus.TOO_FEW_PROMPTS: f"Mend the pilot before you act on it: roll out more prompts, best {ENOUGH}. Under "
        "30 prompts tell too little.",
        FitStatus.UNDERDISPERSED: "Mend the pilot before you act on it: find out whether its rollouts are cached, "
        "deduplicated or filtered, and roll it out again if so.",
        FitStatus.UNEVEN_ROLLOUTS: "Mend the pilot before you act on it: find out whether sampling was stopped by "
        "outcome, and give every prompt the same number of rollouts.",
        FitStatus.DEAD_KINDS_UNKNOWN: NO_MEND,
        FitStatus.EXTRAPOLATED: "Check before the run: pilot some prompts with {half} rollouts each or more. The plan "
        "has groups of {size}, and the pilot shows groups of up to {n}.",
        FitStatus.BEYOND_REACH: "Check before the run: pilot some prompts with {half} rollouts each or more. The "
        "interval at groups of {size} is too wide to act on, and the pilot shows groups of up to {n}.",
        FitStatus.UNKNOWN: "Check before the run: pilot some prompts with {half} rollouts each or more. What groups of "
        "{size} bring is not known, and the pilot shows groups of up to {n}.",
    }
)
PLAN_AGAIN = "plan again after some hundred steps: pass rates move"


def doubtful(fit: PassRateFit) -> FitStatus | None:
    """The gravest status that must be mended before a fit is acted on; None where there is none."""
    return next((status for status in fit.statuses if MEND[status]), None)


def first_step(
    fit: PassRateFit | None,
    plan: Plan | None,
    diagnosis: Diagnosis | None,
    missing: Mapping[str, str],
    refused: str | None = None,
) -> str:
    """What to do first, in whole sentences: of a run with a finding, then of a pilot to mend, then of the plan."""
    if diagnosis is not None and (grave := diagnosis.at_least("warning")):
        return f"{whole(grave[0].remedy)} The run shows {grave[0].id}: {whole(grave[0].says, start=False)}"
    told = _of_pilot(fit, plan, missing, refused)
    return told if diagnosis is None else f"The run shows no warning. For the next run: {told[:1].lower()}{told[1:]}"


def _of_pilot(fit: PassRateFit | None, plan: Plan | None, missing: Mapping[str, str], refused: str | None) -> str:
    if fit is None:
        if refused is not None:
            return f"Mend how the pilot is read, then report again. {whole(refused)}"
        return f"Roll out a pilot of the policy that shall be trained: {ENOUGH}."
    reach = fit.max_measured_group_size
    if (status := doubtful(fit)) is not None:
        return MEND[status]
    if plan is None:
        reason = missing.get("plan", "There is no plan.")
        return f"Change the budget or another option of the plan, then report again. {whole(reason)}"
    design, dead = plan.recommended.design, plan.recommended.dead
    if mend := MEND[dead.status]:
        return mend.format(n=reach, size=design.group_size, half=max(reach + 1, -(-design.group_size // 2)))
    setting = f"Train with groups of {design.group_size} and {counted(design.prompts_per_step, 'prompt')} a step"
    low, high = plan.sensitivity[0], plan.sensitivity[-1]
    if plan.objective == "signal" and plan.kappa.value is None and low.group_size != high.group_size:
        won = f"at most {plan.recommended.worst_regret:.0%} of the progress hangs on it"
        return (
            f"{setting}, and measure kappa in the first step: the best G is {low.group_size} at kappa {low.kappa:g} "
            f"and {high.group_size} at kappa {high.kappa:g}, and {won}."
        )
    return f"{setting}, and {PLAN_AGAIN}."


def whole(text: str, *, start: bool = True) -> str:
    """A text as whole sentences: it ends with a stop, and starts as one unless it goes on after a colon.

    >>> whole("raise it"), whole("Raise it.", start=False)
    ('Raise it.', 'Raise it.')
    """
    text = text.strip()
    if start and text[:1].islower():
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "prompt"), counted(1200, "step")
    ('1 prompt', '1,200 steps')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
