"""The options of costs on a command of their own: numbers as people write them, lengths from the pilot, a calibration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from grpo_plan.cli.common import write_json
from grpo_plan.cli.cost_options import CostRequest, optional_number, takes_costs
from grpo_plan.cli.pilot_options import PilotRequest, reads_pilot
from grpo_plan.costs import GroupContent, solve_design
from grpo_plan.documents.costs import cost_json, throughput_json
from grpo_plan.errors import DomainError
from grpo_plan.fitting import fit_pass_rates
from grpo_plan.throughput import estimate_throughput
from tests.conftest import ROOT


def price(request: PilotRequest, *, costs: CostRequest, group_size: int = 4) -> None:
    """Price one group size."""
    pilot = request.read()
    budget, model, notes = costs.build(pilot)
    solved = solve_design(budget, model, GroupContent.of(fit_pass_rates(pilot), group_size))
    design = solved.design
    of = "step" if design is None or design.steps is None else "run"
    write_json(
        "price",
        {
            "design": None if design is None else [design.prompts_per_step, design.steps],
            "binding": list(solved.binding),
            "advice": solved.advice,
            "cost": cost_json(solved.cost, of=of, low=solved.cost_low, high=solved.cost_high),
            "notes": list(notes),
        },
    )


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(reads_pilot(takes_costs(price)))
    return app


@pytest.fixture
def pilot(tmp_path: Path) -> Path:
    path = tmp_path / "pilot.jsonl"
    lengths = {1: 400, 0: 900}
    rows = [
        {"prompt_id": f"p{i}", "reward": r, "response_tokens": lengths[r] + i}
        for i in range(60)
        for r in ([0] * 4, [0, 1, 0, 1], [1] * 4)[i % 3]
    ]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def run(app: typer.Typer, *words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    body: dict[str, Any] = json.loads(result.stdout)
    return body


RATES = ("--prompt-tokens", "120", "--decode-tokens-per-s", "3e4", "--train-tokens-per-s", "5e4", "--gpus", "8")


def test_a_budget_in_gpu_hours_with_lengths_from_the_pilot(app: typer.Typer, pilot: Path) -> None:
    body = run(app, str(pilot), "--budget-gpu-hours", "24", "--steps", "1e2", *RATES, "--usd-per-gpu-hour", "2.5")
    prompts, steps = body["design"]
    assert steps == 100
    assert body["binding"] == ["gpu_hours"]
    cost = body["cost"]
    assert cost["of"] == "run"
    assert 23.9 < cost["gpu_hours"] <= 24
    assert cost["usd"] == pytest.approx(2.5 * cost["gpu_hours"])
    assert cost["generated_tokens"] == pytest.approx(100 * prompts * 4 * (400 + 900 + 59) / 2, rel=0.01)
    assert cost["missing"] == {}
    assert cost["at_dead_low"]["gpu_hours"] == cost["gpu_hours"]


def test_lengths_given_win_over_the_pilot(app: typer.Typer, pilot: Path) -> None:
    words = ("--budget-tokens", "1_000_000", "--prompts-per-step", "10")
    measured = run(app, str(pilot), *words)["design"][1]
    given = run(app, str(pilot), *words, "--pass-tokens", "800", "--fail-tokens", "1,800.5")["design"][1]
    assert given < measured
    assert run(app, str(pilot), *words, "--train-mixed-only")["cost"]["trained_groups"] < 10 * measured
    refilled = run(app, str(pilot), *words, "--refill")["cost"]
    assert refilled["groups"] > refilled["trained_groups"]
    assert refilled["at_dead_low"]["groups"] < refilled["groups"] < refilled["at_dead_high"]["groups"]


def test_steps_and_prompts_alone_are_priced(app: typer.Typer, pilot: Path) -> None:
    body = run(app, str(pilot), "--prompts-per-step", "64", "--steps", "500")
    assert body["design"] == [64, 500]
    assert body["cost"]["rollouts"] == 4 * 64 * 500
    assert body["cost"]["gpu_hours"] is None
    assert body["cost"]["missing"]["gpu_hours"].startswith("GPU-hours need --prompt-tokens, --decode-tokens-per-s")


def test_a_calibrated_run_gives_the_speed(app: typer.Typer, pilot: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"step": i, "step_time": 20 + i, "perf/total_num_tokens": 2e4 * i} for i in range(1, 21)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    body = run(
        app, str(pilot), "--budget-gpu-hours", "9", "--steps", "9", "--calibrate", str(log), "--gpus", "1",
        "--prompt-tokens", "100",
    )  # fmt: skip
    seconds = body["cost"]["seconds"]
    tokens = body["cost"]["generated_tokens"] + body["cost"]["rollouts"] * 100
    assert seconds == pytest.approx(9 * 20 + tokens / 2e4, rel=1e-6)
    assert "20,000 prompt and response tokens a second" in body["notes"][-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--budget-usd", "many", "--steps", "5"), "--budget-usd must be a number, e.g. 24 or 2e6; got 'many'"),
        (("--budget-tokens", "1.5", "--steps", "5"), "--budget-tokens must be a whole number"),
        (("--budget-usd", "5"), "A budget in USD needs one more number to size a step"),
        (
            ("--budget-usd", "5", "--steps", "5"),
            "USD need --prompt-tokens, --decode-tokens-per-s, --train-tokens-per-s",
        ),
        (("--budget-gpu-hours", "nan", "--steps", "5"), "--budget-gpu-hours must be finite and above 0"),
        (("--budget-gpu-hours", "inf", "--steps", "5"), "--budget-gpu-hours must be finite and above 0"),
        (("--steps", "5"), "A plan needs a budget, or the size of a step; got neither"),
        (("--steps", "5", "--prompts-per-step", "2", "--gpus", "0"), "gpus must be at least 1"),
        (("--prompts-per-step", "2", "--calibrate", "x", "--reward-s", "1"), "got --reward-s too"),
    ],
)
def test_what_contradicts_itself_is_refused(
    app: typer.Typer, pilot: Path, words: tuple[str, ...], message: str
) -> None:
    result = CliRunner().invoke(app, [str(pilot), *words])
    assert isinstance(result.exception, DomainError)
    assert message in str(result.exception)


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    speed = throughput_json(estimate_throughput([1.0, 2.0], [10, 20]))
    json.dumps(speed, allow_nan=False)
    from grpo_plan.costs import CostModel

    cost = cost_json(CostModel().step(GroupContent.from_pmf([0.2, 0.6, 0.2]), 3), of="step")
    for key in [*speed, *cost]:
        assert f"`{key}`" in page or f"`{key.removesuffix('_low').removesuffix('_high')}`" in page, key


def test_numbers_as_people_write_them() -> None:
    assert [optional_number(t, "--x") for t in ("24", "2e6", " 1,500.25 ", "1_000")] == [24.0, 2e6, 1500.25, 1000.0]
