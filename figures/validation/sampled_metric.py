"""Could a probe measure the metric of pass rates? The same squared lengths as `directions`, from sampled rollouts alone.

``python -m figures.validation.sampled_metric --work DIR`` writes ``results/sampled_metric.json``: 256 prompts x 16
rollouts, as a kappa probe has them. The gradient of another prompt's pass rate is its RLOO estimate, from two halves of its
rollouts, so that the product is unbiased for the square.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch

from figures.validation.conditions import WORLDS
from figures.validation.directions import shares
from figures.validation.gradients import short
from figures.validation.one_step import Source
from figures.validation.policy import sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.scores import Scorer
from figures.validation.tasks import rewards
from figures.validation.training import pools
from grpo_plan.probe.gram import pair_products, rloo_weights

RESULT = Path(__file__).parent / "results" / "sampled_metric.json"
PROMPTS, GROUP, SIZES = 256, 16, (4, 16)


def probe(name: str, work: Path, seed: int) -> dict[str, object]:
    """Mean squared lengths at two sizes, and their standard errors (each prompt steps, and is moved)."""
    start, world = WORLDS[name]
    model = start_policy(start, work)
    chance = torch.Generator().manual_seed(1000 + seed)
    source = Source(world, pools(model, world).train, chance)
    scorer = Scorer(model, world.temperature)
    scores, halves, seen = [], [], []
    for prompt in source.take(PROMPTS):
        rollouts = sample(model, prompt[None], GROUP, world.tail, world.temperature, chance)
        reward = rewards(world.task, prompt[None], rollouts)[0].double().numpy()
        if reward.min() < reward.max():
            score = scorer.vectors(prompt, rollouts[0]).detach()
            parts = [
                torch.from_numpy(rloo_weights(reward[half])).float() @ score[half] for half in (slice(8), slice(8, 16))
            ]
            scores.append(score)
            halves.append(torch.stack(parts))
            seen.append(reward)
    first, second = (torch.stack([half[k] for half in halves]) for k in range(2))
    table = np.zeros((len(seen), len(seen), len(SIZES)))
    weights = np.stack([shares(size) for size in SIZES], 1)
    for i, (score, reward) in enumerate(zip(scores, seen, strict=True)):
        a, b = ((side @ score.T).double().numpy() for side in (first, second))
        gram = (a[:, :, None] * b[:, None, :] + b[:, :, None] * a[:, None, :]) / 2
        table[i] = pair_products(gram, np.broadcast_to(reward, a.shape)) @ weights
        table[i, i] = 0.0
    steps, moved = table.sum(1) / (PROMPTS - 1), table.sum(0) / (PROMPTS - 1)
    mean = steps.sum(0) / PROMPTS
    influence = np.zeros((PROMPTS, len(SIZES)))
    influence[: len(seen)] = steps + moved
    error = (influence - mean).std(0, ddof=1) / PROMPTS**0.5
    return {
        "seed": seed, "live": len(seen), "mean": [short(float(v)) for v in mean], "se": [short(float(v)) for v in error],
    }  # fmt: skip


def main() -> None:
    """Probe three worlds, a few times each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, object]]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for seed in range(3):
        for name in ("all", "tail", "hard"):
            if len(found.get(name, [])) <= seed:
                found.setdefault(name, []).append(probe(name, options.work, seed))
                options.out.write_text(json.dumps(found))
                print(name, found[name][-1], file=sys.stderr)


if __name__ == "__main__":
    main()
