"""Mean response length of right and of wrong rollouts of a pilot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from grpo_plan.pilot import Pilot


class LengthStatus(Enum):
    """What the lengths of a pilot tell; the value is a sentence."""

    OK = "Lengths of right and wrong rollouts are measured."
    ABSENT = "The pilot has no response lengths: name their column with --tokens-column, or give them."
    NOT_SPLIT = "The pilot has one mean length a prompt, so right and wrong rollouts cannot be told apart."
    NO_PASSES = "No right rollout has a length."
    NO_FAILS = "No wrong rollout has a length."
    TRUNCATED = "Many lengths are equal to the largest one: they look cut off, and costs are those of the cut."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLengths:
    """Mean response tokens of right and wrong rollouts, over prompts.

    Attributes:
        pass_tokens: Mean of right rollouts; None if unknown.
        pass_low: Lower limit over prompts; None with fewer than two prompts that tell.
        pass_high: Upper limit.
        fail_tokens: Mean of wrong rollouts.
        fail_low: Lower limit.
        fail_high: Upper limit.
        level: Confidence level.
        status: What the pilot tells.
    """

    pass_tokens: float | None
    pass_low: float | None
    pass_high: float | None
    fail_tokens: float | None
    fail_low: float | None
    fail_high: float | None
    level: float
    status: LengthStatus


def token_lengths(pilot: Pilot, level: float = 0.95) -> TokenLengths:
    """Mean response lengths of right and wrong rollouts of a random prompt, with intervals over prompts."""
    raise NotImplementedError
