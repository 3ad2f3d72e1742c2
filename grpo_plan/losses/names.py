"""Aggregations by their names."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_plan.errors import DomainError
from grpo_plan.losses.aggregations import Aggregation
from grpo_plan.losses.registry import AGGREGATIONS

PLAIN = {"sequence": "trl:grpo", "sequence-mean": "trl:grpo", "token": "trl:dapo", "constant": "trl:dr_grpo"}


def get_aggregation(name: str | Aggregation, trainer: str | None = None) -> Aggregation:
    """The aggregation of that name: ``"verl:token-mean"``, or the bare value of a setting, or a plain word.

    A bare value that several trainers use is that of ``trainer``, or of the first that has it in the order of
    `AGGREGATIONS`.

    Raises:
        DomainError: No such aggregation, or no such trainer.

    >>> get_aggregation("dapo").name, get_aggregation("token-mean").name, get_aggregation("token_mean").name
    ('trl:dapo', 'verl:token-mean', 'skyrl:token_mean')
    >>> get_aggregation("token-mean", trainer="openrlhf").name
    'openrlhf:token-mean'
    """
    if isinstance(name, Aggregation):
        return name
    known = aggregations()
    word = name.strip().lower() if isinstance(name, str) else ""
    trainers = list(dict.fromkeys(a.trainer for a in known.values()))
    if trainer is not None and trainer not in trainers:
        raise DomainError(f"trainer must be one of {', '.join(trainers)}; got {trainer!r}.")
    if word in known and (trainer is None or known[word].trainer == trainer):
        return known[word]
    own = [a for a in known.values() if trainer is None or a.trainer == trainer]
    found = next((a for a in own if a.option == word), None)
    if found is None and trainer is None and word in PLAIN:
        found = known[PLAIN[word]]
    if found is None:
        options = ", ".join(a.option for a in own) if trainer is not None else ", ".join(known)
        where = "" if trainer is None else f" of {trainer}"
        raise DomainError(f"aggregation must be one{where}: {options}; got {str(name)[:60]!r}.")
    return found


def aggregations() -> Mapping[str, Aggregation]:
    """All aggregations by name, those of one trainer together.

    >>> [name for name in aggregations() if name.startswith("nemo-rl")]
    ['nemo-rl:token_level_loss=true', 'nemo-rl:token_level_loss=false']
    """
    return AGGREGATIONS
