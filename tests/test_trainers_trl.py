"""TRL and its family: the numbers of a block obey the trainer's rules, worked out again here from the block alone."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import grpo_plan as gp
from tests.helpers import shell_words

FAMILY = ("trl", "unsloth", "axolotl", "ms-swift")
DESIGN = gp.Design(group_size=8, prompts_per_step=60, steps=100)

budgets = st.builds(
    gp.Design, group_size=st.integers(2, 96), prompts_per_step=st.integers(1, 2000), steps=st.integers(1, 5000)
)
hardware = st.builds(gp.Hardware, gpus=st.integers(1, 256), micro_batch=st.one_of(st.none(), st.integers(1, 64)))


def flat(trainer: str, settings: Any) -> dict[str, Any]:
    """Settings under TRL's names."""
    if trainer != "axolotl":
        return dict(settings)
    names = {"micro_batch_size": "per_device_train_batch_size"}
    return {names.get(k, k): v for k, v in settings.items() if k != "trl"} | dict(settings["trl"])


def read_back(trainer: str, text: str) -> dict[str, Any]:
    """The numbers of a block, read from its text by the language's own reader."""
    if trainer == "axolotl":
        return flat(trainer, yaml.safe_load(text))
    if trainer == "ms-swift":
        command, *words = shell_words(text, "swift")
        assert command == "rlhf"
        return {k.removeprefix("--"): yaml.safe_load(v) for k, v in zip(words[::2], words[1::2], strict=True)}
    space: dict[str, Any] = {}
    lines = [line for line in text.splitlines() if not line.startswith(("import ", "from "))]
    exec("\n".join(lines), {"GRPOConfig": dict}, space)
    return dict(space["config"])


@pytest.mark.parametrize("trainer", FAMILY)
@given(wanted=budgets, machine=hardware)
def test_numbers_obey_the_rules_and_carry_the_design(trainer: str, wanted: gp.Design, machine: gp.Hardware) -> None:
    rules = gp.rules_for(trainer, machine)
    multiple = rules.prompt_multiple(wanted.group_size)
    assert multiple is not None
    prompts = wanted.prompts_per_step // multiple * multiple
    assume(prompts >= 1)
    design = gp.Design(group_size=wanted.group_size, prompts_per_step=prompts, steps=wanted.steps)
    block = gp.emit(design, trainer=trainer, hardware=machine, temperature=1.0)
    read = read_back(trainer, block.text) if trainer != "ms-swift" else flat(trainer, block.settings)
    assert read == flat(trainer, block.settings)

    rollouts, in_a_pass = read["generation_batch_size"], read["per_device_train_batch_size"] * machine.gpus
    assert rollouts == design.group_size * design.prompts_per_step  # rollouts, not prompts
    assert rollouts % read["num_generations"] == 0
    assert rollouts // read["num_generations"] == design.prompts_per_step  # prompts of a generation
    assert rollouts % in_a_pass == 0
    assert in_a_pass * read["gradient_accumulation_steps"] == rollouts  # one generation is one optimiser step
    assert read["num_generations"] == design.group_size >= 2
    assert read["max_steps"] == design.steps
    if machine.micro_batch is not None:
        assert read["per_device_train_batch_size"] == machine.micro_batch
    else:
        assert 1 <= read["per_device_train_batch_size"] <= 16
    if trainer == "axolotl" and machine.gpus > 1:
        assert rollouts >= read["num_generations"] * machine.gpus
    assert "max_prompt_length" not in block.text


@pytest.mark.parametrize("trainer", FAMILY)
def test_the_text_is_the_settings(trainer: str) -> None:
    for estimator in ("grpo", "dr_grpo", "rloo", "grpo_batch"):
        block = gp.emit(
            DESIGN,
            trainer=trainer,
            hardware=gp.Hardware(gpus=4),
            estimator=estimator,
            temperature=0.7,
            max_response_tokens=4096,
            refill=gp.Refilling(max_rounds=4) if trainer == "ms-swift" else None,
        )
        read = read_back(trainer, block.text)
        assert read == flat(trainer, block.settings)
        assert (read["temperature"], read["max_completion_length"]) == (0.7, 4096)
        assert (read["log_completions"], read["logging_steps"]) == (True, 1)


@given(rollouts=st.integers(2, 5000), gpus=st.integers(1, 64))
def test_the_chosen_micro_batch_is_the_largest_up_to_16(rollouts: int, gpus: int) -> None:
    design = gp.Design(group_size=rollouts, prompts_per_step=gpus, steps=1)
    block = gp.emit(design, trainer="trl", hardware=gp.Hardware(gpus=gpus))
    chosen = block.settings["per_device_train_batch_size"]
    assert chosen == max(m for m in range(1, 17) if rollouts % m == 0)
    assert any(f"per_device_train_batch_size {chosen} was chosen" in note for note in block.notes)
    assert f"must stay {rollouts}." in " ".join(block.notes)
    given_one = gp.emit(design, trainer="trl", hardware=gp.Hardware(gpus=gpus, micro_batch=1))
    assert not any("was chosen" in note for note in given_one.notes)


