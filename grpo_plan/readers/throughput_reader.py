"""`read_throughput`: the speed of a run from its log of step times and tokens."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.readers.files import InputFile, as_path, open_sniffed, resolve
from grpo_plan.readers.values import number_of
from grpo_plan.throughput import Throughput, estimate_throughput

TIME_NAMES = ("step_time", "timing_s/step", "perf/time_per_step")
CUMULATIVE_NAMES = ("num_tokens",)  # counted since the start of the run, prompts of every rollout included
TOKEN_NAMES = ("perf/total_num_tokens",)  # of the step, prompts included
LENGTH_NAMES = ("completions/mean_length", "response_length/mean", "completion_length")
STEP_NAMES = ("step", "global_step", "training/global_step", "_step")
RATE_NAME = "perf/throughput"  # tokens per second and GPU
SUFFIXES = ("__MIN", "__MAX")
MAX_LOG_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One logged step: its number, its seconds, and its tokens, None where the row has none."""

    step: int
    seconds: float
    tokens: float | None
    rate: float | None


def read_throughput(
    source: str | os.PathLike[str],
    *,
    step_time: str | None = None,
    tokens: str | None = None,
    rollouts_per_step: int | None = None,
    level: float = 0.95,
) -> Throughput:
    """Tokens per second of a logged run, and the overhead of a step where the log tells it apart.

    Read are a ``trainer_state.json`` (TRL: ``step_time``, ``num_tokens``), a folder that holds one (that of the latest
    checkpoint), verl's file logger (``timing_s/step``, ``perf/total_num_tokens``), and any JSONL, JSON, CSV, Parquet or
    Arrow table of metrics with such columns. A logged average over several steps counts as so many steps; steps that
    reuse earlier rollouts are joined to the step that generated them; rows of evaluations are left out.

    Args:
        source: Path of the log.
        step_time: Column of the seconds of a step, if it has another name.
        tokens: Column of the tokens of a step (prompts and responses), if it has another name.
        rollouts_per_step: Rollouts of a step, where the log has only mean response lengths; the speed is then in
            response tokens.
        level: Confidence level.

    Raises:
        PilotFormatError: The file is no log, or has no step times or tokens.
        DomainError: A number outside its domain.
    """
    for name, value in (("step_time", step_time), ("tokens", tokens)):
        if value is not None and not isinstance(value, str):
            raise DomainError(f"{name} must be the name of a column; got {value!r}.")
    count = None if rollouts_per_step is None else as_count(rollouts_per_step, "rollouts_per_step")
    if not isinstance(source, str | os.PathLike):
        raise DomainError(f"source must be the path of a log; got {type(source).__name__}.")
    file = _log_file(os.fspath(source))
    dropped: Counter[str] = Counter()
    rows = _merged_by_step(_records(file), dropped)
    time_name = _named(rows, step_time, TIME_NAMES, "step times", "step_time=", file.name)
    kind, token_name = _token_column(rows, tokens, count, file.name)
    steps = _steps(rows, time_name, token_name, count if kind == "length" else None, dropped)
    if kind == "cumulative":
        seconds, amounts, widths = _windows(steps, dropped)
    else:
        kept = [row for row in steps if row.tokens is not None and row.tokens > 0]
        dropped["rows_without_tokens"] += len(steps) - len(kept)
        seconds, amounts = [row.seconds for row in kept], [row.tokens or 0.0 for row in kept]
        widths = [1.0] * len(kept)
    if not seconds:
        left = ", ".join(f"{reason}: {number:,}" for reason, number in dropped.items() if number)
        raise PilotFormatError(
            f"{file.name}: no row has both a step time and tokens ({left or 'no rows'}). Log every step, or give the "
            "rates by hand (--decode-tokens-per-s, --train-tokens-per-s)."
        )
    how = {"cumulative": "counted since the start", "step": "of each step", "length": "mean length times rollouts"}
    return estimate_throughput(
        seconds,
        amounts,
        widths,
        counts_prompts=kind != "length",
        level=level,
        dropped={reason: number for reason, number in dropped.items() if number},
        gpus=_gpus(steps) if kind == "step" else None,
        notes=(f"{file.name}: seconds from {time_name!r}, tokens from {token_name!r} ({how[kind]}).",),
    )


