"""What a token really weighs once a batch is split into micro-batches and ranks (theory.md, eq. 112 and 113)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError
from grpo_plan.losses.aggregations import Aggregation, Reduction
from grpo_plan.losses.lengths import Floats, as_lengths, numbers_of
from grpo_plan.losses.names import get_aggregation
from grpo_plan.losses.weights import TokenWeights, batch_weights, codes_of, constant_of

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchSplit:
    """Where each of N responses goes.

    Attributes:
        rank: Rank of each response, shape (N,), from 0; every rank below the largest one is used.
        micro: Micro-batch of each response on its rank, shape (N,), from 0, without gaps on a rank.
    """

    rank: Codes
    micro: Codes

    def __post_init__(self) -> None:
        """Check the arrays."""
        rank, micro = _codes(self.rank, "rank"), _codes(self.micro, "micro")
        if rank.shape != micro.shape:
            raise DomainError(f"rank and micro must have one length; got {rank.size:,} and {micro.size:,}.")
        if np.unique(rank).size != rank.max() + 1:
            raise DomainError("rank must number the ranks from 0 without gaps: a rank without responses gives no loss.")
        for r in range(int(rank.max()) + 1):
            own = micro[rank == r]
            if np.unique(own).size != own.max() + 1:
                raise DomainError(f"micro must number the micro-batches of rank {r} from 0 without gaps.")
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "micro", micro)

    @classmethod
    def even(cls, responses: int, *, micro_batch: int, ranks: int = 1) -> BatchSplit:
        """Responses in order: an equal part to each rank, in micro-batches of one size, the last one perhaps smaller.

        Args:
            responses: N, a multiple of ``ranks``.
            micro_batch: Responses of a micro-batch on one rank.
            ranks: Data-parallel ranks.

        Raises:
            DomainError: The responses cannot be shared out equally.

        >>> split = BatchSplit.even(8, micro_batch=2, ranks=2)
        >>> split.rank.tolist(), split.micro.tolist()
        ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1])
        """
        n = as_count(responses, "responses", maximum=10**8)
        size = as_count(micro_batch, "micro_batch")
        count = as_count(ranks, "ranks")
        if n % count:
            raise DomainError(
                f"{n:,} responses cannot be shared out equally to {count:,} ranks. Give a number of ranks that "
                f"divides {n:,}."
            )
        place = np.arange(n)
        return cls(rank=place // (n // count), micro=place % (n // count) // size)

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self.rank.max()) + 1

    @property
    def micro_batches(self) -> Codes:
        """Micro-batches of each rank, shape (ranks,)."""
        found = np.zeros(self.ranks, dtype=np.int64)
        np.maximum.at(found, self.rank, self.micro + 1)
        return found

    @property
    def codes(self) -> Codes:
        """One number a micro-batch, over all ranks, shape (N,)."""
        starts = np.concatenate([[0], np.cumsum(self.micro_batches)[:-1]])
        found: Codes = starts[self.rank] + self.micro
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SplitWeights(Shown):
    """What each token of a split batch weighs, against the whole batch.

    Attributes:
        values: Weight of each loss token of a response in the gradient of the step, shape (N,).
        intended: The same with everything counted together.
        split: The split.
    """

    values: Floats
    intended: TokenWeights
    split: BatchSplit

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.float64]:
        """``values``."""
        return np.array(self.values, dtype=dtype)  # type: ignore[call-overload, no-any-return]

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<SplitWeights {self.intended.aggregation.name}: {self.split.ranks} ranks, "
            f"{int(self.split.micro_batches.sum())} micro-batches, total {self.total:.6g}>"
        )

    @property
    def response_weights(self) -> Floats:
        """Weight of each response, shape (N,)."""
        return self.intended.lengths * self.values

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.response_weights.sum())

    @property
    def ratio(self) -> Floats:
        """Real over intended weight of each response with a loss token, shape (N - empty,)."""
        has = self.intended.lengths > 0.0
        found: Floats = self.values[has] / self.intended.values[has]
        return found

    @property
    def largest_ratio(self) -> float | None:
        """Largest real over intended weight; None where no response has a loss token."""
        return float(self.ratio.max()) if self.ratio.size else None

    @property
    def smallest_ratio(self) -> float | None:
        """Smallest real over intended weight; None where no response has a loss token."""
        return float(self.ratio.min()) if self.ratio.size else None

    @property
    def misplaced(self) -> float | None:
        """Share of the weight that lies elsewhere than intended, in [0, 1] (theory.md, eq. 113).

        The total variation distance of the two distributions of weight over responses. None where no response has a
        loss token.
        """
        if not (self.total > 0.0 and self.intended.total > 0.0):
            return None
        real = self.response_weights / self.total
        return float(0.5 * np.abs(real - self.intended.shares).sum())

    @property
    def exact(self) -> bool:
        """Whether every token weighs what it should, but for rounding."""
        return bool(np.allclose(self.values, self.intended.values, rtol=1e-9, atol=0.0))


def split_weights(
    lengths: ArrayLike,
    split: BatchSplit,
    *,
    aggregation: str | Aggregation = "dapo",
    trainer: str | None = None,
    max_tokens: float | None = None,
    prompts: object = None,
) -> SplitWeights:
    """What each token weighs in the gradient of a step that is split (theory.md, eq. 112).

    Gradients of micro-batches are added up and those of ranks averaged, as trainers do. An aggregation whose count is
    taken over the whole batch is immune; one that counts in each micro-batch is not, but for equal counts.

    Args:
        lengths: Loss tokens of each response, shape (N,).
        split: Where each goes, e.g. ``BatchSplit.even(N, micro_batch=2, ranks=4)``.
        aggregation: As in `token_weights`, as are the others.
        trainer: Whose setting a bare value is.
        max_tokens: The constant length of aggregations that divide by one.
        prompts: Name of the prompt of each response.

    Raises:
        DomainError: An argument outside its domain.

    >>> two = BatchSplit.even(2, micro_batch=1)
    >>> split_weights([2, 8], two, aggregation="bnpo").values.tolist()  # a mean of means is no mean of tokens
    [0.25, 0.0625]
    >>> round(split_weights([2, 8], two, aggregation="bnpo").misplaced, 12)
    0.3
    >>> split_weights([2, 8], two, aggregation="dapo").values.tolist()
    [0.1, 0.1]
    """
    kind = get_aggregation(aggregation, trainer)
    tokens = as_lengths(lengths)
    if not isinstance(split, BatchSplit):
        raise DomainError(
            f"split must be a BatchSplit; got {type(split).__name__}. E.g. BatchSplit.even(64, micro_batch=4)."
        )
    if split.rank.size != tokens.size:
        raise DomainError(f"the split is of {split.rank.size:,} responses, but there are {tokens.size:,} lengths.")
    constant = constant_of(kind, max_tokens)
    codes = codes_of(kind, prompts, tokens.size)
    whole = batch_weights(tokens, kind, constant, codes)
    intended = TokenWeights(aggregation=kind, values=whole, lengths=tokens, constant=constant)
    values = whole if kind.immune else reduced_weights(tokens, split, kind, constant)
    return SplitWeights(values=values, intended=intended, split=split)


def expected_misplaced(lengths: ArrayLike, micro_batch: int) -> float:
    """About the mean misplaced weight of a mean of token means, over random splits (theory.md, eq. 113).

    From the normal law of the tokens of a micro-batch: close for micro-batches of 4 and more responses.

    Args:
        lengths: Loss tokens of each response of a step, shape (N,).
        micro_batch: Responses of a micro-batch.

    Raises:
        DomainError: No response has a loss token, or an argument is outside its domain.

    >>> round(expected_misplaced([100, 300] * 32, 4), 4)
    0.0966
    """
    tokens = as_lengths(lengths)
    size = as_count(micro_batch, "micro_batch", maximum=tokens.size)
    mean = float(tokens.mean())
    if not mean > 0.0:
        raise DomainError("no response has a loss token, so no weight can be misplaced.")
    spread = float(tokens.std()) / mean
    return spread * float(np.sqrt((1.0 - size / tokens.size) / (2.0 * np.pi * size)))


def reduced_weights(lengths: Floats, split: BatchSplit, kind: Aggregation, constant: float | None) -> Floats:
    """Weights of an aggregation that counts in each micro-batch, shape (N,) (theory.md, eq. 112)."""
    micro = split.codes
    order = np.argsort(micro, kind="stable")
    ends = np.flatnonzero(np.diff(micro[order])) + 1
    factor = _factors(lengths, split, kind.reduction)
    values = np.empty(lengths.size)
    for rows in np.split(order, ends):
        values[rows] = factor[rows] * batch_weights(lengths[rows], kind, constant, None)
    return values


def _factors(lengths: Floats, split: BatchSplit, reduction: Reduction) -> Floats:
    """What the loss of each response's micro-batch is multiplied by in the gradient of the step, shape (N,)."""
    if reduction is Reduction.MEAN:
        found: Floats = 1.0 / (split.ranks * split.micro_batches[split.rank])
        return found
    micro = split.codes
    if reduction is Reduction.BY_RESPONSES:
        of_rank = np.bincount(split.rank)[split.rank]
        shared: Floats = np.bincount(micro)[micro] / (split.ranks * of_rank)
        return shared
    tokens = np.bincount(micro, weights=lengths)[micro]
    by_tokens: Floats = tokens / max(float(lengths.sum()), 1.0)
    return by_tokens


def _codes(values: ArrayLike, name: str) -> Codes:
    array = numbers_of(values, name)
    hint = "Or build one with BatchSplit.even(responses, micro_batch=...)."
    if array.ndim != 1 or not array.size:
        raise DomainError(f"{name} must be whole numbers from 0, one a response; got shape {array.shape}. {hint}")
    bad = ~((array >= 0) & (array < array.size) & (array == np.floor(array)))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise DomainError(
            f"{name} must be whole numbers from 0 without gaps, one a response; got {array[i]:g} at index {i}. {hint}"
        )
    return array.astype(np.int64)
