"""One table, one answer, whatever engine holds it; and little is brought out of an engine of its own."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.pilot import Pilot
from grpo_plan.readers import dask_frames, engines
from tests.conftest import ROOT

Case = tuple[pl.DataFrame, dict[str, Any]]


def rollouts(rows: int = 600, prompts: int = 60) -> pl.DataFrame:
    """Rollouts with everything that may be missing, missing somewhere."""
    rng = np.random.default_rng(12)
    ids, kind = rng.integers(0, prompts, rows), rng.random(rows)
    failed = {0: None, 1: float("nan"), 2: float("inf")}
    return pl.DataFrame(
        {
            "prompt_id": [("" if i == 1 else f"q{i}") if i else None for i in ids],
            "reward": [
                failed[int(u * 50)] if u < 0.06 else float(u < 0.5 + i / 120) for u, i in zip(kind, ids, strict=True)
            ],
            "dataset": [("math", "code", None, "")[i % 4] for i in rng.integers(0, 4, rows)],
            "temperature": [(0.6, 1.0, None)[i] for i in rng.integers(0, 3, rows)],
            "response_tokens": [None if t % 7 == 0 else int(t) for t in rng.integers(1, 500, rows)],
            "model": ["m"] * rows,
            "split": [("a", "b")[i] for i in rng.integers(0, 2, rows)],
        },
        schema_overrides={"reward": pl.Float64},
    )


BASE = rollouts()
REWARD = pl.col("reward")
SCORED = pl.when(REWARD.is_finite())
CASES: dict[str, Case] = {
    "plain": (BASE, {}),
    "where": (BASE, {"where": {"split": "a", "temperature": "0.6"}}),
    "threshold": (BASE.with_columns(REWARD * 0.7), {"pass_threshold": 0.5}),
    "truth values": (BASE.with_columns(SCORED.then(REWARD == 1.0).alias("reward")), {}),
    "words": (BASE.with_columns(SCORED.then(pl.when(REWARD == 1).then(pl.lit(" Correct")).otherwise(pl.lit("I"))).alias("reward")), {}),
    "numbers as text": (
        BASE.with_columns(
            SCORED.then(pl.when(REWARD == 1).then(pl.lit("0.75")).otherwise(pl.lit("-1e0"))).alias("reward"),
            pl.col("temperature").cast(pl.String),
        ),
        {"pass_threshold": 0.5},
    ),
    "one temperature": (BASE.with_columns(pl.when(pl.col("temperature") == 0.6).then(0.6).alias("temperature")), {}),
    "whole numbers": (BASE.select(pl.col("prompt_id").str.slice(1).cast(pl.Int64, strict=False), SCORED.then(REWARD).cast(pl.Int8)), {}),
}  # fmt: skip


def dask_frame(frame: pl.DataFrame) -> Any:
    dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed (extra dask)")
    return dd.from_pandas(frame.to_pandas(use_pyarrow_extension_array=True), npartitions=3)


ENGINES: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda f: f,
    "polars lazy": lambda f: f.lazy(),
    "pandas": lambda f: f.to_pandas(use_pyarrow_extension_array=True),
    "pandas with NaN": lambda f: f.to_pandas(),
    "pyarrow": lambda f: f.to_arrow(),
    "duckdb": lambda f: duckdb.from_arrow(f.to_arrow()),
    "dask": dask_frame,
}
REMOTE = ["duckdb", "dask"]


def cells_of(pilot: Pilot) -> Counter[tuple[Any, ...]]:
    """Prompts of each stratum, temperature, n and k."""
    found: Counter[tuple[Any, ...]] = Counter()
    strata = [None] * pilot.successes.size if pilot.stratum is None else pilot.stratum.tolist()
    heat = [None] * pilot.successes.size if pilot.temperature is None else pilot.temperature.tolist()
    for s, t, n, k, m in zip(strata, heat, pilot.rollouts, pilot.successes, pilot.prompts_per_row, strict=True):
        found[s, None if t is None or t != t else t, int(n), int(k)] += int(m)
    return found


def prompts_of(pilot: Pilot) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """All that is known of each named prompt."""
    assert pilot.prompt_id is not None
    size = range(pilot.successes.size)

    def column(values: Any) -> list[Any]:
        return [None if values is None or values[i] != values[i] else values[i] for i in size]

    def numbers(values: Any) -> list[Any]:
        return [None if v is None else round(float(v), 9) for v in column(values)]

    keys = zip(map(str, pilot.prompt_id), column(pilot.stratum), numbers(pilot.temperature), strict=True)
    lengths = (numbers(c) for c in (pilot.response_tokens, pilot.pass_tokens, pilot.fail_tokens))
    return dict(zip(keys, zip(pilot.rollouts.tolist(), pilot.successes.tolist(), *lengths, strict=True), strict=True))


def assert_read_alike(source: Any, case: str, *, names: bool = True) -> None:
    """Counts a prompt, and the histogram, as they are read from polars."""
    frame, options = CASES[case]
    expected = gp.read_pilot(frame, **options)
    pilot, cells = gp.read_pilot(source, **options), gp.read_pilot(source, histogram=True, **options)
    assert (pilot.is_histogram, cells.is_histogram) == (False, True)
    assert cells_of(pilot) == cells_of(cells) == cells_of(expected)
    assert dict(pilot.dropped) == dict(cells.dropped) == dict(expected.dropped)
    assert sorted(pilot.strata) == sorted(cells.strata) == sorted(expected.strata)
    if names:
        assert prompts_of(pilot) == prompts_of(expected)
    assert (cells.response_tokens, cells.prompt_id) == (None, None)
    assert pilot.provenance.rows == cells.provenance.rows == expected.provenance.rows


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_reads_alike(engine: str, case: str) -> None:
    assert_read_alike(
        ENGINES[engine](CASES[case][0]), case, names=(engine, case) != ("pandas with NaN", "whole numbers")
    )


@pytest.mark.parametrize("engine", REMOTE)
def test_many_prompts_come_as_a_histogram(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_PROMPTS", 40)
    monkeypatch.setattr(dask_frames, "MOST_PROMPTS", 40 - dask_frames.MOST_REASONS)
    source = ENGINES[engine](BASE)
    pilot = gp.read_pilot(source)
    assert pilot.is_histogram
    assert "more than" in pilot.notes[-1]
    assert "histogram=False brings counts a prompt" in pilot.notes[-1]
    named = gp.read_pilot(source, histogram=False)
    assert not named.is_histogram
    assert prompts_of(named) == prompts_of(gp.read_pilot(BASE))
    assert cells_of(named) == cells_of(pilot)


COUNTED = pl.DataFrame(
    {
        "prompt": ["a", "b", "a", "c", None, "d", "", "e"],
        "n": [4, 4, 2, None, 4, 0, 4, 4],
        "k": [1, 4, 2, 1, 1, 0, 2, None],
        "level": ["x", "y", "x", "x", "x", "y", "y", "y"],
    }
)


@pytest.mark.parametrize("engine", ["duckdb", "dask", "pandas"])
@pytest.mark.parametrize("many", [False, True])
def test_tables_of_counts(engine: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if many:
        monkeypatch.setattr(engines, "MOST_PROMPTS", 5)
    expected = gp.read_pilot(COUNTED)
    source = ENGINES[engine](COUNTED)
    for histogram in (None, True):
        pilot = gp.read_pilot(source, histogram=histogram)
        assert cells_of(pilot) == cells_of(expected) == Counter({("x", None, 6, 3): 1, ("y", None, 4, 4): 1})
        assert dict(pilot.dropped) == dict(expected.dropped)
        assert pilot.is_histogram == (histogram is True or (many and engine == "duckdb"))
    unnamed = gp.read_pilot(ENGINES[engine](COUNTED.drop("prompt")), histogram=True)
    assert cells_of(unnamed) == cells_of(gp.read_pilot(COUNTED.drop("prompt")))
    assert unnamed.dropped == gp.read_pilot(COUNTED.drop("prompt")).dropped
    named = gp.read_pilot(ENGINES[engine](COUNTED.drop("prompt")), histogram=False)
    assert named.prompt_id.tolist() == gp.read_pilot(COUNTED.drop("prompt")).prompt_id.tolist()  # type: ignore[union-attr]
    constant = ENGINES[engine](COUNTED.drop("n"))
    assert cells_of(gp.read_pilot(constant, rollouts_per_prompt=4, histogram=True)) == cells_of(
        gp.read_pilot(COUNTED.drop("n"), rollouts_per_prompt=4)
    )


@pytest.mark.parametrize("engine", REMOTE)
def test_rates_and_lists_are_read_row_by_row_and_this_is_said(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = pl.DataFrame({"prompt": ["a", "b"], "n": [4, 4], "pass_rate": [0.5, 1.0]})
    lists = pl.DataFrame({"prompt": ["a", "b"], "rewards": [[1.0, 0.0], [1.0]]})
    for table, why in (
        (rates, "passes behind the rates of column 'pass_rate'"),
        (lists, "column 'rewards' holds lists"),
    ):
        source = ENGINES[engine](table)
        pilot = gp.read_pilot(source)
        assert cells_of(pilot) == cells_of(gp.read_pilot(table))
        if engine == "duckdb":  # Dask reads rows where they are
            assert any(why in note and "2 rows were brought here" in note for note in pilot.notes)
            with monkeypatch.context() as patch:
                patch.setattr(engines, "MOST_PROMPTS", 1)
                with pytest.raises(
                    gp.PilotFormatError, match="2 rows are too many to bring here, and .*" + re.escape(why)
                ):
                    gp.read_pilot(source)


@pytest.mark.parametrize("engine", [*REMOTE, "pandas"])
@pytest.mark.parametrize("name", ["pass_rate", "fail_rate"])
def test_rates_that_say_themselves_of_how_many_rollouts(engine: str, name: str) -> None:
    table = pl.DataFrame({"prompt": [f"q{i}" for i in range(60)], name: [100 * (i % 9) / 8 for i in range(60)]})
    pilot = gp.read_pilot(ENGINES[engine](table))
    assert cells_of(pilot) == cells_of(gp.read_pilot(table))
    assert set(pilot.rollouts.tolist()) == {8}


def test_types_that_the_engine_cannot_count_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = duckdb.sql("SELECT [{'role': 'user', 'content': 'a'}] AS prompt, 1.0 AS reward FROM range(3)")
    pilot = gp.read_pilot(chat)
    assert pilot.rollouts.tolist() == [3]
    assert "3 rows were brought here, because column 'prompt' is of type List" in pilot.notes[-1]
    days = duckdb.sql("SELECT DATE '2020-01-01' AS level, 'a' AS prompt, 1.0 AS reward")
    assert gp.read_pilot(days, stratum="level").strata == ("2020-01-01",)


@pytest.mark.parametrize("engine", [*REMOTE, "polars"])
@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"prompt": ["a", "b"], "reward": [0.25, 1.0]}, {}, r"reward is 0.25, neither 0 nor 1.*values seen: 0.25"),
        (
            {"prompt": ["a", "b"], "reward": ["maybe", "C"]},
            {},
            r"reward is '?maybe'?.*neither a number nor a pass/fail word",
        ),
        (
            {"prompt": ["a", "b"], "reward": [0, 1]},
            {"where": {"split": "x"}},
            r"no column 'split' \(asked for by --where\)",
        ),
        (
            {"prompt": ["a", "b"], "reward": [0, 1], "set": ["x", "y"]},
            {"where": {"set": "z"}},
            r"no row fits --where.*first rows: set: x",
        ),
        ({"prompt": ["a", "b"], "reward": [0, 1], "model": ["x", "y"]}, {}, r"rollouts of 2 models \(x, y\)"),
        ({"prompt": [None, ""], "reward": [0, 1]}, {}, r"no rollout could be counted \(missing prompt: 2\)"),
        ({"prompt": ["a", "b"], "n": [4, 4], "k": [1, 5]}, {}, r"k = 5.* n = 4.*Swapped columns\?"),
        (
            {"prompt": ["a", "b"], "n": [4, 4], "k": [1, -1]},
            {},
            r"(whole number|whole numbers) (of at least 0|with 0 <= k)",
        ),
    ],
)
def test_bad_tables_are_refused_in_one_line(
    engine: str, table: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    types = {"prompt": pl.String}
    source = ENGINES[engine](pl.DataFrame(table, schema_overrides=types))
    for histogram in (None, True):
        with pytest.raises((gp.PilotFormatError, gp.PilotError), match=message) as error:
            gp.read_pilot(source, histogram=histogram, **options)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_table_is_refused(engine: str) -> None:
    with pytest.raises(gp.PilotFormatError, match="the dataframe: has no rows"):
        gp.read_pilot(ENGINES[engine](BASE.head(0)))


def test_texts_of_which_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_TEXTS", 3)
    table = pl.DataFrame(
        {"prompt": ["a", "b", "c", "d"], "reward": ["0.1", "0.2", "0.3", "0.4"], "x": ["0.70", "0.7", "1", "2"]}
    )
    source = ENGINES["duckdb"](table)
    with pytest.raises(gp.PilotFormatError, match="reward is text with more than 3 different values"):
        gp.read_pilot(source, pass_threshold=0.2)
    numbers = ENGINES["duckdb"](table.with_columns(pl.col("reward").cast(pl.Float64)))
    pilot = gp.read_pilot(numbers, pass_threshold=0.2, where={"x": ["0.7", "1"]})
    assert pilot.prompts == 2
    assert any("column 'x' has many values; --where compares them as plain text" in note for note in pilot.notes)
    monkeypatch.setattr(engines, "MOST_TEXTS", 4)
    assert gp.read_pilot(numbers, pass_threshold=0.2, where={"x": ["0.7", "1"]}).prompts == 3


def test_checks_of_rollouts_do_not_drain_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.DataFrame({"prompt": ["a", "a", "b", "b"] * 5, "reward": [1, 0, 0, 1] * 5})
    report = gp.read_independence(ENGINES["duckdb"](table))
    assert "20 rows were brought here, because checks of single rollouts read every row" in report.pilot.notes[-1]
    monkeypatch.setattr(engines, "MOST_PROMPTS", 10)
    with pytest.raises(gp.PilotFormatError, match="20 rows are too many to bring here"):
        gp.read_independence(ENGINES["duckdb"](table))
    assert gp.read_independence(dask_frame(table)).sequence is not None
    monkeypatch.setattr(dask_frames, "MOST_PROMPTS", 10)
    with pytest.raises(
        gp.PilotFormatError, match=r"20 rows are too many to bring here.* Write the table to files first"
    ):
        gp.read_independence(dask_frame(table))


def test_nothing_but_the_histogram_leaves_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest table that comes out of DuckDB is the sample of the first rows."""
    import narwhals as nw

    heights: list[int] = []
    collect = nw.LazyFrame.collect

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        found = collect(self, *arguments, **options)
        heights.append(len(found))
        return found

    monkeypatch.setattr(nw.LazyFrame, "collect", counted)
    table = duckdb.sql("SELECT i // 8 AS prompt, (hash(i) % 3 = 0)::INT AS reward FROM range(80000) t(i)")
    pilot = gp.read_pilot(table, histogram=True)
    assert (pilot.prompts, pilot.total_rollouts) == (10_000, 80_000)
    assert len(heights) == 2
    assert heights[1] <= 9


