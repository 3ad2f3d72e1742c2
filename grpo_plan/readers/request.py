"""What to read and how, as asked for by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from grpo_plan.readers.counting import ReadOptions

SPLITS = ("train", "eval", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsAsked:
    """Further columns of groups that are to be read, and the reward from which a rollout passes, where it was given."""

    pass_threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A read, as asked for.

    Attributes:
        given: Role to the column (or reward function, or scorer) that the user named for it; None where not named.
        options: How rewards become passes, and which rows count. ``rollouts_per_prompt`` is also the group size
            where rows hold no group and consecutive rows form one.
        format: Name of the reader to use; None lets the content decide.
        reward_weights: Reward functions to sum, each times its weight; empty: no sum.
        split: Rows of training, of evaluation, or both, where a source holds both.
        policy_steps: First and last training step to keep, both included; None keeps all.
        weak_prior: Model that the rollouts are of, if another than the one to be trained; None leaves it to the reader.
        runs: Names of the runs to read, joined in this order, where a source holds several; empty: the only one.
        config: Settings of the run that the user gave.
        any_reward: Whether the rewards of several functions are summed where none was chosen: dead groups are told
            from mixed ones by what the trainer itself compared.
        details: Further columns of groups, where they were asked for.
        progress: Called with the number of bytes of each block read.
    """

    given: Mapping[str, str | None] = field(default_factory=dict)
    options: ReadOptions = field(default_factory=ReadOptions)
    format: str | None = None
    reward_weights: Mapping[str, float] = field(default_factory=dict)
    split: str = "train"
    policy_steps: tuple[int, int] | None = None
    weak_prior: str | None = None
    runs: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    any_reward: bool = False
    details: DetailsAsked | None = None
    progress: Callable[[int], None] | None = None
