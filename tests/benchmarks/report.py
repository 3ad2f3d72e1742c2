"""How long a report of a large pilot takes, and how large it is.

Run with: python -m tests.benchmarks.report [PROMPTS]. Prints seconds (wall and CPU) of `plan --json` and of `report`, of
the same Parquet file of counts and of rollouts, each in a process of its own, their ratio, and the bytes of the page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

ROLLOUTS = 8
BUDGET = ("--budget-rollouts", "2e6", "--steps", "500")


def write_pilots(folder: Path, prompts: int) -> tuple[Path, Path]:
    """A pilot as counts and as rollouts: a third never passes, some always do."""
    rng = np.random.default_rng(0)
    never, always = rng.random(prompts) < 0.35, rng.random(prompts) < 0.2
    k = rng.binomial(ROLLOUTS, np.where(never, 0.0, np.where(always, 1.0, rng.beta(0.8, 0.8, prompts))))
    ids = np.array([f"q{i:07d}" for i in range(prompts)])
    counts, rollouts = folder / "counts.parquet", folder / "rollouts.parquet"
    pl.DataFrame({"prompt_id": ids, "k": k, "n": np.full(prompts, ROLLOUTS)}).write_parquet(counts)
    passed = rng.permuted(np.tile(np.arange(ROLLOUTS), (prompts, 1)), axis=1) < k[:, None]
    frame = pl.DataFrame({"prompt_id": np.repeat(ids, ROLLOUTS), "reward": passed.ravel().astype(np.int8)})
    frame.write_parquet(rollouts)
    return counts, rollouts


def seconds(*arguments: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of one command, and the bytes of its answer."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "grpo_plan", *arguments], capture_output=True, check=True)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, len(done.stdout)


def main() -> None:
    prompts = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    print(f"{prompts:,} prompts x {ROLLOUTS}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        for file in write_pilots(Path(folder), prompts):
            page = Path(folder) / "report.html"
            plan_wall, plan_cpu, _ = seconds("plan", str(file), *BUDGET, "--json")
            numbers_wall, numbers_cpu, numbers_bytes = seconds("report", str(file), *BUDGET, "--json")
            wall, cpu, _ = seconds("report", str(file), *BUDGET, "-o", str(page))
            print(f"{file.stem}: plan --json {plan_wall:.1f} s (CPU {plan_cpu:.1f} s)")
            print(f"  report --json {numbers_wall:.1f} s (CPU {numbers_cpu:.1f} s), {numbers_bytes:,} bytes")
            print(
                f"  report {wall:.1f} s (CPU {cpu:.1f} s), {page.stat().st_size:,} bytes; "
                f"ratio to plan --json {wall / plan_wall:.2f} (CPU {cpu / plan_cpu:.2f})"
            )


if __name__ == "__main__":
    main()
