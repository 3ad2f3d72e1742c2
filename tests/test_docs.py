"""Whatever README and docs show is what the code does now."""

from __future__ import annotations

import doctest
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

PAGES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))


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


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert target.startswith("https://") or (path.parent / target).exists(), f"{page}: {target}"


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


def test_the_table_of_formats_is_fresh(make_docs: ModuleType) -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert make_docs.with_formats(page) == page, "docs/formats.md is stale: run python docs/make_docs.py"
