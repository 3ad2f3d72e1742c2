"""What a comparison of remedies holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from grpo_plan._shown import Shown
from grpo_plan.fitting.estimates import DeadFraction
from grpo_plan.fitting.result import PassRateFit
from grpo_plan.fitting.status import FitStatus
from grpo_plan.planning.live import ByKind, Ranged
from grpo_plan.planning.signal import KappaRange

NO_MIXED = (FitStatus.NO_SUCCESS, FitStatus.NO_FAILURE, FitStatus.ALL_DEAD)


class Effect(Enum):
    """What the limits say of progress beside the reference. The value is the sentence shown to the user."""

    HELPS = "More progress than the reference at every kappa shown: every interval lies above 1."
    ABOUT_THE_SAME = "Within 10 % of the reference at every kappa shown: no interval leaves 0.9 to 1.1."
    DOES_NOT_HELP = "Less progress than the reference at every kappa shown: every interval lies below 1."
    DEPENDS_ON_KAPPA = "More progress than the reference at some kappa shown, less at another: measure kappa."
    CANNOT_TELL = "The intervals hold 1: this pilot and this range of kappa cannot tell."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtKappa:
    """Progress at equal rollouts over that of the reference, at one kappa (theory.md, eq. 119).

    Attributes:
        kappa: Score noise over contrast.
        ratio: The ratio, with limits that hold for every estimator and kappa of the table at once.
        noise_to_signal: Of a step (theory.md, eq. 26); None without prompts per step and a coherence above 0.
    """

    kappa: float
    ratio: Ranged
    noise_to_signal: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where the order of an estimator and the reference turns (theory.md, eq. 119).

    Attributes:
        better: "above" or "below" the kappa; "everywhere", "nowhere", or "equal" where there is no turn.
        kappa: The turning kappa with its limits, beyond which the ratio leaves 1; None where there is no turn. A
            low limit of 0, or none above, says that the pilot allows no turn at all.
    """

    better: str
    kappa: Ranged | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EstimatorEffect(Shown):
    """An advantage estimator on this pilot.

    Attributes:
        name: Its name in the registry.
        description: Its advantage in words.
        objective: What its expected step ascends.
        source: Where it is from.
        same_plan_as: An earlier estimator of the table whose advantages are a constant multiple of these; else None.
        refused: Why it cannot be judged at this group size; empty if it can. Then the numbers below are None.
        live: Share of rollouts with a non-zero advantage, whose backward pass is needed.
        live_by_kind: The same, as parts of all rollouts by kind of group: they add up to ``live``.
        all_fail_advantage: Advantage of each rollout of an all-fail group: below 0 it pushes all of them down.
        all_pass_advantage: Advantage of each rollout of an all-pass group.
        signal: E[t], in units of h (theory.md, eq. 25); its scale is the estimator's own.
        noise: E[v], in units of S**2 over its own scale.
        signal_by_kind: Shares of the signal that each kind of group brings; None where there is no signal.
        noise_by_kind: Shares of the score noise.
        progress: Progress beside the reference at each kappa shown.
        turn: Where the order to the reference turns; None where the pilot has no signal.
        effect: What the limits say.
    """

    name: str
    description: str
    objective: str
    source: str
    same_plan_as: str | None = None
    refused: str = ""
    live: Ranged | None = None
    live_by_kind: ByKind | None = None
    all_fail_advantage: float | None = None
    all_pass_advantage: float | None = None
    signal: float | None = None
    noise: float | None = None
    signal_by_kind: ByKind | None = None
    noise_by_kind: ByKind | None = None
    progress: tuple[AtKappa, ...] = ()
    turn: Turn | None = None
    effect: Effect = Effect.CANNOT_TELL


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SamplingEffect(Shown):
    """Another way to draw the rollouts of a step, on this pilot.

    Attributes:
        name: What is changed.
        group_size: Rollouts of one group.
        rollouts: Rollouts that one prompt of the step takes.
        dead: Share of dead groups among those that are trained on.
        all_fail: Its part without a pass.
        all_pass: Its part without a fail.
        rollouts_per_mixed: Rollouts drawn for one mixed group (theory.md, eq. 122).
        mixed_per_step: Mixed groups of a step at the rollouts of now; None without prompts per step.
        progress: Progress at equal rollouts beside the sampling of now; None where the model does not say.
        turn: Where the order to the sampling of now turns; None where there is no progress to compare.
        effect: What the limits say of it; None where there is no progress.
        status: What the numbers can and cannot say.
        comment: What it does, and what is assumed.
        command: The command that says more; empty if there is none.
    """

    name: str
    group_size: int
    rollouts: Ranged
    dead: Ranged
    all_fail: Ranged
    all_pass: Ranged
    rollouts_per_mixed: Ranged
    mixed_per_step: Ranged | None
    progress: tuple[AtKappa, ...] | None
    turn: Turn | None
    effect: Effect | None
    status: FitStatus
    comment: str
    command: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RemedyComparison(Shown):
    """Remedies for dead groups, compared on one pilot.

    Attributes:
        group_size: G of now.
        reference: Estimator that the others are compared with.
        level: Confidence level; that of the ratios of progress holds for all of them at once.
        kappa: Range of kappa.
        coherence: Mean cosine between the gradients of two prompts.
        prompts_per_step: Groups of a step, if given.
        dead: Dead fraction of now.
        estimators: One entry for each estimator.
        sampling: The sampling of now first, then its changes.
        verdict: What would help most and what would not, a sentence each; the dead fraction of now last.
        elsewhere: Remedies that this pilot cannot judge alone, with the command that does.
        claims: What others published or measured, next to what this model says here.
        assumptions: What the numbers take for granted, gravest first.
    """

    group_size: int
    reference: str
    level: float
    kappa: KappaRange
    coherence: float
    prompts_per_step: int | None
    dead: DeadFraction
    estimators: tuple[EstimatorEffect, ...] = field(repr=False)
    sampling: tuple[SamplingEffect, ...] = field(repr=False)
    verdict: tuple[str, ...]
    elsewhere: tuple[str, ...] = field(repr=False)
    claims: tuple[str, ...] = field(repr=False)
    assumptions: tuple[str, ...] = field(repr=False)
    fit: PassRateFit = field(repr=False)

    @property
    def decided(self) -> bool:
        """Whether the pilot has mixed groups, without which no remedy can be judged."""
        return self.dead.value is not None and not set(self.fit.statuses) & set(NO_MIXED)

    def estimator(self, name: str) -> EstimatorEffect:
        """The entry of one estimator.

        Raises:
            KeyError: It was not compared.
        """
        return next((e for e in self.estimators if e.name == name), None) or _missing(name)

    def __str__(self) -> str:
        """The verdict; the command prints the whole page."""
        return "\n".join(self.verdict)


def _missing(name: str) -> EstimatorEffect:
    raise KeyError(name)
