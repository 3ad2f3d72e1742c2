"""Which responses get the weight of a loss, and whether it pulls on their length (theory.md, eq. 114 to 116)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, require
from grpo_plan.errors import DomainError, PilotError
from grpo_plan.estimators import Estimator, get_estimator
from grpo_plan.losses.aggregations import Aggregation, Per
from grpo_plan.losses.lengths import Floats
from grpo_plan.losses.names import get_aggregation
from grpo_plan.losses.shares import UNKNOWN, Limits, by_cluster, mean_limits, share_limits
from grpo_plan.rollouts import RolloutLengths, Rollouts

Bools = NDArray[np.bool_]
TINY = 1e-12
TOP = 0.9  # quantile above which a response is among the longest


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WeightShares(Shown):
    """Shares of the weight of one aggregation.

    Attributes:
        aggregation: The aggregation; None for shares of the rollouts themselves.
        long: On responses longer than the median one.
        longest: On responses longer than nine in ten.
        wrong: On wrong responses.
        failed: On responses whose scoring failed.
        mixed: In mixed groups, where alone a centred estimator has advantages.
        all_pass: In all-pass groups.
        all_fail: In all-fail groups.
        unscored: In groups with fewer than two scored rollouts.
        gradient_long: Of the weight times the size of the advantage, the share on responses longer than the median.
        gradient_longest: The same on those longer than nine in ten.
        gradient_wrong: The same on wrong responses.
        net: Net push on the sampled tokens, ``sum A l w`` with weights that sum to 1.
        pull: Pull on length, ``sum A w (l - mean)``: above 0 lengthens.
    """

    aggregation: Aggregation | None
    long: Limits
    longest: Limits
    wrong: Limits
    failed: Limits
    mixed: Limits
    all_pass: Limits
    all_fail: Limits
    unscored: Limits
    gradient_long: Limits
    gradient_longest: Limits
    gradient_wrong: Limits
    net: Limits
    pull: Limits


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LengthBias(Shown):
    """Where the weight of a loss lies, per aggregation.

    Attributes:
        rows: One a different aggregation, in the order asked for.
        rollouts: The same shares of the rollouts, each counted once.
        estimator: Estimator of the advantages.
        level: Confidence level of the limits.
        prompts: Prompts behind the limits.
        counted: Rollouts with a length that are counted.
        unknown: Rollouts without a length, left out.
        empty: Rollouts of length 0, which have no weight.
        kinds: Groups by kind.
        mean_tokens: Mean length of the responses with a token.
        median_tokens: What a long one is longer than; None where the length of each is not known.
        decile_tokens: What the longest tenth is longer than.
        longest_tokens: Largest length. Where it is also ``median_tokens`` or ``decile_tokens``, as of responses cut at
            one length, none is longer than that, and the shares of long ones say nothing.
        lengths: What is known of the lengths.
    """

    rows: tuple[WeightShares, ...]
    rollouts: WeightShares
    estimator: str
    level: float
    prompts: int
    counted: int
    unknown: int
    empty: int
    kinds: dict[str, int]
    mean_tokens: float
    median_tokens: float | None
    decile_tokens: float | None
    longest_tokens: float | None
    lengths: RolloutLengths


def rollout_advantages(rollouts: Rollouts, estimator: str = "grpo") -> Floats:
    """Advantage of each rollout among the scored ones of its group, shape (N,): 0 in dead groups and where not scored.

    Rewards are taken as pass or fail. An estimator that is not centred, such as ``sign``, has advantages in dead
    groups too; one whose advantages do not depend on the group also where a single rollout is scored.

    Raises:
        DomainError: No such estimator.

    >>> some = Rollouts.from_arrays(["a"] * 4, [1, 0, 0, 0])
    >>> rollout_advantages(some).round(3).tolist()
    [1.732, -0.577, -0.577, -0.577]
    """
    n, k, group = rollouts.group_scored, rollouts.group_passes, rollouts.group
    scored = int(n.sum())
    kind = get_estimator(estimator).for_mean(float(k.sum()) / scored if scored else 0.0)
    up, down = _of_groups(kind, n, k)
    found: Floats = np.where(rollouts.scored, np.where(rollouts.passed, up[group], down[group]), 0.0)
    return found


def _of_groups(kind: Estimator, n: NDArray[np.int64], k: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Advantages of a pass and of a fail in each group, shape (groups,)."""
    up, down = np.zeros(n.size), np.zeros(n.size)
    for size in np.unique(n).tolist():
        rows = n == size
        if size >= 2:
            passed, failed = kind.pair(size)
            up[rows], down[rows] = passed[k[rows]], failed[k[rows]]
        elif size == 1 and kind.flat:
            passed, failed = kind.pair(2)
            up[rows], down[rows] = passed[-1], failed[0]
    return up, down


