"""Lengths of right and wrong rollouts: from every kind of source, their means, limits and statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest

from grpo_plan.costs import LengthStatus, token_lengths
from grpo_plan.errors import DomainError, PilotError, PilotFormatError
from grpo_plan.pilot import Pilot
from grpo_plan.readers import read_pilot

ROWS = [
    ("a", 1, 100), ("a", 0, 300), ("a", 1, 200), ("b", 0, 500), ("b", 0, 700), ("c", 1, 50), ("c", None, 999),
    ("c", 0, None),
]  # fmt: skip


def long_rows() -> list[dict[str, Any]]:
    return [{"prompt_id": p, "reward": r, "response_tokens": t} for p, r, t in ROWS]


def check(pilot: Pilot) -> None:
    assert pilot.pass_tokens is not None
    assert pilot.fail_tokens is not None
    assert pilot.response_tokens is not None
    order = np.argsort(np.asarray(pilot.prompt_id, dtype=str))
    np.testing.assert_array_equal(pilot.pass_tokens[order], [150.0, np.nan, 50.0])
    np.testing.assert_array_equal(pilot.fail_tokens[order], [300.0, 600.0, np.nan])
    np.testing.assert_allclose(pilot.response_tokens[order], [200.0, 600.0, (50 + 999) / 2])


@pytest.mark.parametrize("kind", ["jsonl", "array", "csv", "parquet", "polars", "lazy", "pandas", "pyarrow", "duckdb"])
def test_rows_of_rollouts_fill_both(tmp_path: Path, kind: str) -> None:
    rows, path = long_rows(), tmp_path / f"p.{kind}"
    frame = pl.DataFrame(rows)
    source: Any = path
    if kind == "jsonl":
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    elif kind == "array":
        path.write_text(json.dumps(rows))
    elif kind == "csv":
        frame.write_csv(path)
    elif kind == "parquet":
        frame.write_parquet(path)
    elif kind == "polars":
        source = frame
    elif kind == "lazy":
        source = frame.lazy()
    elif kind == "pandas":
        source = pd.DataFrame(rows)
    elif kind == "pyarrow":
        source = frame.to_arrow()
    else:
        duckdb = pytest.importorskip("duckdb")
        source = duckdb.from_arrow(frame.to_arrow())
    check(read_pilot(source))


def test_text_rewards_thresholds_and_missing_lengths(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"prompt_id": ["a"] * 4, "reward": [0.2, 0.9, 0.95, None], "response_tokens": [10.0, 20.0, float("nan"), 80.0]}
    )
    for source in (frame, frame.lazy(), frame.to_pandas()):
        pilot = read_pilot(source, pass_threshold=0.5)
        assert pilot.pass_tokens is not None
        assert pilot.fail_tokens is not None
        assert pilot.response_tokens is not None
        assert (pilot.pass_tokens[0], pilot.fail_tokens[0]) == (20.0, 10.0)
        assert pilot.response_tokens[0] == pytest.approx((10 + 20 + 80) / 3)
    words = pl.DataFrame({"prompt_id": ["a"] * 3, "reward": ["C", "I", "C"], "response_tokens": [1, 2, 3]})
    path = tmp_path / "w.csv"
    words.write_csv(path)
    for source in (words, path):
        pilot = read_pilot(source)
        assert pilot.pass_tokens is not None
        assert (pilot.pass_tokens[0], pilot.fail_tokens[0] if pilot.fail_tokens is not None else None) == (2.0, 2.0)


def test_lists_go_item_by_item_and_one_value_is_not_split() -> None:
    rows = [
        {"prompt_id": "a", "rewards": [1, 0, 1], "response_tokens": [100, 300, 200]},
        {"prompt_id": "b", "rewards": [0, 0], "response_tokens": 600},
    ]
    pilot = read_pilot(pl.DataFrame([rows[0]]))
    assert pilot.pass_tokens is not None
    assert pilot.fail_tokens is not None
    assert (pilot.pass_tokens[0], pilot.fail_tokens[0]) == (150.0, 300.0)
    single = read_pilot(pl.DataFrame([rows[1]]))
    assert (single.pass_tokens, single.fail_tokens) == (None, None)
    assert single.response_tokens is not None
    assert single.response_tokens[0] == 600.0
    assert token_lengths(single).status is LengthStatus.NOT_SPLIT
    with pytest.raises(PilotFormatError, match="response_tokens has 2 items for 3 rewards"):
        read_pilot(pl.DataFrame({"prompt_id": ["a"], "rewards": [[1, 0, 1]], "response_tokens": [[1, 2]]}))


def test_counts_have_one_mean_a_prompt() -> None:
    pilot = read_pilot(pl.DataFrame({"prompt_id": ["a", "b"], "n": [4, 4], "k": [1, 2], "response_tokens": [100, 200]}))
    assert (pilot.pass_tokens, pilot.fail_tokens) == (None, None)
    assert token_lengths(pilot).status is LengthStatus.NOT_SPLIT
    assert token_lengths(Pilot.from_counts([1], 2)).status is LengthStatus.ABSENT


def test_parts_of_a_pilot_keep_their_lengths() -> None:
    pilot = Pilot.from_counts(
        [1, 2, 0], [2, 2, 0], stratum=["x", "y", "y"], pass_tokens=[5, 6, 7], fail_tokens=[8, np.nan, 9]
    )
    part = pilot.select(stratum="y")
    assert part.pass_tokens is not None
    assert part.pass_tokens.tolist() == [6.0]
    assert pilot.by_stratum()["x"].fail_tokens is not None
    with pytest.raises(PilotError, match="pass_tokens must be at least 0; got -1 at index 0"):
        Pilot.from_counts([1], 2, pass_tokens=[-1])


def test_prompts_weigh_by_their_right_rollouts() -> None:
    """The mean over prompts of (share right times length) over the mean share: as many tokens as a long run makes."""
    pilot = Pilot.from_counts([8, 1, 0], 8, pass_tokens=[100, 900, np.nan], fail_tokens=[np.nan, 500, 1000])
    found = token_lengths(pilot)
    assert found.pass_tokens == pytest.approx((8 * 100 + 900) / 9)
    assert found.fail_tokens == pytest.approx((7 * 500 + 8 * 1000) / 15)
    assert found.pass_low is not None
    assert found.pass_high is not None
    assert found.pass_low < (found.pass_tokens or 0.0) < found.pass_high


def test_limits_cover_the_mean_over_prompts() -> None:
    """400 pilots of 120 prompts with skewed lengths that depend on the prompt; coverage at 95 % is not below 0.92."""
    rng = np.random.default_rng(6)
    hits = np.zeros(2, dtype=int)
    rates = rng.beta(0.5, 0.5, 10**6)
    truth = [float((w * np.exp(5 + rates)).sum() / w.sum() * np.exp(0.32)) for w in (rates, 1 - rates)]
    for _ in range(400):
        p = rng.beta(0.5, 0.5, 120)
        right = rng.random((120, 8)) < p[:, None]
        tokens = np.exp(5 + p[:, None] + rng.normal(0, 0.8, (120, 1)))  # all of the spread is between prompts
        k = right.sum(axis=1)
        with np.errstate(invalid="ignore"):
            means = [(np.where(m, tokens, 0).sum(axis=1) / m.sum(axis=1)) for m in (right, ~right)]
        found = token_lengths(Pilot.from_counts(k, 8, pass_tokens=means[0], fail_tokens=means[1]))
        hits += [
            (found.pass_low or 0) <= truth[0] <= (found.pass_high or 0),
            (found.fail_low or 0) <= truth[1] <= (found.fail_high or 0),
        ]
    for count in hits:
        assert binomtest(int(count), 400, 0.92, alternative="less").pvalue > 1e-3


def test_statuses() -> None:
    many = np.arange(100.0, 140.0)
    ok = {"pass_tokens": many, "fail_tokens": many + 50}
    cut = np.where(np.arange(40) < 6, 512.0, many)
    for columns, status in (
        (ok, LengthStatus.OK),
        ({"pass_tokens": many, "fail_tokens": np.maximum(cut, many)}, LengthStatus.TRUNCATED),
        ({"pass_tokens": many, "fail_tokens": many}, LengthStatus.NOT_SPLIT),
        ({"pass_tokens": many}, LengthStatus.NO_FAILS),
        ({"fail_tokens": many}, LengthStatus.NO_PASSES),
    ):
        found = token_lengths(Pilot.from_counts([1] * 40, 2, **columns))
        assert found.status is status
        assert found.status.sentence.endswith(".")
    same = token_lengths(Pilot.from_counts([1] * 40, 2, pass_tokens=many, fail_tokens=many))
    assert (same.pass_tokens, same.fail_low) == (None, None)
    one = token_lengths(Pilot.from_counts([1], 2, pass_tokens=[7], fail_tokens=[9]))
    assert (one.pass_tokens, one.pass_low, one.pass_high) == (7.0, None, None)
    with pytest.raises(DomainError):
        token_lengths(Pilot.from_counts([1], 2), level=2)
    with pytest.raises(DomainError, match="pilot must be a Pilot"):
        token_lengths("pilot")  # type: ignore[arg-type]
