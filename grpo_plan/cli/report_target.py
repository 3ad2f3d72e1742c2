"""Where a report goes, what date it bears, and the words of a command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_plan.cli.pilot_options import PilotRequest
from grpo_plan.cli.plot import probe_write
from grpo_plan.errors import DomainError
from grpo_plan.report.words import number

SUFFIXES = (".html", ".htm")
PLAIN_PAGE = "report.html"


def page_target(output: str | None, requests: Sequence[PilotRequest], others: Sequence[str]) -> Path:
    """Where the page can be written: an HTML file in a folder that takes files, and none of the inputs.

    Args:
        output: As given; None: report.html in this folder.
        requests: What is read.
        others: Further files that are read.

    Raises:
        DomainError: It cannot be written there.
    """
    shown = PLAIN_PAGE if output is None else output
    target = Path(shown)
    if target.suffix.lower() not in SUFFIXES:
        raise DomainError(f"--output must end in .html; got {shown!r}. For the numbers alone give --json.")
    try:
        if target.exists() and not target.is_file():
            raise DomainError(f"--output {shown} is no regular file. Give another name.")
        known = [name for name in others if target.exists() and Path(name).exists() and target.samefile(name)]
        if known or any(request.holds(target) for request in requests):
            raise DomainError(f"--output {shown} is an input file, and inputs are never written to. Give another name.")
        if not target.parent.is_dir():
            raise DomainError(f"--output {shown} cannot be written (no such folder). Give another place.")
        probe_write(target)
    except OSError as error:
        raise DomainError(f"--output {shown} cannot be written ({error.strerror}). Give another place.") from None
    return target


def made_at(date: str | None) -> datetime:
    """The date that a report bears: as given, else SOURCE_DATE_EPOCH, else now.

    >>> made_at("2025-01-31").isoformat()
    '2025-01-31T00:00:00+00:00'
    """
    if date is not None:
        try:
            found = datetime.fromisoformat(date)
        except ValueError:
            raise DomainError(f"--date must be a date, e.g. 2025-01-31 or 2025-01-31T12:00; got {date!r}.") from None
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        try:
            return datetime.fromtimestamp(int(epoch), UTC)
        except (ValueError, OverflowError, OSError):
            raise DomainError(
                f"SOURCE_DATE_EPOCH must be whole seconds since 1970; got {epoch[:40]!r}. Unset it, or give --date."
            ) from None
    return datetime.now(UTC)


def parse_thresholds(text: str | None) -> tuple[float, ...]:
    """``0.5,0.8`` as numbers, each once.

    >>> parse_thresholds("0.5, 0.8,0.5"), parse_thresholds(None)
    ((0.5, 0.8), ())
    """
    if text is None:
        return ()
    try:
        found = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or any(value != value or value in (float("inf"), float("-inf")) for value in found):
        raise DomainError(f"--thresholds must be numbers separated by commas, e.g. 0.5,0.8,1; got {text!r}.")
    return found


class Given:
    """Options that a person gave, as words."""

    def __init__(self, context: Any) -> None:
        self._parameters = [
            (p, context.params[p.name])
            for p in context.command.params
            if p.param_type_name == "option"
            and p.name in context.params
            and context.get_parameter_source(p.name).name != "DEFAULT"
        ]

    def words(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of these names, in the order of the help."""
        found: list[str] = []
        for parameter, value in self._parameters:
            if parameter.name not in names or value is None:
                continue
            option = max(parameter.opts, key=len)
            if isinstance(value, bool):
                found += [option] if value else []
            elif isinstance(value, list | tuple):
                found += [word for item in value for word in (option, str(item))]
            else:
                found += [option, number(value) if isinstance(value, float) else str(value)]
        return tuple(found)
