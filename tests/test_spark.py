"""Spark, in a local session: the same answers, counted there; skipped without pyspark or Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.readers import engines
from tests.test_engines import (
    BASE,
    CASES,
    SQL_TABLE,
    assert_answers,
    assert_read_alike,
    cells_of,
    prompts_of,
    sql_of_the_page,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # sockets of the gateway to Java
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="pyspark is not installed (extra spark)")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17, and there is none on this machine")
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def frame(spark: Any, table: pl.DataFrame) -> Any:
    return spark.createDataFrame(table.to_arrow())


@pytest.mark.parametrize("case", ["where", "one temperature", "numbers as text", "whole numbers"])
def test_spark_reads_alike(spark: Any, case: str) -> None:
    assert_read_alike(frame(spark, CASES[case][0]), case)


def test_many_prompts_come_as_a_histogram(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "MOST_PROMPTS", 40)
    source = frame(spark, BASE)
    pilot = gp.read_pilot(source)
    assert pilot.is_histogram
    assert "only the histogram of (n, k) was brought here" in pilot.notes[-1]
    named = gp.read_pilot(source, histogram=False)
    assert prompts_of(named) == prompts_of(gp.read_pilot(BASE))
    assert cells_of(named) == cells_of(pilot)


def test_bad_tables_are_refused_in_one_line(spark: Any) -> None:
    graded = frame(spark, pl.DataFrame({"prompt": ["a", "b"], "reward": [0.25, 1.0]}))
    with pytest.raises(gp.PilotFormatError, match=r"reward is 0\.25, neither 0 nor 1"):
        gp.read_pilot(graded)
    with pytest.raises(gp.PilotFormatError, match="the dataframe: has no rows"):
        gp.read_pilot(graded.limit(0))
    swapped = frame(spark, pl.DataFrame({"prompt": ["a"], "n": [1], "k": [5]}))
    with pytest.raises(gp.PilotFormatError, match=r"k = 5 and n = 1. Swapped columns\?"):
        gp.read_pilot(swapped, histogram=True)


def test_the_query_to_paste_in_spark(spark: Any) -> None:
    frame(spark, SQL_TABLE).createOrReplaceTempView("rollouts")
    answer = spark.sql(sql_of_the_page())
    assert_answers([tuple(row) for row in answer.collect()])
    assert cells_of(gp.read_pilot(answer)) == cells_of(gp.read_pilot(SQL_TABLE))


def test_the_simulated_table_is_what_it_says(spark: Any) -> None:
    """The benchmark's rollouts have the pass rates that it names, and its answer holds the truth."""
    from tests.benchmarks.scale_spark import SQL

    pilot = gp.read_pilot(spark.sql(SQL.format(size=8, rollouts=160_000, partitions=1)), histogram=True)
    assert (pilot.prompts, pilot.total_rollouts, pilot.successes.size) == (20_000, 160_000, 9)
    u = (np.arange(100_000) + 0.5) / 100_000
    expected, spread = float(np.mean(u**2)), float(np.std(u**2))
    assert abs(pilot.mean_pass_rate - expected) < 5 * np.sqrt(spread**2 + 0.25 / 8) / np.sqrt(20_000)  # 1 in 2e6
    d = gp.fit_pass_rates(pilot).dead(8, level=0.999999)
    assert d.low <= float(np.mean(u**16 + (1 - u**2) ** 8)) <= d.high


def test_without_spark_nothing_of_it_is_imported() -> None:
    code = "import grpo_plan as gp, polars as pl, sys; gp.read_pilot(pl.DataFrame({'prompt': ['a'], 'reward': [1]}))"
    script = f"{code}; print([m for m in ('pyspark', 'dask', 'duckdb', 'pandas') if m in sys.modules])"
    root = Path(gp.__file__).parents[1]
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root)
    assert found.stdout.strip() == "[]"
