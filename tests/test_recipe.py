"""What a plan was made with reaches the block: through Python, JSON, and the commands that the pages show."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import grpo_plan as gp
from grpo_plan.trainers.planned import PlannedRecipe, recipe_of
from grpo_plan.trainers.refills import fitting_refill
from grpo_plan.trainers.registry import get_trainer, known_trainers
from tests.conftest import ROOT
from tests.test_cli import Run, document, run

__all__ = ["run"]

NOT_REFILLING = {"trl", "unsloth", "axolotl"}
ROW = {"group_size": 8, "prompts_per_step": 64, "steps": 100}
BUDGET = ("--budget-rollouts", "4e5", "--steps", 100, "--group-sizes", "8")


def plan_json(**recipe: Any) -> dict[str, Any]:
    return {"command": "plan", "recommended": ROW, "recipe": recipe}


@pytest.fixture(scope="module")
def refilled(example_fit: gp.PassRateFit) -> gp.Plan:
    return gp.plan_group_size(
        example_fit,
        budget=gp.Budget(rollouts=400_000, steps=100),
        cost=gp.CostModel(refill=True, gpus=8),
        group_sizes=[8],
        rules=gp.rules_for("nemo-rl", gp.Hardware(gpus=8)),
    )


# --- recipe -------------------------------------------------------------------------------------------------------


def test_emit_needs_nothing_but_the_plan(run: Run, example_file: Path) -> None:
    options = ("--trainer", "nemo-rl", "--trainer-version", "0.6.0", "--gpus", 4, "--micro-batch", 4, "--temperature",
               0.7, "--max-response-tokens", "4,096")  # fmt: skip
    answer = run("plan", example_file, *BUDGET, "--refill", *options, "--json")
    body = document(answer)
    Path("plan.json").write_text(answer.out, encoding="utf-8")
    recipe = body["recipe"]
    assert list(recipe) == [
        "refill", "batch_multiplier", "max_rounds", "gpus", "micro_batch", "temperature", "max_response_tokens",
        "trainer", "trainer_version",
    ]  # fmt: skip
    given = {"refill": True, "gpus": 4, "micro_batch": 4, "temperature": 0.7, "max_response_tokens": 4096}
    assert {**given, "trainer": "nemo-rl", "trainer_version": "0.6.0"}.items() <= recipe.items()
    emitted = document(run("emit", "plan.json", "--json"))
    assert emitted["text"] == body["trainer"]["block"]
    assert emitted["settings"]["grpo.batch_multiplier"] == recipe["batch_multiplier"]
    assert emitted["settings"]["grpo.dynamic_sampling_max_gen_batches"] == recipe["max_rounds"]
    assert gp.emit(body).text == body["trainer"]["block"]
    won = document(
        run("emit", "plan.json", "--gpus", 2, "--micro-batch", 8, "--temperature", 1, "--max-response-tokens", 99,
            "--max-rounds", 7, "--batch-multiplier", 3, "--json")
    )["settings"]  # fmt: skip
    assert (won["policy.train_micro_batch_size"], won["policy.generation.temperature"]) == (8, 1.0)
    assert (won["policy.generation.max_new_tokens"], won["grpo.batch_multiplier"]) == (99, 3.0)
    assert won["grpo.dynamic_sampling_max_gen_batches"] == 7
    refused = run("emit", "plan.json", "--trainer", "trl")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "TRL cannot refill a step" in refused.err


def test_a_recipe_without_a_trainer_is_null_where_nothing_was_given(run: Run, example_file: Path) -> None:
    recipe = document(run("plan", example_file, *BUDGET, "--json"))["recipe"]
    assert recipe.pop("refill") is False
    assert set(recipe.values()) == {None}


def test_a_planned_version_goes_with_its_trainer_and_a_cap_with_trainer_and_multiplier() -> None:
    plan = plan_json(refill=True, batch_multiplier=2.5, max_rounds=3, trainer="verl", trainer_version="0.8.0")
    assert "recipe.dapo.main_dapo" in gp.emit(plan).text
    other = gp.emit(plan, trainer="nemo-rl")
    assert other.settings["grpo.batch_multiplier"] == 2.5
    assert not any("0.8.0" in note for note in other.notes)
    assert "grpo.dynamic_sampling_max_gen_batches" not in other.settings
    assert "The planned cap of 3 rounds is left out: it is for verl" in other.notes[0]
    recipe = recipe_of(plan)
    assert recipe.refilling("verl", batch_multiplier=2.0)[0] == gp.Refilling(batch_multiplier=2.0)
    assert recipe.refilling("verl", max_rounds=9)[0] == gp.Refilling(batch_multiplier=2.5, max_rounds=9)
    assert recipe.refilling("verl")[1] == ()
    assert recipe_of(gp.Design(group_size=8, prompts_per_step=8, steps=1)) == PlannedRecipe()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({**plan_json(), "command": "refill"}, "plan is the answer of grpo-plan refill, not of plan"),
        ({**plan_json(), "command": "a\nb"}, r"plan is the answer of grpo-plan a\\nb, not of plan"),
        ({**plan_json(), "command": None}, "plan is the answer of grpo-plan None, not"),
        ({**plan_json(), "recipe": [1]}, "recipe must be an object"),
        (plan_json(gpus=0), r"recipe\.gpus must be at least 1"),
        (plan_json(micro_batch="4"), r"recipe\.micro_batch must be a whole number"),
        (plan_json(temperature=-1), r"recipe\.temperature must be finite and above 0"),
        (plan_json(temperature=float("nan")), r"recipe\.temperature must be"),
        (plan_json(batch_multiplier="x"), r"recipe\.batch_multiplier must be"),
        (plan_json(refill=1), r"recipe\.refill must be true or false"),
        (plan_json(trainer=3), r"recipe\.trainer must be a string"),
    ],
)
def test_broken_recipes_are_one_line(plan: dict[str, Any], message: str) -> None:
    with pytest.raises(gp.PlanFormatError, match=message) as caught:
        gp.emit(plan, trainer="nemo-rl")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["refill", "fit", "mix", "emit"])
def test_answers_of_other_commands_are_refused(run: Run, command: str) -> None:
    Path("other.json").write_text(json.dumps({"command": command, **ROW}), encoding="utf-8")
    answer = run("emit", "other.json", "--trainer", "trl")
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert f"plan is the answer of grpo-plan {command}, not of plan" in answer.err


def test_a_refused_plan_says_to_plan_again(run: Run) -> None:
    Path("plan.json").write_text(json.dumps({"recommended": {**ROW, "group_size": 6, "prompts_per_step": 666}}))
    answer = run("emit", "plan.json", "--trainer", "trl", "--gpus", 8, "--micro-batch", 4)
    assert (answer.code, answer.err.count("\n")) == (3, 1)
    assert "Or plan again with --trainer trl --gpus 8 --micro-batch 4: then only designs" in answer.err


# --- refill -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", known_trainers())
def test_who_refills(name: str) -> None:
    """A block that refills is another block; one that cannot is refused, by hand, from Python and from a plan."""
    trainer = get_trainer(name)
    assert trainer.refills is (name not in NOT_REFILLING)
    asked = gp.Refilling(batch_multiplier=1.5)
    if trainer.refills:
        assert gp.emit(ROW, trainer=name, refill=asked).settings != gp.emit(ROW, trainer=name).settings
        return
    for refused in ({"plan": ROW, "refill": asked}, {"plan": plan_json(refill=True)}):
        with pytest.raises(gp.DomainError, match=rf"^{trainer.title} cannot refill a step.*or use verl, OpenRLHF, "):
            gp.emit(trainer=name, **refused)


@pytest.mark.parametrize("name", [n for n in known_trainers() if n not in NOT_REFILLING])
def test_keys_that_are_said_to_exist_change_the_block(name: str) -> None:
    trainer = get_trainer(name)
    for version in (trainer.versions[0], None):
        keys = trainer.refill_keys(version)

        def settings(version: str | None = version, **options: Any) -> dict[str, Any]:
            return dict(gp.emit(ROW, trainer=name, version=version, refill=gp.Refilling(**options)).settings)

        assert (settings(batch_multiplier=3.0) != settings()) is keys.multiplier
        assert (settings(max_rounds=7) != settings()) is keys.cap
        assert keys.cap or not keys.stops


@pytest.mark.parametrize("name", sorted(NOT_REFILLING))
def test_a_plan_with_refill_is_refused_before_the_pilot_is_read(run: Run, name: str) -> None:
    answer = run("plan", "missing.jsonl", *BUDGET, "--refill", "--trainer", name)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "cannot refill a step" in answer.err


def test_multiplier_and_cap_fit_the_pilot(refilled: gp.Plan) -> None:
    design = refilled.recommended.design
    fit, same = refilled.fit, {"prompts_per_step": design.prompts_per_step, "group_size": design.group_size}

    def fills(multiplier: float, at: str) -> bool:
        end = getattr(gp.refill(fit, **same, batch_multiplier=multiplier, max_rounds=1), at)
        return bool(end.cap_probability <= 0.05)

    for name, at in (("nemo-rl", "at_high"), ("slime", "at_value")):  # NeMo-RL stops the run at its cap
        keys = get_trainer(name).refill_keys(None)
        found = fitting_refill(refilled, keys)
        assert found.batch_multiplier is not None
        assert fills(found.batch_multiplier, at)
        assert not fills(found.batch_multiplier - 0.02, at)
        assert found.notes[0].startswith(f"batch_multiplier {found.batch_multiplier:g}")
        assert "one round in 95% of steps." in found.notes[0]
        if not keys.cap:
            assert found.max_rounds is None
            continue
        assert found.max_rounds is not None
        for rounds, enough in ((found.max_rounds, True), (found.max_rounds - 1, False)):
            if rounds:
                again = gp.refill(
                    fit, **same, batch_multiplier=found.batch_multiplier, max_rounds=rounds, steps=design.steps
                )
                assert again.at_high is not None
                assert again.at_high.run_cap_probability is not None
                assert (again.at_high.run_cap_probability <= 0.05) is enough
    sky = fitting_refill(refilled, get_trainer("skyrl").refill_keys(None))  # rounds of the step's own prompts
    plain = gp.refill(fit, **same, steps=design.steps)
    assert plain.at_high is not None
    assert (sky.batch_multiplier, sky.max_rounds) == (None, plain.at_high.safe_max_rounds)
    assert fitting_refill(refilled, get_trainer("openrlhf").refill_keys(None)).notes == ()
    block = gp.emit(refilled, trainer="nemo-rl")
    nemo = fitting_refill(refilled, get_trainer("nemo-rl").refill_keys(None))
    assert block.settings["grpo.batch_multiplier"] == nemo.batch_multiplier
    assert block.settings["grpo.dynamic_sampling_max_gen_batches"] == nemo.max_rounds
    assert block.notes[: len(nemo.notes)] == nemo.notes


def test_without_an_upper_limit_the_estimate_is_used_and_said() -> None:
    fit = gp.fit_pass_rates(gp.Pilot.from_counts([0] * 30 + [1], 2))
    plan = gp.plan_group_size(
        fit, budget=gp.Budget(rollouts=100_000, steps=10), cost=gp.CostModel(refill=True), group_sizes=[2], kappa=5.0,
        level=0.999999,
    )  # fmt: skip
    assert plan.recommended.dead.high == 1.0
    found = fitting_refill(plan, get_trainer("nemo-rl").refill_keys(None))
    assert found.batch_multiplier is not None
    assert found.max_rounds is not None
    assert all("no upper limit]" in note for note in found.notes)
    assert "the estimate, for want of an upper limit" in found.notes[1]


def test_without_steps_no_cap_is_chosen(example_fit: gp.PassRateFit) -> None:
    plan = gp.plan_group_size(
        example_fit, budget=gp.Budget(rollouts_per_step=512), cost=gp.CostModel(refill=True), group_sizes=[8], kappa=5.0
    )
    found = fitting_refill(plan, get_trainer("nemo-rl").refill_keys(None))
    assert found.max_rounds is None
    assert any("--steps" in note for note in found.notes)
    block = gp.emit(plan, trainer="nemo-rl")
    assert "grpo.dynamic_sampling_max_gen_batches" not in block.settings
    assert any("stays at its own value, 10" in note for note in block.notes)
    assert "left out where no limit is asked for: NeMo-RL's own, 10" in (ROOT / "docs/trainers.md").read_text("utf-8")


# --- the flows that the pages show --------------------------------------------------------------------------------


def shown_flows() -> list[str]:
    """Every flow from plan to emit of README and docs, as one shell command."""
    flows = []
    for page in ("README.md", "docs/trainers.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        flows += re.findall(r"`(grpo-plan plan [^`|]*--json \| grpo-plan emit -[^`]*)`", text)
        pairs = re.findall(r"`(grpo-plan plan [^`|]*--json > plan\.json)`, then `(grpo-plan emit [^`]*)`", text)
        flows += [" && ".join(pair) for pair in pairs]
    return sorted(set(flows))


def test_every_shown_emit_of_a_plan_is_a_flow_that_is_run() -> None:
    assert len(shown_flows()) == 2
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        prose = re.sub(
            r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        )  # blocks are run as they are
        text = " ".join(prose.split())
        for command in re.findall(r"grpo-plan emit (?:plan\.json|-(?= |`))[^`]*", text):
            assert any(flow.endswith(command) for flow in shown_flows()), f"{page.name}: {command}"


@pytest.mark.slow
@pytest.mark.parametrize("flow", shown_flows())
def test_the_flows_that_the_pages_show(flow: str, tmp_path: Path, example_file: Path) -> None:
    (tmp_path / "pilot.jsonl").write_bytes(example_file.read_bytes())
    program = f'set -e -o pipefail\ngrpo-plan() {{ {shlex.quote(sys.executable)} -m grpo_plan "$@"; }}\n{flow}'
    done = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "GRPOConfig(" in done.stdout
    assert "on 8 GPUs, 500 steps" in done.stdout
