"""JSONL files cut into tasks of bounded size, counted by several processes or by this one: either way alike.

Results are taken in order, so the same cells are added in the same order whatever the number of workers, and the first
error of the files is the error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import Place, ReadOptions, Tally
from grpo_plan.readers.files import InputFile, Sniffed, open_sniffed
from grpo_plan.readers.jsonlines import BLOCK_BYTES, line_at, read_blocks, read_json_lines
from grpo_plan.readers.list_groups import ListGroups
from grpo_plan.readers.rows import RowShape, count_rows
from grpo_plan.readers.thresholds import OddRewards
from grpo_plan.readers.workers import Workers, default_workers

if TYPE_CHECKING:
    import polars as pl

TASK_BYTES = 64 << 20
PARALLEL_BYTES = 192 << 20  # less than this is read before other processes have started
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Lines of a file that start in a range of its bytes; of a compressed file all."""

    path: Path
    name: str
    start: int
    size: int
    compressed: bool
    columns: Sequence[str]
    roles: ColumnMap
    options: ReadOptions


@dataclass(slots=True, kw_only=True)
class TaskResult:
    """What a task counted: cells, what was left out, malformed lines (offset or line, and why), and how it ended."""

    cells: list[pl.DataFrame] = field(default_factory=list)
    dropped: Mapping[str, int] = field(default_factory=dict)
    rows: int = 0
    added: int = 0
    repeated_rows: bool = False
    steps: set[int] = field(default_factory=set)
    steps_seen: set[int] = field(default_factory=set)
    row_counts: Mapping[tuple[int, int], int] = field(default_factory=dict)
    rewards: tuple[float, float] | None = None
    malformed: list[tuple[int | str, str]] = field(default_factory=list)
    lists: ListGroups = field(default_factory=ListGroups)
    odd: OddRewards | None = None
    error: str | None = None


class _Enough(Exception):
    """The read ends with this task: it has more malformed lines than all files may have, or rewards of many levels."""


@dataclass(slots=True, kw_only=True)
class _TaskTally(Tally):
    """A tally that notes malformed lines; whether they are too many depends on the tasks before."""

    malformed: list[tuple[int | str, str]] = field(default_factory=list)
    by_offset: bool = True

    def skip(self, place: Callable[[], str], why: str, options: ReadOptions, offset: int = 0) -> None:
        self.dropped["malformed_line"] += 1
        if len(self.malformed) <= options.skip_limit < float("inf"):
            self.malformed.append((offset if self.by_offset else place(), why))
        if self.dropped["malformed_line"] > options.skip_limit:
            raise _Enough

    def meets_odd_reward(self, rewards: NDArray[np.float64], place: Place, column: str) -> bool:
        try:
            return Tally.meets_odd_reward(self, rewards, place, column)  # slots leave super() without its class
        except PilotFormatError:
            raise _Enough from None


def run(task: Task) -> TaskResult:
    """Count the lines of a task."""
    tally = _TaskTally(by_offset=not task.compressed)
    error = None
    try:
        if task.compressed:
            with open_sniffed(InputFile(name=task.name, path=task.path)) as sniffed:
                _count(sniffed.stream, 0, float("inf"), task, tally)
        else:
            with task.path.open("rb") as file:
                start = _start_of_line(file, task.start)
                _count(file, start, task.start + task.size - start, task, tally)
    except _Enough:
        pass
    except GrpoPlanError as raised:
        error = str(raised)
    except OSError as raised:
        error = f"{task.name}: cannot be read ({raised.strerror or raised})."
    return TaskResult(
        cells=tally.parts,
        dropped=dict(tally.dropped),
        rows=tally.rows,
        added=tally.added,
        repeated_rows=tally.repeated_rows,
        steps=tally.steps,
        steps_seen=tally.steps_seen,
        row_counts=tally.row_counts,
        rewards=tally.rewards,
        malformed=tally.malformed,
        lists=tally.lists,
        odd=tally.odd,
        error=error,
    )


def _count(stream: BinaryIO, start: int, size: float, task: Task, tally: Tally) -> None:
    shape = RowShape.of(task.columns)
    path = None if task.compressed else task.path
    blocks = read_blocks(stream, task.name, size)
    batches = read_json_lines(blocks, task.name, shape, task.options, tally, path=path, offset=start)
    count_rows(batches, shape, task.roles, task.options, tally)


def _start_of_line(file: BinaryIO, offset: int) -> int:
    """Go to the first line that starts at or after a byte."""
    if offset:
        file.seek(offset - 1)
        while (piece := file.readline(BLOCK_BYTES)) and not piece.endswith(b"\n"):
            pass
    return file.tell()


