"""open-instruct: flags of grpo_fast."""

from __future__ import annotations

from typing import Any

from grpo_plan.trainers._batches import BatchRules, Fewest, check_recipe, dated, given, newer_note
from grpo_plan.trainers._text import counted, flags, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

DATE = "2026-08-20"
LAUNCHER = "python3 open_instruct/grpo_fast.py"
LONGEST_PROMPT_TOKENS = 2048
RULE = "num_unique_prompts_rollout x num_samples_per_prompt_rollout must give every GPU a rollout to pack"

_OFFERS = {"grpo": "standard", "dr_grpo": "centered", "rloo": "centered"}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of open-instruct: groups of 2 or more; it packs by tokens, so no divisibility."""
    dated(version, trainer="open-instruct", date=DATE)
    return BatchRules(name="open-instruct", fewest=Fewest(rule=RULE, rollouts=hardware.gpus))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Flags for ``open_instruct/grpo_fast.py``."""
    check_recipe(recipe)
    dated(version, trainer="open-instruct", date=DATE)
    design, tokens, refill = recipe.design, recipe.max_response_tokens, recipe.refill
    settings: dict[str, Any] = given(
        {
            "num_unique_prompts_rollout": design.prompts_per_step,
            "num_samples_per_prompt_rollout": design.group_size,
            "total_episodes": design.rollouts,
            "num_epochs": 1,
            "num_mini_batches": 1,
            "advantage_normalization_type": _OFFERS.get(recipe.estimator, "standard"),
            "temperature": recipe.temperature,
            "response_length": tokens,
            "max_prompt_token_length": None if tokens is None else LONGEST_PROMPT_TOKENS,
            "pack_length": None if tokens is None else LONGEST_PROMPT_TOKENS + tokens,
        }
    )
    if refill is not None:
        settings |= {"active_sampling": "true", "filter_zero_std_samples": "true"}
    versions = f"open-instruct, source of {DATE}"
    notes = [
        "One optimiser step a generation (num_epochs and num_mini_batches are 1); open-instruct generates while it "
        "trains, and async_steps (8 unless set) bounds how far ahead.",
        *_estimator_notes(recipe.estimator),
        *_refill_notes(recipe),
    ]
    if design.steps is not None:
        notes.append("total_episodes counts rollouts: steps x prompts x group size.")
    if tokens is not None:
        notes.append(
            f"pack_length must hold prompt and response: the block allows prompts of {LONGEST_PROMPT_TOKENS} tokens."
        )
    if hardware.micro_batch is not None:
        notes.append("per_device_train_batch_size counts packs, not rollouts: the micro-batch is not set.")
    notes.append("A passed check gives a reward of 10 (verification_reward); the plan does not change with the scale.")
    notes += newer_note(version, title="open-instruct", newest=DATE)
    comment = counted(versions, design, "num_unique_prompts_rollout counts prompts, total_episodes rollouts")
    return Block(
        trainer="open-instruct",
        versions=versions,
        language="shell",
        text=shell(LAUNCHER, flags(settings), comment),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _estimator_notes(name: str) -> list[str]:
    if name == "grpo":
        return ["'standard' divides by the population std (n), plus 1e-8: the plan is the same."]
    if name == "rloo":
        return ["'centered' subtracts the group mean, which is rloo times (G - 1) / G: the same plan."]
    if name not in _OFFERS:
        return [f"open-instruct offers no estimator '{name}': the block sets standard (grpo), not what was planned."]
    return []


def _refill_notes(recipe: Recipe) -> list[str]:
    refill = recipe.refill
    if refill is None:
        return [
            "Dead groups are dropped unless --filter_zero_std_samples false: without active_sampling the step shrinks."
        ]
    notes = ["active_sampling needs async_steps above 1 (8 unless set) and filter_zero_std_samples."]
    if refill.batch_multiplier > 1.0:
        notes.append("Spare prompts have no key of their own: async_steps keeps that many batches in flight.")
    if refill.max_rounds is not None:
        notes.append(f"A limit of {refill.max_rounds} rounds cannot be said: a step waits until it is full.")
    return notes


TRAINER = Trainer(
    name="open-instruct",
    title="open-instruct",
    versions=(DATE,),
    evidence=f"source {DATE}",
    estimators=("grpo", "dr_grpo", "rloo"),
    refill_keys=lambda version: RefillKeys(multiplier=False),
    rules=rules,
    block=block,
)
