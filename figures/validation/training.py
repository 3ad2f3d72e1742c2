"""GRPO: groups of rollouts, advantages, policy-gradient steps, and the exact pass rate as it goes.

The loss is -sum(A log pi) / (rollouts of the step) on every token of a rollout, its tail too, as a trainer does that
cannot know which tokens matter. Dead groups have A = 0 and are skipped: it saves time and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from figures.validation.advantages import advantages
from figures.validation.model import Decoder
from figures.validation.policy import log_probabilities, pass_rates, sample
from figures.validation.tasks import Task, draw, rewards


@dataclass(frozen=True)
class World:
    """What is trained on: the task, tail tokens, temperature, and pools of prompts by pass rate at the start.

    Attributes:
        task: Which answers are right.
        tail: Tokens after the answer that the reward ignores.
        temperature: Of sampling, and of the policy whose gradient is taken.
        pool: ``all``, or ``hard`` for prompts that pass less than one time in ten at the start.
        finite: Number of prompts in the training set; 0 draws fresh ones for ever.
        hard_share: Share of the hard pool in a step; None where prompts come as they are.
    """

    task: Task
    tail: int = 0
    temperature: float = 1.0
    pool: str = "all"
    finite: int = 0
    hard_share: float | None = None


@dataclass(frozen=True)
class Recipe:
    """How it is trained.

    Attributes:
        group: Rollouts per prompt, G.
        prompts: Groups of a step, N.
        rate: Learning rate after warm-up.
        seed: Of prompts and rollouts.
        estimator: mean, std, rloo, sign or maxrl.
        optimizer: adam or sgd.
        steps: Steps; with refill the generation of so many steps of ``prompts`` groups.
        warm_up: Steps over which the rate rises from 0.
        updates: Updates per batch of rollouts, each on its share of the groups, with clipping at 0.2.
        mixed: Refill until so many groups are mixed; 0 trains on what was drawn.
    """

    group: int
    prompts: int
    rate: float
    seed: int
    estimator: str = "mean"
    optimizer: str = "adam"
    steps: int = 150
    warm_up: int = 20
    updates: int = 1
    mixed: int = 0


@dataclass(frozen=True)
class Course:
    """What came out: at every ``every`` steps' worth of generation the mean pass rate of held-out prompts."""

    pass_rate: list[float]
    training_pass_rate: list[float]  # of a finite training set; empty otherwise
    dead: list[float]  # dead fraction of each interval
    all_pass: list[float]
    drawn: int  # groups drawn in all
    updates: int  # optimizer steps
    seen: int  # groups trained on


@dataclass(frozen=True)
class Pools:
    """Prompts of a world: held out, to train on (None draws fresh ones), and the hard ones among these."""

    held_out: Tensor
    train: Tensor | None = None
    hard: Tensor | None = None


def pools(model: Decoder, world: World, held_out: int = 1000) -> Pools:
    """The prompts of a world, fixed by seeds and the starting policy."""
    test = draw(held_out, torch.Generator().manual_seed(99))
    if world.pool == "all" and world.finite == 0 and world.hard_share is None:
        return Pools(test)
    many = draw(20000, torch.Generator().manual_seed(7))
    if world.finite:
        return Pools(test, many[: world.finite])
    at_start = pass_rates(model, world.task, many, world.temperature)
    hard = many[at_start < 0.1]
    if world.pool == "hard":
        return Pools(hard[:held_out], hard[held_out:])
    return Pools(test, many[at_start >= 0.1], hard)


class _Prompts:
    """Prompts of each step: fresh, from a pool, or a set in epochs."""

    def __init__(self, world: World, given: Pools, seed: int) -> None:
        self._world, self._train, self._hard = world, given.train, given.hard
        self._generator = torch.Generator().manual_seed(5000 + seed)
        self._queue = torch.empty(0, dtype=torch.long)

    def take(self, n: int) -> Tensor:
        g = self._generator
        if self._train is None:
            return draw(n, g)
        if self._world.finite:
            while len(self._queue) < n:
                self._queue = torch.cat([self._queue, torch.randperm(len(self._train), generator=g)])
            chosen, self._queue = self._queue[:n], self._queue[n:]
            return self._train[chosen]
        if self._hard is None or self._world.hard_share is None:
            return self._train[torch.randint(len(self._train), (n,), generator=g)]
        from_hard = int((torch.rand(n, generator=g) < self._world.hard_share).sum())
        return torch.cat(
            [
                self._hard[torch.randint(len(self._hard), (from_hard,), generator=g)],
                self._train[torch.randint(len(self._train), (n - from_hard,), generator=g)],
            ]
        )


