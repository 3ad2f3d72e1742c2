"""Tiny trainings with and without the callback; what they logged as JSON. Run by tests/test_trl_callback.py.

python -m tests.trl.watched FOLDER
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.regenerate.trl_runs import Rewards, brief, flaky, model_and_tokenizer, verdict

PROMPTS = [f"{kind} {i}" for kind, count in (("easy", 5), ("hard", 5), ("coin", 14)) for i in range(count)]
FIXED = {
    "num_generations": 4, "per_device_train_batch_size": 8, "max_completion_length": 12,
    "gradient_accumulation_steps": 2, "logging_steps": 1, "learning_rate": 1e-3, "log_completions": True,
    "num_completions_to_print": 1, "report_to": "none", "save_strategy": "no", "bf16": False, "use_cpu": True,
    "gradient_checkpointing": False, "seed": 11, "disable_tqdm": True, "max_steps": 8,
}  # fmt: skip


def nothing(completion_ids: Sequence[Sequence[int]], **_: Any) -> Rewards:
    """No answer is ever right."""
    return [0.0 for _ in completion_ids]


def noted(function: Callable[..., Rewards], said: list[Any]) -> Callable[..., Rewards]:
    """The same reward function; the step and what it gave are noted."""

    def reward(*arguments: Any, **named: Any) -> Rewards:
        found = function(*arguments, **named)
        said.append([named["trainer_state"].global_step + 1, found])
        return found

    reward.__name__ = function.__name__
    return reward


def train(folder: Path, rewards: Sequence[Callable[..., Rewards]], callbacks: Sequence[Any], **settings: Any) -> Any:
    """One run, as an object of JSON."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Sender(TrainerCallback):  # type: ignore[misc]
        """Stands for those that send a row away."""

        def __init__(self) -> None:
            self.sent: list[dict[str, Any]] = []

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            """Keep the row as it is now."""
            self.sent.append(dict(logs))

    said: list[list[Any]] = [[] for _ in rewards]
    model, tokenizer = model_and_tokenizer()
    before, after = Sender(), Sender()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[noted(f, s) for f, s in zip(rewards, said, strict=True)],
        args=GRPOConfig(output_dir=str(folder), **{**FIXED, **settings}),
        train_dataset=Dataset.from_list([{"prompt": p} for p in PROMPTS]),
        processing_class=tokenizer,
        callbacks=[before, *callbacks, after],
    )
    trainer.train()
    return {
        "history": trainer.state.log_history, "said": said, "sent": [before.sent, after.sent],
        "steps": trainer.state.global_step, "wrapped": "_calculate_rewards" in vars(trainer),
    }  # fmt: skip


def main(folder: Path) -> None:
    """All runs."""
    from grpo_plan.trl import GrpoPlanCallback

    out: dict[str, Any] = {}
    two = [flaky, brief]
    for name, rewards, more in (
        ("batch", two, {"scale_rewards": "batch"}),
        ("twice", [verdict], {"num_iterations": 2}),
        ("sparse", [verdict], {"logging_steps": 5, "max_steps": 10}),
        ("whole", [verdict], {"logging_steps": 5, "max_steps": 10, "steps_per_generation": 10}),
    ):
        callback = GrpoPlanCallback(pass_threshold=0.75) if name == "batch" else GrpoPlanCallback()
        out[name] = train(folder / name, rewards, [callback], **more)
        groups = callback.monitor.run.groups
        assert groups is not None
        out[name]["groups"] = [groups.step.tolist(), groups.dead.tolist()]
    out["alone"] = train(folder / "alone", two, [], scale_rewards="batch")
    stopping = GrpoPlanCallback(stop_on="critical", report_to=folder / "alerts.jsonl")
    out["stopped"] = train(folder / "stopped", [nothing], [stopping], max_steps=60, log_completions=False)
    (folder / "found.json").write_text(json.dumps(out), encoding="utf-8")


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.ERROR)
    main(Path(sys.argv[1]))
