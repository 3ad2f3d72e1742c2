"""tinker-cookbook: arguments of its RL loop, from 0.6."""

from __future__ import annotations

from grpo_plan.trainers._batches import BatchRules, check_recipe, given, newer_note, release
from grpo_plan.trainers._text import counted, python
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST = (0, 6, 0), "0.6.1"


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of tinker-cookbook: groups of 2 or more; nothing depends on hardware, since the service trains."""
    release(version, trainer="tinker", first=FIRST, newest=NEWEST)
    return BatchRules(name="tinker-cookbook")


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Arguments of the dataset builder and of ``tinker_cookbook.rl.train.Config``."""
    check_recipe(recipe)
    release(version, trainer="tinker", first=FIRST, newest=NEWEST)
    design, refill = recipe.design, recipe.refill
    dataset = {"group_size": design.group_size, "batch_size": design.prompts_per_step}
    config = given(
        {
            "temperature": recipe.temperature,
            "max_tokens": recipe.max_response_tokens,
            "num_substeps": 1,
            "max_steps": design.steps,
            "remove_constant_reward_groups": None if refill is None else True,
        }
    )
    versions = f"tinker-cookbook 0.6 and newer (read up to {NEWEST})"
    parts = [
        python(
            dataset,
            counted(versions, design, "batch_size counts groups, one a prompt") + "\n# for your RLDatasetBuilder",
            "dataset",
        ),
        python(config, "# for tinker_cookbook.rl.train.Config", "config"),
    ]
    if refill is not None:
        asynchronous = {
            "max_steps_off_policy": 0,
            "groups_per_batch": design.prompts_per_step,
            "loss_fn": "importance_sampling",
        }
        parts.append(
            python(asynchronous, "# Config(async_config=AsyncConfig(**async_config)): fills each step", "async_config")
        )
        config |= {f"async_config.{key}": value for key, value in asynchronous.items()}
    notes = [
        "On-policy: num_substeps is 1, one optimiser step a generation"
        + ("; max_steps_off_policy = 0 keeps it so while groups are refilled." if refill is not None else "."),
        *_estimator_notes(recipe.estimator),
    ]
    if design.steps is not None:
        notes.append("num_epochs (1 unless set) may end the run before max_steps.")
    if recipe.temperature not in (None, 1.0):
        notes.append("tinker-cookbook advises a temperature of 1; others do not go with its KL penalty.")
    if refill is not None and refill.batch_multiplier > 1.0:
        notes.append("Spare prompts have no key: a dropped group is replaced by a new one.")
    if refill is not None and refill.max_rounds is not None:
        notes.append(f"A limit of {refill.max_rounds} rounds cannot be said: a step waits until it is full.")
    if hardware.micro_batch is not None:
        notes.append("The service trains: a micro-batch has no key, and none is set.")
    return Block(
        trainer="tinker",
        versions=versions,
        language="python",
        text="\n".join(parts),
        settings={**dataset, **config},
        checks=rules(hardware, version).checks(design),
        notes=(*notes, *newer_note(version, title="tinker-cookbook", newest=NEWEST)),
    )


def _estimator_notes(name: str) -> list[str]:
    if name == "dr_grpo":
        return []
    if name == "rloo":
        return ["tinker-cookbook subtracts the group mean, which is rloo times (G - 1) / G: the same plan."]
    return [
        f"tinker-cookbook offers no estimator '{name}': it only subtracts the group mean (no std), which is dr_grpo "
        "and not what was planned. Change compute_advantages in your copy."
    ]


TRAINER = Trainer(
    name="tinker",
    title="tinker-cookbook",
    versions=("0.6",),
    evidence="source 0.6.1 (field names checked against its own classes)",
    estimators=("grpo", "dr_grpo", "rloo"),  # grpo: with a note
    refill_keys=lambda version: RefillKeys(multiplier=False),
    rules=rules,
    block=block,
)
