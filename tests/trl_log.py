"""Completions as TRL logs them, without TRL: a window of the last rows, written at each log and each evaluation."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

Row = dict[str, Any]


def table(rows: Sequence[Row], step: int) -> pl.DataFrame:
    """Columns in the order in which TRL writes them; rows may hold rewards and extra columns."""
    names = [n for n in rows[0] if n not in ("prompt", "completion", "advantage", "id", "split")]
    columns = ["prompt", "completion", *names, "advantage"]
    frame = pl.DataFrame({c: [row[c] for row in rows] for c in columns}, strict=False)
    return frame.select(pl.lit(step, dtype=pl.Int64).alias("step"), *columns)


def write_table(run: Path, step: int, rows: Sequence[Row]) -> Path:
    """``completions/completions_<step>.parquet``."""
    path = run / "completions" / f"completions_{step:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table(rows, step).write_parquet(path)
    return path


def group(
    prompt: str, rewards: Sequence[float | None], name: str = "correct", tag: str = "", **extra: Any
) -> list[Row]:
    """Rows of one group, with the advantages that TRL gives them."""
    values = np.array([np.nan if r is None else r for r in rewards])
    scored = values[~np.isnan(values)]
    std = float(scored.std(ddof=1)) if scored.size > 1 else float("nan")
    mean = float(scored.mean()) if scored.size else float("nan")
    advantages = np.nan_to_num((values - mean) / (std + 1e-4))
    return [
        {"prompt": prompt, "completion": f"{tag}{i}", name: r, **extra, "advantage": float(a)}
        for i, (r, a) in enumerate(zip(rewards, advantages, strict=True))
    ]


@dataclass(kw_only=True)
class Simulated:
    """A run that logs as TRL does."""

    folder: Path
    rng: np.random.Generator
    size: int
    eval_size: int
    prompts: int
    reuse: int
    logging: int
    eval_every: int
    eval_prompts: int
    steps: int
    files: dict[int, list[Row]] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    made: int = 0

    def generate(self, count: int, size: int, split: str) -> list[Row]:
        rows = []
        for _ in range(count):
            self.made += 1
            kind = f"{split} prompt {self.rng.integers(6)}"
            rewards = (self.rng.random(size) < self.rng.choice([0.0, 0.5, 1.0])).astype(float).tolist()
            for row in group(kind, rewards, tag=f"{self.made}."):
                rows.append(row | {"id": self.made, "split": split})
        return rows

    def train(self) -> Simulated:
        window: deque[Row] = deque(maxlen=self.prompts * self.size)
        fresh = False
        for step in range(1, self.steps + 1):
            if (step - 1) % self.reuse == 0:
                window.extend(self.generate(self.prompts, self.size, "train"))
                fresh = True
            if step % self.logging == 0:
                self.files[step] = list(window)
                self.history.append({"loss": 0.0, "step": step} | ({"rewards/correct/mean": 0.5} if fresh else {}))
                fresh = False
            if self.eval_every and step % self.eval_every == 0:
                window.extend(self.generate(self.eval_prompts, self.eval_size, "eval"))
                self.files[step] = list(window)
                entry = {"eval_loss": 0.0, "eval_rewards/correct/mean": 0.5, "step": step}
                speed = {"eval_runtime": 7.1234, "eval_samples_per_second": round(self.eval_prompts / 7.1234, 3)}
                self.history.append(entry | speed)
        self.files[self.steps] = list(window)
        last = {"train_runtime": 1.0, "step": self.steps} | ({"rewards/correct/mean": 0.5} if fresh else {})
        self.history.append(last)
        for step, rows in self.files.items():
            write_table(self.folder, step, rows)
        return self

    def state(self) -> None:
        state = {"global_step": self.steps, "log_history": self.history}
        (self.folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")

    def config(self) -> None:
        settings = {
            "num_generations": self.size, "num_generations_eval": self.eval_size, "num_iterations": 1,
            "gradient_accumulation_steps": 1, "steps_per_generation": self.reuse, "logging_steps": self.logging,
        }  # fmt: skip
        (self.folder / "run_config.json").write_text(json.dumps(settings), encoding="utf-8")

    def whole_groups(self, split: str) -> dict[int, list[float]]:
        """Rewards of the groups that lie whole in a file, by their number."""
        size = {"train": self.size, "eval": self.eval_size}[split]
        found: dict[int, list[float]] = {}
        for rows in self.files.values():
            by_id: dict[int, list[float]] = {}
            for row in rows:
                if row["split"] == split:
                    by_id.setdefault(row["id"], []).append(row["correct"])
            found |= {number: rewards for number, rewards in by_id.items() if len(rewards) == size}
        return found
