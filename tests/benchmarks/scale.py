"""Large files on one machine: our reader against the bare engine, each in a process of its own, run in turns.

``python -m tests.benchmarks.scale [NAME ...]`` writes files of up to 5 GB into a temporary folder (``TMPDIR``), measures,
and deletes them. A line shows the median seconds of both and our time over the peer's (the median of the ratios of pairs run
one after the other); the same for seconds of all cores together, which hold where a machine is shared; and the peak memory
of our processes together. Start-up and imports are left out, but for those of our workers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

CHUNK = 1_000_000
OURS = """
import sys, time, resource
from grpo_plan.readers import read_pilot
import polars, msgspec
start, before = time.perf_counter(), time.process_time()
pilot = read_pilot(sys.argv[1])
took, cpu = time.perf_counter() - start, time.process_time() - before
peak = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
from grpo_plan.readers.workers import default_workers
used = resource.getrusage(resource.RUSAGE_CHILDREN)
children, cpu = used.ru_maxrss, cpu + used.ru_utime + used.ru_stime
peak += children * (default_workers() if children > 50_000 else 0)
print(took, cpu, peak / 1024, pilot.total_rollouts)
"""
BARE = """
import sys, time
import polars as pl
path = sys.argv[1]
start, before = time.perf_counter(), time.process_time()
kind = path.rsplit(".")[-1]
if kind == "parquet":
    scan = pl.scan_parquet(path)
elif kind == "csv":
    scan = pl.scan_csv(path)
else:
    scan = pl.scan_ndjson(path, schema={"prompt_id": pl.String, "reward": pl.Int64})
counts = scan.group_by("prompt_id").agg(pl.len(), pl.col("reward").sum()).collect(engine="streaming")
took, cpu = time.perf_counter() - start, time.process_time() - before
peak = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
print(took, cpu, peak / 1024, counts["len"].sum())
"""
DECODE = """
import sys, time
import msgspec
from typing import Any
row = msgspec.defstruct("Row", [("prompt_id", Any, None), ("reward", Any, None)], gc=False)
decoder, rows = msgspec.json.Decoder(row), 0
start, before = time.perf_counter(), time.process_time()
with open(sys.argv[1], "rb") as file:
    while block := file.read(1 << 21):
        rows += len(decoder.decode_lines(block + (b"" if block.endswith(b"\\n") else file.readline())))
print(time.perf_counter() - start, time.process_time() - before, 0, rows)
"""
PANDAS = """
import sys, time
import pandas as pd
start, before = time.perf_counter(), time.process_time()
counts = pd.read_json(sys.argv[1], lines=True).groupby("prompt_id")["reward"].agg(["count", "sum"])
print(time.perf_counter() - start, time.process_time() - before, 0, counts["count"].sum())
"""
ARRAY = """
import sys, time, json
start, before = time.perf_counter(), time.process_time()
with open(sys.argv[1]) as file:
    rows = json.load(file)
print(time.perf_counter() - start, time.process_time() - before, 0, len(rows))
"""
LINES = """
import resource, subprocess, sys, time
start, before = time.perf_counter(), time.process_time()
done = subprocess.run(["wc", "-l", sys.argv[1]], capture_output=True, text=True, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, 0, done.stdout.split()[0])
"""


def measured(code: str, path: Path) -> tuple[float, float, float, int]:
    """Seconds, seconds of all cores, peak memory in MB and rows of one process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    words = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    seconds, cores, peak, rows = done.stdout.split()
    return float(seconds), float(cores), float(peak), int(rows)


def compare(name: str, path: Path, peers: dict[str, str], runs: int = 3) -> None:
    """A line of our reader against each peer."""
    for peer, code in peers.items():
        measured(code, path)
        pairs = [(measured(OURS, path), measured(code, path)) for _ in range(runs)]
        assert len({one[3] for pair in pairs for one in pair}) == 1, pairs
        (ours, cores), (theirs, other_cores) = (
            [statistics.median(pair[i][j] for pair in pairs) for j in (0, 1)] for i in (0, 1)
        )
        ratios = [statistics.median(ours[j] / theirs[j] for ours, theirs in pairs) for j in (0, 1)]
        peak, other = (max(pair[i][2] for pair in pairs) for i in (0, 1))
        print(
            f"| {name} | {path.stat().st_size / 1e9:.2f} | {peer} | {ours:.1f} | {theirs:.1f} | {ratios[0]:.2f} | "
            f"{cores:.1f} | {other_cores:.1f} | {ratios[1]:.2f} | {peak:,.0f} | {f'{other:,.0f}' if other else ''} |",
            flush=True,
        )


