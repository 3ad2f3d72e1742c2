"""Imports point downwards, packages have no cycles, and starting up stays light. The imports are read, not run."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

LAYERS = {
    "_files": 0,
    "_shown": 0,
    "_suggest": 0,
    "errors": 0,
    "example": 0,
    "_binomial": 1,
    "_validate": 1,
    "_words": 1,
    "provenance": 1,
    "_pooling": 2,
    "_rows": 2,
    "groups": 2,
    "quantities": 2,
    "symbolic": 2,
    "estimators": 3,
    "independence": 3,
    "pilot": 3,
    "throughput": 3,
    "group_log": 4,
    "passrates": 4,
    "rollouts": 4,
    "fitting": 5,
    "group_steps": 5,
    "losses": 5,
    "batches": 6,
    "costs": 6,
    "run_log": 6,
    "readers": 7,
    "rules": 7,
    "planning": 8,
    "simulation": 8,
    "passk": 9,
    "probe": 9,
    "remedies": 9,
    "runs": 9,
    "trainers": 9,
    "documents": 10,
    "plots": 10,
    "shown": 10,
    "trl": 10,
    "report": 11,
    "cli": 12,
    "__init__": 13,
    "__main__": 13,
}
EDGES_ONLY_FOR = {"readers": {"readers", "cli", "__init__"}, "cli": {"cli", "__main__"}}


@cache
def modules() -> dict[str, Path]:
    package = ROOT / "grpo_plan"
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts)] = path
    return found


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Modules of the package that a file imports, type-checking blocks and function bodies included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module and node.module.split(".")[0] == "grpo_plan":
                found.add(node.module.removeprefix("grpo_plan").lstrip(".") or "__init__")
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("grpo_plan.") for a in node.names if a.name.startswith("grpo_plan.")}
    return frozenset(found)


def layer_of(module: str) -> str:
    return module.split(".")[0]


def test_every_module_has_a_layer() -> None:
    assert {layer_of(m) for m in modules()} == set(LAYERS)


@pytest.mark.parametrize("module", sorted(modules()))
def test_imports_point_downwards(module: str) -> None:
    own = layer_of(module)
    for imported in imports_of(modules()[module]):
        target = layer_of(imported)
        if imported == "__init__":
            assert own in ("cli", "__main__"), f"{module} imports the facade"
        elif target != own:
            assert LAYERS[target] < LAYERS[own], f"{module} (layer {LAYERS[own]}) imports {imported} ({LAYERS[target]})"
            assert own in EDGES_ONLY_FOR.get(target, {own}), f"{module} imports the edge {imported}"


def test_no_cycles_within_packages() -> None:
    known = modules()
    graph = {}
    for module, path in known.items():
        targets = {t if t in known else f"{t}.__init__" for t in imports_of(path)}
        graph[module] = {t for t in targets if t in known and t != "__init__"}
    list(TopologicalSorter(graph).static_order())


def test_modules_stay_readable() -> None:
    long = {m: n for m, p in modules().items() if (n := len(p.read_text().splitlines())) > 400}
    assert not long, f"split these: {long}"


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("import grpo_plan", ["numpy", "scipy", "polars", "matplotlib", "typer", "sympy", "rich", "narwhals"]),
        ("import grpo_plan; grpo_plan.mixed_probability(0.2, 4)", ["scipy", "polars", "matplotlib", "typer", "sympy"]),
        ("import grpo_plan; grpo_plan.fit_pass_rates", ["scipy", "polars", "matplotlib", "typer", "sympy", "rich"]),
        ("import grpo_plan; grpo_plan.read_pilot", ["scipy", "polars", "matplotlib", "typer", "sympy", "rich"]),
    ],
)
def test_heavy_libraries_load_late(code: str, forbidden: list[str]) -> None:
    script = f"{code}; import sys; print(*[m for m in {forbidden!r} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded
