"""What trainers outside the TRL family accept, written from their sources: keys, types, rules; and readers of blocks.

Nothing here calls the trainers' modules of the package: the tests compare the two.
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from grpo_plan.trainers.base import Block

# key -> type and allowed values, or bounds, as the trainers' own sources and documentation give them
Count, Share, Switch = (int, 1, math.inf), (float, 0.0, 2.0), (bool, (True, False))
VERL: dict[str, tuple[Any, ...]] = {
    "data.train_batch_size": Count,
    "data.max_response_length": Count,
    "actor_rollout_ref.rollout.n": Count,
    "actor_rollout_ref.rollout.temperature": Share,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": Count,
    "actor_rollout_ref.actor.ppo_mini_batch_size": Count,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": Count,
    "actor_rollout_ref.actor.loss_agg_mode": (str, ("seq-mean-token-sum-norm",)),
    "algorithm.adv_estimator": (
        str,
        ("grpo", "rloo", "reinforce_plus_plus_baseline", "reinforce_plus_plus", "opo", "gpg", "grpo_passk"),
    ),
    "algorithm.norm_adv_by_std_in_grpo": Switch,
    "trainer.total_training_steps": Count,
    "algorithm.filter_groups.enable": Switch,
    "algorithm.filter_groups.metric": (str, ("reward", "acc", "seq_reward")),
}
OPENRLHF: dict[str, tuple[Any, ...]] = {
    "rollout.batch_size": Count,
    "rollout.n_samples_per_prompt": Count,
    "rollout.micro_batch_size": Count,
    "rollout.temperature": Share,
    "rollout.max_new_tokens": Count,
    "train.batch_size": Count,
    "train.micro_batch_size": Count,
    "train.num_episodes": Count,
    "data.max_samples": Count,
    "algo.advantage.estimator": (str, ("group_norm", "dr_grpo", "rloo", "reinforce_baseline")),
    "algo.dynamic_filtering_enable": Switch,
    "algo.dynamic_filtering_range": (tuple, ((0.0, 1.0),)),
}
FLAT = dict(
    zip(
        OPENRLHF,
        (
            "rollout_batch_size n_samples_per_prompt micro_rollout_batch_size temperature max_new_tokens "
            "train_batch_size micro_train_batch_size num_episodes max_samples advantage_estimator dynamic_filtering "
            "dynamic_filtering_reward_range"
        ).split(),
        strict=True,
    )
)
GATE = "orchestrator.train.source.curriculum.gates.mixed_groups"
SCHEMAS: dict[tuple[str, str | None], dict[str, tuple[Any, ...]]] = {
    ("verl", None): VERL | {"algorithm.filter_groups.max_inflight_gen_batches": Count},
    ("verl", "0.8"): VERL | {"data.gen_batch_size": Count, "algorithm.filter_groups.max_num_gen_batches": (int, 0, 99)},
    ("openrlhf", None): OPENRLHF,
    ("openrlhf", "0.10.1.post2"): {FLAT[key]: kind for key, kind in OPENRLHF.items()},
    ("nemo-rl", None): {
        "grpo.num_prompts_per_step": Count,
        "grpo.num_generations_per_prompt": Count,
        "grpo.max_num_steps": Count,
        "grpo.normalize_rewards": Switch,
        "grpo.use_leave_one_out_baseline": Switch,
        "grpo.adv_estimator.name": (str, ("grpo", "reinforce_plus_plus")),
        "grpo.adv_estimator.normalize_rewards": Switch,
        "grpo.adv_estimator.use_leave_one_out_baseline": Switch,
        "grpo.adv_estimator.minus_baseline": Switch,
        "grpo.use_dynamic_sampling": Switch,
        "grpo.batch_multiplier": (float, 1.0, math.inf),
        "grpo.dynamic_sampling_max_gen_batches": Count,
        "policy.train_global_batch_size": Count,
        "policy.train_micro_batch_size": Count,
        "policy.generation.temperature": Share,
        "policy.generation.max_new_tokens": Count,
    },
    ("prime-rl", None): {
        "max_steps": Count,
        "orchestrator.batch_size": Count,
        "orchestrator.group_size": Count,
        "orchestrator.algo.type": (str, ("grpo", "max_rl")),
        "orchestrator.concurrency.max_inflight": Count,
        "orchestrator.train.sampling.temperature": Share,
        "orchestrator.train.sampling.max_completion_tokens": Count,
        "orchestrator.train.source.env.taskset.id": (str, ("your-taskset",)),
        f"{GATE}.type": (str, ("advantage_range",)),
        f"{GATE}.reject_min": (float, 0.0, 0.0),
        f"{GATE}.reject_max": (float, 0.0, 0.0),
    },
    ("prime-rl", "0.5"): {
        "max_steps": Count,
        "orchestrator.batch_size": Count,
        "orchestrator.rollouts_per_example": Count,
        "orchestrator.oversampling_factor": (float, 1.0, math.inf),
        "orchestrator.sampling.temperature": Share,
        "orchestrator.sampling.max_tokens": Count,
        "orchestrator.buffer.online_difficulty_filtering": Switch,
    },
    ("skyrl", None): {
        "trainer.train_batch_size": Count,
        "trainer.policy_mini_batch_size": Count,
        "trainer.micro_train_batch_size_per_gpu": Count,
        "trainer.micro_forward_batch_size_per_gpu": Count,
        "trainer.max_training_steps": Count,
        "trainer.algorithm.advantage_estimator": (str, ("grpo", "rloo", "maxrl")),
        "trainer.algorithm.grpo_norm_by_std": Switch,
        "trainer.algorithm.advantage_batch_normalize": Switch,
        "trainer.algorithm.dynamic_sampling.type": (str, ("filter", "replace")),
        "trainer.algorithm.dynamic_sampling.max_sample_batches": (int, -1, math.inf),
        "generator.n_samples_per_prompt": Count,
        "generator.sampling_params.temperature": Share,
        "generator.sampling_params.max_generate_length": Count,
    },
    ("slime", None): {
        "num-rollout": Count,
        "rollout-batch-size": Count,
        "n-samples-per-prompt": Count,
        "global-batch-size": Count,
        "micro-batch-size": Count,
        "rollout-temperature": Share,
        "rollout-max-response-len": Count,
        "advantage-estimator": (str, ("grpo", "gspo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "ppo")),
        "disable-grpo-std-normalization": Switch,
        "normalize-advantages": Switch,
        "over-sampling-batch-size": Count,
        "dynamic-sampling-filter-path": (
            str,
            ("slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std",),
        ),
    },
    ("roll", None): {
        "rollout_batch_size": Count,
        "num_return_sequences_in_group": Count,
        "max_steps": Count,
        "response_length": Count,
        "ppo_epochs": (int, 1, 1),
        "adv_estimator": (str, ("gae", "reinforce", "grpo")),
        "norm_mean_type": (object, ("batch", "group", "running", None)),
        "norm_std_type": (object, ("batch", "group", "running", None)),
        "whiten_advantages": Switch,
        "actor_train.training_args.per_device_train_batch_size": Count,
        "actor_train.training_args.gradient_accumulation_steps": Count,
        "actor_infer.generating_args.temperature": Share,
        "is_use_additional_prompts": Switch,
        "max_additional_running_prompts": (int, 0, math.inf),
        "rewards.your_domain.query_filter_config.type": (str, ("no_filter", "mean_filter", "std_filter")),
        "rewards.your_domain.query_filter_config.filter_args.std_threshold": (float, 0.0, 0.0),
    },
    ("tinker", None): {
        "group_size": Count,
        "batch_size": Count,
        "temperature": Share,
        "max_tokens": Count,
        "num_substeps": (int, 1, 1),
        "max_steps": Count,
        "remove_constant_reward_groups": Switch,
        "async_config.max_steps_off_policy": (int, 0, 0),
        "async_config.groups_per_batch": Count,
        "async_config.loss_fn": (str, ("importance_sampling",)),
    },
    ("open-instruct", None): {
        "num_unique_prompts_rollout": Count,
        "num_samples_per_prompt_rollout": Count,
        "total_episodes": Count,
        "num_epochs": (int, 1, 1),
        "num_mini_batches": (int, 1, 1),
        "advantage_normalization_type": (str, ("centered", "standard")),
        "temperature": Share,
        "response_length": Count,
        "max_prompt_token_length": Count,
        "pack_length": Count,
        "active_sampling": (str, ("true",)),
        "filter_zero_std_samples": (str, ("true",)),
    },
    ("easyr1", None): {
        "data.rollout_batch_size": Count,
        "data.max_response_length": Count,
        "data.mini_rollout_batch_size": Count,
        "worker.rollout.n": Count,
        "worker.rollout.temperature": Share,
        "worker.actor.global_batch_size": Count,
        "worker.actor.micro_batch_size_per_device_for_update": Count,
        "worker.actor.micro_batch_size_per_device_for_experience": Count,
        "algorithm.adv_estimator": (str, ("gae", "grpo", "reinforce_plus_plus", "remax", "rloo")),
        "algorithm.online_filtering": Switch,
        "algorithm.filter_key": (str, ("overall",)),
        "algorithm.filter_low": (float, 0.01, 0.01),
        "algorithm.filter_high": (float, 0.99, 0.99),
        "trainer.max_steps": Count,
        "trainer.max_try_make_batch": (int, -1, math.inf),
    },
}
SCHEMAS[("verl", "0.9.0")] = SCHEMAS[("verl", None)]
SCHEMAS[("openrlhf", "0.8.11")] = {
    key.replace("max_new_tokens", "generate_max_len"): kind
    for key, kind in SCHEMAS[("openrlhf", "0.10.1.post2")].items()
}


def flattened(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, list):
            (value,) = value  # an array of tables, of which a block writes one
        if isinstance(value, dict):
            yield from flattened(value, name)
        else:
            yield name, value


def read_overrides(words: list[str]) -> dict[str, Any]:
    found = [re.fullmatch(r"([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+)=([\w.-]+)", word) for word in words]
    assert all(found), words
    return {m[1]: yaml.safe_load(m[2]) for m in found if m}


def read_flags(words: list[str], schema: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=True)
    for key, (kind, *allowed) in schema.items():
        if kind is bool:
            parser.add_argument(f"--{key}", dest=key, action="store_true", default=None)
        elif kind is tuple:
            parser.add_argument(f"--{key}", dest=key, nargs=2, type=float)
        else:
            choices = allowed[0] if kind is str else None
            parser.add_argument(f"--{key}", dest=key, type=kind, choices=choices)
    read = {key: value for key, value in vars(parser.parse_args(words)).items() if value is not None}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in read.items()}


def read_back(block: Block, schema: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """The settings as a parser of the block's language reads them from the text."""
    if block.language == "toml":
        return dict(flattened(tomllib.loads(block.text)))
    if block.language == "yaml":
        return dict(flattened(yaml.safe_load(block.text)))
    if block.language == "python":
        found: dict[str, Any] = {}
        for node in ast.parse(block.text).body:
            assert isinstance(node, ast.Assign)
            assert isinstance(node.targets[0], ast.Name)
            prefix = "async_config." if node.targets[0].id == "async_config" else ""
            found |= {prefix + key: value for key, value in ast.literal_eval(node.value).items()}
        return found
    words = [word for word in shlex.split(block.text, comments=True) if word.strip()]
    start = next(i for i, word in enumerate(words) if word.startswith("--") or re.match(r"(data|trainer)\.", word))
    assert words[0] == "python3"
    return read_overrides(words[start:]) if "=" in words[start] else read_flags(words[start:], schema)


