"""The verdict of a comparison in a few sentences, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.kappa import KappaMeasurement
from grpo_plan.planning.live import Ranged
from grpo_plan.planning.signal import KappaRange
from grpo_plan.remedies.result import NO_MIXED, AtKappa, Effect, EstimatorEffect, SamplingEffect, Turn

NEAR = 10.0  # a kappa this many times beyond an end of the range may be that of the run


def verdict(
    fit: PassRateFit,
    dead: DeadFraction,
    reference: str,
    estimators: Sequence[EstimatorEffect],
    sampling: Sequence[SamplingEffect],
    kappa: KappaRange,
) -> tuple[str, ...]:
    """What would help most on this pilot, what would not, and what it cannot tell."""
    now = f"At G = {dead.group_size}, {_dead_words(dead)}."
    if dead.value is None:
        return f"Cannot tell what any remedy would do: {fit.status.sentence}", now
    if set(fit.statuses) & set(NO_MIXED):
        return _hopeless(fit, dead), now
    options: list[tuple[str, Effect, Sequence[AtKappa], Turn | None]] = [
        (e.name, e.effect, e.progress, e.turn)
        for e in estimators
        if e.same_plan_as is None and e.name != reference and not e.refused
    ]
    options += [(s.name, s.effect, s.progress or (), s.turn) for s in sampling[1:] if s.effect is not None]
    helping = sorted((o for o in options if o[1] is Effect.HELPS), key=lambda o: -_worst(o[2]))
    over = f"kappa {kappa.value:.3g}" if kappa.known else f"every kappa shown ({kappa.low:g} to {kappa.high:g})"
    if helping:
        best = helping[0]
        others = f" Also: {_listed([o[0] for o in helping[1:]])}." if helping[1:] else ""
        said = [
            f"Most helpful in this model: {best[0]}, at least {_worst(best[2]):.2f} times the progress of {reference} "
            f"at G = {dead.group_size} per rollout at {over}.{others}"
        ]
    else:
        said = [f"Nothing here is sure to make more progress per rollout than {reference} at {over}."]
    asked = f"kappa {kappa.low:.3g}" if kappa.low == kappa.high else f"kappa {kappa.low:g} to {kappa.high:g}"
    turns = [(name, e, turn) for name, e, _, turn in options if turn is not None and near_turn(turn, kappa)]
    better = [f"{name} {kappa_words(turn)}" for name, e, turn in turns if e is Effect.DOES_NOT_HELP]
    worse = [f"{name} {kappa_words(_other_side(turn))}" for name, e, turn in turns if e is Effect.HELPS]
    for names, words in ((better, "these would help"), (worse, "these stop helping")):
        if names:
            said.append(f"Outside {asked}, but near it, {words}: {_listed(names)}.")
    groups = (
        (Effect.DOES_NOT_HELP, f"Would not help at {asked}" if better else "Would not help"),
        (Effect.ABOUT_THE_SAME, "About the same"),
        (Effect.DEPENDS_ON_KAPPA, "Measure kappa first, it decides"),
        (Effect.CANNOT_TELL, "Cannot tell"),
    )
    for effect, words in groups:
        names = [_named(name, turn, e) for name, e, _, turn in options if e is effect]
        if names:
            said.append(f"{words}: {_listed(names)}.")
    return (*said, now)


def near_turn(turn: Turn, kappa: KappaRange) -> bool:
    """Whether an order turns outside the range of kappa, within a factor `NEAR` of its end.

    >>> near_turn(Turn(better="below", kappa=Ranged(value=0.4, low=0.3, high=0.5)), KappaRange(low=1.0, high=300.0))
    True
    """
    at = None if turn.kappa is None else turn.kappa.value
    return at is not None and (kappa.low / NEAR <= at < kappa.low or kappa.high < at <= kappa.high * NEAR)


def _other_side(turn: Turn) -> Turn:
    """The turn as seen from the reference."""
    return replace(turn, better="above" if turn.better == "below" else "below")


def kappa_words(turn: Turn) -> str:
    """Where a design is ahead, with the limits of the turn.

    >>> kappa_words(Turn(better="below", kappa=Ranged(value=0.0123, low=0.0, high=0.05)))
    'below 0.0123 [0, 0.05], if at all'
    """
    if turn.kappa is None or turn.kappa.value is None:
        return {"everywhere": "at every kappa", "nowhere": "at no kappa"}.get(turn.better, "the same")
    return f"{turn.better} {turn_numbers(turn.kappa)}{', if at all' if unsure(turn) else ''}"


def turn_numbers(kappa: Ranged) -> str:
    """A kappa of any size with its limits, to three digits.

    >>> turn_numbers(Ranged(value=0.00213, low=0.0, high=None))
    '0.00213 [0, none]'
    """
    high = "none" if kappa.high is None else f"{kappa.high:.3g}"
    return f"{'?' if kappa.value is None else f'{kappa.value:.3g}'} [{kappa.low:.3g}, {high}]"


def unsure(turn: Turn) -> bool:
    """Whether the pilot allows that the design is ahead nowhere."""
    if turn.kappa is None:
        return False
    return turn.kappa.low == 0.0 if turn.better == "below" else turn.kappa.high is None


def _named(name: str, turn: Turn | None, effect: Effect) -> str:
    """A name, with where it is ahead if kappa decides."""
    if effect is not Effect.DEPENDS_ON_KAPPA or turn is None or turn.kappa is None or turn.kappa.value is None:
        return name
    return f"{name} (more {kappa_words(turn)})"


def _dead_words(dead: DeadFraction) -> str:
    value = "an unknown share" if dead.value is None else f"{dead.value:.3f}"
    text = f"{value} [{dead.low:.3f}, {dead.high:.3f}] of the groups {'is' if dead.value is None else 'are'} dead"
    if dead.all_fail is not None and dead.all_pass is not None:
        text += f": {dead.all_fail:.3f} all-fail, {dead.all_pass:.3f} all-pass"
    return f"{text} ({dead.status.name})" if dead.status is not FitStatus.OK else text


def _hopeless(fit: PassRateFit, dead: DeadFraction) -> str:
    """What can be said where no group of the pilot is mixed."""
    sentence = next(status for status in fit.statuses if status in NO_MIXED).sentence
    kind = "fail" if FitStatus.NO_SUCCESS in fit.statuses else "pass" if FitStatus.NO_FAILURE in fit.statuses else ""
    pushed = f" Sign would push every rollout {'down' if kind == 'fail' else 'up'}, right or wrong." if kind else ""
    return (
        "Cannot tell what a remedy would do: no prompt of the pilot is mixed, and an advantage cannot tell rollouts "
        f"of one reward apart.{pushed} {sentence} Other prompts come first."
    )


def _worst(progress: Sequence[AtKappa]) -> float:
    return min((at.ratio.low for at in progress), default=0.0)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def elsewhere(fit: PassRateFit, group_size: int, hinted: bool, variants: bool) -> tuple[str, ...]:
    """Remedies that this table cannot judge alone."""
    least = 2.0 ** (1 - group_size)
    several = len(fit.pilot.temperatures) > 1
    temperature = (
        "the pilot holds several: grpo-plan temperature compares them on the same prompts"
        if several
        else "the pilot holds one, and no formula leads from it to another: grpo-plan temperature takes a pilot at two"
    )
    notes = [
        "Group size: grpo-plan plan weighs it with what prompts, tokens and steps cost.",
        f"Other mix of prompts: no mix has fewer dead groups than prompts at p = 1/2, {least:.2g} at G = {group_size}; "
        "grpo-plan mix says what these prompts allow.",
        f"Temperature: {temperature}.",
    ]
    if not hinted:
        notes.append("Hints: what they do to pass rates must be stated: --hint-odds 3, or --hint-gain 0.2.")
    if not variants:
        notes.append("Pooled variants of a prompt: --variants 4, with --variant-spread for variants that differ.")
    return tuple(notes)


def claims(estimators: Sequence[EstimatorEffect]) -> tuple[str, ...]:
    """What others published and what was measured, beside this model's answer for Sign."""
    sign = next((e for e in estimators if e.name == "sign"), None)
    notes = [
        "Published (theirs, not checked here): Sign 73.8 % against 28.4 % of mean-centred advantages at G = 4, on "
        "GSM8K with a 9B model over 7 seeds; the gap closes at larger G (Nie et al., arXiv 2605.07689).",
        "Measured on a small transformer, hard prompts (p < .1), G = 4: Sign took the mean pass rate from .024 to .038 "
        "at its best learning rate and lost the policy at higher ones; mean-centred advantages took it to .158 to .192 "
        "(docs/remedies.md). The two do not agree.",
    ]
    if sign is not None and sign.turn is not None and sign.progress and sign.progress[0].ratio.value is not None:
        ends = ", ".join(f"{at.ratio.value:.2f} at kappa {at.kappa:.3g}" for at in sign.progress if at.ratio.value)
        notes.append(
            f"This model, on this pilot: Sign makes {ends} of the reference's progress, and is {_where(sign.turn)}."
        )
    return tuple(notes)


