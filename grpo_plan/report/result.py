"""A finished report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from grpo_plan._files import write_whole
from grpo_plan._shown import Shown


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report(Shown):
    """A report of one pilot, one run, or both.

    Attributes:
        title: What it is of.
        missing: Section to the reason why it is not there.
    """

    title: str
    missing: Mapping[str, str]
    _document: Mapping[str, Any] = field(repr=False)

    def document(self) -> dict[str, Any]:
        """Everything as one JSON object (docs/report.md): finite numbers, null where unknown."""
        copy: dict[str, Any] = json.loads(self.text())
        return copy

    def text(self) -> str:
        """The same as compact text; unknown is null, NaN is a bug and raises."""
        return json.dumps(self._document, allow_nan=False, separators=(",", ":"))

    def html(self) -> str:
        """The whole page: one file that needs nothing else."""
        from grpo_plan.report.page import render

        return render(self._document)

    def write(self, path: str | PathLike[str]) -> Path:
        """Write the page, whole or not at all; a file that is there is replaced.

        Raises:
            OSError: It cannot be written.
        """
        target = Path(path)
        write_whole(target, self.html())
        return target
