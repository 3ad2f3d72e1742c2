"""Weights & Biases: charts exported as CSV, histories as JSON lines, and why its own log is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats.metrics import ROLLOUT_COLUMNS, read_metrics
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import STEP_NAMES, RunBuilder, as_step
from grpo_plan.readers.run_config import settings_beside
from grpo_plan.readers.run_rows import chosen_runs, place_of, rows_of
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.run_log import RunLog

BETWEEN = " - "  # a run and its metric, in the header of a chart
BOUNDS = ("__MIN", "__MAX")  # of the points that a chart puts together
ROLLOUTS = ROLLOUT_COLUMNS - {"completions"}  # the name of TRL's table
HISTORY = frozenset(("_runtime", "_timestamp"))


def _is_chart(candidate: Candidate) -> bool:
    if candidate.kind != "csv" or not candidate.rows:
        return False
    own = [name for name in candidate.columns if BETWEEN in name]
    steps = [name for name in candidate.columns if _metric(name)[1] in STEP_NAMES]
    bounds = any(name.endswith(BOUNDS) for name in own)
    return bool(own and steps) and (bounds or all(BETWEEN in n or n in steps for n in candidate.columns))


def _metric(column: str) -> tuple[str, str]:
    """Run and metric of a column; the run is empty where the column names none.

    >>> _metric("lucky - moon-7 - train/reward")
    ('lucky - moon-7', 'train/reward')
    """
    run, _, metric = column.rpartition(BETWEEN)
    return run, metric


def _read_charts(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    """One run of charts; several charts of it are joined by their steps."""
    builder = RunBuilder()
    tables = [rows_of(file, request, builder) for file in files]
    runs: dict[str, None] = {}
    for rows in tables:
        for column in dict.fromkeys(c for row in rows for c in row if not c.endswith(BOUNDS)):
            run, metric = _metric(column)
            if run and metric not in STEP_NAMES:
                runs[run] = None
    where = place_of(files)
    if not runs:
        raise PilotFormatError(f"{where}: holds no column '<run> - <metric>'. Export a chart of W&B as CSV.")
    for run, _ in chosen_runs(dict.fromkeys(runs, True), request, where):
        for rows in tables:
            _add_chart(builder, rows, run)
    return builder.run_log(format="wandb-csv", source=where)


def _add_chart(builder: RunBuilder, rows: Sequence[Mapping[str, Any]], run: str) -> None:
    columns = list(dict.fromkeys(c for row in rows for c in row if not c.endswith(BOUNDS)))
    steps = [c for c in columns if _metric(c)[1] in STEP_NAMES and _metric(c)[0] in ("", run)]
    steps.sort(key=lambda c: (STEP_NAMES.index(_metric(c)[1]), _metric(c)[0] != ""))
    own = {c: _metric(c)[1] for c in columns if _metric(c)[0] == run and _metric(c)[1] not in STEP_NAMES}
    for row in rows:
        values = {name: row[c] for c, name in own.items() if row.get(c) not in (None, "")}
        if values:
            builder.add(values, row.get(steps[0]) if steps else None)


def _is_history(candidate: Candidate) -> bool:
    if candidate.kind not in ("jsonl", "json-array", "csv", "parquet") or ROLLOUTS & set(candidate.columns):
        return False
    if "_wandb" in candidate.columns:  # the summary of a run, not its history
        return False
    return "_step" in candidate.columns and bool(HISTORY & set(candidate.columns))


def _read_history(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    return read_metrics(files, request, "wandb-history")


def _is_own_log(candidate: Candidate) -> bool:
    return candidate.kind == "wandb"


def _refuse(files: Sequence[InputFile], request: ReadRequest) -> NoReturn:
    raise PilotFormatError(
        f"{place_of(files)}: is W&B's own log, which wandb itself no longer reads. Sync it (wandb sync), then save "
        "run.scan_history() as JSON lines or export the charts as CSV."
    )


def _is_step_log(candidate: Candidate) -> bool:
    if candidate.kind != "json" or len(candidate.rows) != 1:
        return False
    return bool(_step_logs(candidate.rows[0]))


def _step_logs(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Runs of a summary of experiments: entries of its lists that hold a log by step or a trace of rewards."""
    lists = {key: value for key, value in document.items() if isinstance(value, list)}
    if "runs" in lists:  # the same entries stand in lists by sweep
        lists = {"runs": lists["runs"]}
    found: dict[str, Mapping[str, Any]] = {}
    for key, entries in lists.items():
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or not (_has_steps(entry) or _has_trace(entry)):
                continue
            name = str(entry.get("tag") or entry.get("run_id") or f"{key}[{number}]")
            found[name if name not in found else f"{name} ({key}[{number}])"] = entry
    return found


