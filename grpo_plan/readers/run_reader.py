"""`read_run`: the metrics of a run, and the rollouts beside them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from grpo_plan._validate import as_count
from grpo_plan.errors import DomainError, GrpoPlanError, PilotFormatError, sentences
from grpo_plan.group_log import GroupLog
from grpo_plan.readers.arguments import request_of
from grpo_plan.readers.candidates import look
from grpo_plan.readers.discovery import Found, SeveralFormatsError, discover
from grpo_plan.readers.files import InputFile, as_path, open_sniffed
from grpo_plan.readers.formats.metrics import ROLLOUT_COLUMNS, read_metrics
from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.guard import one_error
from grpo_plan.readers.instead import is_paths, rows_of_memory
from grpo_plan.readers.registry import TABLE
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.run_builder import MANY_ROWS, NO_STEP, RunBuilder, add_rows, with_config
from grpo_plan.readers.run_rows import by_run, chosen_runs, place_of
from grpo_plan.readers.step_groups import NotGroups, groups_of_rows, groups_of_tables
from grpo_plan.run_log import RunLog

OPTIONS_OF_RUNS = (  # a run has fewer options than a pilot: what these choose, its file has to say
    (r"rollouts_per_prompt=; group_size= in read_run", "group_size="),
    (r"--rollouts-per-prompt\b", "--group-size"),
    (r"\brollouts_per_prompt=", "group_size="),
    (r"--reward-column\b", "--reward"),
    (
        r"Name (?:it|one|another)(?: column)? with --(prompt|k|n|pass-rate)-column(?: \(\w+=\))?[^.]*",
        r"Name that column \1",
    ),
)
EVALUATIONS = frozenset(
    ("inspect", "lm-eval", "lighteval", "human-eval", "evalplus", "evalchemy", "verifiers-v0", "skyrl-eval")
)
MOST_AGAIN = 0.5  # share of the rows of a run that the part after it may log again
Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_run(
    source: object,
    *,
    run: str | Sequence[str] | None = None,
    config: Mapping[str, object] | None = None,
    group_size: int | None = None,
    groups: bool = True,
    skip_malformed: bool = False,
    format: str | None = None,
    progress: Callable[[int], None] | None = None,
    reward: str | None = None,
    pass_threshold: float | None = None,
) -> RunLog:
    r"""Read the metrics of a run, and the rollouts that lie beside them.

    Read are the logs of trainers (``trainer_state.json``, TensorBoard, W&B, MLflow, files of metrics; ``grpo-plan
    formats`` lists them), told apart by their content; a folder is searched for them. Of a trainer's output folder the
    latest checkpoint counts, and rollouts that it dumped are read as groups.

    Args:
        source: Path, glob, folder, a list of these, or ``"-"`` for standard input; or rows in memory, one a step: a
            dataframe, or mappings (``list(run.scan_history())`` of W&B).
        run: Name of the run, where a source holds several; several names are parts of one run, one after the other.
        config: Settings of the run that its log does not hold, e.g. ``{"scale_rewards": "group"}``.
        group_size: Rollouts per prompt, where the source does not tell it.
        groups: Whether to read the rollouts of a folder too.
        skip_malformed: Drop and count malformed lines.
        format: Name of a format, where its content should not decide; ``"table"`` for any table with a column of steps.
        progress: Called with the number of bytes of each block read.
        reward: Reward function by which to judge the rollouts, where these have several; without it their sum.
        pass_threshold: Reward from which a rollout passes, for the shares of groups that all pass or all fail; not
            needed where rewards have two levels.

    Returns:
        A RunLog; `RunLog.quantity` gives the same quantity of every tool.

    Raises:
        PilotFormatError: The source cannot be read, holds no metrics, or several runs of which none was named.
        MissingExtraError: Event files need the extra ``tensorboard``.
        DomainError: An argument is outside its domain.

    >>> import json, pathlib, tempfile
    >>> rows = [{"step": i, "reward": 0.4, "frac_reward_zero_std": 0.5, "reward_std": 0.3} for i in (1, 2)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     _ = path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ...     log = read_run(path)
    >>> log.steps.tolist(), log.tool, log.quantity("dead_fraction").values.tolist()
    ([1, 2], 'trl', [0.5, 0.5])
    """
    request = request_of(
        {"reward": reward},
        pass_threshold=pass_threshold,
        skip_malformed=skip_malformed,
        format=format,
        progress=progress,
    )
    size = None if group_size is None else as_count(group_size, "group_size", minimum=2)
    if config is not None and not isinstance(config, Mapping):
        raise DomainError(f"config must map settings to values; got {str(config)[:40]!r}.")
    request = replace(request, runs=_names(run), config=dict(config or {}))
    with one_error(os.fspath(source) if isinstance(source, str | os.PathLike) else "the source"):
        return _read(source, request, size, groups)


def _read(source: object, request: ReadRequest, size: int | None, groups: bool) -> RunLog:
    log, found = load_run(source, request) if is_paths(source) else (_in_memory(source, request), None)  # type: ignore[arg-type]
    log = with_config(log, request.config)
    if not groups:
        log = replace(log, groups=None)
    elif is_paths(source) and source != "-" and log.groups is None:
        log = _with_groups(log, source, request, size)  # type: ignore[arg-type]
    if request.given.get("reward") is not None and groups and log.groups is None:
        raise DomainError(
            f"reward chooses a reward function of rollouts, and {log.source} holds no rollouts of groups; got "
            f"{request.given['reward']!r}. Leave it out, or give the folder that holds the rollouts too."
        )
    log = replace(log, group_size=_group_size(log, size))
    if log.format == TABLE and log.tool is None and NO_STEP in log.notes:
        raise PilotFormatError(
            f"{log.source}: has no column of training steps and no metric that is known. Is it a pilot? Read it with "
            "grpo-plan fit."
        )
    if log.format == TABLE and log.tool is None and any(note.startswith(MANY_ROWS) for note in log.notes):
        raise PilotFormatError(
            f"{log.source}: has several rows of each step and no metric that is known; a log has one row a step. Are "
            "these rollouts? Give the dump of a trainer, which says what was sampled together, or read them as a pilot "
            "with grpo-plan fit."
        )
    if not log.metrics and log.groups is None:
        raise PilotFormatError(
            f"{log.source}: holds no metrics of training{_left_out(log)}. Give the log of a trainer (grpo-plan formats "
            "lists them)."
        )
    if found is not None and (said := notes_of(found)):
        log = replace(log, notes=sentences(*log.notes, *said))
    return replace(log, pass_threshold=request.options.pass_threshold)


def notes_of(found: Found) -> tuple[str, ...]:
    """What was there and was not read."""
    also = ", ".join(f"{name} ({len(held):,} file{'s' * (len(held) > 1)})" for name, held in found.beside.items())
    return (*found.notes, *((f"Also there, and not read: {also}.",) if also else ()))


def _left_out(log: RunLog) -> str:
    said = ", ".join(f"{reason.replace('_', ' ')}: {count:,}" for reason, count in log.dropped.items())
    return f" ({said})" if said else ""


def load_run(source: Source, request: ReadRequest) -> tuple[RunLog, Found | None]:
    """The metrics of a source, however few; and the files that they are from."""
    if isinstance(source, str) and source == "-":
        return _standard_input(request), None
    found = discover_run(source, request)
    if found is None:
        return _nothing(source), None
    read = None if found.format is None else found.format.run
    if read is None:
        return joined(lambda asked: _table(source, found, asked), request), found
    return joined(lambda asked: read(found.files, asked), request), found


def _table(source: Source, found: Found, request: ReadRequest) -> RunLog:
    """A table of no tool: groups of rollouts by step and prompt, or metrics by step."""
    files = found.files
    if request.runs:
        files = [file for _, held in chosen_runs(by_run(files), request, place_of(files)) for file in held]
    held = groups_of_tables(files, request)
    if isinstance(held, GroupLog):
        return with_group_log(replace(_nothing(source), source=place_of(files)), held)
    if len(found.files) > 1 and not request.runs:
        raise PilotFormatError(
            f"{os.fspath(source) if isinstance(source, str | os.PathLike) else 'the source'}: holds "
            f"{len(found.files):,} files, and a run is read from one log. Name it."
            + (f" As rollouts they cannot be read: {held.reason}" if held.reason else "")
        )
    log = read_metrics(found.files, request, TABLE)
    _refuse_rollouts(log, [name for file in files for name in _columns_of(file)], held, request)
    return log


def _columns_of(file: InputFile) -> list[str]:
    try:
        return list(look(file).columns)
    except PilotFormatError:
        return []


def _refuse_rollouts(log: RunLog, columns: Sequence[str], held: NotGroups, request: ReadRequest) -> None:
    """Several rows of each step beside columns of rollouts are no metrics, whatever their names.

    Raises:
        PilotFormatError: With why they could not be read as groups.
    """
    several = any(note.startswith(MANY_ROWS) for note in log.notes)
    if log.tool is None and not held.reason:
        return  # refused as any table without a metric that is known
    if not (several or NO_STEP in log.notes) or not (held.reason or ROLLOUT_COLUMNS & set(columns)):
        return
    if held.reason:
        _refuse_reward(for_runs(held.reason), request)
        raise PilotFormatError(for_runs(held.reason))
    what = "several rows of each step" if several else "no column of training steps"
    raise PilotFormatError(
        f"{log.source}: is a table of rollouts with {what}, which does not say what was sampled together. Give it "
        "columns step, prompt_id and reward, one row a rollout, or read it as a pilot with grpo-plan fit."
    )


def discover_run(source: Source, request: ReadRequest) -> Found | None:
    """Files of a run; None where a folder holds rollouts but no metrics."""
    try:
        found = discover(source, "run", request.format)
    except SeveralFormatsError:
        raise
    except PilotFormatError:
        if request.format is None and _rollouts(source):
            return None
        raise
    if found.format is None and request.format is None and _rollouts(source):
        return None
    return found


def _rollouts(source: Source) -> bool:
    """Whether a source is a dump of rollouts that a reader knows."""
    try:
        return discover(source, "pilot", None).format is not None
    except GrpoPlanError:
        return False


def _in_memory(source: object, request: ReadRequest) -> RunLog:
    """A log of rows in memory."""
    if request.runs:
        raise DomainError("run names one of several runs of a file; the rows given are one run. Leave it out.")
    builder = RunBuilder()
    rows = rows_of_memory(source)
    held = groups_of_rows(rows, request)
    if isinstance(held, GroupLog):
        nothing = RunLog(steps=np.empty(0, dtype=np.int64), metrics={}, format=TABLE, source="the rows given")
        return with_group_log(nothing, held)
    add_rows(builder, rows)
    log = builder.run_log(format=TABLE, source="the rows given")
    _refuse_rollouts(log, [name for row in rows for name in row], held, request)
    return log


def _nothing(source: Source) -> RunLog:
    shown = os.fspath(source) if isinstance(source, str | os.PathLike) else f"{len(source)} sources"
    return RunLog(steps=np.empty(0, dtype=np.int64), metrics={}, format=TABLE, source=shown)


def _standard_input(request: ReadRequest) -> RunLog:
    """Standard input can be read once only: it is copied to a file first."""
    file = InputFile(name="standard input", path=None)
    with open_sniffed(file) as sniffed, as_path(sniffed, file) as path:
        log, _ = load_run(path, request)
    return replace(log, source=file.name)


def _names(run: object) -> tuple[str, ...]:
    if run is None:
        return ()
    names = (run,) if isinstance(run, str) else run
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise DomainError(f"run must be the name of a run, or a list of names; got {run!r}.")
    return tuple(names)


def _group_size(log: RunLog, size: int | None) -> int | None:
    """Rollouts per prompt, as the log tells or else as was said.

    Raises:
        DomainError: The log tells another number.
    """
    told = log.rollouts_per_prompt
    if size is not None and told is not None and told != size:
        raise DomainError(
            f"group_size is for a log that does not say it; got {size:,}, but {log.source} has groups of {told:,}. "
            "Leave it out, or where a setting of the log is wrong, correct that with config."
        )
    return told if size is None else size


def joined(read: Callable[[ReadRequest], RunLog], request: ReadRequest) -> RunLog:
    """The run asked for; several names are parts of one run, one after the other.

    Raises:
        DomainError: They are not: a part starts no later than the one before, or repeats most of it.
    """
    log = read(request)
    if len(request.runs) < 2:
        return log
    parts = [read(replace(request, runs=(name,), progress=None)).steps for name in request.runs]
    for (first, a), (second, b) in pairwise(zip(request.runs, parts, strict=True)):
        if not a.size or not b.size:
            continue
        again = int((a >= b[0]).sum())
        if b[0] > a[0] and again <= MOST_AGAIN * a.size:
            continue
        raise DomainError(
            f"several runs must be parts of one, one after the other; got {first!r} (steps {a[0]:,} to {a[-1]:,}) and "
            f"{second!r} (steps {b[0]:,} to {b[-1]:,}). Name one of them, and read each by itself."
        )
    return log


def _with_groups(log: RunLog, source: Source, request: ReadRequest, size: int | None) -> RunLog:
    """A run with the groups of the rollouts that lie beside its metrics; what could not be read is noted."""
    if not _rollouts(source):
        return log
    held = _groups_of(source, request, None)
    told = size if log.rollouts_per_prompt is None else log.rollouts_per_prompt
    if isinstance(held, GrpoPlanError) and told is not None:
        held = _groups_of(source, request, told)
    if isinstance(held, GrpoPlanError):
        _refuse_reward(str(held), request)
        if not log.metrics:
            raise held
        return replace(log, notes=(*log.notes, f"The rollouts beside the metrics were not read: {held}"))
    return with_group_log(log, held)


def _refuse_reward(reason: str, request: ReadRequest) -> None:
    """An error of reading rollouts is one of the arguments where it names the reward function asked for."""
    reward = request.given.get("reward")
    if reward is not None and reward in reason:
        raise DomainError(reason)


def with_group_log(log: RunLog, held: GroupLog) -> RunLog:
    """A run with groups of rollouts that were read beside it."""
    steps = log.steps if log.metrics else np.unique(held.step)
    where = "" if not log.metrics else "Rollouts beside the metrics: "
    said = held.provenance.sentences
    pooled = said[1:2] if held.provenance.mixed_policies else ()  # steps are kept apart here
    notes = (*log.notes, *(f"{where}{note}" for note in held.notes if note not in pooled))
    format = log.format if log.metrics else (held.provenance.format or log.format)
    return replace(log, groups=held, steps=steps, notes=notes, format=format)


def groups_beside(source: Source, request: ReadRequest, group_size: int | None) -> GroupLog | None:
    """The groups of rollouts of a source; None where it holds none.

    Raises:
        GrpoPlanError: They cannot be read.
    """
    if not _rollouts(source):
        return None
    held = _groups_of(source, request, None)
    if isinstance(held, GrpoPlanError) and group_size is not None:
        held = _groups_of(source, request, group_size)
    if isinstance(held, GrpoPlanError):
        raise held
    return held


def _groups_of(source: Source, request: ReadRequest, group_size: int | None) -> GroupLog | GrpoPlanError:
    """The groups of a source, or why they cannot be read."""
    try:
        held = read_groups(
            source, reward=request.given.get("reward"), skip_malformed=request.options.skip_malformed,
            rollouts_per_prompt=group_size,
            progress=request.progress, details=True, pass_threshold=request.options.pass_threshold,
        )  # fmt: skip
    except GrpoPlanError as error:
        return type(error)(for_runs(str(error)))
    format, files = (
        held.provenance.format,
        os.fspath(source) if isinstance(source, str | os.PathLike) else "the sources",
    )
    if format in EVALUATIONS or (held.groups and not (held.step >= 0).any()):
        what = "an evaluation, not a training log" if format in EVALUATIONS else "rollouts of no training step"
        return PilotFormatError(
            f"{files}: holds {what} ({format}), so it does not tell what happens from step to step. Read it as a pilot "
            "with grpo-plan fit."
        )
    return held


def for_runs(message: str) -> str:
    """A message of the readers of rollouts by the options that reading a run has.

    >>> for_runs("a.jsonl: say the group size with --rollouts-per-prompt (rollouts_per_prompt=).")
    'a.jsonl: say the group size with --group-size (group_size=).'
    """
    for pattern, instead in OPTIONS_OF_RUNS:
        message = re.sub(pattern, instead, message)
    return message
