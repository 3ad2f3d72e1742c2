"""Rewards of groups from the command line: typed, or from what a trainer dumped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import DomainError, PilotError, one_line
from grpo_plan.group_log import EQUAL_REWARDS

if TYPE_CHECKING:
    from grpo_plan.group_log import GroupLog

FAILED = ("none", "nan", "null", "failed")
CLOSE = 1e-9  # relative: a variance this near its largest value is that of two values


def typed_groups(texts: list[str]) -> list[list[float]]:
    """Rewards as typed: one group a text, commas between rollouts, ``none`` for failed scoring.

    >>> typed_groups(["1,0", "none, 0.5"])
    [[1.0, 0.0], [nan, 0.5]]
    """
    groups = []
    for text in texts:
        group = []
        for word in text.split(","):
            plain = word.strip().lower()
            try:
                group.append(float("nan") if plain in FAILED else float(plain))
            except ValueError:
                raise DomainError(
                    "--rewards must be numbers with commas between them, none for failed scoring, e.g. 1,0,0,none; "
                    f"got {one_line(word.strip())[:40]!r}."
                ) from None
        groups.append(group)
    return groups


def logged_groups(log: GroupLog, *, passes: bool) -> list[list[float]]:
    """Rewards of each group of a log that has at most two values in each, or its passes as 0 and 1.

    A log keeps the ends, the mean and the spread of a group. Its spread is the largest that these allow exactly where
    all rewards lie at the ends; then the mean says how many at which.

    Raises:
        PilotError: Some group has rewards between its ends, or what passes is not known.
    """
    n = log.scored
    failed = log.failed
    if passes:
        if log.passes is None:
            raise PilotError("What passes is not known of these groups. Pass --pass-threshold.")
        high, low, top = np.ones(n.size), np.zeros(n.size), log.passes
    else:
        high, low = log.reward_max, log.reward_min
        size = np.where(high - low > EQUAL_REWARDS, high - low, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            top = np.where(size > 0, np.rint(n * (log.reward_mean - low) / size), n)
            between = (size > 0) & (n > 2) & ~_at_ends(log)
        if between.any():
            raise PilotError(
                f"{int(between.sum())} of {n.size} groups have rewards between their lowest and highest, "
                "which a log of groups does not keep. Pass --pass-threshold to take passes as 1 and fails as 0, or "
                "--rewards."
            )
    return [
        [float(h)] * int(t) + [float(w)] * int(s - t) + [float("nan")] * int(f)
        for h, w, t, s, f in zip(high, low, np.where(n > 0, top, 0), n, failed, strict=True)
    ]


def _at_ends(log: GroupLog) -> Any:
    """Whether all rewards of a group lie at its ends: the variance is (max - mean)(mean - min)."""
    if log.reward_var is None:
        return np.zeros(log.groups, dtype=bool)
    most = (log.reward_max - log.reward_mean) * (log.reward_mean - log.reward_min)
    return np.abs(log.reward_var - most) <= CLOSE * np.maximum(most, 1e-300)
