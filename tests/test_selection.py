"""Rows of a table by training step and split, groups that are kept apart, and what pooled steps mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.errors import DomainError, PilotFormatError
from grpo_plan.fitting.status import FitStatus
from tests.test_cli import Run
from tests.test_cli import run as command  # noqa: F401, a fixture

ROWS = [
    {"prompt_id": f"p{i}", "step": step, "split": "eval" if step == 3 else "train", "reward": (i + j + step) % 2}
    for step in (1, 2, 3)
    for i in range(4)
    for j in range(4)
]
COUNTS = [{"prompt_id": f"p{i}", "visit": v, "n": 8, "k": (i + v) % 9} for v in range(3) for i in range(9)]
LISTS = [{"prompt_id": f"p{i}", "step": s, "rewards": [1, 0, 1, 1]} for s in range(3) for i in range(9)]


def sources(rows: list[dict[str, Any]], folder: Path) -> dict[str, object]:
    """One table as every kind of source."""
    duckdb = pytest.importorskip("duckdb")
    frame = pl.DataFrame(rows)
    jsonl, array, parquet, csv = (folder / f"t.{kind}" for kind in ("jsonl", "json", "parquet", "csv"))
    jsonl.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    array.write_text(json.dumps(rows), encoding="utf-8")
    frame.write_parquet(parquet)
    found: dict[str, object] = {"jsonl": jsonl, "json": array, "parquet": parquet, "polars": frame}
    found |= {"lazy": frame.lazy(), "pandas": pd.DataFrame(rows), "arrow": frame.to_arrow()}
    if not any(isinstance(v, list) for v in rows[0].values()):
        frame.write_csv(csv)
        found["csv"] = csv
    arrow_rows = frame.to_arrow()  # noqa: F841 - DuckDB finds it by name
    return found | {"duckdb": duckdb.sql("select * from arrow_rows")}


@pytest.mark.parametrize("rows", [ROWS, COUNTS, LISTS], ids=["long", "wide", "lists"])
def test_policy_steps_filter_tables_of_every_kind(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    name = "visit" if rows is COUNTS else "step"
    kept = sum(r[name] in (1, 2) for r in rows)
    for kind, source in sources(rows, tmp_path).items():
        pilot = gp.read_pilot(source, policy_steps=(1, 2), split="all")
        assert pilot.dropped == {"rows_outside_policy_steps": len(rows) - kept}, kind
        assert (pilot.provenance.policy_steps, pilot.provenance.step_count) == ((1, 2), 2), kind
        assert pilot.provenance.rows == len(rows), kind
        with pytest.raises(PilotFormatError, match=f"the steps are {min(r[name] for r in rows)} to "):
            gp.read_pilot(source, policy_steps=(7, None), split="all")


def test_policy_steps_filter_dask() -> None:
    dask = pytest.importorskip("dask.dataframe")
    pilot = gp.read_pilot(dask.from_pandas(pd.DataFrame(ROWS), npartitions=3), policy_steps=(1, 1))
    assert pilot.dropped["rows_outside_policy_steps"] == 32
    assert pilot.total_rollouts == 16
    assert pilot.provenance.policy_steps == (1, 1)


def test_split_keeps_the_rows_asked_for(tmp_path: Path) -> None:
    for kind, source in sources(ROWS, tmp_path).items():
        train, held, both = (gp.read_pilot(source, split=split) for split in ("train", "eval", "all"))
        assert (train.total_rollouts, held.total_rollouts, both.total_rollouts) == (32, 16, 48), kind
        assert (train.dropped, held.dropped, both.dropped) == ({"eval_rows": 16}, {"train_rows": 32}, {}), kind
    only = [r for r in ROWS if r["split"] == "train"]
    with pytest.raises(PilotFormatError, match=r"no row fits --split eval; there are 32 of train"):
        gp.read_pilot(pl.DataFrame(only), split="eval")
    named = [{"prompt_id": str(i), "n": 8, "k": 3, "split": "test"} for i in range(4)]
    assert gp.read_pilot(pl.DataFrame(named)).prompts == 4


def test_what_a_table_cannot_do_is_refused(command: Run, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "t.csv"
    path.write_text("prompt_id,n,k\na,8,3\nb,8,1\n", encoding="utf-8")
    for option in (("--policy-steps", "1:2"), ("--split", "eval")):
        result = command("fit", path, *option)
        assert result.code == 1
        assert "--where" in result.err
    assert command("fit", path, "--policy-steps", "-1:").code == 2
    with pytest.raises(DomainError, match="not counted from the end"):
        gp.read_pilot(path, policy_steps=(-1, None))
    words = pl.DataFrame({"prompt_id": ["a", "b"], "step": ["x", "y"], "n": [8, 8], "k": [1, 2]})
    with pytest.raises(PilotFormatError, match="--where"):
        gp.read_pilot(words, policy_steps=(1, 2))
    assert any("--where 'step=y'" in note for note in gp.read_pilot(words).notes)


def test_pooled_steps_are_a_status_and_one_step_is_none() -> None:
    table = pl.DataFrame(COUNTS * 1)
    pooled = gp.read_pilot(table)
    assert gp.fit_pass_rates(pooled).status is FitStatus.POOLED_POLICIES
    assert any("--policy-steps 2 keeps the last alone" in note for note in pooled.notes)
    for last in (gp.read_pilot(table, policy_steps=(2, None)), gp.read_pilot(table, where={"visit": 2})):
        assert FitStatus.POOLED_POLICIES not in gp.fit_pass_rates(last).statuses
        assert not any("--policy-steps" in note for note in last.notes)


def survivors() -> tuple[pl.DataFrame, int]:
    """Mixed groups of 60 prompts over 20 visits, and how many dead ones are missing."""
    rng = np.random.default_rng(5)
    rates = rng.beta(0.4, 0.5, 60)
    k = rng.binomial(8, np.tile(rates, 20))
    whole = pl.DataFrame({"prompt_id": np.tile(np.arange(60), 20).astype(str), "n": 8, "k": k})
    mixed = whole.filter((pl.col("k") > 0) & (pl.col("k") < 8))
    return mixed, whole.height - mixed.height


def test_survivors_of_several_visits_look_filtered_though_merged(tmp_path: Path) -> None:
    mixed, _ = survivors()
    lists = mixed.select("prompt_id", rewards=pl.struct("n", "k").map_elements(
        lambda r: [1] * r["k"] + [0] * (r["n"] - r["k"]), return_dtype=pl.List(pl.Int64)))  # fmt: skip
    path = tmp_path / "s.csv"
    mixed.write_csv(path)
    for source in (mixed, path, lists):
        assert FitStatus.LOOKS_FILTERED in gp.fit_pass_rates(gp.read_pilot(source)).statuses


def test_groups_apart_keep_a_row_a_group(command: Run, tmp_path: Path) -> None:  # noqa: F811
    mixed, dead = survivors()
    path = tmp_path / "s.csv"
    mixed.write_csv(path)
    pilot = gp.read_pilot(path, groups_apart=True)
    assert (pilot.prompts, set(pilot.rollouts.tolist())) == (mixed.height, {8})
    assert pilot.prompt_id is not None
    assert set(pilot.prompt_id.tolist()) == set(mixed["prompt_id"].to_list())
    fitted = json.loads(command("fit", path, "--dropped-groups", str(dead), "--group-sizes", "8", "--json").out)
    assert abs(fitted["dead"][0]["value"] - dead / (dead + mixed.height)) < 1e-6
    steps = [{**r, "prompt_id": "p"} for r in ROWS]
    apart = gp.read_pilot(pl.DataFrame(steps), groups_apart=True, split="all")
    assert apart.rollouts.tolist() == [16, 16, 16]


def test_no_dropped_group_is_an_ordinary_fit() -> None:
    pilot = gp.Pilot.from_counts(439 * [0] + 151 * [1] + 619 * [5], 8)
    ordinary = gp.fit_pass_rates(pilot)
    for zero in (0, (0, 0)):
        fitted = gp.fit_pass_rates(pilot, dropped_groups=zero)
        assert (fitted.statuses, fitted.truncation) == (ordinary.statuses, None)
        assert fitted.dead(8).interval == ordinary.dead(8).interval
    mixed, _ = survivors()
    doubtful = gp.fit_pass_rates(gp.read_pilot(mixed), dropped_groups=0)
    assert FitStatus.DROPPED_COUNT_DOUBTFUL in doubtful.statuses


@pytest.mark.parametrize("threshold", [2.0, 0.0])
def test_a_threshold_that_no_or_every_reward_reaches_is_said(threshold: float, tmp_path: Path) -> None:
    rows = [{"prompt_id": f"p{i // 4}", "reward": (0.0, 0.5, 1.5, 1.0)[i % 4]} for i in range(40)]
    said = "above the largest reward seen, 1.5" if threshold else "not above the smallest reward, 0"
    for kind, source in sources(rows, tmp_path).items():
        notes = gp.read_pilot(source, pass_threshold=threshold).notes
        assert any(said in note for note in notes), kind
        assert not any("rollout passes:" in n for n in gp.read_pilot(source, pass_threshold=0.5).notes), kind


def test_a_column_a_run_is_named() -> None:
    rows = [{"prompt": f"p{i}"} | {f"run{j}": (i + j) % 2 for j in range(8)} for i in range(6)]
    with pytest.raises(
        PilotFormatError, match=r"8 columns hold 0 and 1 \(run0, run1, \.\.\., run7\).*one row a rollout"
    ):
        gp.read_pilot(pl.DataFrame(rows))


@pytest.mark.parametrize(
    "values", [[25.0, 50.0, 100.0], ["25.0%", "50.0%", "0%"], ["25,0", "50,0", "0,0"], [0.25, 0.5, 1.0]]
)
def test_rates_named_as_rewards_are_read_by_the_option_named(values: list[float | str]) -> None:
    table = pl.DataFrame({"prompt_id": ["a", "b", "c"], "n": [8, 8, 8], "accuracy": values})
    if values[0] == 0.25:  # taken as rates, since n is there
        assert gp.read_pilot(table).successes.tolist() == [2, 4, 8]
        table = table.drop("n")
    with pytest.raises(PilotFormatError, match="--pass-rate-column accuracy"):
        gp.read_pilot(table)
