"""ROLL: YAML for its RLVR pipeline."""

from __future__ import annotations

from typing import Any

from grpo_plan.trainers._batches import (
    BatchRules,
    Multiple,
    check_recipe,
    dated,
    generated_prompts,
    given,
    hardware_notes,
    micro_batch,
    newer_note,
    whole_micro_batches,
)
from grpo_plan.trainers._text import counted, yaml
from grpo_plan.trainers.base import Block, Hardware, Recipe, Trainer

DATE = "2026-08-19"
DOMAIN = "your_domain"
RULE = (
    "rollout_batch_size x num_return_sequences_in_group must be a multiple of GPUs x per_device_train_batch_size, so "
    "that gradient_accumulation_steps takes up the step in one"
)
MEGATRON_RULE = "rollout_batch_size, which counts prompts, must be a multiple of the GPUs (checked with Megatron)"

_OFFERS: dict[str, tuple[str, str | None, str | None]] = {
    "grpo": ("grpo", "group", "group"),
    "dr_grpo": ("reinforce", "group", None),
    "rloo": ("reinforce", "group", None),
    "grpo_batch": ("reinforce", "group", "batch"),
}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of ROLL on this hardware."""
    dated(version, trainer="roll", date=DATE)
    megatron = Multiple(rule=MEGATRON_RULE, of=hardware.gpus, source=f"{hardware.gpus} GPUs", prompts=True)
    return BatchRules(name="ROLL", multiples=(whole_micro_batches(RULE, hardware), megatron))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """YAML to merge into a configuration of the RLVR pipeline."""
    check_recipe(recipe)
    dated(version, trainer="roll", date=DATE)
    design = recipe.design
    micro = micro_batch(design, hardware)
    estimator, mean, std = _OFFERS.get(recipe.estimator, _OFFERS["grpo"])
    settings = given(
        {
            "rollout_batch_size": design.prompts_per_step,
            "num_return_sequences_in_group": design.group_size,
            "max_steps": design.steps,
            "response_length": recipe.max_response_tokens,
            "ppo_epochs": 1,
            "adv_estimator": estimator,
        }
    )
    settings |= {"norm_mean_type": mean, "norm_std_type": std, "whiten_advantages": False}
    accumulated = max(1, design.rollouts_per_step // (hardware.gpus * micro))
    settings |= given(
        {
            "actor_train.training_args.per_device_train_batch_size": micro,
            "actor_train.training_args.gradient_accumulation_steps": accumulated,
            "actor_infer.generating_args.temperature": recipe.temperature,
        }
    )
    versions = f"ROLL, source of {DATE}"
    notes = [
        "On-policy: gradient accumulation takes up all rollouts of a step, one optimiser step a generation; "
        "rollout_batch_size counts prompts, though its help says samples.",
        *_estimator_notes(recipe.estimator),
        *_refill(recipe, settings),
        *hardware_notes(hardware, "per_device_train_batch_size", micro),
        *newer_note(version, title="ROLL", newest=DATE),
    ]
    return Block(
        trainer="roll",
        versions=versions,
        language="yaml",
        text=yaml(settings, counted(versions, design, "rollout_batch_size counts prompts")),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _estimator_notes(name: str) -> list[str]:
    if name == "rloo":
        return ["ROLL has no leave-one-out baseline: the group mean is rloo times (G - 1) / G: the same plan."]
    if name not in _OFFERS:
        return [f"ROLL offers no estimator '{name}': the block sets grpo, which is not what was planned."]
    if name == "grpo":
        return []
    return ["adv_estimator is reinforce because grpo sets both norms to 'group' whatever the configuration says."]


def _refill(recipe: Recipe, settings: dict[str, Any]) -> list[str]:
    """Add the keys of query filtering; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["is_use_additional_prompts"] = True
    settings["max_additional_running_prompts"] = generated_prompts(recipe) - recipe.design.prompts_per_step
    settings[f"rewards.{DOMAIN}.query_filter_config.type"] = "std_filter"
    settings[f"rewards.{DOMAIN}.query_filter_config.filter_args.std_threshold"] = 0.0
    notes = [f"The filter belongs to a reward domain: put it into each of yours, in place of {DOMAIN}."]
    if refill.max_rounds is not None:
        notes.append(f"A limit of {refill.max_rounds} rounds cannot be said: ROLL samples until the batch is full.")
    return notes


TRAINER = Trainer(
    name="roll",
    title="ROLL",
    versions=(DATE,),
    evidence=f"source {DATE}",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    rules=rules,
    block=block,
)