def _where(turn: Turn) -> str:
    """Where an estimator is ahead of the reference."""
    if turn.kappa is None or turn.kappa.value is None:
        return {"everywhere": "ahead at every kappa", "nowhere": "behind at every kappa"}.get(turn.better, "equal")
    return f"ahead at kappa {kappa_words(turn)} only"


def assumptions(
    fit: PassRateFit, kappa: KappaRange, given: object, coherence: float, joint: int, least_noise: float | None
) -> tuple[str, ...]:
    """What the numbers take for granted."""
    if isinstance(given, KappaMeasurement):
        first = f"kappa as measured, {kappa.low:.3g} to {kappa.high:.3g}; it changes with the policy."
    elif kappa.known:
        first = f"kappa = {kappa.value:g}, as given; it changes with the policy."
    else:
        first = (
            f"kappa, taken between {kappa.low:g} and {kappa.high:g}: it is not known from rewards. grpo_plan.probe "
            "measures it."
        )
    notes = [
        first,
        "In this model (theory.md, eq. 24) the noise of a score is the same after a pass and a fail, and steps are "
        "noise-dominated. Clipping, KL, several updates a batch and what Adam does to the scale are not in it.",
        "Progress is that of the mean pass rate. An estimator with another objective (maxrl, weights on hard prompts) "
        "may do well by its own.",
        "Ratios are for equal rollouts and the best learning rate of each; their limits hold for all "
        f"{joint} of the tables at once, those of shares and turns one by one.",
        f"Gradients of different prompts have cosine {coherence:g}."
        if coherence
        else "Gradients of different prompts are taken as unrelated (coherence 0).",
    ]
    if least_noise is not None and least_noise < 1.0:
        notes.insert(
            1,
            "The ratios are for steps that noise dominates; here the noise to signal of a step falls to "
            f"{least_noise:.2g}, so estimators and group sizes differ less than the ratios say.",
        )
    if FitStatus.TOO_FEW_PROMPTS in fit.statuses:
        notes.insert(0, "Under 30 prompts: no remedy is judged, whatever its interval says.")
    notes += [f"{status.name}: {status.sentence}" for status in fit.statuses if status is not FitStatus.OK]
    return tuple(notes)