def sql_of_the_page() -> str:
    """The query that docs/scale.md offers to paste."""
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    query: str = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)[0]
    return query.replace("my_rollouts", "rollouts")


SQL_TABLE = BASE.filter(REWARD.is_finite() | REWARD.is_null(), pl.col("prompt_id") != "").with_columns(
    pl.when(pl.col("dataset") != "").then("dataset")
)


def assert_answers(rows: list[tuple[Any, ...]]) -> None:
    """The rows of the query are the histogram that is read directly."""
    table = pl.DataFrame(rows, schema=["dataset", "temperature", "n", "k", "prompts"], orient="row")
    expected = gp.read_pilot(SQL_TABLE)
    read = gp.read_pilot(table)
    assert cells_of(read) == cells_of(expected)
    direct = Pilot.from_histogram(
        table["n"].to_numpy(), table["k"].to_numpy(), table["prompts"].to_numpy(),
        stratum=table["dataset"].to_list(), temperature=table["temperature"].cast(pl.Float64).to_numpy(),
    )  # fmt: skip
    assert direct.prompts == expected.prompts


def test_the_query_to_paste_in_duckdb() -> None:
    connection = duckdb.connect()
    connection.register("rollouts", SQL_TABLE.to_arrow())
    assert_answers(connection.sql(sql_of_the_page()).fetchall())


