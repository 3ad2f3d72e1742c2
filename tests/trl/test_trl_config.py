"""Blocks are read by TRL's own `GRPOConfig`, and its verdict on a design is that of the rules."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.trainers.nearest import failed_checks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    trl = pytest.importorskip("trl")
    GRPOConfig: Any = trl.GRPOConfig

pytestmark = pytest.mark.filterwarnings("ignore")  # TRL and transformers warn about themselves


class World:
    """What TRL takes for the number of processes."""

    size = 1


@pytest.fixture(autouse=True, scope="module")
def world() -> Iterator[None]:
    """`GRPOConfig` reads the number of processes from a property; here it is a number of the test's choice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GRPOConfig, "world_size", property(lambda _: World.size))
        yield


def executed(text: str, gpus: int) -> Any:
    """The configuration that a block makes, on a machine without GPUs."""
    World.size = gpus
    assert text.endswith("\n)\n")
    space: dict[str, Any] = {}
    exec(text.removesuffix(")\n") + "    use_cpu=True,\n)\n", space)
    return space["config"]


def refusal(gpus: int, **settings: Any) -> str | None:
    """What TRL says against these settings; None if it takes them."""
    World.size = gpus
    try:
        GRPOConfig(use_cpu=True, **settings)
    except ValueError as error:
        return str(error)
    return None


designs = st.builds(
    gp.Design,
    group_size=st.integers(2, 64),
    prompts_per_step=st.integers(1, 512),
    steps=st.one_of(st.none(), st.integers(1, 10_000)),
)
hardware = st.builds(gp.Hardware, gpus=st.integers(1, 64), micro_batch=st.one_of(st.none(), st.integers(1, 32)))


@given(design=designs, machine=hardware, estimator=st.sampled_from(["grpo", "dr_grpo", "rloo", "grpo_batch"]))
def test_trl_reads_the_block_as_the_design(design: gp.Design, machine: gp.Hardware, estimator: str) -> None:
    within = gp.nearest_design(gp.rules_for("trl", machine), design).within
    assume(within is not None)
    assert within is not None
    block = gp.emit(
        within, trainer="trl", hardware=machine, estimator=estimator, temperature=0.8, max_response_tokens=900
    )
    read = executed(block.text, machine.gpus)
    assert read.generation_batch_size == within.group_size * within.prompts_per_step
    assert read.num_generations == within.group_size
    assert read.steps_per_generation == read.gradient_accumulation_steps  # one generation serves one optimiser step
    one_step = read.per_device_train_batch_size * machine.gpus * read.gradient_accumulation_steps
    assert one_step == within.rollouts_per_step
    assert machine.micro_batch in (None, read.per_device_train_batch_size)
    assert read.max_steps == (within.steps or -1)
    assert (read.temperature, read.max_completion_length, read.logging_steps) == (0.8, 900, 1)
    assert read.log_completions is True
    assert read.scale_rewards == {"grpo": "group", "grpo_batch": "batch"}.get(estimator, "none")
    assert read.loss_type == ("dr_grpo" if estimator == "dr_grpo" else "dapo")
    for name, value in block.settings.items():
        assert getattr(read, name) == value, name


@settings(max_examples=300)
@given(
    design=st.builds(
        gp.Design, group_size=st.integers(1, 12), prompts_per_step=st.integers(1, 40), steps=st.just(None)
    ),
    gpus=st.integers(1, 12),
    micro_batch=st.integers(1, 8),
)
def test_the_rules_are_those_of_trl(design: gp.Design, gpus: int, micro_batch: int) -> None:
    rules = gp.rules_for("trl", gp.Hardware(gpus=gpus, micro_batch=micro_batch))
    said = refusal(
        gpus,
        num_generations=design.group_size,
        generation_batch_size=design.rollouts_per_step,
        per_device_train_batch_size=micro_batch,
    )
    assert (said is None) is not bool(failed_checks(rules, design))
    assert said is None or "divisible" in said or "at least 2 generations" in said
    multiple = rules.prompt_multiple(design.group_size)
    assert (said is None) is (multiple is not None and design.prompts_per_step % multiple == 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("num_generations=8", "num_generations=7"),
        ("generation_batch_size=512", "generation_batch_size=504"),
        ("per_device_train_batch_size=16", "per_device_train_batch_size=24"),
    ],
)
def test_trl_refuses_a_broken_block(broken: str, message: str) -> None:
    design = gp.Design(group_size=8, prompts_per_step=64, steps=10)
    text = gp.emit(design, trainer="trl", hardware=gp.Hardware(gpus=4)).text
    executed(text, 4)
    assert broken in text
    with pytest.raises(ValueError, match="divisible"):
        executed(text.replace(broken, message), 4)


def test_unsloth_arguments_are_arguments_of_trl() -> None:
    design = gp.Design(group_size=8, prompts_per_step=64, steps=10)
    for estimator in ("grpo", "dr_grpo", "rloo", "grpo_batch"):
        block = gp.emit(design, trainer="unsloth", hardware=gp.Hardware(gpus=2), estimator=estimator)
        read = executed(block.text.replace("import unsloth", "# import unsloth"), 2)
        assert read.generation_batch_size == 512
        assert read.scale_rewards == {"grpo": "group", "grpo_batch": "batch"}.get(estimator, "none")
