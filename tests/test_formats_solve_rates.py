"""Data sets with pass rates: the counts come back exactly, each in its own direction, and each is a weak prior."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.fitting.status import FitStatus
from grpo_plan.readers.candidates import look
from grpo_plan.readers.files import InputFile
from grpo_plan.readers.registry import formats
from tests.conftest import ROOT
from tests.regenerate.solve_rates import PROMPTS, SKYWORK, SYNTHETIC, sets

DATA = ROOT / "tests" / "data" / "solve_rates"
TRUTH = json.loads((DATA / "truth.json").read_text())
SEVEN_B = SKYWORK[1]
# format: options, rollouts of a prompt, passes as they were drawn, whose they are
READ: dict[str, tuple[dict[str, Any], int, list[int], str]] = {
    "big-math": ({}, 64, TRUTH["big-math"], "Llama-3.1-8B"),
    "skywork-or1": ({"reward": SEVEN_B}, 16, TRUTH[SEVEN_B], SEVEN_B),
    "polaris": ({}, 8, TRUTH["polaris"], "DeepSeek-R1-Distill-Qwen-7B"),
    "intellect-2": ({}, 16, TRUTH["intellect-2"], "qwen_r1_distill_7b"),
    "intellect-3": ({}, 8, TRUTH["intellect-3"], "qwen3_4b_thinking_2507"),
    "guru": ({"reward": "qwen2.5_7b_pass_rate"}, 16, TRUTH["guru"], "qwen2.5_7b"),
    "openmath-reasoning": ({}, 32, TRUTH["openmath"], "Qwen2.5-Math-72B-Instruct with tools"),
    "lime-difficulty": ({}, 128, TRUTH["lime"], "Qwen2.5-Math-7B"),
    "lime-solved": ({}, 128, TRUTH["lime"], "Qwen2.5-Math-7B"),
}
WITHOUT_RATE = {"big-math": (3,), "openmath-reasoning": (5, 6)}
FILES = [path for name in READ for path in sorted((DATA / name).glob("data.*"))]


def test_the_stored_sets_are_those_of_the_script() -> None:
    rows, truth = sets()
    assert truth == TRUTH
    for name, table in rows.items():
        assert [json.loads(line) for line in (DATA / name / "data.jsonl").read_text().splitlines()] == table


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}{p.suffix}")
def test_counts_come_back(path: Path) -> None:
    options, n, truth, model = READ[path.parent.name]
    pilot = gp.read_pilot(path, **options)
    missing = WITHOUT_RATE.get(path.parent.name, ())
    assert pilot.provenance.format == path.parent.name
    assert pilot.rollouts.tolist() == [n] * (PROMPTS - len(missing))
    assert pilot.successes.tolist() == [k for i, k in enumerate(truth) if i not in missing]
    assert pilot.dropped.get("prompts_with_missing_counts", 0) == len(missing)
    assert pilot.provenance.weak_prior == model
    assert pilot.provenance.policies == (model,)
    assert f"these are pass rates of {model}, not of the policy to be trained" in " ".join(pilot.notes)
    assert gp.fit_pass_rates(pilot).status is FitStatus.WEAK_PRIOR


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("model", SYNTHETIC)
def test_synthetic_2_tells_n_by_its_responses(kind: str, model: str) -> None:
    pilot = gp.read_pilot(DATA / "synthetic-2" / f"data.{kind}", reward=model)
    assert pilot.rollouts.tolist() == TRUTH["sizes"]
    assert pilot.successes.tolist() == TRUTH[model]
    assert pilot.provenance.weak_prior == model
    idle = gp.read_pilot(DATA / "synthetic-2" / f"data.{kind}", reward=model, rollouts_per_prompt=4)
    assert idle.rollouts.tolist() == TRUTH["sizes"]
    assert any("rollouts_per_prompt was given, but has no effect" in note for note in idle.notes)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(("name", "count"), [("skywork-or1", 3), ("synthetic-2", 2), ("guru", 2)])
def test_several_models_ask_for_a_choice(kind: str, name: str, count: int) -> None:
    with pytest.raises(gp.PilotFormatError, match=f"holds pass rates of {count} models .*--reward-column"):
        gp.read_pilot(DATA / name / f"data.{kind}")
    with pytest.raises(gp.PilotFormatError, match="no pass rates 'other'"):
        gp.read_pilot(DATA / name / f"data.{kind}", reward="other")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_an_annotated_level_is_refused(kind: str) -> None:
    with pytest.raises(gp.PilotFormatError, match="annotated level, not a pass rate"):
        gp.read_pilot(DATA / "deepmath" / f"data.{kind}")


@pytest.mark.parametrize("path", sorted(DATA.glob("*/data.*")), ids=lambda p: f"{p.parent.name}{p.suffix}")
def test_a_set_looks_like_its_own_format_alone(path: Path) -> None:
    candidate = look(InputFile(name=str(path), path=path))
    assert [f.name for f in formats() if f.looks_like(candidate)] == [path.parent.name]


def changed(tmp_path: Path, name: str, change: Callable[[dict[str, Any], int], None]) -> Path:
    rows = [json.loads(line) for line in (DATA / name / "data.jsonl").read_text().splitlines()]
    for i, row in enumerate(rows):
        change(row, i)
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def set_to(field: str, value: Any, at: int) -> Callable[[dict[str, Any], int], None]:
    def change(row: dict[str, Any], i: int) -> None:
        if i == at:
            row[field] = value

    return change


@pytest.mark.parametrize(
    ("name", "field", "value", "why"),
    [
        (
            "big-math",
            "llama8b_solve_rate",
            0.51,
            "t.jsonl:39: llama8b_solve_rate is 0.51, no whole number of 64 rollouts",
        ),
        ("big-math", "llama8b_solve_rate", 1.5, "llama8b_solve_rate is 1.5, outside its range"),
        ("big-math", "llama8b_solve_rate", "often", "is often, outside its range"),
        ("polaris", "difficulty", "9/8", "difficulty is 9/8, not passes/rollouts such as 3/8"),
        ("polaris", "difficulty", "hard", "difficulty is hard, not passes/rollouts"),
        ("skywork-or1", "extra_info", {"model_difficulty": {SEVEN_B: 17}}, "is 17, no number of fails of 16 rollouts"),
        ("intellect-3", "avg@8_qwen3_4b_thinking_2507", 0.3333, "is 0.3333, no whole number of 8 rollouts"),
        ("intellect-2", "solve_rate_qwen_r1_distill_7b", "x", "is x, which is no rate"),
    ],
)
def test_a_wrong_value_further_on(tmp_path: Path, name: str, field: str, value: Any, why: str) -> None:
    path = changed(tmp_path, name, set_to(field, value, 38))
    with pytest.raises(gp.PilotFormatError, match=why.replace(".", r"\.")):
        gp.read_pilot(path, format=name, **READ[name][0])


def test_what_is_missing_is_counted(tmp_path: Path) -> None:
    path = changed(tmp_path, "skywork-or1", set_to("extra_info", {"index": 1}, 10))
    assert gp.read_pilot(path, format="skywork-or1", reward=SEVEN_B).dropped == {"prompts_with_missing_counts": 1}


def test_options_of_the_user(tmp_path: Path) -> None:
    by_source = gp.read_pilot(DATA / "big-math", format="big-math", where={"source": "orca"})
    assert by_source.strata == ("orca",)
    with pytest.raises(gp.PilotFormatError, match="no whole number of 32 rollouts"):
        gp.read_pilot(DATA / "big-math" / "data.jsonl", rollouts_per_prompt=32)
    double = gp.read_pilot(DATA / "guru" / "data.jsonl", reward="qwen2.5_7b_pass_rate", rollouts_per_prompt=32)
    assert double.successes.tolist() == [2 * k for k in TRUTH["guru"]]
    own = gp.read_pilot(DATA / "polaris" / "data.jsonl", weak_prior="my model")
    assert own.provenance.weak_prior == "my model"
    named = gp.read_pilot(DATA / "intellect-2" / "data.jsonl", prompt="problem_id")
    assert named.prompt_id is not None
    assert named.prompt_id[0] == "p0"
    with pytest.raises(gp.PilotFormatError, match="no column 'nope'"):
        gp.read_pilot(DATA / "intellect-2" / "data.jsonl", prompt="nope")


def test_polaris_is_a_pass_rate_and_skywork_counts_fails() -> None:
    """Both are called difficulty; read the wrong way round, the easy prompts would be the hard ones."""
    for name in ("polaris", "skywork-or1"):
        pilot = gp.read_pilot(DATA / name / "data.jsonl", **READ[name][0])
        assert pilot.successes[:10].sum() < pilot.successes[-10:].sum() / 4


@pytest.mark.parametrize(
    "row",
    [
        {"problem": "a", "difficulty": 50.0},
        {"problem": "a", "difficulty": "easy"},
        {"question": "a", "difficulty": 5.5},
        {"prompt": "a", "my_model_pass_rate": 0.5},
        {"problem": "a", "solve_rate_mine": 0.5},
        {"question": "a", "avg@8_mine": 0.5},
        {"prompt": "a", "mine_avg_reward": 0.5, "mine_responses": ["x", "y"]},
        {"prompt": "a", "extra_info": {"difficulty": 3}},
    ],
)
def test_tables_of_the_user_are_no_data_set(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "t.jsonl"
    other = {k: v + 1.25 if isinstance(v, float) and v > 1 else v for k, v in row.items()}  # levels in steps
    path.write_text(json.dumps(row) + "\n" + json.dumps(other) + "\n")
    candidate = look(InputFile(name=str(path), path=path))
    assert [f.name for f in formats() if f.looks_like(candidate)] == []
