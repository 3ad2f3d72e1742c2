"""Axolotl: YAML with ``rl: grpo`` and a ``trl:`` section. Its batch sizes count rollouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grpo_plan.errors import DomainError
from grpo_plan.trainers.base import Block, Hardware, Recipe, Trainer
from grpo_plan.trainers.text import commented, yaml_block
from grpo_plan.trainers.trl_family import RolloutRules, family_notes, headline, passes_of
from grpo_plan.trainers.versions import VersionRange, at_least, pick_range

VERSIONS = ("0.12", "0.16", "0.19", "0.21")
SCALES: dict[str, bool | str] = {"grpo": True, "dr_grpo": False, "rloo": False, "grpo_batch": "batch"}


def rules(hardware: Hardware, version: str | None) -> RolloutRules:
    """Rules of Axolotl's own validation and of the TRL inside it."""
    found = pick_range("Axolotl", VERSIONS, version)
    return RolloutRules(
        name="Axolotl",
        gpus=hardware.gpus,
        micro_batch=hardware.micro_batch,
        total="generation_batch_size",
        per_gpu="micro_batch_size",
        group_on_every_gpu=hardware.gpus > 1 and at_least(found.since, "0.19"),
    )


def block(recipe: Recipe, hardware: Hardware, version: str | None) -> Block:
    """YAML to put into the run's configuration."""
    found = pick_range("Axolotl", VERSIONS, version)
    passes = passes_of(recipe.design, hardware, per_gpu="micro_batch_size", accumulation="gradient_accumulation_steps")
    design = recipe.design
    settings: dict[str, Any] = {
        "rl": "grpo",
        "micro_batch_size": passes.micro_batch,
        "gradient_accumulation_steps": passes.accumulation,
    }
    if design.steps is not None:
        settings["max_steps"] = design.steps
    settings |= {"logging_steps": 1, "trl": _trl_section(recipe, found)}
    comments = {
        "micro_batch_size": "rollouts per GPU",
        "gradient_accumulation_steps": (
            f"{design.rollouts_per_step} rollouts a step / ({passes.micro_batch} x {hardware.gpus})"
        ),
        "trl.num_generations": "rollouts per prompt",
        "trl.generation_batch_size": f"rollouts: {design.prompts_per_step} prompts x {design.group_size}",
    }
    notes = list(family_notes(recipe, hardware, passes, found.note))
    chosen = replace(hardware, micro_batch=passes.micro_batch)
    return Block(
        trainer="axolotl",
        versions=found.words,
        language="yaml",
        text=f"{commented(headline(recipe, hardware, found.words))}{yaml_block(settings, comments)}\n",
        settings=settings,
        checks=rules(chosen, version).checks(design),
        notes=tuple(notes),
    )


def _trl_section(recipe: Recipe, found: VersionRange) -> dict[str, Any]:
    if recipe.estimator == "grpo_batch" and not at_least(found.since, "0.19"):
        raise DomainError(f"Axolotl scales rewards by the batch's std from 0.19 on; asked for: {found.words}.")
    section: dict[str, Any] = {"num_generations": recipe.design.group_size}
    if at_least(found.since, "0.16"):
        section["generation_batch_size"] = recipe.design.rollouts_per_step
    if recipe.temperature is not None:
        section["temperature"] = recipe.temperature
    if recipe.max_response_tokens is not None:
        section["max_completion_length"] = recipe.max_response_tokens
    default_loss = "dapo" if at_least(found.since, "0.16") else "bnpo"  # as the TRL pinned by the version has it
    section["loss_type"] = "dr_grpo" if recipe.estimator == "dr_grpo" else default_loss
    section["scale_rewards"] = SCALES[recipe.estimator]
    section["log_completions"] = True
    return section


TRAINER = Trainer(
    name="axolotl",
    title="Axolotl",
    versions=VERSIONS,
    evidence="run (0.21), source (0.12, 0.16, 0.19)",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refills=False,
    rules=rules,
    block=block,
)
