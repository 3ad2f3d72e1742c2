"""A log of one row a line that grows: its rows, each once, and the run that they make."""

from __future__ import annotations

import base64
import io
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_plan.readers.candidates import PEEK_ROWS, look_at
from grpo_plan.readers.files import HEAD_BYTES, InputFile, Sniffed
from grpo_plan.readers.follow_events import FollowEvent, Happened
from grpo_plan.readers.follow_lines import Lines, Parsed, Row, ends_whole, feed, finish
from grpo_plan.readers.follow_tail import Cursor, FileTail
from grpo_plan.readers.formats.metrics import READ_AS, unwrapped
from grpo_plan.readers.registry import TABLE, recognised
from grpo_plan.readers.run_builder import NO_STEP, PART_OF_TOTAL, STEP_NAMES, RunBuilder, as_step
from grpo_plan.readers.run_config import settings_beside
from grpo_plan.run_log import RunLog

PART = len(STEP_NAMES)  # rank of ``global_step/max_steps`` among the columns that may hold the step
NUMBERED = PART + 1  # and of none at all
LAST_LOOK = 256 << 20  # bytes
MOST_LOOKS = 1000
MOST_RETURNS = 5  # to the start, in one look
SETTLED = 5  # looks at a last line that stays as it is, before it is taken without its line break


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """All that reading goes on from; replaced as a whole, so that an interruption leaves it whole.

    Attributes:
        cursor: How far the file was read.
        lines: How far its lines were.
        builder: What their rows make.
        queue: Rows read and not yet taken by the builder.
        head: First lines of the log, by which its format is told; empty once that is settled.
        settled: Whether the format is told for good.
        format: Name of the format.
        rank: Which column holds the step, by its place in ``STEP_NAMES``.
        first: Lowest step so far; None without one.
        files: Files read, the present one too.
        read: Bytes of the log, all files together.
        deciding: How the present file began (`Look.fresh`), until a step tells whether it continues the log.
        named: Whether a damaged line was told.
    """

    cursor: Cursor = field(default_factory=Cursor)
    lines: Lines
    builder: RunBuilder = field(default_factory=RunBuilder)
    queue: deque[Row] = field(default_factory=deque)
    head: bytes = b""
    settled: bool = False
    format: str = TABLE
    rank: int = NUMBERED
    first: int | None = None
    files: int = 1
    read: int = 0
    deciding: str = ""
    named: bool = False


@dataclass(slots=True, kw_only=True)
class News:
    """What was found since it was last asked for."""

    events: list[FollowEvent] = field(default_factory=list)
    steps: set[int] = field(default_factory=set)
    rows: int = 0
    behind: bool = False
    taken: bool = False  # rows, or what was left out