def _log_file(source: str) -> InputFile:
    """The log of a path; of a folder its trainer_state.json, that of the latest checkpoint if there are several."""
    path = Path(source)
    if path.is_dir():
        states = [*path.glob("trainer_state.json"), *path.glob("checkpoint-*/trainer_state.json")]
        if states:
            latest = max(states, key=_checkpoint)
            return InputFile(name=str(latest), path=latest)
    files = resolve(source)
    if len(files) > 1:
        raise PilotFormatError(f"{source}: holds {len(files):,} files; a speed is read from one log. Name it.")
    return files[0]


def _checkpoint(path: Path) -> tuple[int, float]:
    digits = path.parent.name.rpartition("-")[2]
    return (int(digits) if digits.isdigit() else -1, path.stat().st_mtime)


def _records(file: InputFile) -> Iterator[Mapping[str, Any]]:
    """Rows of the log as flat mappings, names without the prefix ``train/``."""
    with open_sniffed(file) as sniffed:
        if sniffed.kind in ("parquet", "arrow", "arrow-stream"):
            import polars as pl

            read = {"parquet": pl.read_parquet, "arrow": pl.read_ipc, "arrow-stream": pl.read_ipc_stream}[sniffed.kind]
            with as_path(sniffed, file) as path:
                try:
                    found: list[Any] = read(path).to_dicts()
                except (pl.exceptions.PolarsError, OSError) as error:
                    raise PilotFormatError(
                        f"{file.name}: cannot be read ({str(error)[:80]}). Is it complete?"
                    ) from None
        else:
            data = sniffed.stream.read(MAX_LOG_BYTES + 1)
            if len(data) > MAX_LOG_BYTES:
                raise PilotFormatError(f"{file.name}: is larger than 1 GB. Give the log of metrics, not of rollouts.")
            text = data.decode("utf-8-sig")
            found = _csv(text, sniffed.separator) if sniffed.kind == "csv" else _json(text, file.name)
    for item in found:
        if isinstance(item, dict):
            yield dict(_flat(item))


def _csv(text: str, separator: str) -> list[Any]:
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def _json(text: str, name: str) -> list[Any]:
    """Rows of a trainer state, of an array, or of JSON lines; a last line cut off while being written is left out."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict):
        history = whole.get("log_history", [whole])
        return history if isinstance(history, list) else []
    if isinstance(whole, list):
        return whole
    rows, lines = [], text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            if number < len(lines):
                raise PilotFormatError(f"{name}:{number}: is no JSON. Repair the line, or remove it.") from None
    return rows


def _flat(row: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested metrics joined by ``/``; verl's ``data`` and TRL's ``train`` are no part of a name, nor is a run's."""
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, "" if name in ("data", "train") else f"{name}/")
        elif not name.endswith(SUFFIXES):
            yield name.rpartition(" - ")[2].removeprefix("train/"), value


def _merged_by_step(records: Iterator[Mapping[str, Any]], dropped: Counter[str]) -> list[dict[str, Any]]:
    """One row a step, in order; several writers of a step are joined, and a step logged twice keeps the later row."""
    merged: dict[int, dict[str, Any]] = {}
    for number, record in enumerate(records, start=1):
        given = next((v for name in STEP_NAMES if (v := number_of(record.get(name))) is not None), None)
        if given is None:
            given = number_of(str(record.get("global_step/max_steps") or "").partition("/")[0])
        step = number if given is None else int(given)
        known = merged.setdefault(step, {"__step__": step})
        if any(known.get(name) is not None and record.get(name) is not None for name in TIME_NAMES):
            dropped["steps_logged_twice"] += 1
        known.update({name: value for name, value in record.items() if value is not None})
    return [merged[step] for step in sorted(merged)]


