"""TRL: keyword arguments of `GRPOConfig`. Its batch sizes count rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grpo_plan.errors import DomainError
from grpo_plan.trainers.base import Block, Hardware, Recipe, Trainer
from grpo_plan.trainers.text import commented, python_call
from grpo_plan.trainers.trl_family import SCALES, RolloutRules, family_notes, headline, passes_of
from grpo_plan.trainers.versions import VersionRange, at_least, pick_range

VERSIONS = ("0.19", "0.22", "0.28", "1.16")


def rules(hardware: Hardware, version: str | None) -> RolloutRules:
    """Rules of `GRPOConfig` (its ``__post_init__``)."""
    pick_range("TRL", VERSIONS, version)
    return RolloutRules(
        name="TRL",
        gpus=hardware.gpus,
        micro_batch=hardware.micro_batch,
        total="generation_batch_size",
        per_gpu="per_device_train_batch_size",
    )


def block(recipe: Recipe, hardware: Hardware, version: str | None) -> Block:
    """Keyword arguments of `GRPOConfig`, as Python."""
    found = pick_range("TRL", VERSIONS, version)
    keys, comments = settings_of(recipe, hardware, found)
    passes = passes_of(
        recipe.design, hardware, per_gpu="per_device_train_batch_size", accumulation="gradient_accumulation_steps"
    )
    notes = list(family_notes(recipe, hardware, passes, found.note))
    if not at_least(found.since, "0.28"):
        notes.append(
            "Before 0.28 TRL writes no completion files: keep the logged tables if you want a pilot from them."
        )
    call = python_call("GRPOConfig", keys, comments)
    chosen = replace(hardware, micro_batch=passes.micro_batch)
    return Block(
        trainer="trl",
        versions=found.words,
        language="python",
        text=f"{commented(headline(recipe, hardware, found.words))}from trl import GRPOConfig\n\n{call}\n",
        settings=keys,
        checks=rules(chosen, version).checks(recipe.design),
        notes=tuple(notes),
    )


def settings_of(recipe: Recipe, hardware: Hardware, found: VersionRange) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings of `GRPOConfig` and a comment on some of them."""
    design = recipe.design
    passes = passes_of(design, hardware, per_gpu="", accumulation="")
    settings: dict[str, Any] = {
        "num_generations": design.group_size,
        "generation_batch_size": design.rollouts_per_step,
        "per_device_train_batch_size": passes.micro_batch,
        "gradient_accumulation_steps": passes.accumulation,
    }
    comments = {
        "num_generations": "rollouts per prompt",
        "generation_batch_size": f"rollouts: {design.prompts_per_step} prompts x {design.group_size}",
        "per_device_train_batch_size": "rollouts",
        "gradient_accumulation_steps": (
            f"{design.rollouts_per_step} / ({passes.micro_batch} x {hardware.gpus}): one generation per step"
        ),
    }
    if design.steps is not None:
        settings["max_steps"] = design.steps
    if recipe.temperature is not None:
        settings["temperature"] = recipe.temperature
    if recipe.max_response_tokens is not None:
        settings["max_completion_length"] = recipe.max_response_tokens
    settings |= loss_settings(recipe.estimator, found)
    settings |= {"log_completions": True, "logging_steps": 1}
    return settings, comments


def loss_settings(estimator: str, found: VersionRange) -> dict[str, Any]:
    """Loss and scale of an advantage estimator, as the version names them."""
    named = at_least(found.since, "0.22")  # scale_rewards is a name from 0.22 on; before, whether to scale by group
    if estimator == "grpo_batch" and not named:
        raise DomainError(f"TRL scales rewards by the batch's std from 0.22 on; asked for: {found.words}.")
    scale = SCALES[estimator]
    loss = "dr_grpo" if estimator == "dr_grpo" else "dapo" if named else "bnpo"
    return {"loss_type": loss, "scale_rewards": scale if named else scale == "group"}


TRAINER = Trainer(
    name="trl",
    title="TRL",
    versions=VERSIONS,
    evidence="run (0.19, 0.22, 0.27, 0.28, 1.0, 1.14, 1.16)",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refills=False,
    rules=rules,
    block=block,
)
