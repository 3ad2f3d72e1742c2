"""Answers that go to a file."""

from __future__ import annotations

from pathlib import Path

from grpo_plan._files import write_whole
from grpo_plan.errors import DomainError


def write_text(target: Path, text: str, shown: str, option: str = "--output") -> None:
    """Write an answer, whole or not at all.

    Args:
        target: Where to.
        text: The answer.
        shown: The path as it was given.
        option: The option that gave it.

    Raises:
        DomainError: It cannot be written.
    """
    try:
        write_whole(target, text)
    except OSError as error:
        where = f"{option} {shown}" if option else shown
        raise DomainError(f"{where} cannot be written ({error.strerror or error}). Give another place.") from None
