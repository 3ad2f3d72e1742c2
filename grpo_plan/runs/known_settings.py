"""Which settings of a trainer the checks of a run look at."""

from __future__ import annotations

from functools import cache

from grpo_plan.quantities.versions import SETTINGS_SINCE
from grpo_plan.quantities.view import GROUP_SIZE_KEYS, PROMPT_KEYS, ROLLOUT_KEYS

SINGLE = (
    "scale_rewards", "multi_objective_aggregation", "dynamic_sample", "trl_version", "trl.version",
    "trl_version_at_least", "openrlhf_version", "use_dynamic_sampling", "use_leave_one_out_baseline",
    "online_difficulty_filtering", "dynamic_sampling.type", "remove_constant_reward_groups", "trainer.use_v1",
    "grpo.batch_multiplier",
)  # fmt: skip


@cache
def used_settings() -> frozenset[str]:
    """Names of all settings that a quantity or a check reads."""
    from grpo_plan.runs.detectors.penalty import KEYS
    from grpo_plan.runs.detectors.refill_caps import BATCH_KEYS, CAPS
    from grpo_plan.runs.detectors.refills import STEP_KEYS

    penalties = [name for keys in KEYS.values() for key in keys for name in (key.key, key.switch, key.off)]
    caps = [name for cap in CAPS.values() for name in (cap.key, cap.switch)]
    several = (*GROUP_SIZE_KEYS, *PROMPT_KEYS, *ROLLOUT_KEYS, *SETTINGS_SINCE, *BATCH_KEYS, *STEP_KEYS)
    return frozenset(name for name in (*SINGLE, *several, *penalties, *caps) if name)


def is_used(name: str) -> bool:
    """Whether a setting is looked at, by its whole name or as the last part of a nested one.

    >>> is_used("scale_rewards"), is_used("config.scale_rewards"), is_used("foo")
    (True, True, False)
    """
    return any(name == known or name.endswith(f".{known}") for known in used_settings())
