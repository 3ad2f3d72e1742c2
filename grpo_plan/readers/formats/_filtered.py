"""Whether a dump that may have been filtered holds survivors only: told from the groups themselves."""

from __future__ import annotations

from collections.abc import Callable

from grpo_plan.readers.formats._survivors import UNLIKELY
from grpo_plan.readers.sink import RolloutSink

RANGE = 1e-12  # rewards closer than this are equal


def no_dead_group_chance(sink: RolloutSink) -> tuple[int, float] | None:
    """Number of groups and the chance that none of them is dead, if none is; None if one is, or there is no group.

    Each group speaks for itself: of a 0/1 reward with share p of passes, a fresh group of the same prompt is dead with
    the chance p**G + q**G. Groups seen mixed tend to have p nearer to one half than their prompts, so the chance is
    too high rather than too low.
    """
    if sink.groups is None:
        return None
    table = sink.groups.frame().drop_nulls(("low", "high"))
    spread = (table["high"] - table["low"]).to_numpy()
    if not len(spread) or (spread <= RANGE).any():
        return None
    size = table["scored"].to_numpy()
    share = (table["total"].to_numpy() / size - table["low"].to_numpy()) / spread
    mixed = 1.0 - share**size - (1.0 - share) ** size
    return len(spread), float(mixed.prod())


def read_as_filtered_if_so(read: Callable[[RolloutSink], None], sink: RolloutSink, setting: str) -> None:
    """Read; if dead groups are missing that should be there, read again as a filtered source.

    Args:
        read: Reads everything into a sink.
        sink: Where to.
        setting: What in the trainer's configuration leaves dead groups out.
    """
    read(sink)
    found = no_dead_group_chance(sink)
    if found is None or sink.filtered is not None:
        return
    groups, chance = found
    if chance >= UNLIKELY:
        return
    sink.tally.parts.clear()
    sink.tally.dropped.clear()
    sink.tally.notes.clear()
    sink.tally.rows, sink.rows, sink.groups = 0, 0, None
    shown = "below 1e-9" if chance < 1e-9 else f"{chance:.1g}"
    sink.filtered = (
        f"none of {groups:,} groups is dead, which by chance alone would be {shown}; dead groups seem to have been "
        f"dropped ({setting})"
    )
    read(sink)
