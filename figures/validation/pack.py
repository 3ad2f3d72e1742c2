"""Raw runs into the repository: ``python -m figures.validation.pack --work DIR``, from ``DIR/runs.jsonl``.

One row a run, in the order of `figures.validation.conditions.runs`; curves are lists, pass rates and shares to five digits.
"""

from __future__ import annotations

import argparse
import json
import sys
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


def read(path: Path) -> dict[str, dict[str, object]]:
    """Runs by key; ends in one line where the file or a line of it is no good."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(f"{path}: cannot be read ({error}).")
    found: dict[str, dict[str, object]] = {}
    for number, line in enumerate(lines, 1):
        try:
            run = json.loads(line)
            missing = {"key", "pass_rate", *NUMBERS} - set(run)
        except (ValueError, TypeError):
            sys.exit(f"{path}, line {number}: not JSON of a run. Remove it, and run what is missing again.")
        if missing or not run["pass_rate"]:
            sys.exit(f"{path}, line {number}: a run without {min(missing, default='pass_rate')}.")
        if run["key"] in found:
            sys.exit(f"{path}, line {number}: {run['key']} is there twice.")
        found[run["key"]] = run
    return found


def main() -> None:
    """Read, order, write."""
    from figures.validation.conditions import runs  # needs torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    path = parser.parse_args().work / "runs.jsonl"
    found = read(path)
    wanted = [run.key for run in runs()]
    foreign = len(set(found) - set(wanted))
    frame = packed([found[key] for key in wanted if key in found])
    if not len(frame):
        sys.exit(f"{path}: holds none of the {len(wanted)} runs of the study; nothing is written.")
    RUNS.parent.mkdir(exist_ok=True)
    frame.write_parquet(RUNS, compression="zstd", compression_level=19)
    print(f"{RUNS.name}: {len(frame)} of {len(wanted)} runs, {RUNS.stat().st_size:,} bytes; {foreign} others left out")


if __name__ == "__main__":
    main()
