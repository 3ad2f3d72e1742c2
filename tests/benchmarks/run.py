"""Speed as ratios against a named peer or limit, both measured in this run.

``python -m tests.benchmarks.run [NAME ...]`` prints one line a measurement; without names all of them. Times are medians
of alternating runs, so a machine that slows down slows both. Nothing here asserts: tests never depend on the clock.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Job = Callable[[], object]


def medians(ours: Job, peer: Job, runs: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median of the ratios run by run, after one warm-up each."""
    ours(), peer()
    pairs = []
    for _ in range(runs):
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        peer()
        pairs.append((middle - start, time.perf_counter() - middle))
    ratio = statistics.median(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratio


def report(name: str, ours: Job, peer_name: str, peer: Job, *, runs: int = 9) -> None:
    """One line: our time, the peer's, and ours over the peer's."""
    mine, theirs, ratio = medians(ours, peer, runs)
    print(f"{name:46} {mine * 1e3:10.2f} ms   {peer_name:34} {theirs * 1e3:10.2f} ms   ratio {ratio:.3g}")


def process(*words: str) -> Job:
    """A whole Python process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)


def start_up() -> None:
    """Cold start of the smallest command; bar 2.5."""
    words = ("-m", "grpo_plan", "mixed", "--pass-rate", "0.2", "--group-size", "4")
    report("grpo-plan mixed, cold", process(*words), 'python -c "import numpy"', process("-c", "import numpy"), runs=15)


def main_job() -> None:
    """Cold fit and plan of a 10,000-prompt pilot, against a limit of 1.5 s; bar 1."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_rollouts(Path(folder) / "pilot.jsonl", prompts=10_000, rollouts=8, text=0)
        for command in (["fit"], ["plan", "--budget-rollouts", "2e6", "--steps", "500"]):
            job = process("-m", "grpo_plan", command[0], str(path), *command[1:])
            report(
                f"grpo-plan {command[0]}, 80,000 rollouts, cold", job, "limit 1.5 s", lambda: time.sleep(1.5), runs=3
            )


def fitting() -> None:
    """Beta fit against scipy.stats.fit (bar 200 at 1e3, 10,000 at 1e5) and two other peers; counting apart."""
    from scipy import optimize, stats

    from grpo_plan.fitting.betabinomial import fit_beta_binomial
    from grpo_plan.pilot import Pilot

    rng = np.random.default_rng(0)
    bounds = {"n": (8, 8), "a": (0.01, 100.0), "b": (0.01, 100.0)}
    for prompts, runs in ((1_000, 5), (100_000, 1)):
        k = rng.binomial(8, rng.beta(0.3, 0.3, prompts))
        histogram = Pilot.from_counts(k, 8).histogram()
        peers: dict[str, Job] = {
            "scipy.stats.fit(betabinom)": lambda k=k: stats.fit(stats.betabinom, k, bounds),  # type: ignore[misc]
            "scipy.optimize, per-prompt likelihood": lambda k=k: optimize.minimize(  # type: ignore[misc]
                lambda t: -stats.betabinom.logpmf(k, 8, *np.exp(t)).sum(), np.zeros(2), method="Nelder-Mead"
            ),
        }
        try:
            from betabinomial import BetaBinomial

            n = np.full((1, prompts), 8)
            peers["betabinomial, its default tolerance"] = lambda k=k, n=n: BetaBinomial().infer(k[None], n)  # type: ignore[misc]
        except ImportError:
            print("betabinomial is not installed: left out")
        for name, peer in peers.items():
            report(
                f"Beta fit, {prompts:,} prompts x 8",
                lambda histogram=histogram: fit_beta_binomial(histogram),  # type: ignore[misc]
                name,
                peer,
                runs=runs,
            )


def intervals() -> None:
    """Fit, values and intervals at six group sizes after counting, against a limit of 100 ms; bar 1."""
    from grpo_plan.fitting import fit_pass_rates
    from grpo_plan.pilot import Pilot

    rng = np.random.default_rng(0)
    sizes = (2, 4, 8, 16, 32, 64)
    for name, prompts, rollouts in (
        ("1e3 x 8", 1_000, 8),
        ("1e5 x 16", 100_000, 16),
        ("1e7 x 8", 10_000_000, 8),
        ("1e3, n = 2 to 32", 1_000, 0),
    ):
        n = rng.integers(2, 33, prompts) if rollouts == 0 else np.full(prompts, rollouts)
        pilot = Pilot.from_counts(rng.binomial(n, rng.beta(0.3, 0.3, prompts)), n)
        start = time.perf_counter()
        pilot.histogram()
        counted = time.perf_counter() - start
        for what, parts in (("D", False), ("D and its parts", True)):

            def job(pilot: Pilot = pilot, parts: bool = parts) -> None:
                fit = fit_pass_rates(pilot)
                for size in sizes:
                    d = fit.dead(size)
                    _ = (d.interval, d.all_pass_interval, d.all_fail_interval) if parts else d.interval

            limit = 0.1 + counted
            report(
                f"six intervals of {what}, {name}",
                job,
                f"limit 100 ms + {counted * 1e3:.0f} ms to count",
                lambda limit=limit: time.sleep(limit),  # type: ignore[misc]
                runs=5,
            )


def frontier() -> None:
    """Plan over every group size from 2 to 512 with the limits of each D, for 1e6 prompts; limit 1 s, bar 1."""
    from grpo_plan.costs import Budget
    from grpo_plan.fitting import fit_pass_rates
    from grpo_plan.pilot import Pilot
    from grpo_plan.planning import plan_group_size

    rng = np.random.default_rng(0)
    pilot = Pilot.from_counts(rng.binomial(8, rng.beta(0.3, 0.3, 1_000_000)), 8)
    budget = Budget(rollouts=2_000_000, steps=500)
    for name, sizes in (("every G from 2 to 512", range(2, 513)), ("the default group sizes", None)):

        def job(sizes: range | None = sizes) -> None:
            plan = plan_group_size(fit_pass_rates(pilot), budget=budget, group_sizes=sizes)
            _ = [planned.dead.interval for planned in plan.frontier]

        report(f"frontier, 1e6 prompts, {name}", job, "limit 1 s", lambda: time.sleep(1.0), runs=3)


def counting() -> None:
    """Rollouts to counts against the bare engine scan of the same two columns; bar 1.25 (0.8 of its speed)."""
    import polars as pl

    from grpo_plan.readers import read_pilot

    with tempfile.TemporaryDirectory() as folder:
        for text in (0, 2_000):
            path = write_rollouts(
                Path(folder) / f"{text}.jsonl", prompts=20_000, rollouts=10 if text else 40, text=text
            )
            columnar = path.with_suffix(".parquet")
            pl.read_ndjson(path).write_parquet(columnar)
            for file, scan in (
                (path, pl.scan_ndjson(path, schema={"prompt_id": pl.String, "reward": pl.Int64})),
                (columnar, pl.scan_parquet(columnar)),
            ):
                size = file.stat().st_size / 1e6
                report(
                    f"read {file.suffix[1:]}, {size:.0f} MB, {text} B of text a row",
                    lambda file=file: read_pilot(file),  # type: ignore[misc]
                    "polars scan, group-by, 2 columns",
                    lambda scan=scan: (
                        scan.group_by("prompt_id")  # type: ignore[misc]
                        .agg(pl.len(), pl.col("reward").sum())
                        .collect(engine="streaming")
                    ),
                    runs=5,
                )


def memory() -> None:
    """Peak memory of reading JSONL of two sizes with the same prompts, each in a process of its own; bar 1 (Linux)."""
    script = (
        "import sys; from grpo_plan.readers import read_pilot; read_pilot(sys.argv[1]);"
        "print(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])"
    )
    with tempfile.TemporaryDirectory() as folder:
        peaks = []
        for rollouts in (5, 50):
            path = write_rollouts(Path(folder) / f"{rollouts}.jsonl", prompts=10_000, rollouts=rollouts, text=1_000)
            words = [sys.executable, "-c", script, str(path)]
            peaks.append(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout) / 1e3)
        print(f"peak memory of read_pilot: {peaks[0]:.0f} MB; of ten times the rollouts: {peaks[1]:.0f} MB")


def write_rollouts(path: Path, *, prompts: int, rollouts: int, text: int) -> Path:
    """A JSONL file of rollouts in shuffled order."""
    rng = np.random.default_rng(1)
    rates = rng.beta(0.35, 0.7, prompts)
    order = rng.permutation(np.repeat(np.arange(prompts), rollouts))
    rewards = rng.random(order.size) < rates[order]
    body = "".join(rng.choice(list("abcdefgh ij"), text)) if text else ""
    with path.open("w", encoding="utf-8") as file:
        for prompt, reward in zip(order, rewards, strict=True):
            row = {"prompt_id": f"p{prompt}", "completion": body, "reward": int(reward)}
            file.write(json.dumps(row) + "\n")
    return path


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "start-up": start_up,
    "main-job": main_job,
    "fitting": fitting,
    "intervals": intervals,
    "frontier": frontier,
    "counting": counting,
    "memory": memory,
}


def main() -> None:
    """Run the named measurements, or all."""
    for name in sys.argv[1:] or MEASUREMENTS:
        MEASUREMENTS[name]()


if __name__ == "__main__":
    main()
