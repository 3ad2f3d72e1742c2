"""What a trainer demands of a design: divisibility and other rules, as checks that a plan can be shaped by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from grpo_plan.costs import Design


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """One rule, checked on one design.

    Attributes:
        rule: The rule in the trainer's own terms.
        satisfied: Whether the design obeys it.
        detail: The rule with the design's numbers in it.
    """

    rule: str
    satisfied: bool
    detail: str


class DesignRules(Protocol):
    """The rules of one trainer on given hardware."""

    @property
    def name(self) -> str:
        """Whose rules they are, for messages."""
        ...

    def prompt_multiple(self, group_size: int) -> int | None:
        """Prompts per step must be a multiple of this; None if no design of this group size is accepted."""
        ...

    def checks(self, design: Design) -> tuple[RuleCheck, ...]:
        """Every rule, checked on the design."""
        ...
