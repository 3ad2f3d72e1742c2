"""`read_pilot`: any table of rollouts or counts to a Pilot."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grpo_plan.errors import DomainError, PilotFormatError, sentences
from grpo_plan.pilot import Pilot
from grpo_plan.provenance import Provenance
from grpo_plan.readers.addresses import is_address
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.candidates import look_at
from grpo_plan.readers.counting import Tally
from grpo_plan.readers.discovery import discover
from grpo_plan.readers.files import InputFile, as_path, open_sniffed, resolve
from grpo_plan.readers.frame_sets import as_file, set_of_frame
from grpo_plan.readers.guard import one_error
from grpo_plan.readers.histograms import histogram_pilot
from grpo_plan.readers.instead import not_a_log
from grpo_plan.readers.jsontasks import several_processes
from grpo_plan.readers.rate_tables import count_frame_rates, count_tables
from grpo_plan.readers.registry import TABLE, format_named, recognised
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.selection import OUTSIDE, mixed_rows
from grpo_plan.readers.sink import BROKEN_LINES, RolloutSink, pilot_of, with_threshold_note, without_group_names
from grpo_plan.readers.source import Format
from grpo_plan.readers.tables import count_address, count_file, count_sniffed, engine_errors


def read_pilot(
    source: object,
    *,
    prompt: str | None = None,
    reward: str | None = None,
    n: str | None = None,
    k: str | None = None,
    pass_rate: str | None = None,
    fail_rate: str | None = None,
    stratum: str | None = None,
    temperature: str | None = None,
    response_tokens: str | None = None,
    policy: str | None = None,
    pass_threshold: float | None = None,
    rollouts_per_prompt: int | None = None,
    where: Mapping[str, str | float | Sequence[str]] | None = None,
    skip_malformed: bool | int = False,
    progress: Callable[[int], None] | None = None,
    format: str | None = None,
    reward_weights: Mapping[str, float] | None = None,
    split: str = "train",
    policy_steps: tuple[int | None, int | None] | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    weak_prior: str | None = None,
    prompt_count: str | None = None,
    histogram: bool | None = None,
    groups_apart: bool = False,
) -> Pilot:
    """Read rollouts or counts as a Pilot.

    Dumps of trainers and of evaluation tools are recognised by their content (``grpo-plan formats`` lists them; a
    folder is searched for them). Everything else is a table: JSONL, a JSON array, CSV, TSV, Parquet, Arrow or Feather,
    each plain or gzip or zstd; a path, a glob, a folder of one kind of table, an address (``s3://``, ``gs://``,
    ``az://``, ``abfss://``, ``hf://``, ``https://``), a list of these, ``"-"`` for standard input; or any dataframe
    that narwhals accepts (polars, pandas, pyarrow, DuckDB, PySpark, ...), which is counted in its own engine. Rows of a
    table are rollouts (prompt, reward), prompts with counts (n and k, or n and a pass rate), prompts with a list of
    rewards, or numbers of prompts with the same n and k. Columns are found by their usual names; ``notes`` says which.

    Args:
        source: What to read.
        prompt: Column that names the prompt.
        reward: Column of the reward, or of the list of rewards.
        n: Column of the rollouts of a prompt.
        k: Column of its passes.
        pass_rate: Column of its pass rate, in [0, 1], or in percent. Where nothing gives n, it is inferred from the
            rates if they make it evident.
        fail_rate: Column of its share of failures, instead of its pass rate.
        stratum: Column of its named part.
        temperature: Column of the sampling temperature.
        response_tokens: Column of the response length in tokens.
        policy: Column of the model; a pilot holds rollouts of one.
        pass_threshold: A rollout passes when its reward is at least this. Without it rewards must be 0/1, true/false
            or pass/fail words.
        rollouts_per_prompt: n of every prompt, when no column has it.
        where: Keep rows whose column equals the value (or one of the values).
        skip_malformed: Drop and count malformed lines of JSONL and rows of CSV instead of stopping at the first; a
            number: at most so many.
        progress: Called with the number of bytes of each block read.
        format: Name of a format, where its content should not decide; ``"table"`` for the general reader.
        reward_weights: Reward functions to sum, each times its weight, where a source has several.
        split: ``"train"``, ``"eval"`` or ``"all"``: which rows to count, where a source holds both.
        policy_steps: First and last training step to keep, both included; None leaves an end open.
        workers: Processes that read large JSONL files; one a core, up to 8, if not given. The result is the same.
        storage_options: Credentials and settings of addresses, as polars names them.
        weak_prior: Model that the rollouts are of, where it is another than the one to be trained.
        prompt_count: Column of the number of prompts, where a row stands for all prompts with the same n and k.
        histogram: True for a pilot without names of prompts and lengths, only the number of prompts of each (n, k),
            stratum and temperature: nothing else then comes out of Spark, Dask or DuckDB. False for counts a prompt.
            Default: counts a prompt, but the histogram where another engine holds over 1,000,000 prompts.
        groups_apart: Each row of counts, or with a list of rewards, is one group, and so are the rollouts of a prompt
            at one step: groups of one prompt are not added up. Needed for a table of mixed groups only.

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
    given = {
        "prompt": prompt, "reward": reward, "n": n, "k": k, "pass_rate": pass_rate, "fail_rate": fail_rate,
        "stratum": stratum, "temperature": temperature, "response_tokens": response_tokens, "policy": policy,
        "prompt_count": prompt_count,
    }  # fmt: skip
    request = request_of(
        given, pass_threshold=pass_threshold, rollouts_per_prompt=rollouts_per_prompt, where=where,
        skip_malformed=skip_malformed, format=format, reward_weights=reward_weights, split=split,
        policy_steps=policy_steps, progress=progress, weak_prior=weak_prior, workers=workers,
        storage_options=storage_options, histogram=histogram, groups_apart=groups_apart,
    )  # fmt: skip
    pilot = read_into(Tally(), source, request)
    return pilot.as_histogram() if histogram else pilot


def read_into(tally: Tally, source: object, request: ReadRequest) -> Pilot:
    """Read a source into a tally, whose observer sees every batch of columns, and turn it into a Pilot."""
    with one_error(_name(source)):
        return _read_into(tally, source, request)


def _read_into(tally: Tally, source: object, request: ReadRequest) -> Pilot:
    if not (isinstance(source, str | os.PathLike) or _is_path_list(source)):
        name = "the dataframe"
        with engine_errors(name, "table"):
            known = set_of_frame(source, name, request)
            if known is not None:
                with as_file(source, name) as file:
                    return _read_format(known, [file], name, tally, request, files=0)
            count_frame_rates(source, name, request, tally)
        return _table_pilot(tally, name, 0, request)
    only = source if isinstance(source, str | os.PathLike) else (source[0] if len(source) == 1 else None)  # type: ignore[index, arg-type]
    if only is not None and (stream := _stream(only)) is not None:
        return _read_stream(stream, tally, request)
    items = [source] if isinstance(source, str | os.PathLike) else list(source)  # type: ignore[call-overload]
    if any(is_address(item) for item in items):
        return _read_addresses(items, tally, request)
    try:
        return _read_found(items, tally, request)
    except PilotFormatError as error:
        raise not_a_log(error, items, request) from None


def _read_found(items: Sequence[str | os.PathLike[str]], tally: Tally, request: ReadRequest) -> Pilot:
    """Read files as what they are found to be."""
    found = discover(items, "pilot", request.format)
    tally.notes += found.notes
    names = [os.fspath(item) for item in items]
    tally.notes += [f"{name}: given {names.count(name)} times, read once." for name in dict.fromkeys(names)
                    if names.count(name) > 1]  # fmt: skip
    name = found.files[0].name if len(found.files) == 1 else f"{len(found.files)} files"
    if found.format is not None:
        return _read_format(found.format, found.files, name, tally, request)
    with several_processes(tally, request.options):
        count_tables(found.files, request, tally)
    if len(found.files) > 1:
        tally.notes = [tally.notes[0], f"{len(found.files):,} files were read as one pilot.", *tally.notes[1:]]
    return _table_pilot(tally, name, len(found.files), request)


def _read_addresses(items: Sequence[str | os.PathLike[str]], tally: Tally, request: ReadRequest) -> Pilot:
    """Read tables at addresses, and files among them."""
    with several_processes(tally, request.options):
        for item in items:
            if isinstance(item, str) and is_address(item):
                count_address(item, request.given, request.options, tally)
            else:
                for file in resolve(item):
                    count_file(file, request.given, request.options, tally, request.progress)
    return _table_pilot(tally, os.fspath(items[0]) if len(items) == 1 else f"{len(items)} sources", len(items), request)


def sink_of(tally: Tally, request: ReadRequest, format: Format, files: Sequence[InputFile]) -> RolloutSink:
    """What a format's reader has put into a sink."""
    if format.pilot is None:
        raise DomainError(f"format {format.name!r} gives a log of metrics, not a pilot. See grpo-plan formats.")
    sink = RolloutSink(
        tally=tally, request=request, format=format.name, files=len(files), weak_prior=request.weak_prior
    )
    format.pilot(files, request, sink)
    return sink


def _read_format(
    format: Format,
    found: Sequence[InputFile],
    name: str,
    tally: Tally,
    request: ReadRequest,
    *,
    files: int | None = None,
) -> Pilot:
    sink = sink_of(tally, request, format, found)
    if files is not None:
        sink.files = files
    tally.notes = list(dict.fromkeys(tally.notes))
    return pilot_of(sink, name)


def _table_pilot(tally: Tally, name: str, files: int, request: ReadRequest) -> Pilot:
    tally.notes = list(dict.fromkeys(tally.notes))
    rows = tally.rows + sum(tally.dropped[reason] for reason in (*OUTSIDE, *BROKEN_LINES))
    pilot = histogram_pilot(tally, name) if tally.histogram else tally.pilot(name)
    if request.options.groups_apart:
        pilot = without_group_names(pilot)
    pilot = with_threshold_note(pilot, tally, request)
    provenance = Provenance(
        format=TABLE,
        files=files,
        rows=rows,
        policy_steps=(min(tally.steps), max(tally.steps)) if tally.steps else None,
        step_count=len(tally.steps),
        policies=tuple(tally.policies),
        weak_prior=request.weak_prior,
        dead_groups=tally.lists.dead(pilot.total_rollouts),
        pass_threshold=None if tally.rewards is None else request.options.pass_threshold,
        merged_rows=mixed_rows(tally.row_counts) if tally.row_counts.total() > pilot.prompts else (),
    )
    return replace(pilot, notes=sentences(*pilot.notes, *provenance.warnings), provenance=provenance)


def _stream(source: str | os.PathLike[str]) -> InputFile | None:
    """Standard input or a pipe, which can be read once only; None for everything else."""
    if os.fspath(source) == "-":
        return InputFile(name="standard input", path=None)
    path = Path(source)
    try:
        piped = path.is_fifo() or path.is_char_device()
    except (OSError, ValueError):
        return None
    return InputFile(name=os.fspath(source), path=path) if piped else None


def _read_stream(file: InputFile, tally: Tally, request: ReadRequest) -> Pilot:
    """Read what can be read once only: a tool's own format is copied to a file first."""
    with open_sniffed(file) as sniffed:
        chosen = None if request.format is None else format_named(request.format)
        if request.format is None:
            chosen = recognised(look_at(sniffed, file), "pilot") if sniffed.kind in ("jsonl", "json-array") else None
        if chosen is None:
            count_sniffed(sniffed, file, request.given, request.options, tally, request.progress)
            return _table_pilot(tally, file.name, 1, request)
        with as_path(sniffed, file) as path:
            return _read_format(chosen, [InputFile(name=file.name, path=path)], file.name, tally, request)


def _name(source: object) -> str:
    """The source in a message."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return f"{len(source)} sources" if isinstance(source, list | tuple) else "the dataframe"


def _is_path_list(source: object) -> bool:
    return isinstance(source, list | tuple) and all(isinstance(s, str | os.PathLike) for s in source)
