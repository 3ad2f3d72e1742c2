"""What the checks share: shares with limits over a window, and the words for them."""

from __future__ import annotations

from grpo_plan.quantities import Absent
from grpo_plan.runs.facts import Facts
from grpo_plan.runs.finding import Skipped
from grpo_plan.runs.measured import Measured
from grpo_plan.runs.series import Share, share_over

RIVAL_RULE = "DEGENERATE_GROUPS as published with rlprobe 0.1.0"


def share_of(series: Measured, level: float) -> Share:
    """A share over the rows of a series; of one that is only bounded, from its lower to its upper limit."""
    if series.exact:
        return share_over(series.values, series.groups, level=level)
    low, high = (share_over(v, series.groups, level=level) for v in (series.lower, series.upper))
    return Share(value=None, low=low.low, high=high.high, rows=low.rows, groups=low.groups, level=level)


def in_words(share: Share) -> str:
    """A share with its limits as percentages.

    >>> in_words(Share(value=0.59, low=0.57, high=0.61, rows=40, groups=1280.0, level=0.95))
    '59 % (57 to 61 %)'
    >>> in_words(Share(value=None, low=0.622, high=0.75, rows=40, groups=1280.0, level=0.95))
    '62.2 to 75 %'
    """
    low, high = percent(share.low), percent(share.high)
    if share.value is None:
        return f"{low} to {high} %"
    return f"{percent(share.value)} % ({low} to {high} %)"


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


def late_share(facts: Facts, series: Measured) -> tuple[Measured, Share]:
    """The late window of a series and its share there."""
    window = facts.late(series)
    return window, share_of(window, facts.settings.level)


def evidence_of(name: str, share: Share) -> dict[str, float | int | str | bool | None]:
    """A share as evidence: value, limits."""
    return {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}
