"""Which noise matters: squared lengths of single-group gradients in four metrics.

``python -m figures.validation.directions --work DIR`` writes ``results/directions.json``. A metric is a positive form C;
the length of a step delta is delta.C.delta. *plain*: the identity. *adam*: weights 1 / sqrt(v), v the mean square of the
gradients of steps of 64 groups of 8, as Adam would have it. *signal*: the mean over other prompts of
(grad p_j . delta)^2, how much the step moves pass rates. *adam signal*: the same of the step that Adam makes of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

from figures.validation.conditions import ROLLOUTS, SIZES, WORLDS
from figures.validation.gradients import short
from figures.validation.one_step import Source, batch_gradient, exact_gradient
from figures.validation.policy import sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.scores import Scorer
from figures.validation.tasks import rewards
from figures.validation.training import pools
from grpo_plan.probe.gram import pair_products

RESULT = Path(__file__).parent / "results" / "directions.json"
METRICS = ("plain", "adam", "signal", "adam_signal")
PROMPTS, GROUP, OTHERS, BATCHES = 192, 64, 400, 60
SEED = 41


def measure(name: str, work: Path) -> dict[str, object]:
    """One world: per prompt the three pair products (theory.md, eq. 50) in each metric, and the mean gradient's."""
    start, world = WORLDS[name]
    model = start_policy(start, work)
    chance = torch.Generator().manual_seed(SEED)
    source = Source(world, pools(model, world).train, chance)
    step = torch.stack([batch_gradient(model, world, source.take(64), 8, "rloo", chance) for _ in range(BATCHES)])
    scale = 1 / (step.square().mean(0).sqrt() + 1e-8)
    others = source.take(OTHERS)
    signals = torch.stack([exact_gradient(model, world, other[None]) for other in others])
    mean = exact_gradient(model, world, source.take(4000))
    scorer = Scorer(model, world.temperature)
    products: dict[str, list[list[float]]] = {metric: [] for metric in METRICS}
    for prompt in source.take(PROMPTS):
        rollouts = sample(model, prompt[None], GROUP, world.tail, world.temperature, chance)
        reward = rewards(world.task, prompt[None], rollouts)[0]
        if reward.min() == reward.max():
            for metric in METRICS:
                products[metric].append([0.0, 0.0, 0.0])
            continue
        scores = scorer.vectors(prompt, rollouts[0]).detach()
        scaled = scores * scale
        seen = {
            "plain": scores @ scores.T,
            "adam": scaled @ scores.T,
            "signal": (a := scores @ signals.T) @ a.T / OTHERS,
            "adam_signal": (b := scaled @ signals.T) @ b.T / OTHERS,
        }
        for metric, gram in seen.items():
            found = pair_products(gram.double().numpy(), reward.double().numpy())
            products[metric].append([short(float(v)) or 0.0 for v in found])
    squares = {
        "plain": mean @ mean,
        "adam": (mean * scale) @ mean,
        "signal": (signals @ mean).square().mean(),
        "adam_signal": (signals @ (mean * scale)).square().mean(),
    }
    return {"mean": {metric: short(float(v)) for metric, v in squares.items()}, "products": products}


def shares(size: int) -> np.ndarray:
    """Weights of the three pair products in the mean squared length at a size (theory.md, eq. 50)."""
    return np.array([(size - 2) * (size - 3), 4 * (size - 2), 2]) / (size * (size - 1))


def main() -> None:
    """Measure the worlds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--worlds", nargs="*", default=["all", "tail", "hard", "hard_tail", "either", "easy"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.worlds:
        if name not in found:
            found[name] = measure(name, options.work)
            options.out.write_text(json.dumps(found))
        for metric in METRICS:
            products = np.array(found[name]["products"][metric]).mean(0)
            own = found[name]["mean"][metric]
            squares = np.array([shares(size) @ products for size in SIZES])
            noise = np.array([(s / own - 1) / round(ROLLOUTS / size) for s, size in zip(squares, SIZES, strict=True)])
            gain = 1 / (1 + noise)
            print(name, metric, np.round(noise, 1).tolist(), np.round(gain / gain.max(), 3).tolist(), file=sys.stderr)


if __name__ == "__main__":
    main()
