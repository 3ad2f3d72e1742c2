"""What TRL and the trainers built on it share: the arithmetic of rollouts, GPUs and accumulation steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from grpo_plan.costs import Design
from grpo_plan.errors import DomainError
from grpo_plan.rules import RuleCheck
from grpo_plan.trainers.base import Hardware, Recipe

MIN_GROUP_SIZE = 2
LARGEST_MICRO_BATCH = 16
SCALES = {"grpo": "group", "dr_grpo": "none", "rloo": "none", "grpo_batch": "batch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRules:
    """Rollouts of a step must fill whole passes of all GPUs.

    Attributes:
        name: The trainer, for messages.
        gpus: GPUs that train.
        micro_batch: Rollouts per GPU in one pass; None: to be chosen, so 1 is enough.
        total: The trainer's name for the rollouts of a step.
        per_gpu: The trainer's name for the rollouts per GPU in one pass.
        group_on_every_gpu: Whether a step needs at least one group for each of two or more GPUs.
    """

    name: str
    gpus: int
    micro_batch: int | None
    total: str
    per_gpu: str
    group_on_every_gpu: bool = False

    @property
    def rollout_multiple(self) -> int:
        """Rollouts of a step must be a multiple of this."""
        return self.gpus * (self.micro_batch or 1)

    @property
    def least_prompts(self) -> int:
        """Fewest prompts of a step."""
        return self.gpus if self.group_on_every_gpu else 1

    def prompt_multiple(self, group_size: int) -> int | None:
        """Prompts per step must be a multiple of this; None if no design of this group size is accepted."""
        if group_size < MIN_GROUP_SIZE:
            return None
        base = self.rollout_multiple // gcd(self.rollout_multiple, group_size)
        return base * -(-self.least_prompts // base)

    def checks(self, design: Design) -> tuple[RuleCheck, ...]:
        """Every rule, checked on the design."""
        rollouts, left = design.rollouts_per_step, design.rollouts_per_step % self.rollout_multiple
        passes = f"{self.micro_batch or 1} x {self.gpus} GPU{'s' if self.gpus > 1 else ''}"
        found = [
            RuleCheck(
                rule=f"num_generations >= {MIN_GROUP_SIZE}",
                satisfied=design.group_size >= MIN_GROUP_SIZE,
                detail=f"num_generations {design.group_size} must be at least {MIN_GROUP_SIZE}",
            ),
            RuleCheck(
                rule=f"{self.total} % ({self.per_gpu} x GPUs) == 0",
                satisfied=left == 0,
                detail=f"{self.total} {rollouts} must be a multiple of {self.rollout_multiple} ({passes})",
            ),
        ]
        if self.group_on_every_gpu:
            least = self.least_prompts * design.group_size
            found.append(
                RuleCheck(
                    rule=f"{self.total} >= num_generations x GPUs",
                    satisfied=rollouts >= least,
                    detail=f"{self.total} {rollouts} must be at least {least} (a group for each of {self.gpus} GPUs)",
                )
            )
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How a step's rollouts go through the GPUs.

    Attributes:
        micro_batch: Rollouts per GPU in one pass.
        accumulation: Passes per optimiser step.
        note: What to know when the micro-batch was chosen here; else None.
    """

    micro_batch: int
    accumulation: int
    note: str | None


def passes_of(design: Design, hardware: Hardware, *, per_gpu: str, accumulation: str) -> Passes:
    """The micro-batch, given or chosen, and the passes that make up a step.

    >>> design = Design(group_size=8, prompts_per_step=60, steps=None)
    >>> passes = passes_of(design, Hardware(gpus=8), per_gpu="micro_batch_size", accumulation="accumulation")
    >>> passes.micro_batch, passes.accumulation
    (15, 4)
    """
    share, left = divmod(design.rollouts_per_step, hardware.gpus)
    if left or (hardware.micro_batch is not None and share % hardware.micro_batch):
        raise DomainError(
            f"{design.rollouts_per_step} rollouts a step do not fill whole passes: check the rules first."
        )
    if hardware.micro_batch is not None:
        return Passes(micro_batch=hardware.micro_batch, accumulation=share // hardware.micro_batch, note=None)
    chosen = max(m for m in range(1, LARGEST_MICRO_BATCH + 1) if share % m == 0)
    note = (
        f"{per_gpu} {chosen} was chosen (the largest divisor up to {LARGEST_MICRO_BATCH}); "
        f"{per_gpu} times {accumulation} must stay {share}."
    )
    return Passes(micro_batch=chosen, accumulation=share // chosen, note=note)


def headline(recipe: Recipe, hardware: Hardware, words: str) -> list[str]:
    """What a block is for, as comment lines."""
    design = recipe.design
    steps = "" if design.steps is None else f", {design.steps:,} steps"
    gpus = f"{hardware.gpus} GPU{'s' if hardware.gpus > 1 else ''}"
    return [
        words,
        f"{design.prompts_per_step:,} prompts x {design.group_size:,} rollouts = {design.rollouts_per_step:,} rollouts "
        f"a step on {gpus}{steps}",
    ]


def family_notes(recipe: Recipe, hardware: Hardware, passes: Passes, version_note: str | None) -> tuple[str, ...]:
    """What no block of this family can say."""
    design = recipe.design
    notes = [note for note in (version_note, passes.note) if note]
    if hardware.gpus > 1:
        notes.append(f"The numbers hold for exactly {hardware.gpus} processes: launch with that many.")
    notes.append(
        f"Prompts are taken in chunks of {design.prompts_per_step}: what is left over at the end of an epoch is "
        f"dropped, and a dataset of fewer than {design.prompts_per_step} prompts trains 0 steps without an error."
    )
    if recipe.estimator == "rloo":
        notes.append(
            "Leave-one-out advantages are the mean-centred ones times G/(G-1): the block centres on the group mean."
        )
    return tuple(notes)
