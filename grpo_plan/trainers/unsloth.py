"""Unsloth: TRL's `GRPOConfig` with checks of its own. Its batch sizes count rollouts."""

from __future__ import annotations

from dataclasses import replace

from grpo_plan.errors import DomainError
from grpo_plan.trainers.base import Block, Hardware, Recipe, Trainer
from grpo_plan.trainers.text import commented, python_call
from grpo_plan.trainers.trl import VERSIONS as TRL_VERSIONS
from grpo_plan.trainers.trl import settings_of
from grpo_plan.trainers.trl_family import RolloutRules, family_notes, headline, passes_of
from grpo_plan.trainers.versions import pick_range

VERSIONS = ("2026.1", "2026.10")
TRL_RANGE = ("0.20", "1.15")
HOTTEST = 10.0
SCALES: dict[str, bool | str] = {"grpo": True, "dr_grpo": False, "rloo": False, "grpo_batch": "batch"}
IMPORTS = "import unsloth  # before trl: it replaces GRPOConfig\nfrom trl import GRPOConfig"


def rules(hardware: Hardware, version: str | None) -> RolloutRules:
    """Rules of TRL's `GRPOConfig`, which Unsloth keeps."""
    pick_range("Unsloth", VERSIONS, version)
    return RolloutRules(
        name="Unsloth",
        gpus=hardware.gpus,
        micro_batch=hardware.micro_batch,
        total="generation_batch_size",
        per_gpu="per_device_train_batch_size",
    )


def block(recipe: Recipe, hardware: Hardware, version: str | None) -> Block:
    """Keyword arguments of Unsloth's `GRPOConfig`, as Python."""
    found = pick_range("Unsloth", VERSIONS, version)
    if recipe.temperature is not None and recipe.temperature >= HOTTEST:
        raise DomainError(f"temperature must be below {HOTTEST:g} for Unsloth; got {recipe.temperature:g}.")
    keys, comments = settings_of(recipe, hardware, pick_range("TRL", TRL_VERSIONS, None))
    keys["scale_rewards"] = SCALES[recipe.estimator]  # True and False are read by every TRL that Unsloth takes
    notes = [f"Unsloth trains with the TRL beside it ({TRL_RANGE[0]} to {TRL_RANGE[1]}); that one writes the logs."]
    if recipe.estimator == "grpo_batch":
        notes.append("Scaling by the std of the whole batch needs TRL 0.22 or newer beside Unsloth.")
    if recipe.estimator != "dr_grpo":
        del keys["loss_type"]
        notes.append(
            "loss_type is left to Unsloth: an explicit dapo would also set mask_truncated_completions and epsilon_high."
        )
    notes.append(
        "Keep generation_batch_size: without it Unsloth silently sets per_device_train_batch_size to num_generations "
        "when the rollouts of a step are no multiple of num_generations."
    )
    passes = passes_of(
        recipe.design, hardware, per_gpu="per_device_train_batch_size", accumulation="gradient_accumulation_steps"
    )
    chosen = replace(hardware, micro_batch=passes.micro_batch)
    return Block(
        trainer="unsloth",
        versions=found.words,
        language="python",
        text=f"{commented(headline(recipe, hardware, found.words))}{IMPORTS}\n\n"
        f"{python_call('GRPOConfig', keys, comments)}\n",
        settings=keys,
        checks=rules(chosen, version).checks(recipe.design),
        notes=(*family_notes(recipe, hardware, passes, found.note), *notes),
    )


TRAINER = Trainer(
    name="unsloth",
    title="Unsloth",
    versions=VERSIONS,
    evidence="source (2026.1.4, 2026.10.9); the arguments run through TRL 1.16",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refills=False,
    rules=rules,
    block=block,
)
