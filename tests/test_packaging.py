"""What is built and shipped: the wheel's and the sdist's files and metadata, types, and what an import loads."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml

import grpo_plan
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OTHER_FILES = ("report/page.html.j2", "report/page.css", "report/page.js", "paper.mplstyle")  # of kinds that may come
TOP = ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", ".ci/run")


def tree(folder: Path) -> set[str]:
    """Files below a folder, byte code left out."""
    found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {name for name in found if "__pycache__" not in name and not name.endswith((".pyc", ".pyo"))}


def built(source: Path, out: Path, kind: str) -> Path:
    """A distribution, built by the project's own back end without a network."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree with files of other kinds in the package, as a report or a style sheet would add."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "grpo_plan", source / "grpo_plan", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source / name)
    for name in OTHER_FILES:
        path = source / "grpo_plan" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{{ title }}\n", encoding="utf-8")
    return built(source, folder, "wheel")


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {n.removeprefix("grpo_plan/") for n in names if n.startswith("grpo_plan/")}
    assert package == tree(ROOT / "grpo_plan") | set(OTHER_FILES)
    assert "py.typed" in package
    info = {n.split("/", 1)[1] for n in names if not n.startswith("grpo_plan/")}
    assert info == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    found = metadata_of(wheel)
    assert (found["Name"], found["Version"]) == ("grpo-plan", grpo_plan.__version__)
    assert (found["License-Expression"], found["Author"]) == ("Apache-2.0", "The grpo-plan authors")
    assert found["Requires-Python"] == PROJECT["requires-python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    classifiers = found.get_all("Classifier") or []
    assert classifiers == PROJECT["classifiers"] == sorted(classifiers)
    assert "Typing :: Typed" in classifiers
    assert not [c for c in classifiers if c.startswith("License ::")]  # the licence expression stands in their place
    assert found.get_all("Project-URL") is None
    needed = [r for r in found.get_all("Requires-Dist") or [] if "extra ==" not in r]
    assert len(needed) == len(PROJECT["dependencies"])
    assert wheel.name == f"grpo_plan-{grpo_plan.__version__}-py3-none-any.whl"


def test_the_sdist_holds_what_its_tests_need(tmp_path: Path) -> None:
    with tarfile.open(built(ROOT, tmp_path, "sdist")) as archive:
        names = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    for folder in ("grpo_plan", "tests", "docs", "figures"):
        held = {n.removeprefix(f"{folder}/") for n in names if n.startswith(f"{folder}/")}
        missing = tree(ROOT / folder) - held
        assert not {m for m in missing if not ignored(f"{folder}/{m}")}, folder
        assert not [n for n in held if "__pycache__" in n]
    assert set(TOP) <= names
    top = {n for n in names if "/" not in n}
    assert top <= {*TOP, "PKG-INFO", ".gitignore"}, "files that lie about in the root are not shipped"


def ignored(path: str) -> bool:
    """Whether git leaves a file out; a source tree without git has no such files."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return False
    return subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT).returncode == 0


def test_the_citation_is_of_this_version() -> None:
    """The fields that the format 1.2.0 asks for, and those that name the work."""
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["cff-version"] == "1.2.0"
    assert found["message"]
    assert found["type"] == "software"
    assert found["title"] == PROJECT["name"]
    assert found["authors"] == PROJECT["authors"] == [{"name": "The grpo-plan authors"}]
    assert found["version"] == PROJECT["version"] == grpo_plan.__version__
    assert found["license"] == PROJECT["license"]
    assert found["keywords"] == PROJECT["keywords"]


@pytest.mark.slow
def test_a_typed_client_passes_strict_checks_against_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    """The wheel is laid into an environment of its own; a wrong use is found, and without py.typed nothing is typed."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    windows = os.name == "nt"
    site = home / "Lib/site-packages" if windows else next(home.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = (ROOT / "tests/typed_client.py").read_text(encoding="utf-8")
    wrong = program.replace("value: float | None =", "value: str =")
    assert wrong != program

    def checked(text: str, *more: str) -> str:
        (tmp_path / "client.py").write_text(text, encoding="utf-8")
        python = home / ("Scripts/python.exe" if windows else "bin/python")
        words = ["--strict", "--follow-imports=silent", "--python-executable", str(python), *more, "client.py"]
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MYPYPATH")}  # else: the tree
        command = [sys.executable, "-m", "mypy", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment).stdout

    assert checked(program).startswith("Success"), checked(program)
    assert "Incompatible types in assignment" in checked(wrong)
    (site / "grpo_plan/py.typed").unlink()
    assert "missing library stubs or py.typed marker" in checked(program, "--no-incremental")


THIRD_PARTY = "{m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'grpo_plan', '__main__'}"
PLANNED = (
    "fit = gp.fit_pass_rates(gp.Pilot.from_counts([0] * 40 + [2] * 20 + [4] * 40, 4)); fit.dead(64).low; "
    "gp.plan_group_size(fit, budget=gp.Budget(rollouts=100_000, steps=100))"
)


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("gp.__version__; dir(gp)", set()),
        ("gp.mixed_probability(0.2, 4)", {"numpy"}),
        ("gp.fit_pass_rates, gp.plan_group_size, gp.Budget, gp.plan_mix", {"numpy"}),
        (PLANNED, {"numpy"}),
    ],
)
def test_what_an_import_loads(code: str, loaded: set[str]) -> None:
    """Third-party packages in a bare process; the clock is for tests/benchmarks/import_time.py."""
    command = f"import sys; sys.path[:0] = {sys.path!r}; import grpo_plan as gp; {code}; print(*{THIRD_PARTY})"
    done = subprocess.run([sys.executable, "-S", "-c", command], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == loaded
