"""Tiny trainings of TRL with rewards that are given, not earned: what it logs. Run by tests/test_trainer_advantages.py.

python -m tests.trl.advantages FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.regenerate.trl_runs import Rewards, model_and_tokenizer

STEPS, SIZE, WEIGHTS = 2, 4, [1.0, -0.5]
RUNS: dict[str, tuple[int, float, dict[str, Any]]] = {
    **{
        f"{scale}{functions}": (functions, share, {"scale_rewards": scale})
        for scale in ("group", "batch", "none")
        for functions, share in ((1, 0.25), (2, 0.3))
    },
    "summed": (2, 0.3, {"multi_objective_aggregation": "sum_then_normalize"}),
    "normalized": (2, 0.3, {"multi_objective_aggregation": "normalize_then_sum"}),
    "normalized_all": (2, 0.0, {"multi_objective_aggregation": "normalize_then_sum"}),
}
"""Number of reward functions, share of failed scorings, settings."""


def given(name: str, rng: np.random.Generator, share: float) -> Callable[..., Rewards]:
    """A reward function that gives random rewards: groups dead, mixed and unscored, tiny and large."""

    def reward(completions: Sequence[Any], **_: Any) -> Rewards:
        groups = len(completions) // SIZE
        scales = rng.choice([0.0, 1.0, 1e-3, 5.0], (groups, 1))
        values = np.round(rng.normal(0, 1, (groups, SIZE)) * scales, 4)
        values[scales[:, 0] == 1.0] = values[scales[:, 0] == 1.0] > 0
        lost = rng.random((groups, SIZE)) < share
        lost[rng.random(groups) < share / 4] = True
        return [None if gone else float(v) for v, gone in zip(values.ravel(), lost.ravel(), strict=True)]

    reward.__name__ = name
    return reward


def train(folder: Path, seed: int, functions: int, share: float, settings: dict[str, Any]) -> None:
    """One run, whose completions lie in the folder."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rng = np.random.default_rng(seed)
    plain: dict[str, Any] = {
        "output_dir": str(folder), "num_generations": SIZE, "per_device_train_batch_size": 32, "max_steps": STEPS,
        "max_completion_length": 2, "logging_steps": 1, "log_completions": True, "num_completions_to_print": 1,
        "report_to": "none", "save_strategy": "no", "bf16": False, "use_cpu": True, "gradient_checkpointing": False,
        "seed": 11, "disable_tqdm": True, "reward_weights": WEIGHTS[:functions],
    }  # fmt: skip
    model, tokenizer = model_and_tokenizer()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[given(name, rng, share) for name in ("first", "second")[:functions]],
        args=GRPOConfig(**plain | settings),
        train_dataset=Dataset.from_list([{"prompt": f"coin {i}"} for i in range(24)]),
        processing_class=tokenizer,
    )
    trainer.train()
    size = {"steps": STEPS, "logged": [row.get("frac_reward_zero_std") for row in trainer.state.log_history]}
    (folder / "run.json").write_text(json.dumps(size), encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for number, (run, (functions, share, settings)) in enumerate(RUNS.items()):
        train(Path(sys.argv[1]) / run, 100 + number, functions, share, settings)