class LogFollower:
    """Follows one file of lines, and the files that take its name."""

    def __init__(self, path: Path, place: Place, *, fixed: bool = False) -> None:
        self._tail = FileTail(path)
        self._name = str(path)
        self._fixed = fixed
        self._place = replace(place, settled=True) if fixed else place
        self._news = News()
        self._still: tuple[bytes, int] = (b"", 0)

    @classmethod
    def begin(
        cls, path: Path, kind: str, separator: str = ",", *, format: str | None = None, before: Path | None = None
    ) -> LogFollower:
        """Follow a file from its start; ``before`` names one that the log began with."""
        place = Place(lines=Lines(kind=kind, separator=separator), format=TABLE if format is None else format)
        found = cls(path, place, fixed=format is not None)
        if before is not None:
            found._place = replace(place, cursor=found._tail.start_at(before))
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._tail.close()

    @property
    def half_a_line(self) -> bool:
        """Whether the log ends within a line."""
        return bool(finish(self._place.lines)[1].dropped)

    def poll(self, most: int) -> News:
        """Take what is new, about ``most`` bytes of it."""
        self._drain()
        self._pieces(most)
        self._take_still()
        return self._told()

    def _pieces(self, most: int) -> None:
        used, self._news.behind = 0, False
        returns = 0
        while True:
            found = self._tail.look(self._place.cursor)
            self._news.events += found.events
            used += max(len(found.data), 1)
            if found.fresh:
                self._place = replace(
                    self._place, cursor=found.cursor, lines=self._place.lines.next_file(), deciding=found.fresh,
                    files=self._place.files + 1,
                )  # fmt: skip
            elif found.data:
                lines, parsed = feed(self._place.lines, found.data)
                if not self._take(found.cursor, lines, parsed, found.data):
                    returns += 1
                    if returns == MOST_RETURNS:  # a file that is written over again and again
                        self._news.behind = True
                        return
                    continue
            elif found.cursor != self._place.cursor:
                self._place = replace(self._place, cursor=found.cursor)
            if not found.more:
                return
            if used >= most:
                self._news.behind = True
                return

    def finish(self) -> News:
        """Take all there is, and a last line without a line break, where it is a whole row."""
        self._drain()
        for _ in range(MOST_LOOKS):
            self._pieces(LAST_LOOK)
            if not self._news.behind and self._take_last():
                break
        return self._told()

    def run_log(self, *, stopped: bool = False) -> RunLog | None:
        """The run so far; None without a metric. Of a log that was ``stopped`` half a last line is counted."""
        self._drain()
        place = self._place
        builder = replace(place.builder, notes=list(place.builder.notes), config=dict(place.builder.config))
        builder.dropped = place.builder.dropped.copy()
        if stopped:
            builder.dropped.update(finish(place.lines)[1].dropped)
        file = InputFile(name=self._name, path=self._tail.path)
        builder.config.update(settings_beside([file], builder))
        tool = READ_AS[place.format][0] if place.format in READ_AS else None
        log = builder.run_log(format=place.format, source=self._name, tool=tool)
        return log if log.metrics or log.eval_metrics else None

    # --- taking rows ---------------------------------------------------------------------------------------------

    def _take(self, cursor: Cursor, lines: Lines, parsed: Parsed, data: bytes) -> bool:
        """Queue rows and move on, both at once.

        Or go back to the start, where these rows show the log in another light: then False.
        """
        place = self._place
        rows = parsed.rows
        if place.deciding:
            told = self._starts_over(rows)
            if told is None:
                place = replace(place, deciding="" if rows and place.rank != NUMBERED else place.deciding)
            elif told:
                self._anew(cursor)
                return False
            else:
                place = replace(place, deciding="")
        format, head, settled = self._format(place, data, lines)
        rank = min([place.rank, *(_rank(unwrapped(row, _unwrap(format)), place.rank) for row in rows)])
        changed = _unwrap(format) != _unwrap(place.format) or rank != place.rank
        place = replace(place, format=format, head=head, settled=settled, rank=rank)
        if changed and (place.queue or place.builder.rows):
            if place.files == 1:  # the rows before are to be read in this light
                self._place = replace(
                    place, cursor=replace(cursor, offset=0, head=b"", last=b""), read=0, builder=RunBuilder(),
                    queue=deque(), first=None, lines=_from_start(lines), named=False,
                )  # fmt: skip
                self._reread()
                return False
            place.builder.note("The step is in another column from some row on; earlier rows were read by their own.")
        for reason in parsed.dropped:
            place.builder.dropped[reason] += 1
        if parsed.damage is not None and not place.named:
            self._tell_damage(parsed)
            place = replace(place, named=True)
        steps = [s for row in rows if (s := self._step(unwrapped(row, _unwrap(format)), rank)) is not None]
        first = min([*([] if place.first is None else [place.first]), *steps], default=None)
        queue = place.queue
        self._place = replace(
            place, cursor=cursor, lines=lines, queue=deque([*queue, *rows]), first=first, read=place.read + len(data)
        )
        self._news.taken |= bool(rows or parsed.dropped)
        self._drain()
        return True

    def _reread(self) -> None:
        """Nothing is taken: the next look begins at the start."""
        self._news.steps.clear()
        self._news.rows = 0

    def _drain(self) -> None:
        """Give queued rows to the builder; one is given up only after it was taken, in case of an interruption."""
        place = self._place
        before = place.builder.taken_back
        unwrap = _unwrap(place.format)
        while place.queue:
            row = unwrapped(place.queue[0], unwrap)
            if place.rank == NUMBERED:
                place.builder.note(NO_STEP)
                step: object = place.builder.rows + 1
            else:
                step = _cell(row, place.rank)
            place.builder.add(row, step)
            place.queue.popleft()
            self._news.rows += 1
            self._news.taken = True
            if (at := as_step(step)) is not None:
                self._news.steps.add(at)
        if place.builder.taken_back > before:
            message = f"{self._name}: steps are logged again, as by a run taken up earlier. The later rows count."
            self._news.events.append(FollowEvent.of(Happened.WENT_BACK, message))

    def _starts_over(self, rows: list[Row]) -> bool | None:
        """Whether the first step of a file shows that it does not continue the log; None without a step."""
        place = self._place
        if place.rank == NUMBERED:
            return place.deciding == "anew" if rows and place.builder.rows else None
        steps = (self._step(unwrapped(row, _unwrap(place.format)), place.rank) for row in rows)
        step = next((s for s in steps if s is not None), None)
        return None if step is None else place.first is not None and step <= place.first

    def _anew(self, cursor: Cursor) -> None:
        """Forget all rows: the log was begun anew."""
        message = f"{self._name}: its steps start over. What was read before does not count any more."
        self._news.events.append(FollowEvent.of(Happened.REPLACED, message))
        lines = self._place.lines
        self._place = Place(
            cursor=Cursor(identity=cursor.identity),
            lines=_from_start(lines),
            format=self._place.format if self._fixed else TABLE,
            settled=self._fixed,
        )
        self._reread()

    def _step(self, row: Mapping[str, Any], rank: int) -> int | None:
        return None if rank == NUMBERED else as_step(_cell(row, rank))

    def _take_still(self) -> None:
        """Take a last line that stays as it is, if it is a whole object."""
        rest = self._place.lines.pending
        looks = self._still[1] + 1 if rest and rest == self._still[0] else 0
        self._still = (rest, looks)
        if looks == SETTLED and not self._place.lines.taken and ends_whole(self._place.lines):
            self._news.behind |= not self._take_last()

    def _take_last(self) -> bool:
        """Take the last line; False where that sent reading back to the start."""
        self._drain()
        lines, parsed = finish(self._place.lines)
        return not parsed.rows or self._take(self._place.cursor, lines, parsed, b"")

    def _tell_damage(self, parsed: Parsed) -> None:
        number, begin = parsed.damage or (0, "")
        message = (
            f"{self._name}:{number:,}: is no row ({begin!r}) and was left out; further such lines are only counted."
        )
        self._news.events.append(FollowEvent.of(Happened.DAMAGED, message))

    def _told(self) -> News:
        news, self._news = self._news, News()
        return news

    # --- what the log is -----------------------------------------------------------------------------------------

    def _format(self, place: Place, data: bytes, lines: Lines) -> tuple[str, bytes, bool]:
        """Format by the first lines, as reading at once tells it; they are kept until there are enough of them."""
        if place.settled:
            return place.format, b"", True
        head = place.head
        if place.read <= len(head) < place.read + len(data):
            head += data[len(head) - place.read :]
        elif data:
            return place.format, head, False  # read before
        cut = head if not data else head[: head.rfind(b"\n") + 1]
        enough = head.count(b"\n") > PEEK_ROWS + 1 or len(head) >= HEAD_BYTES
        sniffed = Sniffed(kind=lines.kind, stream=io.BytesIO(cut), head=cut[:HEAD_BYTES], separator=lines.separator)
        candidate = look_at(sniffed, InputFile(name=self._name, path=None))
        found = recognised(candidate, "run")
        name = found.name if found is not None and found.name in READ_AS else TABLE
        return name, b"" if enough else head, enough

    # --- kept and taken up again ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Where reading stands, and all rows so far, as a document of JSON."""
        self._drain()
        place = self._place
        cursor, lines = place.cursor, place.lines
        return {
            "cursor": [cursor.identity, cursor.offset, _text(cursor.head), _text(cursor.last)],
            "lines": [
                lines.kind, lines.separator, lines.header, _text(lines.pending), lines.taken, _text(lines.carried),
                lines.number, lines.at_start,
            ],
            "head": _text(place.head),
            "settled": place.settled,
            "fixed": self._fixed,
            "format": place.format,
            "rank": place.rank,
            "first": place.first,
            "files": place.files,
            "read": place.read,
            "deciding": place.deciding,
            "named": place.named,
            "builder": place.builder.state(),
        }  # fmt: skip

    @classmethod
    def resume(cls, path: Path, state: Mapping[str, Any]) -> LogFollower:
        """Go on from a state; what is none raises what it raises."""
        identity, offset, head, last = state["cursor"]
        kind, separator, header, pending, taken, carried, number, at_start = state["lines"]
        cursor = Cursor(
            identity=None if identity is None else (int(identity[0]), int(identity[1])),
            offset=int(offset),
            head=_bytes(head),
            last=_bytes(last),
        )
        lines = Lines(
            kind=str(kind),
            separator=str(separator),
            header=None if header is None else tuple(map(str, header)),
            pending=_bytes(pending),
            taken=bool(taken),
            carried=_bytes(carried),
            number=int(number),
            at_start=bool(at_start),
        )
        place = Place(
            cursor=cursor,
            lines=lines,
            builder=RunBuilder.from_state(state["builder"]),
            head=_bytes(state["head"]),
            settled=bool(state["settled"]),
            format=str(state["format"]),
            rank=int(state["rank"]),
            first=None if state["first"] is None else int(state["first"]),
            files=int(state["files"]),
            read=int(state["read"]),
            deciding=str(state["deciding"]),
            named=bool(state["named"]),
        )
        return cls(path, place, fixed=bool(state["fixed"]))


def _unwrap(format: str) -> str:
    return READ_AS[format][1] if format in READ_AS else ""


def _cell(row: Mapping[str, Any], rank: int) -> object:
    if rank == PART:
        return str(row.get(PART_OF_TOTAL) or "").partition("/")[0].strip() or None
    return row.get(STEP_NAMES[rank])


def _rank(row: Mapping[str, Any], best: int) -> int:
    """Which column of a row holds the step, of those better than ``best``."""
    for rank, name in enumerate(STEP_NAMES[:best]):
        if row.get(name) is not None:
            return rank
    return PART if best > PART and PART_OF_TOTAL in row else best


def _from_start(lines: Lines) -> Lines:
    return Lines(kind=lines.kind, separator=lines.separator)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