class Later:
    """Tasks whose results are still to be taken into a tally, in order; processes start once there is enough to do."""

    def __init__(self, tally: Tally, options: ReadOptions) -> None:
        self._tally, self._options = tally, options
        self._count = options.workers or default_workers()
        self._tasks: deque[tuple[Task, Progress | None]] = deque()
        self._bytes = 0
        self._workers: Workers[Task, TaskResult] | None = None

    def put(self, task: Task, progress: Progress | None) -> None:
        """Leave a task for later."""
        self._tasks.append((task, progress))
        self._bytes += task.size
        if self._workers is not None:
            self._workers.put(task)
            while self._tasks and self._workers.ready():
                self._take()
        elif self._count > 1 and self._bytes >= PARALLEL_BYTES and len(self._tasks) > 1:
            self._workers = Workers(__name__, self._count)
            for waiting, _ in self._tasks:
                self._workers.put(waiting)

    def finish(self) -> None:
        """Take in all results."""
        while self._tasks:
            self._take()
        self._bytes = 0

    def _take(self) -> None:
        task, progress = self._tasks.popleft()
        result = run(task) if self._workers is None else self._workers.take()
        tally = self._tally
        before = tally.dropped["malformed_line"]
        for where, why in result.malformed:
            tally.skip(lambda where=where: _place(task, where), why, self._options)  # type: ignore[misc]
        if result.error is not None:
            raise PilotFormatError(result.error)
        if result.odd is not None or tally.odd is not None:
            self._take_odd(result)
        del tally.dropped["malformed_line"]
        tally.dropped.update(result.dropped)
        if before:
            tally.dropped["malformed_line"] += before
        for cells in result.cells:
            tally.add(cells)
        tally.added += result.added - sum(c.height for c in result.cells)
        tally.rows += result.rows
        tally.repeated_rows |= result.repeated_rows
        tally.steps |= result.steps
        tally.steps_seen |= result.steps_seen
        tally.row_counts.update(result.row_counts)
        tally.lists.add(result.lists)
        tally.take_rewards(np.array(result.rewards or (), dtype=np.float64))
        if progress is not None:
            progress(task.size)

    def _take_odd(self, result: TaskResult) -> None:
        """Rewards other than 0 and 1: the first is kept, and the levels of all."""
        tally, odd = self._tally, result.odd
        if tally.odd is None and odd is not None:
            tally.odd = replace(odd, levels=_levels(tally.parts), rows=0)
        if tally.odd is not None:
            levels, rows = (_levels(result.cells), result.rows) if odd is None else (odd.levels, odd.rows)
            tally.odd.add(levels, rows, tally.other_rewards)

    def close(self) -> None:
        """End the processes."""
        self._tasks.clear()
        if self._workers is not None:
            self._workers.close()


def _levels(parts: Sequence[pl.DataFrame]) -> set[float]:
    """Which of the rewards 0 and 1 were counted."""
    n, k = (sum(int(part[c].sum()) for part in parts) for c in ("n", "k"))
    return {level for level, there in ((0.0, n > k), (1.0, k > 0)) if there}


def _place(task: Task, where: int | str) -> str:
    return where if isinstance(where, str) else f"{task.name}:{line_at(task.path, where)}"


def count_later(
    file: InputFile,
    sniffed: Sniffed,
    columns: Sequence[str],
    roles: ColumnMap,
    options: ReadOptions,
    tally: Tally,
    progress: Progress | None,
) -> bool:
    """Leave a file for later, in tasks; False if its rows must be read here: in order, or numbered across files."""
    later = tally.later
    if not isinstance(later, Later) or tally.observer is not None or roles.prompt is None or roles.shape == "histogram":
        return False
    if file.path is None or not file.path.is_file() or options.groups_apart:
        return False
    size = file.path.stat().st_size
    whole = Task(
        path=file.path, name=file.name, start=0, size=size, compressed=sniffed.compressed, columns=columns, roles=roles,
        options=options,
    )  # fmt: skip
    if sniffed.compressed:
        later.put(whole, progress)
        return True
    for start in range(0, size, TASK_BYTES):
        later.put(replace(whole, start=start, size=min(TASK_BYTES, size - start)), progress)
    return True


@contextmanager
def several_processes(tally: Tally, options: ReadOptions) -> Iterator[None]:
    """Let large JSONL files be counted by other processes while this lasts; an error of an earlier file comes first."""
    later = Later(tally, options)
    tally.later = later
    try:
        try:
            yield
        except GrpoPlanError:
            later.finish()
            if tally.odd is not None:
                raise tally.odd.error(tally.other_rewards) from None
            raise
        later.finish()
    finally:
        tally.later = None
        later.close()


__all__ = ["Later", "Task", "TaskResult", "count_later", "run", "several_processes"]
