"""Advantages by a convention: the steps of `Convention`, in order, on whole batches of groups (theory.md, eq. 105)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import DomainError
from grpo_plan.estimators.conventions import Convention, Scaling
from grpo_plan.estimators.rewards import Floats, GroupRewards, spreads

Flags = NDArray[np.bool_]
ROUNDING = 1e-9  # of its terms: a smaller sum of standardised rewards is 0, as rewards near 1,000 leave 1e-12
GROUP_BASELINES = ("group_mean", "leave_one_out", "length_weighted_mean", "top_two", "top_two_keep")
GROUP_SCALES = ("group", "leave_one_out", "group_mean")  # those that a failed rollout of the group touches


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One reward a rollout, and what the steps need beside it.

    Attributes:
        rewards: Shape (N, G); NaN where scoring failed, where there is no rollout, and in dropped groups.
        failed: Which rollouts failed, shape (N, G).
        kept: Which groups are in the batch, shape (N,).
        lengths: Tokens of each response, shape (N, G).
    """

    rewards: Floats
    failed: Flags
    kept: Flags
    lengths: Floats


def convention_values(convention: Convention, rewards: GroupRewards, weights: Floats, lengths: Floats) -> Floats:
    """Advantages, shape (N, G), 0 at failed rollouts unless the convention lets NaN spread, NaN at padding.

    Raises:
        DomainError: The convention refuses these rewards.
    """
    whole = prepared(convention, rewards, weights, lengths)
    if convention.combine == "sum":
        values = scaled(convention, whole)
    else:
        values, size = np.zeros_like(whole.rewards), np.zeros_like(whole.rewards)
        for r, weight in enumerate(weights):
            one = GroupRewards(by_function=rewards.by_function[:, :, r : r + 1], present=rewards.present)
            part = prepared(convention, one, np.ones(1), lengths, kept=whole.kept)
            term = weight * scaled(convention, part)
            values = values + (np.nan_to_num(term) if convention.partial == "ignored" else term)
            size = size + np.abs(np.nan_to_num(term))
        values = np.where(np.abs(values) <= ROUNDING * size, 0.0, values)  # what cancels is exactly 0
        values[np.isnan(whole.rewards)] = np.nan
        values[whole.failed & (convention.failed == "as_zero")] = 0.0
    if convention.clip is not None and convention.clip_of == "advantage":
        values = np.clip(values, *convention.clip)
    values = whitened(convention, whole, values)
    return finished(convention, whole, values, rewards.present)


def prepared(
    convention: Convention, rewards: GroupRewards, weights: Floats, lengths: Floats, kept: Flags | None = None
) -> Batch:
    """The first steps: combine, failed rollouts, clip, factor and offset, dropped groups."""
    values = rewards.combined(weights, ignored=convention.partial == "ignored")
    failed = np.isnan(values) & rewards.present
    if failed.any() and convention.failed == "refused":
        group, rollout = (int(i) for i in np.argwhere(failed)[0])
        raise DomainError(
            f"{convention.name} takes no failed scoring; got one at group {group}, rollout {rollout}. "
            "Leave it out first."
        )
    if convention.failed == "as_zero" and convention.combine == "sum":
        values = np.where(failed, 0.0, values)
    if convention.clip is not None and convention.clip_of == "reward":
        values = np.clip(values, *convention.clip)
    values = convention.gain * values + convention.offset
    if kept is None:
        kept = np.ones(values.shape[0], dtype=bool)
        if convention.filter_tolerance is not None:
            with np.errstate(invalid="ignore"):
                kept = ~(row_std(values, 0) <= convention.filter_tolerance)
            kept &= ~np.isnan(values).all(axis=1)
    return Batch(rewards=np.where(kept[:, None], values, np.nan), failed=failed, kept=kept, lengths=lengths)


def scaled(convention: Convention, batch: Batch) -> Floats:
    """Baseline and scale; NaN at failed rollouts."""
    x = batch.rewards
    scored = ~np.isnan(x)
    n = (scored | batch.failed if convention.failed == "spreads" else scored).sum(axis=1)[:, None]
    single = (n == 1) & (convention.baseline in GROUP_BASELINES)
    if single.any() and convention.single == "refused":
        group = int(np.flatnonzero(single[:, 0])[0])
        known = int(scored[group].sum())
        what = "one scored rollout" if known else "one rollout, and that without a score,"
        raise DomainError(
            f"{convention.name} needs two scored rollouts in a group; got {what} in group {group}. Leave that group "
            "out, or sample more rollouts."
        )
    values = _baselined(convention, batch, n)
    values = np.where(single & scored, x, values)
    if convention.scaling is not None:
        spread = _spread_of(convention, convention.scaling, x, n)
        spread = np.where(n == 1, 1.0, spread) if convention.scale in GROUP_SCALES else spread
        kept = values
        values = divided(values, spread, convention.scaling)
        if convention.baseline == "top_two_keep":
            values = np.where(np.arange(x.shape[1]) == _best(convention, batch)[:, None], values, kept)
    elif convention.scale == "nonzero_share":
        counted = scored | (batch.failed if convention.failed == "spreads" else False)
        values = values * (counted.sum() / max(int((counted & (x != 0)).sum()), 1))
    if convention.single != "reward":
        values = np.where(single & scored, 0.0 if convention.single == "zero" else np.nan, values)
    return np.where(_spreading(convention, batch), np.nan, values)


