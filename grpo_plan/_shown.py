"""`Shown`: what every result has in common: one line, a table in notebooks, a dataframe."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import polars as pl

LONGEST_LINE = 300  # characters of a repr


class Shown:
    """Base of the result types. What they show is said in `grpo_plan.shown`, which is loaded when first asked."""

    __slots__ = ()

    def __str__(self) -> str:
        """The answer in words."""
        return str(_page().headline(self))

    def __repr__(self) -> str:
        """Name of the type and the answer, in one line."""
        line = " ".join(str(_page().headline(self)).split())
        return f"<{type(self).__name__}: {line if len(line) <= LONGEST_LINE else f'{line[:LONGEST_LINE]}...'}>"

    def _repr_html_(self) -> str:
        """The answer and a small table, for notebooks."""
        return str(_page().html(self))

    def _repr_markdown_(self) -> str:
        """The same in Markdown."""
        return str(_page().markdown(self))

    @overload
    def to_frame(self, backend: Literal["polars"] = "polars") -> pl.DataFrame: ...

    @overload
    def to_frame(self, backend: str) -> Any: ...

    def to_frame(self, backend: str = "polars") -> Any:
        """The numbers as a dataframe; docs/frames.md lists the columns of each result with their units.

        Args:
            backend: "polars"; or "pandas" or "pyarrow", where these are installed.

        Returns:
            A dataframe in which null means unknown: it holds no NaN.

        Raises:
            DomainError: No such backend.
            MissingExtraError: The backend is not installed.
        """
        return import_module("grpo_plan.shown.frames").frame(self, backend)


def _page() -> Any:
    return import_module("grpo_plan.shown.page")  # by name: what is shown of all results lies above them
