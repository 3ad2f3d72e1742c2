"""What the site adds to the plain pages while it is built: contents, docstrings, the change log, links to names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from api_groups import GROUPS
from contents import SHORT, existing
from docutils import nodes
from reference import BEGIN, END, on_the_site
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import grpo_plan

ROOT = Path(__file__).resolve().parents[2]
PAGES = {f"api/{group.slug}": group for group in GROUPS}


def _toctree(pages: list[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


_README = re.compile(r"\]\((?:\.\./)+README\.md(?:#[^)]*)?\)")


def complete(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Complete the text of a page before it is read; the front page stands for README."""
    source[0] = _README.sub(f"]({'../' * docname.count('/')}index.md)", source[0])
    if docname == "index":
        for heading, pages in existing().items():
            source[0] += _toctree([f"{SHORT[p]} <{p}>" if p in SHORT else p for p in pages], heading)
    elif docname == "api":
        source[0] += _toctree(list(PAGES))
    elif docname in PAGES:
        before, _, rest = source[0].partition(BEGIN)
        source[0] = before + on_the_site(PAGES[docname]) + rest.partition(END)[2]
    elif docname == "changelog":
        source[0] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element) -> Any:
    """Lead a public name that stands alone, such as an error that a method raises, to its entry."""
    name = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or name not in grpo_plan.__all__:
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", f"grpo_plan.{name}", node, content)


def outdated(_app: Sphinx, _env: BuildEnvironment, _added: set[str], _changed: set[str], _gone: set[str]) -> list[str]:
    """Pages that are made of more than their own file are read anew in every build."""
    return ["index", "api", "changelog", *PAGES]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect them."""
    app.connect("env-get-outdated", outdated)
    app.connect("source-read", complete)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
