"""NeMo-RL: YAML for run_grpo, from 0.6."""

from __future__ import annotations

from typing import Any

from grpo_plan.trainers._batches import (
    BatchRules,
    check_recipe,
    given,
    hardware_notes,
    micro_batch,
    newer_note,
    release,
    whole_micro_batches,
)
from grpo_plan.trainers._text import counted, yaml
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST = (0, 6, 0), "0.6.0"
RULE = (
    "policy.train_global_batch_size (here num_prompts_per_step x num_generations_per_prompt) must be a multiple of "
    "GPUs x policy.train_micro_batch_size"
)


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of NeMo-RL on this hardware."""
    release(version, trainer="nemo-rl", first=FIRST, newest=NEWEST)
    return BatchRules(name="NeMo-RL", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """YAML to merge into a configuration of ``examples/run_grpo.py``."""
    check_recipe(recipe)
    release(version, trainer="nemo-rl", first=FIRST, newest=NEWEST)
    design = recipe.design
    micro = micro_batch(design, hardware)
    settings = given(
        {
            "grpo.num_prompts_per_step": design.prompts_per_step,
            "grpo.num_generations_per_prompt": design.group_size,
            "grpo.max_num_steps": design.steps,
            **_estimator(recipe.estimator),
            "policy.train_global_batch_size": design.rollouts_per_step,
            "policy.train_micro_batch_size": micro,
            "policy.generation.temperature": recipe.temperature,
            "policy.generation.max_new_tokens": recipe.max_response_tokens,
        }
    )
    versions = f"NeMo-RL 0.6 and newer (read up to {NEWEST})"
    notes = [
        "On-policy: train_global_batch_size, which counts rollouts, is the whole step: one optimiser step a "
        "generation.",
        *_estimator_notes(recipe.estimator),
        *_refill(recipe, settings),
        *(
            ["policy.max_total_sequence_length must hold the prompt and max_new_tokens."]
            if recipe.max_response_tokens is not None
            else []
        ),
        *(
            ["grpo.max_num_epochs (1 unless set) may end the run before max_num_steps."]
            if design.steps is not None
            else []
        ),
        *hardware_notes(hardware, "policy.train_micro_batch_size", micro),
        *newer_note(version, title="NeMo-RL", newest=NEWEST),
    ]
    return Block(
        trainer="nemo-rl",
        versions=versions,
        language="yaml",
        text=yaml(
            settings, counted(versions, design, "num_prompts_per_step counts prompts, train_global_batch_size rollouts")
        ),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _estimator(name: str) -> dict[str, Any]:
    """Both places where 0.6 keeps the two switches, so that neither contradicts the other."""
    if name == "grpo_batch":
        return {"grpo.adv_estimator.name": "reinforce_plus_plus", "grpo.adv_estimator.minus_baseline": True}
    scaled, leave_one_out = name not in ("dr_grpo", "rloo"), name == "rloo"
    return {
        "grpo.normalize_rewards": scaled,
        "grpo.use_leave_one_out_baseline": leave_one_out,
        "grpo.adv_estimator.name": "grpo",
        "grpo.adv_estimator.normalize_rewards": scaled,
        "grpo.adv_estimator.use_leave_one_out_baseline": leave_one_out,
    }


def _estimator_notes(name: str) -> list[str]:
    if name == "grpo_batch":
        return [
            "reinforce_plus_plus subtracts the group mean, then scales over all tokens of the batch, so long responses "
            "weigh more in the scale."
        ]
    if name == "grpo":
        return [
            "The example configurations use a leave-one-out baseline with the std; the block turns it off for GRPO."
        ]
    if name not in ("dr_grpo", "rloo"):
        return [f"NeMo-RL offers no estimator '{name}': the block sets grpo, which is not what was planned."]
    return []


def _refill(recipe: Recipe, settings: dict[str, Any]) -> list[str]:
    """Add the keys of dynamic sampling; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["grpo.use_dynamic_sampling"] = True
    settings["grpo.batch_multiplier"] = refill.batch_multiplier
    if refill.max_rounds is None:
        return ["NeMo-RL always limits the rounds: dynamic_sampling_max_gen_batches stays at its own value, 10."]
    settings["grpo.dynamic_sampling_max_gen_batches"] = refill.max_rounds
    return [f"After {refill.max_rounds} rounds without a full step NeMo-RL stops the run with an error."]


TRAINER = Trainer(
    name="nemo-rl",
    title="NeMo-RL",
    versions=("0.6",),
    evidence="source 0.6.0",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refill_keys=lambda version: RefillKeys(cap=True, stops=True),
    rules=rules,
    block=block,
)
