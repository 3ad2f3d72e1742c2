"""Aggregations by their names."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_plan._suggest import did_you_mean, not_one_of
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
        raise DomainError(not_one_of("trainer", trainer, trainers))
    if word in known and (trainer is None or known[word].trainer == trainer):
        return known[word]
    own = [a for a in known.values() if trainer is None or a.trainer == trainer]
    found = next((a for a in own if a.option == word), None)
    if found is None and trainer is None and word in PLAIN:
        found = known[PLAIN[word]]
    if found is None:
        if trainer is not None:
            options = ", ".join(a.option for a in own)
            raise DomainError(
                f"aggregation must be one of {trainer}: {options}; got {str(name)[:60]!r}."
                f"{did_you_mean(word, [a.option for a in own])}"
            )
        raise DomainError(
            f"aggregation must be a name of docs/losses.md, e.g. {_nearest(word, own)}; got {str(name)[:60]!r}. "
            "Python: grpo_plan.aggregations() lists them."
        )
    return found


def _nearest(word: str, own: list[Aggregation]) -> str:
    """The name most like a word; the first of several.

    >>> _nearest("verl:token_mean", list(AGGREGATIONS.values()))
    'verl:token-mean'
    """
    from difflib import SequenceMatcher

    def likeness(kind: Aggregation) -> float:
        return max(SequenceMatcher(None, word, name).ratio() for name in (kind.name, kind.option))

    best = max(own, key=likeness)  # the first of several
    return best.name


def aggregations() -> Mapping[str, Aggregation]:
    """All aggregations by name, those of one trainer together.

    >>> [name for name in aggregations() if name.startswith("nemo-rl")]
    ['nemo-rl:token_level_loss=true', 'nemo-rl:token_level_loss=false']
    """
    return AGGREGATIONS
