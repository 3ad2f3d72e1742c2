"""Annotations as they are written, with the names in them followed to where they are defined.

The API reference shows what stands in the code (``NDArray[np.float64]``), not what Python makes of it; aliases such as
``Floats`` are written out. Imports for type checkers alone are followed too, so nothing heavy is imported.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import grpo_plan

PACKAGE = Path(grpo_plan.__file__).parent
_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?![\w'\"])")


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    found = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grpo_plan"):
            for name in node.names:
                found[name.asname or name.name] = (str(node.module), name.name)
    return found


@cache
def _assigned(module: str) -> dict[str, str]:
    """Aliases of a module: names that begin with a capital, and what they stand for."""
    pairs = ((n.targets[0], n.value) for n in _tree(module).body if isinstance(n, ast.Assign) and len(n.targets) == 1)
    return {
        target.id: ast.unparse(value)
        for target, value in pairs
        if isinstance(target, ast.Name) and re.fullmatch("[A-Z][A-Za-z]*[a-z][A-Za-z]*", target.id)
    }


def origin(module: str, name: str) -> tuple[str, str] | None:
    """Module of the package in which a name that another module uses is defined, and its name there."""
    while name in _imports(module):
        module, name = _imports(module)[name]
    classes = {node.name for node in _tree(module).body if isinstance(node, ast.ClassDef)}
    return (module, name) if name in classes or name in _assigned(module) else None


def entry_of(module: str, name: str) -> str:
    """Full name under which a class has its entry."""
    return f"grpo_plan.{name}" if name in grpo_plan.__all__ else f"{module}.{name}"


def written(annotation: object, module: str) -> str:
    """An annotation with its aliases written out, and with classes of the package by the full name of their entry.

    A ``~`` before a full name tells Sphinx to show its last part alone.

    >>> written("Limits | None", "grpo_plan.fitting.estimates")
    'tuple[float, float] | None'
    >>> written("FitStatus", "grpo_plan.fitting.estimates")
    '~grpo_plan.FitStatus'
    """
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))

    def spelled(match: re.Match[str]) -> str:
        found = origin(module, match.group())
        if found is None:
            return match.group()
        if found[1] in _assigned(found[0]):
            return written(_assigned(found[0])[found[1]], found[0])
        return f"~{entry_of(*found)}"

    return _NAME.sub(spelled, text.strip("'\""))


def classes_in(annotation: object, module: str) -> list[type]:
    """Classes of the package that an annotation names."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    found: list[type] = []
    for name in _NAME.findall(text.strip("'\"")):
        place = origin(module, name)
        if place is None:
            continue
        if place[1] in _assigned(place[0]):
            found += classes_in(_assigned(place[0])[place[1]], place[0])
        elif isinstance(value := getattr(import_module(place[0]), place[1]), type):
            found.append(value)
    return found
