"""Run the study: ``python -m figures.validation.runner --work DIR``. Stop it and start it again: done runs are kept.

Every run writes one line to ``DIR/runs.jsonl``. Starting policies are taught once from their seeds and kept in ``DIR``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import torch

from figures.validation.conditions import STARTS, WORLDS, Run, runs
from figures.validation.model import Decoder
from figures.validation.training import Pools, pools, train
from figures.validation.warm_up import teach

DEFAULT_WORK = Path(__file__).parent / "work"


def start_policy(name: str, work: Path) -> Decoder:
    """The starting policy, taught on first use and then read from the work directory."""
    path, start = work / f"{name}.pt", STARTS[name]
    if not path.exists():
        model, steps, mean = teach(start)
        print(f"{name}: {steps} supervised steps, mean pass rate {mean:.3f}", file=sys.stderr)
        torch.save(model.state_dict(), path)
    model = Decoder(start.shape, torch.Generator())
    model.load_state_dict(torch.load(path, weights_only=True))
    return model


@lru_cache(maxsize=4)
def _pools(world: str, work: Path) -> Pools:
    start, setting = WORLDS[world]
    return pools(start_policy(start, work), setting)


def one(run: Run, work: Path) -> dict[str, object]:
    """Train one run. Returns its line."""
    torch.set_num_threads(1)
    start, world = WORLDS[run.world]
    began = time.perf_counter()
    course = train(start_policy(start, work), world, run.recipe, _pools(run.world, work))
    facts = {
        "key": run.key,
        "part": run.part,
        "world": run.world,
        "rollouts": run.rollouts,
        "prompt_cost": run.prompt_cost,
    }
    return {**facts, **asdict(run.recipe), **asdict(course), "seconds": round(time.perf_counter() - began, 2)}


def finished(path: Path) -> set[str]:
    """Keys of the runs in a file; an unfinished last line, of a run that was killed, is taken off it."""
    if not path.exists():
        return set()
    text = path.read_text()
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text)
    keys = set()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            keys.add(json.loads(line)["key"])
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{path}, line {number}: not a run. Remove the line and start again.")
    return keys


def _ready() -> None:
    """In a worker: an interrupt is for the one who started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> None:
    """Read the options, run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="parts or worlds to run; all by default")
    parser.add_argument("--seeds", nargs="*", type=int)
    options = parser.parse_args()
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name in STARTS:
        start_policy(name, work)
    path = work / "runs.jsonl"
    done = finished(path)
    known = {run.part for run in runs()} | {run.world for run in runs()}
    if unknown := sorted(set(options.only or ()) - known):
        sys.exit(f"--only {unknown[0]}: no part or world of that name; there are {', '.join(sorted(known))}.")
    left = [
        run
        for run in runs()
        if run.key not in done
        and (not options.only or {run.part, run.world} & set(options.only))
        and (not options.seeds or run.recipe.seed in options.seeds)
    ]
    began = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(options.workers, mp_context=context, initializer=_ready)
    kept = 0
    try:
        with path.open("a") as out:
            waiting = [workers.submit(one, run, work) for run in left]
            for kept, future in enumerate(as_completed(waiting), 1):
                line = future.result()
                out.write(json.dumps(line) + "\n")
                out.flush()
                rest = (time.perf_counter() - began) / kept * (len(left) - kept) / 60
                print(f"{kept}/{len(left)} {line['key']}; {rest:.0f} min left", file=sys.stderr)
    except KeyboardInterrupt:
        workers.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        sys.exit(f"stopped: {kept} of {len(left)} runs are kept; start again for the rest.")
    workers.shutdown()


if __name__ == "__main__":
    main()
