"""Logs of metrics in JSON lines, JSON, CSV or tables: those of trainers that write a file, and of others by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpo_plan.quantities import tool_of
from grpo_plan.quantities.names import is_known
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import PART_OF_TOTAL, RunBuilder, add_rows, as_step, flat, step_name
from grpo_plan.readers.run_config import settings_beside
from grpo_plan.readers.run_rows import by_run, chosen_runs, place_of, rows_of
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.run_log import RunLog

TABLES = frozenset(("jsonl", "json-array", "csv", "parquet", "arrow"))
ROLLOUT_COLUMNS = frozenset(
    "prompt completion completions response responses output input messages question answer prompt_id uid "
    "trajectory_metrics rewards".split()
)
LEAST_KNOWN = 3  # known names that make a table a log of metrics
Unwrap = Callable[[Mapping[str, Any]], Mapping[str, Any]]
READ_AS: Mapping[str, tuple[str | None, str]] = {  # format to its trainer, and the object that holds a row's metrics
    "verl-metrics": ("verl", "data"),
    "ms-swift-metrics": ("ms-swift", ""),
    "easyr1-metrics": ("easyr1", ""),
    "prime-rl-metrics": ("prime-rl", ""),
    "tinker-metrics": ("tinker", ""),
    "metrics": (None, ""),
}


def read_metrics(
    files: Sequence[InputFile], request: ReadRequest, name: str, tool: str | None = None, *, unwrap: str = ""
) -> RunLog:
    """Read one run; ``unwrap`` names the object that holds the metrics of a row, if one does."""
    builder = RunBuilder()
    chosen = chosen_runs(by_run(files), request, place_of(files))
    read = [file for _, held in chosen for file in held]
    for _, held in chosen:
        tables = [(file, rows_of(file, request, builder)) for file in held]
        for file, rows in tables[:-1]:
            _add_backup(builder, rows, tables[-1][1], file)
        add_rows(builder, [unwrapped(row, unwrap) for row in tables[-1][1]])
    builder.config.update(settings_beside(files, builder))
    return builder.run_log(format=name, source=place_of(read), tool=tool)


def unwrapped(row: Mapping[str, Any], unwrap: str) -> dict[str, Any]:
    """A row with the metrics of ``data`` beside its step."""
    if not unwrap:
        return dict(row)
    prefix = f"{unwrap}/"
    return {key.removeprefix(prefix): value for key, value in row.items()}


def _add_backup(builder: RunBuilder, rows: list[dict[str, Any]], later: list[dict[str, Any]], file: InputFile) -> None:
    """Rows of the log before a resume, as far as the log after it starts later."""
    name = step_name(later)
    starts = [s for row in later if name is not None and (s := as_step(row.get(name))) is not None]
    first = min(starts, default=None)
    kept = [row for row in rows if first is not None and (s := as_step(row.get(name or ""))) is not None and s < first]
    add_rows(builder, kept)
    builder.dropped["rows_of_a_backup"] += len(rows) - len(kept)
    builder.note(f"{file.name}: {len(kept):,} rows from before a resume were read, {len(rows) - len(kept):,} left out.")


def _flat_rows(candidate: Candidate) -> list[dict[str, Any]]:
    return [dict(flat(row)) for row in candidate.rows]


def _steps_apart(candidate: Candidate, key: str) -> bool:
    """Whether rows are one or a few a step: rollouts are many."""
    steps = [as_step(row.get(key)) for row in candidate.rows]
    return all(s is not None for s in steps) and 4 * len(set(steps)) >= len(steps)


def _is_verl(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has("step", "data"):
        return False
    return all(set(row) == {"step", "data"} and isinstance(row["data"], Mapping) for row in candidate.rows)


def _is_ms_swift(candidate: Candidate) -> bool:
    return (
        candidate.kind == "jsonl" and bool(candidate.rows) and all(PART_OF_TOTAL in row for row in candidate.rows[:3])
    )


def _is_easyr1(candidate: Candidate) -> bool:
    if candidate.kind != "jsonl" or not candidate.every_row_has("step") or not _steps_apart(candidate, "step"):
        return False
    row = candidate.rows[0]
    return isinstance(row.get("reward"), Mapping) and isinstance(row.get("critic"), Mapping)


def _of_tool(tool: str) -> Callable[[Candidate], bool]:
    def looks_like(candidate: Candidate) -> bool:
        return (
            candidate.kind == "jsonl"
            and candidate.every_row_has("step")
            and _steps_apart(candidate, "step")
            and not ROLLOUT_COLUMNS & set(candidate.columns)
            and tool_of(candidate.columns) == tool
        )

    return looks_like


def _is_metrics(candidate: Candidate) -> bool:
    """A table with a training step and metrics that some trainer logs, and no rollouts."""
    if candidate.kind not in TABLES or ROLLOUT_COLUMNS & set(candidate.columns):
        return False
    rows = _flat_rows(candidate)
    names = list(dict.fromkeys([*candidate.columns, *(key for row in rows for key in row)]))
    key = step_name(rows) if rows else next((n for n in ("step", "global_step", "_step") if n in names), None)
    if key is None or tool_of(names) is None:
        return False
    if rows and not _steps_apart(Candidate(file=candidate.file, kind=candidate.kind, rows=rows), key):
        return False
    others = [n for n in names if n != key and is_known(n)]
    if tool_of(names) not in ("trl", "step-log"):
        return bool(others)
    return len(others) >= LEAST_KNOWN or any("/" in n or n == "frac_reward_zero_std" for n in others)


def _reader(name: str) -> Callable[[Sequence[InputFile], ReadRequest], RunLog]:
    tool, unwrap = READ_AS[name]
    return lambda files, request: read_metrics(files, request, name, tool, unwrap=unwrap)


FORMATS = (
    Format(
        name="verl-metrics",
        tool="verl, logger file",
        files="<VERL_FILE_LOGGER_ROOT>/<project>/<experiment>.jsonl",
        reads="all metrics by step; evicted groups with filter_groups",
        evidence=Evidence.SOURCE,
        versions="0.5 to 0.9.1",
        limits=(
            "no share of dead groups: without filter_groups only whether all advantages are 0",
            "settings are not in the file",
        ),
        looks_like=_is_verl,
        run=_reader("verl-metrics"),
    ),
    Format(
        name="ms-swift-metrics",
        tool="ms-swift",
        files="<output_dir>/logging.jsonl",
        reads="all metrics by step; frac_reward_zero_std is a share of groups, reward_std of within groups",
        evidence=Evidence.SOURCE,
        versions="4.6.0",
        limits=("with dynamic_sample only survivors are counted",),
        looks_like=_is_ms_swift,
        run=_reader("ms-swift-metrics"),
        preference=-1,
    ),
    Format(
        name="easyr1-metrics",
        tool="EasyR1",
        files="<save_checkpoint_path>/experiment_log.jsonl",
        reads="all metrics by step, nested names joined by /",
        evidence=Evidence.SOURCE,
        versions="2026-07",
        limits=("no share of dead groups", "with online_filtering only survivors are logged"),
        looks_like=_is_easyr1,
        run=_reader("easyr1-metrics"),
    ),
    Format(
        name="prime-rl-metrics",
        tool="prime-rl",
        files="<output_dir>/metrics.jsonl",
        reads="all metrics by step, rows of several writers joined; groups solved by none and by all",
        evidence=Evidence.SOURCE,
        versions="0.3 to 0.8, three generations of names",
        limits=("rollouts that ended in an error count as reward 0", "shaped rewards count as mixed"),
        looks_like=_of_tool("prime-rl"),
        run=_reader("prime-rl-metrics"),
    ),
    Format(
        name="tinker-metrics",
        tool="tinker-cookbook",
        files="<log_path>/metrics.jsonl and its .pre_resume_ backups",
        reads="all metrics by step; groups mixed, all good and all bad",
        evidence=Evidence.RAN,
        versions="0.5.8 (written), 0.6.1 (read in source)",
        limits=("total rewards are compared: a format penalty makes a group mixed",),
        looks_like=_of_tool("tinker"),
        run=_reader("tinker-metrics"),
    ),
    Format(
        name="metrics",
        tool="any trainer: TRL, verl, OpenRLHF, NeMo-RL, SkyRL, slime, ROLL, open-instruct, ...",
        files="a table with a step and metrics (JSONL, JSON, CSV, Parquet, Arrow)",
        reads="all columns of numbers by step",
        evidence=Evidence.INFERRED,
        limits=("the trainer is told from the names of its metrics",),
        looks_like=_is_metrics,
        run=_reader("metrics"),
        preference=4,
    ),
)
