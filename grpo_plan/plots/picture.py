"""A figure that shows itself in a notebook; loads matplotlib, so it is imported where figures are made."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

NOTEBOOK_DPI = 110


class Picture(Figure):
    """A figure of no window. Where it ends a cell of a notebook it is shown, whether or not pyplot is in use."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        options: dict[str, Any] = {"format": "png", "dpi": NOTEBOOK_DPI, "metadata": {"Software": None}}
        self.savefig(picture, **options)
        return picture.getvalue()
