"""MLflow: the SQLite database of newer versions, and the folder mlruns of older ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.candidates import damaged_text
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import RunBuilder, as_step
from grpo_plan.readers.run_rows import chosen_runs, place_of
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.run_log import RunLog

if TYPE_CHECKING:
    import sqlite3

RUN_NAME = re.compile(r"^run_name:\s*(.+?)\s*$", re.MULTILINE)


def _is_database(candidate: Candidate) -> bool:
    return candidate.kind == "sqlite" and candidate.has("metrics", "params", "runs", "experiments")


def _is_metric_file(candidate: Candidate) -> bool:
    path = candidate.file.path
    return candidate.kind == "mlflow-metric" and path is not None and _run_folder(path) is not None


def _read_database(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    """One run of one database; deleted runs are left out."""
    if len(files) > 1:
        raise PilotFormatError(f"{place_of(files)}: hold several databases. Name one.")
    file, builder = files[0], RunBuilder()
    with _opened(file) as base:
        rows = base.execute(
            "SELECT r.run_uuid, r.name FROM runs r WHERE r.lifecycle_stage = 'active' AND EXISTS "
            "(SELECT 1 FROM metrics m WHERE m.run_uuid = r.run_uuid) ORDER BY r.start_time"
        ).fetchall()
        if not rows:
            raise PilotFormatError(f"{file.name}: holds no active run with metrics.")
        chosen = chosen_runs(_named([(str(key), str(name or key)) for key, name in rows]), request, file.name)
        for _, key in chosen:
            found = base.execute(
                "SELECT key, step, CASE WHEN is_nan THEN NULL ELSE value END FROM metrics WHERE run_uuid = ? "
                "ORDER BY timestamp, step",
                (key,),
            )
            for name, step, value in found:
                builder.add({str(name): value}, step)
            builder.config.update(base.execute("SELECT key, value FROM params WHERE run_uuid = ?", (key,)).fetchall())
    return builder.run_log(format="mlflow", source=file.name)


def _named(runs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Names of runs to their keys; a name that is used again is followed by the start of its key."""
    out: dict[str, str] = {}
    for key, name in runs:
        out[name if name not in out else f"{name} ({key[:8]})"] = key
    return out


@contextmanager
def _opened(file: InputFile) -> Iterator[sqlite3.Connection]:
    """A database, opened for reading alone."""
    import sqlite3
    from urllib.parse import quote

    mode = "ro"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.path))}?mode=ro", uri=True)) as trial:
            trial.text_factory = damaged_text
            trial.execute("SELECT 1 FROM metrics LIMIT 1")
    except (sqlite3.OperationalError, UnicodeError):
        mode = "ro&immutable=1"  # a log of writes beside it that cannot be opened: its last rows are not read
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.path))}?mode={mode}", uri=True)) as base:
            base.text_factory = damaged_text
            yield base
    except (sqlite3.Error, UnicodeError) as error:
        raise PilotFormatError(
            f"{file.name}: cannot be read as a database of MLflow ({error}). Is it complete?"
        ) from None


def _read_folder(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    """One run of a folder mlruns: a file a metric, with a line a value."""
    runs: dict[Path, list[Path]] = {}
    for file in files:
        folder = None if file.path is None else _run_folder(file.path)
        if file.path is not None and folder is not None:
            runs.setdefault(folder, []).append(file.path)
    builder = RunBuilder()
    named = _named([(str(folder), _run_name(folder)) for folder in runs])
    read = chosen_runs(named, request, place_of(files))
    for _, key in read:
        folder = Path(key)
        for path in runs[folder]:
            name = path.relative_to(folder / "metrics").as_posix()
            builder.add_series(name, _points(path, builder))
        for path in sorted((folder / "params").glob("**/*")):
            if path.is_file():
                builder.config[path.relative_to(folder / "params").as_posix()] = path.read_text(
                    errors="replace"
                ).strip()
    source = read[0][1] if len(read) == 1 else place_of(files)
    return builder.run_log(format="mlflow-files", source=source)


def _points(path: Path, builder: RunBuilder) -> Iterator[tuple[Any, Any]]:
    """Step and value of every line ``timestamp value step``; others are counted."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        parts = line.split()
        if len(parts) == 3 and as_step(parts[2]) is not None:
            yield parts[2], parts[1]
        elif parts:
            builder.dropped["malformed_line"] += 1


def _run_folder(metric: Path) -> Path | None:
    """The folder of a run: above the folder ``metrics`` that holds the file."""
    for parent in metric.parents:
        if parent.name == "metrics":
            return parent.parent
    return None


def _run_name(folder: Path) -> str:
    try:
        match = RUN_NAME.search((folder / "meta.yaml").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        match = None
    return folder.name if match is None else match.group(1).strip("'\"")


FORMATS = (
    Format(
        name="mlflow",
        tool="any trainer that logs to MLflow",
        files="mlflow.db (SQLite)",
        reads="metrics and parameters of one run",
        evidence=Evidence.RAN,
        versions="mlflow-skinny 3.17.2",
        limits=("deleted runs are left out",),
        looks_like=_is_database,
        run=_read_database,
        preference=2,
    ),
    Format(
        name="mlflow-files",
        tool="any trainer that logs to MLflow, file store",
        files="mlruns/<experiment>/<run>/metrics/<name>",
        reads="metrics and parameters of one run",
        evidence=Evidence.INFERRED,
        limits=("MLflow no longer writes this store by default",),
        looks_like=_is_metric_file,
        run=_read_folder,
        preference=2,
    ),
)
