"""What a comparison of two policies by pass@k holds, and the rule that turns intervals into a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from grpo_plan._shown import Shown
from grpo_plan.fitting.intervals import Interval
from grpo_plan.fitting.paired import Difference
from grpo_plan.fitting.status import FitStatus
from grpo_plan.passk.curve import PassCurve


class PassVerdict(Enum):
    """Reading of two curves of pass@k. The value is the sentence behind it."""

    CAPACITY = "pass@k rose at every counted k: more prompts are within reach of k tries than before."
    SEARCH_COMPRESSION = (
        "pass@1 rose and pass@k fell at a large k, so the curves cross: what was found in many tries is found in "
        "fewer, and some of what was within reach is no longer."
    )
    NO_GAIN_AT_LARGE_K = (
        "pass@1 rose, and at the largest counted k no gain of interest is left: what was found in many tries is found "
        "in fewer."
    )
    BREADTH = "pass@1 fell and pass@k rose at a large k, so the curves cross the other way: tries spread out."
    LOSS = "pass@k fell at every counted k."
    CANNOT_TELL = "The intervals leave the sign open at a k that decides."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


class CrossingStatus(Enum):
    """What is known of a crossing of two curves of pass@k. The value is a sentence."""

    CROSSES = "The curves cross: the differences at both sides exclude 0, with opposite signs."
    NONE_SEEN = "No crossing up to the largest k asked: every difference excludes 0, with one sign."
    CANNOT_TELL = "The pilots cannot tell whether the curves cross."

    @property
    def sentence(self) -> str:
        """The meaning in words."""
        return str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassDifference:
    """pass@k after, minus before.

    Attributes:
        k: Tries.
        value: The difference, in [-1, 1]; None where a pilot does not determine its own.
        low: Lower confidence limit.
        high: Upper confidence limit.
        counted: Whether both are counted; else both rest on fits, and the limits allow for any dependence.
        prompts: Prompts behind it.
        all_pass: Difference of pass^k where it is counted, else None.
        status: OK where counted, else the graver one of the two points' statuses.
    """

    k: int
    value: float | None
    low: float
    high: float
    counted: bool
    prompts: int
    all_pass: Difference | None
    status: FitStatus

    @property
    def sign(self) -> int:
        """1 or -1 where the interval excludes 0, else 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Where the curves change places, looked for among the k asked (theory.md, eq. 133).

    Attributes:
        status: Whether they do.
        value: k between two of those asked at which the estimated curves meet (interpolated in log k); None if they
            do not.
        low: Any crossing lies beyond this k: up to it every difference excludes 0. 0 if not even the first does.
        high: A crossing lies before this k, from which on up to a k that decides every difference excludes 0 with the
            other sign; None where there is no such k.
    """

    status: CrossingStatus
    value: float | None
    low: int
    high: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """Prompts that became solvable within k tries, and that ceased to be, beyond chance (theory.md, eq. 135).

    All are shares of the common prompts. Two groups of one prompt differ by chance even where nothing changed:
    ``gained_seen`` and ``lost_seen`` contain that, ``gained`` and ``lost`` do not.

    Attributes:
        k: Group size, half of the counted rollouts or less.
        gained_seen: Chance that k rollouts before all fail and k after do not.
        lost_seen: Chance of the reverse.
        by_chance: What either would be if each policy were compared with itself (mean of both).
        gained: Least share gained, ``gained_seen`` less chance; the true gain lies between it and ``gained_seen``.
        lost: The same of the loss.
        zero_before: Prompts without a pass before.
        zero_before_pass_after: Those of them with a pass after: as counted, chance included.
        zero_after: Prompts without a pass after.
        pass_before_zero_after: Those of them with a pass before.
    """

    k: int
    gained_seen: Interval
    lost_seen: Interval
    by_chance: float
    gained: Difference
    lost: Difference
    zero_before: int
    zero_before_pass_after: int
    zero_after: int
    pass_before_zero_after: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PassComparison(Shown):
    """Two policies by pass@k.

    Attributes:
        verdict: `PassVerdict`.
        reason: The verdict in words, with its k.
        before: Curve of the first policy; of the common prompts if paired.
        after: Curve of the second.
        differences: After minus before at each k.
        crossing: Where the curves change places.
        turnover: Prompts gained and lost; None unless paired, or with fewer than two counted rollouts.
        paired: Whether prompts are compared with themselves.
        prompts: Common prompts, if paired, else 0.
        only_before: Prompts that only the first pilot has (all of them, if not paired).
        only_after: Prompts that only the second has.
        level: Confidence level of each interval by itself; the verdict is wrong at most as often as one of them.
        margin: Gain that is still of interest.
        notes: What was left out, added up, or is odd.
        assumptions: What the comparison takes for granted.
    """

    verdict: PassVerdict
    reason: str
    before: PassCurve = field(repr=False)
    after: PassCurve = field(repr=False)
    differences: tuple[PassDifference, ...] = field(repr=False)
    crossing: Crossing
    turnover: Turnover | None = field(repr=False)
    paired: bool
    prompts: int
    only_before: int
    only_after: int
    level: float
    margin: float
    notes: tuple[str, ...]
    assumptions: tuple[str, ...] = field(repr=False)


def deciding(differences: Sequence[PassDifference]) -> tuple[PassDifference, ...]:
    """The last counted k and the last one asked: fixed before the counts are seen (theory.md, eq. 134)."""
    last_counted = [d for d in differences if d.counted][-1:]
    ends = [*last_counted, differences[-1]]
    return tuple(d for i, d in enumerate(ends) if d.k > differences[0].k and d.k not in [e.k for e in ends[:i]])


def decide_pass(
    differences: Sequence[PassDifference], margin: float, room: float
) -> tuple[PassVerdict, PassDifference | None]:
    """The verdict, and the difference at large k that made it (theory.md, eq. 134).

    Args:
        differences: In rising order of k, the first at k = 1.
        margin: Gain that is still of interest.
        room: What pass@k could still gain at the last counted k: 1 less its value before.
    """
    first, ends = differences[0], deciding(differences)
    counted = [d for d in differences if d.counted]
    for end in ends:
        if first.sign * end.sign < 0:
            found = PassVerdict.SEARCH_COMPRESSION if first.sign > 0 else PassVerdict.BREADTH
            return found, end
    if len(counted) > 1 and counted[0] is first and first.sign != 0 and all(d.sign == first.sign for d in counted):
        return (PassVerdict.CAPACITY if first.sign > 0 else PassVerdict.LOSS), counted[-1]
    last = counted[-1] if len(counted) > 1 else None
    if first.sign > 0 and last is not None and last.high < margin and room >= 2.0 * margin:
        return PassVerdict.NO_GAIN_AT_LARGE_K, last
    return PassVerdict.CANNOT_TELL, None
