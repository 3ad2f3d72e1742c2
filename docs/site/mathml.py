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
_STARRED = re.compile(r"\\operatorname\*\{arg\\,(max|min)\}(_)")
_BRACE = re.compile(r"<msub>(\s*)(<munder>.*?<mo>⏟</mo>\s*</munder>)(.*?)</msub>", re.DOTALL)  # its label goes below
_BAR = '<mo stretchy="false">|</mo>'
WRITTEN = {  # what docutils writes and browsers draw wrongly
    _BAR: '<mo stretchy="false" lspace="0" rspace="0">|</mo>',  # |x|, not a | b
    '<mo class="mathopen">‖</mo>': '<mo stretchy="false" lspace="0" rspace="0">‖</mo>',
    "<mo>‖</mo>": '<mo stretchy="false" lspace="0" rspace="0">‖</mo>',
    '<mo accent="true">_</mo>': '<mo stretchy="true">¯</mo>',
    '<mo accent="true">^</mo>': '<mo stretchy="true">&#x302;</mo>',  # a wide hat: the sign that fonts can stretch
    r"\_": "_",
    r"\^{}": "^",
}
# A line over several letters: drawn by the style sheet (class overline), as few fonts stretch the sign.
_LINE = re.compile(
    r'<mover accent="false">((?:(?!<mover accent="false">).)*?)<mo stretchy="true">¯</mo>\s*</mover>', re.DOTALL
)
_COMMAND = re.compile("(" + "|".join(re.escape(name) for name in SPELLED) + ")(?![A-Za-z])")
_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_ONE = rf"(?:{_GROUP}|\\[A-Za-z]+|[A-Za-z0-9])"
_FRACTION = re.compile(rf"\\([td]?frac|[td]?binom)\s*({_ONE})\s*({_ONE})")
_ACCENT = re.compile(rf"\\(hat|bar|tilde|widehat|widetilde|overline)(?![A-Za-z])\s*({_ONE})")
_PRIMES = re.compile(rf"('+)(?:\^({_ONE}))?")
_FUNCTION = re.compile(r"<mi>(log|ln|exp|sin|cos|arcsin|arccos|det|dim)</mi>(?=(\s*<mo[^>]*>\()?)")
_CUT = re.compile(r"\\(?:left|right|begin|end|q?quad)(?![A-Za-z])|(?<!\\)[{}]")
_LOGGER = logging.getLogger(__name__)


def braced(source: str) -> str:
    r"""An equation as docutils needs it: arguments of fractions and accents in braces, primes as superscripts.

    >>> braced(r"\tfrac12\log x + \hat g_m^2")
    '\\tfrac{1}{2}\\log x + {\\hat{g}{}}_m^2'
    >>> braced("d_G''(p) + q'^k + A'_i")
    'd_G^{\\prime\\prime}(p) + q^{\\prime k} + A^{\\prime}_i'
    """
    source = _COMMAND.sub(lambda match: SPELLED[match.group(1)], source.strip())
    source = _STARRED.sub(r"\\mathrm{arg}\\,\\\1\2", source)
    source = _PRIMES.sub(_primed, source)
    return _arguments(source)


def _arguments(source: str) -> str:
    source = _FRACTION.sub(lambda m: rf"\{m.group(1)}{_in_braces(m.group(2))}{_in_braces(m.group(3))}", source)
    return _ACCENT.sub(lambda m: rf"{{\{m.group(1)}{_in_braces(m.group(2))}{{}}}}", source)


def _in_braces(argument: str) -> str:
    inner = argument[1:-1] if argument.startswith("{") else argument
    return "{" + (_arguments(inner) if inner is not argument else inner) + "}"


def _primed(match: re.Match[str]) -> str:
    marks, power = match.groups()
    beside = "" if power is None else " " + (power[1:-1] if power.startswith("{") else power)
    return "^{" + r"\prime" * len(marks) + beside + "}"


def to_mathml(source: str, *, block: bool) -> str:
    r"""MathML of one equation, with the names of functions spaced from what stands beside them.

    >>> print(to_mathml(r"p^G", block=False).replace("\n", "").replace("  ", ""))
    <math xmlns="http://www.w3.org/1998/Math/MathML"><msup><mi>p</mi><mi>G</mi></msup></math>
    >>> 'class="overline"' in to_mathml(r"\overline{x^2}", block=False)
    True
    >>> "\u005e" in to_mathml(r"\widehat{\text{all}}", block=False)
    False
    """

    def spaced(match: re.Match[str]) -> str:
        after = "0" if match.group(2) else "0.17em"
        return f'<mo lspace="0.17em" rspace="{after}">{match.group(1)}</mo>'

    text = str(tex2mathml(braced(source), as_block=block))
    for old, new in WRITTEN.items():
        text = text.replace(old, new)
    text = _LINE.sub(r'<mrow class="overline">\1</mrow>', text)
    return _FUNCTION.sub(spaced, _BRACE.sub(r"<munder>\1\2\3</munder>", text))


def pieces(source: str) -> list[str]:
    r"""An equation cut where it is spaced out (``\quad``, ``\qquad``) outside all brackets: there a line may end.

    >>> pieces(r"a = 1, \qquad b = \left(2 \quad 3\right)")
    ['a = 1,', 'b = \\left(2 \\quad 3\\right)']
    """
    found, at, depth = [], 0, 0
    for match in _CUT.finditer(source):
        word = match.group()
        if word in (r"\quad", r"\qquad"):
            if depth == 0:
                found.append(source[at : match.start()].strip())
                at = match.end()
        else:
            depth += 1 if word in ("{", r"\left", r"\begin") else -1
    return [piece for piece in (*found, source[at:].strip()) if piece]


def _shown(node: nodes.Element, *, block: bool) -> str:
    try:
        parts = pieces(node.astext()) if block else [node.astext()]
        return "\n".join(to_mathml(part, block=block) for part in parts)
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
