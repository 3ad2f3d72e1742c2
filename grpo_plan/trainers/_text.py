"""Text of blocks outside the TRL family: shell words, overrides, YAML and TOML. Only what the blocks need."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from grpo_plan.costs import Design

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def counted(versions: str, design: Design, unit: str) -> str:
    """First lines of a block: whose it is, the design, and what the trainer's batch sizes count."""
    steps = "" if design.steps is None else f", {design.steps:,} steps"
    size = f"{design.prompts_per_step:,} prompts x {design.group_size:,} rollouts"
    return f"# {versions}\n# {size} = {design.rollouts_per_step:,} rollouts a step{steps}\n# {unit}"


def shell(launcher: str, lines: Iterable[tuple[str, ...]], comment: str) -> str:
    """One command over several lines, each word quoted for the shell."""
    command = " \\\n    ".join([launcher, *(shlex.join(words) for words in lines)])
    return f"{comment}\n{command}\n"


def flags(settings: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """``--key value`` for each setting; True alone stands for a switch, a tuple for several values."""
    lines: list[tuple[str, ...]] = []
    for key, value in settings.items():
        values = () if value is True else value if isinstance(value, tuple) else (value,)
        lines.append((f"--{key}", *(plain(v) for v in values)))
    return lines


def overrides(settings: Mapping[str, Any], *, capital: bool = False) -> list[tuple[str, ...]]:
    """``key=value`` for each setting; ``capital`` writes True as Python does."""
    return [(f"{k}={v if capital and isinstance(v, bool) else plain(v)}",) for k, v in settings.items()]


def plain(value: Any) -> str:
    """A number, a switch or a word, as YAML, TOML and command lines share them: numbers without an exponent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    return str(value)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as a tree."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *parents, leaf = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return tree


def yaml(settings: Mapping[str, Any], comment: str) -> str:
    """Dotted settings as a YAML document."""
    return "\n".join([comment, *_yaml_lines(nested(settings), "")]) + "\n"


def toml(settings: Mapping[str, Any], comment: str, *, arrays: frozenset[str] = frozenset()) -> str:
    """Dotted settings as a TOML document; ``arrays`` names the tables that are the first of an array of tables."""
    lines = [comment]
    _toml_lines(nested(settings), "", arrays, lines)
    return "\n".join(lines) + "\n"


def python(settings: Mapping[str, Any], comment: str, name: str) -> str:
    """Settings as a Python dictionary."""
    entries = [
        f"    {json.dumps(key)}: {json.dumps(value) if isinstance(value, str) else repr(value)},"
        for key, value in settings.items()
    ]
    return "\n".join([comment, f"{name} = {{", *entries, "}"]) + "\n"


def _yaml_lines(tree: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_yaml_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {_yaml_scalar(value)}")
    return lines


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str) and not (_PLAIN.fullmatch(value) and value.lower() not in _RESERVED):
        return json.dumps(value)
    return plain(value)


def _toml_lines(tree: Mapping[str, Any], path: str, arrays: frozenset[str], lines: list[str]) -> None:
    scalars = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    if path and (scalars or path in arrays):
        lines += ["", f"[[{path}]]" if path in arrays else f"[{path}]"]
    lines += [
        f"{key} = {json.dumps(value) if isinstance(value, str) else plain(value)}" for key, value in scalars.items()
    ]
    for key, value in tree.items():
        if isinstance(value, dict):
            _toml_lines(value, f"{path}.{key}" if path else key, arrays, lines)