@pytest.mark.parametrize(
    ("version", "estimator", "loss", "scale"),
    [
        ("1.16", "grpo", "dapo", "group"),
        ("1.16", "dr_grpo", "dr_grpo", "none"),
        ("1.16", "rloo", "dapo", "none"),
        ("1.16", "grpo_batch", "dapo", "batch"),
        ("0.25.1", "grpo", "dapo", "group"),
        ("0.19.0", "grpo", "bnpo", True),
        ("0.21", "dr_grpo", "dr_grpo", False),
    ],
)
def test_trl_names_the_estimator_as_the_version_does(version: str, estimator: str, loss: str, scale: object) -> None:
    settings = gp.emit(DESIGN, trainer="trl", version=version, estimator=estimator).settings
    assert (settings["loss_type"], settings["scale_rewards"]) == (loss, scale)


def test_versions_of_the_family() -> None:
    old = gp.emit(DESIGN, trainer="trl", version="0.27")
    assert old.versions == "TRL 0.22 and newer, before 0.28"
    assert any("writes no completion files" in note for note in old.notes)
    assert not any("writes no completion files" in note for note in gp.emit(DESIGN, trainer="trl").notes)
    for trainer, version in (("trl", "0.18"), ("unsloth", "2025.9.1"), ("axolotl", "0.8"), ("ms-swift", "3.8")):
        with pytest.raises(gp.DomainError, match=f"{version} is too old"):
            gp.rules_for(trainer, version=version)
    for trainer, version in (("trl", "0.21"), ("axolotl", "0.16")):
        with pytest.raises(gp.DomainError, match="scales rewards by the batch's std from"):
            gp.emit(DESIGN, trainer=trainer, version=version, estimator="grpo_batch")
    first = gp.emit(DESIGN, trainer="axolotl", version="0.12", hardware=gp.Hardware(gpus=4)).settings
    assert "generation_batch_size" not in first["trl"]
    assert first["micro_batch_size"] * 4 * first["gradient_accumulation_steps"] == 480
    assert first["trl"]["loss_type"] == "bnpo"


def test_axolotl_wants_a_group_for_every_gpu_from_0_19_on() -> None:
    few, machine = gp.Design(group_size=16, prompts_per_step=4, steps=1), gp.Hardware(gpus=8)
    assert gp.emit(few, trainer="axolotl", version="0.16", hardware=machine)
    with pytest.raises(gp.InfeasiblePlanError, match="must be at least 128 \\(a group for each of 8 GPUs\\)"):
        gp.emit(few, trainer="axolotl", version="0.19", hardware=machine)
    assert gp.emit(few, trainer="axolotl", version="0.19", hardware=gp.Hardware(gpus=1))


def test_unsloth_keeps_its_own_default_loss() -> None:
    for estimator in ("grpo", "rloo", "grpo_batch"):
        block = gp.emit(DESIGN, trainer="unsloth", estimator=estimator)
        assert "loss_type" not in block.settings
        assert any("loss_type is left to Unsloth" in note for note in block.notes)
    assert gp.emit(DESIGN, trainer="unsloth", estimator="dr_grpo").settings["loss_type"] == "dr_grpo"
    assert any("silently sets per_device_train_batch_size" in n for n in gp.emit(DESIGN, trainer="unsloth").notes)
    with pytest.raises(gp.DomainError, match="temperature must be below 10 for Unsloth; got 10"):
        gp.emit(DESIGN, trainer="unsloth", temperature=10)


def test_refilling() -> None:
    asked = gp.Refilling(batch_multiplier=2.0)
    for trainer, title in (("trl", "TRL"), ("unsloth", "Unsloth"), ("axolotl", "Axolotl")):
        with pytest.raises(
            gp.DomainError, match=rf"^{title} cannot refill a step.*Plan without --refill, or use verl, "
        ):
            gp.emit(DESIGN, trainer=trainer, refill=asked)
    off = gp.emit(DESIGN, trainer="ms-swift")
    assert "dynamic_sample" not in off.settings
    on = gp.emit(DESIGN, trainer="ms-swift", refill=asked)
    assert (on.settings["dynamic_sample"], on.settings["max_resample_times"]) == (True, 3)
    assert any("no unlimited refilling" in note for note in on.notes)
    assert any("multiplier of 2 is ignored" in note for note in on.notes)
    limited = gp.emit(DESIGN, trainer="ms-swift", refill=gp.Refilling(max_rounds=7))
    assert limited.settings["max_resample_times"] == 7
    assert not any("unlimited" in note or "multiplier" in note for note in limited.notes)


def test_ms_swift_has_its_own_leave_one_out() -> None:
    block = gp.emit(DESIGN, trainer="ms-swift", estimator="rloo")
    assert (block.settings["advantage_estimator"], block.settings["scale_rewards"]) == ("rloo", "none")
    assert not any("Leave-one-out" in note for note in block.notes)
    assert any("Leave-one-out" in note for note in gp.emit(DESIGN, trainer="trl", estimator="rloo").notes)


def test_what_the_dataset_must_hold_is_said() -> None:
    for trainer in FAMILY:
        notes = " ".join(gp.emit(DESIGN, trainer=trainer, hardware=gp.Hardware(gpus=4)).notes)
        assert "fewer than 60 prompts trains 0 steps" in notes
        assert "exactly 4 processes" in notes
