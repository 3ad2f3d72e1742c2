"""EasyR1: overrides of its trainer (a fork of verl with its own keys)."""

from __future__ import annotations

from typing import Any

from grpo_plan.trainers._batches import (
    BatchRules,
    check_recipe,
    dated,
    generated_prompts,
    given,
    hardware_notes,
    micro_batch,
    newer_note,
    whole_micro_batches,
)
from grpo_plan.trainers._text import counted, overrides, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

DATE = "2026-07-30"
LAUNCHER = "python3 -m verl.trainer.main config=examples/config.yaml"
RULE = (
    "worker.actor.global_batch_size (here data.rollout_batch_size) x worker.rollout.n must be a multiple of "
    "GPUs x micro_batch_size_per_device_for_update"
)

_OFFERS = {"grpo": "grpo", "rloo": "rloo"}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of EasyR1 on this hardware."""
    dated(version, trainer="easyr1", date=DATE)
    return BatchRules(name="EasyR1", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Overrides for EasyR1's ``verl.trainer.main``."""
    check_recipe(recipe)
    dated(version, trainer="easyr1", date=DATE)
    design = recipe.design
    micro = micro_batch(design, hardware)
    settings = given(
        {
            "data.rollout_batch_size": design.prompts_per_step,
            "data.max_response_length": recipe.max_response_tokens,
            "worker.rollout.n": design.group_size,
            "worker.rollout.temperature": recipe.temperature,
            "worker.actor.global_batch_size": design.prompts_per_step,
            "worker.actor.micro_batch_size_per_device_for_update": micro,
            "worker.actor.micro_batch_size_per_device_for_experience": micro,
            "algorithm.adv_estimator": _OFFERS.get(recipe.estimator, _nearest(recipe.estimator)),
            "trainer.max_steps": design.steps,
        }
    )
    versions = f"EasyR1, source of {DATE}"
    notes = [
        "On-policy: worker.actor.global_batch_size is the whole batch (both count prompts), one optimiser step a "
        "generation.",
        *_estimator_notes(recipe.estimator),
        *_refill(recipe, settings),
        *(
            ["trainer.total_epochs (15 unless set) may end the run before max_steps."]
            if design.steps is not None
            else []
        ),
        *hardware_notes(hardware, "micro_batch_size_per_device_for_update", micro),
        *newer_note(version, title="EasyR1", newest=DATE),
    ]
    comment = counted(versions, design, "data.rollout_batch_size and worker.actor.global_batch_size count prompts")
    return Block(
        trainer="easyr1",
        versions=versions,
        language="shell",
        text=shell(LAUNCHER, overrides(settings), comment),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _nearest(estimator: str) -> str:
    """The estimator to fall back on: rloo is dr_grpo up to a constant factor."""
    return "rloo" if estimator == "dr_grpo" else "grpo"


def _estimator_notes(name: str) -> list[str]:
    if name == "grpo":
        return ["The group std is the sample std (n - 1), plus 1e-6."]
    if name == "dr_grpo":
        return ["EasyR1 cannot leave out the std in grpo: the block sets rloo, which is dr_grpo times G / (G - 1)."]
    if name not in _OFFERS:
        return [f"EasyR1 offers no estimator '{name}': the block sets grpo, which is not what was planned."]
    return []


def _refill(recipe: Recipe, settings: dict[str, Any]) -> list[str]:
    """Add the keys of online filtering; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["algorithm.online_filtering"] = True
    settings["algorithm.filter_key"] = "overall"
    settings["algorithm.filter_low"] = 0.01
    settings["algorithm.filter_high"] = 0.99
    settings["data.mini_rollout_batch_size"] = generated_prompts(recipe)
    settings["trainer.max_try_make_batch"] = -1 if refill.max_rounds is None else refill.max_rounds
    return [
        "Groups stay whose mean of the reward 'overall' lies between filter_low and filter_high: set them just inside "
        "the lowest and highest reward. A round that keeps nothing ends the run with an error."
    ]


TRAINER = Trainer(
    name="easyr1",
    title="EasyR1",
    versions=(DATE,),
    evidence=f"source {DATE}",
    estimators=("grpo", "dr_grpo", "rloo"),
    refill_keys=lambda version: RefillKeys(cap=True, stops=True),
    rules=rules,
    block=block,
)
