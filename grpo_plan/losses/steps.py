"""How much weight a split misplaces in steps drawn from a pilot (theory.md, eq. 112 and 113)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grpo_plan._shown import Shown
from grpo_plan._validate import as_count, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.losses.aggregations import Aggregation, Per
from grpo_plan.losses.lengths import Floats
from grpo_plan.losses.names import get_aggregation
from grpo_plan.losses.splits import BatchSplit, split_weights
from grpo_plan.rollouts import RolloutLengths, Rollouts

STEPS = 200
RANGE = (0.05, 0.95)
MOST_RESPONSES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SplitError(Shown):
    """What a split does to one aggregation, over drawn steps.

    Attributes:
        aggregation: The aggregation.
        misplaced: Mean share of the weight that lies elsewhere than intended.
        misplaced_low: 5 % of the steps lie below this.
        misplaced_high: 5 % lie above.
        largest_ratio: Mean of the largest real over intended weight of a step.
        smallest_ratio: Mean of the smallest one.
        total_low: 5 % of the steps have a total weight, over the intended one, below this.
        total_high: 5 % have one above.
    """

    aggregation: Aggregation
    misplaced: float
    misplaced_low: float
    misplaced_high: float
    largest_ratio: float
    smallest_ratio: float
    total_low: float
    total_high: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SplitErrors(Shown):
    """The same for several aggregations.

    Attributes:
        rows: One an aggregation.
        steps: Steps drawn.
        groups_per_step: Groups of each.
        responses: Mean responses of a step.
        micro_batch: Responses of a micro-batch on one rank.
        ranks: Data-parallel ranks.
        seed: Seed of the draws.
    """

    rows: tuple[SplitError, ...]
    steps: int
    groups_per_step: int
    responses: float
    micro_batch: int
    ranks: int
    seed: int


def split_errors(
    rollouts: Rollouts,
    aggregations: Sequence[str | Aggregation] = ("grpo", "bnpo", "dapo"),
    *,
    micro_batch: int,
    ranks: int = 1,
    prompts_per_step: int = 32,
    max_tokens: float | None = None,
    steps: int = STEPS,
    seed: int = 0,
) -> SplitErrors:
    """Draw steps of whole groups, split them, and compare weights with those of the whole step.

    Groups are drawn without replacement within a step and dealt to ranks in order; the responses of a rank are
    shuffled before they are cut into micro-batches, as TRL does. Responses of unknown length are left out.

    Args:
        rollouts: With the length of each rollout.
        aggregations: Names, as in `token_weights`.
        micro_batch: Responses of a micro-batch on one rank.
        ranks: Data-parallel ranks.
        prompts_per_step: Groups of a step; all of them where there are fewer.
        max_tokens: The constant of aggregations that divide by one; 1 where it is not given, as shares do not need it.
        steps: Steps to draw.
        seed: Seed of the draws.

    Raises:
        PilotError: Lengths of single rollouts are not known, or all of a step are 0.
        DomainError: An argument is outside its domain.

    >>> some = Rollouts.from_arrays(["a", "a", "b", "b"], [1, 0, 0, 1], [2, 8, 5, 5])
    >>> errors = split_errors(some, micro_batch=1, prompts_per_step=2, steps=3)
    >>> [(e.aggregation.option, round(e.misplaced, 3)) for e in errors.rows]
    [('grpo', 0.0), ('bnpo', 0.15), ('dapo', 0.0)]
    """
    require(rollouts, Rollouts, "rollouts", "Read them first: read_rollouts(...).")
    size, count = as_count(micro_batch, "micro_batch"), as_count(ranks, "ranks")
    wanted, draws = as_count(prompts_per_step, "prompts_per_step"), as_count(steps, "steps", maximum=100_000)
    rng = np.random.default_rng(as_count(seed, "seed", minimum=0))
    kinds = [get_aggregation(name) for name in aggregations]
    if rollouts.lengths is not RolloutLengths.EACH:
        raise PilotError(f"splits need the length of each rollout. {rollouts.lengths.sentence}")
    known = np.isfinite(rollouts.tokens)
    order = np.argsort(rollouts.group[known], kind="stable")
    tokens, group = np.round(rollouts.tokens[known][order]), rollouts.group[known][order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(np.append(starts, group.size))
    per_step = min(wanted, starts.size)
    if float(sizes.mean()) * per_step * draws > MOST_RESPONSES * STEPS:
        raise DomainError(f"steps x responses is beyond {MOST_RESPONSES * STEPS:,}. Draw fewer steps.")
    found: list[list[tuple[float, float, float, float]]] = [[] for _ in kinds]
    drawn = 0
    for _ in range(draws):
        chosen = rng.permutation(starts.size)[:per_step]
        rows = np.concatenate([np.arange(starts[g], starts[g] + sizes[g]) for g in chosen])
        if rows.size < count:
            raise DomainError(
                f"a step of {per_step:,} groups has {rows.size:,} responses, fewer than {count:,} ranks. Give more "
                "prompts a step (--prompts-per-step), or fewer ranks."
            )
        drawn += rows.size
        split = _shuffled(rows.size, size, count, rng)
        for kind, into in zip(kinds, found, strict=True):
            into.append(_errors(tokens[rows], group[rows], split, kind, max_tokens))
    return SplitErrors(
        rows=tuple(_row(kind, np.array(into)) for kind, into in zip(kinds, found, strict=True)),
        steps=draws, groups_per_step=per_step, responses=drawn / draws, micro_batch=size, ranks=count, seed=seed,
    )  # fmt: skip


def _shuffled(responses: int, size: int, ranks: int, rng: np.random.Generator) -> BatchSplit:
    """Responses dealt to ranks in order, in random order within each."""
    rank = np.arange(responses) * ranks // responses
    micro = np.empty(responses, dtype=np.int64)
    for r in range(ranks):
        own = np.flatnonzero(rank == r)
        micro[own] = rng.permutation(own.size) // size
    return BatchSplit(rank=rank, micro=micro)


def _errors(
    tokens: Floats, group: np.ndarray, split: BatchSplit, kind: Aggregation, max_tokens: float | None
) -> tuple[float, float, float, float]:
    prompts = group if kind.per is Per.PROMPT else None
    constant = 1.0 if kind.constant and max_tokens is None else max_tokens
    found = split_weights(tokens, split, aggregation=kind, max_tokens=constant, prompts=prompts)
    if found.misplaced is None or found.largest_ratio is None or found.smallest_ratio is None:
        raise PilotError("a step without any token was drawn: its weights are not defined. Check the lengths.")
    total = found.total / found.intended.total
    return found.misplaced, found.largest_ratio, found.smallest_ratio, total


def _row(kind: Aggregation, found: Floats) -> SplitError:
    low, high = np.quantile(found[:, 0], RANGE)
    least, most = np.quantile(found[:, 3], RANGE)
    return SplitError(
        aggregation=kind,
        misplaced=float(found[:, 0].mean()), misplaced_low=float(low), misplaced_high=float(high),
        largest_ratio=float(found[:, 1].mean()), smallest_ratio=float(found[:, 2].mean()),
        total_low=float(least), total_high=float(most),
    )  # fmt: skip