def _has_steps(entry: Mapping[str, Any]) -> bool:
    log = entry.get("step_log")
    return (
        isinstance(log, list)
        and bool(log)
        and all(isinstance(r, dict) and as_step(r.get("step")) is not None for r in log)
    )


def _has_trace(entry: Mapping[str, Any]) -> bool:
    trace = entry.get("reward_trace")
    return isinstance(trace, list) and bool(trace) and all(isinstance(v, int | float) for v in trace)


def _read_step_logs(files: Sequence[InputFile], request: ReadRequest) -> RunLog:
    from grpo_plan.readers.formats._rows import document

    runs: dict[str, Mapping[str, Any]] = {}
    for file in files:
        runs.update(_step_logs(document(file)))
    builder = RunBuilder()
    for _, entry in chosen_runs(runs, request, place_of(files)):
        if _has_steps(entry):
            for row in entry["step_log"]:
                builder.add(row, row["step"])
        else:
            builder.note("Only a trace of mean rewards is there: its values were numbered from step 1.")
            builder.add_series("reward", enumerate(entry["reward_trace"], start=1))
        builder.config.update({k: v for k, v in entry.items() if isinstance(v, str | int | float | bool)})
    if request.runs or len(runs) == 1:
        builder.config.update(settings_beside(files, builder))
    return builder.run_log(format="step-log", source=place_of(files), tool="step-log")


FORMATS = (
    Format(
        name="wandb-csv",
        tool="any trainer that logs to W&B",
        files="a chart exported as CSV: Step, <run> - <metric>, ...__MIN, ...__MAX",
        reads="the metrics of one run; several charts are joined",
        evidence=Evidence.INFERRED,
        limits=("points that a chart puts together are means",),
        looks_like=_is_chart,
        run=_read_charts,
        preference=4,
    ),
    Format(
        name="wandb-history",
        tool="any trainer that logs to W&B",
        files="rows of run.scan_history() or run.history() (JSON lines, CSV, Parquet)",
        reads="all metrics by training step, else by W&B's own step",
        evidence=Evidence.SOURCE,
        limits=("run.history() holds a sample of the rows only; scan_history() holds all",),
        looks_like=_is_history,
        run=_read_history,
        preference=3,
    ),
    Format(
        name="wandb-log",
        tool="W&B, offline run",
        files="run-*.wandb",
        reads="nothing: it is refused with the way out",
        evidence=Evidence.RAN,
        versions="wandb 0.31.0",
        limits=("wandb has no reader of it any more",),
        looks_like=_is_own_log,
        run=_refuse,
        preference=9,
    ),
    Format(
        name="step-log",
        tool="summaries of experiments with a log by step",
        files="a JSON document with lists of runs: step_log [{step, reward, zvf, gu}] or reward_trace",
        reads="mean reward and share of dead groups (zvf) of one run",
        evidence=Evidence.RAN,
        limits=("reward_trace holds no steps", "settings are those of each entry"),
        looks_like=_is_step_log,
        run=_read_step_logs,
        preference=5,
    ),
)