def _baselined(convention: Convention, batch: Batch, n: NDArray[np.int64]) -> Floats:
    x, kind = batch.rewards, convention.baseline
    if kind == "none":
        return x
    if kind == "batch_mean":
        return x - row_mean(x.reshape(1, -1))[0] if not np.isnan(x).all() else x
    above: Floats = from_lowest(x)  # equal rewards give exactly 0
    mean: Floats = row_mean(above)[:, None]
    if kind == "group_mean":
        centred: Floats = above - mean
        return centred
    if kind == "leave_one_out":
        others: Floats = (above - mean) * (n / np.maximum(n - 1.0, 1.0))
        return others
    if kind == "length_weighted_mean":
        weights = np.where(np.isnan(x), 0.0, batch.lengths)
        total = weights.sum(axis=1)[:, None]
        weighted = (weights * np.nan_to_num(above)).sum(axis=1)[:, None]
        return above - np.where(total > 0, weighted / np.where(total > 0, total, 1.0), mean)
    return _top_two(convention, batch, n)


def _top_two(convention: Convention, batch: Batch, n: NDArray[np.int64]) -> Floats:
    """The first best rollout has its distance to the second best; the others nothing, or their reward.

    A failed one is the best where failures spread, as NaN sorts above all numbers there.
    """
    x = batch.rewards
    spreading = batch.failed & (convention.failed == "spreads")
    filled = _sortable(convention, batch)
    best = _best(convention, batch)
    values = np.where(np.isnan(x) & ~spreading, np.nan, x if convention.baseline == "top_two_keep" else 0.0)
    if x.shape[1] > 1:
        rows = np.flatnonzero(n[:, 0] > 1)
        second = np.partition(filled[rows], -2, axis=1)[:, -2]
        with np.errstate(invalid="ignore"):
            values[rows, best[rows]] = x[rows, best[rows]] - second
    return values


def _sortable(convention: Convention, batch: Batch) -> Floats:
    spreading = batch.failed & (convention.failed == "spreads")
    return np.where(spreading, np.inf, np.where(np.isnan(batch.rewards), -np.inf, batch.rewards))


def _best(convention: Convention, batch: Batch) -> NDArray[np.int64]:
    """Place of the first best rollout of each group, shape (N,)."""
    found: NDArray[np.int64] = _sortable(convention, batch).argmax(axis=1)
    return found


def _spread_of(convention: Convention, scaling: Scaling, x: Floats, n: NDArray[np.int64]) -> Floats:
    """What `scale` divides by, shape (N, 1) or (N, G) or one number."""
    if convention.scale == "group":
        return row_std(x, scaling.ddof)[:, None]
    if convention.scale == "batch":
        return np.asarray(row_std(x.reshape(1, -1), scaling.ddof)[0])
    if convention.scale == "group_mean":
        return row_mean(x)[:, None]
    return _std_of_others(x, n, scaling.ddof)


def _std_of_others(x: Floats, n: NDArray[np.int64], ddof: int) -> Floats:
    """Standard deviation of the other scored rewards of the group, shape (N, G); NaN where there are too few."""
    deviation = np.nan_to_num(from_lowest(x) - row_mean(from_lowest(x))[:, None])
    others = n - 1.0
    squares = (deviation**2).sum(axis=1)[:, None] - deviation**2 * n / np.maximum(others, 1.0)
    variance = np.maximum(squares, 0.0) / np.maximum(others - ddof, 1.0)
    equal = np.zeros(x.shape, dtype=bool)  # exactly: all but one, or all, are equal
    if x.shape[1] > 1:
        high, low = np.where(np.isnan(x), -np.inf, x), np.where(np.isnan(x), np.inf, x)
        top, bottom = np.partition(high, -2, axis=1), np.partition(low, 1, axis=1)
        most = np.where((high == top[:, -1:]) & (top[:, -2:-1] < top[:, -1:]), top[:, -2:-1], top[:, -1:])
        least = np.where((low == bottom[:, :1]) & (bottom[:, 1:2] > bottom[:, :1]), bottom[:, 1:2], bottom[:, :1])
        equal = most <= least
    return np.where(others > ddof, np.where(equal, 0.0, np.sqrt(variance)), np.nan)


