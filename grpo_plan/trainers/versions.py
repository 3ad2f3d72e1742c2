"""Which range of a trainer's versions a version falls in, and that range in words."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_plan.errors import DomainError


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """Versions of one trainer that share their keys.

    Attributes:
        since: First version of the range, as the trainer lists it.
        words: The range in words, e.g. "TRL 0.22 up to 0.28".
        note: What to know when the version asked for is newer than any that was read; else None.
    """

    since: str
    words: str
    note: str | None = None


def pick_range(title: str, versions: tuple[str, ...], asked: str | None) -> VersionRange:
    """The range that a version falls in; the newest if none is asked for.

    Args:
        title: The trainer, for messages.
        versions: First version of every range in rising order, then the newest version that was read.
        asked: A version such as "1.16" or "0.10.1.post2", or None.

    Raises:
        DomainError: The version cannot be read, or is older than every range.

    >>> pick_range("TRL", ("0.19", "0.22", "1.16"), "0.21.0").words
    'TRL 0.19 and newer, before 0.22'
    >>> pick_range("TRL", ("0.19", "0.22", "1.16"), "2.0").note
    'TRL 2.0 is newer than what this was written for (1.16): check the keys against its release notes.'
    """
    starts, newest = versions[:-1], versions[-1]
    since, note = starts[-1], None
    if asked is not None:
        wanted = _release(title, asked)
        known = [s for s in starts if _release(title, s) <= wanted]
        if not known:
            raise DomainError(
                f"{title} {asked} is too old: blocks are written for {title} {starts[0]} and newer. "
                "Upgrade, or copy the numbers by hand."
            )
        since = known[-1]
        last = _release(title, newest)
        if wanted[: len(last)] > last:
            note = (
                f"{title} {asked} is newer than what this was written for ({newest}): "
                "check the keys against its release notes."
            )
    place = starts.index(since)
    before = f", before {starts[place + 1]}" if place + 1 < len(starts) else f" (read up to {newest})"
    return VersionRange(since=since, words=f"{title} {since} and newer{before}", note=note)


def at_least(version: str, other: str) -> bool:
    """Whether a listed version is the other or newer.

    >>> at_least("0.28", "0.9"), at_least("0.9", "0.28")
    (True, False)
    """
    return _release("version", version) >= _release("version", other)


def _release(title: str, version: str) -> tuple[int, ...]:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(str(version)).release
    except InvalidVersion:
        raise DomainError(f"version of {title} must be like 1.16 or 0.28.0; got {str(version)[:40]!r}.") from None
