"""Whether a source holds all groups or only the mixed ones, told from the groups themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from grpo_plan.group_log import EQUAL_REWARDS
from grpo_plan.groups import dead_probability
from grpo_plan.readers.sink import RolloutSink

if TYPE_CHECKING:
    import polars as pl

RARE = 1e-3  # a source without a dead group is called filtered where all groups would look like it so seldom
NO_SURPRISE = 0.5
ERRORS = 4.0  # standard errors that the mean pass rate may be off


def judge(sink: RolloutSink, setting: str, *, by_default: bool = False) -> None:
    """Set ``filtered`` of a sink after its last row, or note that it cannot be told.

    Args:
        sink: With ``groups_apart`` set before its first row.
        setting: What drops dead groups in this trainer, as a noun.
        by_default: Whether that setting is on unless it is turned off; then no dead group at all is proof enough.
    """
    if sink.groups is None:
        return
    groups = sink.groups.frame()
    dead = dead_groups(groups)
    if dead or not groups.height:
        return
    none = f"none of the {groups.height:,} groups is dead"
    if by_default:
        sink.filtered = f"{none}; {setting} drops them before they are saved, unless it is turned off"
        return
    chance = chance_of_no_dead_group(groups)
    if chance is not None and chance < RARE:
        how = at_most(chance)
        sink.filtered = f"{none}; had all been saved, the chance of that is at most {how}, so {setting} dropped them"
        return
    why = "rewards have more than two levels, so that ties may be rare"
    if chance is not None:
        why = "even if it was off, to see none is no surprise"
        if chance <= NO_SURPRISE:
            shown = f"{chance:.0%}" if chance >= 0.01 else f"{chance:.1g}"
            why = f"even if it was off, one would see none with a chance of up to {shown}"
    sink.note(
        f"{none}. Whether {setting} dropped dead groups cannot be told from the rows: {why}. If it was on, only mixed "
        "groups were saved, and D(G) of this pilot is too low: read it with --truncated then."
    )


def at_most(chance: float) -> str:
    """A small chance in words, rounded up to one digit, and not below 1e-12.

    >>> at_most(2.4e-4), at_most(1e-30)
    ('0.0003', '1e-12')
    """
    from decimal import ROUND_CEILING, Context

    return f"{float(Context(prec=1, rounding=ROUND_CEILING).create_decimal_from_float(max(chance, 1e-12))):g}"


def dead_groups(groups: pl.DataFrame) -> int:
    """How many groups of a sink's table are dead: rewards equal, or fewer than two scored."""
    import polars as pl

    equal = pl.col("high") - pl.col("low") <= EQUAL_REWARDS
    return groups.filter((pl.col("scored") < 2) | equal).height


def chance_of_no_dead_group(groups: pl.DataFrame) -> float | None:
    """Upper limit of the chance that none of these groups is dead if no group was dropped.

    By Jensen a prompt drawn at random gives a dead group with a chance of at least d_G(p), p the mean pass rate
    (theory.md, eq. 10), whatever the spread of pass rates; so N groups hold none with a chance of at most the product
    of 1 - d_G(p). The mean pass rate is taken four standard errors nearer to 1/2 than it was seen.

    Args:
        groups: Table of a sink's groups, none of them dead.

    Returns:
        The limit, or None where rewards have more than two levels.
    """
    low, high = groups["low"].unique(), groups["high"].unique()
    if low.len() != 1 or high.len() != 1:
        return None
    bottom, top = float(low[0]), float(high[0])
    scored = groups["scored"].to_numpy()
    rates = (groups["total"].to_numpy() / scored - bottom) / (top - bottom)
    return _limit(rates, scored)


def chance_of_no_dead_rewards(groups: Sequence[NDArray[np.float64]]) -> float | None:
    """`chance_of_no_dead_group` of groups held as arrays of rewards, NaN where scoring failed.

    Returns:
        The limit, or None where a group is dead, there is none, or rewards have more than two levels.

    >>> chance = chance_of_no_dead_rewards([np.array([0.0, 0.0, 1.0, 1.0])] * 3)
    >>> round(chance, 3)  # (1 - 2 / 2**4)**3: all groups have pass rate 1/2
    0.67
    """
    scored = [rewards[~np.isnan(rewards)] for rewards in groups]
    levels = np.unique(np.concatenate(scored)) if scored else np.empty(0)
    if levels.size != 2 or any(rewards.size < 2 or rewards.min() == rewards.max() for rewards in scored):
        return None
    rates = np.array([(rewards == levels[1]).mean() for rewards in scored])
    return _limit(rates, np.array([rewards.size for rewards in scored]))


def _limit(rates: NDArray[np.float64], scored: NDArray[np.int64]) -> float:
    mean = float(np.average(rates, weights=scored))
    error = float(rates.std()) / max(len(rates), 1) ** 0.5
    nearest = float(np.clip(0.5, mean - ERRORS * error, mean + ERRORS * error))
    sizes, counts = np.unique(scored, return_counts=True)
    dead = np.array([float(dead_probability(nearest, int(size))) for size in sizes])
    return float(np.exp(np.sum(counts * np.log1p(-dead))))
