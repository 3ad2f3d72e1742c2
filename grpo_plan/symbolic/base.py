"""What the symbolic equations share."""

from __future__ import annotations

from typing import Any, TypeAlias

import sympy as sp

Expr: TypeAlias = Any  # SymPy ships no types


def exact(value: Any) -> Expr:
    """The value as a SymPy object; a float becomes the rational number that its bits mean.

    >>> exact(0.25)
    1/4
    """
    return sp.Rational(value) if isinstance(value, float) else sp.sympify(value)