def _by_construction(rollouts: Rollouts, estimator: str, filled: Bools) -> tuple[bool, tuple[float, float]]:
    """Whether right and wrong balance in every group, and what the wrong ones get of it at least and at most.

    The second holds for weights that are equal within a group: with a pass of advantage A+ and a fail of A-, the wrong
    ones get ``(n - k) |A-| / (k |A+| + (n - k) |A-|)``, which is 1/2 of any mixed group if the advantages sum to 0. A
    scored response without a token has no weight, and the rest of its group need not balance.
    """
    n, k = rollouts.group_scored, rollouts.group_passes
    scored = int(n.sum())
    kind = get_estimator(estimator).for_mean(float(k.sum()) / scored if scored else 0.0)
    whole = bool(np.all(filled | ~rollouts.scored))
    shares: list[float] = []
    for size in np.unique(n[n > 0]).tolist():
        passes = np.arange(size + 1)
        up, down = _of_groups(kind, np.full(size + 1, size), passes)
        right, wrong = passes * np.abs(up), (size - passes) * np.abs(down)
        some = right + wrong > TINY
        shares += (wrong[some] / (right + wrong)[some]).tolist()
    bounds = (min(shares), max(shares)) if shares else (0.0, 1.0)
    if not whole:  # what holds of every response holds of some
        bounds = (1.0 if bounds[0] >= 1.0 else 0.0, 0.0 if bounds[1] <= 0.0 else 1.0)
    return kind.centred, bounds


def length_bias(
    rollouts: Rollouts,
    aggregations: Sequence[str | Aggregation] = ("grpo", "dapo"),
    *,
    estimator: str = "grpo",
    level: float = 0.95,
) -> LengthBias:
    """Shares of the weight on long and on wrong responses, and the pull on length, per aggregation.

    The responses are taken as one batch; constants and totals do not matter for shares. Aggregations that weigh all
    tokens alike (dapo, bnpo, dr_grpo, ...) have the same shares; what tells them apart are totals and splits.
    Limits take prompts as independent, and the lengths that "long" means as given.

    Args:
        rollouts: From `read_rollouts` or `Rollouts.from_arrays`.
        aggregations: Names, as in `token_weights`.
        estimator: Name of the estimator of advantages.
        level: Confidence level.

    Raises:
        PilotError: No rollout has a length, or all are 0.
        DomainError: A name is not known.

    >>> some = Rollouts.from_arrays(["a", "a", "b", "b"], [1, 0, 0, 0], [2, 8, 5, 5])
    >>> bias = length_bias(some)
    >>> [(row.aggregation.option, row.wrong.value, round(row.net.value, 3)) for row in bias.rows]
    [('grpo', 0.75, 0.0), ('dapo', 0.9, -0.3)]
    """
    require(rollouts, Rollouts, "rollouts", "Read them first: read_rollouts(...).")
    share = as_level(level)
    kinds = [get_aggregation(name) for name in aggregations]
    if not kinds:
        raise DomainError("aggregations must name at least one, e.g. grpo.")
    if rollouts.lengths in (RolloutLengths.ABSENT, RolloutLengths.REPEATED):
        raise PilotError(f"the weight of a response needs its length. {rollouts.lengths.sentence}")
    known = np.isfinite(rollouts.tokens)
    filled = known & (rollouts.tokens > 0.0)
    if not filled.any():
        raise PilotError("no response has a token, so none has a weight. Check the column of lengths.")
    view = _View(rollouts, rollout_advantages(rollouts, estimator), known, filled, share)
    view.balanced, view.wrong_bounds = _by_construction(rollouts, estimator, filled)
    return LengthBias(
        rows=tuple(view.shares(kind) for kind in kinds),
        rollouts=view.shares(None),
        estimator=estimator, level=share, prompts=view.clusters, counted=int(known.sum()),
        unknown=int((~known).sum()), empty=int((known & ~filled).sum()), kinds=rollouts.kinds,
        mean_tokens=view.mean, median_tokens=view.median, decile_tokens=view.decile,
        longest_tokens=view.longest, lengths=rollouts.lengths,
    )  # fmt: skip


