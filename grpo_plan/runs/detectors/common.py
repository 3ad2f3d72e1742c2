"""What the checks share: shares with limits over a window, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.quantities import Absent
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Skipped
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import Share, share_over

WIDE = 0.25  # limits so far apart hardly say anything


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenShare:
    """A share of the groups of a window: what was seen, and what that says of groups drawn at random.

    Attributes:
        value: Share seen; None where it is only bounded.
        seen_low: Lower bound of what was seen; the value where it is exact.
        seen_high: Upper bound of it.
        low: Lower confidence limit of the share that groups are drawn with.
        high: Upper confidence limit.
        rows: Rows behind it.
    """

    value: float | None
    seen_low: float
    seen_high: float
    low: float
    high: float
    rows: int

    @property
    def wide(self) -> bool:
        """Whether the bounds are so far apart that they hardly say anything."""
        return self.value is None and self.seen_high - self.seen_low > WIDE

    def undecided(self, limit: float) -> bool:
        """Whether the limits are too far apart to say on which side of ``limit`` the share lies."""
        return self.low <= limit < self.high and self.high - self.low > WIDE


def share_of(series: Measured, level: float) -> SeenShare:
    """A share over the rows of a series; limits of one that is only bounded go from its lower to its upper bound."""
    ends = [share_over(v, series.groups, level=level) for v in (series.lower, series.upper)]
    seen = [0.0 if e.value is None else e.value for e in ends]
    return SeenShare(
        value=ends[0].value if series.exact else None,
        seen_low=seen[0],
        seen_high=seen[1],
        low=ends[0].low,
        high=ends[1].high,
        rows=series.rows,
    )


def in_words(share: SeenShare | Share) -> str:
    """A share with its limits as percentages; of one that is only bounded, its bounds and their limits.

    >>> in_words(SeenShare(value=0.59, seen_low=0.59, seen_high=0.59, low=0.57, high=0.61, rows=40))
    '59 % (57 to 61 %)'
    >>> in_words(SeenShare(value=None, seen_low=0.6, seen_high=0.8, low=0.43, high=0.91, rows=40))
    'between 60 and 80 % (limits 43 to 91 %)'
    """
    if share.value is None and isinstance(share, SeenShare):
        limits = f"limits {percent(share.low)} to {percent(share.high)} %"
        if share.seen_high - share.seen_low < 0.002:
            return f"about {percent(0.5 * (share.seen_low + share.seen_high))} % ({limits})"
        return f"between {percent(share.seen_low)} and {percent(share.seen_high)} % ({limits})"
    if share.value is None:
        return "an unknown share"
    return f"{percent(share.value)} % ({percent(share.low)} to {percent(share.high)} %)"


def percent(share: float) -> str:
    """A share in percent, with one decimal, near the ends with two, without trailing zeros.

    >>> percent(0.5), percent(0.0325), percent(0.9995), percent(0.0)
    ('50', '3.2', '99.95', '0')
    """
    shown = f"{100.0 * share:.1f}" if 0.01 <= share <= 0.99 else f"{100.0 * share:.2f}"
    return shown.rstrip("0").rstrip(".")


def absent(id: str, found: Absent) -> Skipped:
    """A check that lacks a quantity."""
    return Skipped(id=id, needs=found.reason)


def late_share(facts: Facts, series: Measured) -> tuple[Measured, SeenShare]:
    """The late window of a series and its share there."""
    window = facts.late(series)
    return window, share_of(window, facts.settings.level)


def evidence_of(name: str, share: SeenShare | Share) -> dict[str, float | int | str | bool | None]:
    """A share as evidence: value, limits, and bounds where only these are known."""
    found: dict[str, float | int | str | bool | None] = {
        name: share.value, f"{name}_low": share.low, f"{name}_high": share.high
    }  # fmt: skip
    if share.value is None and isinstance(share, SeenShare):
        found |= {f"{name}_at_least": share.seen_low, f"{name}_at_most": share.seen_high}
    return found


def vague(id: str, name: str, share: Share, span: str) -> Skipped | None:
    """A check that saw too little to call a share small; None where its limits are close enough together.

    >>> share = Share(value=0.0, low=0.0, high=0.6, rows=1, groups=4.0, level=0.95)
    >>> vague("FLAT_REWARD", "the share of such groups", share, "step 3").needs
    'more groups: the share of such groups is 0 % (0 to 60 %) in step 3.'
    """
    if share.value is not None and share.high - share.low <= WIDE:
        return None
    return Skipped(id=id, needs=f"more groups: {name} is {in_words(share)} in {span}.")


def too_little(id: str, name: str, share: SeenShare, window: Measured) -> Skipped:
    """A check that neither says yes nor no: the log is too short, or only bounds the share."""
    if share.value is None and share.wide:
        return Skipped(id=id, needs=f"{name}; the log only bounds it: {in_words(share)} ({window.words}).")
    return Skipped(id=id, needs=f"more groups: {name} is {in_words(share)} in {window.span}.")
