"""What a change would do to a dead fraction, by arithmetic on shares of groups (theory.md, eq. 98 and 99)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo_plan._validate import as_count, as_group_size, as_positive, as_probability
from grpo_plan.errors import DomainError
from grpo_plan.groups import dead_probability

Floats = NDArray[np.float64]


def mixed_at_equal_rollouts(rollouts: float, group_size: ArrayLike, dead: ArrayLike) -> Floats:
    """Mixed groups among a number of rollouts that are split into groups of G (theory.md, eq. 98).

    Args:
        rollouts: Rollouts, above 0.
        group_size: G, whole numbers of at least 1.
        dead: D(G), in [0, 1]; broadcasts with ``group_size``.

    >>> mixed_at_equal_rollouts(1024, [8, 16], [0.6, 0.5]).round(1).tolist()
    [51.2, 32.0]
    """
    b, g, d = as_positive(rollouts, "rollouts"), as_group_size(group_size), as_probability(dead, "dead")
    found: Floats = b / g * (1.0 - d)
    return found


def swapped_dead(dead: ArrayLike, share: ArrayLike, group_size: int, pass_rate: float = 0.5) -> Floats:
    """Dead fraction when a random share of the prompts gives way to prompts of one pass rate (theory.md, eq. 98).

    D is linear in the mix of prompts. No pass rate gives fewer dead groups than 1/2, so that the default is a lower
    bound for any other prompts.

    Args:
        dead: D(G) before, in [0, 1].
        share: Share w of the prompts that is swapped, in [0, 1]; broadcasts with ``dead``.
        group_size: G.
        pass_rate: Pass rate of the new prompts.

    >>> swapped_dead(0.8, [0.25, 0.5], 8).round(4).tolist()
    [0.602, 0.4039]
    """
    d, w = as_probability(dead, "dead"), as_probability(share, "share")
    found: Floats = (1.0 - w) * d + w * dead_probability(pass_rate, group_size)
    return found


def dead_without(dead: ArrayLike, part: ArrayLike) -> Floats:
    """Dead fraction when the prompts of one kind of dead group are left out (theory.md, eq. 98).

    It takes every group of that kind to be of a prompt that is always so. Some are not, and what is left out is then
    less: the result is a lower bound, and D itself an upper one.

    Args:
        dead: D(G), in [0, 1].
        part: Share of the groups that are of this kind, all-pass or all-fail, in [0, D] and below 1.

    Raises:
        DomainError: The part exceeds the whole, or nothing would be left.

    >>> dead_without([0.6, 0.6], [0.2, 0.6]).round(4).tolist()
    [0.5, 0.0]
    """
    d, a = np.broadcast_arrays(as_probability(dead, "dead"), as_probability(part, "part"))
    if bool(np.any(a > d)):
        at = int(np.argmax((a > d).ravel()))
        raise DomainError(f"part must not exceed dead; got {a.ravel()[at]:g} of {d.ravel()[at]:g} at index {at}.")
    if bool(np.any(a >= 1.0)):
        raise DomainError(
            "part must be below 1: all groups are of this kind and nothing would be left. Change prompts."
        )
    found: Floats = (d - a) / (1.0 - a)
    return found


def dead_if_told_apart(dead: ArrayLike, part: ArrayLike, agreeing: ArrayLike) -> Floats:
    """Dead fraction when a finer reward tells the rollouts of one kind of dead group apart (theory.md, eq. 99).

    Args:
        dead: D(G), in [0, 1].
        part: Share of the groups that are of this kind, in [0, D].
        agreeing: Chance that the G rollouts of such a group agree all the same (`agreeing_levels`, `agreeing_split`).

    Raises:
        DomainError: The part exceeds the whole.

    >>> dead_if_told_apart(0.7, 0.6, agreeing_split(0.1, 8)).round(4).item()
    0.3583
    """
    d, b = np.broadcast_arrays(as_probability(dead, "dead"), as_probability(part, "part"))
    if bool(np.any(b > d)):
        at = int(np.argmax((b > d).ravel()))
        raise DomainError(f"part must not exceed dead; got {b.ravel()[at]:g} of {d.ravel()[at]:g} at index {at}.")
    found: Floats = d - b * (1.0 - as_probability(agreeing, "agreeing"))
    return found


def agreeing_levels(levels: ArrayLike, group_size: int) -> Floats:
    """Chance ``L**(1 - G)`` that G rollouts share one of L equally likely levels (theory.md, eq. 99).

    >>> agreeing_levels([1, 2, 3], 4).round(4).tolist()
    [1.0, 0.125, 0.037]
    """
    count = as_group_size(levels, "levels")
    found: Floats = np.exp((1.0 - as_count(group_size, "group_size")) * np.log(count))
    return found


def agreeing_split(chance: ArrayLike, group_size: int) -> Floats:
    """Chance that G rollouts agree on a second 0/1 reward that each earns with one chance (theory.md, eq. 2 and 99).

    >>> agreeing_split([0.5, 0.1], 8).round(4).tolist()
    [0.0078, 0.4305]
    """
    return dead_probability(chance, group_size)


def drawn_per_mixed(dead: ArrayLike) -> Floats:
    """Prompts drawn for one mixed group, ``1 / (1 - D)`` (theory.md, eq. 52); infinite at D = 1.

    >>> drawn_per_mixed([0.0, 0.5, 1.0]).tolist()
    [1.0, 2.0, inf]
    """
    d = as_probability(dead, "dead")
    with np.errstate(divide="ignore"):
        found: Floats = 1.0 / (1.0 - d)
    return found
