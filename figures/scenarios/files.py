"""A simulated run as files: the log, the settings and the rollouts, as the trainer writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from figures.scenarios.base import Simulated
from figures.scenarios.draws import Groups

Rewards = list[float | None]


def write(simulated: Simulated, folder: Path) -> Path:
    """The run as a folder; rollouts are written for TRL, verl and prime-rl."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run_config.json").write_text(json.dumps(nested(simulated.config)), encoding="utf-8")
    rows = simulated.rows
    last = int(rows[-1]["step"])
    if simulated.tool == "trl":
        state = folder / f"checkpoint-{last}" / "trainer_state.json"
        state.parent.mkdir()
        state.write_text(json.dumps({"global_step": last, "log_history": rows}), encoding="utf-8")
    elif simulated.tool == "ms-swift":
        named = [{**row, "global_step/max_steps": f"{row['step']}/{last}"} for row in rows]
        _lines(folder / "logging.jsonl", [{k: v for k, v in row.items() if k != "step"} for row in named])
    elif simulated.tool == "verl":
        split = [{"step": row["step"], "data": {k: v for k, v in row.items() if k != "step"}} for row in rows]
        _lines(folder / "metrics.jsonl", split)
    else:
        _lines(folder / "metrics.jsonl", rows)
    if simulated.groups is not None:
        {"trl": _completions, "verl": _verl_dump, "prime-rl": _traces}[simulated.tool](simulated.groups, folder)
    return folder


def write_rows(simulated: Simulated, path: Path) -> Path:
    """The log alone as JSON lines, one row a line, settings first under ``config``."""
    _lines(path, [{"config": dict(simulated.config)}, *simulated.rows])
    return path


def nested(config: Mapping[str, object]) -> dict[str, Any]:
    """Settings with dots as objects within objects.

    >>> nested({"data.train_batch_size": 8, "beta": 0.0})
    {'data': {'train_batch_size': 8}, 'beta': 0.0}
    """
    out: dict[str, Any] = {}
    for key, value in config.items():
        *path, name = key.split(".")
        at = out
        for part in path:
            at = at.setdefault(part, {})
        at[name] = value
    return out


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def rewards_of(groups: Groups, step: int, group: int) -> Rewards:
    """Rewards of a group; of two levels passes first, then failures, then rollouts without a reward."""
    if groups.rewards is not None:
        return [float(r) for r in groups.rewards[step, group]]
    scored, passes = int(groups.scored[step, group]), int(groups.passes[step, group])
    low, high = float(groups.low[step, group]), float(groups.high[step, group])
    return [high] * passes + [low] * (scored - passes) + [None] * (groups.size - scored)


def _text(groups: Groups, step: int, group: int, rollout: int) -> str:
    number = 0 if groups.distinct[step, group] == 1 else rollout
    return f"answer {number} to {groups.prompt[step, group]} at {step + 1}"


def _completions(groups: Groups, folder: Path) -> None:
    import polars as pl

    (folder / "completions").mkdir()
    for step in range(groups.steps):
        columns: dict[str, list[Any]] = {"step": [], "prompt": [], "completion": [], "correct": [], "advantage": []}
        for group in range(groups.per_step):
            rewards = rewards_of(groups, step, group)
            values = np.array([np.nan if r is None else r for r in rewards])
            std = float(np.nan_to_num(groups.std[step, group]))
            columns["step"] += [step + 1] * groups.size
            columns["prompt"] += [f"prompt {groups.prompt[step, group]}"] * groups.size
            columns["completion"] += [_text(groups, step, group, i) for i in range(groups.size)]
            columns["correct"] += rewards
            columns["advantage"] += np.nan_to_num((values - groups.mean[step, group]) / (std + 1e-4)).tolist()
        frame = pl.DataFrame(columns, schema_overrides={"correct": pl.Float64})
        frame.write_parquet(folder / "completions" / f"completions_{step + 1:05d}.parquet")


def _verl_dump(groups: Groups, folder: Path) -> None:
    place = folder / "rollouts"
    place.mkdir()
    for step in range(groups.steps):
        rows = [
            {
                "input": f"prompt {groups.prompt[step, group]}", "output": _text(groups, step, group, i), "gts": "1",
                "score": reward, "step": step + 1, "uid": f"{step:05d}x{group:05d}_{i}_0",
            }
            for group in range(groups.per_step)
            for i, reward in enumerate(rewards_of(groups, step, group))
            if reward is not None
        ]  # fmt: skip
        _lines(place / f"{step + 1}.jsonl", rows)


def _traces(groups: Groups, folder: Path) -> None:
    """Episodes of one trace; of the failing ones the first were cut off."""
    for step in range(groups.steps):
        place = folder / "rollouts" / f"step_{step + 1}" / "train" / "all"
        place.mkdir(parents=True)
        rows = []
        for group in range(groups.per_step):
            rewards = rewards_of(groups, step, group)
            passes, cut = int(groups.passes[step, group]), int(groups.truncated[step, group])
            key = f"prompt {groups.prompt[step, group]}"
            task = {
                "type": "Sum",
                "data": {"idx": int(groups.prompt[step, group]), "prompt": key},
                "key": key,
                "hash": key,
            }
            for i, reward in enumerate(rewards):
                ended = "max_output_tokens" if passes <= i < passes + cut else "agent_completed"
                scored = None if reward is None else {"score": reward, "weight": 1.0}
                text = _text(groups, step, group, i)
                trace = {
                    "id": f"{step}.{group}.{i}", "task": task, "agent": {"name": "agent", "trainable": True},
                    "nodes": [
                        {"message": {"role": "user", "content": key}, "sampled": False},
                        {"message": {"role": "assistant", "content": text}, "sampled": True},
                    ],
                    "calls": [{"finish_reason": "stop"}], "rewards": {"correct": scored}, "ok": reward is not None,
                    "stop_condition": ended, "is_completed": True,
                }  # fmt: skip
                work = {"type": "train", "step": step + 1}
                rows.append(
                    {
                        "id": f"{step}.{group}.{i}", "env": {"id": "sums"}, "task": task, "run": {"work": work},
                        "group": {"id": f"{step}.{group}"}, "ok": reward is not None, "errors": [], "traces": [trace],
                    }
                )  # fmt: skip
        _lines(place / "traces.jsonl", rows)
