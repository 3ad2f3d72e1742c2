"""Entries of the API reference, as reStructuredText, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from types import FunctionType
from typing import Any

from annotations import classes_in, written
from sphinx.ext.napoleon import Config, GoogleDocstring

_CONFIG = Config(napoleon_use_ivar=False, napoleon_use_rtype=False, napoleon_numpy_docstring=False)
_ATTRIBUTE = re.compile(r"^\.\. attribute:: (\w+)$")


def entry(value: Any, name: str, module: str) -> list[str]:
    """The entry of a function or class, under the name by which it is reached.

    Args:
        value: The function or class.
        name: Its name.
        module: The module to name before it.
    """
    lines = [f".. py:currentmodule:: {module}", ""]
    if isinstance(value, FunctionType):
        return [*lines, f".. py:function:: {name}{_signature(value)}", "", *_indented(_prose(value)), ""]
    kind = "exception" if issubclass(value, Exception) else "class"
    shown = _signature(value) if _constructed(value) else ""
    body = [*_bases(value), *_prose(value), *_values(value)]
    for member, thing in members(value):
        body += ["", *_member(member, thing)]
    return [*lines, f".. py:{kind}:: {name}{shown}", "", *_indented(body), ""]


def members(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with a docstring that the package defines, in order; of a class and its bases."""
    seen: set[str] = set()
    for owner in value.__mro__:
        if not owner.__module__.startswith("grpo_plan"):
            continue
        for name, thing in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(thing, FunctionType | classmethod | staticmethod | property | cached_property):
                if inspect.getdoc(_function(thing)):
                    yield name, thing


def types_of(value: Any) -> list[type]:
    """Classes of the package that the signature, fields, properties and methods of a name speak of."""
    if isinstance(value, FunctionType):
        notes = value.__annotations__.values()
        return [kind for note in notes for kind in classes_in(note, value.__module__)]
    found: list[type] = []
    for owner in value.__mro__:
        if owner.__module__.startswith("grpo_plan"):
            shown = {name: note for name, note in vars(owner).get("__annotations__", {}).items() if name[0] != "_"}
            found += [kind for note in shown.values() for kind in classes_in(note, owner.__module__)]
    for _, thing in members(value):
        found += types_of(_function(thing))
    return found


def _function(thing: Any) -> Any:
    if isinstance(thing, property):
        return thing.fget
    if isinstance(thing, cached_property):
        return thing.func
    return thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing


def _member(name: str, thing: Any) -> list[str]:
    function = _function(thing)
    if isinstance(thing, property | cached_property):
        kind = written(function.__annotations__.get("return", ""), function.__module__)
        return [f".. py:property:: {name}", f"   :type: {kind}", "", *_indented(_prose(function))]
    options = ["   :classmethod:"] if isinstance(thing, classmethod) else []
    options += ["   :staticmethod:"] if isinstance(thing, staticmethod) else []
    shown = _signature(function, bound=not isinstance(thing, staticmethod))
    return [f".. py:method:: {name}{shown}", *options, "", *_indented(_prose(function))]


def _constructed(value: type) -> bool:
    """Whether people make these themselves: no enum, no error, and no hidden argument."""
    if issubclass(value, Enum | Exception) or getattr(value, "_is_protocol", False):
        return False
    try:
        return not any(name.startswith("_") for name in inspect.signature(value).parameters)
    except ValueError:
        return False


def _signature(value: Any, *, bound: bool = False) -> str:
    signature = inspect.signature(value)
    module = value.__module__
    shown = []
    for parameter in list(signature.parameters.values())[1 if bound else 0 :]:
        default = parameter.default
        note = parameter.annotation
        if note is not parameter.empty:
            parameter = parameter.replace(annotation=_Raw(written(note, module)))
        if default is not parameter.empty:
            parameter = parameter.replace(default=_Raw(_default(default)))
        shown.append(parameter)
    back = signature.return_annotation
    back = signature.empty if back is signature.empty or isinstance(value, type) else _Raw(written(back, module))
    return str(signature.replace(parameters=shown, return_annotation=back))


class _Raw:
    """Text that stands in a signature as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isroutine(value) or isinstance(value, type):
        return value.__name__
    text = repr(value)
    return "..." if text.startswith("<") or len(text) > 60 else text


def _bases(value: type) -> list[str]:
    if not issubclass(value, Exception):
        return []
    return ["Is a " + " and a ".join(f":py:class:`{base.__name__}`" for base in value.__bases__) + ".", ""]


def _values(value: type) -> list[str]:
    if not issubclass(value, Enum):
        return []
    rows: list[str] = []
    for member in value:
        rows += ["", f".. py:attribute:: {member.name}", "   :no-contents-entry:", "", f"   {_plain(member.value)}"]
    return rows


def _plain(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("*", "\\*").replace("`", "\\`").replace("_", "\\_")


def _prose(value: Any) -> list[str]:
    """A docstring with its sections turned into fields, and the types of its attributes beside them."""
    kind = "class" if isinstance(value, type) else "function"
    lines = GoogleDocstring(inspect.getdoc(value) or "", _CONFIG, what=kind).lines()
    out: list[str] = []
    for line in "\n".join(lines).split("\n"):
        out.append(line)
        if isinstance(value, type) and (match := _ATTRIBUTE.match(line)):
            out.append("   :no-contents-entry:")
            out += [f"   :type: {kind}" for kind in [_type_of(value, match.group(1))] if kind]
    return out


def _type_of(value: type, name: str) -> str:
    for owner in value.__mro__:
        if name in vars(owner).get("__annotations__", {}) and owner.__module__ in sys.modules:
            return written(vars(owner)["__annotations__"][name], owner.__module__)
    return ""


def _indented(lines: list[str]) -> list[str]:
    return [f"   {line}" if line else "" for line in lines]