@dataclass
class _Batch:
    prompts: Tensor
    rollouts: Tensor
    advantages: Tensor


def _update(
    model: Decoder, optimizer: torch.optim.Optimizer, batch: _Batch, world: World, rollouts: int, old: Tensor | None
) -> None:
    live = (batch.advantages != 0).any(1)
    if not live.any():
        return
    now = log_probabilities(model, batch.prompts[live], batch.rollouts[live], world.temperature)
    weight = batch.advantages[live][..., None]
    if old is None:
        gain = weight * now
    else:
        ratio = (now - old[live]).exp()
        gain = torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight)
    optimizer.zero_grad()
    (-gain.sum() / rollouts).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def train(model: Decoder, world: World, recipe: Recipe, given: Pools | None = None, every: int = 10) -> Course:
    """Train the model in place, on the pools that are given or on those of this model."""
    given = pools(model, world) if given is None else given
    test, training_set = given.held_out, given.train
    source = _Prompts(world, given, recipe.seed)
    chance = torch.Generator().manual_seed(1000 + recipe.seed)
    optimizer: torch.optim.Optimizer
    if recipe.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), recipe.rate, betas=(0.9, 0.99))
    else:
        optimizer = torch.optim.SGD(model.parameters(), recipe.rate)
    curve: list[float] = []
    on_training: list[float] = []
    dead: list[float] = []
    all_pass: list[float] = []
    drawn = seen = batches = 0
    block_dead = block_pass = block_drawn = 0
    goal = recipe.steps * recipe.prompts
    next_look = 0

    def look() -> None:
        curve.append(pass_rates(model, world.task, test, world.temperature).mean().item())
        if world.finite and training_set is not None:
            on_training.append(pass_rates(model, world.task, training_set, world.temperature).mean().item())

    while True:
        while drawn >= next_look:
            look()
            if block_drawn:
                dead.append(block_dead / block_drawn)
                all_pass.append(block_pass / block_drawn)
                block_dead = block_pass = block_drawn = 0
            next_look += every * recipe.prompts
        if drawn >= goal:
            break
        kept: list[_Batch] = []
        have = 0
        while True:
            prompts = source.take(recipe.prompts if not recipe.mixed else max(4, recipe.mixed - have))
            rollouts = sample(model, prompts, recipe.group, world.tail, world.temperature, chance)
            reward = rewards(world.task, prompts, rollouts)
            total = reward.sum(1)
            mixed = (total > 0) & (total < recipe.group)
            drawn += len(prompts)
            block_drawn += len(prompts)
            block_dead += int((~mixed).sum())
            block_pass += int((total == recipe.group).sum())
            value = advantages(reward, recipe.estimator)
            if not recipe.mixed:
                kept.append(_Batch(prompts, rollouts, value))
                break
            kept.append(_Batch(prompts[mixed], rollouts[mixed], value[mixed]))
            have += int(mixed.sum())
            if have >= recipe.mixed or drawn >= goal + 20 * recipe.prompts:
                break
        batch = _Batch(
            *(torch.cat(parts) for parts in zip(*((b.prompts, b.rollouts, b.advantages) for b in kept), strict=True))
        )
        if recipe.mixed:
            batch = _Batch(
                batch.prompts[: recipe.mixed], batch.rollouts[: recipe.mixed], batch.advantages[: recipe.mixed]
            )
        seen += len(batch.prompts)
        batches += 1
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate * min(1.0, batches / max(1, recipe.warm_up))
        if recipe.updates == 1:
            _update(model, optimizer, batch, world, batch.rollouts.shape[0] * recipe.group, None)
            continue
        with torch.no_grad():
            old = log_probabilities(model, batch.prompts, batch.rollouts, world.temperature)
        for part in torch.arange(len(batch.prompts)).chunk(recipe.updates):
            piece = _Batch(batch.prompts[part], batch.rollouts[part], batch.advantages[part])
            _update(model, optimizer, piece, world, len(part) * recipe.group, old[part])
    return Course(curve, on_training, dead, all_pass, drawn, batches * recipe.updates, seen)
