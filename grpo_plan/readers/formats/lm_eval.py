"""lm-evaluation-harness: sample logs. Only tasks that score every repeat say how many of them passed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.formats._dumps import distinct
from grpo_plan.readers.formats._rows import json_rows
from grpo_plan.readers.rates import COMPUTED_DIGITS, NotARate, RateReading
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.values import from_plain, list_of, matches, number_of, shown, text_of

NAME = re.compile(r"^samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
AVERAGE = re.compile(r"(?:^|_)(?:avg|mean|average)(?:[@_]|_at_|$)(?:at_|n_)?(\d{1,9})?", re.IGNORECASE)
NOT_AVERAGE = re.compile(r"pass(@|_at_)|maj|vote|cons|best|any|max", re.IGNORECASE)
ENOUGH = 8  # documents whose mean is 0 or 1, and none between
MAX_RESULTS_BYTES = 64 << 20


class NotReadableError(PilotFormatError):
    """A sound log of a task that does not say how many answers of a document are right."""


class _Row(msgspec.Struct):
    doc_id: Any = None
    doc_hash: Any = None
    resps: Any = None
    filtered_resps: Any = None
    filter: Any = None
    metrics: Any = None
    arguments: Any = None


def _looks(candidate: Candidate) -> bool:
    return (
        candidate.kind == "jsonl"
        and candidate.every_row_has("doc_id", "doc", "resps", "filtered_resps", "arguments")
        and all(isinstance(row["resps"], list) and isinstance(row["filtered_resps"], list) for row in candidate.rows)
    )


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    """Read every task that can be read; of the others it is said why not, unless there is none that can."""
    refused: dict[str, NotReadableError] = {}
    for file in distinct(files, sink):
        found = None if file.path is None else NAME.match(file.path.name)
        task = None if found is None else found["task"]
        strata = request.options.where.get("stratum")
        if task is not None and strata is not None and not matches(task, strata):
            for batch in json_rows(file, msgspec.Raw, sink):
                sink.drop("rows_outside_where", len(batch.rows))
            sink.tally.where_seen.setdefault("stratum", []).append(task)
            continue
        model = None if found is None or file.path is None else _model(file, found["date"])
        try:
            _read_file(file, task, model, request, sink)
        except NotReadableError as error:
            refused[task or file.name] = error
    if refused and not sink.tally.added:
        raise next(iter(refused.values()))
    sink.files -= len(refused)
    for left, why in refused.items():
        sink.note(f"{left} was left out: {why}")


def _read_file(file: InputFile, task: str | None, model: str | None, request: ReadRequest, sink: RolloutSink) -> None:
    """Read the log of a task, and count it once all of it was understood."""
    named, wanted = request.given.get("reward"), _wanted_filters(request)
    filters: dict[str, None] = {}
    usable: dict[str, None] = {}
    several, between, metric = 0, False, None
    counted: list[tuple[dict[str, Sequence[Any]], Callable[[int], str], str]] = []
    other_filters = 0
    for batch in json_rows(file, dict, sink):
        rows = [from_plain(row, _Row) for row in batch.rows]
        filters |= dict.fromkeys(text_of(row.filter) or "none" for row in rows)
        usable |= dict.fromkeys(text_of(row.filter) or "none" for row in rows if _scores_all(row))
        if len(filters) > 1 and wanted is None and usable:
            raise NotReadableError(
                f"{file.name}: each document was scored by {len(filters)} filters ({', '.join(filters)}). Keep one, "
                f"e.g. with --where filter={next(iter(usable))}."
            )
        keep = [i for i, row in enumerate(rows) if wanted is None or (text_of(row.filter) or "none") in wanted]
        other_filters += len(rows) - len(keep)
        if not keep:
            continue
        metric = metric or _metric(rows[keep[0]], batch.rows[keep[0]], named, batch.place(keep[0]))
        counts = [_counts(rows[i], batch.rows[i].get(metric), metric, partial(batch.place, i)) for i in keep]
        several += sum(n > 1 and k is not None for n, k in counts)
        between = between or any(k is not None and 0 < k < n for n, k in counts)
        columns: dict[str, Sequence[Any]] = {
            "prompt": [text_of(rows[i].doc_hash) or text_of(rows[i].doc_id) for i in keep],
            "n": [n for n, _ in counts],
            "k": [k for _, k in counts],
            "stratum": [task] * len(keep),
            "policy": [model] * len(keep),
            "temperature": [_temperature(rows[i].arguments) for i in keep],
            "filter": [text_of(rows[i].filter) or "none" for i in keep],
        }
        counted.append((columns, lambda j, b=batch, k=keep: b.place(k[j]), metric))  # type: ignore[misc]
    if metric is None and filters and wanted is not None:
        raise PilotFormatError(
            f"{file.name}: no row has the filter {' or '.join(wanted)}. Its filters: {', '.join(filters)}."
        )
    sink.drop("rows_of_other_filters", other_filters)
    for columns, place, name in counted:
        sink.add_counts(columns, place, k_name=name)
    if metric is not None:
        times = "its mean over all answers of a document" if several else "of the only answer of a document"
        sink.note(f"{file.name}: passes are {metric}, {times}.")
        if several >= ENOUGH and not between and not AVERAGE.search(metric):
            sink.note(
                f"{file.name}: {metric} is 0 or 1 in all {several:,} documents, each of several answers: does it score "
                "one of them only? Then it is no mean, and pass rates of 0 and 1 are not those of the documents."
            )


def _wanted_filters(request: ReadRequest) -> Sequence[str] | None:
    """Filters that the user keeps: with ``--where filter=NAME``, or as the harness prints it, ``metric,filter``."""
    if "filter" in request.options.where:
        return request.options.where["filter"]
    _, comma, name = (request.given.get("reward") or "").partition(",")
    return [name] if comma else None


def _metric(row: _Row, values: Mapping[str, Any], named: str | None, place: str) -> str:
    """The metric that counts: the one named, the only one, or the only average over the repeats."""
    names = [str(name) for name in list_of(row.metrics) or _other_numbers(values)]
    chosen = None if named is None else named.partition(",")[0]
    if chosen is not None:
        if chosen not in names:
            raise NotReadableError(f"{place}: no metric {chosen!r}. It has: {', '.join(names) or '(none)'}.")
        return chosen
    if len(names) == 1:
        return names[0]
    averages = [name for name in names if AVERAGE.search(name) and not NOT_AVERAGE.search(name)]
    if len(averages) == 1:
        return averages[0]
    raise NotReadableError(
        f"{place}: holds {len(names)} metrics ({', '.join(names) or 'none'}). Choose one with --reward-column."
    )


def _other_numbers(values: Mapping[str, Any]) -> list[str]:
    """Metrics of logs that do not list them: numbers beside the fields that every row has."""
    return [k for k, v in values.items() if k not in ("doc_id",) and isinstance(v, int | float)]


def _counts(row: _Row, value: Any, metric: str, place: Callable[[], str]) -> tuple[int, int | None]:
    """Answers and passes of a document; None for passes where it was not scored.

    Raises:
        PilotFormatError: The metric scored one answer of several.
    """
    answers = list_of(row.resps)
    repeats = list_of(answers[0]) if answers else None
    if not answers or not repeats:
        raise PilotFormatError(f"{place()}: resps holds no answer. Is the log complete?")
    if isinstance(repeats[0], list):
        raise PilotFormatError(
            f"{place()}: its choices were scored by their likelihood, and no answer was sampled: {metric} is no pass "
            "rate. Evaluate with a task that generates answers (output_type: generate_until)."
        )
    n = len(repeats)
    if value is None or value != value:
        return n, None
    if not _scores_all(row):
        raise NotReadableError(
            f"{place()}: {metric} scores one of {n} answers (filter {text_of(row.filter) or 'none'}), so how many of "
            f"them are right is not in this log. Let the task score all: filter take_first_k with k = {n}, and a "
            f"process_results that returns their mean, e.g. as avg_at_{n}."
        )
    if n > 1 and NOT_AVERAGE.search(metric):
        raise NotReadableError(
            f"{place()}: {metric} is no mean over the {n} answers, so it does not say how many are right. Choose the "
            "mean with --reward-column, or let process_results return it."
        )
    most = AVERAGE.search(metric)
    if n > 1 and most is not None and most[1] is not None and int(most[1]) != n:
        raise NotReadableError(f"{place()}: {metric} speaks of {most[1]} answers, and resps holds {n}. Which is it?")
    try:
        return n, RateReading(digits=COMPUTED_DIGITS).passes(value, n)
    except NotARate:
        raise NotReadableError(
            f"{place()}: {metric} = {shown([value])} of {n} answers is no whole number of passes. A graded score? "
            "Choose another metric with --reward-column."
        ) from None


def _scores_all(row: _Row) -> bool:
    """Whether every answer of a document reached the scorer."""
    answers, filtered = list_of(row.resps), list_of(row.filtered_resps)
    repeats = list_of(answers[0]) if answers else None
    if not repeats or len(repeats) == 1:
        return True
    scored = filtered[0] if filtered else None
    return isinstance(scored, list) and len(scored) == len(repeats)


def _temperature(arguments: Any) -> float | None:
    """Sampling temperature of a generation; 0 where it does not sample."""
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    settings = first.get("arg_1") if isinstance(first, dict) else None
    if not isinstance(settings, dict):
        return None
    return 0.0 if settings.get("do_sample") is False else number_of(settings.get("temperature"))


def _model(file: InputFile, date: str) -> str | None:
    """Name of the model, from the results of the same date beside the samples."""
    path = None if file.path is None else file.path.parent / f"results_{date}.json"
    if path is None or not path.is_file() or path.stat().st_size > MAX_RESULTS_BYTES:
        return None
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    name = found.get("model_name") or found.get("model_source") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name else None


FORMATS = (
    Format(
        name="lm-eval",
        tool="lm-evaluation-harness",
        files="<out>/<model>/samples_<task>_<date>.jsonl, and results_<date>.json beside it",
        reads="a metric that is the mean over all repeats (or of the only answer), document, temperature, task, model",
        evidence=Evidence.RAN,
        versions="0.4.13",
        limits=(
            "filters such as take_first and majority_vote score one of the repeats: the others are not scored, so such "
            "tasks are left out",
            "whether an answer was cut off is not in the file",
        ),
        looks_like=_looks,
        pilot=_read,
    ),
)
