"""The weight of every token in the loss of one batch (theory.md, eq. 110 and 111)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_positive
from grpo_plan.errors import DomainError
from grpo_plan.losses.aggregations import Aggregation, Over, Per
from grpo_plan.losses.lengths import Floats, as_advantages, as_codes, as_lengths, as_mask
from grpo_plan.losses.names import get_aggregation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TokenWeights(Shown):
    """Weights of the tokens of N responses in the loss ``sum_i w_i sum_t m_it loss_it``.

    Attributes:
        aggregation: What was asked for.
        values: Weight of each loss token of a response, shape (N,); 0 for a response that has none.
        lengths: Loss tokens of each response, shape (N,).
        mask: Which tokens count, shape (N, T); None where lengths were given.
        constant: The constant length that divides; None where there is none.
        note: What was given and has no use here; empty where nothing was.
    """

    aggregation: Aggregation
    values: Floats
    lengths: Floats
    mask: NDArray[np.bool_] | None = None
    constant: float | None = None
    note: str = ""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """``values``."""
        return np.array(self.values, dtype=dtype) if copy is not False else np.asarray(self.values, dtype=dtype)

    def __repr__(self) -> str:
        """One line."""
        dropped = f", {self.empty:,} without a loss token" if self.empty else ""
        name, size = self.aggregation.name, self.values.size
        unused = ", prompts do not count" if self.note else ""
        return f"<TokenWeights {name}: {size:,} responses{dropped}, total {self.total:.6g}{unused}>"

    @property
    def token_values(self) -> Floats | None:
        """Weight of each token, shape (N, T), 0 where it is masked; None where lengths were given."""
        return None if self.mask is None else self.values[:, None] * self.mask

    @property
    def response_weights(self) -> Floats:
        """Weight of each response: its tokens times their weight, shape (N,)."""
        return self.lengths * self.values

    @property
    def total(self) -> float:
        """Sum of the weights: 1 for a mean. 0 where no response has a loss token."""
        return float(self.response_weights.sum())

    @property
    def shares(self) -> Floats:
        """Share of the weight on each response, shape (N,).

        Raises:
            DomainError: No response has a loss token.
        """
        if not self.total > 0.0:
            raise DomainError(f"no response has a loss token, so no share of the weight exists. {self.sentence}")
        found: Floats = self.response_weights / self.total
        return found

    @property
    def empty(self) -> int:
        """Responses without a loss token: of length 0, or all masked."""
        return int((self.lengths == 0.0).sum())

    @property
    def sentence(self) -> str:
        """What was left out, in words; empty where nothing was."""
        if self.empty == self.lengths.size:
            outcome = "0" if self.aggregation.none_is_zero else "0/0, which is NaN"
            return f"No response has a loss token: the loss of {self.aggregation.name} is {outcome}."
        if not self.empty:
            return ""
        counted = self.aggregation.over is Over.RESPONSES
        how = "still count in the denominator, which lowers the total" if counted else "count nowhere"
        one = self.empty == 1
        return f"{self.empty:,} response{' has' if one else 's have'} no loss token; such responses {how}."

    def aggregate(self, advantages: ArrayLike) -> float:
        """Net push on the log-probability of the sampled tokens: ``sum_i A_i l_i w_i`` (theory.md, eq. 111).

        Args:
            advantages: One a response, shape (N,).

        >>> token_weights([2, 8], aggregation="grpo").aggregate([1, -1])
        0.0
        >>> round(token_weights([2, 8], aggregation="dapo").aggregate([1, -1]), 12)
        -0.6
        """
        return float(as_advantages(advantages, self.values.size) @ self.response_weights)


def token_weights(
    lengths: ArrayLike | None = None,
    *,
    aggregation: str | Aggregation = "dapo",
    trainer: str | None = None,
    mask: ArrayLike | None = None,
    max_tokens: float | None = None,
    prompts: object = None,
) -> TokenWeights:
    """Weight of every token of N responses in the loss of a whole batch (theory.md, eq. 110).

    What micro-batches and ranks make of it: `split_weights`.

    Args:
        lengths: Loss tokens of each response, shape (N,), whole numbers of at least 0.
        aggregation: Name of the aggregation: ``"trl:dapo"``, the bare value ``"dapo"``, ``"verl:token-mean"``, ...
        trainer: Whose setting a bare value is.
        mask: Which tokens count, 0/1, shape (N, T), instead of ``lengths``.
        max_tokens: The constant length of aggregations that divide by one.
        prompts: Name of the prompt of each response, shape (N,); for aggregations that average over prompts.

    Raises:
        DomainError: An argument outside its domain, or one that the aggregation needs is missing.

    >>> token_weights([2, 8], aggregation="grpo").values.tolist()
    [0.25, 0.0625]
    >>> token_weights([2, 8], aggregation="dapo").values.tolist()
    [0.1, 0.1]
    >>> token_weights(mask=[[1, 1, 0], [0, 0, 0]], aggregation="verl:token-mean")
    <TokenWeights verl:token-mean: 2 responses, 1 without a loss token, total 1>
    """
    kind = get_aggregation(aggregation, trainer)
    if (lengths is None) == (mask is None):
        raise DomainError("token_weights takes lengths, or a mask of 0 and 1, and not both.")
    held = None if mask is None else as_mask(mask)
    tokens = held.sum(axis=1).astype(np.float64) if held is not None else as_lengths(lengths)  # type: ignore[arg-type]
    constant = constant_of(kind, max_tokens, None if held is None else held.shape[1])
    codes = codes_of(kind, prompts, tokens.size)
    values = batch_weights(tokens, kind, constant, codes)
    note = f"Prompts do not count in {kind.name}." if prompts is not None and codes is None else ""
    return TokenWeights(aggregation=kind, values=values, lengths=tokens, mask=held, constant=constant, note=note)


def constant_of(kind: Aggregation, max_tokens: float | None, width: int | None = None) -> float | None:
    """The constant length of an aggregation; None where it has none."""
    if not kind.constant:
        return None
    if max_tokens is None and kind.constant_is_width and width is not None:
        return float(width)
    if max_tokens is None:
        raise DomainError(
            f"{kind.name} divides by a constant, its {kind.constant}. Give it: max_tokens= (--max-tokens), e.g. 4096."
        )
    return as_positive(max_tokens, "max_tokens")


def codes_of(kind: Aggregation, prompts: object, size: int) -> NDArray[np.int64] | None:
    """Numbers of the prompts, where the aggregation averages over prompts."""
    if kind.per is not Per.PROMPT:
        if prompts is not None:
            as_codes(prompts, size, "prompts")
        return None
    if prompts is None:
        raise DomainError(f"{kind.name} is a mean over prompts. Give the prompt of each response: prompts=.")
    return as_codes(prompts, size, "prompts")


def batch_weights(
    lengths: Floats, kind: Aggregation, constant: float | None, codes: NDArray[np.int64] | None
) -> Floats:
    """Weight of a token of each response where everything is counted together, shape (N,) (theory.md, eq. 110)."""
    filled = lengths > 0.0
    own = np.where(filled, 1.0, 0.0)
    if kind.per is Per.RESPONSE:
        own[filled] /= lengths[filled]
    elif kind.per is Per.PROMPT and codes is not None:
        of_prompt = np.bincount(codes, weights=lengths)[codes]
        own[filled] /= of_prompt[filled]
    count = {
        Over.TOKENS: float(lengths.sum()),
        Over.RESPONSES: float(lengths.size),
        Over.FILLED: float(filled.sum()),
        Over.PROMPTS: float(codes.max() + 1) if codes is not None else 1.0,
        Over.ONE: 1.0,
    }[kind.over]
    out: Floats = own / (max(count, 1.0) * (1.0 if constant is None else constant))
    return out
