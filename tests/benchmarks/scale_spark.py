"""A table of simulated rollouts in Spark, generated row by row, counted in Spark, planned from its histogram.

Run: python tests/benchmarks/scale_spark.py --rollouts 1e8     (needs the extra spark, and Java 17)

Prompt i has pass rate u**2, where u in [0, 1) is a hash of i; a rollout passes when a hash of its number lies below
the pass rate. So the true dead fraction at G is known: the mean of u**(2 G) + (1 - u**2)**G over uniform u.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import grpo_plan as gp

DENOMINATOR = 1 << 20
SQL = f"""
SELECT id DIV {{size}} AS prompt_id,
       CASE WHEN (xxhash64(id, 1) & {DENOMINATOR - 1}) / {DENOMINATOR}D
                 < power((xxhash64(id DIV {{size}}, 2) & {DENOMINATOR - 1}) / {DENOMINATOR}D, 2)
            THEN 1.0D ELSE 0.0D END AS reward
FROM range(0, {{rollouts}}, 1, {{partitions}})
"""


def session(memory: str, folder: str) -> Any:
    """A local session on all cores, bound to the loopback."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("grpo-plan")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.local.dir": folder,
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """Largest resident memory of this process and of the engine, sampled twice a second."""

    def __init__(self, engine: int) -> None:
        self.pids, self.peaks, self.over = (os.getpid(), engine), [0, 0], threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self.over.wait(0.5):
            self.peaks = [max(p, memory_of(i)) for p, i in zip(self.peaks, self.pids, strict=True)]

    def __enter__(self) -> Peak:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()


def main() -> None:
    """Measure one size, and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=float, default=1e7)
    parser.add_argument("--rollouts-per-prompt", type=int, default=8)
    parser.add_argument("--memory", default="6g", help="of Spark's Java process")
    parser.add_argument("--scratch", default=None, help="folder for what Spark writes between its stages")
    options = parser.parse_args()
    rollouts, size = int(options.rollouts), options.rollouts_per_prompt
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        spark = session(options.memory, folder)
        engine = spark.sparkContext._gateway.proc.pid if spark.sparkContext._gateway is not None else 0
        partitions = max(2, rollouts // 5_000_000)
        spark.conf.set("spark.sql.shuffle.partitions", str(max(2, rollouts // size // 2_000_000)))
        table = spark.sql(SQL.format(size=size, rollouts=rollouts, partitions=partitions))
        with Peak(engine) as peak:
            start = time.perf_counter()
            pilot = gp.read_pilot(table, histogram=True)
            counted = time.perf_counter() - start
            start = time.perf_counter()
            dead = gp.fit_pass_rates(pilot).dead(2 * size)
            fitted = time.perf_counter() - start
        spark.stop()
    u = (np.arange(1_000_000) + 0.5) / 1_000_000
    truth = float(np.mean(u ** (4 * size) + (1 - u**2) ** (2 * size)))
    answer = {
        "rollouts": pilot.total_rollouts,
        "prompts": pilot.prompts,
        "cells": int(pilot.successes.size),
        "count_s": round(counted, 1),
        "fit_s": round(fitted, 3),
        "peak_python_mib": round(peak.peaks[0] / 2**20),
        "peak_engine_mib": round(peak.peaks[1] / 2**20),
        "dead": {"group_size": 2 * size, "value": dead.value, "low": dead.low, "high": dead.high, "truth": truth},
    }
    print(json.dumps(answer, indent=2))


if __name__ == "__main__":
    main()
