"""Write small data sets with pass rates, in the documented layouts, made up: ``python tests/regenerate/solve_rates.py OUT``.

Prompt i of 40 passes with the chance i/39 (so that some never and some always pass). Every set is written as JSON lines
and as Parquet, the lime sets as CSV too. ``truth.json`` holds the counts.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import polars as pl

PROMPTS = 40
SKYWORK = ("DeepSeek-R1-Distill-Qwen-1.5B", "DeepSeek-R1-Distill-Qwen-7B", "DeepSeek-R1-Distill-Qwen-32B")
SYNTHETIC = ("org/small-model", "org/large-model")


def passes(n: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    return [sum(draw.random() < i / (PROMPTS - 1) for _ in range(n)) for i in range(PROMPTS)]


def sets() -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Rows of every set, and the counts behind them."""
    texts = [f"What is {i} + {i + 1}?" for i in range(PROMPTS)]
    k = {name: passes(n, seed) for seed, (name, n) in enumerate(
        {"big-math": 64, "polaris": 8, "intellect-2": 16, "intellect-3": 8, "guru": 16, "openmath": 32, "lime": 128,
         **dict.fromkeys(SKYWORK, 16)}.items())}  # fmt: skip
    sizes = [4 + i % 5 for i in range(PROMPTS)]
    draw = random.Random(99)
    some = {
        m: [sum(draw.random() < i / (PROMPTS - 1) for _ in range(sizes[i])) for i in range(PROMPTS)] for m in SYNTHETIC
    }
    rows: dict[str, list[dict[str, Any]]] = {
        "big-math": [
            {"problem": t, "answer": "1", "source": ("math", "orca")[i % 2], "domain": ["Algebra"],
             "llama8b_solve_rate": None if i == 3 else k["big-math"][i] / 64}
            for i, t in enumerate(texts)
        ],
        "skywork-or1": [
            {"data_source": "train-math", "prompt": [{"role": "user", "content": t}], "ability": "math",
             "reward_model": {"ground_truth": "1", "style": "rule"},
             "extra_info": {"index": i, "model_difficulty": {m: 16 - k[m][i] for m in SKYWORK}}}
            for i, t in enumerate(texts)
        ],
        "polaris": [{"problem": t, "answer": "1", "difficulty": f"{k['polaris'][i]}/8"} for i, t in enumerate(texts)],
        "intellect-2": [
            {"problem_id": f"p{i}", "task_type": "verifiable_math", "prompt": t, "verification_info": "{}", "metadata": "{}",
             "solve_rate_qwen_r1_distill_7b": k["intellect-2"][i] / 16}
            for i, t in enumerate(texts)
        ],
        "intellect-3": [
            {"question": t, "answer": "1", "info": "{}", "avg@8_qwen3_4b_thinking_2507": k["intellect-3"][i] / 8}
            for i, t in enumerate(texts)
        ],
        "synthetic-2": [
            {"problem_id": f"p{i}", "prompt": t, "task_type": "math",
             **{f"{m}_avg_reward": some[m][i] / sizes[i] for m in SYNTHETIC},
             **{f"{m}_responses": ["x"] * sizes[i] for m in SYNTHETIC}}
            for i, t in enumerate(texts)
        ],
        "guru": [
            {"data_source": "math__dapo", "prompt": [{"role": "user", "content": t}], "ability": "math",
             "qwen2.5_7b_pass_rate": k["guru"][i] / 16, "qwen3_30b_pass_rate": 1.0}
            for i, t in enumerate(texts)
        ],
        "openmath-reasoning": [
            {"problem": t, "problem_source": "aops", "expected_answer": "1",
             "pass_rate_72b_tir": "n/a" if i in (5, 6) else str(k["openmath"][i] / 32)}
            for i, t in enumerate(texts)
        ],
        "lime-difficulty": [{"problem": t, "difficulty": 100 * (1 - k["lime"][i] / 128)} for i, t in enumerate(texts)],
        "lime-solved": [
            {"problem": t, "ground_truth": "1", "solved_percentage": round(100 * k["lime"][i] / 128, 4)}
            for i, t in enumerate(texts)
        ],
        "deepmath": [
            {"question": t, "final_answer": "1", "difficulty": 5.0 + i % 5, "topic": "Algebra", "r1_solution_1": "x"}
            for i, t in enumerate(texts)
        ],
    }  # fmt: skip
    return rows, {**k, **some, "sizes": sizes}


def write(out: Path) -> None:
    rows, truth = sets()
    for name, table in rows.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
        frame = pl.DataFrame(table)
        frame.write_parquet(folder / "data.parquet")
        if name.startswith("lime"):
            frame.write_csv(folder / "data.csv")
    (out / "truth.json").write_text(json.dumps(truth), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
