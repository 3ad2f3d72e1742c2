"""A tiny model is trained by TRL with an emitted block: every optimiser step sees the groups of the design."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

import grpo_plan as gp
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")

SCRIPT = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOTrainer

folder, prompts = sys.argv[1], int(sys.argv[2])
space = {}
exec(open(os.path.join(folder, "block.py")).read(), space)
vocabulary = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(20))])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
torch.manual_seed(0)
model = Qwen2ForCausalLM(
    Qwen2Config(
        vocab_size=len(vocabulary), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )
)
seen = []

def reward(prompts, completions, trainer_state, **_):
    seen.append([trainer_state.global_step, list(prompts)])
    return [float(len(c) % 2) for c in completions]

data = Dataset.from_dict({"prompt": [f"w{i}" for i in range(prompts)]})
trainer = GRPOTrainer(model, reward, args=space["config"], train_dataset=data, processing_class=tokenizer)
trainer.train()
rank = trainer.accelerator.process_index
json.dump([trainer.state.global_step, seen], open(os.path.join(folder, f"seen{rank}.json"), "w"))
"""


def trained(folder: Path, block: gp.Block, prompts: int, processes: int) -> tuple[int, list[Counter[str]]]:
    """Steps that TRL made, and how often each prompt was rolled out in each."""
    extra = f'    use_cpu=True,\n    bf16=False,\n    report_to="none",\n    output_dir={str(folder / "out")!r},\n)\n'
    (folder / "block.py").write_text(block.text.removesuffix(")\n") + extra, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    running = [
        subprocess.Popen(
            [sys.executable, str(folder / "train.py"), str(folder), str(prompts)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
            | (
                {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_PORT": port}
                | {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_USE_CPU": "true"}
                if processes > 1
                else {}
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    for process in running:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said[-2000:]
    steps = 0
    counts: dict[int, Counter[str]] = {}
    for rank in range(processes):
        steps, seen = json.loads((folder / f"seen{rank}.json").read_text(encoding="utf-8"))
        for step, shown in seen:
            counts.setdefault(step, Counter()).update(shown)
    return steps, [counts[step] for step in sorted(counts)]


@pytest.mark.slow
def test_every_step_sees_the_groups_of_the_design(tmp_path: Path) -> None:
    design, processes = gp.Design(group_size=4, prompts_per_step=3, steps=4), 2
    machine = gp.Hardware(gpus=processes, micro_batch=2)
    block = gp.emit(design, trainer="trl", hardware=machine, max_response_tokens=3, temperature=1.0)
    steps, shown = trained(tmp_path, block, prompts=7, processes=processes)  # 7: two chunks of 3, one prompt dropped
    assert steps == design.steps
    assert len(shown) == design.steps
    for counts in shown:
        assert sorted(counts.values()) == [design.group_size] * design.prompts_per_step


@pytest.mark.slow
def test_fewer_prompts_than_a_step_takes_train_no_step(tmp_path: Path) -> None:
    design = gp.Design(group_size=4, prompts_per_step=3, steps=4)
    block = gp.emit(design, trainer="trl", max_response_tokens=3, temperature=1.0)
    assert any("fewer than 3 prompts trains 0 steps" in note for note in block.notes)
    steps, _ = trained(tmp_path, block, prompts=2, processes=1)
    assert steps == 0
