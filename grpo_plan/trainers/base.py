"""What every trainer's module gives: its rules, and the block of configuration that carries a design out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, as_positive
from grpo_plan.costs import Design
from grpo_plan.errors import DomainError
from grpo_plan.estimators import Estimator
from grpo_plan.rules import DesignRules, RuleCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the trainer's divisibility rules depend on.

    Attributes:
        gpus: Data-parallel GPUs that train, at least 1.
        micro_batch: Rollouts per GPU in one forward and backward pass; None: the block picks the largest that divides.
    """

    gpus: int = 1
    micro_batch: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        object.__setattr__(self, "gpus", as_count(self.gpus, "gpus"))
        if self.micro_batch is not None:
            object.__setattr__(self, "micro_batch", as_count(self.micro_batch, "micro_batch"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refilling:
    """Dynamic sampling, as a block asks for it.

    Attributes:
        batch_multiplier: Prompts generated per prompt wanted in one round, at least 1.
        max_rounds: Generation rounds of a step before the trainer gives up; None: no limit.
    """

    batch_multiplier: float = 1.0
    max_rounds: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        object.__setattr__(self, "batch_multiplier", as_positive(self.batch_multiplier, "batch_multiplier"))
        if self.max_rounds is not None:
            object.__setattr__(self, "max_rounds", as_count(self.max_rounds, "max_rounds"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a block of configuration has to say.

    Attributes:
        design: Group size, prompts per step, steps.
        estimator: Advantage estimator, a name of `grpo_plan.estimators`.
        temperature: Sampling temperature; None leaves the trainer's own.
        max_response_tokens: Longest response; None leaves the trainer's own.
        refill: Dynamic sampling; None: off.
    """

    design: Design
    estimator: str = "grpo"
    temperature: float | None = None
    max_response_tokens: int | None = None
    refill: Refilling | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Block(Shown):
    """Configuration in the trainer's own language, ready to paste.

    Attributes:
        trainer: Name of the trainer.
        versions: Versions that it is for, in words.
        language: "python", "yaml", "toml" or "shell".
        text: The block.
        settings: The same as data: the trainer's own key to its value.
        checks: The trainer's rules on this design.
        notes: What the block cannot say, one sentence each.
    """

    trainer: str
    versions: str
    language: str
    text: str
    settings: Mapping[str, Any] = field(repr=False)
    checks: tuple[RuleCheck, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefillKeys:
    """What a trainer's keys can say about dynamic sampling.

    Attributes:
        multiplier: Whether a generation batch can hold more prompts than the step.
        cap: Whether the rounds can be limited.
        stops: Whether reaching that limit ends the run.
    """

    multiplier: bool = True
    cap: bool = False
    stops: bool = False


def _multiplier_alone(version: str | None) -> RefillKeys:
    return RefillKeys()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """One trainer.

    Attributes:
        name: How it is asked for, e.g. "trl".
        title: How it calls itself.
        versions: Versions that the blocks are written for, oldest change first, e.g. ("0.28", "1.16").
        evidence: How the keys and rules are known: "run", "source" or "documentation", with the version.
        estimators: Advantage estimators that a block of this trainer can express.
        refills: Whether a block can ask for dynamic sampling: dead groups replaced until a step is full.
        refill_keys: ``version -> keys``: what the block can say about it.
        rules: ``(hardware, version) -> rules``.
        block: ``(recipe, hardware, version) -> block``.
    """

    name: str
    title: str
    versions: tuple[str, ...]
    evidence: str
    estimators: tuple[str, ...] = ("grpo", "dr_grpo", "rloo")
    refills: bool = True
    refill_keys: Callable[[str | None], RefillKeys] = _multiplier_alone
    rules: Callable[[Hardware, str | None], DesignRules]
    block: Callable[[Recipe, Hardware, str | None], Block]


SAME_PLAN = {  # estimators of one plan: which of two stds, or which number of the batch, is the trainer's own choice
    "grpo_sample": "grpo",
    "gdpo": "grpo",
    "opo": "dr_grpo",
    "gpg": "dr_grpo",
    "reinforce_plus_plus_baseline": "grpo_batch",
}


def offered_estimator(trainer: Trainer, estimator: Estimator) -> str:
    """The name under which a trainer's block asks for an estimator.

    Raises:
        DomainError: Its blocks cannot; the message says what can.
    """
    name = "grpo" if estimator.name == "grpo_sample" else estimator.name
    if name in trainer.estimators and not estimator.changed:
        return name
    if name == "dapo":
        advice = "DAPO is grpo with dead groups filtered out: use grpo and --refill"
    elif SAME_PLAN.get(name) in trainer.estimators:
        advice = f"{SAME_PLAN[name]} has the same plan: use it"
    else:
        advice = f"Use {', '.join(trainer.estimators)}"
    raise DomainError(f"{trainer.title} blocks cannot ask for the estimator {estimator.label!r}. {advice}.")