def test_the_query_to_paste_where_scoring_failed_with_nan() -> None:
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    query = sql_of_the_page()
    changes = next(b for b in re.findall(r"```text\n(.*?)```", text, re.DOTALL) if "->" in b)
    for old, new in re.findall(r"^(\S.*?) +-> +(.*)$", changes, re.MULTILINE):
        assert query.count(old) == 1
        query = query.replace(old, new)
    table = BASE.filter(pl.col("prompt_id") != "").with_columns(pl.when(pl.col("dataset") != "").then("dataset"))
    connection = duckdb.connect()
    connection.register("rollouts", table.with_columns(REWARD * 0.7).to_arrow())
    found = gp.read_pilot(connection.sql(query).pl())
    assert cells_of(found) == cells_of(gp.read_pilot(table))
    assert found.dropped == {
        "prompts_without_scored_rollouts": gp.read_pilot(table).dropped["prompts_without_scored_rollouts"]
    }


def test_the_query_to_paste_in_sqlite() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE rollouts (prompt_id TEXT, reward REAL, dataset TEXT, temperature REAL)")
        rows = SQL_TABLE.select("prompt_id", "reward", "dataset", "temperature").rows()
        connection.executemany("INSERT INTO rollouts VALUES (?, ?, ?, ?)", rows)
        assert_answers(connection.execute(sql_of_the_page()).fetchall())
    finally:
        connection.close()
