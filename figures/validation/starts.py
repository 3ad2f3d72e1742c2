"""The starting policies: ``python -m figures.validation.starts --work DIR`` writes ``results/starts.json`` (under a minute).

Exact pass rates of 20,000 prompts (by bin), the dead fractions that follow, and one pilot of 500 prompts x 8 rollouts with the
stratum of each prompt (*hard*: exact pass rate below 0.1), from which `figures.validation.mix_plan` asks the planner for a mix.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from figures.validation.conditions import STARTS, WORLDS
from figures.validation.policy import pass_rates, sample
from figures.validation.runner import start_policy
from figures.validation.tasks import draw, rewards

PATH = Path(__file__).parent / "results" / "starts.json"
EDGES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SIZES = (2, 3, 4, 6, 8, 12, 16, 32, 64)
PROMPTS, PILOT, ROLLOUTS, HARD = 20000, 500, 8, 0.1


def start_facts(name: str, work: Path) -> dict[str, object]:
    """What is kept of one starting policy."""
    model = start_policy(name, work)
    world = next(world for start, world in WORLDS.values() if start == name)
    p = pass_rates(model, world.task, draw(PROMPTS, torch.Generator().manual_seed(7)), world.temperature)
    prompts = draw(PILOT, torch.Generator().manual_seed(4001))
    own = pass_rates(model, world.task, prompts, world.temperature)
    rollouts = sample(model, prompts, ROLLOUTS, world.tail, world.temperature, torch.Generator().manual_seed(4002))
    passes = rewards(world.task, prompts, rollouts).sum(1).long()
    counted = torch.bucketize(p, torch.tensor(EDGES, dtype=p.dtype), right=True).bincount(minlength=len(EDGES) + 1)
    return {
        "temperature": world.temperature,
        "parameters": sum(value.numel() for value in model.parameters()),
        "lessons": STARTS[name].lengths or world.task.lengths,
        "mean": round(p.mean().item(), 6),
        "edges": EDGES,
        "counts": counted.tolist(),
        "dead": {str(size): round((p**size + (1 - p) ** size).mean().item(), 6) for size in SIZES},
        "all_pass": {str(size): round((p**size).mean().item(), 6) for size in SIZES},
        "dead_hard": {
            str(size): round((p[p < HARD] ** size + (1 - p[p < HARD]) ** size).mean().item(), 6) for size in SIZES
        },
        "hard_share": round((p < HARD).double().mean().item(), 6),
        "pilot": {"passes": passes.tolist(), "hard": (own < HARD).long().tolist()},
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    work: Path = parser.parse_args().work
    torch.set_num_threads(1)
    found = {name: start_facts(name, work) for name in STARTS}
    lines = [f"{json.dumps(name)}: {json.dumps(facts)}" for name, facts in found.items()]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
