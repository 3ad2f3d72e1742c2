"""Whatever README and docs show is what the code does now."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from grpo_plan import __version__
from grpo_plan.example import example_run_lines
from tests.conftest import ROOT
from tests.test_cli import Run, document, run

pytestmark = pytest.mark.usefixtures("equal_pilots_share")

__all__ = ["run"]  # a fixture

PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")))


RUN_ELSEWHERE = {
    "docs/gallery.md": "written by python -m figures.gallery, which runs the lines that it shows",
    "docs/tutorial.md": "a notebook: tests/test_tutorial.py runs its cells and compares what they show",
}
NOT_RUN = {  # page and first line (but imports) of each block of code that no test of the pages runs: why not
    "README.md: python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/grpo-plan example pilot.jsonl "
    "&& .venv/bin/grpo-plan plan pilot.jsonl --budget-rollouts 2e6 --steps 500": "CI runs it as printed",
    "README.md: python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest -q -n "
    "auto": "CI runs it as printed",
    "docs/advantages.md: Answer   104 of 144 rollouts (72%) have an advantage; the largest is 1.912": "part of an answer "
    "about a dump that is not packaged",
    "docs/choosing.md: probe = gp.GradientProbe(model)": "needs PyTorch: tests/trl/test_probe.py runs it",
    "docs/choosing.md: trainer = GRPOTrainer(model=model, reward_funcs=reward, args=args, train_dataset=dataset)": "needs "
    "TRL: tests/trl/test_trainer.py runs it",
    'docs/choosing.md: {"prompt_id": "q0", "temperature": 0.7, "n": 8, "k": 5}': "two lines of a table, no program",
    "docs/diagnosis.md: grpo-plan diagnose runs/exp1 --plan plan.json --fail-on warning --format markdown -o diagnosis.md": ""
    "needs a run of the reader's own",
    "docs/live.md: grpo-plan watch runs/exp1 --plan plan.json": "waits for a run to go on",
    "docs/live.md: grpo-plan watch runs/exp1 --json | jq -c --unbuffered 'select(.event == \"alert\")' | while read -r "
    "alert; do": "waits for a run, and posts to an address",
    'docs/live.md: trainer = GRPOTrainer(..., callbacks=[GrpoPlanCallback(plan="plan.json", stop_on="critical")])': "needs TRL: "
    "tests/test_trl_callback.py runs the like",
    'docs/scale.md: grpo-plan: runs/step_90.jsonl:104232: is not a JSON object (\'{"prompt_id": "p17", "rew\'). Repair '
    "the line, or drop such lines with --skip-malformed.": "a message; tests/test_cli.py has the like",
    'docs/scale.md: pilot = gp.read_pilot(spark.table("my_rollouts"), histogram=True)  # PySpark': "needs other engines: "
    "tests/test_engines.py and test_spark.py run the like",
    "docs/scale.md: SELECT dataset, temperature, n, k, COUNT(*) AS prompts": "SQL: tests/test_engines.py runs it",
    "docs/scale.md: COUNT(reward)   ->  COUNT(CASE WHEN ABS(reward) < 1e300 THEN 1 END)": "a change of that SQL: tests/test_engines.py makes it",
    "docs/scale.md: python tests/benchmarks/scale_spark.py --rollouts 1e8": "takes minutes, and Java",
    "docs/validation.md: pip install -e '.[test,validation]'": "takes hours; CI runs its last line",
    "docs/simulation.md: threshold = sign_threshold(fit, group_size=4)  # theory.md, eq. 104": "the page is written by "
    "figures/learning_page.py; tests/test_estimators.py runs the like",
}


def first_line(block: str) -> str:
    """What a block of code is known by."""
    lines = [line for line in block.splitlines() if line and not re.match(r"(import|from) ", line)]
    return lines[0] if lines else ""


@pytest.fixture(scope="module")
def make_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_shown_output_is_what_the_commands_print(
    make_docs: ModuleType, run: Run, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "80")

    def in_this_process(words: list[str], folder: Path) -> str:
        assert Path.cwd() == folder
        answer = run(*words)
        assert answer.code == 0, answer.err
        return answer.out

    assert make_docs.refreshed(text, tmp_path, in_this_process) == text, (
        f"{page} is stale: run python docs/make_docs.py"
    )


@pytest.mark.parametrize("page", ["docs/json.md", "docs/trainers.md"])
def test_a_process_of_its_own_prints_the_same(make_docs: ModuleType, page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "\n$ grpo-plan " in text
    assert make_docs.refreshed(text, tmp_path) == text
    with pytest.raises(RuntimeError, match="nope: exit 2: grpo-plan: "):
        make_docs.in_a_process(["nope"], tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_python_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example_file: Path) -> None:
    (tmp_path / "pilot.jsonl").write_bytes(example_file.read_bytes())
    (tmp_path / "run.jsonl").write_text("".join(f"{line}\n" for line in example_run_lines()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testfile(str(ROOT / page), module_relative=False)
    assert failed == 0


def test_the_command_reference_is_fresh(make_docs: ModuleType) -> None:
    assert make_docs.command_reference() == (ROOT / "docs/cli.md").read_text(encoding="utf-8")


def test_every_block_of_code_is_run_or_it_is_said_why_not() -> None:
    found = {}
    for page in PAGES:
        if page in RUN_ELSEWHERE:
            continue
        text = (ROOT / page).read_text(encoding="utf-8")
        for language, body in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            script = re.match(r"# (\w+\.py)\n", body)
            started = script is not None and f"\n$ python {script.group(1)}\n" in text
            if language not in ("console", "math") and not (language == "python" and (">>> " in body or started)):
                found[f"{page}: {first_line(body)}"] = language
    assert "" not in found.values(), "name the language of each block"
    assert found.keys() - NOT_RUN.keys() == set(), "run the block (>>>, or console), or say in NOT_RUN why not"
    assert NOT_RUN.keys() - found.keys() == set(), "gone: take it out of NOT_RUN"
    assert all(NOT_RUN.values())


@pytest.mark.slow
def test_commands_in_the_decision_table_are_taken(
    make_docs: ModuleType, run: Run, example_file: Path, tmp_path: Path
) -> None:
    table = (ROOT / "docs/choosing.md").read_text(encoding="utf-8").partition("## 1.")[0]
    commands = [c.removeprefix("grpo-plan ") for c in re.findall(r"`(grpo-plan [^`]*)`", table) if " RUN" not in c]
    assert len(commands) >= 10
    (tmp_path / "pilot.jsonl").write_bytes(example_file.read_bytes())
    make_docs.write_temperatures(tmp_path / "temperatures.jsonl")
    for command in commands:
        answer = run(*command.split())
        assert answer.code == 0, f"{command}: {answer.err}"


def test_settings_in_the_glossary_are_known_to_the_code() -> None:
    """Each setting of a tool in a table of group size, prompts per step or refill is a word of the package."""
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "grpo_plan").rglob("*.py"))
    for heading in ("Group size", "Prompts per step", "Refill", "All-pass and all-fail", "Dead fraction"):
        section = page.partition(f"### {heading}\n")[2].partition("\n### ")[0]
        rows = re.findall(r"^\| (?!tool|---)(.*) \|$", section, re.MULTILINE)
        assert len(rows) >= 5, heading
        for name in re.findall(r"`([^`]+)`", " ".join(row.partition("|")[2] for row in rows)):
            word = re.split(r"[=*]", name.lstrip("-"))[0]
            assert word in code or re.split(r"[./]", word)[-1] in code, f"{heading}: {name}"


def test_each_public_name_is_in_one_group_of_the_reference(make_docs: ModuleType) -> None:
    import grpo_plan

    assert make_docs.generated_pages()  # makes the modules of docs/site importable
    groups = importlib.import_module("api_groups").GROUPS
    names = [name for group in groups for name in group.names]
    assert sorted(names) == sorted(grpo_plan.__all__)
    assert len({group.slug for group in groups}) == len(groups)
    written = {path.stem for path in (ROOT / "docs/api").glob("*.md")}
    assert written == {group.slug for group in groups}
    for name in names:
        assert name == "__version__" or getattr(grpo_plan, name).__doc__, name


def test_the_reference_and_the_contents_are_fresh(make_docs: ModuleType) -> None:
    for name, text in make_docs.generated_pages().items():
        assert text == (ROOT / name).read_text(encoding="utf-8"), f"{name} is stale: run python docs/make_docs.py"


def test_the_quick_start_is_two_commands_and_ci_runs_both_as_printed() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first, second = (block.strip() for block in re.findall(r"```bash\n(.*?)```", readme, re.DOTALL))
    assert "\n" not in first + second
    assert "grpo-plan example pilot.jsonl && " in first
    assert second.endswith("-m pytest -q -n auto")
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert '"$(readme_command 0)"' in ci
    assert '"$(readme_command 1)"' in ci


def test_every_json_key_is_documented(run: Run, example_file: Path) -> None:
    page = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    example, counts = str(example_file), ["--dead-counts", "0.7=1/9", "--dead-counts", "1=2/9"]
    both = ["--pilot", f"0.7={example}", "--pilot", f"1={example}"]
    refilled = ["--prompts-per-step", "32", "--group-size", "8", "--max-rounds", "3", "--data-prompts", "999"]
    commands = (
        ["fit", example],
        ["plan", example, "--rollouts-per-step", "512", "--group-sizes", "4,8", "--trainer", "trl"],
        ["mix", example, "--buckets"],
        ["allocate", example],
        ["refill", example, *refilled, "--steps", "9"],
        ["temperature", *both],
        ["temperature", *both, "--group-size", "16"],
        ["temperature", *counts],
    )
    for command in commands:
        body = document(run(*command, "--json"))
        if isinstance(body.get("trainer"), dict):
            del body["trainer"]["settings"]  # the trainer's own keys
        for key in keys_of(body):
            stem = key.removesuffix("_low").removesuffix("_high").removesuffix("_standard_error")
            assert re.search(rf"`(?:\w+\.)?({key}|{stem})`", page), key


def keys_of(value: object) -> set[str]:
    """Every key of a document, but for those that are data (reasons, status names)."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    if isinstance(value, dict):
        inner = (keys_of(v) for k, v in value.items() if k not in ("dropped", "statuses"))
        return set(value).union(*inner)
    return set()


def test_the_version_is_one() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{__version__}"' in project
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_calibration_page_is_that_of_its_tables() -> None:
    from figures import calibration_page

    assert calibration_page.page() == calibration_page.PAGE.read_text(encoding="utf-8")


def test_the_table_of_trainers_is_fresh(make_docs: ModuleType) -> None:
    page = (ROOT / "docs/advantages.md").read_text(encoding="utf-8")
    assert make_docs.with_trainers(page) == page, "docs/advantages.md is stale: run python docs/make_docs.py"


def test_the_columns_of_dataframes_are_fresh(make_docs: ModuleType) -> None:
    page = (ROOT / "docs/frames.md").read_text(encoding="utf-8")
    assert make_docs.with_frames(page) == page, "docs/frames.md is stale: run python docs/make_docs.py"


def test_the_table_of_formats_is_fresh(make_docs: ModuleType) -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert make_docs.with_formats(page) == page, "docs/formats.md is stale: run python docs/make_docs.py"
