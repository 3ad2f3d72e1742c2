"""Names of metrics by tool: those that are a quantity as they stand, and those that tell a tool from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from grpo_plan.quantities.view import plain

# Plain names of a quantity, the preferred one first. What needs arithmetic or a setting is in the modules beside.
TRL: Mapping[str, tuple[str, ...]] = {
    "reward_mean": ("reward",),
    "response_tokens_mean": ("completions/mean_length", "completion_length"),
    "response_tokens_max": ("completions/max_length",),
    "truncated_fraction": ("completions/clipped_ratio",),
    "entropy": ("entropy",),
    "kl": ("kl",),
    "grad_norm": ("grad_norm",),
    "step_time_s": ("step_time",),
    "generation_batches": ("num_gen_batches", "dapo/num_sampling_attempts"),
}
VERL: Mapping[str, tuple[str, ...]] = {
    "reward_mean": ("critic/score/mean", "critic/rewards/mean"),
    "response_tokens_mean": ("response_length/mean",),
    "response_tokens_max": ("response_length/max",),
    "truncated_fraction": ("response_length/clip_ratio",),
    "failed_fraction": ("response/aborted_ratio",),
    "entropy": ("actor/entropy", "actor/entropy_loss"),
    "kl": ("actor/kl_loss",),
    "grad_norm": ("actor/grad_norm",),
    "step_time_s": ("timing_s/step", "perf/time_per_step"),
    "tokens": ("perf/total_num_tokens",),
    "evicted_groups": ("training/filter_groups/evicted_samples",),
    "generation_batches": ("num_gen_batches", "train/num_gen_batches"),
}
NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "trl": TRL,
    "ms-swift": TRL,
    "verl": VERL,
    "easyr1": {**VERL, "reward_mean": ("reward/overall", "critic/score/mean")},
    "openrlhf": {
        "reward_mean": ("rollout/reward_mean", "reward"),
        "reward_std": ("rollout/reward_std",),
        "group_reward_std": ("group_reward_std",),
        "response_tokens_mean": ("rollout/response_length_mean", "response_length"),
        "truncated_fraction": ("rollout/truncated_rate", "response_clip_ratio"),
        "entropy": ("entropy", "entropy_loss"),
        "kl": ("kl",),
        "grad_norm": ("actor_grad_norm", "grad_norm"),
    },
    "nemo-rl": {
        "reward_mean": ("reward",),
        "generation_batches": ("dynamic_sampling_num_gen_batches",),
        "grad_norm": ("grad_norm",),
        "step_time_s": ("timing/train/total_step_time",),
    },
    "prime-rl": {
        "reward_mean": ("train/agg/all/agent/reward/mean", "reward/all/mean", "reward/mean"),
        "entropy": ("entropy/mean",),
        "grad_norm": ("optim/grad_norm",),
    },
    "skyrl": {"reward_mean": ("reward/avg_raw_reward",), "step_time_s": ("timing/step",)},
    "slime": {
        "reward_mean": ("rollout/raw_reward",),
        "truncated_fraction": ("rollout/truncated_ratio",),
        "response_tokens_mean": ("rollout/response_len/mean",),
        "response_tokens_max": ("rollout/response_len/max",),
        "step_time_s": ("perf/step_time",),
    },
    "roll": {
        "reward_mean": ("critic/score/mean",),
        "pass_rate_mean": ("group/correct_ratio/mean",),
        "pass_rate_std": ("group/correct_ratio/std",),
        "all_pass_fraction": ("group/all_correct_groups_ratio",),
        "all_fail_fraction": ("group/all_incorrect_groups_ratio",),
    },
    "tinker": {
        "reward_mean": ("env/all/reward/total",),
        "pass_rate_mean": ("env/all/correct",),
        "all_pass_fraction": ("env/all/by_group/frac_all_good",),
        "all_fail_fraction": ("env/all/by_group/frac_all_bad",),
        "mixed_fraction": ("env/all/by_group/frac_mixed",),
        "entropy": ("optim/entropy",),
        "kl": ("optim/kl_sample_train_v1",),
        "step_time_s": ("time/total",),
    },
    "open-instruct": {"reward_mean": ("scores",)},
    "step-log": {
        "reward_mean": ("reward",),
        "dead_fraction": ("zvf",),
        "mixed_fraction": ("gu",),
        "advantage_std": ("advantages/std", "advantage_std", "adv_std", "critic/advantages/std"),
    },
}
ENVIRONMENT = r"train/[^/]+/(all|effective)/[^/]+/.+"  # prime-rl: environment, scope, agent

# What no other tool logs; the first tool with a match wins.
MARKS: tuple[tuple[str, str], ...] = (
    ("prime-rl", rf"{ENVIRONMENT}|solve_(none|all)/all|effective_batch_size/all|batch/effective_batch_size"),
    ("tinker", r"env/all/.+"),
    ("nemo-rl", r"baseline_reward/.+|dynamic_sampling_num_.+|timing/train/total_step_time"),
    ("roll", r"group/(all_correct|all_incorrect|mixed)_groups_ratio|scheduler/(query|group)_filter_count"),
    ("slime", r"rollout/(raw_reward|zero_std/.+|dynamic_filter/.+|response_len/.+|truncated_ratio)"),
    ("skyrl", r"reward(_dropped)?/(avg_raw_reward|avg_pass_at_\d+|num_zero_variance_filtered)"),
    ("openrlhf", r"dynamic_filtering_pass_rate|group_reward_std|response_clip_ratio|rollout/reward_(mean|std)"),
    ("open-instruct", r"batch/filtered_prompts.*|(un)?solved_batch_size_ratio|batch/percent_solved_mean|val/stop_rate"),
    ("easyr1", r"reward/(overall|accuracy)"),
    (
        "verl",
        r"critic/(score|rewards|advantages|returns)/.+|actor/(pg|ppo)_.+|timing_s/.+|perf/(total_num_tokens|time_.+)",
    ),
    ("ms-swift", r"memory\(GiB\)|train_speed\(iter/s\)"),
    ("step-log", r"zvf"),
    ("trl", r"frac_reward_zero_std|reward_std|completions?(/mean)?_length|rewards/.+|num_tokens|step_time"),
)  # fmt: skip

# Known by name, but no quantity of their own.
ALSO_KNOWN = re.compile(
    r"step|epoch|loss|learning_rate|lr|time|num_samples|group_size|global_step|training/(global_step|epoch)|score|return"
    r"|rewards/.+|clip_ratio/.+|cispo_clip_ratio|vespo/.+|tools/.+|sampling/.+|sample/.+|batch/.+|off_policy/.+"
    r"|completions/.+|completion_length|frac_reward_zero_std(_excluded)?|skipped_zero_adv_batches|reward_std|num_tokens"
    r"|critic/.+|actor/.+|timing.*/.+|time/.+|perf/.+|progress/.+|optim/.+|response.*/.+|prompt_length/.+|training/.+|val-.+"
    r"|rollout/.+|passrate/.+|scheduler/.+|group/.+|val(_correct)?/.+|env/.+|test/.+|validation/.+|advantages/.+|reward/.+"
    r"|filters/.+|effective_batch_size/.+|solve_(none|all)/.+|dynamic_.+|num_mask_sample_filtered|filtered_reward"
    r"|baseline_reward/.+|real_batch_size_ratio|unsolved_batch_size_ratio|dapo/.+|num_gen_batches|memory.*|train_speed.*"
    rf"|reward_dropped/.+|progress|{ENVIRONMENT}"
)


def tool_of(names: Iterable[str]) -> str | None:
    """The tool whose metrics these are, by names that no other tool logs; None if none of them is known.

    >>> tool_of(["train/reward", "train/frac_reward_zero_std"]), tool_of(["step", "my_metric"])
    ('trl', None)
    """
    shorn = {plain(name) for name in names}
    for tool, pattern in MARKS:
        if any(re.fullmatch(pattern, name) for name in shorn):
            return tool
    return None


def names_for(tool: str | None, quantity: str) -> tuple[str, ...]:
    """Plain names of a quantity: those of the tool; of all tools where it is not known."""
    if tool is not None:
        return NAMES.get(tool, {}).get(quantity, ())
    found = (name for table in NAMES.values() for name in table.get(quantity, ()))
    return tuple(dict.fromkeys(found))


def is_known(name: str) -> bool:
    """Whether a metric is one that some tool logs."""
    shorn = plain(name)
    return ALSO_KNOWN.fullmatch(shorn) is not None or any(
        shorn in names for table in NAMES.values() for names in table.values()
    )