def divided(values: Floats, spread: Floats, scaling: Scaling) -> Floats:
    """Values over the divisor of a spread; see `Scaling`."""
    eps = scaling.eps
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        divisor: dict[str, Floats] = {
            "std": spread + eps,
            "variance": np.sqrt(spread**2 + eps),
            "floor_std": np.maximum(spread, eps),
            "floor_variance": np.sqrt(np.maximum(spread**2, eps)),
            "none": spread,
        }
        found: Floats = values / divisor[scaling.eps_place]
    if scaling.not_positive == "divide":
        return found
    flat = ~(spread > 0)
    return np.where(flat, values if scaling.not_positive == "keep" else np.where(np.isnan(values), values, 0.0), found)


def whitened(convention: Convention, batch: Batch, values: Floats) -> Floats:
    """The last step over the batch: rollouts count once each, or once for each token."""
    if convention.whiten == "none":
        return values
    if convention.failed == "spreads" and batch.failed.any():
        return np.full_like(values, np.nan)
    inside = ~np.isnan(values)
    if not inside.any():
        return values
    weights = np.where(inside, batch.lengths if convention.whiten == "tokens" else 1.0, 0.0)
    total = weights.sum()
    if not total > 0:
        return values
    x = np.nan_to_num(values)
    noise = float(np.abs(x).max()) * 1e-14
    mean = float((weights * x).sum() / total)
    mean = mean if abs(mean) > noise else 0.0  # groups that sum to 0 stay exact
    out: Floats = values - mean if convention.whiten_centre else values
    if convention.whitening is None:
        return out
    deviations = np.where(inside, x - mean, 0.0)
    variance = float((weights * deviations**2).sum() / max(total - convention.whitening.ddof, np.finfo(float).tiny))
    spread = np.sqrt(variance) if np.abs(deviations).max() > noise else 0.0
    return divided(out if spread else np.where(inside, out - out, np.nan), np.asarray(spread), convention.whitening)


def finished(convention: Convention, batch: Batch, values: Floats, present: Flags) -> Floats:
    """Failed rollouts and dropped groups get their advantage, padding has none."""
    out = np.where(~batch.kept[:, None], 0.0, values)
    if convention.failed == "left_out":  # such trainers end by turning every NaN to 0
        out = np.where(np.isnan(out), 0.0, out)
    return np.where(present, out, np.nan)


def _spreading(convention: Convention, batch: Batch) -> Flags:
    """Rollouts that a failed one turns into NaN: its group, or everything where the batch is scaled, shape (N, G)."""
    if convention.failed != "spreads" or not batch.failed.any():
        return np.zeros(batch.rewards.shape, dtype=bool)
    if convention.scale == "batch" or convention.baseline == "batch_mean":
        return np.ones(batch.rewards.shape, dtype=bool)
    if convention.baseline in ("top_two", "top_two_keep"):
        first: Flags = np.isnan(batch.rewards) & batch.failed & (batch.failed.cumsum(axis=1) == 1)
        return first
    if convention.baseline not in GROUP_BASELINES and convention.scale not in GROUP_SCALES:
        return batch.failed
    of_group: Flags = np.asarray(batch.failed.any(axis=1))
    return np.broadcast_to(of_group[:, None], batch.rewards.shape)


def from_lowest(x: Floats) -> Floats:
    """Distance of each reward to the lowest scored reward of the group."""
    low = np.where(np.isnan(x), np.inf, x).min(axis=1)
    return x - np.where(np.isfinite(low), low, 0.0)[:, None]


def row_mean(x: Floats) -> Floats:
    """Mean of each row without NaN, shape (N,); NaN where nothing is left."""
    known = ~np.isnan(x)
    n = known.sum(axis=1)
    return np.where(n > 0, np.where(known, x, 0.0).sum(axis=1) / np.maximum(n, 1), np.nan)


def row_std(x: Floats, ddof: int) -> Floats:
    """Standard deviation of each row without NaN, shape (N,); exactly 0 where all are equal or too few."""
    known = ~np.isnan(x)
    n = known.sum(axis=1)
    size = spreads(x)
    unit = np.where(size > 0, size, 1.0)[:, None]  # squares neither overflow nor vanish
    c = np.where(known, from_lowest(x), 0.0) / unit
    mean = c.sum(axis=1) / np.maximum(n, 1)
    square = np.where(known, (c - mean[:, None]) ** 2, 0.0).sum(axis=1)
    found = unit[:, 0] * np.sqrt(square / np.maximum(n - ddof, 1))
    return np.where(n > 0, np.where(size > 0, found, 0.0), np.nan)
