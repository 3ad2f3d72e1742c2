"""Does the interval of a kappa probe hold the kappa of exact gradients as often as it says?

A probe takes prompts of the bank at random, with replacement, and 16 of the 64 rollouts of each, without. The bank is
then the population, and what the probe estimates has two values:

- *of the bank's rollouts*: from the mean squared norms over all sub-groups of 4 and 16 of the 64 rollouts, and the same
  means of pq; a probe is unbiased for these means, so this is the value that its interval should hold;
- *of exact gradients*: from exact pass rates and gradients of the bank's prompts; it differs by the luck of the 64
  rollouts.

``python -m figures.validation.probe_coverage --work DIR`` writes ``results/probe_coverage.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import grpo_plan as gp
from figures.validation.bank import PROBE_ROLLOUTS, Bank, bank
from figures.validation.gradients import RESULTS, short
from figures.validation.moments import PROBE_SIZES, Floats, kappa_of_line, moments_of_rewards, two_size_kappa
from figures.validation.runner import DEFAULT_WORK
from grpo_plan.probe.gram import subgroup_squared_norms

PROBES = 200
DRAWN = (100, 256)  # prompts of a probe
SEED = 61
Numbers = dict[str, Any]


def truth(made: Bank) -> tuple[float, float]:
    """Kappa and G* of the bank's rollouts."""
    norms = subgroup_squared_norms(made.gram.astype(np.float64), made.rewards, PROBE_SIZES).mean(0)
    pq, ppqq = moments_of_rewards(made.rewards.sum(1), made.rewards.shape[1])
    return kappa_of_line((float(norms[0]), float(norms[1])), pq, ppqq)


def one(made: Bank, prompts: int, seed: int) -> gp.KappaMeasurement:
    """One probe of so many prompts."""
    rng = np.random.default_rng([SEED, prompts, seed])
    rows = rng.integers(0, len(made.prompts), prompts)
    picked = np.argsort(rng.random((prompts, made.rewards.shape[1])), 1)[:, :PROBE_ROLLOUTS]
    reward: Floats = made.rewards[rows[:, None], picked]
    gram = made.gram[rows[:, None, None], picked[:, :, None], picked[:, None, :]].astype(np.float64)
    norms = np.maximum(subgroup_squared_norms(gram, reward, PROBE_SIZES), 0.0)
    return gp.measure_kappa({size: norms[:, i] for i, size in enumerate(PROBE_SIZES)}, rewards=reward)


def _row(m: Any) -> list[float | None]:
    return [short(m.value, 4), short(m.low, 4), short(m.high, 4)]


def main() -> None:
    """Measure the worlds named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--only", nargs="*", default=["all", "hard", "tail"])
    parser.add_argument("--prompts", type=int, nargs="*", default=[2048, 2048, 1024])
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "probe_coverage.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for name, size in zip(options.only, options.prompts, strict=True):
        made = bank(name, options.work, size)
        kappa, best = truth(made)
        exact_kappa, exact_best = two_size_kappa(made.prompts)
        probes: Numbers = {}
        for drawn in DRAWN:
            rows = [one(made, drawn, seed) for seed in range(PROBES)]
            probes[str(drawn)] = {
                "kappa": [_row(m.kappa) for m in rows], "best": [_row(m.group_size()) for m in rows],
                "live": [m.live_prompts for m in rows],
            }  # fmt: skip
        found[name] = {
            "prompts": size, "rollouts": int(made.rewards.shape[1]), "kappa": short(kappa), "best": short(best),
            "exact_kappa": short(exact_kappa), "exact_best": short(exact_best), "probes": probes,
        }  # fmt: skip
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(name, file=sys.stderr)


if __name__ == "__main__":
    main()
