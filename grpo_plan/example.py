"""The packaged example: published counts of one real pilot, as one row a rollout.

Source: One-Shot-RLVR (ypwang61/One-Shot-RLVR, Apache-2.0), first visit of 1,209 prompts of the DeepScaleR subset by
Qwen2.5-Math-1.5B at temperature 0.6, 8 rollouts each. Only the counts are published data; the order of prompts
and of rollouts within a prompt is made here, from a fixed seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

EXAMPLE_ROLLOUTS = 8
EXAMPLE_PROMPTS_BY_SUCCESSES = (439, 151, 103, 91, 73, 76, 88, 96, 92)
EXAMPLE_SEED = 20250429


def example_lines() -> Iterator[str]:
    r"""JSON lines of the example pilot: 9,672 rollouts of 1,209 prompts.

    >>> next(example_lines())
    '{"prompt_id": "dsr-0001", "rollout": 0, "reward": 1}'
    """
    rng = np.random.default_rng(EXAMPLE_SEED)
    successes = np.repeat(np.arange(EXAMPLE_ROLLOUTS + 1), EXAMPLE_PROMPTS_BY_SUCCESSES)
    for number, k in enumerate(rng.permutation(successes), start=1):
        rewards = rng.permutation(np.arange(EXAMPLE_ROLLOUTS) < k)
        for rollout, reward in enumerate(rewards):
            yield json.dumps({"prompt_id": f"dsr-{number:04d}", "rollout": rollout, "reward": int(reward)})
