"""slime: flags of train.py, from 0.3."""

from __future__ import annotations

from typing import Any

from grpo_plan.trainers._batches import (
    BatchRules,
    check_recipe,
    generated_prompts,
    given,
    hardware_notes,
    micro_batch,
    newer_note,
    release,
    whole_micro_batches,
)
from grpo_plan.trainers._text import counted, flags, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, Trainer

FIRST, NEWEST = (0, 3, 0), "0.3.1"
LAUNCHER = "python3 train.py"
FILTER = "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std"
RULE = (
    "--global-batch-size (here --rollout-batch-size x --n-samples-per-prompt, in rollouts) must be a multiple of "
    "GPUs x --micro-batch-size"
)

_OFFERS: dict[str, dict[str, Any]] = {
    "grpo": {"advantage-estimator": "grpo"},
    "dr_grpo": {"advantage-estimator": "grpo", "disable-grpo-std-normalization": True},
    "rloo": {"advantage-estimator": "grpo", "disable-grpo-std-normalization": True},
    "grpo_batch": {"advantage-estimator": "reinforce_plus_plus_baseline", "normalize-advantages": True},
}
_NOTES = {
    "grpo": "The group std is the sample std (n - 1), plus 1e-6.",
    "rloo": "slime has no leave-one-out baseline: it subtracts the group mean, which is rloo times (G - 1) / G: the "
    "same plan.",
    "grpo_batch": "reinforce_plus_plus_baseline subtracts the group mean, then scales over all tokens of the batch, so "
    "long responses weigh more in the scale.",
}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of slime on this hardware."""
    release(version, trainer="slime", first=FIRST, newest=NEWEST)
    return BatchRules(name="slime", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Flags for slime's ``train.py``."""
    check_recipe(recipe)
    release(version, trainer="slime", first=FIRST, newest=NEWEST)
    design = recipe.design
    micro = micro_batch(design, hardware)
    settings = given(
        {
            "num-rollout": design.steps,
            "rollout-batch-size": design.prompts_per_step,
            "n-samples-per-prompt": design.group_size,
            "global-batch-size": design.rollouts_per_step,
            "micro-batch-size": micro,
            "rollout-temperature": recipe.temperature,
            "rollout-max-response-len": recipe.max_response_tokens,
            **_OFFERS.get(recipe.estimator, _OFFERS["grpo"]),
        }
    )
    unknown = f"slime offers no estimator '{recipe.estimator}': the block sets grpo, which is not what was planned."
    note = _NOTES.get(recipe.estimator) if recipe.estimator in _OFFERS else unknown
    versions = f"slime 0.3 and newer (read up to {NEWEST})"
    notes = [
        "On-policy: --global-batch-size, which counts rollouts, is the whole rollout batch, which counts prompts; one "
        "optimiser step a generation.",
        *([note] if note else []),
        *_refill(recipe, settings),
        *hardware_notes(hardware, "--micro-batch-size", micro),
        *newer_note(version, title="slime", newest=NEWEST),
    ]
    comment = counted(versions, design, "--rollout-batch-size counts prompts, --global-batch-size rollouts")
    return Block(
        trainer="slime",
        versions=versions,
        language="shell",
        text=shell(LAUNCHER, flags(settings), comment),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _refill(recipe: Recipe, settings: dict[str, Any]) -> list[str]:
    """Add the flags of dynamic sampling; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["over-sampling-batch-size"] = generated_prompts(recipe)
    settings["dynamic-sampling-filter-path"] = FILTER
    if refill.max_rounds is None:
        return []
    return [f"A limit of {refill.max_rounds} rounds cannot be said: slime samples until the rollout batch is full."]


TRAINER = Trainer(
    name="slime",
    title="slime",
    versions=("0.3",),
    evidence="source 0.3.1 (2026-08-21)",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    rules=rules,
    block=block,
)
