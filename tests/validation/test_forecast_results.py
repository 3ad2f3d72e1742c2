"""Committed forecasts, and what the page says of them. Needs no torch."""

from __future__ import annotations

import csv
import doctest
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from figures.validation import forecast_page, public_logs
from figures.validation.forecast_counts import (
    DEAD,
    MORE,
    PARTS,
    PILOTS,
    PROMPTS,
    ROLLOUTS,
    SIZES,
    UNIT,
    forecast_pilot,
    plug_in,
    pooled,
    score,
    shares,
)
from figures.validation.forecast_tables import Group, groups
from grpo_plan.fitting.intervals import wilson_interval
from tests.conftest import ROOT


@pytest.mark.parametrize("start", ["sum", "either", "easy"])
def test_forecasts_follow_from_the_committed_counts(start: str) -> None:
    """Two pilots of each start at every n; a unit is a ten-thousandth."""
    kept = pl.read_parquet(DEAD).join(pl.read_parquet(PARTS), on=["start", "pilot", "n", "group"])
    pilots = pl.read_parquet(PILOTS).filter((pl.col("start") == start) & pl.col("pilot").is_in([0, 77]))
    assert pilots.height == 2 * len(ROLLOUTS)
    for pilot, n, counts in pilots.select("pilot", "n", "counts").iter_rows():
        assert sum(counts) == PROMPTS
        for row in forecast_pilot(np.array(counts, dtype=np.int64)):
            here = (pl.col("start") == start) & (pl.col("pilot") == pilot) & (pl.col("n") == n)
            old = kept.filter(here & (pl.col("group") == row["group"])).to_dicts()[0]
            assert row.pop("status") == old["status"]
            for name, value in row.items():
                assert old[name] == pytest.approx(value, abs=1.01), (pilot, n, name)


def test_the_committed_forecasts_are_complete() -> None:
    kept = pl.read_parquet(DEAD).group_by("start").len()
    assert dict(kept.iter_rows()) == {
        s: c * len(ROLLOUTS) * len(SIZES) for s, c in (("sum", 400), ("either", 100), ("easy", 100))
    }
    assert all(path.stat().st_size < 300_000 for path in (DEAD, PARTS, PILOTS, MORE))


@pytest.mark.parametrize("n", ROLLOUTS)
def test_bias_is_that_of_counted_dead_prompts(n: int) -> None:
    """At G = n the forecast is the share of prompts of 0 and n passes: the bias, from counts and no fit."""
    pilots = pl.read_parquet(PILOTS).filter((pl.col("start") == "sum") & (pl.col("n") == n))
    counts = np.array(pilots["counts"].to_list())
    dead = (counts[:, 0] + counts[:, -1]) / PROMPTS
    found = forecast_page.cells()["sum", n, n]["dead"]
    exact = forecast_page.truth()["sum"]["groups"][str(n)]["dead"]
    assert found.bias == pytest.approx(dead.mean() - exact, abs=1 / UNIT)
    assert found.rmse == pytest.approx(np.sqrt(((dead - exact) ** 2).mean()), abs=1 / UNIT)


def test_score_counts_and_measures() -> None:
    s = score(np.array([0.5, 0.7, np.nan]), np.array([0.4, 0.65, 0.0]), np.array([0.6, 0.9, 1.0]), 0.6)
    assert (s.count, s.inside) == (3, 2)
    assert s.bias == pytest.approx(0.0)
    assert s.rmse == pytest.approx(0.1)
    assert s.bias_error == pytest.approx(0.1)
    assert s.width == pytest.approx((0.2 + 0.25 + 1.0) / 3)
    assert s.covered_limits == pytest.approx(wilson_interval(2 / 3, 3.0, 0.95))


def test_rivals_are_their_formulas() -> None:
    counts = np.array([[1, 2, 1]])
    assert plug_in(counts, 2)[0] == pytest.approx((1 + 2 * 0.5 + 1) / 4)
    assert pooled(counts, 2)[0] == pytest.approx(0.5)
    assert shares(np.array([0.0, 0.5]), 2) == pytest.approx({"dead": 0.75, "all_pass": 0.125, "all_fail": 0.625})


def test_predictions_of_one_pilot_count_once() -> None:
    rows = pl.DataFrame(
        {
            "number": [1, 1, 2, 2], "value": [0.5, 0.5, 0.4, 0.6], "low": [0.4] * 4, "high": [0.6, 0.6, 0.6, 0.6],
            "measured": [0.5, 0.7, 0.5, 0.5],
        }
    )  # fmt: skip
    each, joint = Group("", "", rows), Group("", "", rows, joint=True)
    assert (each.predictions, each.units, each.inside) == (4, 2, 0.75)
    assert (joint.predictions, joint.inside) == (2, 0.5)
    assert each.inside_limits == pytest.approx(wilson_interval(0.75, 2.0, 0.95))
    assert each.error == pytest.approx((-0.05, 0.05))
    assert each.absolute_error == pytest.approx(0.1)
    assert each.width == pytest.approx(0.2)


def test_every_kind_of_prediction_is_in_the_table() -> None:
    found = groups(MORE)
    wanted = {"step 8": 400, "list 8": 400, "refill prompts": 400, "temperature 8": 180, "temperatures 8": 60}
    wanted |= {"mix": 150, "recovery sum": 200, "drift 80": 16, "drift 120": 16}
    assert {name: found[name].predictions for name in wanted} == wanted
    assert found["study"].predictions >= 40
    for group in found.values():
        assert group.inside_limits[0] <= group.inside <= group.inside_limits[1]
        assert (group.rows["low"] <= group.rows["high"]).all()


def test_published_logs(real_data: Path) -> None:
    """The counts that are kept are those of the file."""
    by_prompt: dict[str, dict[int, int]] = {}
    with (real_data / "oneshot_rlvr_dsr1209_grpo_visits_G8.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            by_prompt.setdefault(row["prompt_id"], {})[int(row["visit"])] = int(row["k"])
    for g, (all_pass, all_fail) in public_logs.ONE_SHOT_LATER.items():
        passes = np.array([sum(visits[v] for v in range(1, g // 8 + 1)) for visits in by_prompt.values()])
        assert (int((passes == g).sum()), int((passes == 0).sum()), passes.size) == (all_pass, all_fail, 1209)


def test_public_logs_are_foretold() -> None:
    assert doctest.testmod(public_logs).failed == 0


def test_the_page_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from figures.validation.forecast_page import page; print(page())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.rstrip("\n") == forecast_page.page().rstrip("\n")
    assert [line for line in done.stdout.splitlines() if line.startswith("## ")] == [
        "## The dead fraction, forecast",
        "## Steps, refills, temperatures, mixes, drift",
        "## Public logs",
    ]
    assert "nan" not in done.stdout
    lines = done.stdout.splitlines()
    assert all(a.count("|") == b.count("|") for a, b in itertools.pairwise(lines) if a[:1] == b[:1] == "|")
