"""Runs whose every rollout is known, logged as TRL logs them: each group that is whole on disk is read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.readers.groups_reader import read_groups
from tests.trl_log import Simulated


def simulated(folder: Path, seed: int) -> Simulated:
    rng = np.random.default_rng(seed)
    size, prompts = int(rng.choice([2, 3, 4, 8])), int(rng.integers(3, 6))
    return Simulated(
        folder=folder,
        rng=rng,
        size=size,
        eval_size=int(rng.choice([2, 4, size])),
        prompts=prompts,
        reuse=int(rng.integers(1, 4)),
        logging=int(rng.integers(1, 4)),
        eval_every=int(rng.choice([0, 2, 3, 5])),
        eval_prompts=int(rng.integers(1, 12)),
        steps=12,
    ).train()


@pytest.mark.parametrize("seed", range(24))
def test_every_whole_group_is_read_once(tmp_path: Path, seed: int) -> None:
    run = simulated(tmp_path, seed)
    run.state()
    run.config()
    for split in ("train", "eval"):
        truth = run.whole_groups(split)
        if not truth:
            with pytest.raises(gp.PilotFormatError, match=rf"no row fits --split {split}; there are"):
                gp.read_pilot(tmp_path, split=split)
            continue
        groups = read_groups(tmp_path, split=split)
        assert groups.groups == len(truth)
        assert groups.dead_groups == sum(len(set(rewards)) == 1 for rewards in truth.values())
        pilot = gp.read_pilot(tmp_path, split=split)
        assert pilot.total_rollouts == sum(map(len, truth.values()))
        assert pilot.successes.sum() == sum(map(sum, truth.values()))
        assert groups.rollouts.sum() + sum(groups.dropped.values()) == sum(map(len, run.files.values()))
