"""What a plan takes for granted, gravest first."""

from __future__ import annotations

from grpo_plan.costs import CostModel
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.kappa import KappaMeasurement, KappaStatus
from grpo_plan.planning.plan import PlannedDesign
from grpo_plan.planning.signal import KappaRange


def assumptions(
    fit: PassRateFit,
    kappas: KappaRange,
    chosen: PlannedDesign,
    coherence: float,
    cost: CostModel,
    measurement: KappaMeasurement | None = None,
) -> tuple[str, ...]:
    """The assumptions of a plan, one sentence or two each."""
    notes = []
    if measurement is not None:
        known = "unknown" if kappas.value is None else f"{kappas.value:.3g}"
        ends = measurement.kappa_for(fit)
        high = "no upper limit" if ends.high is None else f"{ends.high:.3g}"
        notes.append(
            f"kappa as measured: {known} [{ends.low:.3g}, {high}], from {measurement.prompts:,} prompts. It changes "
            "with the policy."
        )
        notes += [status.sentence for status in measurement.statuses if status is not KappaStatus.OK]
    elif kappas.measured:
        notes.append(
            f"That the score noise over contrast, kappa, is {kappas.value:g}, as given; it changes with the policy."
        )
    else:
        notes.append(
            f"kappa, taken between {kappas.low:g} and {kappas.high:g}. grpo_plan.probe measures it in one step of your "
            "model (docs/choosing.md, section 3)."
        )
    if chosen.dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        notes.append(
            f"D({chosen.dead.group_size}) lies far beyond the pilot's {fit.max_measured_group_size} rollouts per "
            "prompt: trust its interval, not its value."
        )
    for status in fit.statuses:
        if status is not FitStatus.OK:
            notes.append(status.sentence)
    notes.append(
        "The upper end of the flat range is optimistic: in measured training of a small model large G did worse than "
        "predicted."
    )
    notes.append("The plan is for the current policy: pass rates move, so pilot again every 100 steps or so.")
    notes.append(
        "Prompts of a step are drawn at random from the pilot's population; rollouts of a prompt are independent."
    )
    notes.append(
        "Steps are noise-dominated: more steps and more prompts a step count alike, and gradients of different "
        + (f"prompts have cosine {coherence:g}." if coherence else "prompts are unaligned.")
    )
    if cost.prompt_rollouts:
        notes.append(f"A prompt costs {cost.prompt_rollouts:g} rollouts before its first rollout.")
    return (*notes, *cost.assumptions())
