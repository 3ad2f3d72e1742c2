"""All formats by name, and which one the start of a file is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module

from grpo_plan._suggest import did_you_mean
from grpo_plan.errors import DomainError
from grpo_plan.readers.source import Candidate, Format

MODULES = tuple(
    (
        "verl trl ms_swift nemo_rl skyrl slime roll tinker open_instruct verifiers verifiers_v0 inspect_ai lm_eval "
        "lighteval code_evals solve_rate_sets trainer_state tensorboard mlflow wandb_runs metrics"
    ).split()
)
FEWEST_ROWS = 3  # of which most can be told from all
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
    names = (TABLE, *(f.name for f in formats()))
    raise DomainError(
        f"format must be one of {', '.join(names)}; got {name!r}. See grpo-plan formats.{did_you_mean(name, names)}"
    )


def recognised(candidate: Candidate, want: str) -> Format | None:
    """The first format that a candidate looks like and that gives what is wanted (``pilot`` or ``run``).

    Where no format of rollouts fits all rows, one that fits most of them is taken: its reader says what is wrong with
    the others, while the general reader would take the rows for something else.
    """
    wanted = [found for found in formats() if getattr(found, want) is not None]
    for found in wanted:
        if found.looks_like(candidate):
            return found
    return next((f for f in wanted if _fits_most_rows(f, candidate)), None) if want == "pilot" else None


def is_of(found: Format, candidate: Candidate) -> bool:
    """Whether a candidate looks like a format, by all of its rows or by most."""
    return found.looks_like(candidate) or (found.pilot is not None and _fits_most_rows(found, candidate))


def _fits_most_rows(found: Format, candidate: Candidate) -> bool:
    rows = candidate.rows
    if len(rows) < FEWEST_ROWS:
        return False
    alone = (replace(candidate, rows=[row], columns=dict.fromkeys(row, "")) for row in rows)
    return 2 * sum(found.looks_like(one) for one in alone) > len(rows)
