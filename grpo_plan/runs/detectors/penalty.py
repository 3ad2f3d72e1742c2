"""Dead groups in a run with a penalty on the distance to the reference: that penalty is all that moves them."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.quantities import Absent, Stage
from grpo_plan.runs.detectors.common import absent, evidence_of, in_words, late_share, too_little
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Clear, Finding, Outcome, Severity, Skipped
from grpo_plan.runs.learning import Learning, learning_curve
from grpo_plan.runs.measured import Measured

SPEAK, MOSTLY = 0.10, 0.70  # dead fractions
ROWS_TO_JUDGE = 30
REWARD = "reward"
LOSS = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltyKey:
    """A setting that is the weight of the penalty.

    Attributes:
        key: Its name.
        place: Where the penalty enters: ``loss``, or ``reward`` (or advantage).
        switch: Setting that has to be on; empty if the weight alone says it.
        off: Setting that turns it off; empty without one.
        before_scaling: Whether it is part of the rewards that a group is scaled by.
    """

    key: str
    place: str = LOSS
    switch: str = ""
    off: str = ""
    before_scaling: bool = False


BETA = (PenaltyKey(key="beta"),)
KEYS: dict[str, tuple[PenaltyKey, ...]] = {
    "trl": BETA,
    "ms-swift": BETA,
    "open-instruct": BETA,
    "verl": (
        PenaltyKey(key="actor_rollout_ref.actor.kl_loss_coef", switch="actor_rollout_ref.actor.use_kl_loss"),
        PenaltyKey(
            key="algorithm.kl_ctrl.kl_coef", place=REWARD, switch="algorithm.use_kl_in_reward", before_scaling=True
        ),
    ),
    "easyr1": (PenaltyKey(key="algorithm.kl_coef", off="algorithm.disable_kl"),),
    "openrlhf": (
        PenaltyKey(key="algo.kl.init_coef", switch="algo.kl.use_loss"),
        PenaltyKey(key="algo.kl.init_coef", place=REWARD),
        PenaltyKey(key="init_kl_coef", switch="use_kl_loss"),
        PenaltyKey(key="init_kl_coef", place=REWARD),
    ),
    "nemo-rl": (PenaltyKey(key="loss_fn.reference_policy_kl_penalty"),),
    "skyrl": (PenaltyKey(key="trainer.algorithm.kl_loss_coef", switch="trainer.algorithm.use_kl_loss"),),
    "slime": (PenaltyKey(key="kl_loss_coef", switch="use_kl_loss"), PenaltyKey(key="kl_coef", place=REWARD)),
    "roll": (PenaltyKey(key="kl_loss_coef", switch="use_kl_loss"),),
    "tinker": (PenaltyKey(key="kl_penalty_coef", place=REWARD),),
}
LOGGED_IF_ON = {"trl": "kl", "verl": "actor/kl_loss", "easyr1": "actor/kl_loss"}  # metrics that only a penalty brings


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """The weight of the penalty, None where it is only known to be above 0; and what says so."""

    weight: float | None
    words: str
    place: str = LOSS
    before_scaling: bool = False


FIELD = "kl_coefficient of DiagnosisSettings."


def penalty_of(facts: Facts) -> Penalty | None:
    """The penalty of a run, from the settings, its log, or what the user says; None if nothing tells."""
    given, view = facts.settings.kl_coefficient, facts.view
    if given is not None:
        return Penalty(weight=given, words="as given")
    zero = None
    for key in KEYS.get(view.tool or "", BETA if view.tool is None else ()):
        value = _number(view.setting(key.key))
        if value is None or (key.switch and not _on(view.setting(key.switch))):
            continue
        if value == 0.0 or (key.off and _on(view.setting(key.off))):
            zero = Penalty(weight=0.0, words=key.key if value == 0.0 else key.off)
            continue
        return Penalty(weight=value, words=key.key, place=key.place, before_scaling=key.before_scaling)
    if zero is not None:
        return zero
    off = [key for key in KEYS.get(view.tool or "", ()) if key.switch]
    if off and all(_said_off(view.setting(key.switch)) for key in off):
        return Penalty(weight=0.0, words=", ".join(dict.fromkeys(key.switch for key in off)))
    logged = LOGGED_IF_ON.get(view.tool or "")
    if logged is not None and logged in view:
        return Penalty(weight=None, words=f"{view.names[logged]} is logged, as with a penalty only")
    return None


def kl_only_gradient(facts: Facts) -> Outcome:
    """Rollouts of dead groups that only the pull towards the reference moves."""
    id, penalty, dead = "KL_ONLY_GRADIENT", penalty_of(facts), facts.dead
    if penalty is None:
        keys = dict.fromkeys(key.key for key in KEYS.get(facts.view.tool or "", ()))
        where = f"the settings beside the log ({' or '.join(keys)}), or " if keys else ""
        return Skipped(
            id=id,
            needs=f"the weight of the penalty on the distance to the reference: {where}{FIELD}",
        )
    if penalty.weight == 0.0:
        return Clear(
            id=id, because=f"there is no penalty on the distance to the reference ({penalty.words}: 0 or off)."
        )
    if isinstance(dead, Absent):
        return absent(id, dead)
    if dead.stage is Stage.BEFORE:
        return Clear(
            id=id, because=f"dead groups are dropped before training ({dead.words}): the penalty does not act on them."
        )
    window, share = late_share(facts, dead)
    weight = "above 0" if penalty.weight is None else f"{penalty.weight:g}"
    seen = f"{in_words(share)} of groups are dead in {window.span}, with a penalty of weight {weight} ({penalty.words})"
    if share.undecided(SPEAK):
        return too_little(id, "the dead fraction", share, window)
    if share.low <= SPEAK:
        return Clear(id=id, because=f"{seen}.")
    curve = learning_curve(facts)
    stuck = not curve.improving and curve.learning is not Learning.UNKNOWN and dead.rows >= ROWS_TO_JUDGE
    kl = facts.measured("kl")
    pull = "only the penalty moves them, back to the reference"
    if penalty.before_scaling:
        pull = "the penalty is part of their rewards, so that its noise is scaled up to a full advantage"
    return Finding(
        id=id,
        severity=Severity.WARNING if share.low > MOSTLY and stuck else Severity.INFO,
        says=f"{seen}: {pull}; {curve.says}.",
        onset_step=None,
        evidence={
            **evidence_of("late_dead_fraction", share),
            "rollout_fraction": share.value,
            "kl_coefficient": penalty.weight,
            "penalty_in": penalty.place,
            "before_scaling": penalty.before_scaling,
            "late_kl_mean": facts.late(kl).mean if isinstance(kl, Measured) else None,
            "reward": curve.learning.value,
            "rows": window.rows,
        },
        remedy="Put the penalty into the loss, or leave dead groups out of the batch."
        if penalty.before_scaling
        else "Nothing, while the run improves. Where it does not: leave dead groups out of the loss, lower the weight, "
        "or change the prompts so that fewer groups are dead.",
        reference="docs/theory.md, section 1: a dead group has advantages of 0, and the penalty is what is left.",
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0.0 <= number < float("inf") else None


def _on(value: object) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on")


def _said_off(value: object) -> bool:
    return value is not None and not _on(value)
