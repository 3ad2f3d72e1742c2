"""One optimiser step of TRL's own trainer per loss type: the gradient of its loss with respect to every token.

Run by tests/test_losses_trl.py in a process of its own. The log-probability of each token gets a parameter of value 0
added, so that its gradient is minus the advantage times the weight of the token: ratios are 1. Written to ``seen{rank}.json``.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

LONGEST = 6
MICRO, MOST = 2, 8  # responses of a micro-batch
WORDS = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(3))])}


class Watched(GRPOTrainer):  # type: ignore[misc, unused-ignore]
    """The trainer, with a parameter added to the log-probabilities, and what its loss saw."""

    shifts: Any
    seen: list[dict[str, Any]]
    grads: list[Any]

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        logps, *others = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if not torch.is_grad_enabled():
            return (logps * 0.0, *others)
        rank, call = self.accelerator.process_index, len(self.seen) - 1
        return (logps * 0.0 + self.shifts[rank, call, : logps.shape[0], : logps.shape[1]], *others)

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        self.seen.append({"mask": mask.tolist(), "advantages": inputs["advantages"].tolist()})
        return super()._compute_loss(model, inputs)


class Grads(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Keeps the gradient of each optimiser step."""

    def __init__(self, trainer: Watched) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Before the step; the gradient is then set to zero."""
        self.trainer.grads.append(self.trainer.shifts.grad.tolist())


def reward(completions: list[str], **_: Any) -> list[float]:
    """Something that differs within groups."""
    return [(7 * len(c) + c.count("w1")) % 5 / 4 for c in completions]


def trained(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Gradients of one run."""
    words = Tokenizer(models.WordLevel(WORDS, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    torch.manual_seed(3)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1,
        )
    )  # fmt: skip
    model.shifts = torch.nn.Parameter(torch.zeros(2, 4, MOST, LONGEST))
    config = GRPOConfig(
        **{
            "output_dir": str(folder / "out"), "per_device_train_batch_size": MICRO, "num_generations": 4,
            "gradient_accumulation_steps": 4, "max_completion_length": LONGEST, "max_steps": 1, "report_to": "none",
            "use_cpu": True, "bf16": False, "max_grad_norm": 0.0, "save_strategy": "no", "seed": 6, "beta": 0.0,
            "optim": "sgd", "learning_rate": 1e-9, "logging_steps": 1, "disable_tqdm": True, "scale_rewards": "none",
        }
        | settings
    )  # fmt: skip
    data = Dataset.from_dict({"prompt": [f"w{i % 3} w{i // 3 % 3} w{i // 9}" for i in range(16)]})
    trainer = Watched(model, reward, args=config, train_dataset=data, processing_class=tokenizer)
    trainer.shifts, trainer.seen, trainer.grads = model.shifts, [], []
    trainer.add_callback(Grads(trainer))
    trainer.train()
    return {"seen": trainer.seen, "grads": trainer.grads, "rank": trainer.accelerator.process_index}


def main() -> None:
    """Every run asked for."""
    folder = Path(sys.argv[1])
    runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    found = {name: trained(folder, settings) for name, settings in runs.items()}
    rank = next(iter(found.values()))["rank"]
    (folder / f"seen{rank}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
