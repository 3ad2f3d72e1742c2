"""Settings as text that the trainer's own parser reads back: Python, YAML, TOML, shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Comments = Mapping[str, str]
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS_WITH_A_MEANING = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "nan", "inf", "infinity"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def python_call(
    name: str, settings: Mapping[str, Any], comments: Comments | None = None, *, target: str = "config"
) -> str:
    """``target = name(key=value, ...)``, one setting a line.

    >>> print(python_call("GRPOConfig", {"num_generations": 8}, {"num_generations": "rollouts per prompt"}))
    config = GRPOConfig(
        num_generations=8,  # rollouts per prompt
    )
    """
    lines = [f"    {key}={_python_value(value)},{_comment(comments, key)}" for key, value in settings.items()]
    return "\n".join([f"{target} = {name}(", *lines, ")"])


def yaml_block(settings: Mapping[str, Any], comments: Comments | None = None) -> str:
    """A YAML mapping; values are scalars, lists of scalars or mappings. Comments go by dotted path.

    >>> print(yaml_block({"rl": "grpo", "trl": {"temperature": 1e-06, "on": "off"}}, {"trl.temperature": "low"}))
    rl: grpo
    trl:
      temperature: 1.0e-06  # low
      "on": "off"
    """
    return "\n".join(_yaml_lines(settings, comments, "", ""))


def toml_block(settings: Mapping[str, Any], comments: Comments | None = None) -> str:
    """TOML; mappings become tables, lists of mappings arrays of tables. Comments go by dotted path.

    >>> print(toml_block({"orchestrator": {"batch_size": 512, "train": {"sampling": {"temperature": 1.0}}}}))
    [orchestrator]
    batch_size = 512
    <BLANKLINE>
    [orchestrator.train.sampling]
    temperature = 1.0
    """
    return "\n".join(_toml_lines(settings, comments, "", "", "")).strip("\n")


def shell_command(words: Sequence[str], flags: Mapping[str, Any], *, joined: bool = False) -> str:
    r"""A command with one flag a line.

    A value of True is the flag alone; a list gives several words; None leaves the flag out. With ``joined``
    a flag is ``key=value`` (Hydra overrides) instead of ``--key value``.

    >>> print(shell_command(["swift", "rlhf"], {"--num_generations": 8, "--reward": "my fn"}))
    swift rlhf \
        --num_generations 8 \
        --reward 'my fn'
    >>> print(shell_command(["python", "-m", "verl.trainer.main_ppo"], {"data.train_batch_size": 64}, joined=True))
    python -m verl.trainer.main_ppo \
        data.train_batch_size=64
    """
    lines = [" ".join(map(shlex.quote, words))]
    for key, value in flags.items():
        if value is None:
            continue
        if joined:
            lines.append(shlex.quote(f"{key}={_word(value)}"))
        elif value is True:
            lines.append(shlex.quote(key))
        else:
            values = value if isinstance(value, list | tuple) else [value]
            lines.append(" ".join(shlex.quote(w) for w in (key, *map(_word, values))))
    return " \\\n    ".join(lines)


def commented(lines: Sequence[str]) -> str:
    r"""Lines as comments of Python, YAML, TOML and shell.

    >>> commented(["64 prompts"])
    '# 64 prompts\n'
    """
    return "".join(f"# {line}\n" for line in lines)


def _comment(comments: Comments | None, path: str) -> str:
    text = (comments or {}).get(path)
    return f"  # {text}" if text else ""


def _python_value(value: Any) -> str:
    return double_quoted(value) if isinstance(value, str) else repr(value)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _yaml_lines(settings: Mapping[str, Any], comments: Comments | None, indent: str, path: str) -> list[str]:
    lines = []
    for key, value in settings.items():
        here = f"{path}{key}"
        shown = key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _WORDS_WITH_A_MEANING else double_quoted(key)
        if isinstance(value, Mapping) and value:
            lines.append(f"{indent}{shown}:{_comment(comments, here)}")
            lines += _yaml_lines(value, comments, indent + "  ", f"{here}.")
        else:
            lines.append(f"{indent}{shown}: {_yaml_value(value)}{_comment(comments, here)}")
    return lines


def _yaml_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text  # YAML 1.1 wants the point
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{double_quoted(k)}: {_yaml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_yaml_value, value)) + "]"
    text = str(value)
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS_WITH_A_MEANING
    return text if plain else double_quoted(text)


def _toml_lines(
    settings: Mapping[str, Any], comments: Comments | None, table: str, path: str, brackets: str
) -> list[str]:
    tables = {k: v for k, v in settings.items() if _is_table(v)}
    lines = [
        f"{_toml_key(k)} = {_toml_value(v)}{_comment(comments, path + k)}"
        for k, v in settings.items()
        if k not in tables and v is not None
    ]
    if table and (lines or not tables or brackets == "[["):
        lines = ["", f"{brackets}{table}{brackets.replace('[', ']')}", *lines]
    for key, value in tables.items():
        name = f"{table}.{_toml_key(key)}" if table else _toml_key(key)
        kind = "[" if isinstance(value, Mapping) else "[["
        for inner in [value] if isinstance(value, Mapping) else value:
            lines += _toml_lines(inner, comments, name, f"{path}{key}.", kind)
    return lines


def _is_table(value: Any) -> bool:
    tables = isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(v, Mapping) for v in value)
    return isinstance(value, Mapping) or tables


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else double_quoted(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items()) + "}"
    return double_quoted(str(value))


def double_quoted(text: str) -> str:
    r"""Text as a double-quoted string of YAML, TOML and Python.

    >>> print(double_quoted('say "hi"\n'))
    "say \"hi\"\n"
    """
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
