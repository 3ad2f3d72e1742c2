"""What the checks share: shares with limits over a window, and the words for them."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.quantities import Absent
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Skipped
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import share_over

RIVAL_RULE = "DEGENERATE_GROUPS as published with rlprobe 0.1.0"


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
        return self.value is None and self.seen_high - self.seen_low > 0.25


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


def in_words(share: SeenShare) -> str:
    """A share with its limits as percentages; of one that is only bounded, its bounds.

    >>> in_words(SeenShare(value=0.59, seen_low=0.59, seen_high=0.59, low=0.57, high=0.61, rows=40))
    '59 % (57 to 61 %)'
    >>> in_words(SeenShare(value=None, seen_low=0.6, seen_high=0.8, low=0.43, high=0.91, rows=40))
    'between 60 and 80 %'
    """
    if share.value is None:
        if share.seen_high - share.seen_low < 0.002:
            return f"about {percent(0.5 * (share.seen_low + share.seen_high))} %"
        return f"between {percent(share.seen_low)} and {percent(share.seen_high)} %"
    return f"{percent(share.value)} % ({percent(share.low)} to {percent(share.high)} %)"


def percent(share: float) -> str:
    """A share in percent with three digits that count, without trailing zeros.

    >>> percent(0.5), percent(0.0325), percent(0.9995), percent(0.0)
    ('50', '3.25', '99.95', '0')
    """
    shown = f"{100.0 * share:.1f}" if 0.1 <= share <= 0.9 else f"{100.0 * share:.2f}"
    return shown.rstrip("0").rstrip(".")


def absent(id: str, found: Absent) -> Skipped:
    """A check that lacks a quantity."""
    return Skipped(id=id, needs=found.reason)


def late_share(facts: Facts, series: Measured) -> tuple[Measured, SeenShare]:
    """The late window of a series and its share there."""
    window = facts.late(series)
    return window, share_of(window, facts.settings.level)


def evidence_of(name: str, share: SeenShare) -> dict[str, float | int | str | bool | None]:
    """A share as evidence: value, limits, and bounds where only these are known."""
    found: dict[str, float | int | str | bool | None] = {
        name: share.value, f"{name}_low": share.low, f"{name}_high": share.high
    }  # fmt: skip
    if share.value is None:
        found |= {f"{name}_at_least": share.seen_low, f"{name}_at_most": share.seen_high}
    return found


def bounded_only(id: str, name: str, share: SeenShare, words: str) -> Skipped:
    """A check that bounds do not decide."""
    return Skipped(id=id, needs=f"{name}; the log bounds it only: {in_words(share)} ({words}).")
