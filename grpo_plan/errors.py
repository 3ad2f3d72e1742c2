"""Exception tree: one base, and leaves that also are the builtin they refine.

Messages have one form: name and rule; the value and where it was found. The next step.
"""

from __future__ import annotations

from typing import ClassVar

MAX_MESSAGE = 2000


def one_line(text: str) -> str:
    r"""Text without line breaks and control characters, which a file or column name may hold.

    >>> one_line("a\nb")
    'a?b'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def sentences(*texts: str) -> tuple[str, ...]:
    """Each sentence once, as one line."""
    return tuple(dict.fromkeys(map(one_line, texts)))


def _short(message: str) -> str:
    """A message without its middle where names in it are endless; the next step at its end stays."""
    return (
        message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE // 2]} ... {message[-MAX_MESSAGE // 2 :]}"
    )


class GrpoPlanError(Exception):
    """Base of every error that grpo-plan raises on purpose; its message is one line that can be printed.

    Attributes:
        exit_code: Exit status of the command line when this error ends a command.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_short(one_line(a)) if isinstance(a, str) else a for a in arguments))


class DomainError(GrpoPlanError, ValueError):
    """An argument lies outside its domain (a usage error)."""

    exit_code: ClassVar[int] = 2


class PilotFormatError(GrpoPlanError, ValueError):
    """A pilot file or table cannot be read as rollouts or counts."""


class PilotError(GrpoPlanError, ValueError):
    """A pilot was read, but it cannot answer the question asked of it."""


class PlanFormatError(GrpoPlanError, ValueError):
    """A plan file cannot be read as a plan."""


class FitError(GrpoPlanError, RuntimeError):
    """A fit did not reach its optimum."""


class InfeasiblePlanError(GrpoPlanError, ValueError):
    """No design satisfies the budget and the constraints."""

    exit_code: ClassVar[int] = 3


class MissingExtraError(GrpoPlanError, ImportError):
    """An optional dependency is needed and not installed."""