def rollouts(prompts: int, rows: int) -> Iterator[pl.DataFrame]:
    """Rollouts in shuffled order, in parts."""
    rng = np.random.default_rng(1)
    names = pl.Series([f"prompt-{i:07d}" for i in range(prompts)])
    rates = rng.beta(0.35, 0.7, prompts)
    for start in range(0, rows, CHUNK):
        chosen = rng.integers(0, prompts, min(CHUNK, rows - start))
        rewards = (rng.random(chosen.size) < rates[chosen]).astype(np.int64)
        yield pl.DataFrame({"prompt_id": names.gather(chosen), "reward": rewards})


def with_text(parts: Iterator[pl.DataFrame], length: int) -> Iterator[pl.DataFrame]:
    """The same with a completion of so many characters beside."""
    rng = np.random.default_rng(2)
    letters = "".join(rng.choice(list('abcdefghijklmnopqrstuvwxyz      \n"é'), 2_000_000))
    for part in parts:
        starts = rng.integers(0, len(letters) - length, part.height).tolist()
        text = pl.Series("completion", [letters[s : s + length] for s in starts])
        yield part.select("prompt_id", text, "reward")


def write(path: Path, parts: Iterator[pl.DataFrame]) -> Path:
    """A Parquet, CSV or JSON lines file of the parts."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        writer: Any = None
        for part in parts:
            table = part.to_arrow()
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
        writer.close()
        return path
    with path.open("wb") as file:
        for i, part in enumerate(parts):
            file.write(
                (part.write_csv(include_header=i == 0) if path.suffix == ".csv" else part.write_ndjson()).encode()
            )
    return path


def parquet(folder: Path) -> None:
    """50 million rows of few and of many prompts, and 5 million rows with 1 KB of text each."""
    peers = {"polars scan, group-by": BARE}
    few = write(folder / "few.parquet", rollouts(100_000, 50_000_000))
    compare("Parquet, 1e5 prompts", few, peers)
    few.unlink()
    many = write(folder / "many.parquet", rollouts(1_000_000, 50_000_000))
    compare("Parquet, 1e6 prompts", many, peers)
    many.unlink()
    text = write(folder / "text.parquet", with_text(rollouts(100_000, 5_000_000), 1024))
    compare("Parquet, 1 KB of text a row", text, peers)
    text.unlink()


def tables(folder: Path) -> None:
    """CSV of a million prompts: rollouts, and counts."""
    long = write(folder / "long.csv", rollouts(1_000_000, 10_000_000))
    compare("CSV, 1e6 prompts, rollouts", long, {"polars scan, group-by": BARE})
    rng = np.random.default_rng(3)
    wide = folder / "wide.csv"
    frame = pl.DataFrame({"prompt_id": [f"prompt-{i:07d}" for i in range(1_000_000)], "n": [8] * 1_000_000})
    frame.with_columns(k=pl.Series(rng.integers(0, 9, 1_000_000))).write_csv(wide)
    took, cores, peak, _ = measured(OURS, wide)
    size = wide.stat().st_size / 1e9
    print(f"| CSV, 1e6 prompts, counts | {size:.2f} | | {took:.1f} | | | {cores:.1f} | | | {peak:,.0f} | |", flush=True)


def jsonl(folder: Path) -> None:
    """5 GB of JSON lines with 1.5 kB of text each, against three limits; a slice against pandas; short lines."""
    big = write(folder / "big.jsonl", with_text(rollouts(20_000, 3_000_000), 1500))
    peers = {"polars scan, group-by": BARE, "msgspec decode of the two fields": DECODE, "wc -l": LINES}
    compare("JSON lines, 1.5 kB of text a row", big, peers)
    slice_ = folder / "slice.jsonl"
    with big.open("rb") as file:
        slice_.write_bytes(file.read(200 << 20) + file.readline())
    compare("JSON lines, a slice", slice_, {"pandas read_json, groupby": PANDAS})
    big.unlink()
    short = write(folder / "short.jsonl", rollouts(100_000, 10_000_000))
    compare("JSON lines, two fields", short, {"polars scan, group-by": BARE})


def array(folder: Path) -> None:
    """A JSON array of 1 GB against json.load."""
    path = folder / "array.json"
    with path.open("w") as file:
        for i, part in enumerate(with_text(rollouts(20_000, 1_000_000), 1000)):
            text = json.dumps(part.to_dicts())
            file.write(("[" if i == 0 else ",") + text[1:-1])
        file.write("]")
    compare("JSON array, 1 kB of text a row", path, {"json.load": ARRAY}, runs=1)


MEASUREMENTS: dict[str, Callable[[Path], None]] = {"parquet": parquet, "csv": tables, "jsonl": jsonl, "array": array}


def main() -> None:
    """Run the named measurements, or all."""
    print("| file | GB | peer | s | its s | ratio | core s | its core s | ratio | peak MB | its MB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or MEASUREMENTS:
        with tempfile.TemporaryDirectory() as folder:
            MEASUREMENTS[name](Path(folder))


if __name__ == "__main__":
    main()
