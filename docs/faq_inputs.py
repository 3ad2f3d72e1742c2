"""Small simulated inputs of README and docs/faq.md, each with a fixed seed; make_docs.py writes them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def _rewards(rng: random.Random, shape: tuple[float, float], group_size: int) -> list[int]:
    """Rewards of one group whose prompt has a pass rate from a Beta."""
    rate = rng.betavariate(*shape)
    return [int(rng.random() < rate) for _ in range(group_size)]


def _write(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def flat_log(path: Path) -> None:
    """A TRL log in which groups differ from each other, never within: a deviation per reward, none per group."""
    rng = random.Random(1)
    rows = []
    for step in range(1, 41):
        means = [rng.choice((-7.0, 2.0)) for _ in range(4)]
        mean = sum(means) / 4
        spread = (sum((m - mean) ** 2 for m in means) / 3) ** 0.5
        row = {"step": step, "loss": 0.0, "grad_norm": 0.0, "rewards/rewrite/mean": mean}
        rows.append(
            row | {"rewards/rewrite/std": spread, "reward": mean, "reward_std": 0.0, "frac_reward_zero_std": 1.0}
        )
    _write(path, rows)


def zero_loss_log(path: Path) -> None:
    """A TRL log of 0/1 rewards, 4 groups of 4 a step: loss 0.0 in every row, a gradient where a group is mixed."""
    rng = random.Random(2)
    rows = []
    for step in range(1, 61):
        groups = [_rewards(rng, (0.35, 0.7), 4) for _ in range(4)]
        dead = sum(len(set(g)) == 1 for g in groups) / 4
        reward = sum(map(sum, groups)) / 16
        spread = sum((sum(g) / 4 * (1 - sum(g) / 4) * 4 / 3) ** 0.5 for g in groups) / 4
        row = {"step": step, "loss": 0.0, "grad_norm": round(0.4 * (1 - dead), 3), "reward": reward}
        rows.append(row | {"reward_std": spread, "frac_reward_zero_std": dead, "kl": 0.0})
    _write(path, rows)


def means_log(path: Path) -> None:
    """A TRL log of 16 groups of 8 a step whose mean pass rate is 0.18, and most of whose groups are dead."""
    rng = random.Random(3)
    rows = []
    for step in range(1, 101):
        groups = [_rewards(rng, (0.18, 0.82), 8) for _ in range(16)]
        dead = sum(len(set(g)) == 1 for g in groups) / 16
        rows.append({"step": step, "reward": sum(map(sum, groups)) / 128, "frac_reward_zero_std": dead})
    _write(path, rows)


def filtered_log(path: Path) -> None:
    """A log written after dynamic sampling threw dead groups away: none is dead, three batches were rolled out."""
    rng = random.Random(4)
    row = {"frac_reward_zero_std": 0.0, "train/num_gen_batches": 3}
    _write(path, ({"step": s, "reward": round(0.45 + 0.03 * rng.random(), 3)} | row for s in range(1, 61)))


def verl_dump(path: Path) -> None:
    """What verl writes to ``trainer.rollout_data_dir``: one file a step, here step 1, 128 prompts x 8."""
    rng = random.Random(5)
    rows = []
    for i in range(128):
        for j, reward in enumerate(_rewards(rng, (0.4, 0.7), 8)):
            row = {"input": f"What is {i} + {i}?", "output": "", "gts": str(2 * i), "score": float(reward)}
            rows.append(row | {"step": 1, "uid": f"{i:08x}-0000-4000-8000-000000000000_{j}_0"})
    _write(path / "1.jsonl", rows)


def too_hard(path: Path) -> None:
    """Counts of 300 prompts x 16 rollouts of a model for which nearly all are too hard."""
    rng = random.Random(6)
    lines = (f"q{i},16,{sum(_rewards(rng, (0.04, 1.8), 16))}" for i in range(300))
    path.write_text("\n".join(("prompt_id,n,k", *lines)) + "\n", encoding="utf-8")


def graded(path: Path) -> None:
    """Graded rewards, 400 prompts x 8: a share of four checks; about a fifth of the prompts always earn the same."""
    rng = random.Random(7)
    rows = []
    for i in range(400):
        rate, same = rng.betavariate(0.6, 0.6), rng.random() < 0.2
        first = sum(rng.random() < rate for _ in range(4)) / 4
        rewards = [first if same else sum(rng.random() < rate for _ in range(4)) / 4 for _ in range(8)]
        rows.append({"prompt_id": f"q{i}", "rewards": rewards})
    _write(path, rows)


def survivors(path: Path) -> None:
    """A dump that lost its dead groups: of 600 groups of 8 only the mixed ones."""
    rng = random.Random(8)
    groups = [_rewards(rng, (0.35, 0.7), 8) for _ in range(600)]
    _write(path, ({"prompt_id": f"q{i}", "rewards": g} for i, g in enumerate(groups) if len(set(g)) > 1))


def traces(path: Path) -> None:
    """Traces as verifiers writes them, 64 tasks x 8: some answers were not scored, some were cut off."""
    rng = random.Random(9)
    rows = []
    for i in range(64):
        for j, reward in enumerate(_rewards(rng, (0.5, 0.8), 8)):
            failed, cut = rng.random() < 0.04, not reward and rng.random() < 0.3
            trace = {
                "rewards": {"correct": None if failed else {"score": float(reward), "weight": 1.0}},
                "metrics": {},
                "ok": not failed,
                "errors": [{"type": "TaskError"}] if failed else [],
                "is_completed": True,
                "stop_condition": "max_output_tokens" if cut else "agent_completed",
                "agent": {"name": "agent", "trainable": True},
            }
            task = {"key": f"{i:064x}", "data": {"idx": i, "prompt": f"What is {i} + {i}?"}}
            row = {"id": f"{i:016x}{j:016x}", "env": {"id": "sums"}, "task": task, "ok": not failed}
            rows.append(row | {"is_timeout": False, "errors": [], "traces": [trace]})
    _write(path, rows)


def my_counts(path: Path) -> None:
    """Counts of 500 prompts x 8 rollouts under column names of one's own."""
    rng = random.Random(10)
    lines = (f"q{i},8,{sum(_rewards(rng, (0.5, 0.7), 8))}" for i in range(500))
    path.write_text("\n".join(("problem,attempts,solved", *lines)) + "\n", encoding="utf-8")


