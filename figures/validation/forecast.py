"""Forecasts of dead groups held against exact ones: ``python -m figures.validation.forecast --work DIR``.

The prompts of a start are 20,000 that are drawn once. A pilot draws 500 of them at random (with replacement, so that
the truth is that of the 20,000 without an error of its own), rolls each out 16 times by sampling from the model, and
takes the first 4, 8 or 16 of the rollouts. The forecast sees the counts alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import Tensor

from figures.validation.conditions import WORLDS
from figures.validation.forecast_counts import (
    DEAD,
    PARTS,
    PILOTS,
    PROMPTS,
    ROLLOUTS,
    SIZES,
    TRUTH,
    Counts,
    Floats,
    forecast_pilot,
    shares,
)
from figures.validation.model import Decoder
from figures.validation.policy import pass_rates, sample
from figures.validation.runner import DEFAULT_WORK, start_policy
from figures.validation.tasks import draw, rewards
from figures.validation.training import World

STARTS = {"sum": "all", "either": "either", "easy": "easy"}  # starting policy -> its world
POOL = 20_000
POOL_SEED = 20
PILOT_SEED = 30_000
COUNTS = {"sum": 400, "either": 100, "easy": 100}  # pilots
BLOCK = 500


@dataclass(frozen=True)
class Source:
    """A policy, what it is asked, and what it is known to answer: prompts (P, 10), exact pass rates (P,)."""

    model: Decoder
    world: World
    prompts: Tensor
    p: Floats

    def rollouts(self, chosen: Tensor, size: int, generator: torch.Generator) -> Counts:
        """Rewards 0 or 1 of ``size`` rollouts of each chosen prompt, sampled from the model: (N, size)."""
        found = []
        for prompts in self.prompts[chosen].split(BLOCK):
            tokens = sample(self.model, prompts, size, self.world.tail, self.world.temperature, generator)
            found.append(rewards(self.world.task, prompts, tokens))
        rewarded: Counts = torch.cat(found).numpy().astype(np.int64)
        return rewarded

    def choose(self, count: int, generator: torch.Generator) -> Tensor:
        """So many of the prompts at random, with replacement: places (N,)."""
        return torch.randint(len(self.prompts), (count,), generator=generator)


def source(start: str, work: Path, size: int = POOL) -> Source:
    """The starting policy with its prompts and their exact pass rates."""
    world = WORLDS[STARTS[start]][1]
    model = start_policy(start, work)
    prompts = draw(size, torch.Generator().manual_seed(POOL_SEED))
    return Source(model, world, prompts, pass_rates(model, world.task, prompts, world.temperature).numpy())


def pilot_counts(given: Source, seed: int) -> dict[int, Counts]:
    """One pilot: for each n the number of prompts with k = 0..n passes."""
    generator = torch.Generator().manual_seed(seed)
    rewarded = given.rollouts(given.choose(PROMPTS, generator), max(ROLLOUTS), generator)
    return {n: np.bincount(rewarded[:, :n].sum(1), minlength=n + 1) for n in ROLLOUTS}


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    work: Path = parser.parse_args().work
    torch.set_num_threads(1)
    truth: dict[str, object] = {}
    pilots: list[dict[str, object]] = []
    forecasts: list[dict[str, object]] = []
    for number, start in enumerate(STARTS):
        given = source(start, work)
        truth[start] = {
            "mean": float(given.p.mean()),
            "below_a_tenth": float((given.p < 0.1).mean()),
            "above_99_in_100": float((given.p > 0.99).mean()),
            "groups": {g: shares(given.p, g) for g in SIZES},
        }
        for pilot in range(COUNTS[start]):
            for n, counts in pilot_counts(given, PILOT_SEED + 1000 * number + pilot).items():
                pilots.append({"start": start, "pilot": pilot, "n": n, "counts": counts.tolist()})
                forecasts += [{"start": start, "pilot": pilot, **row} for row in forecast_pilot(counts)]
            if pilot % 50 == 49:
                print(f"{start}: {pilot + 1} pilots", file=sys.stderr)
    TRUTH.parent.mkdir(exist_ok=True)
    pl.DataFrame(pilots).cast({"pilot": pl.UInt16, "n": pl.UInt8, "counts": pl.List(pl.UInt16)}).write_parquet(
        PILOTS, compression_level=19
    )
    table = pl.DataFrame(forecasts, infer_schema_length=None).cast(
        {"pilot": pl.UInt16, "n": pl.UInt8, "group": pl.UInt8}
    )
    table = table.with_columns(pl.col(pl.Int64).cast(pl.UInt16), pl.col("start", "status").cast(pl.Categorical))
    parts = [name for name in table.columns if name.startswith("all_")]
    table.drop(parts).write_parquet(DEAD, compression_level=19)
    table.select("start", "pilot", "n", "group", *parts).write_parquet(PARTS, compression_level=19)
    TRUTH.write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
