r"""Equations of the site as MathML, which browsers draw themselves: no script, no font and no network.

The conversion is that of docutils. A command that it does not know ends a strict build, with the equation named.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

# What the pages use and docutils spells otherwise.
SPELLED = {r"\dots": r"\ldots", r"\iff": r"\Longleftrightarrow", r"\Big": r"\Bigl", r"\big": r"\bigl"}
_COMMAND = re.compile("(" + "|".join(re.escape(name) for name in SPELLED) + ")(?![A-Za-z])")
_LOGGER = logging.getLogger(__name__)


def to_mathml(source: str, *, block: bool) -> str:
    r"""MathML of one equation.

    >>> to_mathml(r"p^G", block=False)
    '<math xmlns="http://www.w3.org/1998/Math/MathML">\n  <msup>\n    <mi>p</mi>\n    <mi>G</mi>\n  </msup>\n</math>'
    """
    return str(tex2mathml(_COMMAND.sub(lambda match: SPELLED[match.group(1)], source.strip()), as_block=block))


def _shown(node: nodes.Element, *, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block=block)
    except MathError as error:
        _LOGGER.warning("equation not understood: %s: %s", error, node.astext(), location=node, type="mathml")
        return f"<code>{nodes.unescape(node.astext())}</code>"


def visit_inline(self: Any, node: nodes.Element) -> None:
    """Write an equation within a line."""
    self.body.append(_shown(node, block=False))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.Element) -> None:
    """Write an equation of its own line, which scrolls where the page is narrower than it."""
    self.body.append(self.starttag(node, "div", CLASS="equation"))
    self.body.append(_shown(node, block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))  # type: ignore[arg-type]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
