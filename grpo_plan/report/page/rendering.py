"""The page of a report: one HTML file that holds its data, style and scripts, and needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from grpo_plan.report.page.contents import contents
from grpo_plan.report.page.words import (
    amount,
    chance,
    cost_words,
    count_limits,
    day,
    few,
    interval,
    limits,
    once,
    percent,
    plain,
    rate,
    short,
    unsnake,
    visible,
    whole,
    without_fields,
)

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = (
    "laws.js",
    "costing.js",
    "refilling.js",
    "recompute.js",
    "words.js",
    "outcome.js",
    "picture.js",
    "controls.js",
    "page.js",
)


def render(document: Mapping[str, Any]) -> str:
    """The page of a report.

    Args:
        document: ``Report.document()``: the object that ``grpo-plan report --json`` prints. Its text may come from
            anywhere: all of it is shown as text.

    Returns:
        The whole HTML file. The same document gives the same text.
    """
    style = _asset("page.css")
    data = for_script(document)
    script = "".join(['"use strict";\n(() => {\n', *(_asset(name) for name in SCRIPTS), "})();\n"])
    return _environment().get_template("page.html.j2").render(
        **contents(document),
        data=data,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
    ) + "\n"  # fmt: skip


def for_script(document: Mapping[str, Any]) -> str:
    r"""JSON that cannot end the element that holds it, nor be read as markup.

    >>> for_script({"name": "</script><b>&"})
    '{"name":"\\u003c/script\\u003e\\u003cb\\u003e\\u0026"}'
    """
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 and the like are escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("grpo_plan.report.page").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters |= {
        "markup": Markup,
        "short": short,
        "rate": rate,
        "limits": limits,
        "count_limits": count_limits,
        "settings": without_fields,
        "interval": interval,
        "amount": amount,
        "whole": whole,
        "few": few,
        "percent": percent,
        "chance": chance,
        "plain": plain,
        "unsnake": unsnake,
        "sentence": once,
        "cost_words": cost_words,
        "day": day,
    }
    environment.globals |= {"few": few, "amount": amount, "whole": whole}
    return environment
