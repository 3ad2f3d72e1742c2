"""A pilot of cells says what the same prompts say one by one, is read from tables, and grows with cells only."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.pilot import Pilot
from grpo_plan.planning import strata
from grpo_plan.planning.allocation import allocate_rollouts
from tests.test_cli import Run, run

__all__ = ["run"]

Rows = list[tuple[int, int, int, str, float]]


@st.composite
def tables(draw: st.DrawFn, rows: int = 12, strata: int = 2, most: int = 9) -> Rows:
    """n, k, prompts, stratum and temperature of a few cells."""
    out = []
    for _ in range(draw(st.integers(1, rows))):
        n = draw(st.integers(1, most))
        k = draw(st.integers(0, n))
        out.append(
            (n, k, draw(st.integers(1, 25)), f"s{draw(st.integers(1, strata))}", draw(st.sampled_from([0.6, 1.0])))
        )
    return out


def pair(rows: Rows, *, stratum: bool = True, temperature: bool = True) -> tuple[Pilot, Pilot]:
    """The histogram, and its prompts one by one."""
    n, k, m, s, t = (list(c) for c in zip(*rows, strict=True))
    cells: dict[str, Any] = {"stratum": s} if stratum else {}
    cells |= {"temperature": t} if temperature else {}
    expanded: dict[str, Any] = {name: np.repeat(np.array(c), m) for name, c in cells.items()}
    return Pilot.from_histogram(n, k, m, **cells), Pilot.from_counts(np.repeat(k, m), np.repeat(n, m), **expanded)


def same(a: object, b: object, path: str = "") -> None:
    """Equal in every number, to rounding; arrays of prompts are not looked into."""
    if isinstance(a, Pilot):
        assert isinstance(b, Pilot)
        ha, hb = a.histogram(), b.histogram()
        for name in ("rollouts", "successes", "prompts"):
            np.testing.assert_array_equal(getattr(ha, name), getattr(hb, name), err_msg=path)
    elif isinstance(a, float) and isinstance(b, float):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-11, nan_ok=True), path
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-9, atol=1e-11, err_msg=path)
    elif isinstance(a, dict):
        assert isinstance(b, dict)
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, tuple | list):
        assert isinstance(b, tuple | list)
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}[{i}]")
    elif hasattr(a, "__dataclass_fields__"):
        for name in a.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name), f"{path}.{name}")
    elif not callable(a):
        assert a == b, path


@settings(max_examples=40)
@given(tables())
def test_sizes_and_parts_are_those_of_the_prompts(rows: Rows) -> None:
    cells, prompts = pair(rows)
    assert (cells.is_histogram, prompts.is_histogram) == (True, False)
    same(cells, prompts)
    for name in ("prompts", "total_rollouts", "strata", "temperatures"):
        assert getattr(cells, name) == getattr(prompts, name)
    assert cells.mean_pass_rate == pytest.approx(prompts.mean_pass_rate, rel=1e-12)
    assert cells.median_rollouts == prompts.median_rollouts == np.median(prompts.rollouts)
    parts, by_prompt = cells.by_stratum(), prompts.by_stratum()
    assert list(parts) == list(by_prompt)
    for name, part in parts.items():
        same(part, by_prompt[name])
    same(cells.select(temperature=rows[0][4]), prompts.select(temperature=rows[0][4]))
    same(
        cells.select(stratum=rows[0][3], temperature=rows[0][4]),
        prompts.select(stratum=rows[0][3], temperature=rows[0][4]),
    )
    same(prompts.as_histogram(), prompts)
    again = cells.as_histogram()
    assert again.stratum is not None
    assert again.temperature is not None
    assert again.prompt_count is not None
    keys = zip(
        again.rollouts.tolist(), again.successes.tolist(), again.stratum, again.temperature.tolist(), strict=True
    )
    expected: Counter[tuple[int, int, str, float]] = Counter()
    for n, k, m, s, t in rows:
        expected[n, k, s, t] += m
    assert dict(zip(keys, again.prompt_count.tolist(), strict=True)) == expected


@settings(max_examples=10)
@given(tables(rows=8), st.sampled_from([2, 4, 16]))
def test_fits_and_plans_are_those_of_the_prompts(rows: Rows, group_size: int) -> None:
    cells, prompts = pair(rows, temperature=False)
    fits = [gp.fit_pass_rates(p) for p in (cells, prompts)]
    assert fits[0].statuses == fits[1].statuses
    for level in (0.9, 0.95):
        same(fits[0].dead(group_size, level), fits[1].dead(group_size, level))
        same(fits[0].mean_pass_rate_interval(level), fits[1].mean_pass_rate_interval(level))
    answers = []
    for fit in fits:
        try:
            answers.append(gp.refill(fit, prompts_per_step=8, group_size=group_size).at_value)
        except gp.GrpoPlanError as error:
            answers.append(str(error))  # type: ignore[arg-type]
    same(answers[0], answers[1])


def both(rows: Rows, **options: bool) -> list[Pilot]:
    return list(pair(rows, **options))


SHAPES: Rows = [
    (n, k, int(m), s, t)
    for s, t, shift in (("easy", 0.6, 5), ("hard", 1.0, 0))
    for n, top in ((8, 40), (4, 9))
    for k, m in enumerate(np.round(top * np.exp(-0.5 * ((np.arange(n + 1) - shift * n / 8) / 2.2) ** 2)) + 1)
]


SMALL = [row for row in SHAPES if row[0] == 4]


def test_group_size_plan_is_that_of_the_prompts() -> None:
    plans = [
        gp.plan_group_size(gp.fit_pass_rates(p), budget=gp.Budget(rollouts=200_000, steps=100), kappa=10.0)
        for p in both(SHAPES, temperature=False)
    ]
    same(plans[0].recommended, plans[1].recommended)
    same(plans[0].frontier, plans[1].frontier)


def test_pilot_size_is_that_of_the_prompts() -> None:
    fits = [gp.fit_pass_rates(p) for p in both(SMALL, temperature=False)]
    first, second = (gp.plan_pilot(fit, target_group_size=4, half_width=0.05) for fit in fits)
    same(first, second)


@pytest.mark.parametrize("options", [{}, {"buckets": True}, {"buckets": True, "correction": "halves", "group_size": 2}])
def test_mix_is_that_of_the_prompts(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strata, "REFIT_REPLICATES", 4)  # each is a fit
    monkeypatch.setattr(strata, "REFIT_SPLITS", 2)
    arguments: dict[str, Any] = {"group_size": 4, "kappa": 10.0, **options}
    first, second = (gp.plan_mix(p, **arguments) for p in both(SMALL, temperature=False))
    same(first, second)


def test_two_temperatures_are_compared_as_separate_samples() -> None:
    plans = [gp.plan_temperature(p, group_size=4) for p in both(SHAPES, stratum=False)]
    same(plans[0].differences, plans[1].differences)
    assert plans[0].verdict == plans[1].verdict
    assert "a histogram has no names to pair prompts by" in plans[0].notes[-1]
    assert "share too few named prompts" in plans[1].notes[-1]
    odd = Pilot.from_histogram(4, [1, 2, 3], [5, 6, 7], temperature=[0.6, 1.0, np.nan])
    assert "7 prompts of unknown temperature" in gp.plan_temperature(odd, group_size=4).notes[0]


def test_the_picture_is_that_of_the_prompts() -> None:
    from matplotlib.figure import Figure

    heights = []
    for p in both(SHAPES, temperature=False):
        ax = gp.plot_pass_rates(gp.fit_pass_rates(p), Figure().subplots())
        heights.append([patch.get_height() for patch in ax.patches])  # type: ignore[attr-defined]
    assert heights[0] == heights[1]


def test_rollouts_are_not_allocated_to_cells() -> None:
    cells, prompts = pair(SHAPES, temperature=False)
    assert allocate_rollouts(gp.fit_pass_rates(prompts), 4 * prompts.prompts).rollouts.size == prompts.prompts
    with pytest.raises(
        gp.PilotError, match=r"a histogram has none by itself. Read counts a prompt \(histogram=False\)"
    ):
        allocate_rollouts(gp.fit_pass_rates(cells), 4 * cells.prompts)


def test_a_billion_prompts_take_no_room() -> None:
    counts = np.array([403, 60, 45, 40, 38, 37, 36, 41, 300]) * 1_000_000
    pilot = Pilot.from_histogram(8, np.arange(9), counts, stratum=["a"] * 4 + ["b"] * 5)
    assert (pilot.prompts, pilot.total_rollouts, pilot.successes.size) == (1_000_000_000, 8_000_000_000, 9)
    d = gp.fit_pass_rates(pilot).dead(8)
    assert d.value == pytest.approx(0.703, abs=1e-12)
    assert d.high - d.low == pytest.approx(2 * 1.96 * np.sqrt(0.703 * 0.297 / 1e9), rel=0.3)
    mix = gp.plan_mix(pilot, group_size=8, kappa=10.0)
    assert sum(mix.shares.values()) == pytest.approx(1.0)


def test_halves_of_very_many_prompts() -> None:
    counts = np.array([7, 900_000_000, 200_000_000])
    half = strata._half(counts, np.random.default_rng(5))
    assert np.all(np.abs(half - counts / 2) <= 5 * np.sqrt(counts / 4) + 1)
    exact = strata._half(counts[:1], np.random.default_rng(5))
    assert exact.tolist() == [3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([4], [5], [1]), "successes must not exceed rollouts"),
        (([4], [1], [-1]), "prompts must be whole numbers of at least 0; got -1 at index 0"),
        (([4], [1], [0.5]), "prompts must be whole numbers"),
        (([4, 4], [1, 2], [3]), "successes and prompts must have one length; got 2 and 1"),
        (([4], [1], [0]), "at least one prompt with a scored rollout; got none."),
        (([0], [0], [7]), r"got none \(prompts without scored rollouts: 7\)"),
        (([4], [1], [2**52]), r"rollouts times prompts must be at most 2\*\*53 in all; got 1.8e\+16"),
    ],
)
def test_impossible_histograms_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(gp.PilotError, match=message):
        Pilot.from_histogram(*arguments)


def test_cells_without_prompts_or_rollouts_are_left_out() -> None:
    pilot = Pilot.from_histogram([4, 4, 0, 4], [1, 2, 0, 1], [3, 0, 5, 4], dropped={"missing_reward": 2})
    assert (pilot.successes.tolist(), pilot.prompts) == ([1, 1], 7)
    assert pilot.dropped == {"missing_reward": 2, "prompts_without_scored_rollouts": 5}
    assert pilot.as_histogram().prompt_count.tolist() == [7]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="read-only"):
        pilot.prompt_count[0] = 1  # type: ignore[index]
    assert repr(pilot).startswith("Pilot(prompts=7, total_rollouts=28, mean_pass_rate=0.2500")


CELLS = pl.DataFrame({"n": [4, 4, 8, 0], "k": [0, 2, 8, 0], "prompts": [10, 5, 3, 2]})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet", "frame", "lazy", "pandas", "pyarrow", "duckdb"])
def test_tables_of_cells_are_read(kind: str, tmp_path: Path) -> None:
    source: Any = tmp_path / f"cells.{kind}"
    if kind == "csv":
        CELLS.write_csv(source)
    elif kind == "jsonl":
        CELLS.write_ndjson(source)
    elif kind == "json":
        source.write_text(json.dumps(CELLS.to_dicts()))
    elif kind == "parquet":
        CELLS.write_parquet(source)
    elif kind == "duckdb":
        source = pytest.importorskip("duckdb").from_arrow(CELLS.to_arrow())
    else:
        source = {"frame": CELLS, "lazy": CELLS.lazy(), "pandas": CELLS.to_pandas(), "pyarrow": CELLS.to_arrow()}[kind]
    pilot = gp.read_pilot(source)
    assert pilot.is_histogram
    assert (pilot.prompts, pilot.total_rollouts) == (18, 84)
    assert pilot.dropped == {"prompts_without_scored_rollouts": 2}
    assert (
        "a histogram, one row a number of prompts with the same counts; n = 'n', k = 'k', prompt_count = 'prompts'."
        in pilot.notes[0]
    )
    assert len(pilot.notes) == 1


@pytest.mark.parametrize(
    ("rename", "given"),
    [
        ({"prompts": "num_prompts"}, {}),
        ({"prompts": "count"}, {}),
        ({"prompts": "frequency", "n": "num_rollouts", "k": "num_correct"}, {}),
        ({"prompts": "x"}, {"prompt_count": "x"}),
        ({"k": "correct"}, {}),
    ],
)
def test_the_column_of_prompts_goes_by_several_names(rename: dict[str, str], given: dict[str, str]) -> None:
    assert gp.read_pilot(CELLS.rename(rename), **given).prompts == 18  # type: ignore[arg-type]


def test_cells_have_strata_temperatures_rates_and_row_numbers() -> None:
    table = pl.DataFrame(
        {
            "index": [0, 1, 2, 3],
            "pass_rate": [0.5, 0.25, None, 1.0],
            "dataset": ["a", None, "a", "b"],
            "temperature": [0.6, 1.0, 1.0, None],
            "model": ["m", None, "m", "m"],
            "prompts": [3, 4, 5, None],
        }
    )
    pilot = gp.read_pilot(table, rollouts_per_prompt=4)
    assert (pilot.successes.tolist(), pilot.prompt_count.tolist()) == ([2, 1], [3, 4])  # type: ignore[union-attr]
    assert (pilot.strata, pilot.temperatures) == (("a", "(none)"), (0.6, 1.0))
    assert pilot.dropped == {"prompts_with_missing_counts": 5, "cells_without_a_number_of_prompts": 1}
    assert pilot.provenance.policies == ("m",)
    one = gp.read_pilot(table.filter(pl.col("temperature") != 0.6), rollouts_per_prompt=4)
    assert one.temperatures == (1.0,)


@pytest.mark.parametrize("name", ["pass_rate", "fail_rate"])
def test_cells_with_rates_of_which_nothing_names_n(name: str) -> None:
    table = pl.DataFrame({name: [k / 8 for k in range(9)] * 5, "prompts": [3] * 45})
    pilot = gp.read_pilot(table)
    assert (pilot.prompts, set(pilot.rollouts.tolist())) == (135, {8})
    wanted = [8 - k for k in range(9)] if name == "fail_rate" else list(range(9))
    assert pilot.successes.tolist() == wanted
    assert "n = 8 assumed" in " ".join(pilot.notes)


def test_ordinary_tables_are_not_taken_for_histograms() -> None:
    named = CELLS.with_columns(pl.Series("prompt_id", ["a", "b", "c", "d"]))
    pilot = gp.read_pilot(named)
    assert (pilot.is_histogram, pilot.prompts) == (False, 3)
    assert "column 'prompts' is not used: column 'prompt_id' names single prompts" in " ".join(pilot.notes)
    beside = CELLS.rename({"prompts": "count"}).with_columns(pl.lit("x").alias("other"))
    assert not gp.read_pilot(beside).is_histogram
    rollouts = pl.DataFrame({"prompt": ["a", "a"], "reward": [1, 0], "prompts": [5, 5], "count": [1, 1]})
    assert not gp.read_pilot(rollouts).is_histogram
    texts = CELLS.with_columns(pl.Series("prompts", ["What?", "Why?", "How?", "Who?"]))
    assert not gp.read_pilot(texts).is_histogram


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ({"n": [4], "k": [5], "prompts": [1]}, {}, r"row 1: k = 5 exceeds n = 4. Swapped columns\?"),
        ({"n": [4], "k": [2], "prompts": [-1]}, {}, "row 1: prompts must be a whole number of at least 0; got -1"),
        (
            {"n": [4], "k": [2], "x": [1.5]},
            {"prompt_count": "x"},
            "row 1: x must be a whole number of at least 0; got 1.5",
        ),
        (
            {"n": [4], "k": [2], "p": ["a"], "x": [1]},
            {"prompt_count": "x", "prompt": "p"},
            "a row is one prompt .* or many",
        ),
        (
            {"prompt": ["a"], "reward": [2], "x": [1]},
            {"prompt_count": "x"},
            "column 'x' counts prompts, so each row needs",
        ),
        ({"n": [4, 4], "k": [2, 1], "prompts": [1, 2], "model": ["a", "b"]}, {}, r"rollouts of 2 models \(a, b\)"),
    ],
)
def test_histograms_that_cannot_be_read(table: dict[str, Any], given: dict[str, str], message: str) -> None:
    with pytest.raises(gp.PilotFormatError, match=message):
        gp.read_pilot(pl.DataFrame(table), **given)  # type: ignore[arg-type]


def test_cells_and_prompts_do_not_mix_and_are_not_checked(tmp_path: Path) -> None:
    CELLS.write_csv(tmp_path / "a.csv")
    pl.DataFrame({"prompt": ["a"], "n": [4], "k": [1]}).write_csv(tmp_path / "b.csv")
    with pytest.raises(gp.PilotFormatError, match="some tables hold a histogram and some single prompts"):
        gp.read_pilot([tmp_path / "a.csv", tmp_path / "b.csv"])
    CELLS.write_csv(tmp_path / "c.csv")
    twice = gp.read_pilot([tmp_path / "a.csv", tmp_path / "c.csv"])
    assert twice.prompts == 36
    with pytest.raises(gp.PilotFormatError, match="a histogram has no single rollouts to check"):
        gp.read_independence(tmp_path / "a.csv")


def test_names_and_lengths_can_be_left_behind(tmp_path: Path) -> None:
    table = pl.DataFrame({"prompt": ["a", "a", "b", "b", "c", "c"], "reward": [1, 0, 0, 1, 1, 1], "tokens": [3] * 6})
    table.write_parquet(tmp_path / "t.parquet")
    for source in (table, table.lazy(), tmp_path / "t.parquet"):
        pilot = gp.read_pilot(source, histogram=True)
        assert (pilot.is_histogram, pilot.prompts, pilot.prompt_id, pilot.response_tokens) == (True, 3, None, None)
        assert pilot.prompt_count.tolist() == [2, 1]  # type: ignore[union-attr]
        assert "response lengths are left out: a histogram has none." in pilot.notes[-1]
    with pytest.raises(gp.DomainError, match="histogram must be True, False or None; got 'yes'"):
        gp.read_pilot(table, histogram="yes")  # type: ignore[arg-type]


def test_the_commands_take_a_histogram(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    pl.DataFrame({"n": [8] * 9, "k": list(range(9)), "x": [300, 20, 20, 20, 20, 20, 20, 20, 160]}).write_csv(path)
    pilot = json.loads(run("fit", path, "--prompt-count-column", "x", "--json").out)["pilot"]
    assert pilot["prompts"] == 600
    assert pilot["rollouts_per_prompt"] == {"min": 8, "median": 8.0, "max": 8}
    refused = run("allocate", path, "--prompt-count-column", "x")
    assert refused.code == 1
    assert "a histogram has none by itself" in refused.err
