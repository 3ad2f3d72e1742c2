"""The trainers by name; each is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from grpo_plan._suggest import not_one_of
from grpo_plan.errors import DomainError

if TYPE_CHECKING:
    from grpo_plan.rules import DesignRules
    from grpo_plan.trainers.base import Hardware, Trainer

TRAINERS = (
    "trl", "verl", "openrlhf", "nemo-rl", "prime-rl", "skyrl", "slime", "roll", "tinker", "unsloth", "axolotl",
    "ms-swift", "open-instruct", "easyr1",
)  # fmt: skip


def known_trainers() -> tuple[str, ...]:
    """Names that `get_trainer` takes."""
    return tuple(name for name in TRAINERS if find_spec(_module(name)) is not None)


def get_trainer(name: str) -> Trainer:
    """The trainer of that name.

    Raises:
        DomainError: No such trainer.

    >>> get_trainer("MS-Swift").title
    'ms-swift'
    """
    if isinstance(name, str) and name.lower() in known_trainers():
        name = name.lower()
    else:
        raise DomainError(not_one_of("trainer", name, known_trainers()))
    trainer: Trainer = import_module(_module(name)).TRAINER
    return trainer


def rules_for(trainer: str, hardware: Hardware | None = None, version: str | None = None) -> DesignRules:
    """What a trainer demands of a design on given hardware, to shape a plan by.

    Args:
        trainer: Name of the trainer.
        hardware: GPUs that train and rollouts of one pass; default one GPU.
        version: Version of the trainer; default the newest known.

    Raises:
        DomainError: No such trainer, or a version that is too old.

    >>> from grpo_plan.trainers.base import Hardware
    >>> rules_for("trl", Hardware(gpus=8, micro_batch=4)).prompt_multiple(6)
    16
    """
    from grpo_plan.trainers.base import Hardware

    return get_trainer(trainer).rules(hardware or Hardware(), version)


def _module(name: str) -> str:
    return f"grpo_plan.trainers.{name.replace('-', '_')}"
