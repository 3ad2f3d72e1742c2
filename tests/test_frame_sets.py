"""Data sets with pass rates as dataframes: read as their files are."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import grpo_plan as gp
from grpo_plan.fitting import FitStatus

ROWS = [{"problem": f"p{i}", "difficulty": f"{i % 8}/8", "answer": "1"} for i in range(160)]
BIG_MATH = [{"problem": f"p{i}", "llama8b_solve_rate": (i % 65) / 64} for i in range(160)]
SKYWORK = [{"prompt": f"p{i}", "extra_info": {"model_difficulty": {"a": i % 17, "b": 0}}} for i in range(160)]
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_a_known_set_is_recognised(kind: str) -> None:
    make = KINDS[kind]
    polaris = gp.read_pilot(make(ROWS))
    assert polaris.provenance.format == "polaris"
    assert polaris.provenance.files == 0
    assert polaris.provenance.removed == "all-pass"
    assert polaris.provenance.weak_prior == "DeepSeek-R1-Distill-Qwen-7B"
    assert polaris.successes[:8].tolist() == list(range(8))  # k/8 passed, and did not fail
    assert gp.fit_pass_rates(polaris).status is FitStatus.WEAK_PRIOR
    big_math = gp.read_pilot(make(BIG_MATH))
    assert big_math.provenance.format == "big-math"
    assert big_math.rollouts[0] == 64
    skywork = gp.read_pilot(make(SKYWORK), reward="a")
    assert skywork.provenance.format == "skywork-or1"
    assert skywork.successes[:3].tolist() == [16, 15, 14]
    assert gp.read_pilot(make(ROWS), weak_prior="mine").provenance.weak_prior == "mine"


def test_missing_rates_of_a_pandas_frame_are_counted() -> None:
    frame = pd.DataFrame(ROWS)
    frame.loc[3, "difficulty"] = float("nan")
    pilot = gp.read_pilot(frame)
    assert pilot.prompts == 159
    assert sum(pilot.dropped.values()) == 1


def test_format_on_a_frame_works_or_is_an_error() -> None:
    frame = pl.DataFrame(ROWS)
    assert gp.read_pilot(frame, format="polaris").provenance.format == "polaris"
    with pytest.raises(gp.DomainError, match="read from files, and a dataframe was given"):
        gp.read_pilot(frame, format="verl-v1")
    with pytest.raises(gp.DomainError, match="format must be one of"):
        gp.read_pilot(frame, format="nope")
    plain = pl.DataFrame({"prompt_id": ["a", "b"], "n": [4, 4], "k": [1, 2]})
    assert gp.read_pilot(plain, format="table").provenance.format == "table"
    assert gp.read_pilot(plain, weak_prior="M").provenance.weak_prior == "M"


def test_a_level_is_refused_in_a_frame_too() -> None:
    level = pl.DataFrame({"question": ["q"], "final_answer": ["1"], "difficulty": [5.5], "r1_solution_1": ["s"]})
    with pytest.raises(gp.PilotFormatError, match="the dataframe: difficulty of DeepMath-103K is an annotated level"):
        gp.read_pilot(level)
