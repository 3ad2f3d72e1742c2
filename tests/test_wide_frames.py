"""Counts read by expressions are those read row by row, and whatever is not plain is left to the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from grpo_plan.errors import PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers import chunks
from grpo_plan.readers.columns import ColumnMap
from grpo_plan.readers.counting import ReadOptions, Tally
from grpo_plan.readers.pilot_reader import read_pilot
from grpo_plan.readers.wide_frames import count_wide

Write = Callable[[dict[str, object]], Path]
PLAIN = {"prompt_id": ["a", "b", "a", "", None, "c"], "n": [4, 4, 4, 4, 4, 0], "k": [0, 3, 4, 1, 2, 0]}
NAMED = {"level": ["x", "", None, "x", "y", "x"], "model": ["m", None, "m", "m", "m", ""]}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def put(columns: dict[str, object]) -> Path:
        pl.DataFrame(columns).write_parquet(tmp_path / "counts.parquet")
        return tmp_path / "counts.parquet"

    return put


def rows_of(pilot: Pilot) -> list[tuple[object, ...]]:
    names = [None] * pilot.prompts if pilot.prompt_id is None else pilot.prompt_id.tolist()
    parts = [None] * pilot.prompts if pilot.stratum is None else pilot.stratum.tolist()
    return list(zip(names, parts, pilot.successes.tolist(), pilot.rollouts.tolist(), strict=True))


@pytest.mark.parametrize("columns", [PLAIN, {**PLAIN, **NAMED}])
@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt8, pl.UInt64])
def test_expressions_and_rows_agree(
    write: Write, monkeypatch: pytest.MonkeyPatch, columns: dict[str, list[object]], kind: type[pl.DataType]
) -> None:
    typed = {**columns, "n": pl.Series(columns["n"], dtype=kind), "k": pl.Series(columns["k"], dtype=kind)}
    path, counted = write(typed), []

    def count(*arguments: object) -> bool:
        counted.append(count_wide(*arguments))  # type: ignore[arg-type]
        return counted[-1]

    monkeypatch.setattr(chunks, "count_wide", count)
    monkeypatch.setattr(chunks, "BATCH_ROWS", 4)
    stratum = "level" if "level" in columns else None
    fast = read_pilot(path, stratum=stratum, policy="model" if "model" in columns else None)
    assert counted == [True, True]
    monkeypatch.setattr(chunks, "count_wide", lambda *_: False)
    slow = read_pilot(path, stratum=stratum, policy="model" if "model" in columns else None)
    assert rows_of(fast) == rows_of(slow)
    assert (dict(fast.dropped), fast.notes, fast.provenance) == (dict(slow.dropped), slow.notes, slow.provenance)
    assert dict(fast.dropped) == {"missing_prompt": 2, "prompts_without_scored_rollouts": 1}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"prompt_id": ["a", "b"], "n": [4, 4], "k": [5, 1]}, r"row 1: k = 5 exceeds n = 4"),
        (
            {"prompt_id": ["a", "b"], "n": [4, 4], "k": [1, -1]},
            r"row 2: k must be a whole number of at least 0; got -1",
        ),
        ({"prompt_id": ["a", "b"], "n": [4, 10**8], "k": [1, 1]}, r"row 2: n must be at most 10,000,000; got 1e\+08"),
    ],
)
def test_errors_still_say_where(write: Write, columns: dict[str, object], message: str) -> None:
    with pytest.raises(PilotFormatError, match=message):
        read_pilot(write(columns))


@pytest.mark.parametrize(
    "change",
    [
        {"k": pl.Series([1.0, 2.0])},
        {"k": pl.Series([1, None])},
        {"n": pl.Series([None, 4], dtype=pl.Int64)},
        {"prompt_id": pl.Series([7, 8])},
        {"k": pl.Series([1, 5])},
    ],
)
def test_other_values_are_left_to_the_rows(change: dict[str, pl.Series]) -> None:
    frame = pl.DataFrame({"prompt_id": ["a", "b"], "n": [4, 4], "k": [1, 2]}).with_columns(**change)
    tally = Tally()
    roles = ColumnMap(shape="wide", prompt="prompt_id", n="n", k="k")
    assert not count_wide(frame, roles, ReadOptions(), tally)
    assert (tally.rows, tally.parts, dict(tally.dropped)) == (0, [], {})
