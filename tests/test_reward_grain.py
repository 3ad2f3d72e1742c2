"""Whether rewards are 0 and 1, from the grain of mean rewards over a known number of rollouts."""

from __future__ import annotations

import numpy as np
import pytest

from grpo_plan.readers.run_reader import read_run
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.rewards import RewardKind

PROMPTS, SIZE = 64, 8


def kind(levels: list[float], every: int, *, told: bool = True) -> RewardKind:
    """What a log of mean rewards, each over ``every`` steps, says of rewards of equally likely levels."""
    rewards = np.random.default_rng(11).choice(levels, size=(30, every, PROMPTS, SIZE))
    dead = (np.ptp(rewards, axis=-1) == 0).mean(axis=(1, 2))
    rows = [
        {"step": every * (i + 1), "reward": float(m), "frac_reward_zero_std": float(d)}
        for i, (m, d) in enumerate(zip(rewards.mean(axis=(1, 2, 3)), dead, strict=True))
    ]
    sizes = {"num_generations": SIZE, "generation_batch_size": PROMPTS * SIZE} if told else {}
    return Facts(read_run(rows, config={"scale_rewards": "group", **sizes})).rewards.kind


@pytest.mark.parametrize("every", [1, 5, 10])
def test_means_of_0_and_1_over_a_window_are_told(every: int) -> None:
    assert kind([0.0, 1.0], every) is RewardKind.BINARY


@pytest.mark.parametrize("levels", [[0.0, 0.5, 1.0], [0.0, 0.1, 1.0], [0.0, 0.25, 1.0]])
@pytest.mark.parametrize("every", [1, 5, 10])
def test_levels_in_between_are_not_taken_for_0_and_1(levels: list[float], every: int) -> None:
    assert kind(levels, every) is RewardKind.UNKNOWN


def test_without_the_sizes_the_grain_is_that_of_small_factors() -> None:
    assert kind([0.0, 1.0], 1, told=False) is RewardKind.BINARY
    assert kind([0.0, 1.0], 10, told=False) is RewardKind.UNKNOWN
