"""What follows from a refill: a better generation batch, what it rests on, and settings of trainers that have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grpo_plan.batches import Refill, RefillStatus
from grpo_plan.batches.refilling import batch_multiplier_for
from grpo_plan.fitting.status import FitStatus

MORE, FEWER = 1.03, 0.95  # rollouts for a mixed group, of a better generation batch
SHORTER = 0.999  # mixed groups that it holds, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerSettings:
    """Settings of one trainer; ``missing`` says what it cannot do, or which versions ignore them."""

    trainer: str
    settings: tuple[tuple[str, int | float | bool | str], ...]
    missing: str

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        listed = [{"key": key, "value": value} for key, value in self.settings]
        return {"trainer": self.trainer, "settings": listed, "note": self.missing or None}


def trainer_settings(plan: Refill) -> list[TrainerSettings]:
    """The plan in the words of each trainer with dynamic sampling."""
    n, g, size, cap = plan.prompts_per_step, plan.group_size, plan.gen_batch_size, plan.max_rounds
    multiplier = max(1.0, batch_multiplier_for(size, n))
    small = size < n
    sure = plan.at_value if plan.at_high is None else plan.at_high
    nemo_cap = cap or sure.safe_max_rounds or max(10, sure.rounds_to_fill)
    return [
        TrainerSettings(
            trainer="verl, DAPO recipe",
            settings=(
                ("data.train_batch_size", n),
                ("data.gen_batch_size", size),
                ("actor_rollout_ref.rollout.n", g),
                ("algorithm.filter_groups.enable", True),
                ("algorithm.filter_groups.max_num_gen_batches", cap or 0),
            ),
            missing=(
                "The main trainer up to 0.8 ignores filter_groups; from 0.9 on (V1) it refills prompt by prompt "
                "and ignores gen_batch_size and the cap, so the prompts drawn one at a time apply."
            ),
        ),
        TrainerSettings(
            trainer="NeMo-RL",
            settings=(
                ("grpo.num_prompts_per_step", n),
                ("grpo.num_generations_per_prompt", g),
                ("grpo.use_dynamic_sampling", True),
                ("grpo.batch_multiplier", multiplier),
                ("grpo.dynamic_sampling_max_gen_batches", nemo_cap),
            ),
            missing=("batch_multiplier is at least 1: this smaller generation batch cannot be set. " if small else "")
            + ("It always has a cap, 10 by default." if cap is None else ""),
        ),
        TrainerSettings(
            trainer="SkyRL",
            settings=(
                ("trainer.train_batch_size", n),
                ("generator.n_samples_per_prompt", g),
                ("trainer.algorithm.dynamic_sampling.type", "filter"),
                ("trainer.algorithm.dynamic_sampling.max_sample_batches", cap or -1),
            ),
            missing="" if size == n else f"Draws train_batch_size prompts a round: plan with --gen-batch-size {n}.",
        ),
        TrainerSettings(
            trainer="slime",
            settings=(
                ("--rollout-batch-size", n),
                ("--n-samples-per-prompt", g),
                ("--over-sampling-batch-size", max(size, n)),
                (
                    "--dynamic-sampling-filter-path",
                    "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std",
                ),
            ),
            missing=("Over-sampling is at least the rollout batch: this smaller one cannot be set. " if small else "")
            + ("It has no cap." if cap else ""),
        ),
    ]


def better_option(plan: Refill, others: list[Refill]) -> Refill | None:
    """A generation batch with no more rounds, hardly more rollouts for a mixed group, and clearly fewer of one of them.

    It leaves steps no shorter than the plan does.
    """
    now, cost = plan.at_value, rollouts_per_mixed_group(plan)
    found = [
        p
        for p in others
        if p.at_value.rounds.p95 <= now.rounds.p95
        and p.at_value.mixed_groups >= SHORTER * now.mixed_groups
        and rollouts_per_mixed_group(p) <= MORE * cost
        and (p.at_value.rounds.p95 < now.rounds.p95 or rollouts_per_mixed_group(p) < FEWER * cost)
    ]
    return min(found, key=lambda p: (p.at_value.rounds.p95, rollouts_per_mixed_group(p)), default=None)


def rollouts_per_mixed_group(plan: Refill) -> float:
    """Rollouts drawn for a mixed group that a step holds, at the estimate."""
    return plan.at_value.rollouts.mean / plan.at_value.mixed_groups


def assumptions(plan: Refill) -> list[str]:
    """What the numbers rest on, gravest first."""
    notes = []
    if plan.status is not RefillStatus.FILLS:
        notes.append(plan.status.sentence)
    if plan.dead.status is not FitStatus.OK:
        notes.append(plan.dead.status.sentence)
    notes += [
        "Refilling adds no signal to a rollout: dead groups have advantage 0 with or without it. It fixes how many "
        "mixed groups a step has.",
        "D is that of the current policy. As training goes on it moves, mostly up once prompts become easy: look at "
        "the logged rounds, and plan again.",
    ]
    if plan.data_prompts is None:
        notes.append("Prompts are drawn at random from a pool much larger than a step; --data-prompts for a small set.")
    else:
        notes.append(
            "One pass over the data set without replacement, its groups mixed or dead as in one drawing; a prompt that "
            "is dead now may be mixed the next time."
        )
    notes.append(
        "A dead prompt is replaced by another one. Trying the same prompt again until it is mixed has no finite mean "
        "where pass rates reach 0 or 1."
    )
    return notes