class _View:
    """The rollouts with a length, and what is asked of them."""

    def __init__(self, rollouts: Rollouts, advantages: Floats, known: Bools, filled: Bools, level: float) -> None:
        self.level = level
        self.balanced, self.wrong_bounds = False, (0.0, 1.0)
        self.tokens = rollouts.tokens[known]
        self.filled = filled[known]
        self.group = rollouts.group[known]
        self.advantages = advantages[known]
        _, self.code = np.unique(rollouts.cluster[self.group], return_inverse=True)
        self.clusters = int(self.code.max()) + 1
        self.each = rollouts.lengths is RolloutLengths.EACH
        real = self.tokens[self.filled]
        self.mean = float(real.mean())
        self.median = float(np.median(real)) if self.each else None
        self.decile = float(np.quantile(real, TOP)) if self.each else None
        self.longest = float(real.max()) if self.each else None
        scored, passed = rollouts.scored[known], rollouts.passed[known]
        n, k = rollouts.group_scored[self.group], rollouts.group_passes[self.group]
        self.kinds: dict[str, Bools] = {
            "wrong": scored & ~passed,
            "failed": ~scored,
            "mixed": (n >= 2) & (k > 0) & (k < n),
            "all_pass": (n >= 2) & (k == n),
            "all_fail": (n >= 2) & (k == 0),
            "unscored": n < 2,
        }

    def shares(self, kind: Aggregation | None) -> WeightShares:
        """All shares of one aggregation, or of the rollouts themselves."""
        if kind is None:
            weight, per_token = np.ones(self.tokens.size), None
        else:
            per_token = self.per_token(kind)
            weight = per_token * self.tokens
        pushed = np.abs(self.advantages) * weight
        names = {name: self.share(weight, where) for name, where in self.kinds.items()}
        net, pull = self.pulls(kind, weight, per_token)
        return WeightShares(
            aggregation=kind,
            long=self.beyond(weight, self.median), longest=self.beyond(weight, self.decile),
            gradient_long=self.beyond(pushed, self.median), gradient_longest=self.beyond(pushed, self.decile),
            gradient_wrong=self.pushed_wrong(kind, pushed),
            net=net, pull=pull, **names,
        )  # fmt: skip

    def per_token(self, kind: Aggregation) -> Floats:
        """Weight of a token up to a factor of the batch, shape (N,)."""
        own = np.where(self.filled, 1.0, 0.0)
        if kind.per is Per.TOKEN:
            return own
        of = self.tokens if kind.per is Per.RESPONSE else np.bincount(self.group, weights=self.tokens)[self.group]
        found: Floats = np.divide(own, of, out=np.zeros(own.size), where=self.filled)
        return found

    def share(
        self, weight: Floats, where: Bools, *, bounds: tuple[float, float] = (0.0, 1.0), balanced: bool = False
    ) -> Limits:
        """Share of a weight on rollouts of a kind."""
        whole = by_cluster(weight, self.code, self.clusters)
        part = by_cluster(weight * where, self.code, self.clusters)
        return share_limits(part, whole, float((weight > 0.0).sum()), self.level, bounds=bounds, balanced=balanced)

    def pushed_wrong(self, kind: Aggregation | None, pushed: Floats) -> Limits:
        """Share of weight times advantage on the wrong responses; some estimators fix it, or its bounds."""
        low, high = self.wrong_bounds
        if kind is not None and kind.per is not Per.RESPONSE:  # lengths differ, and only none and all stay
            low, high = (1.0 if low >= 1.0 else 0.0), (0.0 if high <= 0.0 else 1.0)
        return self.share(pushed, self.kinds["wrong"], bounds=(low, high), balanced=self.balanced)

    def beyond(self, weight: Floats, bound: float | None) -> Limits:
        """Share of a weight on responses longer than a bound."""
        return UNKNOWN if bound is None else self.share(weight, self.tokens > bound)

    def pulls(self, kind: Aggregation | None, weight: Floats, per_token: Floats | None) -> tuple[Limits, Limits]:
        """Net push, and pull on length (theory.md, eq. 115 and 116)."""
        if kind is None or per_token is None:
            return UNKNOWN, UNKNOWN
        total = float(weight.sum())

        def sums(values: Floats) -> Floats:
            return by_cluster(values, self.code, self.clusters)

        whole = sums(weight)
        push = sums(self.advantages * weight)
        net = float(push.sum()) / total
        netted = mean_limits(net, (push - net * whole) / total, self.level)
        if not self.each and kind.per is Per.RESPONSE:
            return netted, UNKNOWN  # one over a length is not linear: means do not give it
        real = np.where(self.filled, 1.0, 0.0)
        excess = self.advantages * per_token * (self.tokens - self.mean)
        moved = sums(excess)
        pull = float(moved.sum()) / total
        slope = float((self.advantages * per_token).sum()) / float(real.sum())
        centre = sums(real * (self.tokens - self.mean))
        return netted, mean_limits(pull, (moved - pull * whole - slope * centre) / total, self.level)
