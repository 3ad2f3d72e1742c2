"""The packaged examples: published counts of one real pilot, as one row a rollout, and of the run that followed.

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
EXAMPLE_GROUPS_PER_STEP = 128
EXAMPLE_PROMPTS = 1209
# Passes over the prompts during training: all-fail groups, all-pass groups, right rollouts.
EXAMPLE_RUN_VISITS = (
    (439, 92, 3238), (431, 106, 3279), (421, 140, 3357), (422, 127, 3433), (400, 148, 3540), (410, 156, 3535),
    (419, 147, 3502), (408, 171, 3597), (407, 166, 3587), (391, 169, 3672), (408, 168, 3658), (403, 170, 3733),
    (389, 185, 3754), (413, 185, 3735), (411, 196, 3813), (389, 186, 3795), (400, 187, 3853), (403, 193, 3877),
    (382, 196, 3908), (377, 205, 3937), (383, 198, 3976), (373, 220, 3953), (378, 210, 4038), (369, 216, 4064),
    (372, 213, 4052), (378, 209, 4101), (378, 216, 4116), (377, 229, 4117), (377, 234, 4194), (367, 235, 4156),
    (353, 237, 4230), (353, 234, 4246), (344, 233, 4244), (361, 246, 4290), (348, 264, 4365), (365, 246, 4300),
    (364, 245, 4354), (351, 256, 4403), (359, 253, 4385), (354, 260, 4448), (346, 252, 4458), (342, 265, 4462),
    (343, 260, 4459), (334, 267, 4550),
)  # fmt: skip


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


def example_run_lines() -> Iterator[str]:
    r"""JSON lines of the example run: one row for each pass over the 1,209 prompts, 128 groups of 8 a step.

    The names are those of tinker's log. The first pass is the example pilot.

    >>> next(example_run_lines())[:68]
    '{"step": 9, "group_size": 8, "env/all/by_group/frac_mixed": 0.560794'
    """
    groups = EXAMPLE_PROMPTS
    for number, (fail, passed, right) in enumerate(EXAMPLE_RUN_VISITS, start=1):
        row = {
            "step": number * groups // EXAMPLE_GROUPS_PER_STEP,
            "group_size": EXAMPLE_ROLLOUTS,
            "env/all/by_group/frac_mixed": (groups - fail - passed) / groups,
            "env/all/by_group/frac_all_good": passed / groups,
            "env/all/by_group/frac_all_bad": fail / groups,
            "env/all/correct": right / (EXAMPLE_ROLLOUTS * groups),
            "env/all/reward/total": right / (EXAMPLE_ROLLOUTS * groups),
        }
        yield json.dumps(row)
