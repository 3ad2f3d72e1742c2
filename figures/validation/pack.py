"""Raw runs into the repository: ``python -m figures.validation.pack --work DIR``, from ``DIR/runs.jsonl``.

One row a run, in the order of `figures.validation.conditions.runs`; curves are lists, pass rates and shares to five digits.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import polars as pl

from figures.validation.outcome import RUNS

LISTS = ("pass_rate", "training_pass_rate", "dead", "all_pass")
NUMBERS = (
    "rollouts",
    "prompt_cost",
    "group",
    "prompts",
    "seed",
    "steps",
    "warm_up",
    "updates",
    "mixed",
    "drawn",
    "seen",
)
DIGITS = 5


def packed(lines: list[dict[str, object]]) -> pl.DataFrame:
    """The table of raw lines."""
    schema: dict[str, pl.DataType] = {"key": pl.String(), "part": pl.String(), "world": pl.String()}
    schema |= {"estimator": pl.String(), "optimizer": pl.String(), "rate": pl.Float64(), "seconds": pl.Float64()}
    schema |= {name: pl.Int64() for name in NUMBERS}
    schema |= {name: pl.List(pl.Float64()) for name in LISTS}
    frame = pl.DataFrame(lines, schema=schema)
    frame = frame.with_columns(pl.col(name).cast(pl.Int32) for name in NUMBERS)
    return frame.with_columns(pl.col(name).list.eval(pl.element().round(DIGITS)) for name in LISTS)


def main() -> None:
    """Read, order, write."""
    from figures.validation.conditions import runs  # needs torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    text = (parser.parse_args().work / "runs.jsonl").read_text(encoding="utf-8")
    found = {line["key"]: line for line in map(json.loads, text.splitlines())}
    wanted = [run.key for run in runs()]
    frame = packed([found[key] for key in wanted if key in found])
    RUNS.parent.mkdir(exist_ok=True)
    frame.write_parquet(RUNS, compression="zstd", compression_level=19)
    print(f"{RUNS.name}: {len(frame)} of {len(wanted)} runs, {RUNS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
