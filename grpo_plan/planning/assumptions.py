"""What a plan takes for granted, gravest first."""

from __future__ import annotations

from grpo_plan.costs import CostModel
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.kappa import KappaMeasurement, KappaStatus, Measured
from grpo_plan.planning.plan import PlannedDesign
from grpo_plan.planning.signal import KappaRange

UNKNOWN_DEAD = (
    "The comparison of group sizes rests on the mixed groups alone: where noise dominates a step, prompts that never "
    "or always pass scale the progress of every design by one factor. The numbers of dead and mixed groups, and costs "
    "that depend on them, need the number of dropped groups."
)


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
        high = f"no upper limit: planned up to {kappas.high:.3g}" if ends.high is None else f"{ends.high:.3g}"
        notes.append(
            f"kappa {known} [{ends.low:.3g}, {high}]: the gradients of {measurement.prompts:,} prompts, with this "
            f"pilot's pass rates.{_other_prompts(measurement, ends)} It changes with the policy."
        )
        notes += [status.sentence for status in measurement.statuses if status is not KappaStatus.OK]
    elif kappas.known:
        notes.append(
            f"That the score noise over contrast, kappa, is {kappas.value:g}, as given; it changes with the policy."
        )
    else:
        notes.append(
            f"kappa, taken between {kappas.low:g} and {kappas.high:g}. grpo_plan.probe measures it on your own model, "
            "from some 4,000 rollouts (docs/choosing.md, section 3)."
        )
    if chosen.dead.status in (FitStatus.EXTRAPOLATED, FitStatus.BEYOND_REACH):
        notes.append(
            f"D({chosen.dead.group_size}) lies far beyond the pilot's {fit.max_measured_group_size} rollouts per "
            "prompt: trust its interval, not its value."
        )
    for status in fit.statuses:
        if status is not FitStatus.OK:
            notes.append(status.sentence)
    if fit.unknown_dead:
        notes.append(UNKNOWN_DEAD)
    notes.append(
        "The upper end of the flat range is optimistic: in measured training of a small model large G did worse than "
        "predicted. Every G is taken at its own best learning rate: fewer prompts a step want a smaller one "
        "(docs/validation.md)."
    )
    notes.append("The plan is for the current policy: pass rates move, so pilot again every 50 steps or so.")
    notes.append(
        "Prompts of a step are drawn at random from the pilot's population; rollouts of a prompt are independent."
    )
    ratio = chosen.noise_to_signal
    if ratio is not None and ratio.value is not None and ratio.value < 1.0:
        notes.append(
            f"The formulas hold where noise dominates a step; here its noise to signal is {ratio.value:.2g}, so group "
            "sizes differ less than the table says: fewer prompts a step and more steps would use the budget better."
        )
    else:
        notes.append(
            "Steps are noise-dominated: more steps and more prompts a step count alike"
            + (f"; gradients of different prompts have cosine {coherence:g}." if coherence else ".")
        )
    if cost.prompt_rollouts:
        notes.append(f"A prompt costs {cost.prompt_rollouts:g} rollouts before its first rollout.")
    return (*notes, *cost.assumptions())


def _other_prompts(measurement: KappaMeasurement, ends: Measured) -> str:
    """A warning where the probe's own pass rates give another kappa than the pilot's."""
    own = measurement.kappa
    if own is None or measurement.kappa_source != "rewards" or own.value is None or ends.value is None:
        return ""
    if (own.high is None or ends.low <= own.high) and (ends.high is None or own.low <= ends.high):
        return ""
    return (
        f" The probe's own pass rates give {own.value:.3g} [{own.low:.3g}, "
        f"{'no upper limit' if own.high is None else format(own.high, '.3g')}]: its prompts are harder or easier than "
        "the pilot's. Probe prompts like those of the pilot."
    )
