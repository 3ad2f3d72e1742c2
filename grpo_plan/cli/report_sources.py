"""What the sources of a report are, told by the readers: pilots, a run, or both; and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import DomainError, GrpoPlanError

if TYPE_CHECKING:
    from grpo_plan.cli.pilot_options import PilotRequest
    from grpo_plan.pilot import Pilot
    from grpo_plan.report.request import Source
    from grpo_plan.run_log import RunLog

HASHED_BYTES = 64 << 20
ENOUGH_GROUPS = 200  # of the first steps of a run, for a pilot of its policy
PILOT, RUN, BOTH, PERHAPS = "pilot", "run", "both", "perhaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Sources by what they are; ``perhaps``: the run is one if its rollouts tell several steps apart."""

    pilots: tuple[str, ...]
    run: tuple[str, ...]
    perhaps: bool = False

    def without_run(self) -> Sorted:
        """Rollouts that turned out to be of no run: a pilot."""
        return Sorted(pilots=self.pilots or self.run, run=())

    @property
    def both(self) -> bool:
        """Whether the pilot is of the run itself."""
        return bool(self.run) and self.pilots == self.run


def sort_sources(sources: Sequence[str], named: str | None) -> Sorted:
    """What each source is.

    Args:
        sources: As given.
        named: Name of the reader of the pilot, if given; it is no reader of a run then.

    Raises:
        DomainError: Several runs.
    """
    kinds = {source: kind_of(source) if named is None else PILOT for source in sources}
    runs = [source for source, kind in kinds.items() if kind != PILOT]
    if len(runs) > 1:
        raise DomainError(
            f"A report is of one run at most; got {', '.join(runs)}. Give one of them, or write two reports."
        )
    pilots = [source for source, kind in kinds.items() if kind == PILOT]
    if not pilots:
        pilots = [source for source, kind in kinds.items() if kind in (BOTH, PERHAPS)]
    perhaps = PERHAPS in kinds.values()
    if perhaps and pilots and pilots != runs:
        return Sorted(pilots=(*pilots, *runs), run=())
    return Sorted(pilots=tuple(pilots), run=tuple(runs), perhaps=perhaps)


def kind_of(source: str) -> str:
    """``pilot``, ``run``, ``both`` (rollouts beside metrics), or ``perhaps`` both: rollouts of training steps alone."""
    from grpo_plan.readers.addresses import is_address
    from grpo_plan.readers.discovery import SeveralFormatsError, discover
    from grpo_plan.readers.run_reader import EVALUATIONS

    if source == "-" or is_address(source):
        return PILOT
    found: dict[str, Any] = {}
    for want in (PILOT, RUN):
        try:
            found[want] = discover(source, want, None).format
        except SeveralFormatsError:
            found[want] = want
        except GrpoPlanError:
            found[want] = None
    rollouts, metrics = found[PILOT], found[RUN]
    if metrics is not None:
        return RUN if rollouts is None else BOTH
    if rollouts is None or getattr(rollouts, "name", "") in EVALUATIONS:
        return PILOT
    return PERHAPS


def first_steps(run: RunLog) -> tuple[int, int] | None:
    """First steps of a run that hold enough groups for a pilot of its policy; None without groups of known steps."""
    if run.groups is None:
        return None
    steps, counts = np.unique(run.groups.step[run.groups.step >= 0], return_counts=True)
    if not steps.size:
        return None
    enough = int(np.searchsorted(np.cumsum(counts), ENOUGH_GROUPS))
    return int(steps[0]), int(steps[min(enough, steps.size - 1)])


def by_temperature(files: Mapping[float, str], pilots: Mapping[str, Pilot]) -> dict[float, Pilot] | None:
    """Pilots of several files by their temperature; None where there is one file.

    Raises:
        DomainError: Several files of one temperature, or of none that is told.
    """
    if files:
        return {t: pilots[name] for t, name in files.items()}
    if len(pilots) < 2:
        return None
    found: dict[float, Pilot] = {}
    for pilot in pilots.values():
        if len(pilot.temperatures) != 1 or pilot.temperatures[0] in found:
            raise DomainError(
                f"Several pilots must be of the same prompts at different temperatures; got {', '.join(pilots)}. Give "
                "--pilot T=FILE for each, or the files of one pilot as one pattern in quotes, e.g. 'part-*.jsonl'."
            )
        found[pilot.temperatures[0]] = pilot
    return found


def describe(
    names: Sequence[str], role: str, *, temperature: float | None = None, pilot: Pilot | None = None
) -> Source:
    """Where something was read: files, bytes, and a hash where they are few."""
    from grpo_plan.report.request import Source

    files = [path for name in names for path in _files_of(name)]
    source = Source(name=" ".join(names), role=role, temperature=temperature)
    if pilot is not None:
        told = pilot.provenance
        source = replace(
            source, reader=told.format, rows=told.rows, dropped=dict(pilot.dropped), notes=tuple(pilot.notes)
        )
    if not files:
        return source
    status = [path.stat() for path in files]
    size = sum(one.st_size for one in status)
    latest = datetime.fromtimestamp(max(one.st_mtime for one in status), UTC)
    return replace(
        source,
        files=len(files),
        bytes=size,
        sha256=_hash(files) if size <= HASHED_BYTES else None,
        modified=latest.isoformat(timespec="seconds"),
    )


def _files_of(name: str) -> list[Path]:
    from glob import glob

    try:
        path = Path(name)
        if path.is_file():
            return [path]
        if path.is_dir():
            return sorted(p for p in path.rglob("*") if p.is_file())
        return sorted(p for p in map(Path, glob(name, recursive=True)) if p.is_file())
    except (OSError, ValueError):
        return []


def _hash(files: Sequence[Path]) -> str | None:
    """SHA-256 of one file, or of the hashes of several in order; None where one cannot be read."""
    try:
        each = [hashlib.sha256(path.read_bytes()) for path in files]
    except OSError:
        return None
    if len(each) == 1:
        return each[0].hexdigest()
    return hashlib.sha256(b"".join(one.digest() for one in each)).hexdigest()


def with_steps(request: PilotRequest, steps: tuple[int, int]) -> PilotRequest:
    """The same request, of some steps."""
    return replace(request, options={**request.options, "policy_steps": steps})
