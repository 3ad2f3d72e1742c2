"""Rollouts whose completion text was seen before: texts are compared by a hash and never kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan.errors import DomainError

DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DuplicateCheck(Shown):
    """How many rollouts repeat the text of another one of their prompt.

    Attributes:
        rollouts: Rollouts with a text.
        repeats: Those whose text equals an earlier one of the same prompt.
        prompts: Prompts with a text.
        prompts_with_repeats: Those with at least one repeat.
        distinct: Different texts of each prompt, in order of first appearance, shape (M,).
        unknown: Rollouts without a text or a prompt; not counted above.
    """

    rollouts: int
    repeats: int
    prompts: int
    prompts_with_repeats: int
    distinct: NDArray[np.int64]
    unknown: int

    @property
    def share(self) -> float:
        """Share of the rollouts that repeat a text; 0 without any."""
        return self.repeats / self.rollouts if self.rollouts else 0.0

    @property
    def sentence(self) -> str:
        """The numbers, and what they do not prove."""
        if not self.rollouts:
            return "No rollout has a text to compare."
        if not self.repeats:
            return f"No completion text repeats among the {self.rollouts:,} rollouts of {self.prompts:,} prompts."
        return (
            f"{self.repeats:,} of {self.rollouts:,} rollouts ({100 * self.share:.2g} %) repeat the text of an earlier "
            f"one of their prompt, in {self.prompts_with_repeats:,} of {self.prompts:,} prompts; "
            f"{self.distinct.mean():.3g} of {self.rollouts / self.prompts:.3g} texts a prompt are different. Short "
            "answers coincide by chance and then are no fault; long equal texts were cached or drawn with one seed."
        )


def duplicate_rollouts(prompt_ids: Sequence[object], texts: Sequence[str | None]) -> DuplicateCheck:
    """Count rollouts whose completion text equals an earlier one of the same prompt.

    Args:
        prompt_ids: Prompt of each rollout, shape (R,).
        texts: Completion of each rollout, shape (R,); None where it was not logged.

    Raises:
        DomainError: Other lengths, or something that is no text.

    >>> check = duplicate_rollouts(["a", "a", "a", "b", "b"], ["x = 2", "x = 2", "x = 3", "x = 2", None])
    >>> check.repeats, check.rollouts, check.prompts_with_repeats, check.distinct.tolist()
    (1, 4, 1, [2, 1])
    """
    if len(prompt_ids) != len(texts):
        raise DomainError(f"prompt_ids and texts must have one length; got {len(prompt_ids)} and {len(texts)}.")
    numbers: dict[object, int] = {}
    codes = np.array([-1 if p is None else numbers.setdefault(p, len(numbers)) for p in prompt_ids], dtype=np.int64)
    for index, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            raise DomainError(f"texts must be text or None; got {type(text).__name__} at index {index}.")
    return duplicates_of_digests(codes, digests(texts), np.array([t is None for t in texts], dtype=bool))


def digests(texts: Sequence[str | None]) -> NDArray[np.uint64]:
    """A hash of each text; that of a missing one means nothing."""
    joined = b"".join(
        blake2b((text or "").encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest() for text in texts
    )
    return np.frombuffer(joined, dtype=np.uint64)


def duplicates_of_digests(
    prompts: NDArray[np.int64], hashes: NDArray[np.uint64], missing: NDArray[np.bool_]
) -> DuplicateCheck:
    """From the number of each rollout's prompt (-1 if unknown) and the hash of its text."""
    known = ~missing & (prompts >= 0)
    codes, values = prompts[known], hashes[known]
    order = np.lexsort((values, codes))
    codes, values = codes[order], values[order]
    first = np.ones(codes.size, dtype=bool)
    first[1:] = (codes[1:] != codes[:-1]) | (values[1:] != values[:-1])
    present, total = np.unique(codes, return_counts=True)
    distinct = np.unique(codes[first], return_counts=True)[1].astype(np.int64)
    return DuplicateCheck(
        rollouts=int(codes.size),
        repeats=int(codes.size - distinct.sum()),
        prompts=int(present.size),
        prompts_with_repeats=int((distinct < total).sum()),
        distinct=distinct,
        unknown=int((~known).sum()),
    )
