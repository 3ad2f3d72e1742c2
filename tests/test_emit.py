"""Blocks of every trainer: text that its language reads back, rules that hold, errors of one line."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.trainers.nearest import ENOUGH, failed_checks
from grpo_plan.trainers.registry import TRAINERS, get_trainer, known_trainers
from grpo_plan.trainers.text import commented, python_call, shell_command, toml_block, yaml_block
from grpo_plan.trainers.versions import pick_range
from tests.conftest import ROOT
from tests.helpers import shell_words
from tests.test_cli import Run, document, run

__all__ = ["run"]

DESIGN = gp.Design(group_size=16, prompts_per_step=64, steps=500)
MACHINE = gp.Hardware(gpus=8, micro_batch=4)


# --- text ---------------------------------------------------------------------------------------------------------

printable = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.one_of(
    printable, st.sampled_from(["true", "No", "null", "~", "1e3", "0x10", "a: b", "# x", "-", "'", '"', "\\", "$HOME"])
)
numbers = st.one_of(st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False))
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
scalars = st.one_of(numbers, words)
values = st.one_of(scalars, st.lists(scalars, max_size=3))
nested = st.recursive(
    st.dictionaries(names, values, max_size=4),
    lambda inner: st.dictionaries(names, st.one_of(values, inner), max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(nested)
def test_yaml_reads_back(settings: dict[str, Any]) -> None:
    comments = dict.fromkeys(settings, "a remark: {x}")
    assert (yaml.safe_load(yaml_block(settings, comments)) or {}) == settings


@given(st.dictionaries(names, st.one_of(values, nested, st.lists(nested, min_size=1, max_size=2)), max_size=4))
def test_toml_reads_back(settings: dict[str, Any]) -> None:
    assert _without_empty(tomllib.loads(toml_block(settings, dict.fromkeys(settings, "remark")))) == _without_empty(
        settings
    )


def _without_empty(value: Any) -> Any:
    """Tables that hold nothing but empty tables are left out of TOML."""
    if isinstance(value, dict):
        inner = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v != {}}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value


@given(st.dictionaries(names.filter(lambda n: n.isidentifier()), values, max_size=5))
def test_python_reads_back(settings: dict[str, Any]) -> None:
    from keyword import iskeyword

    assume(not any(iskeyword(n) for n in settings))
    tree = ast.parse(python_call("Config", settings, dict.fromkeys(settings, "remark"))).body[0]
    assert isinstance(tree, ast.Assign)
    assert isinstance(tree.value, ast.Call)
    assert {k.arg: ast.literal_eval(k.value) for k in tree.value.keywords} == settings


@settings(max_examples=25)
@given(st.dictionaries(names, st.one_of(words, st.integers(), st.lists(words, max_size=2)), max_size=4))
def test_bash_reads_back(flags: dict[str, Any]) -> None:
    text = re.compile(r"[\0\r]")
    assume(not any(text.search(str(v)) for v in flags.values()))
    expected = []
    for key, value in flags.items():
        expected += [f"--{key}", *map(str, value if isinstance(value, list) else [value])]
    program = commented(["remark"]) + shell_command(["prog", "run it"], {f"--{k}": v for k, v in flags.items()})
    assert shell_words(program, "prog") == ["run it", *expected]


def test_flags_without_values_and_overrides() -> None:
    assert shell_words(shell_command(["prog"], {"--on": True, "--off": None}), "prog") == ["--on"]
    overrides = shell_command(["prog"], {"a.b": 1, "+c": "x y", "d": True, "e": None}, joined=True)
    assert shell_words(overrides, "prog") == ["a.b=1", "+c=x y", "d=true"]


# --- versions -----------------------------------------------------------------------------------------------------


def test_versions() -> None:
    ranges = ("0.9", "0.28", "1.16")
    assert pick_range("T", ranges, None).since == "0.28"
    assert pick_range("T", ranges, "0.10.1.post2").since == "0.9"
    assert pick_range("T", ranges, "v0.28.0rc1").since == "0.28"
    assert pick_range("T", ranges, "1.16.7").note is None
    newer = pick_range("T", ranges, "1.17")
    assert (newer.since, newer.note) == (
        "0.28",
        "T 1.17 is newer than what this was written for (1.16): check the keys against its release notes.",
    )
    with pytest.raises(gp.DomainError, match=r"^T 0.8.9 is too old: blocks are written for T 0.9 and newer."):
        pick_range("T", ranges, "0.8.9")
    with pytest.raises(gp.DomainError, match=r"version of T must be like 1\.16 or 0\.28\.0; got 'main'"):
        pick_range("T", ranges, "main")


# --- every trainer ------------------------------------------------------------------------------------------------


def parsed(block: gp.Block) -> Any:
    """The block as its own language reads it."""
    if block.language == "python":
        return ast.parse(block.text)
    if block.language == "yaml":
        return yaml.safe_load(block.text)
    if block.language == "toml":
        return tomllib.loads(block.text)
    assert block.language == "shell"
    program = next(line for line in block.text.splitlines() if not line.startswith("#")).split()[0]
    return shell_words(block.text, program)


@pytest.mark.parametrize("name", known_trainers())
@pytest.mark.parametrize("refill", [None, gp.Refilling(batch_multiplier=1.5, max_rounds=10)])
def test_every_block_is_read_by_its_language(name: str, refill: gp.Refilling | None) -> None:
    trainer = get_trainer(name)
    assert trainer.name == name
    if not trainer.refills:
        refill = None
    for estimator in trainer.estimators:
        block = gp.emit(
            DESIGN,
            trainer=name,
            hardware=MACHINE,
            temperature=0.75,
            max_response_tokens=2000,
            refill=refill,
            estimator=estimator,
        )
        assert parsed(block)
        assert block.trainer == name
        assert block.text.endswith("\n")
        assert not block.text.endswith("\n\n")
        assert max(len(line) for line in block.text.splitlines()) <= 120
        assert block.checks
        assert all(check.satisfied for check in block.checks)
        assert all(str(number) in block.text for number in (16, 0.75, 2000))
        assert json.loads(json.dumps(dict(block.settings), allow_nan=False))
        assert all(note.endswith(".") and "\n" not in note for note in block.notes)


@settings(max_examples=40)
@pytest.mark.parametrize("name", known_trainers())
@given(
    group_size=st.integers(2, 64),
    times=st.integers(1, 40),
    machine=st.builds(gp.Hardware, gpus=st.integers(1, 64), micro_batch=st.one_of(st.none(), st.integers(1, 16))),
)
def test_designs_that_the_multiple_accepts_pass_every_check(
    name: str, group_size: int, times: int, machine: gp.Hardware
) -> None:
    rules = gp.rules_for(name, machine)
    multiple = rules.prompt_multiple(group_size)
    assume(multiple is not None)
    assert multiple is not None
    design = gp.Design(group_size=group_size, prompts_per_step=multiple * times, steps=10)
    assert failed_checks(rules, design) == ()
    block = gp.emit(design, trainer=name, hardware=machine)
    assert all(check.satisfied for check in block.checks)
    assert parsed(block)


@pytest.mark.parametrize("name", known_trainers())
def test_newest_and_first_versions(name: str) -> None:
    trainer = get_trainer(name)
    assert gp.emit(DESIGN, trainer=name, version=trainer.versions[0], hardware=MACHINE).text
    try:
        newer = gp.emit(DESIGN, trainer=name, version="9999.1", hardware=MACHINE)
    except gp.DomainError as error:  # a trainer without numbered releases
        assert "not for a numbered version" in str(error)  # noqa: PT017
        return
    assert any("9999.1" in note for note in newer.notes)
    with pytest.raises(gp.DomainError, match=r"0\.0\.1"):
        gp.emit(DESIGN, trainer=name, version="0.0.1", hardware=MACHINE)


def test_unknown_names() -> None:
    assert set(known_trainers()) <= set(TRAINERS)
    assert {"trl", "unsloth", "axolotl", "ms-swift"} <= set(known_trainers())
    with pytest.raises(gp.DomainError, match=r"^trainer must be one of trl, .*; got 'tlr'\. Did you mean 'trl'\?$"):
        gp.emit(DESIGN, trainer="tlr")
    with pytest.raises(gp.DomainError, match=r"estimator must be one of grpo, .*; got 'gae'\.$"):
        gp.emit(DESIGN, trainer="trl", estimator="gae")
    with pytest.raises(gp.DomainError, match=r"TRL blocks cannot ask for the estimator 'maxrl'\. Use grpo,"):
        gp.emit(DESIGN, trainer="trl", estimator="maxrl")


# --- what is emitted ----------------------------------------------------------------------------------------------


def test_a_plan_its_design_and_its_json_give_the_same_block(example_fit: gp.PassRateFit) -> None:
    plan = gp.plan_group_size(example_fit, budget=gp.Budget(rollouts=2_000_000, steps=500), estimator="dr_grpo")
    design = plan.recommended.design
    row = {"group_size": design.group_size, "prompts_per_step": design.prompts_per_step, "steps": design.steps}
    blocks = [
        gp.emit(source, trainer="trl", hardware=gp.Hardware(gpus=4), estimator=estimator)
        for source, estimator in (
            (plan, None),
            (plan.recommended, "dr_grpo"),
            (design, "dr_grpo"),
            ({"recommended": row, "estimator": "dr_grpo"}, None),
            (row, "dr_grpo"),
        )
    ]
    assert all(block == blocks[0] for block in blocks)
    assert blocks[0].settings["loss_type"] == "dr_grpo"
    sample = gp.emit(design, trainer="trl", hardware=gp.Hardware(gpus=4), estimator="grpo_sample")
    assert sample == gp.emit(design, trainer="trl", hardware=gp.Hardware(gpus=4))


def test_a_plan_brings_its_gpus_its_refill_and_its_temperature() -> None:
    pilot = gp.Pilot.from_counts([0, 2, 4, 6, 8] * 40, 8, temperature=0.6)
    cost = gp.CostModel(gpus=8, refill=True)
    plan = gp.plan_group_size(
        gp.fit_pass_rates(pilot), budget=gp.Budget(rollouts_per_step=512), cost=cost, group_sizes=[8, 16]
    )
    settings = gp.emit(plan, trainer="ms-swift").settings
    assert settings["generation_batch_size"] == plan.recommended.design.rollouts_per_step
    passes = settings["per_device_train_batch_size"] * settings["gradient_accumulation_steps"]
    assert passes * 8 == settings["generation_batch_size"]
    assert (settings["temperature"], settings["dynamic_sample"]) == (0.6, True)
    other = gp.emit(plan, trainer="ms-swift", hardware=gp.Hardware(gpus=2), temperature=0.9).settings
    assert other["per_device_train_batch_size"] * other["gradient_accumulation_steps"] * 2 == passes * 8
    assert other["temperature"] == 0.9


@pytest.mark.parametrize(
    ("plan", "error", "message"),
    [
        ({}, gp.PlanFormatError, "plan holds no design"),
        ({"recommended": None}, gp.PlanFormatError, "plan holds no design"),
        ({"recommended": {"group_size": 8}}, gp.PlanFormatError, "plan holds no design"),
        ({"group_size": True, "prompts_per_step": 8}, gp.PlanFormatError, "group_size must be a whole number"),
        ({"group_size": 1, "prompts_per_step": 8}, gp.PlanFormatError, "group_size must be at least 2; got 1"),
        (
            {"recommended": {"group_size": 8, "prompts_per_step": float("nan")}},
            gp.PlanFormatError,
            r"plan: recommended.prompts_per_step must be a whole number; got nan. Write it again",
        ),
        ({"group_size": 8, "prompts_per_step": 8, "steps": "x"}, gp.PlanFormatError, "steps must be a whole"),
        (
            {"group_size": 8, "prompts_per_step": 8, "estimator": ["grpo"]},
            gp.PlanFormatError,
            "estimator must be one of",
        ),
        (gp.Design(group_size=8, prompts_per_step=0, steps=1), gp.DomainError, "prompts_per_step must be at least 1"),
        ("plan.json", gp.DomainError, "plan must be a Plan, a design or the loaded JSON of a plan; got str"),
    ],
)
def test_what_is_no_plan(plan: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        gp.emit(plan, trainer="trl")
    assert "\n" not in str(caught.value)


def test_arguments_outside_their_domain() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"temperature": 0}, "temperature must be finite and above 0"),
        ({"max_response_tokens": 0}, "max_response_tokens must be at least 1"),
        ({"hardware": 8}, "hardware must be a Hardware; got int"),
        ({"refill": 1.5}, "refill must be a Refilling; got float"),
    )
    for options, message in cases:
        with pytest.raises(gp.DomainError, match=message):
            gp.emit(DESIGN, trainer="trl", **options)
    with pytest.raises(gp.DomainError, match="gpus must be at least 1"):
        gp.Hardware(gpus=0)
    with pytest.raises(gp.DomainError, match="max_rounds must be at least 1"):
        gp.Refilling(max_rounds=0)


def test_what_is_left_to_the_trainer_is_said() -> None:
    bare = gp.emit(gp.Design(group_size=8, prompts_per_step=8, steps=None), trainer="trl")
    assert any("No temperature was given" in note for note in bare.notes)
    assert any("no number of steps" in note for note in bare.notes)
    assert not {"temperature", "max_steps", "max_completion_length"} & set(bare.settings)
    full = gp.emit(DESIGN, trainer="trl", temperature=1.0)
    assert not any("No temperature" in note or "no number of steps" in note for note in full.notes)


# --- nearest designs ----------------------------------------------------------------------------------------------

small = st.builds(gp.Design, group_size=st.integers(2, 16), prompts_per_step=st.integers(1, 60), steps=st.just(7))


@pytest.mark.parametrize("name", known_trainers())
@settings(max_examples=60)
@given(
    design=small, machine=st.builds(gp.Hardware, gpus=st.integers(1, 16), micro_batch=st.one_of(st.none(), st.just(4)))
)
def test_nearest_designs_are_those_of_a_search(name: str, design: gp.Design, machine: gp.Hardware) -> None:
    rules = gp.rules_for(name, machine)

    def accepted(prompts: int) -> bool:
        candidate = gp.Design(group_size=design.group_size, prompts_per_step=prompts, steps=7)
        return not failed_checks(rules, candidate)

    found = gp.nearest_design(rules, design)
    below = [n for n in range(design.prompts_per_step, 0, -1) if accepted(n)]
    assert (found.within and found.within.prompts_per_step) == (below[0] if below else None)
    if rules.prompt_multiple(design.group_size) is None:
        assert found.above is None
    else:
        assert found.above is not None
        assert found.above.prompts_per_step == next(n for n in count(design.prompts_per_step + 1) if accepted(n))
    other = found.other_group_size
    if other is not None:
        assert not failed_checks(rules, other)
        used = 0 if found.within is None else found.within.rollouts_per_step
        assert used < other.rollouts_per_step <= design.rollouts_per_step
        assert other.rollouts_per_step >= ENOUGH * design.rollouts_per_step
        assert 0 < abs(other.group_size - design.group_size) < design.group_size
    assert all(d is None or d.steps == 7 for d in (found.within, found.above, other))


def test_a_refused_design_names_the_nearest() -> None:
    machine = gp.Hardware(gpus=8)
    with pytest.raises(gp.InfeasiblePlanError) as caught:
        gp.emit(gp.Design(group_size=7, prompts_per_step=37, steps=10), trainer="trl", hardware=machine)
    assert str(caught.value) == (
        "TRL refuses 37 prompts x 7 rollouts: generation_batch_size 259 must be a multiple of 8 (1 x 8 GPUs). Nearest: "
        "32 prompts x 7 (224 rollouts a step) or 40 prompts x 6 (240 rollouts a step); with more rollouts: "
        "40 prompts x 7 (280 rollouts a step)."
    )
    accepted = gp.Design(group_size=8, prompts_per_step=37, steps=10)
    found = gp.nearest_design(gp.rules_for("trl", machine), accepted)
    assert found.within == accepted
    assert found.other_group_size is None


# --- command ------------------------------------------------------------------------------------------------------


def test_from_plan_to_block(run: Run, example_file: Path) -> None:
    plan = run(
        "plan",
        example_file,
        "--budget-rollouts",
        "2e6",
        "--steps",
        500,
        "--estimator",
        "dr_grpo",
        "--group-sizes",
        "8,16",
        "--json",
    )
    Path("plan.json").write_text(plan.out, encoding="utf-8")
    recommended = document(plan)["recommended"]
    text = run("emit", "plan.json", "--trainer", "trl", "--gpus", 1, "--temperature", 1)
    assert text.code == 0
    assert f"num_generations={recommended['group_size']}," in text.out
    assert 'loss_type="dr_grpo"' in text.out
    assert "note: checked: num_generations" in text.err
    body = document(run("emit", "plan.json", "--trainer", "trl", "--gpus", 1, "--temperature", 1, "--json"))
    assert body["text"] == text.out
    assert body["settings"]["max_steps"] == recommended["steps"]
    assert list(body) == [
        "schema", "command", "trainer", "versions", "language", "text", "settings", "checks", "notes"
    ]  # fmt: skip
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `emit` ("))
    assert all(f"`{key}`" in row for key in (*list(body)[2:], *body["checks"][0]))
    assert all(check["satisfied"] for check in body["checks"])
    again = run("emit", "plan.json", "--trainer", "trl", "--temperature", 1, "-o", "block.py")
    assert again.out == ""
    assert Path("block.py").read_text(encoding="utf-8") == text.out
    assert run("emit", "plan.json", "--trainer", "trl", "-o", "plan.json").code == 2
    assert json.loads(Path("plan.json").read_text(encoding="utf-8"))


def test_a_plan_comes_through_a_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grpo_plan", "emit", "-", "--trainer", "axolotl"],
        input='{"recommended": {"group_size": 8, "prompts_per_step": 8, "steps": null}}',
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["trl"]["num_generations"] == 8


def test_a_design_on_the_command_line(run: Run) -> None:
    design = ("emit", "--group-size", 8, "--prompts-per-step", "1,024", "--steps", "1e3")
    answer = document(
        run(*design, "--trainer", "ms-swift", "--gpus", 8, "--micro-batch", 8, "--refill", "--batch-multiplier", 1.5, "--max-rounds", 6,
            "--max-response-tokens", "8,192", "--trainer-version", "4.2", "--json")
    )  # fmt: skip
    chosen = {"max_resample_times": 6, "dynamic_sample": True, "max_steps": 1000, "max_completion_length": 8192}
    assert chosen.items() <= answer["settings"].items()
    assert any("multiplier of 1.5 is ignored" in note for note in answer["notes"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "holds no JSON object"),
        (b"null", "holds no JSON object"),
        (b'{"a": 1}', "holds no design"),
        (b'{"recommended": {"group_size": 1e400, "prompts_per_step": 4}}', "must be a whole number; got inf"),
        (b'{"recommended": {"group_size": "8\\n9", "prompts_per_step": 4}}', "must be a whole number"),
    ],
)
def test_broken_plan_files_are_one_line(run: Run, content: bytes, message: str) -> None:
    Path("plan.json").write_bytes(content)
    answer = run("emit", "plan.json", "--trainer", "trl")
    assert (answer.code, answer.out) == (1, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("grpo-plan: ")


def test_usage_errors_are_one_line(run: Run) -> None:
    Path("plan.json").write_text('{"group_size": 8, "prompts_per_step": 8}', encoding="utf-8")
    design = ("--group-size", 8, "--prompts-per-step", 64)
    for arguments, code, message in (
        ((), 2, "emit needs a plan, or --group-size and --prompts-per-step."),
        (design, 2, "emit needs --trainer, one of trl, "),
        (("plan.json",), 2, "or a plan made with it."),
        (("--trainer", "trl"), 2, "emit needs a plan, or --group-size and --prompts-per-step."),
        (("plan.json", "--trainer", "trl", *design), 2, "got both"),
        (("missing.json", "--trainer", "trl"), 1, "missing.json cannot be read"),
        ((".", "--trainer", "trl"), 1, ". is no regular file"),
        ((*design, "--trainer", "tlr"), 2, "trainer must be one of"),
        ((*design, "--trainer", "trl", "--trainer-version", "0.1"), 2, "TRL 0.1 is too old"),
        ((*design, "--trainer", "trl", "--gpus", 0), 2, "gpus must be at least 1"),
        ((*design, "--trainer", "trl", "--gpus", 24, "--micro-batch", 16), 3, "Nearest: 48 prompts x 8"),
        ((*design, "--trainer", "verl", "--refill", "--batch-multiplier", 0), 2, "batch_multiplier must be finite and"),
        (
            (*design, "--trainer", "verl", "--batch-multiplier", 2),
            2,
            "--batch-multiplier needs dynamic sampling; got 2",
        ),
        ((*design, "--trainer", "verl", "--max-rounds", 3), 2, "--max-rounds needs dynamic sampling; got 3 without it"),
        ((*design, "--trainer", "trl", "--refill"), 2, "TRL cannot refill a step"),
        ((*design, "--trainer", "trl", "-o", "no/such"), 2, "cannot be written"),
        ((*design, "--trainer", "trl", "-o", "."), 2, "is no regular file"),
        (("--group-size", 1, "--prompts-per-step", 64, "--trainer", "trl"), 2, "group_size must be at least 2"),
    ):
        answer = run("emit", *arguments)
        assert (answer.code, answer.err.count("\n")) == (code, 1), answer.err
        assert message in answer.err, answer.err
