"""Results as dataframes: null for what is unknown, never NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo_plan.errors import DomainError, MissingExtraError
from grpo_plan.shown.fields import Column, plain
from grpo_plan.shown.registry import view_of

if TYPE_CHECKING:
    import polars as pl

BACKENDS = ("polars", "pandas", "pyarrow")


def values_of(result: Any) -> dict[Column, Any]:
    """The values of every column of a result, in order: lists, or arrays where the result holds arrays."""
    view = view_of(result)
    rows = None if view.rows is None else list(view.rows(result))
    found: dict[Column, Any] = {}
    for field in view.fields_of(result):
        if rows is None:
            found |= dict(zip(field.columns, field.get(result), strict=True))
            continue
        by_row = [field.get(row) for row in rows]
        found |= {column: [values[i] for values in by_row] for i, column in enumerate(field.columns)}
    return found


def frame(result: Any, backend: str = "polars") -> Any:
    """The numbers of a result as a dataframe of polars, pandas or pyarrow."""
    if backend not in BACKENDS:
        raise DomainError(f"backend must be one of {', '.join(BACKENDS)}; got {str(backend)[:40]!r}.")
    made = _polars(values_of(result))
    if backend == "polars":
        return made
    return _of(backend, _pandas if backend == "pandas" else lambda frame: frame.to_arrow(), made)


def _of(backend: str, convert: Callable[[pl.DataFrame], Any], made: pl.DataFrame) -> Any:
    try:
        __import__(backend)
    except ImportError as error:
        raise MissingExtraError(f"to_frame(backend={backend!r}) needs {backend}: pip install {backend}.") from error
    return convert(made)


def _polars(columns: dict[Column, Any]) -> pl.DataFrame:
    import polars as pl

    kinds: dict[str, Any] = {"int": pl.Int64, "float": pl.Float64, "text": pl.String, "flag": pl.Boolean}
    height = max((len(values) for values in columns.values() if values is not None), default=0)
    series = []
    for column, values in columns.items():
        kind = kinds[column.kind]
        if values is None:  # a column that this result does not know
            series.append(pl.Series(column.name, [None] * height, dtype=kind))
        elif isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
            made = pl.Series(column.name, values)
            if values.dtype.kind == "f":
                made = pl.select(pl.when(made.is_finite()).then(made)).to_series().alias(column.name)
            series.append(made.cast(kind))
        else:
            series.append(pl.Series(column.name, [plain(v) for v in values], dtype=kind))
    return pl.DataFrame(series)


def _pandas(made: pl.DataFrame) -> Any:
    """With the types of pandas that hold NA, so that whole numbers stay whole."""
    import pandas as pd
    import polars as pl

    names = {pl.Int64: "Int64", pl.Float64: "Float64", pl.String: "string", pl.Boolean: "boolean"}
    columns = {c.name: pd.array(c.to_list(), dtype=names[c.dtype.base_type()]) for c in made.iter_columns()}
    return pd.DataFrame(columns)
