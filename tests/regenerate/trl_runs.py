"""Tiny runs of TRL's GRPOTrainer, on a CPU and without a network, as the files of tests/data/trl.

    python -m tests.regenerate.trl_runs FOLDER [STEPS]

Needs the extra ``trl``. Sampling differs between machines and versions, so numbers in tests that read the stored files
change with them; ``tests/trl/test_trl_completions.py`` holds what must be true of every run and version.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

KINDS = ("easy", "hard", "coin")
KEPT = (
    "num_generations num_generations_eval generation_batch_size steps_per_generation num_iterations "
    "per_device_train_batch_size gradient_accumulation_steps temperature scale_rewards multi_objective_aggregation "
    "loss_type logging_steps max_steps eval_strategy eval_steps seed"
).split()
CHAT = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
Rewards = list[float | None]


def kind_of(prompt: Any) -> str:
    """First word of a prompt, plain or chat."""
    return str(prompt if isinstance(prompt, str) else prompt[-1]["content"]).split()[0]


def verdict(prompts: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> Rewards:
    """Easy prompts pass, hard ones fail, and a coin decides the others."""
    sure = {"easy": 1.0, "hard": 0.0}
    return [sure.get(kind_of(p), float(sum(ids) % 2)) for p, ids in zip(prompts, completion_ids, strict=True)]


def flaky(prompts: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> Rewards:
    """As `verdict`, but scoring fails now and then, and always for the prompt "coin 0"."""
    found = verdict(prompts, completion_ids)
    return [None if lost(p, ids, 4) else r for p, ids, r in zip(prompts, completion_ids, found, strict=True)]


def brief(prompts: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> Rewards:
    """Half a point for a short answer; scoring fails less often."""
    return [None if lost(p, ids, 9) else 0.5 * (len(ids) < 8) for p, ids in zip(prompts, completion_ids, strict=True)]


def lost(prompt: Any, ids: Sequence[int], every: int) -> bool:
    """Whether scoring of an answer fails."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return text == "coin 0" or sum(ids) % every == every - 1


def graded(
    prompts: Sequence[Any],
    completion_ids: Sequence[Sequence[int]],
    log_extra: Callable[[str, list[int]], None] | None = None,
    **_: Any,
) -> Rewards:
    """Tenths of a point, none for hard prompts; logs the length of every answer beside it."""
    if log_extra is not None:
        log_extra("n_tokens", [len(ids) for ids in completion_ids])
    return [
        0.0 if kind_of(p) == "hard" else round(0.1 * (sum(ids) % 11), 1)
        for p, ids in zip(prompts, completion_ids, strict=True)
    ]


def model_and_tokenizer() -> tuple[Any, Any]:
    """A random transformer of one layer over whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    names = ["<pad>", "<eos>", "<unk>", "user", "assistant", *KINDS, *(str(i) for i in range(24))]
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", chat_template=CHAT
    )
    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=len(names), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    return Qwen2ForCausalLM(config), tokenizer


def train(folder: Path, rewards: Any, prompts: Sequence[Any], tested: Sequence[Any] = (), **settings: Any) -> None:
    """One run: its completions, the state of its trainer and its settings."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    shutil.rmtree(folder, ignore_errors=True)
    plain: dict[str, Any] = {
        "output_dir": str(folder), "num_generations": 4, "per_device_train_batch_size": 8, "max_completion_length": 12,
        "gradient_accumulation_steps": 2, "logging_steps": 1, "learning_rate": 1e-3, "log_completions": True,
        "num_completions_to_print": 1, "report_to": "none", "save_strategy": "no", "bf16": False, "use_cpu": True,
        "gradient_checkpointing": False, "seed": 11, "disable_tqdm": True,
    }  # fmt: skip
    config = GRPOConfig(**plain | settings)
    model, tokenizer = model_and_tokenizer()
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=config,
        train_dataset=Dataset.from_list([{"prompt": p} for p in prompts]),
        eval_dataset=Dataset.from_list([{"prompt": p} for p in tested]) if tested else None,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.state.save_to_json(str(folder / "trainer_state.json"))
    kept = {name: getattr(config, name, None) for name in KEPT}
    text = json.dumps(kept, indent=1, default=lambda value: getattr(value, "value", str(value)))
    (folder / "run_config.json").write_text(text + "\n", encoding="utf-8")


def main(folder: Path, steps: int) -> None:
    """All runs."""
    plain = [f"{kind} {i}" for kind, count in (("easy", 5), ("hard", 5), ("coin", 14)) for i in range(count)]
    chat = [[{"role": "user", "content": p}] for p in plain]
    train(folder / "binary", verdict, plain, max_steps=steps)
    train(folder / "none2", [flaky, brief], chat, max_steps=steps, steps_per_generation=4)
    train(
        folder / "batchstd", graded, plain, plain[-8:], max_steps=steps, scale_rewards="batch",
        eval_strategy="steps", eval_steps=4, per_device_eval_batch_size=8,
    )  # fmt: skip
    train(
        folder / "gap", verdict, plain, max_steps=steps, num_generations=8, per_device_train_batch_size=16,
        logging_steps=4,
    )  # fmt: skip
    train(
        folder / "small_eval", verdict, plain, plain[-2:], max_steps=steps, num_generations_eval=2,
        eval_strategy="steps", eval_steps=3, per_device_eval_batch_size=4, logging_steps=2,
    )  # fmt: skip


if __name__ == "__main__":
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
