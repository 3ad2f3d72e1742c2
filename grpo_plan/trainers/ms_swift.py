"""ms-swift: flags of ``swift rlhf --rlhf_type grpo``. Its batch sizes count rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grpo_plan.trainers.base import Block, Hardware, Recipe, Refilling, RefillKeys, Trainer
from grpo_plan.trainers.text import commented, shell_command
from grpo_plan.trainers.trl_family import SCALES, RolloutRules, family_notes, headline, passes_of
from grpo_plan.trainers.versions import pick_range

VERSIONS = ("4.0", "4.6")
ROUNDS = 3  # ms-swift's own default of max_resample_times


def rules(hardware: Hardware, version: str | None) -> RolloutRules:
    """Rules of ms-swift's own `GRPOConfig`."""
    pick_range("ms-swift", VERSIONS, version)
    return RolloutRules(
        name="ms-swift",
        gpus=hardware.gpus,
        micro_batch=hardware.micro_batch,
        total="generation_batch_size",
        per_gpu="per_device_train_batch_size",
    )


def block(recipe: Recipe, hardware: Hardware, version: str | None) -> Block:
    """A command to add model, data and rewards to."""
    found = pick_range("ms-swift", VERSIONS, version)
    design = recipe.design
    passes = passes_of(
        design, hardware, per_gpu="per_device_train_batch_size", accumulation="gradient_accumulation_steps"
    )
    settings: dict[str, Any] = {
        "rlhf_type": "grpo",
        "num_generations": design.group_size,
        "generation_batch_size": design.rollouts_per_step,
        "per_device_train_batch_size": passes.micro_batch,
        "gradient_accumulation_steps": passes.accumulation,
        "max_steps": design.steps,
        "temperature": recipe.temperature,
        "max_completion_length": recipe.max_response_tokens,
        "advantage_estimator": "rloo" if recipe.estimator == "rloo" else "grpo",
        "scale_rewards": SCALES[recipe.estimator],
        "loss_type": "dr_grpo" if recipe.estimator == "dr_grpo" else "grpo",
        "log_completions": True,
        "logging_steps": 1,
    }
    notes = list(family_notes(replace(recipe, estimator="grpo"), hardware, passes, found.note))
    if recipe.refill is not None:
        settings |= {"dynamic_sample": True, "max_resample_times": recipe.refill.max_rounds or ROUNDS}
        notes += _refill_notes(recipe.refill)
    settings = {key: value for key, value in settings.items() if value is not None}
    flags = {f"--{key}": "true" if value is True else value for key, value in settings.items()}
    chosen = replace(hardware, micro_batch=passes.micro_batch)
    return Block(
        trainer="ms-swift",
        versions=found.words,
        language="shell",
        text=f"{commented(headline(recipe, hardware, found.words))}{shell_command(['swift', 'rlhf'], flags)}\n",
        settings=settings,
        checks=rules(chosen, version).checks(design),
        notes=tuple(notes),
    )


def _refill_notes(refill: Refilling) -> list[str]:
    rounds = refill.max_rounds or ROUNDS
    notes = [
        f"dynamic_sample keeps mixed groups over {rounds} rounds of a whole step each; if they do not fill the step, "
        "the first round is trained on as it is, dead groups included."
    ]
    if refill.max_rounds is None:
        notes.append(f"ms-swift has no unlimited refilling: max_resample_times is its default, {ROUNDS}.")
    if refill.batch_multiplier > 1.0:
        notes.append(
            f"ms-swift generates one step's prompts a round: a multiplier of {refill.batch_multiplier:g} is ignored."
        )
    return notes


TRAINER = Trainer(
    name="ms-swift",
    title="ms-swift",
    versions=VERSIONS,
    evidence="run (4.6), source (4.0)",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refill_keys=lambda version: RefillKeys(multiplier=False, cap=True),
    rules=rules,
    block=block,
)
