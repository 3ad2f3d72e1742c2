"""Kappa against tail tokens, size of the model, and steps of training.

``python -m figures.validation.kappa_scale --work DIR`` writes ``results/kappa_scale.json``; what is there is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from figures.validation.bank import SEED, source
from figures.validation.conditions import STARTS, WORLDS
from figures.validation.gradients import RESULTS, short
from figures.validation.model import Decoder, Shape
from figures.validation.policy import pass_rates
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.scores import Scorer, prompt_scores
from figures.validation.tasks import SUM
from figures.validation.training import Recipe, World, train
from figures.validation.warm_up import Start, teach

PROMPTS = 128
ROLLOUTS = 16  # for the squared score after a fail
TAILS = (0, 5, 10, 20, 40, 80)
POSITIONS = 15 + TAILS[-1]
SHAPES = {"0.05": Shape(48), "0.1": Shape(64), "0.4": Shape(128), "2": Shape(288)}
TEACHING_SEEDS = {"0.05": (1,), "0.1": (1, 2, 3), "0.4": (1,), "2": (1,)}
CHECKPOINTS = (0, 60, 120)
COURSE = {"all": (4, 5e-4), "hard": (4, 5e-4)}  # group size and learning rate
Numbers = dict[str, Any]


def measured(model: Decoder, world: World, prompts: torch.Tensor) -> Numbers:
    """Exact numbers of each prompt: lists of length ``PROMPTS``."""
    scorer = Scorer(model, world.temperature)
    generator = torch.Generator().manual_seed(SEED + 10)
    rows = [prompt_scores(scorer, model, world, prompt, ROLLOUTS, generator) for prompt in prompts]
    found: Numbers = {
        name: [short(getattr(row, name), 6 if name == "rate" else 4) for row in rows]
        for name in ("rate", "square", "after_pass", "after_fail")
    }
    found["unseen_fails"] = sum(row.fails == 0 for row in rows)
    return found


def longer(model: Decoder, positions: int) -> Decoder:
    """The same function of the positions that it has, and random further ones, as they are at the start of teaching."""
    made = Decoder(replace(model.shape, positions=positions), torch.Generator().manual_seed(SEED))
    state = dict(model.state_dict())
    state["position"] = torch.cat([state["position"], made.position.detach()[model.shape.positions :]])
    made.load_state_dict(state)
    return made


def taught(size: str, seed: int, work: Path) -> tuple[Decoder, int, float]:
    """A model of a size, taught to the same mean pass rate; kept in the work directory."""
    path = work / f"size-{size}-{seed}.pt"
    if path.exists():
        kept = torch.load(path, weights_only=True)
        model = Decoder(SHAPES[size], torch.Generator())
        model.load_state_dict(kept["state"])
        return model, int(kept["steps"]), float(kept["mean"])
    model, steps, mean = teach(Start(size, "sum", STARTS["sum"].target, seed=seed, shape=SHAPES[size]))
    torch.save({"state": model.state_dict(), "steps": steps, "mean": mean}, path)
    return model, steps, mean


def of_tail(tail: int, work: Path) -> Numbers:
    """The sum with so many tail tokens: the same prompts and the same gradients of the pass rate at any tail."""
    model = longer(start_policy("sum", work), POSITIONS)
    world = World(SUM, tail=tail)
    return {"tail": tail, **measured(model, world, source(model, world).few[:PROMPTS])}


def of_size(size: str, seed: int, work: Path) -> Numbers:
    """The sum with a model of another size or seed."""
    model, steps, mean = taught(size, seed, work)
    world = World(SUM)
    count = sum(p.numel() for p in model.parameters())
    numbers = measured(model, world, source(model, world).few[:PROMPTS])
    return {"parameters": count, "seed": seed, "steps": steps, "mean": short(mean), **numbers}


def of_course(name: str, steps: int, work: Path) -> Numbers:
    """A world after so many steps of training, on the prompts that it began with."""
    start, world = WORLDS[name]
    model = start_policy(start, work)
    prompts = source(model, world).few[:PROMPTS]
    size, rate = COURSE[name]
    if steps:
        train(model, world, Recipe(size, 512 // size, rate, 0, steps=steps), every=steps)
    mean = float(pass_rates(model, world.task, prompts, world.temperature).mean())
    return {
        "world": name,
        "steps": steps,
        "group": size,
        "rate_of_learning": rate,
        "mean": short(mean),
        **measured(model, world, prompts),
    }


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--only", nargs="*", help="beginnings of names, e.g. tail or size-0.4")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "kappa_scale.json"
    path.parent.mkdir(exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    work: Path = options.work
    todo = [
        *((f"tail-{tail}", partial(of_tail, tail, work)) for tail in TAILS),
        *(
            (f"course-{name}-{steps}", partial(of_course, name, steps, work))
            for name in COURSE
            for steps in CHECKPOINTS
        ),
        *(
            (f"size-{size}-{seed}", partial(of_size, size, seed, work))
            for size, seeds in TEACHING_SEEDS.items()
            for seed in seeds
        ),
    ]
    for key, make in todo:
        if key in found or (options.only and not any(key.startswith(begin) for begin in options.only)):
            continue
        found[key] = make()
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(key, file=sys.stderr)


if __name__ == "__main__":
    main()
