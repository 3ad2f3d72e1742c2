"""What ``import grpo_plan`` costs, beside ``import numpy, scipy.special`` alone.

``python -m tests.benchmarks.import_time [ROUNDS]`` starts a process for each of the programs below in turn, round after
round, and prints the median of the differences and ratios within a round: a machine that slows down slows all. Bar: 0.15 s
more than numpy and scipy.special. Nothing here asserts; tests/test_packaging.py pins what is imported.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BASE = "import numpy, scipy.special"
PROGRAMS = {
    "the package": f"{BASE}, grpo_plan",
    "the package alone, without numpy and scipy": "import grpo_plan",
    "and the names of a plan": f"{BASE}; import grpo_plan as gp; gp.fit_pass_rates, gp.plan_group_size, gp.Budget",
    "and what reads a pilot": f"{BASE}; import grpo_plan as gp; gp.fit_pass_rates, gp.plan_group_size, gp.read_pilot",
    "and every public name": f"{BASE}; import grpo_plan as gp; [getattr(gp, name) for name in gp.__all__]",
}
BAR = 0.15


def seconds(program: str) -> float:
    """Wall time of a whole process; byte code is there from the warm-up."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, capture_output=True)
    return time.perf_counter() - start


def main(rounds: int = 21) -> None:
    """Measure and print."""
    programs = (BASE, *PROGRAMS.values())
    for program in programs:
        seconds(program)
    table = [[seconds(program) for program in programs] for _ in range(rounds)]
    base = statistics.median(row[0] for row in table)
    print(f"{BASE}: {base * 1e3:.0f} ms (median of {rounds} rounds)")
    for column, what in enumerate(PROGRAMS, start=1):
        more = sorted(row[column] - row[0] for row in table)
        ratio = statistics.median(row[column] / row[0] for row in table)
        spread = f"{more[rounds // 4] * 1e3:+.0f} to {more[(3 * rounds) // 4] * 1e3:+.0f}"
        print(f"{what:44} {statistics.median(more) * 1e3:+7.1f} ms (half of them {spread})  ratio {ratio:.3f}")
    print(f"bar: the package at most {BAR * 1e3:+.0f} ms")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:2]))
