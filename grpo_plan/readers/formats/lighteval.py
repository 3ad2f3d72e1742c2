"""lighteval: details of an evaluation. Passes are told from the metrics that are a mean over all answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpo_plan.errors import PilotFormatError
from grpo_plan.readers.files import InputFile, as_path, open_sniffed
from grpo_plan.readers.formats._dumps import distinct
from grpo_plan.readers.rates import COMPUTED_DIGITS, NotARate, RateReading
from grpo_plan.readers.request import ReadRequest
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate, Evidence, Format
from grpo_plan.readers.tables import engine_errors
from grpo_plan.readers.values import shown, text_of, whole_of

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("doc", "model_response", "metric")
BATCH_ROWS = 50_000
SETTINGS = re.compile(r"(?:^|[:&,])\s*([kn])=(\d{1,9})")
NAME = re.compile(r"^details_(?P<task>.+)_\d{4}-\d\d-\d\dT[\d.:-]+\.parquet")


def _looks(candidate: Candidate) -> bool:
    return (
        candidate.kind == "parquet"
        and candidate.has(*COLUMNS)
        and all(candidate.columns[name].startswith("Struct") for name in COLUMNS)
    )


def _read(files: Sequence[InputFile], request: ReadRequest, sink: RolloutSink) -> None:
    for file in distinct(files, sink):
        with open_sniffed(file) as sniffed, as_path(sniffed, file) as path, engine_errors(file.name, sniffed.kind):
            import polars as pl

            frame = pl.scan_parquet(path, glob=False)
            _add(frame, file, request, sink)


def _add(frame: pl.LazyFrame, file: InputFile, request: ReadRequest, sink: RolloutSink) -> None:
    import polars as pl

    schema = frame.collect_schema()
    for column in COLUMNS:
        if not isinstance(schema.get(column), pl.Struct):
            kind = schema.get(column, "not there")
            raise PilotFormatError(f"{file.name}: column {column} must hold records; it is {kind}. Of lighteval?")
    metrics = [f.name for f in schema["metric"].fields]  # type: ignore[attr-defined]
    doc = {f.name for f in schema["doc"].fields}  # type: ignore[attr-defined]
    texts = {f.name for f in schema["model_response"].fields}  # type: ignore[attr-defined]
    if "text" not in texts or not doc & {"query", "id"}:
        raise PilotFormatError(f"{file.name}: doc holds no query or id, or model_response no text. Another lighteval?")
    metric, n = _metric(metrics, request.given.get("reward"), file.name)
    parts = [pl.col("doc").struct.field(name).alias(name) for name in ("query", "id", "task_name") if name in doc]
    answers = pl.col("model_response").struct.field("text")
    kind = dict((f.name, f.dtype) for f in schema["model_response"].fields)["text"]  # type: ignore[attr-defined]
    count = answers.list.len() if isinstance(kind, pl.List) else pl.lit(1)
    table = frame.select(*parts, count.alias("answers"), pl.col("metric").struct.field(metric).alias("value")).collect()
    found = None if file.path is None else NAME.match(file.path.name)
    task = None if found is None else found["task"]
    model = _model(file)
    fewer = 0
    for start in range(0, table.height, BATCH_ROWS):
        rows = table[start : start + BATCH_ROWS].to_dict(as_series=False)
        size = len(rows["value"])
        counts = []
        for i in range(size):
            total = min(n, rows["answers"][i] or 0)
            fewer += total < n
            counts.append((total, _passes(rows["value"][i], total, metric, f"{file.name}, row {start + i + 1:,}")))
        columns: dict[str, Sequence[Any]] = {
            "prompt": [text_of(v) for v in rows.get("query", rows.get("id", [None] * size))],
            "n": [total for total, _ in counts],
            "k": [passes for _, passes in counts],
            "stratum": [text_of(v) or task for v in rows.get("task_name", [None] * size)],
            "policy": [model] * size,
        }
        sink.add_counts(columns, lambda i, s=start: f"{file.name}, row {s + i + 1:,}", k_name=metric)  # type: ignore[misc]
    sink.note(f"{file.name}: passes are {metric} times the {n} answers of a document.")
    if fewer:
        sink.note(f"{file.name}: {fewer:,} documents have fewer than {n} answers; those that are there were counted.")


def counted(metric: str) -> tuple[int | None, str]:
    """Number of answers of which a metric gives the passes; None and the reason where it does not.

    >>> counted("avg@n:n=64"), counted("pass@k:k=1&n=16"), counted("pass@k:k=4&n=16")[0]
    ((64, ''), (16, ''), None)
    """
    name, settings = metric.partition(":")[0].lower(), {key: int(v) for key, v in SETTINGS.findall(metric)}
    if name.startswith("avg@"):
        n = settings.get("n") or whole_of(name[4:]) or settings.get("k")
        return n, "" if n else "does not say over how many answers it is the mean"
    if name.startswith("pass@"):
        k = settings.get("k") or whole_of(name[5:])
        if k == 1 and settings.get("n"):
            return settings["n"], ""
        return None, f"is the chance that one of {k or 'k'} answers is right, which only bounds how many are"
    if name.startswith(("maj@", "g-pass@", "g_pass@")):
        return None, "is no mean over the answers"
    return 1, ""


def _metric(names: Sequence[str], named: str | None, place: str) -> tuple[str, int]:
    """The metric that counts and its number of answers."""
    if named is not None:
        if named not in names:
            raise PilotFormatError(f"{place}: no metric {named!r}. It has: {', '.join(names)}.")
        n, why = counted(named)
        if n is None:
            raise PilotFormatError(
                f"{place}: {named} {why}. Choose another with --reward-column ({', '.join(names)}), or evaluate with "
                "avg@n:n=16."
            )
        return named, n
    usable: Mapping[str, int] = {name: n for name in names if (n := counted(name)[0]) is not None}
    most = max(usable.values(), default=0)
    best = [name for name, n in usable.items() if n == most]
    averages = [name for name in best if name.lower().startswith("avg@")] or best
    if len(averages) == 1:
        return averages[0], most
    if not usable:
        reasons = "; ".join(f"{name} {counted(name)[1]}" for name in names)
        raise PilotFormatError(
            f"{place}: no metric gives how many answers are right: {reasons}. Evaluate with avg@n:n=16."
        )
    raise PilotFormatError(f"{place}: several metrics would do ({', '.join(averages)}). Choose with --reward-column.")


def _passes(value: Any, total: int, metric: str, place: str) -> int | None:
    if value is None or value != value:
        return None
    try:
        return RateReading(digits=COMPUTED_DIGITS).passes(value, total)
    except NotARate:
        raise PilotFormatError(
            f"{place}: {metric} = {shown([value])} of {total} answers is no whole number of passes. A graded score? "
            "Choose another metric with --reward-column."
        ) from None


def _model(file: InputFile) -> str | None:
    """The model, from the folders between ``details`` and the date."""
    parts = [] if file.path is None else list(file.path.parts)
    if "details" not in parts:
        return None
    inner = parts[len(parts) - 1 - parts[::-1].index("details") + 1 : -2]
    return "/".join(inner) or None


FORMATS = (
    Format(
        name="lighteval",
        tool="lighteval",
        files="<out>/details/<model>/<date>/details_<task>_<date>.parquet",
        reads="avg@n or pass@k with k=1 times the number of answers, query, task; model from the folders",
        evidence=Evidence.SOURCE,
        versions="0.13",
        limits=(
            "whether a single answer is right is not stored: pass@k with k above 1, maj@n and the like are refused",
            "the temperature is not in the file",
        ),
        looks_like=_looks,
        pilot=_read,
    ),
)