def verl_steps(path: Path) -> None:
    """The same of four steps, the same 64 prompts at each, whose pass rates rise from step to step."""
    rng = random.Random(11)
    rates = [rng.betavariate(0.4, 0.7) for _ in range(64)]
    path.mkdir(parents=True, exist_ok=True)
    for step in range(1, 5):
        rows = []
        for i, rate in enumerate(rates):
            now = rate ** (1.0 / step)
            for j in range(8):
                row = {"input": f"What is {i} + {i}?", "output": "", "gts": str(2 * i)}
                row |= {"score": float(rng.random() < now), "step": step}
                rows.append(row | {"uid": f"{step:04x}{i:04x}-0000-4000-8000-000000000000_{j}_0"})
        _write(path / f"{step}.jsonl", rows)


def two_rewards(path: Path) -> None:
    """Completions as TRL writes them, one step of 128 prompts x 8 with two rewards: a right answer, and its format."""
    import polars

    rng = random.Random(12)
    rows = []
    for i in range(128):
        rate = rng.betavariate(0.35, 0.7)
        right = [float(rng.random() < rate) for _ in range(8)]
        formed = [float(r or rng.random() < 0.8) for r in right]
        total = [a + b for a, b in zip(right, formed, strict=True)]
        mean = sum(total) / 8
        spread = (sum((x - mean) ** 2 for x in total) / 7) ** 0.5 + 1e-4
        for a, b, x in zip(right, formed, total, strict=True):
            row = {"step": 1, "prompt": f"What is {i} + {i}?", "completion": "", "correct": a, "format": b}
            rows.append(row | {"advantage": (x - mean) / spread})
    path.joinpath("completions").mkdir(parents=True, exist_ok=True)
    polars.DataFrame(rows).write_parquet(path / "completions" / "completions_00001.parquet")


INPUTS: dict[str, Callable[[Path], None]] = {
    "flat_log.jsonl": flat_log,
    "zero_loss_log.jsonl": zero_loss_log,
    "means_log.jsonl": means_log,
    "filtered_log.jsonl": filtered_log,
    "verl_dump": verl_dump,
    "too_hard.csv": too_hard,
    "graded.jsonl": graded,
    "survivors.jsonl": survivors,
    "traces.jsonl": traces,
    "my_counts.csv": my_counts,
    "verl_steps": verl_steps,
    "two_rewards": two_rewards,
}
