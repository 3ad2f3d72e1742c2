"""A bank of prompts with exact gradients and Gram matrices of their rollouts, in chunks that are kept on disk."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from figures.validation.conditions import WORLDS
from figures.validation.model import Decoder
from figures.validation.moments import Floats, Ints, Prompts
from figures.validation.policy import pass_rates
from figures.validation.runner import start_policy
from figures.validation.scores import Scorer, prompt_scores
from figures.validation.tasks import draw
from figures.validation.training import World, pools
from grpo_plan.probe.gram import rloo_weights

CHUNK = 256  # prompts; also those of one probe
ROLLOUTS = 64  # in a Gram matrix
PROBE_ROLLOUTS = 16
BLOCKS = 16  # of a chunk, for sums of gradients
PROMPTS, REST, LAW = 2048, 3200, 20000
SEED = 31


@dataclass(frozen=True)
class Source:
    """The prompts of a world: ``few`` for the bank, ``rest`` for mean gradients, ``law`` for means over pass rates."""

    few: Tensor
    rest: Tensor
    law: Tensor


def source(model: Decoder, world: World) -> Source:
    """Prompts (.., 10) by fixed seeds; of the hard pool they are those that no held-out curve uses."""
    if world.pool == "all":
        return Source(*(draw(n, torch.Generator().manual_seed(SEED + i)) for i, n in enumerate((PROMPTS, REST, LAW))))
    pool = pools(model, world).train
    assert pool is not None  # noqa: S101
    mixed = pool[torch.randperm(len(pool), generator=torch.Generator().manual_seed(SEED))]
    return Source(mixed[:PROMPTS], mixed[PROMPTS : PROMPTS + REST], pool)


@dataclass(frozen=True)
class Bank:
    """M prompts; sums of gradients are of blocks of 16 prompts.

    Attributes:
        prompts: Exact numbers.
        unseen: Prompts of which no fail was seen.
        gram: Inner products of scores, shape (M, R, R).
        rewards: Shape (M, R).
        unit_sums: Sums of ``grad p / |grad p|`` over each block, shape (M / 16, D).
        probe_sums: Sums of RLOO gradients of the first 16 rollouts over each block of the first chunk, shape (16, D).
        probe_squares: Sums of their squared lengths, shape (16,).
    """

    prompts: Prompts
    unseen: int
    gram: NDArray[np.float32]
    rewards: Floats
    unit_sums: NDArray[np.float32]
    probe_sums: NDArray[np.float32]
    probe_squares: Floats


def _make(path: Path, model: Decoder, world: World, prompts: Tensor, index: int, rollouts: int) -> None:
    """One chunk."""
    scorer = Scorer(model, world.temperature)
    generator = torch.Generator().manual_seed(40000 + index)
    size = sum(p.numel() for p in model.parameters())
    unit, probe, squares = torch.zeros(BLOCKS, size), torch.zeros(BLOCKS, size), np.zeros(BLOCKS)
    rows = []
    for i, prompt in enumerate(prompts):
        found = prompt_scores(scorer, model, world, prompt, rollouts, generator)
        unit[i % BLOCKS] += found.gradient / max(found.square, 1e-30) ** 0.5
        weight = torch.from_numpy(rloo_weights(found.rewards[:PROBE_ROLLOUTS].double().numpy())).float()
        estimate = weight @ found.vectors[:PROBE_ROLLOUTS]
        probe[i % BLOCKS] += estimate
        squares[i % BLOCKS] += float(estimate.double().square().sum())
        rows.append(replace(found, vectors=torch.empty(0), gradient=torch.empty(0)))  # 26 MB a prompt
    numbers: dict[str, Any] = {
        name: np.array([getattr(r, name) for r in rows])
        for name in ("rate", "square", "after_pass", "after_fail", "fails")
    }
    temporary = path.with_suffix(".part.npz")
    np.savez(
        temporary, gram=torch.stack([r.gram for r in rows]).numpy(),
        rewards=torch.stack([r.rewards for r in rows]).numpy(), unit=unit.numpy(), probe=probe.numpy(),
        squares=squares, **numbers,
    )  # fmt: skip
    temporary.rename(path)


def bank(name: str, work: Path, prompts: int) -> Bank:
    """The bank of a world, its missing chunks made first."""
    start, world = WORLDS[name]
    model = start_policy(start, work)
    folder = work / "bank"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = source(model, world).few
    paths = []
    for index in range(prompts // CHUNK):
        path = folder / f"{name}-{index}.npz"
        if not path.exists():
            _make(path, model, world, chosen[index * CHUNK : (index + 1) * CHUNK], index, ROLLOUTS)
            print(f"bank of {name}: {(index + 1) * CHUNK} of {prompts} prompts", file=sys.stderr)
        paths.append(path)
    parts = [dict(np.load(path)) for path in paths]

    def joined(key: str) -> Any:
        return np.concatenate([part[key] for part in parts])

    fails = joined("fails")
    return Bank(
        prompts=Prompts.of({key: joined(key).tolist() for key in ("rate", "square", "after_pass", "after_fail")}),
        unseen=int((fails == 0).sum()), gram=joined("gram"), rewards=joined("rewards").astype(np.float64),
        unit_sums=joined("unit"), probe_sums=parts[0]["probe"], probe_squares=parts[0]["squares"],
    )  # fmt: skip


def law(model: Decoder, world: World) -> Floats:
    """Exact pass rates of 20,000 prompts, or of the whole hard pool."""
    found: Floats = pass_rates(model, world.task, source(model, world).law, world.temperature).numpy()
    return found


def counts(rewards: Floats) -> Ints:
    """Passes of each group, from rewards (M, R)."""
    found: Ints = rewards.sum(1).astype(np.int64)
    return found
