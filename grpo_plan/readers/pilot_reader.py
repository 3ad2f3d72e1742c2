"""`read_pilot`: any table of rollouts or counts to a Pilot."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from numbers import Real
from pathlib import Path

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, GrpoPlanError, PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers.columns import ColumnMap, Sample, find_columns
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.files import InputFile, Sniffed, as_path, open_sniffed, resolve
from grpo_plan.readers.jsonlines import (
    RowShape,
    count_rows,
    read_blocks,
    read_json_array,
    read_json_lines,
    sample_of,
)
from grpo_plan.readers.values import distinct

MAX_FLOAT = sys.float_info.max


def read_pilot(
    source: object,
    *,
    prompt: str | None = None,
    reward: str | None = None,
    n: str | None = None,
    k: str | None = None,
    pass_rate: str | None = None,
    stratum: str | None = None,
    temperature: str | None = None,
    response_tokens: str | None = None,
    policy: str | None = None,
    pass_threshold: float | None = None,
    rollouts_per_prompt: int | None = None,
    where: Mapping[str, str | float | Sequence[str]] | None = None,
    skip_malformed: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Pilot:
    """Read rollouts or counts as a Pilot.

    Accepted: JSONL, a JSON array, CSV, TSV, Parquet, Arrow or Feather, each plain or gzip or zstd; a path, a glob, a
    folder of one kind of table, a list of these, ``"-"`` for standard input; or any dataframe that narwhals accepts
    (polars, pandas, pyarrow, DuckDB, PySpark, ...), which is counted in its own engine. A file's kind is found by
    its content. Rows are rollouts (prompt, reward), prompts with counts (n and k, or n and a pass rate), or
    prompts with a list of rewards. Columns are found by their usual names; ``notes`` of the result says which.

    Args:
        source: What to read.
        prompt: Column that names the prompt.
        reward: Column of the reward, or of the list of rewards.
        n: Column of the rollouts of a prompt.
        k: Column of its passes.
        pass_rate: Column of its pass rate, in [0, 1].
        stratum: Column of its named part.
        temperature: Column of the sampling temperature.
        response_tokens: Column of the response length in tokens.
        policy: Column of the model; a pilot holds rollouts of one.
        pass_threshold: A rollout passes when its reward is at least this. Without it rewards must be 0/1, true/false
            or pass/fail words.
        rollouts_per_prompt: n of every prompt, when no column has it.
        where: Keep rows whose column equals the value (or one of the values).
        skip_malformed: Drop and count malformed JSON lines instead of stopping at the first.
        progress: Called with the number of bytes of each block read.

    Returns:
        A Pilot; rollouts whose scoring failed are in ``dropped``, never read as 0.

    Raises:
        PilotFormatError: The source cannot be read; the message says where and what to do.
        PilotError: No prompt has a scored rollout.
        DomainError: ``pass_threshold`` or ``rollouts_per_prompt`` is outside its domain.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"prompt_id": ["a", "a", "b", "b"], "reward": [1, 0, 1, 1]})
    >>> pilot = read_pilot(rows)
    >>> pilot.successes.tolist(), pilot.rollouts.tolist()
    ([1, 2], [2, 2])
    """
    options = options_of(pass_threshold, rollouts_per_prompt, where, skip_malformed)
    given = {
        "prompt": prompt, "reward": reward, "n": n, "k": k, "pass_rate": pass_rate, "stratum": stratum,
        "temperature": temperature, "response_tokens": response_tokens, "policy": policy,
    }  # fmt: skip
    return read_into(Tally(), source, given, options, progress)


def options_of(pass_threshold: object, rollouts_per_prompt: object, where: object, skip_malformed: bool) -> ReadOptions:
    """Checked options of a read."""
    count = None if rollouts_per_prompt is None else as_count(rollouts_per_prompt, "rollouts_per_prompt")
    return ReadOptions(
        pass_threshold=_as_threshold(pass_threshold),
        rollouts_per_prompt=count,
        where=_as_where(where),
        skip_malformed=skip_malformed,
    )


def read_into(
    tally: Tally,
    source: object,
    given: Mapping[str, str | None],
    options: ReadOptions,
    progress: Callable[[int], None] | None = None,
) -> Pilot:
    """Read a source into a tally, whose observer sees every batch of columns, and turn it into a Pilot."""
    for role, column in given.items():
        if column is not None and not isinstance(column, str):
            raise DomainError(f"{role} must be the name of a column; got {column!r}.")
    if isinstance(source, str | os.PathLike) or _is_path_list(source):
        files = resolve(source)  # type: ignore[arg-type]
        for file in files:
            _count_file(file, given, options, tally, progress)
        name = files[0].name if len(files) == 1 else f"{len(files)} files"
        if len(files) > 1:
            tally.notes = [tally.notes[0], f"{len(files):,} files were read as one pilot.", *tally.notes[1:]]
    else:
        name = "the dataframe"
        with _engine_errors(name, "table"):
            _count_native(source, name, given, options, tally)
    tally.notes = list(dict.fromkeys(tally.notes))
    return tally.pilot(name)


def _as_threshold(threshold: object) -> float | None:
    if threshold is None:
        return None
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not abs(threshold) <= MAX_FLOAT:  # type: ignore[operator]
        raise DomainError(f"pass_threshold must be a finite number; got {str(threshold)[:40]}.")
    return float(threshold)


def _as_where(where: object) -> dict[str, list[str]]:
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise DomainError(f"where must map columns to values, e.g. {{'model': 'x'}}; got {where!r}.")
    out = {}
    for column, wanted in where.items():
        values = [wanted] if isinstance(wanted, str | Real) else wanted
        if not isinstance(values, Sequence) or not all(isinstance(v, str | Real) for v in values):
            raise DomainError(f"where must give a value or a list of values for {column!r}; got {wanted!r}.")
        out[str(column)] = [str(v) for v in values]
    return out


def _is_path_list(source: object) -> bool:
    return isinstance(source, list | tuple) and all(isinstance(s, str | os.PathLike) for s in source)


def _count_file(
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    with open_sniffed(file) as sniffed:
        if sniffed.kind in ("jsonl", "json-array"):
            _count_json(sniffed, file, given, options, tally, progress)
            return
        with as_path(sniffed, file) as path, _engine_errors(file.name, sniffed.kind):
            _count_native(_scan(sniffed, path), file.name, given, options, tally)


def _count_json(
    sniffed: Sniffed,
    file: InputFile,
    given: Mapping[str, str | None],
    options: ReadOptions,
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> None:
    name, path = file.name, None if sniffed.compressed else file.path
    if path is not None and not path.is_file():
        path = None  # a pipe cannot be read twice
    if sniffed.kind == "json-array":
        data = sniffed.stream.read()
        blocks: Iterator[bytes] = iter(())
    else:
        blocks = read_blocks(sniffed.stream, name)
        data = next(blocks)
    sample = sample_of(data, name, sniffed.kind, path)
    for column in options.where:
        if column not in sample.columns:
            raise PilotFormatError(f"{name}: no column {column!r} (asked for by --where). Columns: {sample.listing}.")
    roles = _roles(sample, given, options, tally)
    shape = RowShape.of([*roles.roles().values(), *options.where])
    if sniffed.kind == "json-array":
        batches = read_json_array(data, name, shape)
    else:
        blocks = chain([data], blocks)
        batches = read_json_lines(blocks, name, shape, options, tally, path=path, progress=progress)
    del data
    count_rows(batches, shape, roles, options, tally)


def _roles(sample: Sample, given: Mapping[str, str | None], options: ReadOptions, tally: Tally) -> ColumnMap:
    """Find the columns, and keep what was noticed."""
    roles, notes = find_columns(sample, given, constant_n=options.rollouts_per_prompt is not None)
    tally.notes.extend(notes)
    if options.pass_threshold is not None and roles.shape == "wide":
        tally.notes.append(f"{sample.name}: pass_threshold was given, but counts need none.")
    tally.policy_column = roles.policy
    tally.where_seen.update({c: distinct(sample.columns[c]) for c in options.where if c in sample.columns})
    return roles


def _count_native(
    native: object, name: str, given: Mapping[str, str | None], options: ReadOptions, tally: Tally
) -> None:
    from grpo_plan.readers.frames import count_frame, frame_of, sample_of_frame

    frame = frame_of(native, name)
    sample = sample_of_frame(frame, name)
    if not sample.columns or not len(next(iter(sample.columns.values()))):
        raise PilotFormatError(f"{name}: has no rows. A pilot needs at least one.")
    count_frame(frame, name, _roles(sample, given, options, tally), options, tally)


def _scan(sniffed: Sniffed, path: Path) -> object:
    import polars as pl

    if sniffed.kind == "parquet":
        return pl.scan_parquet(path, glob=False)
    if sniffed.kind == "arrow":
        return pl.scan_ipc(path, glob=False)
    if sniffed.kind == "arrow-stream":
        return pl.read_ipc_stream(path)
    return pl.scan_csv(path, separator=sniffed.separator, infer_schema=False, glob=False)


@contextmanager
def _engine_errors(name: str, kind: str) -> Iterator[None]:
    """Errors of the table engine as one line; its panics too, which are no Exceptions."""
    import narwhals as nw
    import polars as pl

    shown = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow", "arrow-stream": "Arrow"}.get(kind, kind)
    try:
        yield
    except GrpoPlanError:
        raise
    except (pl.exceptions.PolarsError, nw.exceptions.NarwhalsError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:160].rstrip(".")
        if "utf-8" in reason.lower():
            what = "is not UTF-8 text. Convert it, e.g. with iconv -f LATIN1 -t UTF-8."
        elif "more fields" in reason:
            what = "a row has more fields than the header. Check the quotes and the separator."
        else:
            what = f"cannot be read as {shown} ({reason}). Is it complete?"
        raise PilotFormatError(f"{name}: {what}") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PilotFormatError(
            f"{name}: the table engine failed on this {shown} file. Convert it, e.g. to CSV."
        ) from None
