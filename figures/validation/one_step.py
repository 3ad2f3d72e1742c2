"""What one step is worth: its gain and its curvature, for each group size, from the same starting policy.

For a small change delta of the weights J(theta + delta) = J + g.delta - delta.C.delta / 2. A step eta P ghat, with ghat the
estimate of a batch and P the optimizer's scaling (1 for SGD, 1 / sqrt(v) for Adam), gains
eta E[g.P ghat] - eta^2 E[(P ghat).C.(P ghat)] / 2. Both means are measured here, over batches, with exact J.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from figures.validation.advantages import advantages
from figures.validation.conditions import ROLLOUTS, WORLDS
from figures.validation.model import Decoder
from figures.validation.policy import log_probabilities, pass_rate, pass_rates, sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.tasks import draw, rewards
from figures.validation.training import World, pools

RESULT = Path(__file__).parent / "results" / "one_step.json"
BATCHES = 40
PROMPTS = 2000  # on which J is exact


def flat(tensors: list[Tensor]) -> Tensor:
    """All parameters in one vector."""
    return torch.cat([t.reshape(-1) for t in tensors])


def move(model: Decoder, by: Tensor) -> None:
    """Add a flat vector to the weights."""
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            size = parameter.numel()
            parameter += by[at : at + size].view_as(parameter)
            at += size


@dataclass
class Source:
    """Prompts of a world: fresh, or from its pool."""

    world: World
    train: Tensor | None
    generator: torch.Generator

    def take(self, n: int) -> Tensor:
        """N prompts."""
        if self.train is None:
            return draw(n, self.generator)
        return self.train[torch.randint(len(self.train), (n,), generator=self.generator)]


def exact_gradient(model: Decoder, world: World, prompts: Tensor) -> Tensor:
    """Gradient of the mean exact pass rate of prompts, flat."""
    total: Tensor | None = None
    for part in prompts.split(1000):
        value = pass_rate(model, world.task, part, world.temperature).sum() / len(prompts)
        piece = flat(list(torch.autograd.grad(value, list(model.parameters()))))
        total = piece if total is None else total + piece
    assert total is not None  # noqa: S101
    return total


def batch_gradient(
    model: Decoder, world: World, prompts: Tensor, group: int, estimator: str, generator: torch.Generator
) -> Tensor:
    """The step's estimate of the gradient (of J, so upwards), flat, from fresh rollouts."""
    rollouts = sample(model, prompts, group, world.tail, world.temperature, generator)
    value = advantages(rewards(world.task, prompts, rollouts), estimator)
    live = (value != 0).any(1)
    if not live.any():
        return torch.zeros(sum(parameter.numel() for parameter in model.parameters()))
    gain = (value[live][..., None] * log_probabilities(model, prompts[live], rollouts[live], world.temperature)).sum()
    return flat(list(torch.autograd.grad(gain / (len(prompts) * group), list(model.parameters()))))


def measure(model: Decoder, world: World, size: int, seed: int, batches: int = BATCHES) -> dict[str, object]:
    """Gain and curvature of one step with groups of ``size``: one number per batch, for SGD and Adam."""
    given = pools(model, world)
    chance = torch.Generator().manual_seed(900 + 100 * seed + size)
    source = Source(world, given.train, chance)
    judged = Source(world, given.train, torch.Generator().manual_seed(77)).take(PROMPTS)
    here = pass_rates(model, world.task, judged, world.temperature).mean().item()
    truth = exact_gradient(model, world, judged)
    estimates = torch.stack(
        [batch_gradient(model, world, source.take(ROLLOUTS // size), size, "rloo", chance) for _ in range(batches)]
    )
    scale = 1 / (estimates.square().mean(0).sqrt() + 1e-8)
    result: dict[str, object] = {"size": size, "mean": here}
    for name, by, length in (("sgd", torch.ones_like(scale), 0.03), ("adam", scale, 5e-4)):
        linear, bent, squared = [], [], []
        for estimate in estimates:
            step = by * estimate
            linear.append((truth @ step).item())
            squared.append((estimate @ step).item())
            ahead = []
            for sign in (1.0, -1.0):
                move(model, sign * length * step)
                ahead.append(pass_rates(model, world.task, judged, world.temperature).mean().item())
                move(model, -sign * length * step)
            bent.append((2 * here - sum(ahead)) / length**2)
        result[name] = {"linear": linear, "bent": bent, "squared": squared, "true": (truth @ (by * truth)).item()}
    return result


def main() -> None:
    """Measure every world and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--worlds", nargs="*", default=["all", "tail", "hard"])
    parser.add_argument("--sizes", nargs="*", type=int, default=[2, 4, 16, 64])
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.worlds:
        start, world = WORLDS[name]
        for size in options.sizes:
            if str(size) in found.get(name, {}):
                continue
            found.setdefault(name, {})[str(size)] = measure(start_policy(start, options.work), world, size, 0)
            options.out.write_text(json.dumps(found))
            print(name, size, file=sys.stderr)


if __name__ == "__main__":
    main()
