"""Advantages by a convention in plain loops over groups, written apart from the package: what the tests compare with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grpo_plan.estimators.conventions import Convention, Scaling

Row = list[float]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _std(values: Sequence[float], ddof: int) -> float:
    if len(values) <= ddof:
        return math.nan
    mean = _mean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - ddof))


def _divide(value: float, spread: float, s: Scaling) -> float:
    if s.not_positive != "divide" and not spread > 0:
        return value if s.not_positive == "keep" else 0.0
    if math.isnan(spread):
        return math.nan
    divisor = {
        "std": spread + s.eps,
        "variance": math.sqrt(spread**2 + s.eps),
        "floor_std": max(spread, s.eps),
        "floor_variance": math.sqrt(max(spread**2, s.eps)),
        "none": spread,
    }[s.eps_place]
    return value / divisor


def _seen(values: Sequence[float], c: Convention, *, partial: bool = False) -> list[int]:
    """Places that count for means and spreads."""
    skip = c.partial == "ignored" if partial else c.failed == "left_out"
    return [i for i, v in enumerate(values) if not (skip and math.isnan(v))]


def _group(values: Row, lengths: Row, c: Convention, batch: Sequence[float], *, partial: bool = False) -> Row:
    """Baseline and scale within one group."""
    seen = _seen(values, c, partial=partial)
    known = [values[i] for i in seen]
    if c.baseline in ("top_two", "top_two_keep"):
        if len(known) < 2:
            raise ValueError("refused")
        order = sorted(range(len(values)), key=lambda i: -values[i])
        out = list(values) if c.baseline == "top_two_keep" else [0.0] * len(values)
        gap = values[order[0]] - values[order[1]]
        out[order[0]] = gap if c.scaling is None else _divide(gap, _std(known, c.scaling.ddof), c.scaling)
        return out
    out = []
    one = len(known) == 1
    if one and c.single == "refused":
        raise ValueError("refused")
    raw = [v for v in batch if not (c.failed == "left_out" and math.isnan(v))]
    for i, value in enumerate(values):
        others = [values[j] for j in seen if j != i]
        base = {
            "none": lambda: 0.0,
            "group_mean": lambda: _mean(known),
            "leave_one_out": lambda: _mean(others),  # noqa: B023
            "batch_mean": lambda: _mean(raw),
            "length_weighted_mean": lambda: sum(values[j] * lengths[j] for j in seen) / sum(lengths[j] for j in seen),
        }[c.baseline]()
        alone = one and c.baseline not in ("none", "batch_mean")
        if alone:
            if c.single != "reward":
                out.append((math.nan if math.isnan(value) else 0.0) if c.single == "zero" else math.nan)
                continue
            base = 0.0
        spread = math.nan
        if c.scaling is not None:
            spread = {
                "group": lambda: 1.0 if one else _std(known, c.scaling.ddof),
                "batch": lambda: _std(raw, c.scaling.ddof),
                "leave_one_out": lambda: _std(others, 1),  # noqa: B023
                "group_mean": lambda: 1.0 if one else _mean(known),
            }[c.scale]()
        moved = value - base
        out.append(moved if c.scaling is None else _divide(moved, spread, c.scaling))
    if c.scale == "nonzero_share":
        share = max(sum(v != 0 for v in raw), 1) / len(raw)
        out = [v / share for v in out]
    return out


def reference(
    c: Convention, rewards: Any, *, weights: Sequence[float] | None = None, lengths: Any = None
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Advantages, shape (N, G), of rewards of shape (N, G) or (N, G, R); ValueError where the trainer refuses."""
    table = np.array(rewards, dtype=float)
    table = table[..., None] if table.ndim == 2 else table
    n, g, r = table.shape
    weigh = np.ones(r) if weights is None else np.array(weights, dtype=float)
    long = np.ones((n, g)) if lengths is None else np.array(lengths, dtype=float)
    if c.failed == "refused" and np.isnan(table).any():
        raise ValueError("refused")
    lost = np.isnan(table).all(axis=2)
    if c.combine == "sum":
        total = np.empty((n, g))
        for i in range(n):
            for j in range(g):
                parts = [w * v for w, v in zip(weigh, table[i, j], strict=True)]
                if c.partial == "ignored":
                    parts = [p for p in parts if not math.isnan(p)]
                total[i, j] = sum(parts) if parts else math.nan
        if c.failed == "as_zero":
            total = np.where(np.isnan(total), 0.0, total)
        if c.clip is not None and c.clip_of == "reward":
            total = np.clip(total, *c.clip)
        total = c.gain * total + c.offset
        out = np.array([_group(total[i].tolist(), long[i].tolist(), c, total.ravel().tolist()) for i in range(n)])
    else:
        out = np.zeros((n, g))
        for k in range(r):
            column = table[:, :, k]
            part = np.array(
                [
                    _group(column[i].tolist(), long[i].tolist(), c, column.ravel().tolist(), partial=True)
                    for i in range(n)
                ]
            )
            out = out + weigh[k] * (np.nan_to_num(part) if c.partial == "ignored" else part)
        if c.failed == "left_out":
            out[lost] = math.nan
        elif c.failed == "as_zero":
            out[lost] = 0.0
    if c.clip is not None and c.clip_of == "advantage":
        out = np.clip(out, *c.clip)
    if c.whiten != "none":
        copies = long.astype(int).ravel() if c.whiten == "tokens" else np.ones(n * g, dtype=int)
        every = [v for v, m in zip(out.ravel().tolist(), copies, strict=True) for _ in range(m)]
        every = [v for v in every if not (c.failed == "left_out" and math.isnan(v))]
        middle = _mean(every) if c.whiten_centre else 0.0
        spread = math.nan if c.whitening is None else _std(every, c.whitening.ddof)
        out = np.array(
            [
                [v - middle if c.whitening is None else _divide(v - middle, spread, c.whitening) for v in row]
                for row in out.tolist()
            ]
        )
    return np.nan_to_num(out, nan=0.0) if c.failed == "left_out" else out
