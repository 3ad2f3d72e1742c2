"""Mean response length of right and of wrong rollouts of a pilot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from grpo_plan._shown import Shown
from grpo_plan._validate import as_level, require
from grpo_plan.pilot import Pilot

FEWEST_EQUAL = 3  # prompts that must agree before equal lengths mean anything
CUT_SHARE = 0.02  # of the means that lie at the largest one: then lengths look cut
LARGEST_LOG = 30.0


class LengthStatus(Enum):
    """What the lengths of a pilot tell; the value is a sentence."""

    OK = "Lengths of right and wrong rollouts are measured."
    ABSENT = "The pilot has no response lengths: name their column with --tokens-column, or give them."
    NOT_SPLIT = "The pilot has one mean length a prompt, so right and wrong rollouts cannot be told apart."
    NO_PASSES = "No right rollout has a length."
    NO_FAILS = "No wrong rollout has a length."
    TRUNCATED = "Many lengths are equal to the largest one: they look cut off, and costs are those of the cut."

    @property
    def sentence(self) -> str:
        """The status in words."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TokenLengths(Shown):
    """Mean response tokens of right and wrong rollouts, over prompts.

    Attributes:
        pass_tokens: Mean of right rollouts; None if unknown.
        pass_low: Lower limit over prompts; None with fewer than two prompts that tell.
        pass_high: Upper limit.
        fail_tokens: Mean of wrong rollouts.
        fail_low: Lower limit.
        fail_high: Upper limit.
        level: Confidence level.
        status: What the pilot tells.
    """

    pass_tokens: float | None
    pass_low: float | None
    pass_high: float | None
    fail_tokens: float | None
    fail_low: float | None
    fail_high: float | None
    level: float
    status: LengthStatus


def token_lengths(pilot: Pilot, level: float = 0.95) -> TokenLengths:
    """Mean response lengths of right and wrong rollouts of a random prompt, with intervals over prompts.

    ``sum_i w_i t_i / sum_i w_i`` over the prompts with a length ``t_i``, where ``w_i`` is ``k_i / n_i`` for right and
    ``1 - k_i / n_i`` for wrong rollouts: a prompt that is often right gives many right rollouts. The interval takes
    prompts, not rollouts, as independent; it is symmetric on the log scale, as lengths are skewed.

    Args:
        pilot: Rollouts with ``pass_tokens`` and ``fail_tokens``.
        level: Confidence level of each interval.

    >>> pilot = Pilot.from_counts([1, 2, 3], 4, pass_tokens=[100, 200, 300], fail_tokens=[500, 500, 800])
    >>> found = token_lengths(pilot)
    >>> round(found.pass_tokens, 1), found.fail_tokens, found.status.name
    (233.3, 550.0, 'OK')
    """
    require(pilot, Pilot, "pilot", "Read one first: read_pilot(...).")
    share = as_level(level)
    rate = pilot.successes / pilot.rollouts
    right = _mean(pilot.pass_tokens, rate, share)
    wrong = _mean(pilot.fail_tokens, 1.0 - rate, share)
    status = _status(pilot, right[0], wrong[0])
    if status is LengthStatus.NOT_SPLIT:
        right = wrong = (None, None, None)
    return TokenLengths(
        pass_tokens=right[0], pass_low=right[1], pass_high=right[2],
        fail_tokens=wrong[0], fail_low=wrong[1], fail_high=wrong[2],
        level=share, status=status,
    )  # fmt: skip


def _status(pilot: Pilot, right: float | None, wrong: float | None) -> LengthStatus:
    if right is None and wrong is None:
        return LengthStatus.ABSENT if pilot.response_tokens is None else LengthStatus.NOT_SPLIT
    if right is None:
        return LengthStatus.NO_PASSES
    if wrong is None:
        return LengthStatus.NO_FAILS
    if pilot.pass_tokens is None or pilot.fail_tokens is None:  # for the type: both means are known here
        return LengthStatus.ABSENT
    if _cut(pilot):
        return LengthStatus.TRUNCATED
    both = np.isfinite(pilot.pass_tokens) & np.isfinite(pilot.fail_tokens)
    if both.sum() >= FEWEST_EQUAL and np.array_equal(pilot.pass_tokens[both], pilot.fail_tokens[both]):
        return LengthStatus.NOT_SPLIT  # a length of the prompt, repeated on each of its rows
    return LengthStatus.OK


def _cut(pilot: Pilot) -> bool:
    """Whether several prompts have means at exactly the largest length: all their rollouts were cut there."""
    means = np.concatenate([c for c in (pilot.pass_tokens, pilot.fail_tokens) if c is not None])
    means = means[np.isfinite(means)]
    at_largest = int((means == means.max()).sum())
    return bool(means.size > at_largest >= max(FEWEST_EQUAL, CUT_SHARE * means.size))


def _mean(
    lengths: NDArray[np.float64] | None, weight: NDArray[np.float64], level: float
) -> tuple[float | None, float | None, float | None]:
    """Weighted mean and its limits; None where no prompt tells, no limits where only one does."""
    if lengths is None:
        return None, None, None
    tells = np.isfinite(lengths) & (weight > 0.0)
    t, w = lengths[tells], weight[tells]
    if not t.size or not t.max() > 0.0:
        return None, None, None
    value = float(w @ t / w.sum())
    if t.size < 2:
        return value, None, None
    from scipy.special import stdtrit

    spread = float(np.sqrt(t.size / (t.size - 1.0) * (w**2 @ (t - value) ** 2)) / w.sum())
    factor = float(np.exp(min(spread / value * stdtrit(t.size - 1, 0.5 + 0.5 * level), LARGEST_LOG)))
    return value, value / factor, value * factor
