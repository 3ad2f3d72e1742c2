"""How trainers turn the losses of tokens into one number: a registry with their own names, from their own source.

Every aggregation is of one form (theory.md, eq. 110 and 112): a token counts 1, or one over the tokens of its response
or prompt; the sum is divided by a count of tokens, responses or prompts, and perhaps by a constant length; and that
count is taken over the whole batch, or in each micro-batch, whose results are then averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from grpo_plan._shown import Shown


class Per(StrEnum):
    """What the loss of a token is divided by first."""

    TOKEN = "token"
    RESPONSE = "response"
    PROMPT = "prompt"


class Over(StrEnum):
    """What the sum is divided by."""

    TOKENS = "tokens"
    RESPONSES = "responses"
    FILLED = "responses with a loss token"
    PROMPTS = "prompts"
    ONE = "nothing"


class Reduction(StrEnum):
    """Where the count is taken, and how micro-batches and ranks are put together."""

    BATCH = "counted over the whole batch"
    MEAN = "mean over micro-batches, then over ranks"
    BY_RESPONSES = "mean over micro-batches weighted by their responses, then over ranks"
    BY_TOKENS = "sum over micro-batches weighted by their share of all tokens"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Aggregation(Shown):
    """An aggregation of token losses, as one trainer has it.

    Attributes:
        trainer: Trainer, by the name that `grpo_plan.emit` takes.
        option: Value of its setting.
        setting: The setting.
        per: What a token's loss is divided by first.
        over: What the sum is divided by.
        reduction: Where that count is taken.
        constant: Name of the setting of a constant length that divides too; empty where there is none.
        constant_is_width: Whether the constant is the padded width where it is not set.
        none_is_zero: Whether a batch without any loss token gives a loss of 0; False where it is 0/0.
        version: Versions whose source was read.
        source: File and function.
        evidence: ``"run"`` where tests compare with the trainer's own code, else ``"read"``.
        note: What else to know; may be empty.
    """

    trainer: str
    option: str
    setting: str
    per: Per
    over: Over
    reduction: Reduction = Reduction.BATCH
    constant: str = ""
    constant_is_width: bool = False
    none_is_zero: bool = True
    version: str
    source: str
    evidence: str = "read"
    note: str = ""

    @property
    def name(self) -> str:
        """``trainer:option``, by which it is asked for."""
        return f"{self.trainer}:{self.option}"

    @property
    def one_weight(self) -> bool:
        """Whether all tokens of a batch weigh the same."""
        return self.per is Per.TOKEN

    @property
    def immune(self) -> bool:
        """Whether no split into micro-batches and ranks can change a weight."""
        return self.reduction is Reduction.BATCH

    @property
    def split_effect(self) -> str:
        """Whether a split changes the shares of the weight: no, yes, or where micro-batches differ in size."""
        if self.immune:
            return "no"
        by_size = self.over in (Over.RESPONSES, Over.ONE) and self.reduction is not Reduction.BY_TOKENS
        return "if micro-batches differ in size" if by_size else "yes"

    @property
    def formula(self) -> str:
        """The weight of a token in words and symbols: l tokens, L of all, N responses, C the constant.

        >>> from grpo_plan.losses import get_aggregation
        >>> get_aggregation("grpo").formula, get_aggregation("dr_grpo").formula
        ('1 / (N l)', '1 / (N C)')
        """
        below = {
            Over.TOKENS: "L", Over.RESPONSES: "N", Over.FILLED: "N+", Over.PROMPTS: "M", Over.ONE: "",
        }[self.over]  # fmt: skip
        own = {Per.TOKEN: "", Per.RESPONSE: "l", Per.PROMPT: "l of the prompt"}[self.per]
        parts = [part for part in (below, own, "C" if self.constant else "") if part]
        if len(parts) > 1:
            return f"1 / ({' '.join(parts)})"
        return f"1 / {parts[0]}" if parts else "1"