def assert_fits(settings_read: dict[str, Any], schema: dict[str, tuple[Any, ...]]) -> None:
    for key, value in settings_read.items():
        kind, *allowed = schema[key]
        assert isinstance(value, kind), (key, value)
        assert isinstance(value, bool) == (kind is bool), (key, value)
        if kind in (int, float):
            low, high = allowed
            assert low <= value <= high, (key, value)
        else:
            assert value in allowed[0], (key, value)


# What each trainer demands, from its settings alone. Nothing here calls the rules of the package.
Settings = dict[str, Any]
ADMITS: dict[str, Callable[[Settings, int], bool]] = {
    "verl": lambda s, gpus: (
        s["actor_rollout_ref.rollout.n"] >= 2
        and s["data.train_batch_size"] * s["actor_rollout_ref.rollout.n"] % gpus == 0
        and s["data.train_batch_size"] >= s["actor_rollout_ref.actor.ppo_mini_batch_size"]
        and (s["actor_rollout_ref.actor.ppo_mini_batch_size"] * s["actor_rollout_ref.rollout.n"] // gpus)
        % s["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"]
        == 0
    ),
    "openrlhf": lambda s, gpus: (
        s["rollout.n_samples_per_prompt"] > 1
        and s["rollout.batch_size"] * s["rollout.n_samples_per_prompt"] % s["train.batch_size"] == 0
        and s["train.batch_size"] % (s["train.micro_batch_size"] * gpus) == 0
        and s["rollout.n_samples_per_prompt"] * s["rollout.batch_size"] // s["rollout.micro_batch_size"] >= gpus
    ),
    "nemo-rl": lambda s, gpus: (
        s["grpo.num_generations_per_prompt"] >= 2
        and s["grpo.num_prompts_per_step"] * s["grpo.num_generations_per_prompt"] % s["policy.train_global_batch_size"]
        == 0
        and s["policy.train_global_batch_size"] % gpus == 0
        and s["policy.train_global_batch_size"] // gpus % s["policy.train_micro_batch_size"] == 0
    ),
    "prime-rl": lambda s, gpus: (
        s["orchestrator.group_size"] >= 2 and s["orchestrator.batch_size"] % s["orchestrator.group_size"] == 0
    ),
    "skyrl": lambda s, gpus: (
        s["generator.n_samples_per_prompt"] >= 2
        and s["trainer.train_batch_size"] % s["trainer.policy_mini_batch_size"] == 0
        and s["trainer.policy_mini_batch_size"] * s["generator.n_samples_per_prompt"] % gpus == 0
        and (share := s["trainer.policy_mini_batch_size"] * s["generator.n_samples_per_prompt"] // gpus) > 0
        and share % s["trainer.micro_train_batch_size_per_gpu"] == 0
    ),
    "slime": lambda s, gpus: (
        s["n-samples-per-prompt"] >= 2
        and s["rollout-batch-size"] * s["n-samples-per-prompt"] % s["global-batch-size"] == 0
        and s["global-batch-size"] % (s["micro-batch-size"] * gpus) == 0
        and s.get("over-sampling-batch-size", math.inf) >= s["rollout-batch-size"]
    ),
    "roll": lambda s, gpus: (
        s["num_return_sequences_in_group"] >= 2
        and s["rollout_batch_size"] % gpus == 0
        and s["rollout_batch_size"] * s["num_return_sequences_in_group"]
        == s["actor_train.training_args.per_device_train_batch_size"]
        * s["actor_train.training_args.gradient_accumulation_steps"]
        * gpus
    ),
    "tinker": lambda s, gpus: s["group_size"] >= 2 and s["batch_size"] % s["num_substeps"] == 0,
    "open-instruct": lambda s, gpus: (
        s["num_samples_per_prompt_rollout"] > 1
        and s["num_unique_prompts_rollout"] * s["num_samples_per_prompt_rollout"] >= gpus
    ),
    "easyr1": lambda s, gpus: (
        s["worker.rollout.n"] > 1
        and s["data.rollout_batch_size"] % s["worker.actor.global_batch_size"] == 0
        and s["data.rollout_batch_size"]
        * s["worker.rollout.n"]
        % s["worker.actor.micro_batch_size_per_device_for_experience"]
        == 0
        and s["worker.actor.global_batch_size"] * s["worker.rollout.n"] % gpus == 0
        and s["worker.actor.global_batch_size"]
        * s["worker.rollout.n"]
        // gpus
        % s["worker.actor.micro_batch_size_per_device_for_update"]
        == 0
    ),
}
# 6 prompts x 4 rollouts: where a trainer counts prompts it must read 6, where it counts rollouts 24.
UNITS: dict[tuple[str, str | None], dict[str, int]] = {
    ("verl", None): {"data.train_batch_size": 6, "actor_rollout_ref.actor.ppo_mini_batch_size": 6},
    ("openrlhf", None): {"rollout.batch_size": 6, "train.batch_size": 24, "data.max_samples": 300},
    ("openrlhf", "0.9"): {"rollout_batch_size": 6, "train_batch_size": 24, "max_samples": 300},
    ("nemo-rl", None): {"grpo.num_prompts_per_step": 6, "policy.train_global_batch_size": 24},
    ("prime-rl", None): {"orchestrator.batch_size": 24},
    ("prime-rl", "0.3"): {"orchestrator.batch_size": 24},
    ("skyrl", None): {"trainer.train_batch_size": 6, "trainer.policy_mini_batch_size": 6},
    ("slime", None): {"rollout-batch-size": 6, "global-batch-size": 24},
    ("roll", None): {"rollout_batch_size": 6, "actor_train.training_args.gradient_accumulation_steps": 6},
    ("tinker", None): {"batch_size": 6, "num_substeps": 1},
    ("open-instruct", None): {"num_unique_prompts_rollout": 6, "total_episodes": 1200, "num_mini_batches": 1},
    ("easyr1", None): {"data.rollout_batch_size": 6, "worker.actor.global_batch_size": 6},
}
