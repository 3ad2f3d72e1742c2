"""Weights of tokens against TRL's own trainer: the gradient of a whole optimiser step with respect to each token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grpo_plan as gp
from grpo_plan.losses.registry import AGGREGATIONS
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")

LONGEST = 6
PLAIN = ("grpo", "bnpo", "dapo", "dr_grpo", "sapo", "vespo")
LOSSES: dict[str, dict[str, Any]] = {
    **{name: {"loss_type": name} for name in PLAIN},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
}
WHOLE: dict[str, Any] = {"gradient_accumulation_steps": 1, "per_device_train_batch_size": 8}
OTHERS: dict[str, dict[str, Any]] = {
    "grpo, ratio of the sequence": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
    "dapo, ratio of the sequence": {"loss_type": "dapo", "importance_sampling_level": "sequence"},
    "luspo, ratio of the token": {"loss_type": "luspo"},
    "grpo, one micro-batch": {"loss_type": "grpo", **WHOLE},
    "bnpo, one micro-batch": {"loss_type": "bnpo", **WHOLE},
    **{
        f"{name}, cut responses masked": {"loss_type": name, "mask_truncated_completions": True}
        for name in ("grpo", "bnpo", "dapo", "dr_grpo")
    },
}
WINDOW = {"loss_type": "dapo", "gradient_accumulation_steps": 2, "steps_per_generation": 4, "max_steps": 2}


def run(folder: Path, runs: dict[str, Any], processes: int = 1) -> list[dict[str, Any]]:
    """What each rank saw of each run."""
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    base = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    ranks = {
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "ACCELERATE_USE_CPU": "true",
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.trl_losses", str(folder)],
            cwd=ROOT,
            env=base | ({"RANK": str(rank), "LOCAL_RANK": str(rank)} | ranks if processes > 1 else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    for process in running:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said[-3000:]
    return [json.loads((folder / f"seen{rank}.json").read_text(encoding="utf-8")) for rank in range(processes)]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(
        tmp_path_factory.mktemp("one"),
        LOSSES | OTHERS | {"window": WINDOW, "cispo, default cap": {"loss_type": "cispo"}},
    )[0]


def told(ranks: list[dict[str, Any]], step: slice = slice(None)) -> tuple[Any, Any, gp.BatchSplit, Any]:
    """Masks, advantages, split and gradients of one optimiser step, one row a response."""
    masks, advantages, grads, rank, micro = [], [], [], [], []
    for r, found in enumerate(ranks):
        calls = found["seen"][step]
        first = step.start or 0
        grad = np.array(found["grads"][0 if not first else 1])[r]
        for b, call in enumerate(calls):
            mask = np.array(call["mask"])
            masks.append(np.pad(mask, ((0, 0), (0, LONGEST - mask.shape[1]))))
            advantages += call["advantages"]
            grads.append(grad[first + b][: len(mask)])
            rank += [r] * len(mask)
            micro += [b] * len(mask)
    split = gp.BatchSplit(rank=np.array(rank), micro=np.array(micro))
    return np.concatenate(masks), np.array(advantages), split, np.concatenate(grads)


def compare(ranks: list[dict[str, Any]], loss_type: str) -> None:
    masks, advantages, split, grads = told(ranks)
    lengths = masks.sum(axis=1)
    assert np.unique(lengths).size > 1
    assert np.abs(advantages).max() > 0.1
    found = gp.split_weights(lengths, split, aggregation=loss_type, trainer="trl", max_tokens=LONGEST)
    expected = -(advantages * found.values)[:, None] * masks
    np.testing.assert_allclose(grads, expected, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("name", [*LOSSES, *OTHERS])
def test_the_gradient_of_every_token_is_its_weight(seen: dict[str, Any], name: str) -> None:
    compare([seen[name]], {**LOSSES, **OTHERS}[name]["loss_type"])


def test_cispo_scales_by_its_cap_where_that_is_below_one(seen: dict[str, Any]) -> None:
    masks, advantages, split, grads = told([seen["cispo, default cap"]])
    found = gp.split_weights(masks.sum(axis=1), split, aggregation="cispo")
    expected = -0.2 * (advantages * found.values)[:, None] * masks  # epsilon_high is 0.2, and caps the ratio itself
    np.testing.assert_allclose(grads, expected, rtol=2e-6, atol=1e-9)


def test_the_runs_differ_as_they_should(seen: dict[str, Any]) -> None:
    masks, _, split, _ = told([seen["bnpo"]])
    lengths = masks.sum(axis=1)
    spread = gp.split_weights(lengths, split, aggregation="bnpo")
    assert spread.misplaced is not None
    assert spread.misplaced > 0.05  # a wrong reduction would show
    masked = told([seen["grpo, cut responses masked"]])[0].sum(axis=1)
    assert (masked == 0).any()


def test_several_steps_of_one_generation_share_its_count(seen: dict[str, Any]) -> None:
    tokens = [np.concatenate([np.array(c["mask"]).sum(axis=1) for c in seen["window"]["seen"][s]]) for s in STEPS]
    generated = sum(t.sum() for t in tokens)
    assert tokens[0].sum() != tokens[1].sum()
    for step in STEPS:
        masks, advantages, _, grads = told([seen["window"]], step)
        weight = 1.0 / (generated * 2 / 4)  # as the note of the aggregation says
        np.testing.assert_allclose(grads, -weight * advantages[:, None] * masks, rtol=2e-6, atol=1e-9)


STEPS = (slice(0, 2), slice(2, 4))


@pytest.mark.slow
def test_two_ranks_average_their_gradients(tmp_path: Path) -> None:
    runs = run(tmp_path, LOSSES, processes=2)
    for name in LOSSES:
        compare([found[name] for found in runs], name)


def test_all_loss_types_of_this_version_are_known() -> None:
    from trl import GRPOConfig

    said = (GRPOConfig.__doc__ or "").split("loss_type (`str`")[1].split("mask_truncated_completions")[0]
    known = {a.option for a in AGGREGATIONS.values() if a.trainer == "trl"}
    named = {word for word in known if f'- `"{word}"`' in said}
    assert named == known, version("trl")
    assert said.count('- `"') == len(known)
