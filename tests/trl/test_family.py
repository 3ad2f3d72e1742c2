"""Blocks are read by the parsers of the trainers built on TRL, where those are installed."""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from typing import Any

import pytest

import grpo_plan as gp
from tests.helpers import shell_words

pytestmark = pytest.mark.filterwarnings("ignore")  # they warn about themselves

DESIGN = gp.Design(group_size=8, prompts_per_step=60, steps=100)
MACHINE = gp.Hardware(gpus=4)


def block_of(trainer: str, estimator: str) -> gp.Block:
    return gp.emit(
        DESIGN,
        trainer=trainer,
        hardware=MACHINE,
        estimator=estimator,
        temperature=0.7,
        max_response_tokens=2048,
        refill=gp.Refilling(max_rounds=5),
    )


@pytest.mark.skipif(importlib.util.find_spec("swift") is None, reason="ms-swift is not installed")
@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo", "grpo_batch"])
def test_ms_swift_reads_its_flags(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        arguments = pytest.importorskip("swift.arguments").RLHFArguments
        config: Any = pytest.importorskip("swift.rlhf_trainers.arguments").GRPOConfig
    block = block_of("ms-swift", estimator)
    command, *words = shell_words(block.text, "swift")
    assert command == "rlhf"
    read, unknown = argparse.ArgumentParser.parse_known_args(transformers.HfArgumentParser([arguments]), words)
    assert unknown == []
    for name, value in block.settings.items():
        assert getattr(read, name) == ([value] if name == "loss_type" else value), name
    monkeypatch.setattr(config, "world_size", property(lambda _: MACHINE.gpus))
    settings = {key: value for key, value in block.settings.items() if key != "rlhf_type"}
    made = config(use_cpu=True, output_dir="unused", **settings)
    assert made.steps_per_generation == made.gradient_accumulation_steps
    for broken in ({"per_device_train_batch_size": 7}, {"num_generations": 7}):
        with pytest.raises(ValueError, match="divisible"):
            config(use_cpu=True, output_dir="unused", **(settings | broken))


@pytest.mark.skipif(importlib.util.find_spec("axolotl") is None, reason="Axolotl is not installed")
@pytest.mark.parametrize("estimator", ["grpo", "dr_grpo", "rloo", "grpo_batch"])
def test_axolotl_reads_its_yaml(estimator: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yaml = pytest.importorskip("yaml")
        config: Any = pytest.importorskip("axolotl.utils.schemas.config").AxolotlInputConfig
    read = yaml.safe_load(block_of("axolotl", estimator).text)
    others = {"base_model": "a/b", "learning_rate": 1e-6, "datasets": [{"path": "a"}], "world_size": MACHINE.gpus}
    made = config(**others, **read).model_dump()
    for name, value in read["trl"].items():
        assert made["trl"][name] == value, name
    for broken in ({"num_generations": 7}, {"generation_batch_size": 24}, {"num_generations": 1}):
        with pytest.raises(ValueError, match="GRPO"):
            config(**others, **(read | {"trl": read["trl"] | broken}))
