"""Links that plain Markdown does not carry: from equation numbers to equations, from code names to the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx

import grpo_plan

_HEADING = re.compile(r"Eq\. (\d+)\. ")
_CITED = re.compile(r"\beq\. (\d+)")
_CODE = re.compile(r"(?:gp|grpo_plan)\.(?:([a-z_.]+)\.)?(\w+)(?:\(.*)?")
LONG = 36  # characters of a word of code that stay on one line
_SKIPPED = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.math, nodes.math_block)


def number(app: Sphinx, doctree: nodes.document) -> None:
    """Keep where each equation is, when the page of theory was read."""
    if app.env.docname != "theory":
        return
    places = {}
    for section in doctree.findall(nodes.section):
        if match := _HEADING.match(section.next_node(nodes.title).astext()):  # type: ignore[union-attr]
            places[match.group(1)] = section["ids"][0]
    app.env.grpo_plan_equations = places  # type: ignore[attr-defined]


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the links into a page that is about to be written."""
    places: dict[str, str] = getattr(app.env, "grpo_plan_equations", {})
    base = app.builder.get_relative_uri(docname, "theory")
    for text in [node for node in doctree.findall(nodes.Text) if _free(node)]:
        if docname == "theory" or _speaks_of_theory(text):
            pieces = list(_linked(str(text), base, places))
            if len(pieces) > 1:
                text.parent.replace(text, pieces)
    for text in [node for node in doctree.findall(nodes.Text) if str(node) == " -- "]:  # after a parameter's name
        text.parent.replace(text, nodes.Text(" \N{EN DASH} "))
    objects = app.env.domains["py"].objects  # type: ignore[attr-defined]
    for literal in list(doctree.findall(nodes.literal)):
        if max(map(len, literal.astext().split()), default=0) > LONG:
            literal["classes"].append("long")  # may be broken, see site.css
        match = _CODE.fullmatch(literal.astext())
        if match is None or isinstance(literal.parent, nodes.reference) or match.group(2) not in grpo_plan.__all__:
            continue
        name = f"grpo_plan.{match.group(2)}"
        if name in objects:
            uri = f"{app.builder.get_relative_uri(docname, objects[name].docname)}#{objects[name].node_id}"
            reference = nodes.reference("", "", internal=True, refuri=uri)
            literal.parent.replace(literal, reference)
            reference += literal


def _free(text: nodes.Text) -> bool:
    parent = text.parent
    while parent is not None:
        if isinstance(parent, _SKIPPED):
            return False
        parent = parent.parent
    return True


def _speaks_of_theory(text: nodes.Text) -> bool:
    """Whether the equations named are those of theory.md: it is named in the same paragraph."""
    return "theory.md" in text.parent.astext()


def _linked(text: str, base: str, places: dict[str, str]) -> Iterator[nodes.Node]:
    at = 0
    for match in _CITED.finditer(text):
        if match.group(1) in places:
            yield nodes.Text(text[at : match.start()])
            uri = f"{base}#{places[match.group(1)]}"
            yield nodes.reference("", match.group(), internal=True, refuri=uri)
            at = match.end()
    yield nodes.Text(text[at:])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect them."""
    app.connect("doctree-read", number)
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
