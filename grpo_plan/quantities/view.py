"""RunView: what the rules see of a run: its metrics by plain name, its settings, and its sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from grpo_plan._validate import MAX_COUNT
from grpo_plan.quantities.base import Floats

AGENT = re.compile(r"^train/[^/]+/(all|effective)/")  # a whole name of prime-rl, not a prefix

GROUP_SIZE_KEYS = (
    "num_generations", "actor_rollout_ref.rollout.n", "rollout.n_samples_per_prompt", "n_samples_per_prompt",
    "grpo.num_generations_per_prompt", "orchestrator.group_size", "orchestrator.rollouts_per_example",
    "rollouts_per_example", "generator.n_samples_per_prompt", "num_return_sequences_in_group", "group_size",
    "num_samples_per_prompt_rollout", "worker.rollout.n", "trl.num_generations",
)  # fmt: skip
PROMPT_KEYS = (
    "prompts_per_step", "data.train_batch_size", "rollout.batch_size", "rollout_batch_size",
    "grpo.num_prompts_per_step", "trainer.train_batch_size", "groups_per_batch", "num_unique_prompts_rollout",
    "data.rollout_batch_size",
)  # fmt: skip
ROLLOUT_KEYS = ("generation_batch_size", "orchestrator.batch_size", "trl.generation_batch_size")  # counts of rollouts


def plain(name: str) -> str:
    """A metric's name without the prefix that loggers put before those of training.

    >>> plain("train/reward_std"), plain("train/agg/all/agent/solved_none")
    ('reward_std', 'train/agg/all/agent/solved_none')
    """
    return name if AGENT.match(name) else name.removeprefix("train/")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """What rules work on.

    Attributes:
        tool: Whose names these are, or None.
        size: Number of steps S.
        metrics: Name as logged to values, shape (S,).
        config: Settings, nested ones joined by dots.
        group_size: Rollouts per prompt, or None.
    """

    tool: str | None
    size: int
    metrics: Mapping[str, Floats]
    config: Mapping[str, object] = field(default_factory=dict)
    group_size: int | None = None
    _names: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names: dict[str, str] = {}
        for name in self.metrics:
            names.setdefault(plain(name), name)
        object.__setattr__(self, "_names", names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def names(self) -> Mapping[str, str]:
        """Plain names to names as logged."""
        return self._names

    def logged(self, *names: str) -> tuple[str, ...]:
        """Names as logged of those that are there."""
        return tuple(self._names[name] for name in names if name in self._names)

    def get(self, name: str) -> Floats | None:
        """Values of a metric by its plain name, or None."""
        logged = self._names.get(name)
        return None if logged is None else self.metrics[logged]

    def first(self, *names: str) -> str | None:
        """The first of these plain names that is there."""
        return next((name for name in names if name in self._names), None)

    def matching(self, pattern: str) -> list[str]:
        """Plain names that match a pattern from their start to their end, in the order of the log."""
        compiled = re.compile(pattern)
        return [name for name in self._names if compiled.fullmatch(name)]

    def setting(self, *keys: str) -> object | None:
        """The first of these settings that the source holds; a key may be the last part of a nested one."""
        for key in keys:
            if self.config.get(key) is not None:
                return self.config[key]
        for key in keys:
            nested = [v for name, v in self.config.items() if name.endswith(f".{key}") and v is not None]
            if len(nested) == 1:
                return nested[0]
        return None

    def count(self, *keys: str) -> int | None:
        """A setting that is a whole number above 0."""
        for key in keys:
            value = _whole(self.config.get(key))
            if value is not None:
                return value
        return None

    @property
    def rollouts_per_prompt(self) -> int | None:
        """Rollouts per prompt: as said, from the settings, from a column, or from the name of a metric."""
        if self.group_size is not None:
            return self.group_size
        found = self.count(*GROUP_SIZE_KEYS)
        if found is not None:
            return found
        column = self.get("group_size")
        known = np.unique(column[np.isfinite(column)]) if column is not None else np.empty(0)
        if known.size == 1:
            return _whole(float(known[0]))
        sizes = {int(name.rpartition("_")[2]) for name in self.matching(r"reward/avg_pass_at_\d+")}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def prompts_per_step(self) -> int | None:
        """Groups of a step, from the settings."""
        found = self.count(*PROMPT_KEYS)
        if found is not None:
            return found
        rollouts, size = self.count(*ROLLOUT_KEYS), self.rollouts_per_prompt
        return rollouts // size if rollouts and size and rollouts % size == 0 else None


def _whole(value: object) -> int | None:
    """A whole number above 0, also as text; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and 1 <= value <= MAX_COUNT and value == int(value):
        return int(value)
    return None
