"""Rewards of groups from the command line: typed, or from a pilot or what a trainer dumped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grpo_plan._validate import plain_number
from grpo_plan.errors import DomainError, one_line, sentences

FAILED = ("none", "nan", "null", "failed")
TRAINER_OF = {"verl-v1": "verl", "verl-legacy": "verl", "skyrl-eval": "skyrl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """Groups of rewards and what is known of them.

    Attributes:
        rewards: One list a group, NaN for failed scoring.
        own: Advantages that the source itself holds, NaN where unknown; None where it has none.
        lengths: Tokens of each response; None where not known of all.
        steps: Training step of each group; None where the source has none.
        trainer: Trainer whose dump it is, as the presets spell it; None where none is recognised.
        notes: How it was read.
    """

    rewards: list[list[float]]
    own: list[list[float]] | None = None
    lengths: list[list[float]] | None = None
    steps: list[int] | None = None
    trainer: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def batches(self) -> list[list[int]]:
        """Groups of each step, which an estimator takes as one batch; all of them where steps are not known."""
        if self.steps is None:
            return [list(range(len(self.rewards)))]
        found: dict[int, list[int]] = {}
        for i, step in enumerate(self.steps):
            found.setdefault(step, []).append(i)
        return list(found.values())


def typed_groups(texts: Sequence[str], name: str = "--rewards") -> list[list[float]]:
    """Numbers as typed: one group a text, commas between rollouts, ``none`` for failed scoring.

    >>> typed_groups(["1,0", "none, 0.5"])
    [[1.0, 0.0], [nan, 0.5]]
    """
    groups = []
    for text in texts:
        group = []
        for word in text.split(","):
            plain = word.strip().lower()
            try:
                group.append(float("nan") if plain in FAILED else plain_number(plain))
            except ValueError:
                raise DomainError(
                    f"{name} must be numbers with commas between them, none for failed scoring, e.g. 1,0,0,none; "
                    f"got {one_line(word.strip())[:40]!r}."
                ) from None
        groups.append(group)
    return groups


def typed_lengths(texts: Sequence[str], rewards: list[list[float]]) -> list[list[float]]:
    """Response lengths as typed, one for each reward.

    Raises:
        DomainError: Not one for each.
    """
    lengths = typed_groups(texts, "--lengths")
    sizes, wanted = [len(group) for group in lengths], [len(group) for group in rewards]
    if sizes != wanted:
        raise DomainError(
            f"--lengths must be given once for each --rewards, with as many numbers: {wanted}; got {sizes}."
        )
    return lengths


def read_input(source: Any, reward: str | None = None, reward_weights: Mapping[str, float] | None = None) -> GroupInput:
    """Groups of single rollouts of a pilot or a trainer's dump, rewards as they are."""
    from grpo_plan.estimators.presets import preset_trainers
    from grpo_plan.readers.rollouts_reader import read_graded

    found = read_graded(source, reward=reward, reward_weights=reward_weights)
    order = np.argsort(found.group, kind="stable")
    ends = np.cumsum(np.bincount(found.group, minlength=found.groups))[:-1]

    def lists(values: Any) -> list[list[float]]:
        return [part.tolist() for part in np.split(np.asarray(values)[order], ends)]

    format_name = found.format or ""
    trainer = TRAINER_OF.get(format_name, format_name)
    notes = [note.replace("--reward-column", "--reward") for note in found.notes]
    notes += [f"{n:,} rows left out: {why}" for why, n in found.dropped.items() if n]
    if found.counts:
        notes.append("The source holds counts of passes: a pass is taken as reward 1, a fail as 0.")
    if found.step is None:
        notes.append("No training steps: the rollouts of a prompt are taken as one group, all groups as one batch.")
    return GroupInput(
        rewards=lists(found.rewards),
        own=None if found.advantages is None else lists(found.advantages),
        lengths=lists(found.tokens) if bool(np.isfinite(found.tokens).all()) and not found.counts else None,
        steps=None if found.step is None else found.step.tolist(),
        trainer=trainer if trainer in preset_trainers() else None,
        notes=sentences(*(one_line(note) for note in notes)),
    )
