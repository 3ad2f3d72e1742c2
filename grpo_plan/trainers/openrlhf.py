"""OpenRLHF: flags of train_ppo_ray, dotted from 0.10.2 and flat before."""

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
from grpo_plan.trainers._text import counted, flags, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST, DOTTED, NEW_TOKENS = (0, 8, 11), "0.11.2", (0, 10, 2), (0, 9, 8)
LAUNCHER = "python3 -m openrlhf.cli.train_ppo_ray"
RULE = (
    "rollout.batch_size x n_samples_per_prompt must be a multiple of GPUs x train.micro_batch_size: DeepSpeed needs "
    "whole accumulation steps, and a remainder would be dropped"
)

_FLAT = {
    "rollout.batch_size": "rollout_batch_size",
    "rollout.n_samples_per_prompt": "n_samples_per_prompt",
    "rollout.micro_batch_size": "micro_rollout_batch_size",
    "rollout.temperature": "temperature",
    "rollout.max_new_tokens": "max_new_tokens",
    "train.batch_size": "train_batch_size",
    "train.micro_batch_size": "micro_train_batch_size",
    "train.num_episodes": "num_episodes",
    "data.max_samples": "max_samples",
    "algo.advantage.estimator": "advantage_estimator",
    "algo.dynamic_filtering_enable": "dynamic_filtering",
    "algo.dynamic_filtering_range": "dynamic_filtering_reward_range",
}

_OFFERS = {"grpo": "group_norm", "dr_grpo": "dr_grpo", "rloo": "rloo", "grpo_batch": "reinforce_baseline"}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of OpenRLHF on this hardware."""
    release(version, trainer="openrlhf", first=FIRST, newest=NEWEST)
    return BatchRules(name="OpenRLHF", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Flags for ``openrlhf.cli.train_ppo_ray``."""
    check_recipe(recipe)
    numbers = release(version, trainer="openrlhf", first=FIRST, newest=NEWEST)
    design, dotted = recipe.design, numbers >= DOTTED
    micro = micro_batch(design, hardware)
    limited = design.steps is not None and recipe.refill is None
    settings: dict[str, Any] = given(
        {
            "rollout.batch_size": design.prompts_per_step,
            "rollout.n_samples_per_prompt": design.group_size,
            "rollout.micro_batch_size": micro,
            "rollout.temperature": recipe.temperature,
            "rollout.max_new_tokens": recipe.max_response_tokens,
            "train.batch_size": design.rollouts_per_step,
            "train.micro_batch_size": micro,
            "algo.advantage.estimator": _OFFERS.get(recipe.estimator, "group_norm"),
            "data.max_samples": design.prompts_per_step * design.steps if limited and design.steps else None,
            "train.num_episodes": 1 if limited else None,
        }
    )
    if recipe.refill is not None:
        settings["algo.dynamic_filtering_enable"] = True
        settings["algo.dynamic_filtering_range"] = (0, 1)
    if not dotted:
        settings = {_flat(key, numbers): value for key, value in settings.items()}
    versions = f"OpenRLHF 0.10.2 and newer (read up to {NEWEST})" if dotted else "OpenRLHF 0.8.11 to 0.10.1"
    notes = [
        "On-policy: the train batch, which counts rollouts, is the whole rollout batch, which counts prompts; one "
        "optimiser step a generation.",
        "The advantage estimator is gae unless set.",
        *_estimator_notes(recipe.estimator),
        *_step_notes(recipe),
        *_refill_notes(recipe),
        *hardware_notes(hardware, "train.micro_batch_size" if dotted else "micro_train_batch_size", micro),
        *newer_note(version, title="OpenRLHF", newest=NEWEST),
    ]
    units = "rollout.batch_size counts prompts, train.batch_size rollouts"
    if not dotted:
        units = "rollout_batch_size counts prompts, train_batch_size rollouts"
    return Block(
        trainer="openrlhf",
        versions=versions,
        language="shell",
        text=shell(LAUNCHER, flags(settings), counted(versions, design, units)),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _flat(key: str, numbers: tuple[int, ...]) -> str:
    """Name of a flag before 0.10.2."""
    if key == "rollout.max_new_tokens" and numbers < NEW_TOKENS:
        return "generate_max_len"
    return _FLAT[key]


def _estimator_notes(estimator: str) -> list[str]:
    if estimator == "grpo":
        return ["group_norm divides by the sample std (n - 1), plus 1e-9."]
    if estimator == "grpo_batch":
        return [
            "reinforce_baseline subtracts the group mean, then the mean and std over all tokens of the batch, so long "
            "responses weigh more in the scale."
        ]
    if estimator not in _OFFERS:
        return [
            f"OpenRLHF offers no estimator '{estimator}': the block sets group_norm, which is not what was planned."
        ]
    return []


def _step_notes(recipe: Recipe) -> list[str]:
    if recipe.design.steps is None:
        return []
    if recipe.refill is not None:
        return [
            f"OpenRLHF has no flag for steps, and refilling uses up prompts: {recipe.design.steps} steps are left out."
        ]
    return [
        "OpenRLHF has no flag for steps: max_samples (prompts) and one episode give them, if the data set has as many "
        "prompts; repeat with more episodes if not."
    ]


def _refill_notes(recipe: Recipe) -> list[str]:
    refill = recipe.refill
    if refill is None:
        return []
    notes = [
        "Filtering needs --reward.remote_url or --train.agent_func_path (before 0.10.2 --remote_rm_url or "
        "--agent_func_path), and keeps groups whose mean reward lies strictly between 0 and 1."
    ]
    if refill.batch_multiplier > 1.0:
        notes.append(
            "Spare prompts are left out: a larger vllm_generate_batch_size needs asynchronous training; OpenRLHF "
            "replaces a dropped group as soon as it is scored."
        )
    if refill.max_rounds is not None:
        notes.append(f"A limit of {refill.max_rounds} rounds cannot be said: OpenRLHF refills until the data end.")
    return notes


TRAINER = Trainer(
    name="openrlhf",
    title="OpenRLHF",
    versions=("0.8.11", "0.10.2", "0.11.2"),
    evidence="run 0.11.2, 0.10.2, 0.10.1, 0.8.11 (its argument parser and, from 0.10.1, its checks, without a GPU)",
    estimators=("grpo", "dr_grpo", "rloo", "grpo_batch"),
    refill_keys=lambda version: RefillKeys(multiplier=False),
    rules=rules,
    block=block,
)