def _named(
    rows: list[dict[str, Any]], given: str | None, names: tuple[str, ...], what: str, option: str, where: str
) -> str:
    """The column that plays a role: the given one, or the first usual name that holds a number."""
    wanted = names if given is None else (given.removeprefix("train/"),)
    for name in wanted:
        if any(number_of(row.get(name)) is not None for row in rows):
            return name
    listing = list(dict.fromkeys(name for row in rows for name in row if name != "__step__"))
    shown = ", ".join(listing[:12]) + (", ..." if len(listing) > 12 else "")
    looked = "no column" if given is None else f"column {given!r}"
    raise PilotFormatError(
        f"{where}: {looked} holds {what} ({', '.join(wanted)}). Columns: {shown or '(none)'}. Name one with "
        f"{option}, or give the rates by hand (--decode-tokens-per-s, --train-tokens-per-s)."
    )


def _token_column(
    rows: list[dict[str, Any]], given: str | None, rollouts_per_step: int | None, where: str
) -> tuple[str, str]:
    """Kind and name of the column of tokens."""
    if given is None:
        kinds: dict[str, tuple[str, ...]] = {"cumulative": CUMULATIVE_NAMES, "step": TOKEN_NAMES}
        if rollouts_per_step is not None:
            kinds["length"] = LENGTH_NAMES
        for kind, names in kinds.items():
            for name in names:
                if any(number_of(row.get(name)) is not None for row in rows):
                    return kind, name
    usual = (*CUMULATIVE_NAMES, *TOKEN_NAMES)
    name = _named(rows, given, usual, "tokens", "tokens=, or give rollouts_per_step= to use mean lengths", where)
    return ("cumulative" if name in CUMULATIVE_NAMES else "step"), name


def _steps(
    rows: list[dict[str, Any]], time_name: str, token_name: str, times: int | None, dropped: Counter[str]
) -> list[_Row]:
    """The rows that have a step time."""
    found = []
    for row in rows:
        seconds = number_of(row.get(time_name))
        if seconds is None or not (math.isfinite(seconds) and seconds > 0):
            dropped["rows_without_step_time"] += 1
            continue
        tokens = number_of(row.get(token_name))
        if tokens is not None and times is not None:
            tokens *= times
        found.append(_Row(step=row["__step__"], seconds=seconds, tokens=tokens, rate=number_of(row.get(RATE_NAME))))
    return found


def _windows(rows: list[_Row], dropped: Counter[str]) -> tuple[list[float], list[float], list[float]]:
    """Seconds, new tokens and steps of each stretch that starts with new rollouts and ends before the next ones.

    A row is an average over the steps since the row before. The counter of tokens starts at 0 with the run; a log that
    starts later gives no tokens for its first row.
    """
    gaps = [after.step - before.step for before, after in pairwise(rows)]
    usual = sorted(gaps)[len(gaps) // 2] if gaps else 1
    previous = 0.0 if rows and rows[0].step <= max(usual, 1) else None
    at = rows[0].step - usual if rows and previous is None else 0
    spans: list[list[float]] = []
    for row in rows:
        width, at = float(max(1, row.step - at)), row.step
        new = row.tokens is not None and (previous is None or row.tokens != previous)
        if not new:
            if spans:
                spans[-1][0] += row.seconds * width
                spans[-1][2] += width
            else:
                dropped["rows_without_tokens"] += 1
            continue
        tokens = row.tokens or 0.0
        fresh = math.nan if previous is None or tokens < previous else tokens - previous
        spans.append([row.seconds * width, fresh, width])
        previous = tokens
    widths = sorted(span[2] for span in spans)
    if spans and spans[-1][2] < widths[len(widths) // 2]:  # its rollouts would have served further steps
        spans.pop()
        dropped["unfinished_last_rollouts"] += 1
    kept = [span for span in spans if not math.isnan(span[1])]
    dropped["token_count_unknown"] += len(spans) - len(kept)
    return [s[0] for s in kept], [s[1] for s in kept], [s[2] for s in kept]


def _gpus(rows: list[_Row]) -> int | None:
    """GPUs behind a rate per GPU, where every row gives the same whole number."""
    ratios = [r.tokens / (r.seconds * r.rate) for r in rows if r.tokens and r.rate and r.rate > 0]
    whole = {round(ratio) for ratio in ratios}
    near = all(abs(ratio - round(ratio)) <= 0.02 * ratio for ratio in ratios)
    return whole.pop() if len(whole) == 1 and near and min(whole, default=0) >= 0 and round(ratios[0]) > 0 else None
