"""Equal texts, and reading a source for the checks of independence: shapes, kinds of file, errors in one line, real data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.independence import IndependenceVerdict as Verdict
from tests.test_independence import numbers

# Texts


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None])), max_size=30))
def test_duplicates_are_those_of_sets(rows: list[tuple[int, str | None]]) -> None:
    check = gp.duplicate_rollouts([p for p, _ in rows], [t for _, t in rows])
    known = [r for r in rows if r[1] is not None]
    assert (check.rollouts, check.repeats, check.unknown) == (
        len(known),
        len(known) - len(set(known)),
        len(rows) - len(known),
    )
    assert check.distinct.sum() == len(set(known))
    assert check.sentence


# Reading


def rollouts(seed: int = 0, prompts: int = 40, per_session: int = 4) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(prompts):
        for s in range(2):
            answer = int(rng.random() < 0.5)  # one answer a session: a shared seed
            rows += [{"prompt": f"p{i}", "seed": s, "reward": answer, "answer": f"{i}-{s}"} for _ in range(per_session)]
    return rows


def written(path: Path, rows: list[dict[str, Any]], kind: str) -> Any:
    if kind == "jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    elif kind == "json":
        path.write_text(json.dumps(rows))
    elif kind == "csv":
        pl.DataFrame(rows).write_csv(path)
    elif kind == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        return pl.DataFrame(rows).to_pandas() if kind == "pandas" else pl.DataFrame(rows)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "polars", "pandas"])
def test_every_source_says_the_same(tmp_path: Path, kind: str) -> None:
    rows = rollouts()
    source = written(tmp_path / "rows", rows, kind)
    report = gp.read_independence(source, session="seed", text="answer")
    check = report.sessions
    assert check is not None
    assert report.verdict is Verdict.CORRELATED
    assert check.names == ("0", "1")
    assert check.correlation == pytest.approx(1.0)
    assert check.effective_rollouts == pytest.approx(2.0)
    assert report.pilot.total_rollouts == len(rows)
    assert report.duplicates is not None
    assert (report.duplicates.repeats, report.duplicates.prompts_with_repeats) == (240, 40)
    ordered = gp.read_independence(source, text="answer")
    assert ordered.sequence is not None
    assert ordered.sequence.halves.correlation == pytest.approx(1.0)
    assert len(ordered.sentences) == 2


def test_long_wide_and_lists_say_the_same(tmp_path: Path) -> None:
    rows = pl.DataFrame(rollouts())
    long = gp.read_independence(rows, session="seed").sessions
    wide = rows.group_by("prompt", "seed").agg(pl.len().alias("n"), pl.col("reward").sum().alias("k"))
    nested = rows.group_by("prompt", maintain_order=True).agg("reward", "seed")
    one_session_a_row = rows.group_by("prompt", "seed", maintain_order=True).agg("reward")
    tables = [gp.read_independence(t, session="seed").sessions for t in (wide, nested, one_session_a_row)]
    assert long is not None
    for check in tables:
        assert check is not None
        assert numbers(check) == pytest.approx(numbers(long))
    by_order = [gp.read_independence(t).sequence for t in (rows, nested)]
    assert by_order[0] is not None
    assert by_order[1] is not None
    assert by_order[0].neighbour_p == by_order[1].neighbour_p


def test_rows_of_a_prompt_need_not_stand_together() -> None:
    rows = pl.DataFrame(rollouts())
    mixed_up = rows.with_columns(place=pl.int_range(pl.len()).over("prompt")).sort("place", maintain_order=True)
    together, apart = (gp.read_independence(t).sequence for t in (rows, mixed_up))
    assert together is not None
    assert apart is not None
    assert apart.neighbour_z == pytest.approx(together.neighbour_z)
    assert numbers(apart.halves) == pytest.approx(numbers(together.halves))


def test_parts_and_missing_sessions_are_kept_apart() -> None:
    rows = [{"prompt": "0", "level": d, "seed": s, "reward": int(d == "a")} for d in "ab" for s in (1, 10, 9, None)]
    report = gp.read_independence(pl.DataFrame(rows), session="seed")
    assert report.sessions is not None
    assert (report.sessions.prompts, report.sessions.names) == (2, ("1", "9", "10"))
    assert report.notes == ("2 rollouts have no seed and are left out of the check of sessions.",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "counts do not say in which order .* --session"),
        ({"session": "nope"}, "no column 'nope' .asked for as session"),
        ({"session": "one"}, "Column 'one' holds one session .x.; a check needs at least 2"),
        ({"session": "seed", "text": "one"}, "a row of counts has no completion text"),
        ({"session": "prompt", "prompt": "prompt"}, "given as prompt and as session"),
    ],
)
def test_sources_without_what_is_asked_are_named(options: dict[str, Any], message: str) -> None:
    table = pl.DataFrame(
        {"prompt": ["a", "a", "b"], "n": [4, 4, 4], "k": [1, 2, 3], "seed": [0, 1, 0], "one": ["x"] * 3}
    )
    with pytest.raises(gp.PilotFormatError, match=message):
        gp.read_independence(table, **options)


def test_a_session_a_rollout_is_named() -> None:
    rows = pl.DataFrame({"prompt": ["a"] * 1001, "run": list(range(1001)), "reward": [0, 1, 1] * 333 + [0, 1]})
    with pytest.raises(gp.PilotFormatError, match=r"takes 1,001 values, e\.g\. 0, 1, 2"):
        gp.read_independence(rows, session="run")


# Real data


def test_five_seeded_runs_of_a_real_model(real_data: Path) -> None:
    """No correlation within a run, but one run passes by 0.6 points more often: not chance, and of no weight."""
    check = gp.read_independence(real_data / "math500_llama32_1b_5x256_sessions.csv", session="session").sessions
    assert check is not None
    assert (check.prompts, check.mixed_prompts) == (500, 469)
    assert check.correlation == pytest.approx(9.46e-5, abs=1e-7)
    assert check.correlation_p == pytest.approx(0.555, abs=1e-3)
    assert check.design_effect == pytest.approx(1.024, abs=1e-3)
    assert check.drift_chi2 == pytest.approx(42.09, abs=0.01)
    assert check.shifts[0] == pytest.approx(0.00615, abs=1e-5)
    assert check.verdict is Verdict.SMALL_DRIFT


def test_training_visits_drift(real_data: Path) -> None:
    """The policy of the first four visits of a training run moved by 2.7 points; rollouts of a visit are independent."""
    check = gp.read_independence(
        real_data / "oneshot_rlvr_dsr1209_grpo_visits_G8.csv", session="visit", where={"visit": ["0", "1", "2", "3"]}
    ).sessions
    assert check is not None
    assert check.verdict is Verdict.DRIFTING
    assert np.all(np.diff(check.shifts) > 0)
    assert check.correlation_p is not None
    assert check.correlation_p > 0.5


def test_rollouts_of_the_example_are_independent(example_file: Path) -> None:
    assert gp.read_independence(example_file).verdict is Verdict.INDEPENDENT
