"""What a format is: how it is recognised by its content, what is read of it, and how well that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from grpo_plan.readers.files import InputFile

if TYPE_CHECKING:
    from grpo_plan.readers.request import ReadRequest
    from grpo_plan.readers.sink import RolloutSink
    from grpo_plan.run_log import RunLog


class Evidence(StrEnum):
    """How a format is known, the strongest first."""

    RAN = "ran"  # the tool itself wrote the files that the reader is tested on
    SOURCE = "read in source"  # the tool's code that writes them was read
    DOCUMENTED = "documented"  # a card or a manual describes them
    INFERRED = "inferred"  # pieced together; say so


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The start of a file, decoded as far as its kind allows; what sniffers look at.

    Attributes:
        file: The file.
        kind: ``jsonl``, ``json`` (one document), ``json-array``, ``csv``, ``parquet``, ``arrow``, ``arrow-stream``,
            ``zip``, ``torch`` (a zip written by torch.save), ``sqlite``, ``events`` (TensorBoard), ``wandb`` (W&B's own
            log), ``mlflow-metric`` (lines of time, value and step).
        rows: First rows: objects of JSON lines or of an array, the document itself, rows of a CSV (values are text).
        columns: Names of the columns: of a table, of the rows together, of the tables of a database, or of the members
            of an archive; with a type in words where the file has one, else an empty text.
    """

    file: InputFile
    kind: str
    rows: Sequence[Mapping[str, Any]] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def has(self, *names: str) -> bool:
        """Whether all these columns are there."""
        return all(name in self.columns for name in names)

    def every_row_has(self, *names: str) -> bool:
        """Whether there are rows, and each has all these fields."""
        return bool(self.rows) and all(name in row for row in self.rows for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One source of pilots or logs of runs.

    Attributes:
        name: Short name, for ``--format``.
        tool: Who writes it.
        files: Where it is found, in words or as a pattern.
        reads: What is read of it.
        evidence: How it is known.
        versions: Versions that this was seen with.
        limits: What cannot be read from it, one clause each.
        extra: Optional dependency that it needs, or None.
        looks_like: Whether the start of a file is of this format; by content, never by name.
        pilot: Reads rollouts or counts into a sink, all files at once; None if it holds no pilot.
        run: Reads metrics of a run; None if it holds none.
        preference: Where a folder holds the same run in several formats, the one of lowest preference is read.
    """

    name: str
    tool: str
    files: str
    reads: str
    evidence: Evidence
    versions: str = ""
    limits: tuple[str, ...] = ()
    extra: str | None = None
    looks_like: Callable[[Candidate], bool]
    pilot: Callable[[Sequence[InputFile], ReadRequest, RolloutSink], None] | None = None
    run: Callable[[Sequence[InputFile], ReadRequest], RunLog] | None = None
    preference: int = 0
