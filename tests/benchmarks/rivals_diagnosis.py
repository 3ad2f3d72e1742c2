"""What rldoctor 0.2.0 and rlprobe 0.1.0 say of the simulated runs; writes figures/diagnosis_rivals.csv.

``python -m tests.benchmarks.rivals_diagnosis INTERPRETER [SEEDS [WORKERS [SCENARIO ...]]]``, where INTERPRETER is the
Python of an environment that holds both tools (``pip install rldoctor==0.2.0 rlprobe==0.1.0``); neither is a dependency
of this project. With names of scenarios only their rows are measured anew. Each run is handed over as its log alone, in
JSON lines:

* rldoctor reads the file with `load_run`, with the settings of the run in the ``config`` line that it looks for.
* rlprobe has no reader of logs. Its own recorder is fed one row at a time: TRL and ms-swift through the table of names
  of its TRL callback, the others through the nearest fields that it has (`FIELDS`), a share of dead groups among them
  wherever the trainer logs one.

A tool fires where it says warning or critical. ``dead`` counts only its detectors of dead groups: ``advantage_collapse``
of rldoctor; ``DEGENERATE_GROUPS``, ``ADV_COLLAPSE`` and ``REWARD_STD_DEATH`` of rlprobe. ``any`` counts all.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "figures" / "diagnosis_rivals.csv"
SEEDS = 100
COLUMNS = ["scenario", "seeds", "tool", "dead", "any", "names"]
LOUD = {"warn", "warning", "critical"}
DEAD_DETECTORS = {
    "rldoctor": {"advantage_collapse"},
    "rlprobe": {"DEGENERATE_GROUPS", "ADV_COLLAPSE", "REWARD_STD_DEATH"},
}
TRL = {
    "reward": "reward_mean", "reward_std": "reward_std", "frac_reward_zero_std": "zero_variance_group_frac",
    "kl": "kl_mean", "entropy": "entropy_mean", "clip_ratio/region_mean": "clip_fraction", "loss": "loss",
    "learning_rate": "lr", "grad_norm": "grad_norm", "completions/mean_length": "completion_len_mean",
    "completions/max_length": "completion_len_max", "completions/clipped_ratio": "truncation_rate",
    "step_time": "step_time_s",
}  # fmt: skip
AGENT = "train/agg/all/agent"
FIELDS: dict[str, dict[str, str]] = {
    "trl": TRL,
    "ms-swift": TRL,
    "verl": {
        "critic/score/mean": "reward_mean", "critic/score/min": "reward_min", "critic/score/max": "reward_max",
        "actor/entropy": "entropy_mean", "actor/pg_clipfrac": "clip_fraction", "actor/grad_norm": "grad_norm",
        "actor/ppo_kl": "kl_mean", "response_length/mean": "completion_len_mean",
        "response_length/max": "completion_len_max", "response_length/clip_ratio": "truncation_rate",
        "timing_s/step": "step_time_s",
    },
    "tinker": {
        "env/all/reward/total": "reward_mean", "optim/entropy": "entropy_mean",
        "optim/kl_sample_train_v1": "kl_mean", "time/total": "step_time_s",
    },
    "openrlhf": {
        "rollout/reward_mean": "reward_mean", "rollout/reward_std": "reward_std",
        "group_reward_std": "group_reward_std_mean", "entropy_loss": "entropy_mean", "kl": "kl_mean",
        "actor_grad_norm": "grad_norm", "response_length": "completion_len_mean",
        "rollout/truncated_rate": "truncation_rate", "timing/step_total": "step_time_s",
    },
    "prime-rl": {
        f"{AGENT}/reward/mean": "reward_mean", f"{AGENT}/is_truncated/mean": "truncation_rate",
        "entropy/mean": "entropy_mean", "optim/grad_norm": "grad_norm", "perf/step_time": "step_time_s",
    },
}  # fmt: skip


def recorded(tool: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row under the names of rlprobe's recorder."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            continue
        if name in FIELDS[tool]:
            out[FIELDS[tool][name]] = float(value)
        elif name.startswith("rewards/") and name.endswith("/mean"):
            out.setdefault("reward_components", {})[name[8:-5]] = float(value)
    if tool == "tinker":
        out["zero_variance_group_frac"] = 1.0 - row["env/all/by_group/frac_mixed"]
    if tool == "prime-rl":
        out["zero_variance_group_frac"] = row[f"{AGENT}/solved_none"] + row[f"{AGENT}/solved_all"]
    return out


def inside(folder: Path) -> None:
    """In the interpreter of the rivals: one JSON line a log, tool to the names of what fired."""
    from rl_doctor import diagnose, load_run  # type: ignore[import-not-found]
    from rlprobe.doctor import diagnose as probe  # type: ignore[import-not-found]
    from rlprobe.recorder import Recorder  # type: ignore[import-not-found]

    for path in sorted(folder.glob("*.jsonl")):
        said = {f.detector for f in diagnose(load_run(str(path))).problems if f.severity.name.lower() in LOUD}
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][1:]
        place = folder / f"{path.stem}.run"
        recorder = Recorder(place, algorithm="grpo", capture_env=False, install_handlers=False)
        for row in rows:
            recorder.log_step(row["step"], **recorded(path.stem.split("_")[2], row))
        recorder.close()
        assert recorder.dropped == 0
        found = {f.signature_id for f in probe(place) if f.severity in LOUD}
        print(json.dumps({"log": path.stem, "rldoctor": sorted(said), "rlprobe": sorted(found)}), flush=True)


def _rows() -> dict[tuple[str, str], dict[str, str]]:
    """The table as it is."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {(row["scenario"], row["tool"]): row for row in csv.DictReader(file)}


def main() -> None:
    """Write the logs, ask both tools, count."""
    from figures.scenarios import SCENARIOS
    from figures.scenarios.files import write_rows

    interpreter = sys.argv[1]
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else SEEDS
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    wanted = [i for i, s in enumerate(SCENARIOS) if s.name in sys.argv[4:] or len(sys.argv) < 5]
    names: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    dead: Counter[tuple[int, str]] = Counter()
    any_at_all: Counter[tuple[int, str]] = Counter()

    def ask(index: int) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            for seed in range(seeds):
                run = SCENARIOS[index].simulate(seed)
                write_rows(run, folder / f"{index:03d}_{seed:04d}_{run.tool}.jsonl")
            words = [interpreter, __file__, "--inside", str(folder)]
            done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder)
        print(f"{SCENARIOS[index].name}: asked", file=sys.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    with ThreadPoolExecutor(workers) as pool:
        answers = list(pool.map(ask, wanted))
    for index, found in zip(wanted, answers, strict=True):
        assert len(found) == seeds
        for line in found:
            for tool, its in DEAD_DETECTORS.items():
                names[index, tool].update(line[tool])
                dead[index, tool] += bool(its & set(line[tool]))
                any_at_all[index, tool] += bool(line[tool])
    kept = _rows() if len(wanted) < len(SCENARIOS) else {}
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for index, scenario in enumerate(SCENARIOS):
            for tool in DEAD_DETECTORS:
                if index not in wanted:
                    writer.writerow(kept[scenario.name, tool])
                    continue
                said = "; ".join(f"{name} {count}" for name, count in sorted(names[index, tool].items()))
                counts = {"dead": dead[index, tool], "any": any_at_all[index, tool], "names": said}
                writer.writerow({"scenario": scenario.name, "seeds": seeds, "tool": tool, **counts})


if __name__ == "__main__":
    inside(Path(sys.argv[2])) if sys.argv[1] == "--inside" else main()
