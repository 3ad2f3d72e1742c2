"""prime-rl: TOML, in the keys of 0.8 and later or of 0.3 to 0.5; 0.6 and 0.7 are refused."""

from __future__ import annotations

from typing import Any

from grpo_plan.errors import DomainError
from grpo_plan.trainers._batches import BatchRules, check_recipe, given, newer_note, release
from grpo_plan.trainers._text import counted, toml
from grpo_plan.trainers.base import Block, Hardware, Recipe, RefillKeys, Trainer

FIRST, NEWEST = (0, 3, 0), "0.8"
MAX_INFLIGHT = 1024
SOURCE = "orchestrator.train.source"


def rules(hardware: Hardware, version: str | None = None) -> BatchRules:
    """Rules of prime-rl: groups of 2 or more.

    Its batch must hold whole groups, which a design always does, and it packs by tokens whatever the hardware.
    """
    _numbers(version)
    return BatchRules(name="prime-rl")


def block(recipe: Recipe, hardware: Hardware, version: str | None = None) -> Block:
    """TOML for the ``rl`` entry point."""
    check_recipe(recipe)
    numbers = _numbers(version)
    design, current = recipe.design, numbers >= (0, 8)
    settings, refill_notes = (_current if current else _older)(recipe)
    versions = f"prime-rl 0.8 and newer (read up to {NEWEST})" if current else "prime-rl 0.3 to 0.5"
    notes = [
        "One optimiser step a batch. prime-rl generates while it trains, so rollouts may come from older weights: "
        + (
            "max_off_policy_steps (8 unless set) bounds their age."
            if current
            else "max_async_level (1 unless set; 0 is on-policy) bounds their age."
        ),
        *_estimator_notes(recipe.estimator, current=current),
        *refill_notes,
        *(
            ["prime-rl packs rollouts by tokens (seq_len): a micro-batch of rollouts has no key, and none is set."]
            if hardware.micro_batch is not None
            else []
        ),
        *newer_note(version, title="prime-rl", newest=NEWEST),
    ]
    return Block(
        trainer="prime-rl",
        versions=versions,
        language="toml",
        text=toml(
            settings, counted(versions, design, "orchestrator.batch_size counts rollouts"), arrays=frozenset({SOURCE})
        ),
        settings=settings,
        checks=rules(hardware, version).checks(design),
        notes=tuple(notes),
    )


def _numbers(version: str | None) -> tuple[int, ...]:
    numbers = release(version, trainer="prime-rl", first=FIRST, newest=NEWEST)
    if (0, 6) <= numbers < (0, 8):
        raise DomainError(
            f"Blocks for prime-rl are written for 0.3 to 0.5 and for 0.8 and later; got {version}, whose keys changed "
            "between the two. Use 0.8 or later."
        )
    return numbers


def _current(recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Keys of 0.8, and what they cannot say about refilling."""
    design, refill = recipe.design, recipe.refill
    settings = given(
        {
            "max_steps": design.steps,
            "orchestrator.batch_size": design.rollouts_per_step,
            "orchestrator.group_size": design.group_size,
            "orchestrator.algo.type": "max_rl" if recipe.estimator == "maxrl" else "grpo",
            "orchestrator.concurrency.max_inflight": design.group_size if design.group_size > MAX_INFLIGHT else None,
            "orchestrator.train.sampling.temperature": recipe.temperature,
            "orchestrator.train.sampling.max_completion_tokens": recipe.max_response_tokens,
        }
    )
    notes = []
    if refill is None:
        notes.append("Groups without advantage are cut from the batch after it is full (filter_zero_advantages).")
    else:
        gate = f"{SOURCE}.curriculum.gates.mixed_groups"
        settings[f"{SOURCE}.env.taskset.id"] = "your-taskset"
        settings |= {f"{gate}.type": "advantage_range", f"{gate}.reject_min": 0.0, f"{gate}.reject_max": 0.0}
        notes.append(
            "The gate, which admits mixed groups alone, belongs to a source: put it into each of yours, in place of "
            "your-taskset."
        )
        notes += _unsaid(refill.batch_multiplier, refill.max_rounds, multiplier_key=False)
    return settings, notes


def _older(recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Keys of 0.3 to 0.5, and what they cannot say about refilling."""
    design, refill = recipe.design, recipe.refill
    settings = given(
        {
            "max_steps": design.steps,
            "orchestrator.batch_size": design.rollouts_per_step,
            "orchestrator.rollouts_per_example": design.group_size,
            "orchestrator.oversampling_factor": None if refill is None else refill.batch_multiplier,
            "orchestrator.sampling.temperature": recipe.temperature,
            "orchestrator.sampling.max_tokens": recipe.max_response_tokens,
            "orchestrator.buffer.online_difficulty_filtering": None if refill is None else True,
        }
    )
    if refill is None:
        return settings, []
    notes = ["online_difficulty_filtering drops groups whose mean reward is 0.0 or 1.0: for 0/1 rewards, dead groups."]
    return settings, notes + _unsaid(refill.batch_multiplier, refill.max_rounds, multiplier_key=True)


def _unsaid(multiplier: float, max_rounds: int | None, *, multiplier_key: bool) -> list[str]:
    notes = []
    if multiplier > 1.0 and not multiplier_key:
        notes.append("Spare prompts have no key: prime-rl keeps generating, bounded by orchestrator.concurrency.")
    if max_rounds is not None:
        notes.append(f"A limit of {max_rounds} rounds cannot be said: prime-rl generates until the batch is full.")
    return notes


def _estimator_notes(name: str, *, current: bool) -> list[str]:
    if name == "dr_grpo" or (name == "maxrl" and current):
        return []
    if name == "rloo":
        return ["prime-rl subtracts the group mean, which is rloo times (G - 1) / G: the same plan."]
    return [
        f"prime-rl offers no estimator '{name}': its grpo only subtracts the group mean (no std), which is dr_grpo "
        "and not what was planned."
    ]


TRAINER = Trainer(
    name="prime-rl",
    title="prime-rl",
    versions=("0.3", "0.8"),
    evidence="source 0.8 (2026-08-21); source of the tags 0.3 to 0.5",
    estimators=("grpo", "dr_grpo", "rloo", "maxrl"),  # grpo: with a note
    refill_keys=lambda version: RefillKeys(multiplier=_numbers(version) < (0, 6)),
    rules=rules,
    block=block,
)
