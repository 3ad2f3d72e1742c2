"""Every result shows itself in one line, as HTML, as Markdown and as a dataframe, and says the same in all of them."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan._shown import Shown
from grpo_plan.shown.fields import Column, columns_of
from grpo_plan.shown.registry import view_of, views
from tests.conftest import ROOT
from tests.shown_examples import NAME, diagnosed, examples, fitted, planned
from tests.test_cli import Run, document, run

__all__ = ["run"]  # a fixture

NOT_SHOWN = {
    **dict.fromkeys(
        (
            "BatchSplit", "Budget", "Convention", "CostModel", "Curriculum", "Design", "DiagnosisSettings",
            "GroupContent", "Hardware", "Hint", "KappaRange", "Refilling", "Scaling", "SimulatedPolicy",
            "SimulatedTraining",
        ),
        "an input: its own repr can be typed in again",
    ),
    **dict.fromkeys(("GradientProbe", "Monitor", "RunFollower"), "at work: its answers are results"),
    "CompositionBounds": "a tuple of arrays, made to be unpacked",
}  # fmt: skip
TYPES = {"int": pl.Int64, "float": pl.Float64, "text": pl.String, "flag": pl.Boolean}
MOST_ROWS = 14


def rows_of(html: str) -> list[list[str]]:
    """The cells of a table, the head first."""
    table = ElementTree.fromstring(html).find("table")
    return [] if table is None else [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_every_public_result_type_shows_itself() -> None:
    public = {name: getattr(gp, name) for name in gp.__all__ if inspect.isclass(getattr(gp, name))}
    results = {n: c for n, c in public.items() if not issubclass(c, Exception | Enum)}
    assert {name for name, kind in results.items() if not issubclass(kind, Shown)} == set(NOT_SHOWN)
    for kind in (k for k in results.values() if issubclass(k, Shown)):
        for method in ("_repr_html_", "_repr_markdown_", "to_frame"):
            assert getattr(kind, method) is getattr(Shown, method), kind
        assert kind.__name__ in views(), kind


def test_every_view_has_a_type_and_an_example() -> None:
    types = {kind.__name__ for kind in Shown.__subclasses__() if kind.__module__.startswith("grpo_plan.")}
    places = {(kind.__module__, kind.__name__) for kind in Shown.__subclasses__() if kind.__name__ in types}
    assert len(places) == len(types)  # a view is found by the name of the type alone
    assert set(views()) == types
    assert {type(result).__name__ for result in examples().values()} == types


def test_functions_that_return_results_return_shown_ones() -> None:
    for name in gp.__all__:
        if inspect.isfunction(found := getattr(gp, name)) and not name.startswith("plot"):
            for word in re.findall(r"[A-Z]\w+", str(inspect.signature(found).return_annotation)):
                if word not in {"Any", "Floats", "Iterator", "Mapping", "None", "DesignRules", "Update", *NOT_SHOWN}:
                    assert word in views(), (name, word)


def test_one_line_says_the_answer() -> None:
    for name, result in examples().items():
        line = repr(result)
        assert "\n" not in line, name
        assert 10 < len(line) < 340, (name, line)
        assert "array(" not in line, name
        assert "nan" not in line.lower().split(), name
        assert str(result), name


def test_html_is_well_formed_small_and_without_scripts_or_colours() -> None:
    for name, result in examples().items():
        html = result._repr_html_()
        tags = {element.tag for element in ElementTree.fromstring(html).iter()}
        assert tags <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "code", "br"}, name
        assert len(rows_of(html)) <= MOST_ROWS + 1, name
        for style in re.findall(r'style="([^"]*)"', html):
            assert not re.search(r"#[0-9a-f]{3}|black|\bwhite\b(?!-)|url\(", style), (name, style)
        assert "nan" not in re.findall(r"\w+", "".join(ElementTree.fromstring(html).itertext()).lower()), name


def test_text_of_users_stays_text() -> None:
    for name in ("pilot with odd names", "mix", "groups", "alert", "report"):
        result = examples()[name]
        html, markdown = result._repr_html_(), result._repr_markdown_()
        assert "<script" not in html + markdown, name
        texts = [" ".join(text.split()) for text in ElementTree.fromstring(html).itertext()]
        assert any('<script>alert("$x$ | *y*")</script>' in text for text in texts), name
        assert r'&lt;script&gt;alert("\$x\$ \| \*y\*")&lt;/script&gt; \`z\`' in markdown, name


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=40))
def test_any_text_can_be_a_name(text: str) -> None:
    pilot = gp.Pilot.from_counts([1, 2], 4, notes=(text,))
    shown = "".join(ElementTree.fromstring(pilot._repr_html_()).itertext())
    assert all(char in shown for char in text if char.isalnum())
    assert "<" not in pilot._repr_markdown_()


def test_markdown_tables_have_as_many_cells_in_every_row() -> None:
    for name, result in examples().items():
        markdown = result._repr_markdown_()
        lines = [line for line in markdown.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) <= 1, name
        assert len(lines) == 0 or len(lines) == len(rows_of(result._repr_html_())) + 1, name
        assert markdown.startswith(f"**{type(result).__name__}** "), name


def test_frames_have_the_columns_that_are_said_and_no_nan() -> None:
    for name, result in examples().items():
        frame, columns = result.to_frame(), list(columns_of(view_of(result).fields_of(result)))
        assert frame.schema == {c.name: TYPES[c.kind] for c in columns}, name
        assert len({c.name for c in columns}) == len(columns), name
        for series in frame.iter_columns():
            if series.dtype == pl.Float64:
                assert series.is_nan().sum() == 0, (name, series.name)
                assert series.is_infinite().sum() == 0, (name, series.name)
        for column in columns:
            if column.name.endswith("status"):
                assert column.kind == "text", name


def test_every_column_says_what_it_is() -> None:
    units = {
        "", "share", "prompts", "groups", "rollouts", "tokens", "steps", "rows", "files", "rounds", "s", "GPUs",
        "GPU-hours", "USD", "tokens/s", "nats", "of the name", "of its name", "groups or rollouts", "as its name says",
    }  # fmt: skip
    for name, view in views().items():
        if isinstance(view.fields, tuple):
            columns: list[Column] = list(columns_of(view.fields))
            assert all(re.fullmatch(r"[a-z][a-z0-9_]*", c.name) for c in columns), name
            assert all(c.meaning and not c.meaning.endswith(".") for c in columns), name
            assert {c.unit for c in columns} <= units, name


def test_what_is_not_known_is_null_and_said() -> None:
    unknown = examples()["fit of single rollouts"]
    frame = unknown.to_frame()
    assert frame["dead"].null_count() == frame.height
    assert set(frame["dead_status"]) == {"UNKNOWN"}
    assert "unknown [" in unknown._repr_html_()
    assert "Not known: stratum" not in examples()["pilot with odd names"]._repr_html_()
    assert '<div style="opacity:0.8">Not known: prefilled tokens' in examples()["solved"]._repr_html_()
    assert examples()["forecast, too short"].to_frame().height == 0
    assert examples()["refill that may never fill"].to_frame()["at"].to_list() == ["estimate", "low D"]
    passed = examples()["rollouts"].to_frame().filter(~pl.col("scored"))
    assert passed["passed"].to_list() == passed["reward"].to_list() == [None]


def test_frames_hold_the_numbers_of_the_result() -> None:
    plan, frame = planned(), planned().to_frame()
    assert frame["group_size"].to_list() == [p.design.group_size for p in plan.frontier]
    assert frame["dead_high"].to_list() == [p.dead.high for p in plan.frontier]
    assert frame.filter("recommended")["group_size"].to_list() == [plan.recommended.design.group_size]
    pilot = examples()["pilot with odd names"].to_frame()
    again = gp.read_pilot(pilot, prompt="prompt_id", n="rollouts", k="successes", stratum="stratum")
    assert again.successes.tolist() == [0, 3, 8, 4]
    assert pilot["prompt_id"].to_list() == [NAME, "b", "c", "d"]
    log = examples()["run"]
    assert isinstance(log, gp.RunLog)
    table = log.to_frame()
    assert table["step"].to_list() == log.steps.tolist()
    for metric, values in log.metrics.items():
        if metric in table.columns:
            assert np.allclose(table[metric].to_numpy(), values, equal_nan=True)
    advantages = gp.advantages([[1, None], [0, 1]], "dr_grpo").to_frame()
    assert advantages.rows()[1] == (0, 1, "unscored", None, 0.0)


def test_frames_hold_the_numbers_of_the_commands(run: Run, example_file: Path) -> None:
    fit = document(run("fit", str(example_file), "--json"))["dead"]
    frame = gp.fit_pass_rates(gp.read_pilot(str(example_file))).to_frame()
    names = {"group_size": "group_size", "value": "dead", "low": "dead_low", "high": "dead_high", "iid": "iid"}
    names |= {name: name for name in ("all_fail_low", "all_pass_high", "plug_in", "jensen_gap", "prompts_used")}
    for key, column in names.items():
        assert frame[column].to_list() == [row[key] for row in fit], key
    assert frame["identified_low"].to_list() == [row["identified"] and row["identified"][0] for row in fit]
    options = ("--budget-rollouts", "2e6", "--steps", "500", "--group-sizes", "4,8")
    frontier = document(run("plan", str(example_file), *options, "--json"))["frontier"]
    table = planned().to_frame().filter(pl.col("group_size").is_in([4, 8]))
    assert table["dead"].to_list() == [row["dead"]["value"] for row in frontier]
    assert table["mixed_groups_mean"].to_list() == [row["effective_batch"]["mixed_groups"]["mean"] for row in frontier]


def test_a_page_shows_what_the_command_prints(run: Run, example_file: Path) -> None:
    printed = run("plan", str(example_file), "--budget-rollouts", "2e6", "--steps", "500").out
    head, *rows = rows_of(planned()._repr_html_())
    assert head == ["G", "prompts", "dead", "mixed groups", "kappa 1", "kappa 300", "status"]
    for size, prompts, dead, mixed, low, high, status in rows:
        words = f"{size} {prompts} {dead}{'*' if status == 'EXTRAPOLATED' else ''} {mixed.replace(' to ', '-')} {low} {high}"
        assert words in re.sub(r" +", " ", printed), words
    fit_rows = rows_of(fitted()._repr_html_())[1:]
    text = run("fit", str(example_file)).out
    for size, dead, fail, passes, iid, status in fit_rows:
        mark = "*" if status == "EXTRAPOLATED" else ""
        assert f"{size} {dead}{mark} {fail} {passes} {iid}" in re.sub(r" +", " ", text)
    assert diagnosed().verdict in "".join(ElementTree.fromstring(diagnosed()._repr_html_()).itertext())


def test_other_dataframes_keep_whole_numbers_and_unknowns() -> None:
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    result = examples()["pilot plan"]
    first, frame = result.to_frame().rows(), result.to_frame(backend="pandas")
    assert str(frame["prompts"].dtype) == "Int64"
    assert frame["prompts"][0] is pd.NA
    assert [tuple(None if v is pd.NA else v for v in row) for row in frame.itertuples(index=False)] == first
    table = result.to_frame("pyarrow")
    assert isinstance(table, pa.Table)
    assert table.column("prompts").to_pylist() == [row[1] for row in first]


def test_another_backend_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = fitted().pilot
    with pytest.raises(gp.DomainError, match="backend must be one of polars, pandas, pyarrow; got 'dask'"):
        pilot.to_frame("dask")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(gp.MissingExtraError, match="needs pandas: pip install pandas") as caught:
        pilot.to_frame("pandas")
    assert "\n" not in str(caught.value)


def test_lines_and_pages_need_no_dataframe_library() -> None:
    code = (
        "import sys, grpo_plan as gp; fit = gp.fit_pass_rates(gp.Pilot.from_counts([0, 1, 4] * 20, 4)); "
        "repr(fit), str(fit), fit._repr_html_(), fit._repr_markdown_(), fit.pilot._repr_html_(); "
        "print(*[m for m in ('polars', 'pandas', 'pyarrow', 'matplotlib', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_results_can_still_be_copied_and_pickled() -> None:
    import copy
    import pickle

    for name in ("pilot", "plan", "effective batch", "forecast", "advantages"):
        result: Any = examples()[name]
        assert repr(pickle.loads(pickle.dumps(result))) == repr(result), name
        assert repr(copy.copy(result)) == repr(result), name


def test_a_result_without_a_view_is_a_mistake() -> None:
    class Odd(Shown):
        __slots__ = ()

    try:
        with pytest.raises(LookupError, match="nothing says what is shown of a Odd"):
            repr(Odd())
    finally:
        del Odd
        import gc

        gc.collect()


def test_no_cell_is_a_raw_float() -> None:
    for name, result in examples().items():
        for row in rows_of(result._repr_html_())[1:]:
            for cell in row:
                for figure in re.findall(r"(?<![\w.])\d+\.\d+", cell):
                    assert len(figure.replace(".", "").strip("0")) <= 9, (name, cell)
                    assert math.isfinite(float(figure))
