"""All formats by name, and which one the start of a file is."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from grpo_plan.errors import DomainError
from grpo_plan.readers.source import Candidate, Format

MODULES = tuple(
    (
        "verl trl ms_swift nemo_rl skyrl slime roll tinker open_instruct verifiers verifiers_v0 inspect_ai lm_eval "
        "lighteval code_evals solve_rate_sets trainer_state tensorboard mlflow wandb_runs metrics"
    ).split()
)
TABLE = "table"  # the name of what is no tool's own format: any table with usual column names


@cache
def formats() -> tuple[Format, ...]:
    """Every format, in order of recognition: the more particular ones first."""
    return tuple(f for module in MODULES for f in import_module(f"grpo_plan.readers.formats.{module}").FORMATS)


def format_named(name: str) -> Format | None:
    """The format of a name; None for ``table``, the general reader.

    Raises:
        DomainError: There is no such format.
    """
    if name == TABLE:
        return None
    for found in formats():
        if found.name == name.lower():
            return found
    names = ", ".join((TABLE, *(f.name for f in formats())))
    raise DomainError(f"format must be one of {names}; got {name!r}. See grpo-plan formats.")


def recognised(candidate: Candidate, want: str) -> Format | None:
    """The first format that a candidate looks like and that gives what is wanted (``pilot`` or ``run``)."""
    for found in formats():
        if getattr(found, want) is not None and found.looks_like(candidate):
            return found
    return None
