"""SkyRL: overrides of its training entry point, from 0.3."""

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
from grpo_plan.trainers._text import counted, overrides, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST = (0, 3, 0), "0.4.0"
LAUNCHER = "python3 -m skyrl.train.entrypoints.main_base"
RULE = (
    "trainer.policy_mini_batch_size (here train_batch_size) x generator.n_samples_per_prompt must be a multiple of "
    "GPUs x trainer.micro_train_batch_size_per_gpu; SkyRL rounds down over the GPUs first, which leaves some short"
)

_OFFERS: dict[str, dict[str, Any]] = {
    "grpo": {"advantage_estimator": "grpo", "grpo_norm_by_std": True},
    "dr_grpo": {"advantage_estimator": "grpo", "grpo_norm_by_std": False},
    "rloo": {"advantage_estimator": "rloo"},
    "maxrl": {"advantage_estimator": "maxrl"},
    "grpo_batch": {"advantage_estimator": "grpo", "grpo_norm_by_std": False, "advantage_batch_normalize": True},
}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of SkyRL on this hardware."""
    release(version, trainer="skyrl", first=FIRST, newest=NEWEST)
    return BatchRules(name="SkyRL", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Overrides for ``skyrl.train.entrypoints.main_base``."""
    check_recipe(recipe)
    release(version, trainer="skyrl", first=FIRST, newest=NEWEST)
    design = recipe.design
    micro = micro_batch(design, hardware)
    offered = _OFFERS.get(recipe.estimator, _OFFERS["grpo"])
    settings = given(
        {
            "trainer.train_batch_size": design.prompts_per_step,
            "trainer.policy_mini_batch_size": design.prompts_per_step,
            "trainer.micro_train_batch_size_per_gpu": micro,
            "trainer.micro_forward_batch_size_per_gpu": micro,
            "trainer.max_training_steps": design.steps,
            **{f"trainer.algorithm.{key}": value for key, value in offered.items()},
            "generator.n_samples_per_prompt": design.group_size,
            "generator.sampling_params.temperature": recipe.temperature,
            "generator.sampling_params.max_generate_length": recipe.max_response_tokens,
        }
    )
    versions = f"SkyRL 0.3 and newer (read up to {NEWEST})"
    notes = [
        "On-policy: policy_mini_batch_size is the whole batch (both count prompts), one optimiser step a generation.",
        *_estimator_notes(recipe.estimator),
        *_refill(recipe, settings),
        *(
            ["trainer.epochs (1 unless set) may end the run before max_training_steps."]
            if design.steps is not None
            else []
        ),
        *hardware_notes(hardware, "trainer.micro_train_batch_size_per_gpu", micro),
        *newer_note(version, title="SkyRL", newest=NEWEST),
    ]
    comment = counted(versions, design, "train_batch_size and policy_mini_batch_size count prompts")
    return Block(
        trainer="skyrl",
        versions=versions,
        language="shell",
        text=shell(LAUNCHER, overrides(settings), comment),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _estimator_notes(name: str) -> list[str]:
    if name == "grpo":
        return ["The group std is the sample std (n - 1), plus 1e-6."]
    if name == "grpo_batch":
        return ["advantage_batch_normalize also recentres over the batch, token by token: long responses weigh more."]
    if name not in _OFFERS:
        return [f"SkyRL offers no estimator '{name}': the block sets grpo, which is not what was planned."]
    return []


def _refill(recipe: Recipe, settings: dict[str, Any]) -> list[str]:
    """Add the keys of dynamic sampling; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["trainer.algorithm.dynamic_sampling.type"] = "filter"
    settings["trainer.algorithm.dynamic_sampling.max_sample_batches"] = refill.max_rounds or -1
    notes = []
    if refill.max_rounds is not None:
        notes.append(f"After {refill.max_rounds} rounds without a full step SkyRL stops the run with an error.")
    if refill.batch_multiplier > 1.0:
        notes.append("Spare prompts have no key: every round generates train_batch_size prompts.")
    return notes


TRAINER = Trainer(
    name="skyrl",
    title="SkyRL",
    versions=("0.3", "0.4"),
    evidence="run 0.3.0 (its field names and batch checks, without a GPU); source 0.4.0",
    estimators=("grpo", "dr_grpo", "rloo", "maxrl", "grpo_batch"),
    refill_keys=lambda version: RefillKeys(multiplier=False, cap=True, stops=True),
    rules=rules,
    block=block,
)
