"""Named columns of a table of any kind, batch by batch, for formats that are tables with known columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpo_plan.readers.files import InputFile, as_path, open_sniffed
from grpo_plan.readers.jsonarray import JsonArray
from grpo_plan.readers.jsonlines import RowShape, read_blocks, read_json_lines
from grpo_plan.readers.sink import RolloutSink
from grpo_plan.readers.source import Candidate
from grpo_plan.readers.tables import engine_errors
from grpo_plan.readers.values import list_of

if TYPE_CHECKING:
    import polars as pl

BATCH_ROWS = 50_000
PEEK_ROWS = 50
Columns = Mapping[str, Sequence[Any]]


def column_batches(
    file: InputFile, names: Sequence[str], sink: RolloutSink, *, lengths: Sequence[str] = ()
) -> Iterator[tuple[Columns, Callable[[int], str]]]:
    """Columns of a table with how to name the place of a row; of ``lengths`` only the number of items is given."""
    with open_sniffed(file) as sniffed:
        if sniffed.kind in ("jsonl", "json-array"):
            shape, path = RowShape.of(names), None if sniffed.compressed else file.path
            if sniffed.kind == "json-array":
                batches = JsonArray(sniffed.stream, file.name).batches(shape)
            else:
                blocks = read_blocks(sniffed.stream, file.name)
                request = sink.request
                batches = read_json_lines(
                    blocks, file.name, shape, request.options, sink.tally, path=path, progress=request.progress
                )
            for batch in batches:
                columns = {name: shape.values(batch.rows, name) for name in names}
                for name in lengths:
                    columns[name] = [None if (items := list_of(v)) is None else len(items) for v in columns[name]]
                yield columns, batch.place
            return
        with as_path(sniffed, file) as path_here, engine_errors(file.name, sniffed.kind):
            import polars as pl

            if sniffed.kind == "csv":
                frame = pl.scan_csv(path_here, separator=sniffed.separator, infer_schema=False, glob=False)
            elif sniffed.kind == "parquet":
                frame = pl.scan_parquet(path_here, glob=False)
            else:
                frame = pl.scan_ipc(path_here, glob=False)
            yield from _of_frame(frame, file.name, names, lengths)


def _of_frame(
    frame: pl.LazyFrame, place: str, names: Sequence[str], lengths: Sequence[str]
) -> Iterator[tuple[Columns, Callable[[int], str]]]:
    import polars as pl

    schema = frame.collect_schema()
    counted = [name for name in lengths if isinstance(schema.get(name), pl.List)]
    table = frame.select(
        *(pl.col(n).list.len() if n in counted else pl.col(n) for n in names if n in schema),
    ).collect()
    for start in range(0, table.height, BATCH_ROWS):
        part = table[start : start + BATCH_ROWS]
        columns = {name: part[name].to_list() if name in schema else [None] * part.height for name in names}
        for name in (n for n in lengths if n not in counted):
            columns[name] = [None if (items := list_of(v)) is None else len(items) for v in columns[name]]
        yield columns, lambda i, s=start: f"{place}, row {s + i + 1:,}"  # type: ignore[misc]


def first_values(candidate: Candidate, column: str) -> list[Any]:
    """The first values of a column; of a binary table they are read for this."""
    if candidate.rows:
        return [row.get(column) for row in candidate.rows]
    if candidate.kind not in ("parquet", "arrow") or column not in candidate.columns:
        return []
    import polars as pl

    path = candidate.file.path
    if path is None:
        return []
    try:
        frame = pl.scan_parquet(path, glob=False) if candidate.kind == "parquet" else pl.scan_ipc(path, glob=False)
        return frame.select(pl.col(column)).head(PEEK_ROWS).collect()[column].to_list()
    except (pl.exceptions.PolarsError, OSError):
        return []
