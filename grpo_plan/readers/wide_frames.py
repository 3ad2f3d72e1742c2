"""Rows of counts whose columns are plain: counted by expressions, without a Python object a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_plan._rows import MAX_ROLLOUTS_PER_PROMPT
from grpo_plan.readers.cells import KEYS, with_token_sums
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import ReadOptions, Tally

if TYPE_CHECKING:
    import polars as pl

NEEDED = frozenset({"prompt", "n", "k"})
KNOWN = NEEDED | {"stratum", "policy"}


def count_wide(frame: pl.DataFrame, roles: ColumnMap, options: ReadOptions, tally: Tally) -> bool:
    """Count rows of counts; False, with nothing counted, if any of them needs a closer look.

    Args:
        frame: Rows of a table, each a prompt with its n and k.
        roles: Which column is what.
        options: How to read.
        tally: Where the counts go.
    """
    import polars as pl

    columns = roles.roles()
    if roles.shape != "wide" or not NEEDED <= columns.keys() <= KNOWN or options.rollouts_per_prompt is not None:
        return False
    if options.groups_apart or tally.observer is not None:
        return False
    given = [frame[columns[role]] for role in ("n", "k")]
    texts = {role: frame[column] for role, column in columns.items() if role in KEYS}
    if any(not c.dtype.is_integer() for c in given) or any(t.dtype != pl.String for t in texts.values()):
        return False
    n, k = (c.cast(pl.Int64, strict=False) for c in given)
    if n.null_count() or k.null_count() or not ((k >= 0) & (k <= n) & (n <= MAX_ROLLOUTS_PER_PROMPT)).all():
        return False
    absent = {role: pl.lit(None, dtype=pl.Float64 if role == "temperature" else pl.String) for role in KEYS}
    known = {role: pl.when(column != "").then(column) for role, column in texts.items()}
    rows = pl.DataFrame({"n": n, "k": k}).with_columns(**{**absent, **known})
    unnamed = rows["prompt"].null_count()
    if unnamed:
        tally.dropped.update(missing_prompt=unnamed)
        rows = rows.filter(pl.col("prompt").is_not_null())
    tally.repeated_rows = True
    if rows.height:
        tally.take_rows(rows["n"].to_numpy(), rows["k"].to_numpy())
    tally.add(with_token_sums(rows))
    tally.rows += frame.height
    return True
