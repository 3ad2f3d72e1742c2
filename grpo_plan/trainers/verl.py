"""verl: hydra overrides of its main trainer; filtering in it from 0.9, only in the DAPO recipe before."""

from __future__ import annotations

from math import ceil
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
from grpo_plan.trainers._text import counted, overrides, shell
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST = (0, 5, 0), "0.9.1"
MAIN, DAPO = "python3 -m verl.trainer.main_ppo", "python3 -m recipe.dapo.main_dapo"
RULE = (
    "data.train_batch_size x rollout.n must be a multiple of the GPUs (and of actor.ppo_micro_batch_size_per_gpu on "
    "each): verl refuses a remainder over the GPUs and pads or cuts one over the micro-batches"
)

_OVER_TOKENS = "takes mean and std over all tokens of the batch, so long responses weigh more in them."
_OFFERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "grpo": ({"algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True}, None),
    "dr_grpo": (
        {
            "algorithm.adv_estimator": "grpo",
            "algorithm.norm_adv_by_std_in_grpo": False,
            "actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-sum-norm",
        },
        None,
    ),
    "rloo": ({"algorithm.adv_estimator": "rloo"}, None),
    "grpo_batch": (
        {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"},
        "reinforce_plus_plus_baseline subtracts the group mean and scales by the std over all tokens of the batch, so "
        "long responses weigh more in the scale.",
    ),
    "reinforce_plus_plus_baseline": (
        {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"},
        f"reinforce_plus_plus_baseline {_OVER_TOKENS}",
    ),
    "reinforce_plus_plus": (
        {"algorithm.adv_estimator": "reinforce_plus_plus"},
        f"reinforce_plus_plus {_OVER_TOKENS}",
    ),
    "opo": (
        {"algorithm.adv_estimator": "opo"},
        "opo weighs the rewards of its baseline by length; planned is equal lengths.",
    ),
    "gpg": ({"algorithm.adv_estimator": "gpg"}, None),
    "grpo_passk": (
        {"algorithm.adv_estimator": "grpo_passk", "algorithm.norm_adv_by_std_in_grpo": True},
        "grpo_passk trains on the best rollout of a group alone, and not at all on groups with two passes or more.",
    ),
}


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of verl on this hardware."""
    release(version, trainer="verl", first=FIRST, newest=NEWEST)
    return BatchRules(name="verl", multiples=(whole_micro_batches(RULE, hardware),))


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """Overrides for ``verl.trainer.main_ppo``; for the DAPO recipe where 0.8 or older has to filter."""
    check_recipe(recipe)
    numbers = release(version, trainer="verl", first=FIRST, newest=NEWEST)
    design, v1 = recipe.design, numbers >= (0, 9)
    micro = micro_batch(design, hardware)
    offered, note = _OFFERS.get(
        recipe.estimator,
        (
            _OFFERS["grpo"][0],
            f"verl offers no estimator '{recipe.estimator}': the block sets grpo, which is not what was planned. Write "
            "your own with verl's register_adv_est.",
        ),
    )
    settings = given(
        {
            "data.train_batch_size": design.prompts_per_step,
            "data.max_response_length": recipe.max_response_tokens,
            "actor_rollout_ref.rollout.n": design.group_size,
            "actor_rollout_ref.rollout.temperature": recipe.temperature,
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": micro,
            "actor_rollout_ref.actor.ppo_mini_batch_size": design.prompts_per_step,
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": micro,
            **offered,
            "trainer.total_training_steps": design.steps,
        }
    )
    versions = f"verl 0.9 and newer (read up to {NEWEST})" if v1 else "verl 0.5 to 0.8"
    notes = [
        "On-policy: ppo_mini_batch_size, which counts prompts, is the whole batch: one optimiser step a generation.",
        "algorithm.adv_estimator is gae unless set.",
        *([note] if note else []),
        *(["The group std is the sample std (n - 1), plus 1e-6."] if recipe.estimator == "grpo" else []),
        *_refill(recipe, numbers, settings),
        *hardware_notes(hardware, "ppo_micro_batch_size_per_gpu", micro),
        *newer_note(version, title="verl", newest=NEWEST),
    ]
    launcher = DAPO if recipe.refill is not None and not v1 else MAIN
    comment = counted(versions, design, "data.train_batch_size and ppo_mini_batch_size count prompts")
    return Block(
        trainer="verl",
        versions=versions,
        language="shell",
        text=shell(launcher, overrides(settings, capital=True), comment),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _refill(recipe: Recipe, numbers: tuple[int, ...], settings: dict[str, Any]) -> list[str]:
    """Add the keys of filtering; what they cannot say."""
    refill = recipe.refill
    if refill is None:
        return []
    settings["algorithm.filter_groups.enable"] = True
    if numbers < (0, 9):
        settings["algorithm.filter_groups.metric"] = "seq_reward"
        settings["algorithm.filter_groups.max_num_gen_batches"] = refill.max_rounds or 0
        settings["data.gen_batch_size"] = generated_prompts(recipe)
        return [
            "Up to 0.8 the main trainer ignores filter_groups: the block starts the DAPO recipe, which is not in the "
            "PyPI package (verl's recipes), and it stops the run with an error after max_num_gen_batches rounds."
        ]
    extra = numbers < (0, 9, 1)
    settings["algorithm.filter_groups.metric"] = "acc" if extra else "reward"
    settings["algorithm.filter_groups.max_inflight_gen_batches"] = ceil(refill.batch_multiplier - 1e-9)
    notes = [
        "filter_groups needs a rule-based reward (or a reward model with its own resource pool); verl refills prompt "
        "by prompt, and max_inflight_gen_batches, a whole number, bounds what is generated at once."
    ]
    if extra:
        notes.append("In 0.9.0 filter_groups.metric must be a key of your reward's extra info, here acc.")
    if refill.max_rounds is not None:
        notes.append(
            f"A limit of {refill.max_rounds} rounds cannot be said: from 0.9 verl ignores max_num_gen_batches and "
            "refills until the step is full."
        )
    return notes


def _refill_keys(version: str | None) -> RefillKeys:
    """The DAPO recipe, up to 0.8, stops the run at its cap; from 0.9 there is none."""
    recipe = release(version, trainer="verl", first=FIRST, newest=NEWEST) < (0, 9)
    return RefillKeys(cap=recipe, stops=recipe)


TRAINER = Trainer(
    name="verl",
    title="verl",
    versions=("0.5", "0.9", "0.9.1"),
    evidence="run 0.9.1, 0.9.0, 0.8.0 (hydra configuration and batch checks, without a GPU); source of the DAPO recipe",
    estimators=tuple(_OFFERS),
    refill_keys=_refill_keys,
    rules=rules,
    block=block,
)
